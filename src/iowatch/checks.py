"""What each check varies, and the settings that a site's sweep asks of it.

They are computed here, once, for the checks (which measure them) and for the nightly gate (which
counts them).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from iowatch.case import Case, Size, format_size, parse_size

NIGHTLY = "nightly"
ACCEPTANCE = "acceptance"
SWEEPS = (NIGHTLY, ACCEPTANCE)

STRIPING = ("stripe_count", "stripe_size")
OPTIONAL = ("writers_per_node",)  # a sweep may say so; else those of the partition


@dataclass(frozen=True)
class Setting:
    """What tells the cases of one check on one filesystem apart."""

    backend: str
    stripe_count: int | None  # OSTs; -1: all of them; None: not striped
    stripe_size: int | None  # MiB; None: not striped
    local_size: Size  # elements per writer
    nodes: int
    writers_per_node: int
    files: str = "shared"
    instances: int | None = None


@dataclass(frozen=True)
class Check:
    """What a check measures, and the parameters for which a sweep must give it values."""

    operation: str = "write"
    parameters: tuple[str, ...] = ("backend", *STRIPING, "local_size", "nodes")
    fixed: Mapping[str, Any] = field(default_factory=dict)
    each_ost: bool = False
    ior_peer: bool = False
    optional: tuple[str, ...] = OPTIONAL
    backends: tuple[str, ...] = ()  # that it knows; none given: all


IOR_PEER = Check(
    optional=(*OPTIONAL, "files"),  # else shared
    ior_peer=True,
    backends=("mpiio", "hdf5", "pnetcdf", "stream"),  # of which IOR has the libraries
)

#: By the names of the classes in reframe_checks.
CHECKS = {
    "SharedFileWrite": Check(),
    "SharedFileRead": Check(operation="read"),
    "FilePerProcess": Check(parameters=(*Check.parameters, "files")),
    "SystemLoad": Check(parameters=(*Check.parameters, "instances")),
    "SlowOst": Check(
        parameters=("stripe_size", "local_size"),
        fixed={"backend": "mpiio", "stripe_count": 1, "nodes": 1},
        each_ost=True,
    ),
    "IorPeer": IOR_PEER,
    "IorPeerRead": replace(IOR_PEER, operation="read"),
}


#: Those without figures: references and history know nothing of them.
PROFILES = {"IoProfile": Check(operation="profile", backends=("mpiio", "hdf5", "netcdf"))}

ALL_CHECKS = CHECKS | PROFILES


def check_of(case: Case) -> str:
    """The check that measures a case."""
    if case.each_ost:
        return "SlowOst"
    if case.ior_peer:
        return "IorPeerRead" if case.operation == "read" else "IorPeer"
    if case.instances is not None:
        return "SystemLoad"
    if case.files != "shared":
        return "FilePerProcess"
    return "SharedFileRead" if case.operation == "read" else "SharedFileWrite"


Sweep = dict[str, tuple[Setting, ...]]  # of each check that runs


def read_sweeps(value: Any, striped: bool, writers_per_node: int) -> dict[str, Sweep]:
    """The sweeps nightly and acceptance of a filesystem; ValueError says what is wrong where.

    `value` is sweep -> check -> parameter -> list of values; instead of one such mapping a check
    may have a list of them, whose cases are measured one and all.
    """
    sweeps = _mapping(value)
    if set(sweeps) != set(SWEEPS):
        raise ValueError(f"has not exactly the sweeps {' and '.join(SWEEPS)}: {list(sweeps)}")
    return {
        sweep: {
            check: _settings(f"{sweep}/{check}", check, given, striped, writers_per_node)
            for check, given in _mapping(checks).items()
        }
        for sweep, checks in sweeps.items()
    }


def _settings(
    place: str, name: str, given: Any, striped: bool, writers_per_node: int
) -> tuple[Setting, ...]:
    """All settings of one check."""
    check = ALL_CHECKS.get(name)
    if check is None:
        raise ValueError(f"has an unknown check, {place}: there are {', '.join(ALL_CHECKS)}")
    if check.each_ost and not striped:
        raise ValueError(f"asks for {place} on a filesystem that is not striped ('osts' is None)")
    every = given if isinstance(given, list) and given else [given]
    settings = [
        setting
        for values in every
        for setting in _product(place, check, _mapping(values), striped, writers_per_node)
    ]
    writers = [replace(s, nodes=s.nodes * s.writers_per_node, writers_per_node=1) for s in settings]
    if twice := [s for s, w in zip(settings, writers, strict=True) if writers.count(w) > 1]:
        raise ValueError(f"measures the same at {place} twice: {twice[0]} and {twice[-1]}")
    return tuple(settings)


def _product(
    place: str, check: Check, given: Mapping[str, Any], striped: bool, writers_per_node: int
) -> list[Setting]:
    """All combinations of the values given."""
    wanted = [p for p in check.parameters if striped or p not in STRIPING]
    for parameter in given:
        if parameter not in (*wanted, *check.optional):
            why = ", for it is not striped" if parameter in STRIPING and not striped else ""
            raise ValueError(f"has no place for {place}/{parameter}{why}")
    if missing := [parameter for parameter in wanted if parameter not in given]:
        raise ValueError(f"has no {place}/{missing[0]}")

    values: dict[str, tuple[Any, ...]] = dict.fromkeys(STRIPING, (None,))
    values |= {parameter: (value,) for parameter, value in check.fixed.items()}
    values["writers_per_node"] = (writers_per_node,)
    for parameter in given:
        try:
            values[parameter] = read_list(_CONVERT[parameter])(given[parameter])
        except ValueError as err:
            raise ValueError(f"at {place}/{parameter} {err}") from None
    if check.backends and (other := set(values["backend"]) - set(check.backends)):
        raise ValueError(
            f"asks at {place}/backend for {min(other)}: there are {', '.join(check.backends)}"
        )
    if check.ior_peer and "files" in given:
        if set(values["files"]) != {"process"}:
            raise ValueError(f"at {place}/files has more than process: IOR has no others")
        if "pnetcdf" in values["backend"]:
            raise ValueError(
                f"asks at {place} for pnetcdf with a file of each process: IOR has none"
            )
    return [
        Setting(**dict(zip(values, combination, strict=True)))
        for combination in itertools.product(*values.values())
    ]


def read_text(value: Any) -> str:
    """A non-empty string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"is not a name: {value!r}")
    return value


