"""A site's filesystems and suites, as ReFrame's configuration has them.

A partition is one node type seen with one filesystem, which the partition's `extras` describe.
docs/howto/site.md says what each key means.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar

import attrs

from iowatch.case import Case
from iowatch.check import Check
from iowatch.files import UserError
from iowatch.kinds import CHECKS
from iowatch.kinds.application import APPLICATIONS
from iowatch.parameters import DEFAULT, MIB, PLAIN
from iowatch.places import activate
from iowatch.records import (
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
    require_known,
)
from iowatch.reframe_inside import configuration_files, load_configuration, require_version
from iowatch.run import Promise
from iowatch.storage import LUSTRE, of_types
from iowatch.storage.plain import Plain
from iowatch.suites import SUITES, Setting, Suite, read_suites

#: The environment variable with the id of the night that a session of ReFrame belongs to.
NIGHT = "IOWATCH_NIGHT"

#: The environment variable with the TMPDIR that jobs are to have; empty: none.
JOB_TMPDIR = "IOWATCH_TMPDIR"

#: Keys that mark a partition as iowatch's; generic names such as `path` are not listed.
OURS = ("filesystem", "peak", "osts", "cached_reads", "ranks_per_node", "keep_days", "suites")

#: Optional keys in the extras of an environment: paths of programs, for Darshan also the module
#: that brings it, and the spec of Spack's that makes benchio, or made it.
BENCHIO, SPACK, DARSHAN, IOR, MDTEST = "benchio", "spack", "darshan", "ior", "mdtest"
#: Likewise: the path of an application, by its name in small letters.
APPLICATION_PATHS = tuple(check.backends[0].lower() for check in APPLICATIONS)

#: Nights in a row without a measurement that are too many, where a site does not say so itself.
AMBER_NIGHTS = 3

#: Characters of a case id: it names a folder, with a number after it, and 255 is the most there.
LONGEST_CASE = 240


# The shapes of keys of a partition's extras


def _type(value: Any) -> tuple[str, ...]:
    return tuple(_TYPE_LIST.convert([value] if isinstance(value, str) else value))


def _past_day(value: Any) -> date:
    day = date.fromisoformat(value)
    if day > datetime.now(UTC).date():  # nights to come would be missed by nobody
        raise ValueError("it is to come")
    return day


def _suites(value: Any) -> Mapping[str, Any]:
    is_right = isinstance(value, Mapping) and set(value) == set(SUITES)
    if not is_right or not all(isinstance(checks, Mapping) for checks in value.values()):
        raise ValueError
    return value  # type: ignore[no-any-return]


_UNFIT = re.compile(r"[\s'\"`$\\]")  # in a path: no job can name it
_PATH = matching(
    r"/[^\s'\"`$\\:]*",  # MPI-IO may take what stands before a colon for a type of filesystem
    "an absolute path without blanks, quotes, $, colons and backslashes",
)
_TYPE_LIST = list_of(TEXT, "")
_TYPES = Shape("a name such as lustre, or a list of names", _type)
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
_PAST_DAY = Shape("a past day such as '2026-10-31'", _past_day)
_SUITES = Shape(f"{' and '.join(SUITES)}, each a mapping of checks", _suites)


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
    allocation: str = key(
        matching(r"(\d+-)?\d+(:\d\d){0,2}", "a time of Slurm's such as '6:00:00'"),
        "Slurm's `--time` of one allocation for all cases; without it each case has a job.",
        default="",
    )

    def contradiction(self) -> str:
        if self.pools and self.osts is None:
            return "pools is for a filesystem that is striped, and osts is None"
        for name, osts in self.pools.items():
            if unknown := sorted({*osts} - {*(self.osts or ())}):
                return f"pools has OST {unknown[0]} in {name!r}, and osts has not"
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

    def case(self, environ: str, setting: Setting) -> Case:
        """The case of one setting in one environment."""
        return Case(self.system, self.partition, environ, setting.check, setting.parameters)

    def cases(self, suite: str) -> set[Case]:
        """Every case to be measured here."""
        return {
            self.case(environ, setting)
            for environ in self.environs
            for check in CHECKS.values()
            for setting in self.settings(suite, check)
        }


def cases(places: Iterable[Filesystem], suite: str) -> set[Case]:
    """Every case that a suite asks for on these filesystems."""
    return {case for place in places for case in place.cases(suite)}


# ReFrame's configuration


class UnknownSystem(UserError):
    """No configuration file has this system, or it has no such partition."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A system, or one of its partitions, as ReFrame's configuration has it."""

    system: str
    filesystems: tuple[Filesystem, ...]
    is_whole: bool  # not only one partition
    prefix: Path  # of what ReFrame writes
    stage: Path  # where ReFrame stages tests, or the prefix that holds that folder
    database: Path  # ReFrame's results
    promises: Mapping[str, Promise]  # of each suite
    logs: tuple[str, ...] = ()  # files of ReFrame's log
    sources: tuple[str, ...] = ()  # files of the configuration

    def cases(self, suite: str) -> set[Case]:
        return cases(self.filesystems, suite)

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The folders of which a night must have each for itself."""
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
            "docs/howto/site.md says how to give them, also where another file defines it"
        )
    used = {environ for partition in partitions for environ in partition.get("environs", [])}
    for environ in config.get("environments"):
        if environ["name"] in used:
            require_no_misspelt(name, environ["name"], environ.get("extras", {}), config.sources)
    prefix = Path(_option(config, "RFM_PREFIX", "systems/0/prefix"))
    require_for_jobs("RFM_PREFIX, or 'prefix' of the system", prefix)
    return Site(
        system=name,
        filesystems=tuple(
            read_filesystem(
                name,
                partition["name"],
                partition.get("environs", []),
                partition.get("extras", {}),
                config.sources,
            )
            for partition in partitions
        ),
        is_whole=":" not in system,
        prefix=prefix,
        stage=Path(_option(config, "RFM_STAGE_DIR", "systems/0/stagedir") or prefix),
        database=_database(config),
        promises={suite: promise(every, suite) for suite in SUITES},
        logs=tuple(h["name"] for h in config.get("logging/0/handlers") if h["type"] == "file"),
        sources=tuple(file for file in config.sources if file != "<builtin>"),
    )


def bare_configuration(system: str, partition: str, environ: str) -> dict[str, Any]:
    """A configuration of ReFrame for this place alone, whose jobs get no environment; it is to be
    read after the site's own. UserError."""
    place = f"{system}:{partition}"
    (entry,) = _configuration(place)["systems"]
    (given,) = entry["partitions"]
    bare = {key: value for key, value in given.items() if key not in _MAKES_ENVIRONMENT}
    return {
        "systems": [{**entry, "partitions": [{**bare, "environs": [environ]}]}],
        "environments": [{"name": environ, "target_systems": [place]}],
        "general": [{"non_default_craype": False, "target_systems": [system, place]}],
    }


