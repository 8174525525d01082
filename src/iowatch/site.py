"""A site's filesystems and sweeps, as ReFrame's configuration has them.

A partition is one node type seen with one filesystem, which its `extras` describe. All keys but
those of `OPTIONAL` are required, so a misspelt one cannot pass unnoticed. What each key means
stands in site_configs/README.md.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.checks import (
    APPLICATIONS,
    CHECKS,
    DEFAULT,
    LAYOUT,
    MDT,
    NODES,
    POOL,
    STRIPE_COUNT,
    STRIPING,
    WRITERS,
    WRITERS_PER_NODE,
    Check,
    Parameter,
    read_count,
    read_flag,
    read_index,
    read_name,
    read_text,
)
from iowatch.files import UserError
from iowatch.places import activate
from iowatch.run import Promise

#: The environment variable with the id of the night that a session of ReFrame belongs to.
NIGHT = "IOWATCH_NIGHT"

#: The environment variable with the TMPDIR that jobs are to have; empty: none.
JOB_TMPDIR = "IOWATCH_TMPDIR"

NIGHTLY, ACCEPTANCE = "nightly", "acceptance"
SWEEPS = (NIGHTLY, ACCEPTANCE)

#: Optional, in the extras of an environment: the benchio to use instead of the one that is found.
BENCHIO = "benchio"

#: Of the keys that the extras of a partition must have, those that a centre's own partitions do not
#: have by chance: with any of them it is one of ours.
OURS = ("filesystem", "peak", "osts", "cached_reads", "writers_per_node", "keep_days", "sweeps")
#: The keys that the extras of a partition may have besides those that they must have.
OPTIONAL = ("archived", "settle", "pools", "layouts", "amber_nights", "allocation", "mdts")
#: Likewise: the spec that Spack is to build; beside a prebuilt benchio, what Spack built it of.
SPACK = "spack"

#: Likewise: the path of libdarshan.so, or the module that brings Darshan.
DARSHAN = "darshan"

#: Likewise: the path of IOR.
IOR = "ior"
#: Likewise: the path of mdtest.
MDTEST = "mdtest"

#: Likewise: the path of an application, by its name in small letters.
APPLICATION_PATHS = tuple(CHECKS[name].backends[0].lower() for name in APPLICATIONS)

LUSTRE = "lustre"
MIB = 2**20

#: Nights in a row without a measurement that are too many, where a site does not say so itself.
AMBER_NIGHTS = 3

#: Characters of a case id: it names a folder, with a number after it, and 255 is the most there.
LONGEST_CASE = 240


@dataclass(frozen=True)
class Setting:
    """What a sweep asks of a check: the parameters of a case, and how its writers are spread."""

    check: Check
    nodes: int
    writers_per_node: int
    parameters: tuple[tuple[str, Any], ...]  # as a case has them

    @classmethod
    def of(cls, check: Check, values: Mapping[str, Any]) -> Setting:
        """From a value for each parameter, None where there is none; nodes stand for writers."""
        nodes = values.get(NODES.name) or check.fixed.get(NODES.name, 1)
        writers_per_node = values.get(WRITERS_PER_NODE.name) or 1
        values = {**values, WRITERS.name: nodes * writers_per_node}
        parameters = ((p.name, values.get(p.name)) for p in check.parameters)
        given = [(name, value) for name, value in parameters if value is not None]
        ways = ((way.name, values.get(way.name, way.default), way.default) for way in check.ways)
        given += [(name, value) for name, value, default in ways if value != default]
        return cls(check, nodes, writers_per_node, tuple(given))

    def get(self, name: str) -> Any:
        """The value of a sweep's parameter, or what the check fixes it to; None: there is none."""
        if name in (NODES.name, WRITERS_PER_NODE.name):
            return getattr(self, name)
        usual = {way.name: way.default for way in self.check.ways} | dict(self.check.fixed)
        return dict(self.parameters).get(name, usual.get(name))


Sweep = Mapping[str, tuple[Setting, ...]]  # of each check that runs, by its name


