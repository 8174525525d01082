"""The system, its filesystems, what a session is told, and the parameters of the checks, which the
site's sweeps give."""

from functools import cache, partial

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, variable
from reframe.core.meta import make_test

from iowatch.files import UserError
from iowatch.kinds import CHECKS
from iowatch.parameters import (
    LAYOUT,
    LOCAL_SIZE,
    format_layout,
    format_size,
    parse_layout,
    parse_size,
)
from iowatch.site import (
    NIGHTLY,
    SWEEPS,
    Setting,
    cases,
    is_ours,
    read_filesystem,
    require_no_misspelt,
)

from .reframe_4_10 import register

CONFIG = rt.runtime().site_config
SYSTEM = rt.runtime().system
UNKNOWN = "generic"  # what ReFrame takes a host for that no system names


def _filesystems():
    """The filesystem of each partition that is ours. A mistake there ends ReFrame with one line: an
    error would be a traceback; one of ReFrame's own would only skip the checks, and exit with 0."""
    try:
        ours = [part for part in SYSTEM.partitions if is_ours(part.extras)]
        if not ours and SYSTEM.name == UNKNOWN:  # by itself ReFrame runs nothing, and ends with 0
            raise UserError("no system that is configured has this host: name one with --system")
        for environ in (environ for part in ours for environ in part.environs):
            require_no_misspelt(SYSTEM.name, environ.name, environ.extras, CONFIG.sources)
        return {
            part.name: read_filesystem(
                SYSTEM.name,
                part.name,
                [environ.name for environ in part.environs],
                part.extras,
                CONFIG.sources,
            )
            for part in ours
        }
    except UserError as err:
        raise SystemExit(f"error: {err}") from None


FILESYSTEMS = _filesystems()


@cache
def promised(sweep):
    """How many cases a sweep of the whole system has; 0 if only one partition was chosen."""
    is_whole = ":" not in CONFIG.subconfig_system
    return len(cases(FILESYSTEMS.values(), sweep)) if is_whole else 0


class OfSession(rfm.RunOnlyRegressionTest):
    """A test with the variables that a session sets for all of its tests: ReFrame would warn of
    each one that has not got them, and of each fixture."""

    #: The site's list of cases to measure.
    #:
    #: :default: ``nightly``; ``acceptance`` with ``--mode=acceptance``
    sweep = variable(typ.Str["|".join(SWEEPS)], value=NIGHTLY)

    #: Take up the jobs of this night that a session which was killed has left.
    #:
    #: :default: ``False``; ``iowatch nightly --resume`` sets it
    resumes = variable(typ.Bool, value=False)

    #: Accept a case without reference values: a new site's first nights.
    #:
    #: :default: ``False``
    record = variable(typ.Bool, value=False)

    #: The OSTs that are away on purpose, such as ``fs3:7,fs3:9``, as an acceptance test may ask.
    #:
    #: :default: none; ``iowatch nightly --away`` sets it
    away = variable(str, value="", loggable=True)

    #: What is killed on purpose while the session runs, such as ``fs3:client``.
    #:
    #: :default: nothing; ``iowatch nightly --death`` sets it
    death = variable(str, value="", loggable=True)


_WAYS = "ways"  # the parameter of a test that has all of its check's


@cache
def _settings(check):
    """All that any sweep of this system asks of a check."""
    return {
        setting
        for filesystem in FILESYSTEMS.values()
        for sweep in filesystem.sweeps
        for setting in filesystem.settings(sweep, CHECKS[check])
    }


@cache
def offered(check, name):
    """All values that they give to a parameter of a test."""
    values = {_value(setting, name) for setting in _settings(check)}
    return tuple(sorted(values, key=lambda value: (value is not None, value)))


def _value(setting, name):
    """Of a parameter of a test, which has one for all that a case says of its layout, and one for
    all of its ways: as many, most of their combinations would be none."""
    if name == LAYOUT.name:
        return format_layout(setting.get)
    if name == _WAYS:
        return setting.check.format_ways(setting.get)
    value = setting.get(name)
    return format_size(value) if value and name == LOCAL_SIZE.name else value


def swept(cls):
    """Register a check with ReFrame: a test for each setting that a sweep of this system names.

    ReFrame itself would register all combinations of their values, of which most belong nowhere.
    """
    check = CHECKS[cls.__name__]
    types = {name: undefined.type for name, undefined in cls.raw_params.items()}
    if check.ways:
        types[_WAYS] = partial(ways_or_none, check)
    values = {
        name: parameter(offered(check.name, name) or [None], type=read)
        for name, read in types.items()
    }
    test = make_test(cls.__name__, (cls,), values, module=cls.__module__)
    named = {tuple(_value(one, name) for name in test.raw_params) for one in _settings(check.name)}
    # No fixture has variants, so those of a test are the combinations of its parameters.
    for number, combination in enumerate(test.param_space):
        if combination in named:
            register(test, variant_num=number)
    return test


def asking(test):
    """The partitions where the sweep of a test asks for its setting.

    Values from -P go wherever the other parameters do, a layout only to where there are any.
    """
    cls = type(test)
    # ReFrame adds parameters of its own, such as for --repeat.
    ours = frozenset(name for name in cls.raw_params if offered(cls.__name__, name))
    given = frozenset(p for p in ours if cls.raw_params[p].values != offered(cls.__name__, p))
    setting = _without(given, {name: getattr(test, name) for name in ours})
    return [
        partition
        for partition in FILESYSTEMS
        if setting in _asked(partition, test.sweep, cls.__name__, given, ours)
    ]


@cache
def _asked(partition, sweep, check, given, ours):
    settings = FILESYSTEMS[partition].settings(sweep, CHECKS[check])
    return {_without(given, {name: _value(setting, name) for name in ours}) for setting in settings}


def _without(given, values):
    """Values of parameters without those of `given`, but with whether there is a layout."""
    return frozenset(
        (name, name == LAYOUT.name and value is None if name in given else value)
        for name, value in values.items()
    )


def setting_of(test):
    """The setting that the parameters of a test make."""
    check = CHECKS[type(test).__name__]
    values = {name: getattr(test, name) for name in type(test).raw_params}
    if values.get(LOCAL_SIZE.name) is not None:
        values[LOCAL_SIZE.name] = parse_size(values[LOCAL_SIZE.name])
    if (layout := values.pop(LAYOUT.name, None)) is not None:
        values |= parse_layout(layout)
    if (ways := values.pop(_WAYS, None)) is not None:
        values |= check.parse_ways(ways)
    return Setting.of(check, values)


def ways_or_none(check, text):
    """For `-P`: ways in the one form that a case id has them in; `none` means benchio's own."""
    return None if text == "none" else check.format_ways(check.parse_ways(text).get)


def layout_or_none(text):
    """A layout in a word; `none` means that the filesystem is not striped."""
    return None if text == "none" else format_layout(parse_layout(text).get)


def full_size(text):
    """A size with its three edges written out, so that one size has one test name and hash."""
    return format_size(parse_size(text))


def int_or_none(text):
    """A number; `none` means that there is none."""
    return None if text == "none" else int(text)
