"""A partition's filesystem and what is to be measured on it, as the partition's `extras` say.

A partition is one node type seen with one filesystem.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar

import attrs

from iowatch.base.files import UserError
from iowatch.base.records import (
    COUNT,
    FLAG,
    TEXT,
    Record,
    Shape,
    key,
    list_of,
    mapping_of,
    matching,
    number,
    optional,
)
from iowatch.cases.case import Case, Check
from iowatch.cases.parameters import DEFAULT, MIB, NODES, PLAIN, RANKS, RANKS_PER_NODE
from iowatch.cases.storage import LUSTRE, of_types
from iowatch.cases.storage.plain import Plain

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


#: Keys that mark a partition as iowatch's; generic names such as `path` are not listed.
OURS = ("filesystem", "peak", "osts", "cached_reads", "ranks_per_node", "keep_days", "suites")

#: The key of names that are no keys of ours, but like them.
FOREIGN = "foreign"

#: The key of former names, of a partition and of an environment.
FORMERLY = "formerly"

#: Nights in a row without a measurement that are too many, where a site does not say so itself.
AMBER_NIGHTS = 3

# The shapes of keys of a partition's extras


def _type(value: Any) -> tuple[str, ...]:
    return tuple(_TYPE_LIST.convert([value] if isinstance(value, str) else value))


def _past_day(value: Any) -> date:
    day = date.fromisoformat(value)
    if day > datetime.now(UTC).date():  # nights to come would be missed by nobody
        raise ValueError("it is to come")
    return day


def _suites(value: Any) -> Mapping[str, Any]:
    is_right = isinstance(value, Mapping) and set(SUITES) <= set(value) <= set(ALL_SUITES)
    if not is_right or not all(isinstance(checks, Mapping) for checks in value.values()):
        raise ValueError
    return {HOURLY: {}, **value}


_PATH = matching(
    r"/[^\s'\"`$\\:]*",  # MPI-IO may take what stands before a colon for a type of filesystem
    "an absolute path without blanks, quotes, $, colons and backslashes",
)
_TYPE_LIST = list_of(TEXT, "")
_TYPES = Shape("a name such as lustre, or a list of names", _type)
_MOUNTED = Shape("a text such as 'ext4 UUID at /scratch', or a list of texts", _type)
INDEX = number("0 or more", 0, is_whole=True)
_OST_LIST = "a list of the numbers of OSTs, such as [0, 1, 3]"
_OSTS = attrs.evolve(
    optional(list_of(INDEX, "")), phrase=f"{_OST_LIST} or list(range(4)), or None: not striped"
)
_POOLS = mapping_of(PLAIN, list_of(INDEX, ""), f"a mapping of pools, each to {_OST_LIST}")
_LAYOUTS = mapping_of(
    matching(  # not stripes such as 4x1, nor what users get who ask for none
        rf"(?!{DEFAULT}$)[A-Za-z][A-Za-z0-9_.-]*", "a name that begins with a letter, not default"
    ),
    matching(r"-[^\x00-\x1f]*", ""),
    "a mapping of layouts, each to options of `lfs setstripe`",
)
_RESOURCES = mapping_of(
    TEXT,
    mapping_of(TEXT, Shape("", lambda value: value), ""),
    "a mapping of resources, each to its values, such as {'pe': {'num_slots': '{ranks}'}}",
)
FORMER_PLACES = list_of(
    matching(r"([\w-]+:)?[\w.-]+", ""),
    "a list of former names, such as ['fs2'] or ['archer:fs2']",
    may_be_empty=True,
)
FORMER_ENVIRONS = list_of(
    matching(r"[\w.-]+", ""), "a list of former names, such as ['gnu']", may_be_empty=True
)
_PAST_DAY = Shape("a past day such as '2026-10-31'", _past_day)
_SUITES = Shape(f"{' and '.join(SUITES)}, and {HOURLY} or not, each a mapping of checks", _suites)


@attrs.frozen(kw_only=True)
class Filesystem(Record):
    """A partition's filesystem and what is to be measured on it."""

    has_foreign_keys: ClassVar[bool] = True  # the centre's

    system: str
    partition: str
    environs: tuple[str, ...]
    name: str = key(TEXT, "The name of the filesystem, such as fs3.", name="filesystem")
    path: str = key(
        _PATH,
        "The directory to write in. iowatch makes its last component, for all users. Where "
        "everybody may write, each user gets a directory apart, unless root has made this one.",
    )
    types: tuple[str, ...] = key(
        _TYPES,
        "The type that `statfs` names, such as lustre, ceph, gpfs, beegfs, panfs or nfs. On any "
        "other type a job fails.",
        name="type",
    )
    peak: float = key(
        number("a rate above 0 that nothing can exceed", math.ulp(0)),
        "The ceiling: the lesser of the servers' maximum and the links of all nodes in the largest "
        "case. A faster result came from a cache.",
        unit="MiB/s",
    )
    osts: tuple[int, ...] | None = key(
        _OSTS, "The numbers of the OSTs in use (`lfs osts`), on CephFS of the OSDs."
    )
    cached_reads: bool = key(FLAG, "Whether reads that a cache may have served are accepted.")
    ranks_per_node: int = key(COUNT, "Ranks on each node, unless a suite says otherwise.")
    keep_days: int = key(
        COUNT,
        "How long the raw results of a run are kept; they are compressed after 30 days.",
        unit="days",
    )
    suites: Mapping[str, Suite] = key(_SUITES, "The cases to measure.")
    mounted: tuple[str, ...] = key(
        _MOUNTED,
        "The filesystem that the directory must be on, as `iowatch site check` says it, such as "
        "'lustre scratch at /lustre'. Without ` on HOST` it holds on every host. By default that "
        "of the last verified night. On any other a job fails before it makes anything.",
        default=(),
    )
    archived: date | None = key(
        _PAST_DAY,
        "The last day whose nights were moved out of the results database, or blessed from another "
        "(`--db`).",
        default=None,
    )
    settle: int = key(
        COUNT,
        "The time between the removal of one round's files and the next round.",
        unit="s",
        default=0,
    )
    pools: Mapping[str, tuple[int, ...]] = key(
        _POOLS, "The OSTs of each pool; on CephFS, the OSDs of each data pool.", factory=dict
    )
    layouts: Mapping[str, str] = key(
        _LAYOUTS, "On Lustre: other layouts that a suite may name.", factory=dict
    )
    keep_corrupt: str = key(  # empty: what benchio lets stay
        matching(r"\d+([KMG]iB)?", "a size such as '10GiB'"),
        "The most that files with wrong data may have and stay as evidence; '0' keeps none. By "
        "default 10GiB.",
        default="",
    )
    formerly: tuple[str, ...] = key(
        FORMER_PLACES,
        "Names that the partition and its filesystem had before: what is on record, blessed or "
        "expected under these counts as theirs. With another name of the system, SYSTEM:PARTITION. "
        "An environment has this key in extras of its definition.",
        name=FORMERLY,
        default=(),
    )
    amber_nights: int = key(
        COUNT,
        "Nights in a row without a measurement of a case or OST that turn the night red. Nights of "
        "one day (UTC) count once.",
        unit="nights",
        default=AMBER_NIGHTS,
    )
    mdts: tuple[int, ...] = key(
        list_of(INDEX, "a list of numbers of MDTs"),
        "On Lustre: the MDTs (`lfs mdts`) that `Metadata` may measure one by one.",
        default=(),
    )
    public_name: str = key(
        TEXT,
        "The name by which users know the filesystem, for the page of `iowatch report --public`. "
        "Without it the page leaves the filesystem out.",
        default="",
    )
    allocation: str = key(
        matching(r"(\d+-)?\d+(:\d\d){0,2}", "a time of Slurm's such as '6:00:00'"),
        "Slurm's `--time` of one allocation for all cases; without it each case has a job.",
        default="",
    )

    slow_node_hours: float = key(
        number("a number of node-hours above 0", math.ulp(0)),
        "The time after which a job of `SlowNode` begins no more turns of single nodes. Its groups "
        "run in any case.",
        unit="node-hours",
        default=2.0,
    )

    extra_resources: Mapping[str, Mapping[str, Any]] = key(
        _RESOURCES,
        "Values of the partition's `resources` for each job, as a check of ReFrame's gives them: "
        "{'qos': {'qos': 'io'}}. `{ranks}` in a text is the number of ranks.",
        factory=dict,
    )
    foreign: tuple[str, ...] = key(
        list_of(TEXT, "a list of keys such as ['mem_per_node']"),
        "Keys of other programs in these extras, or in those of an environment, that are like one "
        "of iowatch's. Without this a note asks each night whether that one was meant.",
        name=FOREIGN,
        default=(),
    )

    def contradiction(self) -> str:
        if self.pools and self.osts is None:
            return "pools is for a filesystem that is striped, and osts is None"
        for name, osts in self.pools.items():
            if unknown := sorted({*osts} - {*(self.osts or ())}):
                return f"pools has OST {unknown[0]} in {name!r}, and osts has not"
        if self.allocation and self.suites.get(HOURLY):
            return f"the suite {HOURLY} cannot be in the allocation of a night: give it no checks"
        for name in LUSTRE.keys:
            if getattr(self, name) and name not in self.storage.keys:
                return f"{name} is for {LUSTRE.name}, and type is {' or '.join(self.types)}"
        return ""

    def settings(self, suite: str, check: Check) -> tuple[Setting, ...]:
        """Return what a check is to measure here; empty: the suite does not name it."""
        return self.suites[suite].get(check.name, ())

    @property
    def storage(self) -> Plain:
        """The type of the filesystem."""
        return of_types(self.types, self.osts is not None)

    @property
    def targets(self) -> dict[str, int]:
        """The OSTs that can be written to one by one, by what benchio calls them."""
        return self.storage.targets(self.osts or (), self.pools)

    def osts_of(self, case: Case) -> tuple[int, ...]:
        """Return the OSTs that a file of this case may be on."""
        return self.pools.get(case.pool or "", self.osts or ())

    def stripe_count(self, case: Case) -> int | None:
        """The stripe count to ask for; -1 is all OSTs, None what users get."""
        return self.storage.stripe_count(case.stripe_count, self.osts_of(case))

    def layout_options(self, case: Case) -> list[str]:
        """benchio's options for the layout of a case's files. UserError: nobody knows it."""
        if case.layout == DEFAULT:
            return []
        if case.layout:
            if case.layout not in self.layouts:
                raise UserError(
                    f"{self.system}:{self.partition}: 'layouts' in the partition's extras have no "
                    f"{case.layout!r}: add it, or ask for {', '.join([DEFAULT, *self.layouts])}"
                )
            return [f"--setstripe {shlex.quote(self.layouts[case.layout])}"]
        options = []
        if not case.check.by_target and case.stripe_count is not None:
            options += [f"--stripe-count {self.stripe_count(case)}"]
        if case.stripe_size is not None:
            options += [f"--stripe-size {case.stripe_size * MIB}"]
        return [*options, f"--pool {case.pool}"] if case.pool else options

    def layout_commands(self, case: Case) -> list[str]:
        """Return what a job does so that the files of another program than benchio, in the job's
        run directory, get the layout of the case."""
        if case.layout == DEFAULT or self.osts is None:
            return []
        named, size = self.layouts.get(case.layout or "", ""), (case.stripe_size or 1) * MIB
        count, pool = self.stripe_count(case), case.pool or ""
        return [f'{self.storage.set_layout(named, count, size, pool)} "$RUNDIR" || exit 1']

    def resources(self, ranks: int) -> dict[str, dict[str, Any]]:
        """Return the values of ReFrame's resources for a job of so many ranks."""
        return {
            name: {key: str(text).replace("{ranks}", str(ranks)) for key, text in values.items()}
            for name, values in self.extra_resources.items()
        }

    def case(self, environ: str, setting: Setting) -> Case:
        """The case of one setting in one environment."""
        return Case(self.system, self.partition, environ, setting.check, setting.parameters)

    def cases(self, suite: str) -> set[Case]:
        """Yield every case to be measured here."""
        return {
            self.case(environ, setting)
            for environ in self.environs
            for settings in self.suites[suite].values()
            for setting in settings
        }


def is_ours(extras: Mapping[str, Any]) -> bool:
    """Return whether a partition with these extras is measured here. Others are the centre's."""
    return any(key in extras for key in OURS)


def file_of(system: str, sources: Iterable[str]) -> str:
    """The file of a system, or where that is not known all that there are, in words."""
    files = [file for file in sources if file != "<builtin>"]
    # One file per system, named like it, is the rule; a site may have its own.
    return ", ".join([file for file in files if Path(file).stem == system] or files)