@dataclass(frozen=True)
class Filesystem:
    """A partition's filesystem and what is to be measured on it."""

    system: str
    partition: str
    environs: tuple[str, ...]
    name: str  # such as fs3
    path: str  # directory to write under; what if it is missing: reframe_checks/run_directory.py
    types: tuple[str, ...]  # statfs names that benchio may find there
    peak: float  # MiB/s that nothing can exceed: link or memory bandwidth
    osts: tuple[int, ...] | None  # the numbers of those in use; None: not striped
    cached_reads: bool  # reads that a cache may have served are accepted
    writers_per_node: int  # where a sweep does not say so itself
    keep_days: int  # that the raw results of a run are kept
    sweeps: Mapping[str, Sweep]
    #: Up to this day nights may be missing from the results database: the site has moved them out.
    archived: date | None = None
    settle: int = 0  # seconds to wait after a round's files are removed, before the next begins
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the OSTs of each
    #: Options of `lfs setstripe` by the name of the layout.
    layouts: Mapping[str, str] = field(default_factory=dict)
    amber_nights: int = AMBER_NIGHTS
    mdts: tuple[int, ...] = ()  # those that names may be put on
    allocation: str = ""  # Slurm's `--time` of one that all cases share; empty: each has a job

    def settings(self, sweep: str, check: Check) -> tuple[Setting, ...]:
        """What a check is to measure here; nothing if the sweep does not name it."""
        return self.sweeps[sweep].get(check.name, ())

    @property
    def targets(self) -> dict[str, int]:
        """The OSTs that can be written to one by one, by what benchio calls them: on Lustre their
        numbers, on CephFS the pools that have one OST each."""
        if LUSTRE in self.types:
            return {str(ost): ost for ost in self.osts or ()}
        return {pool: osts[0] for pool, osts in self.pools.items() if len(osts) == 1}

    def osts_of(self, case: Case) -> tuple[int, ...]:
        """Those that a file of this case may be on."""
        return self.pools.get(case.pool or "", self.osts or ())

    def stripe_count(self, case: Case) -> int | None:
        """That benchio is asked for: what all are, it can say to Lustre alone."""
        if case.stripe_count == -1 and LUSTRE not in self.types:
            return len(self.osts_of(case))
        return case.stripe_count

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
        if not case.check.needs_stripes and case.stripe_count is not None:
            options += [f"--stripe-count {self.stripe_count(case)}"]
        if case.stripe_size is not None:
            options += [f"--stripe-size {case.stripe_size * MIB}"]
        return [*options, f"--pool {case.pool}"] if case.pool else options

    def case(self, environ: str, setting: Setting) -> Case:
        """The case of one setting in one environment."""
        return Case(self.system, self.partition, environ, setting.check, setting.parameters)

    def cases(self, sweep: str) -> set[Case]:
        """Every case to be measured here."""
        return {
            self.case(environ, setting)
            for environ in self.environs
            for check in CHECKS.values()
            for setting in self.settings(sweep, check)
        }


def cases(places: Iterable[Filesystem], sweep: str) -> set[Case]:
    """Every case that a sweep asks for on these filesystems."""
    return {case for place in places for case in place.cases(sweep)}


# ReFrame's configuration


class UnknownSystem(UserError):
    """No configuration file has this system, or it has no such partition."""


@dataclass(frozen=True)
class Site:
    """What ReFrame's configuration says of a system, or of one of its partitions."""

    system: str
    filesystems: tuple[Filesystem, ...]
    is_whole: bool  # not only one partition
    prefix: Path  # of what ReFrame writes
    stage: Path  # where it stages tests, or the prefix that holds that folder
    database: Path  # ReFrame's results
    promises: Mapping[str, Promise]  # of each sweep
    logs: tuple[str, ...] = ()  # files of ReFrame's log
    sources: tuple[str, ...] = ()  # files of the configuration

    def cases(self, sweep: str) -> set[Case]:
        return cases(self.filesystems, sweep)

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """Those of which a night must have each for itself."""
        return self.database.parent, self.prefix, self.stage

    @property
    def archived(self) -> dict[str, date]:
        """The partitions of which nights were archived, and up to which day."""
        return {p.partition: p.archived for p in self.filesystems if p.archived}

    @property
    def amber_nights(self) -> dict[str, int]:
        """How many nights in a row without a measurement are too many, by partition."""
        return {p.partition: p.amber_nights for p in self.filesystems}


