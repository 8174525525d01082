"""The system and its filesystems, the variables of a session, and the cases of each check, which
the site's suites name."""

import inspect
from functools import cache, partial
from math import ceil

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, variable
from reframe.core.meta import make_test

from iowatch.base.files import UserError
from iowatch.cases.filesystem import ALL_SUITES, NIGHTLY, Setting, is_ours
from iowatch.cases.parameters import LAYOUT
from iowatch.measure.case_ids import parse_case
from iowatch.measure.checks import CHECKS
from iowatch.site.suites import cases, read_filesystem

CONFIG = rt.runtime().site_config
SYSTEM = rt.runtime().system
UNKNOWN = "generic"  # what ReFrame takes a host for that no system names


def _filesystems():
    """Return the filesystem of each partition that is ours. A mistake there ends ReFrame with one
    line: ReFrame would answer an error with a traceback, or skip the checks and exit with 0."""
    try:
        ours = [part for part in SYSTEM.partitions if is_ours(part.extras)]
        if not ours and SYSTEM.name == UNKNOWN:  # by itself ReFrame runs nothing, and ends with 0
            raise UserError("no system that is configured has this host: name one with --system")
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
def promised(suite):
    """Count the cases that a suite of the whole system has; 0 if only one partition was chosen."""
    is_whole = ":" not in CONFIG.subconfig_system
    return len(cases(FILESYSTEMS.values(), suite)) if is_whole else 0


class SessionVariables(rfm.RegressionTestPlugin):
    """Variables that a session sets for all of its tests: ReFrame would warn of each test, and each
    fixture, without them."""

    #: The site's list of cases to measure.
    #:
    #: :default: ``nightly``; ``acceptance`` with ``--mode=acceptance``, ``hourly`` likewise
    suite = variable(typ.Str["|".join(ALL_SUITES)], value=NIGHTLY)
    #: Take up the jobs of this night that a session which was killed has left.
    #:
    #: :default: ``False``; ``iowatch run --resume`` sets it
    resumes = variable(typ.Bool, value=False)
    #: Accept a case without reference values: a new site's first nights.
    #:
    #: :default: ``False``
    record = variable(typ.Bool, value=False)
    #: The OSTs that are away on purpose, such as ``fs3:7,fs3:9``, as an acceptance test may ask.
    #:
    #: :default: none; ``iowatch run --away`` sets it
    away = variable(str, value="", loggable=True)
    #: What is killed on purpose while the session runs, such as ``fs3:client``.
    #:
    #: :default: nothing; ``iowatch run --death`` sets it
    death = variable(str, value="", loggable=True)


@cache
def _asked(partition, suite, check):
    """Return the settings of a check that a suite asks for at a partition, by the tails of their
    cases."""
    settings = FILESYSTEMS[partition].settings(suite, CHECKS[check])
    return {setting.text: setting for setting in settings}


@cache
def _all_asked(check):
    """Return the tails of all cases of a check that any suite of this system has."""
    return frozenset(
        tail
        for place in FILESYSTEMS
        for suite in ALL_SUITES
        for tail in _asked(place, suite, check)
    )


def in_suites(cls):
    """Register a check with ReFrame: a test for each setting that a suite of this system names.

    The variable `setting` is the tail of a case id, such as
    `backend=hdf5/local_size=8x8x8/ranks=4`.
    """
    tails = sorted(_all_asked(cls.__name__))
    if not tails:
        return cls
    setting = parameter(tails, type=partial(_tail, cls.__name__))
    descr = " ".join((inspect.getdoc(cls) or cls.__name__).partition("\n\n")[0].split())
    body = {"setting": setting, "descr": descr}
    return rfm.simple_test(make_test(cls.__name__, (cls,), body, module=cls.__module__))


def _case(check, tail):
    """Return the case of a check with this tail, at any place; ValueError if there is none."""
    return parse_case(f"any:any/any/{check}/{tail}")


def _tail(check, text):
    """Convert what `-P` gives as the setting of a check."""
    _case(check, text)
    return text


def asking(test):
    """Return the partitions where the suite of a test asks for its setting.

    A setting from `-P` that no suite has goes wherever files can have the layout that it names.
    """
    check = type(test).__name__
    if test.setting in _all_asked(check):
        return [place for place in FILESYSTEMS if test.setting in _asked(place, test.suite, check)]
    if LAYOUT not in CHECKS[check].parameters:
        return [*FILESYSTEMS]
    has_layout = bool(_case(check, test.setting).stripes)
    return [name for name, place in FILESYSTEMS.items() if (place.osts is not None) == has_layout]


def setting_of(test):
    """Return the setting of a test at its partition. A setting from `-P` that no suite has gets as
    many ranks on a node as the site's file says."""
    check, place = type(test).__name__, FILESYSTEMS[test.current_partition.name]
    if asked := _asked(place.partition, test.suite, check).get(test.setting):
        return asked
    case = _case(check, test.setting)
    per_node = min(case.ranks, place.ranks_per_node)
    return Setting(
        check=CHECKS[check],
        nodes=ceil(case.ranks / per_node),
        ranks_per_node=per_node,
        parameters=case.parameters,
    )