_MAKES_ENVIRONMENT = ("prepare_cmds", "modules", "env_vars", "variables")


def promise(partitions: Iterable[Mapping[str, Any]], suite: str) -> Promise:
    """Count what ReFrame's configuration of these partitions, which is valid, promises of a suite.

    For the gate: it shares nothing with what makes the cases, so that none is lost there unseen.
    """
    everywhere = sum(check.is_everywhere for check in CHECKS.values())
    count, source = 0, []
    for partition in partitions:
        environs, extras = partition["environs"], partition.get("extras", {})
        if "suites" not in extras:  # the centre's own
            continue
        checks = extras["suites"][suite]
        products = [
            math.prod(map(len, values.values()))
            for given in checks.values()
            for values in (given if isinstance(given, list) else [given])
        ]
        count += len(environs) * (sum(products) + (everywhere if checks else 0))
        source.append((partition["name"], environs, checks, extras["ranks_per_node"]))
    text = json.dumps(source, sort_keys=True, default=str)
    return Promise(count, hashlib.sha256(text.encode()).hexdigest()[:16])


def is_ours(extras: Mapping[str, Any]) -> bool:
    """Is a partition with these extras to be measured here? Others are the centre's."""
    return any(key in extras for key in OURS)


def require_for_jobs(name: str, folder: Path) -> Path:
    """This folder, if jobs can be started in it and can name it; else UserError.

    ReFrame cuts the path of a job script into words, as a shell does.
    """
    if unfit := _UNFIT.search(str(folder.absolute())):
        raise UserError(
            f"{name}: {str(folder)!r} has {unfit[0]!r} in it, and no job can run there: name a "
            "path without blanks, quotes, $ and backslashes"
        )
    return folder