def read_site(system: str) -> Site:
    """The site of a system, or of one of its partitions (`archer:fs3`).

    UserError, UnknownSystem.
    """
    config = _configuration(system)
    name: str = config.get("systems/0/name")
    every = config.get("systems/0/partitions")
    partitions = [partition for partition in every if is_ours(partition.get("extras", {}))]
    if not partitions:
        raise UserError(
            f"--system {system}: none of its partitions has the extras of iowatch: "
            "site_configs/README.md says how to give them, also where another file defines it"
        )
    used = {environ for partition in partitions for environ in partition.get("environs", [])}
    for environ in config.get("environments"):
        if environ["name"] in used:
            require_no_misspelt(name, environ["name"], environ.get("extras", {}), config.sources)
    prefix = require_for_jobs("RFM_PREFIX, or 'prefix' of the system", _prefix(config))
    return Site(
        name,
        tuple(
            read_filesystem(
                name,
                partition["name"],
                partition.get("environs", []),
                partition.get("extras", {}),
                config.sources,
            )
            for partition in partitions
        ),
        ":" not in system,
        prefix,
        _stage(config) or prefix,
        _database(config),
        {sweep: promise(every, sweep) for sweep in SWEEPS},
        tuple(h["name"] for h in config.get("logging/0/handlers") if h["type"] == "file"),
        tuple(file for file in config.sources if file != "<builtin>"),
    )


def bare_configuration(system: str, partition: str, environ: str) -> dict[str, Any]:
    """A configuration of ReFrame for this place alone, whose jobs get no environment; it is to be
    read after the site's own. UserError."""
    place = f"{system}:{partition}"
    (entry,) = _configuration(place)["systems"]
    (own,) = entry["partitions"]
    bare = {key: value for key, value in own.items() if key not in _MAKES_ENVIRONMENT}
    return {
        "systems": [{**entry, "partitions": [{**bare, "environs": [environ]}]}],
        "environments": [{"name": environ, "target_systems": [place]}],
        "general": [{"non_default_craype": False, "target_systems": [system, place]}],
    }


_MAKES_ENVIRONMENT = ("prepare_cmds", "modules", "env_vars", "variables")


def promise(partitions: Iterable[Mapping[str, Any]], sweep: str) -> Promise:
    """What ReFrame's configuration of these partitions, which is valid, promises of a sweep.

    For the gate: it shares nothing with what makes the cases, so that none is lost there unseen.
    """
    everywhere = sum(check.is_everywhere for check in CHECKS.values())
    count, source = 0, []
    for partition in partitions:
        environs, extras = partition["environs"], partition.get("extras", {})
        if "sweeps" not in extras:  # the centre's own
            continue
        checks = extras["sweeps"][sweep]
        products = [
            math.prod(map(len, values.values()))
            for given in checks.values()
            for values in (given if isinstance(given, list) else [given])
        ]
        count += len(environs) * (sum(products) + (everywhere if checks else 0))
        source.append((partition["name"], environs, checks, extras["writers_per_node"]))
    text = json.dumps(source, sort_keys=True, default=str)
    return Promise(count, hashlib.sha256(text.encode()).hexdigest()[:16])


def is_ours(extras: Mapping[str, Any]) -> bool:
    """Is a partition with these extras to be measured here? Others are the centre's."""
    return any(key in extras for key in OURS)


