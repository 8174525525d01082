"""The parameters of the checks: their values come from the sweeps of the site's filesystems."""

from dataclasses import fields
from functools import cache

import reframe.core.runtime as rt
from reframe.core.builtins import parameter
from reframe.core.meta import make_test

from iowatch.case import format_size, parse_size
from iowatch.checks import Setting
from iowatch.site import read_filesystem

SYSTEM = rt.runtime().system
FILESYSTEMS = {
    part.name: read_filesystem(
        SYSTEM.name,
        part.name,
        [environ.name for environ in part.environs],
        part.extras,
        rt.runtime().site_config.sources,
    )
    for part in SYSTEM.partitions
}


@cache
def offered(check, name):
    """All values that any sweep of this system gives to a parameter of a check."""
    values = {
        getattr(setting, name)
        for filesystem in FILESYSTEMS.values()
        for sweep in filesystem.sweeps
        for setting in filesystem.settings(sweep, check)
    }
    write = format_size if name == "local_size" else lambda value: value
    return tuple(map(write, sorted(values, key=lambda value: (value is not None, value))))


def swept(cls):
    """Give the parameters of a check the values that the sweeps of this system name for it.

    The values of all checks together would make thousands of tests that belong nowhere. A check
    that no sweep names has the value None everywhere, and no system that is valid.
    """
    values = {
        name: parameter(offered(cls.__name__, name) or [None], type=undefined.type)
        for name, undefined in cls.raw_params.items()
    }
    return make_test(cls.__name__, (cls,), values, module=cls.__module__)


def asking(test):
    """The partitions where the sweep of a test asks for its setting.

    Values from -P go wherever the other parameters do, stripes only to where there are any.
    """
    cls = type(test)
    check = cls.__name__
    if not offered(check, "nodes"):
        return []
    # ReFrame adds parameters of its own, such as for --repeat.
    ours = {field.name for field in fields(Setting)}.intersection(cls.raw_params)
    given = frozenset(p for p in ours if cls.raw_params[p].values != offered(check, p))
    return [
        partition
        for partition in FILESYSTEMS
        if _without(given, test.setting) in _asked(partition, test.sweep, check, given)
    ]


@cache
def _asked(partition, sweep, check, given):
    settings = FILESYSTEMS[partition].settings(sweep, check)
    return {_without(given, setting) for setting in settings}


def _without(given, setting):
    """A setting without the values of the parameters `given`, but with whether there are any."""
    return tuple(value is None if name in given else value for name, value in vars(setting).items())


def full_size(text):
    """A size with its three edges written out, so that one size has one test name and hash."""
    return format_size(parse_size(text))