def _option(config: Any, variable: str, option: str) -> str:
    """Return an option as ReFrame has it: the variable comes before the file; empty: neither."""
    return os.path.expandvars(os.environ.get(variable) or config.get(option) or "")


def _database(config: Any) -> Path:
    return Path(_option(config, "RFM_SQLITE_DB_FILE", "storage/0/sqlite_db_file")).expanduser()


def results_database() -> Path:
    """The results database of ReFrame's configuration, whatever the system. UserError."""
    return _database(_configuration("generic"))


def _configuration(system: str) -> Any:
    """ReFrame's configuration with this system chosen, as ReFrame itself would read it."""
    require_version()
    given = (os.environ.get(f"RFM_CONFIG_{what}", "") for what in ("PATH", "FILES"))
    sources = configuration_files(*(text.split(":") if text else [] for text in given))
    try:
        site = load_configuration(sources)
        site.validate()
        if unknown := _unknown(system, site["systems"]):
            raise UnknownSystem(f"--system {system}: {unknown}")
        site.select_subconfig(system)
    except UserError:
        raise
    except SystemExit as err:  # a configuration file of ours that refuses to go on
        raise UserError(str(err.code).removeprefix("error: ")) from None
    except Exception as err:
        where = ", ".join(sources) or f"RFM_CONFIG_FILES, which is not set: {activate()}"
        raise UserError(f"--system {system}: {_why(err)}: see {where}") from None
    return site


def _unknown(system: str, systems: Iterable[Mapping[str, Any]]) -> str:
    """Say what there is instead, if no system, or no partition of it, has this name."""
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
    sentence = " ".join(str(err).split()) or type(err).__name__
    if isinstance(err, SyntaxError):
        return f"{err.filename}, line {err.lineno}: {err.msg}"
    last = traceback.extract_tb(err.__traceback__)[-1]
    if Path(last.filename).suffix == ".py" and "reframe" not in Path(last.filename).parts:
        return f"{last.filename}, line {last.lineno}: {type(err).__name__}: {sentence}"
    return sentence


def read_filesystem(
    system: str,
    partition: str,
    environs: Iterable[str],
    extras: Mapping[str, Any],
    sources: Iterable[str],
) -> Filesystem:
    """The filesystem of one partition; UserError, naming the file among `sources` to mend."""
    names, file = tuple(environs), _file_of(system, sources)
    where = f"{file}, partition {system}:{partition}"
    if not names:
        raise UserError(f"{where}: has no environs")
    where += ", extras"
    place = Filesystem.read(where, extras, system=system, partition=partition, environs=names)
    place = attrs.evolve(place, suites=read_suites(where, place))
    each = [s for s in SUITES for name in place.suites[s] if CHECKS[name].by_target]
    if each and len(place.targets) < 2:
        kind = place.storage.single_targets
        raise UserError(
            f"{where}: suites compare each OST with the others, and there are no two {kind}: add "
            "them, or take the check out"
        )
    longest = max(
        (str(case) for suite in SUITES for case in place.cases(suite)), key=len, default=""
    )
    if len(longest) > LONGEST_CASE:
        raise UserError(
            f"{where}: suites has a case whose name is longer than {LONGEST_CASE} characters, "
            f"{longest}: ask for fewer hints"
        )
    return place


def require_no_misspelt(
    system: str, environ: str, extras: Mapping[str, Any], sources: Iterable[str]
) -> None:
    """UserError if a key in the extras of an environment is almost one of those that it may have,
    naming the file among `sources` to mend."""
    ours = (BENCHIO, SPACK, DARSHAN, IOR, MDTEST, *APPLICATION_PATHS)
    where = f"{_file_of(system, sources)}, environment {environ} of {system}, extras"
    require_known(where, extras, ours, may_be_foreign=True)


def _file_of(system: str, sources: Iterable[str]) -> str:
    """The file of a system, or where that is not known all that there are, in words."""
    files = [file for file in sources if file != "<builtin>"]
    # One file per system, named like it, is the rule; a site may have its own.
    return ", ".join([file for file in files if Path(file).stem == system] or files)