def require_for_jobs(name: str, folder: Path) -> Path:
    """This folder, if jobs can be started in it and can name it; else UserError.

    ReFrame cuts the path of a job script into words, as a shell does.
    """
    if found := _UNFIT.search(str(folder.absolute())):
        raise UserError(
            f"{name}: {str(folder)!r} has {found[0]!r} in it, and no job can run there: name a "
            "path without blanks, quotes, $ and backslashes"
        )
    return folder


_UNFIT = re.compile(r"[\s'\"`$\\]")


def _prefix(config: Any) -> Path:
    given = os.environ.get("RFM_PREFIX") or config.get("systems/0/prefix")
    return Path(os.path.expandvars(given))


def _stage(config: Any) -> Path | None:
    given = os.environ.get("RFM_STAGE_DIR") or config.get("systems/0/stagedir")
    return Path(os.path.expandvars(given)) if given else None


def results_database() -> Path:
    """The results database of ReFrame's configuration, whatever the system. UserError."""
    return _database(_configuration("generic"))


def _database(config: Any) -> Path:
    given = os.environ.get("RFM_SQLITE_DB_FILE") or config.get("storage/0/sqlite_db_file")
    return Path(os.path.expandvars(given)).expanduser()


def _configuration(system: str) -> Any:
    """ReFrame's configuration with this system chosen, as ReFrame itself would read it."""
    # Not above: the commands that do not ask for it need not wait for these imports.
    from reframe.core import config  # type: ignore[import-untyped]

    folders, files = (os.environ.get(f"RFM_CONFIG_{what}", "") for what in ("PATH", "FILES"))
    found = config.find_config_files(
        *(text.split(":") if text else [] for text in (folders, files))
    )
    try:
        site = config.load_config(*found)
        site.validate()
        if unknown := _unknown(system, site["systems"]):
            raise UnknownSystem(f"--system {system}: {unknown}")
        site.select_subconfig(system)
    except UserError:
        raise
    except SystemExit as err:  # a configuration file of ours that refuses to go on
        raise UserError(str(err.code).removeprefix("error: ")) from None
    except Exception as err:
        where = ", ".join(found) or f"RFM_CONFIG_FILES, which is not set: {activate()}"
        raise UserError(f"--system {system}: {_why(err)}: see {where}") from None
    return site


def _unknown(system: str, systems: Iterable[Mapping[str, Any]]) -> str:
    """What there is instead, if none of these systems, or of its partitions, has this name."""
    name, colon, partition = system.partition(":")
    # As ReFrame does: of several with one name, the first.
    every = {entry["name"]: entry["partitions"] for entry in reversed([*systems])}
    names = sorted(every.keys() - {"generic"})  # ReFrame's own
    if not names:  # the mistake is in the files, which are named below ReFrame's own sentence
        return ""
    if name not in every:
        return f"no configuration file has this system: there are {', '.join(names)}"
    partitions = [entry["name"] for entry in every[name]]
    if colon and partition not in partitions:
        return f"{name} has no such partition: there are {', '.join(partitions)}"
    return ""


def _why(err: Exception) -> str:
    """One line on why a configuration cannot be read: the place in its file if it is no Python."""
    if isinstance(err.__cause__, ImportError):  # of which ReFrame says nothing
        err = err.__cause__
    said = " ".join(str(err).split()) or type(err).__name__
    if isinstance(err, SyntaxError):
        return f"{err.filename}, line {err.lineno}: {err.msg}"
    last = traceback.extract_tb(err.__traceback__)[-1]
    if Path(last.filename).suffix == ".py" and "reframe" not in Path(last.filename).parts:
        return f"{last.filename}, line {last.lineno}: {type(err).__name__}: {said}"
    return said


