"""Suites: the cases that a site measures, and checks of other programs for most sites."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from iowatch.check import Check
from iowatch.files import UserError
from iowatch.kinds import CHECKS
from iowatch.kinds.application import APPLICATIONS
from iowatch.kinds.ior import EASY, HARD, IO500_CALL
from iowatch.parameters import (
    BACKEND,
    BACKENDS,
    DEFAULT,
    LAYOUT,
    MDT,
    NODES,
    POOL,
    RANKS,
    RANKS_PER_NODE,
    STRIPE_COUNT,
    STRIPING,
    Parameter,
    parse_size,
)
from iowatch.records import KeyRow, list_of, require_known

if TYPE_CHECKING:
    from iowatch.filesystem import Filesystem

NIGHTLY, ACCEPTANCE, HOURLY = "nightly", "acceptance", "hourly"
#: Those that every filesystem has.
SUITES = (NIGHTLY, ACCEPTANCE)
#: The last one is no night, and a filesystem may have none.
ALL_SUITES = (*SUITES, HOURLY)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a check in a suite: the parameters of a case, and how its ranks are spread."""

    check: Check
    nodes: int
    ranks_per_node: int
    parameters: tuple[tuple[str, Any], ...]  # as a case has them

    @classmethod
    def make(cls, check: Check, values: Mapping[str, Any]) -> Setting:
        """Make a setting of a value for each parameter, None where there is none; nodes stand for
        ranks."""
        nodes = values.get(NODES.name) or check.fixed.get(NODES.name, 1)
        ranks_per_node = values.get(RANKS_PER_NODE.name) or 1
        values = {**values, RANKS.name: nodes * ranks_per_node}
        given = [(p.name, values.get(p.name)) for p in check.parameters]
        given = [(name, value) for name, value in given if value is not None]
        ways = ((way.name, values.get(way.name, way.default), way.default) for way in check.ways)
        given += [(name, value) for name, value, default in ways if value != default]
        return cls(check=check, nodes=nodes, ranks_per_node=ranks_per_node, parameters=tuple(given))

    @property
    def text(self) -> str:
        """The tail of a case id."""
        return self.check.text_of(self.parameters)


Suite = Mapping[str, tuple[Setting, ...]]  # of each check that runs, by its name


def read_suites(where: str, place: Filesystem) -> dict[str, Suite]:
    """Read the suites of a filesystem: suite -> check -> parameter -> list of values.

    In place of one mapping of parameters a check may have a list of them, whose cases are measured
    one and all. UserError says what is wrong, and where.
    """
    named = {check.name: check for check in CHECKS.values() if not check.is_everywhere}
    everywhere = {
        name: (Setting.make(check, {}),) for name, check in CHECKS.items() if name not in named
    }
    suites: dict[str, Suite] = {}
    for name, asked in place.suites.items():
        at = f"{where}: suites, {name}"
        known = {check: named[check] for check in named if named[check].by_hour or name != HOURLY}
        require_known(at, asked, known)
        suite = {
            check: _settings(f"{at}, {check}", named[check], given, place)
            for check, given in asked.items()
        }
        suites[name] = suite | (everywhere if suite and name != HOURLY else {})
    return suites


def _settings(at: str, check: Check, given: Any, place: Filesystem) -> tuple[Setting, ...]:
    """Read all settings of one check."""
    if check.by_target and place.osts is None:
        raise UserError(f"{at}: the filesystem is not striped ('osts' is None)")
    products = given if isinstance(given, list) and given else [given]
    settings = [setting for product in products for setting in _product(at, check, product, place)]
    same = [setting.parameters for setting in settings]
    if twice := [parameters for parameters in same if same.count(parameters) > 1]:
        raise UserError(f"{at}: measures the same twice: {check.text_of(twice[0])}")
    return tuple(settings)


def suite_parameters(
    check: Check, is_striped: bool, given: Collection[str] = ()
) -> tuple[list[Parameter], list[Parameter]]:
    """Return the parameters to which a suite that has `given` must give values, and those to which
    it may.

    On a filesystem that is striped it gives stripes, unless it names a layout.
    """
    stripes = {*STRIPING} & {*given} or {STRIPE_COUNT.name}
    layout = stripes if is_striped else set()
    parameters = [
        p for p in check.parameters_with(layout | {MDT.name} & {*given}) if p is not RANKS
    ]
    if RANKS in check.parameters and NODES.name not in check.fixed:
        parameters.append(NODES)
    needed = [p for p in parameters if p.name not in check.defaults]
    optional = [p for p in parameters if p.name in check.defaults]
    optional += [RANKS_PER_NODE] if RANKS in check.parameters else []
    return needed, [*optional, *check.ways]