def read_count(value: Any) -> int:
    """An integer of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"is not a positive integer: {value!r}")
    return value


def read_list(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of lists with at least one entry and none twice."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"is not a list with at least one entry: {value!r}")
        items = tuple(convert(item) for item in value)
        if len(set(items)) < len(items):
            raise ValueError(f"has an entry twice: {value!r}")
        return items

    return read


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"is not a mapping: {value!r}")
    return value


def _backend(value: Any) -> str:
    if value not in ("mpiio", "hdf5", "netcdf", "pnetcdf", "stream"):
        raise ValueError(f"is not mpiio, hdf5, netcdf, pnetcdf or stream: {value!r}")
    return str(value)


def _stripe_count(value: Any) -> int:
    return -1 if value == -1 else read_count(value)


def _files(value: Any) -> str:
    text = str(value)
    if text not in ("process", "node", "gather") and not (text.isdecimal() and int(text) > 1):
        raise ValueError(f"is not process, node, gather or a number of files above 1: {value!r}")
    return text


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "backend": _backend,
    "stripe_count": _stripe_count,
    "stripe_size": read_count,
    "local_size": parse_size,
    "nodes": read_count,
    "writers_per_node": read_count,
    "files": _files,
    "instances": read_count,
}


_FLOOR = {"total_max": [1, 0, None, "MiB/s"]}
_CLOSE = {"close_fraction": [0, None, 0.25, "1"]}
#: By backend; the header of every generated reference file says why.
GENERAL: dict[str, dict[str, Any]] = {
    "mpiio": _FLOOR | _CLOSE,
    "hdf5": {"ratio": [0.9, -0.5, None, "1"]} | _CLOSE,
    "netcdf": {"ratio": [0.7, -0.5, None, "1"]} | _CLOSE,
    "pnetcdf": {"ratio": [0.7, -0.5, None, "1"]} | _CLOSE,
    "stream": _FLOOR | _CLOSE,
}
SLOW_OST_BOUNDS: dict[str, Any] = {"ost_ratio": [1, -0.5, None, "1"]}
IOR_PEER_BOUNDS: dict[str, Any] = {"ior_ratio": [1, -0.5, None, "1"]}


def general_bounds(case: Case) -> dict[str, Any]:
    """The bounds of a case that has no others."""
    if case.each_ost:
        return SLOW_OST_BOUNDS
    return IOR_PEER_BOUNDS if case.ior_peer else GENERAL[case.backend]


def flow(value: Any) -> str:
    """YAML in one line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()


def short_names(cases: Collection[Case]) -> dict[Case, str]:
    """A name for each of these cases, such as `hdf5 on fs3, stripes -1`; no two are the same."""
    environs, *others = (
        {value(case) for case in cases}
        for value in (lambda c: c.environ, shape, stripes, size_name, writers_name)
    )
    names = {}
    for case in cases:
        parts = [f"{case.backend} on {case.partition}"]
        values = shape(case), stripes(case), size_name(case), writers_name(case)
        parts += [v for v, all_ in zip(values, others, strict=True) if v and len(all_) > 1]
        names[case] = ", ".join([*parts, case.environ] if len(environs) > 1 else parts)
    return names


def shape(case: Case) -> str:
    """What is written or read: `write shared`, and how many at once."""
    if case.each_ost:
        return "write each OST"
    if case.ior_peer:
        return f"{case.operation} {case.files}, IOR"
    load = "" if case.instances is None else f" x{case.instances}"
    return f"{case.operation} {case.files}{load}"


def stripes(case: Case) -> str:
    """`stripes 4 x 1 MiB`; empty where the filesystem is not striped."""
    if case.stripe_count is None and case.stripe_size is None:
        return ""
    count = "default" if case.stripe_count is None else str(case.stripe_count)
    size_ = "" if case.stripe_size is None else f" x {case.stripe_size} MiB"
    return f"stripes {count}{size_}"


def striping(case: Case) -> str:
    """The same for a column of a table: `all x 1 MiB` is easier to read there than -1."""
    return stripes(case).removeprefix("stripes ").replace("-1", "all") or "-"


def size_name(case: Case) -> str:
    return f"local {format_size(case.local_size)}"


def writers_name(case: Case) -> str:
    return f"{case.writers} writer{'' if case.writers == 1 else 's'}"