def read_filesystem(
    system: str,
    partition: str,
    environs: Iterable[str],
    extras: Mapping[str, Any],
    sources: Iterable[str],
) -> Filesystem:
    """The filesystem of one partition; UserError, naming the file among `sources` to mend."""
    mend = _file_of(system, sources)
    names = tuple(environs)
    if not names:
        raise UserError(f"{system}:{partition}: the partition has no environs: name some in {mend}")

    def read(key: str, convert: Callable[[Any], Any]) -> Any:
        if key not in extras:
            raise UserError(
                f"{system}:{partition}: the partition's extras have no {key!r}: add it in {mend}"
            )
        try:
            return convert(extras[key])
        except ValueError as err:
            raise UserError(
                f"{system}:{partition}: {key!r} in the partition's extras {err}: mend it in {mend}"
            ) from None

    _require_no_misspelt(f"{system}:{partition}: the partition's extras", extras, OPTIONAL, mend)
    name = read("filesystem", read_text)
    types = read("type", lambda v: read_list(read_text)([v] if isinstance(v, str) else v))
    osts = read("osts", _osts)
    pools = read("pools", lambda v: _pools(v, osts)) if "pools" in extras else {}
    layouts = read("layouts", lambda v: _layouts(v, types)) if "layouts" in extras else {}
    mdts = read("mdts", lambda v: _mdts(v, types)) if "mdts" in extras else ()
    writers_per_node = read("writers_per_node", read_count)
    place = Filesystem(
        system=system,
        partition=partition,
        environs=names,
        name=name,
        path=read("path", _directory),
        types=types,
        peak=read("peak", _positive),
        osts=osts,
        cached_reads=read("cached_reads", read_flag),
        writers_per_node=writers_per_node,
        keep_days=read("keep_days", read_count),
        sweeps=read(
            "sweeps",
            lambda v: read_sweeps(v, osts is not None, writers_per_node, pools, layouts, mdts),
        ),
        archived=read("archived", _past_day) if "archived" in extras else None,
        settle=read("settle", read_count) if "settle" in extras else 0,
        pools=pools,
        layouts=layouts,
        mdts=mdts,
        allocation=read("allocation", _slurm_time) if "allocation" in extras else "",
        amber_nights=read("amber_nights", read_count) if "amber_nights" in extras else AMBER_NIGHTS,
    )
    each = [s for s in SWEEPS for name in place.sweeps[s] if CHECKS[name].needs_stripes]
    if each and len(place.targets) < 2:
        kind = "OSTs in 'osts'" if LUSTRE in types else "'pools' of one OST each"
        raise UserError(
            f"{system}:{partition}: 'sweeps' in the partition's extras compare each OST with the "
            f"others, and there are no two {kind}: add them in {mend}, or take the check out there"
        )
    longest = max(
        (str(case) for sweep in SWEEPS for case in place.cases(sweep)), key=len, default=""
    )
    if len(longest) > LONGEST_CASE:
        raise UserError(
            f"{system}:{partition}: 'sweeps' in the partition's extras has a case whose name is "
            f"longer than {LONGEST_CASE} characters, {longest}: ask for fewer hints in {mend}"
        )
    return place


def require_no_misspelt(
    system: str, environ: str, extras: Mapping[str, Any], sources: Iterable[str]
) -> None:
    """UserError if a key in the extras of an environment is almost one of those that it may have,
    naming the file among `sources` to mend."""
    ours = (BENCHIO, SPACK, DARSHAN, IOR, MDTEST, *APPLICATION_PATHS)
    mend = _file_of(system, sources)
    _require_no_misspelt(f"{system}: the extras of environment {environ!r}", extras, ours, mend)


def _require_no_misspelt(
    whose: str, extras: Mapping[str, Any], ours: Collection[str], mend: str
) -> None:
    for key in extras:  # others are the centre's own
        if key not in ours and (meant := difflib.get_close_matches(key, ours, 1)):
            raise UserError(
                f"{whose} have {key!r}: if {meant[0]!r} is meant, mend it in {mend}, else give it "
                "a name that is less like it"
            )


def _file_of(system: str, sources: Iterable[str]) -> str:
    """The file of a system, or where that is not known all that there are, in words."""
    files = [file for file in sources if file != "<builtin>"]
    # One file per system, named like it, is the rule; a site may have its own.
    return ", ".join([file for file in files if Path(file).stem == system] or files)


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"is not an absolute path: {value!r}")
    if found := _UNFIT.search(value):
        raise ValueError(f"has {found[0]!r} in it, which no job can use: {value!r}")
    if ":" in value:
        raise ValueError(
            f"has ':' in it, and MPI-IO may take what stands before it for the type of a "
            f"filesystem: {value!r}"
        )
    return value