def table(check: Check) -> list[KeyRow]:
    """List the parameters that a suite may give a check; a layout is for striped filesystems."""
    needed, optional = suite_parameters(check, check.by_target)
    others = [p for p in check.parameters if p.name in (*STRIPING, MDT.name)]
    return [
        KeyRow(
            key=p.name,
            values=p.shape.phrase,
            is_required=p in needed,
            default=""
            if usual is None
            else f"{usual}"
            if usual in (True, False)
            else p.format(usual),
            unit=p.unit,
            about=p.about,
        )
        for p in dict.fromkeys((*needed, *others, *optional))
        for usual in (_usual(check).get(p.name),)
    ]


def _usual(check: Check) -> dict[str, Any]:
    """Return the values of parameters that a suite may leave out."""
    return {**check.defaults, **{way.name: way.default for way in check.ways}}


def _product(at: str, check: Check, given: Any, place: Filesystem) -> list[Setting]:
    """Read all combinations of the values given."""
    if not isinstance(given, Mapping):
        raise UserError(f"{at}: is {given!r}, not a mapping of parameters to lists of values")
    needed, optional = suite_parameters(check, place.osts is not None, given)
    known = {parameter.name: parameter for parameter in (*needed, *optional)}
    if unfit := [name for name in STRIPING if name in given and name not in known]:
        if place.osts is None:
            raise UserError(f"{at}: has {unfit[0]}, and the filesystem is not striped")
        if LAYOUT.name in given:
            raise UserError(f"{at}: has {unfit[0]} beside a layout")
    require_known(at, given, known)
    if missing := [parameter.name for parameter in needed if parameter.name not in given]:
        raise UserError(f"{at}: has no {missing[0]}")
    values: dict[str, tuple[Any, ...]] = {name: (v,) for name, v in _usual(check).items()}
    per_node = check.fixed.get(RANKS_PER_NODE.name, place.ranks_per_node)
    values[RANKS_PER_NODE.name] = (per_node,)
    for name, listed in given.items():
        shape = known[name].shape
        try:
            values[name] = list_of(
                shape, f"a list of values, none twice, each {shape.phrase}"
            ).read(listed)
        except ValueError as err:
            raise UserError(f"{at}: {name} {err}") from None
    for name, names in (
        (BACKEND.name, check.backends),
        (LAYOUT.name, [DEFAULT, *place.layouts]),
        (POOL.name, place.pools),
        (MDT.name, place.mdts),
    ):
        if other := set(values.get(name, ())) - set(names):
            there = ", ".join(map(str, names)) or "none"
            mend = "" if name == BACKEND.name else f": add it to '{name}s'"
            raise UserError(f"{at}: {name} has {min(other)!r}, and there are {there}{mend}")
    combinations = [
        dict(zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    ]
    if why := next(filter(None, map(check.objection, combinations)), ""):
        raise UserError(f"{at}: {why}")
    return [Setting.make(check, combination) for combination in combinations]


# Checks of other programs

#: A layout of files on a filesystem that is not striped.
PLAIN: Mapping[str, Sequence[Any]] = MappingProxyType({})

#: Processes on a node: what is computed is small, and few processes write it in any case.
_OF_AN_APPLICATION = 4

#: Files of each process, as in the sites' suites of Metadata.
_ITEMS = 100

#: Profile: white paper, 24 ranks; with fewer, headers could not be told from data.
_PROFILE = {"local_size": [32], "nodes": [1]}


def second_opinions(
    size: int | str,
    nodes: int,
    shared: Mapping[str, Sequence[Any]] = PLAIN,
    per_process: Mapping[str, Sequence[Any]] = PLAIN,
    reads: bool = True,
    profile: Mapping[str, Sequence[Any]] = PLAIN,
    backends: Collection[str] = BACKENDS,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Cross-checks of the suites `nightly` and `acceptance`: IOR, mdtest, Darshan, applications.

    A night has few of them. An acceptance test has all applications, mdtest and IO500's patterns.
    It also has each library of IOR, with a shared file and with a file per process.

    `size` is a local size of a multiple of 2 MiB, which ior-hard rounds to its rows. `shared` is
    the layout of a shared file, `per_process` the layout of a file per process. Without `reads`
    IOR reads nothing, as from a cache. `profile` has `ranks_per_node` where a node has fewer than
    12. `backends` are the libraries that benchio has.
    """
    at = {"local_size": [size], "nodes": [nodes]}
    one_file = {**at, **shared}
    file_each = {**at, **per_process, "files": ["process"]}
    edge = max(1, math.isqrt(8 * math.prod(parse_size(size)) // IO500_CALL[HARD]))
    rows = f"{IO500_CALL[HARD] // 8}x{edge}x{edge}"
    night = [{**one_file, "backend": ["posix"]}]  # no library between either program and its calls
    every = [
        {**one_file, "backend": ["posix", *_among(["mpiio", "hdf5", "pnetcdf"], backends)]},
        {**file_each, "backend": ["posix", *_among(["mpiio", "hdf5"], backends)]},
        {**file_each, "backend": ["posix"], "io500": [EASY]},
        {**one_file, "backend": ["posix"], "io500": [HARD], "local_size": [rows]},
    ]
    profiled = {"backend": _among(["mpiio", "hdf5", "netcdf"], backends)}
    profiles = [{**_PROFILE, **profiled, **shared, **profile}]
    users = {"layout": [DEFAULT]} if shared else {}  # who ask for none
    applications = [check.name for check in APPLICATIONS]
    application = [{**users, "nodes": [nodes], "ranks_per_node": [_OF_AN_APPLICATION]}]
    names = {"items": [_ITEMS], "nodes": [nodes]}
    mdtest = [
        {**names, "files": ["shared", "process"]},
        {**names, "files": ["process"], "io500": [EASY]},
        {**names, "files": ["shared"], "io500": [HARD]},
    ]
    return {
        suite: {
            "IorPeer": cases,
            **({"IorPeerRead": cases} if reads else {}),
            **({"MdtestPeer": mdtest} if suite == "acceptance" else {}),
            "IoProfile": profiles,
            **dict.fromkeys(programs, application),
        }
        for suite, cases, programs in (
            ("nightly", night, applications[:1]),
            ("acceptance", every, applications),
        )
    }


def _among(names: Sequence[str], backends: Collection[str]) -> list[str]:
    return [name for name in names if name in backends]


# Programs that learn

#: After MLPerf Storage: ResNet-50's images, in files of 137 MiB; CosmoFlow's universes.
_IMAGE, _IMAGES_OF_A_FILE, _UNIVERSE = "110KiB", 1280, "2688KiB"
#: A shard of a checkpoint, and the shards of a rank in a night and in an acceptance test.
_SHARD, _SHARDS, _MORE_SHARDS = "64MiB", 2, 8
#: Files of an installed Python environment with a library for learning.
_ENVIRONMENT = 50_000


def learning(
    samples: int,
    files: int,
    nodes: int,
    layout: Mapping[str, Sequence[Any]] = PLAIN,
    shard: str = _SHARD,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Reads and checkpoints of programs that learn, for the suites `nightly` and `acceptance`.

    A night reads so many samples on each rank, from few large files, and a tree of so many files.
    It writes two shards of a checkpoint on each rank. An acceptance test writes eight, and also
    reads small files of one sample, larger samples, and an environment.
    """
    at = {"nodes": [nodes], **layout}
    images = {**at, "items": [samples], "sample": [_IMAGE]}
    large = {**images, "per_file": [_IMAGES_OF_A_FILE]}
    universes = {**at, "items": [max(1, samples // 20)], "sample": [_UNIVERSE], "per_file": [1]}
    return {
        "nightly": {
            "SampleReads": [large],
            "EnvironmentStart": [{**at, "items": [files]}],
            "Checkpoint": [{**at, "items": [_SHARDS], "sample": [shard]}],
        },
        "acceptance": {
            "SampleReads": [large, {**images, "per_file": [1]}, universes],
            "EnvironmentStart": [{**at, "items": [_ENVIRONMENT]}],
            "Checkpoint": [{**at, "items": [_MORE_SHARDS], "sample": [shard]}],
        },
    }
