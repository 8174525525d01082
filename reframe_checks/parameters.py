"""The system, its filesystems, and the parameters of the checks, which the site's sweeps give."""

from functools import cache

import reframe.core.runtime as rt
from reframe.core.builtins import parameter
from reframe.core.meta import make_test

from iowatch.checks import (
    CHECKS,
    LAYOUT,
    LOCAL_SIZE,
    format_layout,
    format_size,
    parse_layout,
    parse_size,
)
from iowatch.files import UserError
from iowatch.site import Setting, cases, is_ours, read_filesystem, require_no_misspelt

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


_WAYS = {way.name: way for check in CHECKS.values() for way in check.ways}


@cache
def offered(check, name):
    """All values that any sweep of this system gives to a parameter of a check."""
    values = {
        _value(setting, name)
        for filesystem in FILESYSTEMS.values()
        for sweep in filesystem.sweeps
        for setting in filesystem.settings(sweep, CHECKS[check])
    }
    if way := _WAYS.get(name):
        return tuple(sorted(map(way.format, values)))
    write = format_size if name == LOCAL_SIZE.name else lambda value: value
    return tuple(
        None if value is None else write(value)
        for value in sorted(values, key=lambda value: (value is not None, value))
    )


def _value(setting, name):
    """Of a parameter of a test, which has one for all that a case says of its layout: as many, most
    of their combinations would be none."""
    return format_layout(setting.get) if name == LAYOUT.name else setting.get(name)


def swept(cls):
    """Give the parameters of a check the values that the sweeps of this system name for it.

    ReFrame's own parameters have one list of values for all classes that inherit them, and all
    checks together would make thousands of tests that belong nowhere. A check that no sweep names
    has the value None everywhere, and no system that is valid. A way of writing is a parameter only
    where a sweep names another than benchio's own: else it would make the names of tests longer.
    """
    values = {
        name: parameter(offered(cls.__name__, name) or [None], type=undefined.type)
        for name, undefined in cls.raw_params.items()
    }
    for way in CHECKS[cls.__name__].ways:
        if set(texts := offered(cls.__name__, way.name)) - {way.format(way.default)}:
            values[way.name] = parameter(texts, type=_reader(way))
    return make_test(cls.__name__, (cls,), values, module=cls.__module__)


def asking(test):
    """The partitions where the sweep of a test asks for its setting.

    Values from -P go wherever the other parameters do, a layout only to where there are any.
    """
    cls = type(test)
    if not offered(cls.__name__, "nodes"):
        return []
    # ReFrame adds parameters of its own, such as for --repeat.
    ours = frozenset(name for name in cls.raw_params if offered(cls.__name__, name))
    given = frozenset(p for p in ours if cls.raw_params[p].values != offered(cls.__name__, p))
    setting = _without(given, test.setting, ours)
    return [
        partition
        for partition in FILESYSTEMS
        if setting in _asked(partition, test.sweep, cls.__name__, given, ours)
    ]


@cache
def _asked(partition, sweep, check, given, ours):
    settings = FILESYSTEMS[partition].settings(sweep, CHECKS[check])
    return {_without(given, setting, ours) for setting in settings}


def _without(given, setting, ours):
    """A setting without the values of the parameters `given`, but with whether it has a layout."""
    values = ((name, _value(setting, name)) for name in sorted(ours))
    return tuple(
        (name, name == LAYOUT.name and value is None if name in given else value)
        for name, value in values
    )


def setting_of(test):
    """The setting that the parameters of a test make."""
    values = {name: getattr(test, name) for name in type(test).raw_params}
    if values.get(LOCAL_SIZE.name) is not None:
        values[LOCAL_SIZE.name] = parse_size(values[LOCAL_SIZE.name])
    if (layout := values.pop(LAYOUT.name, None)) is not None:
        values |= parse_layout(layout)
    for name in values.keys() & _WAYS.keys():
        values[name] = _WAYS[name].read(_WAYS[name].parse(values[name]))
    return Setting.of(CHECKS[type(test).__name__], values)


def _reader(way):
    """For `-P`: a value of a way, in the one form that a case id has it in."""
    return lambda text: way.format(way.read(way.parse(text)))


def layout_or_none(text):
    """A layout in a word; `none` means that the filesystem is not striped."""
    return None if text == "none" else format_layout(parse_layout(text).get)


def full_size(text):
    """A size with its three edges written out, so that one size has one test name and hash."""
    return format_size(parse_size(text))


def int_or_none(text):
    """A number; `none` means that there is none."""
    return None if text == "none" else int(text)