def _osts(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, int):  # how many there are says nothing of which
        raise ValueError(
            f"is {value!r}: list the numbers of those in use, such as [0, 1, 3], or list(range(4))"
        )
    return read_list(_ost)(value)


def _ost(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"is no number of an OST, 0 or more: {value!r}")
    return value


def _pools(value: Any, osts: tuple[int, ...] | None) -> dict[str, tuple[int, ...]]:
    if osts is None:
        raise ValueError("is for a filesystem that is striped, and 'osts' is None")
    pools = {read_name(name): read_list(_ost)(own) for name, own in _mapping(value).items()}
    for name, own in pools.items():
        if unknown := sorted(set(own) - set(osts)):
            raise ValueError(f"has OST {unknown[0]} in {name!r}, and 'osts' has not")
    return pools


def _layouts(value: Any, types: tuple[str, ...]) -> dict[str, str]:
    if LUSTRE not in types:
        raise ValueError(f"has options of `lfs setstripe`, and 'type' is not {LUSTRE}")
    layouts = {read_name(name): read_text(options) for name, options in _mapping(value).items()}
    if DEFAULT in layouts:
        raise ValueError(f"has {DEFAULT!r}, which is what users get who ask for none")
    for name, options in layouts.items():
        if not name[0].isalpha():  # 4x1 is a stripe count and a stripe size
            raise ValueError(f"has a name that does not begin with a letter: {name!r}")
        if not options.isprintable() or not options.startswith("-"):
            raise ValueError(f"has no options of `lfs setstripe` as {name!r}: {options!r}")
    return layouts


def _mdts(value: Any, types: tuple[str, ...]) -> tuple[int, ...]:
    if LUSTRE not in types:
        raise ValueError(f"has numbers of MDTs, and 'type' is not {LUSTRE}")
    return read_list(read_index)(value)


def _positive(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < float("inf")
    ):
        raise ValueError(f"is not the MiB/s, above 0, that nothing can exceed: {value!r}")
    return float(value)


def _past_day(value: Any) -> date:
    try:
        day = date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"is no day such as '2026-10-31': {value!r}") from None
    if day > datetime.now(UTC).date():  # nights to come would be missed by nobody
        raise ValueError(f"is a day to come: {value!r}")
    return day


def _slurm_time(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"(\d+-)?\d+(:\d\d){0,2}", value, re.ASCII):
        raise ValueError(f"is no time of Slurm's such as '6:00:00': {value!r}")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"is not a mapping: {value!r}")
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


# Sweeps


def read_sweeps(
    value: Any,
    striped: bool,
    writers_per_node: int,
    pools: Collection[str] = (),
    layouts: Collection[str] = (),
    mdts: Collection[int] = (),
) -> dict[str, Sweep]:
    """The sweeps nightly and acceptance of a filesystem; ValueError says what is wrong where.

    `value` is sweep -> check -> parameter -> list of values; instead of one such mapping a check
    may have a list of them, whose cases are measured one and all.
    """
    named: dict[str, Collection[Any]] = {
        LAYOUT.name: {DEFAULT, *layouts},
        POOL.name: {*pools},
        MDT.name: {*mdts},
    }
    given = _mapping(value)
    if set(given) != set(SWEEPS):
        raise ValueError(
            f"must have the sweeps {' and '.join(SWEEPS)} and no others: {list(given)}"
        )
    sweeps: dict[str, Sweep] = {}
    for name, checks in given.items():
        sweep = {
            check: _settings(f"{name}/{check}", check, values, striped, writers_per_node, named)
            for check, values in _mapping(checks).items()
        }
        everywhere = (check for check in CHECKS.values() if check.is_everywhere and sweep)
        sweeps[name] = sweep | {check.name: (Setting.of(check, {}),) for check in everywhere}
    return sweeps


def _settings(
    place: str,
    name: str,
    given: Any,
    striped: bool,
    writers_per_node: int,
    named: Mapping[str, Collection[Any]],
) -> tuple[Setting, ...]:
    """All settings of one check; `named` are the site's layouts, pools and MDTs."""
    known = {check.name: check for check in CHECKS.values() if not check.is_everywhere}
    check = known.get(name)
    if check is None:
        raise ValueError(f"names at {place} no check that there is: there are {', '.join(known)}")
    if check.needs_stripes and not striped:
        raise ValueError(f"asks for {place} on a filesystem that is not striped ('osts' is None)")
    every = given if isinstance(given, list) and given else [given]
    settings = [
        setting
        for values in every
        for setting in _product(place, check, _mapping(values), striped, writers_per_node, named)
    ]
    same = [setting.parameters for setting in settings]
    if twice := [setting for setting in settings if same.count(setting.parameters) > 1]:
        what = ", ".join(f"{name} {value}" for name, value in twice[0].parameters)
        raise ValueError(f"measures the same at {place} twice: {what}")
    return tuple(settings)


def swept(
    check: Check, striped: bool, given: Collection[str] = ()
) -> tuple[list[Parameter], list[Parameter]]:
    """The parameters to which a sweep that has `given` must give values, and those to which it may.

    On a filesystem that is striped it gives stripes, unless it names a layout.
    """
    stripes = {*STRIPING} & {*given} or {STRIPE_COUNT.name}
    layout = stripes if striped else set()
    own = [p for p in check.parameters_with(layout | {MDT.name} & {*given}) if p is not WRITERS]
    if WRITERS in check.parameters and NODES.name not in check.fixed:
        own.append(NODES)
    needed = [p for p in own if p.name not in check.defaults]
    optional = [p for p in own if p.name in check.defaults]
    optional += [WRITERS_PER_NODE] if WRITERS in check.parameters else []
    return needed, [*optional, *check.ways]


def _product(
    place: str,
    check: Check,
    given: Mapping[str, Any],
    striped: bool,
    writers_per_node: int,
    named: Mapping[str, Collection[Any]],
) -> list[Setting]:
    """All combinations of the values given."""
    needed, optional = swept(check, striped, given)
    known = {parameter.name: parameter for parameter in (*needed, *optional)}
    for name in given:
        if name not in known:
            why = ""
            if name in STRIPING and not striped:
                why = ", for it is not striped"
            elif name in STRIPING and LAYOUT.name in given:
                why = ", beside a layout"
            raise ValueError(f"has no place for {place}/{name}{why}")
    if missing := [parameter.name for parameter in needed if parameter.name not in given]:
        raise ValueError(f"has no {place}/{missing[0]}")

    usual = {**check.defaults, **{way.name: way.default for way in check.ways}}
    values: dict[str, tuple[Any, ...]] = {name: (value,) for name, value in usual.items()}
    values[WRITERS_PER_NODE.name] = (writers_per_node,)
    for name in given:
        try:
            values[name] = read_list(known[name].read)(given[name])
        except ValueError as err:
            raise ValueError(f"at {place}/{name} {err}") from None
    for name, names in named.items():
        if other := set(values.get(name, ())) - set(names):
            there = "there are none"
            if names:
                there = f"there are {', '.join(map(str, sorted(names)))}"
            raise ValueError(
                f"asks at {place}/{name} for {min(other)!r}, and in '{name}s' {there}: add it there"
            )
    if other := set(values.get("backend", ())) - set(check.backends):
        raise ValueError(
            f"asks at {place}/backend for {min(other)}: there are {', '.join(check.backends)}"
        )
    combinations = [
        dict(zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    ]
    if why := next(filter(None, map(check.objection, combinations)), ""):
        raise ValueError(f"asks at {place} for what cannot be: {why}")
    return [Setting.of(check, combination) for combination in combinations]
