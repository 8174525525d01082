"""A system as ReFrame's configuration has it: its filesystems, their suites, and its folders."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from iowatch.base.files import UserError
from iowatch.base.places import DATABASE, PREFIX, activate
from iowatch.base.records import near_misses
from iowatch.base.reframe_inside import configuration_files, load_configuration, require_version
from iowatch.cases.case import Case
from iowatch.cases.filesystem import FOREIGN, FORMERLY, SUITES, Filesystem, file_of, is_ours
from iowatch.cases.run import Promise
from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.application import APPLICATIONS
from iowatch.site.suites import cases, read_filesystem

#: The id of the night that a session of ReFrame belongs to. `iowatch run` sets it.
NIGHT = "IOWATCH_NIGHT"

#: The `TMPDIR` of the user, which jobs get back. `iowatch run` sets it.
JOB_TMPDIR = "IOWATCH_TMPDIR"

#: The folder in which jobs run, if it is not `stage` in the folder for results.
STAGE = "RFM_STAGE_DIR"

#: Optional keys in the extras of an environment: paths of programs, for Darshan also the module
#: that brings it, and the spec of Spack's that makes benchio, or made it.
BENCHIO, SPACK, DARSHAN, IOR, MDTEST = "benchio", "spack", "darshan", "ior", "mdtest"
#: Likewise: the path of an application, by its name in small letters.
APPLICATION_PATHS = tuple(check.backends[0].lower() for check in APPLICATIONS)

_OF_ENVIRON = (BENCHIO, SPACK, DARSHAN, IOR, MDTEST, *APPLICATION_PATHS, FORMERLY)

_UNFIT = re.compile(r"[\s'\"`$\\]")  # in a path: no job can name it


# ReFrame's configuration


class UnknownSystem(UserError):
    """Error: no configuration file has this system, or it has no such partition."""


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
    doubts: tuple[str, ...] = ()  # keys that may be misspelt, a sentence each

    def cases(self, suite: str) -> set[Case]:
        return cases(self.filesystems, suite)

    def nodes(self, suite: str) -> dict[Case, int]:
        """Return the number of nodes on which each case of a suite runs."""
        return {
            place.case(environ, setting): setting.nodes
            for place in self.filesystems
            for environ in place.environs
            for check in CHECKS.values()
            for setting in place.settings(suite, check)
        }

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
        """Return the number of nights without a measurement that are too many, by partition."""
        return {p.partition: p.amber_nights for p in self.filesystems}


def read_site(system: str) -> Site:
    """The site of a system, or of one of its partitions (`archer:fs3`).

    UserError, UnknownSystem.
    """
    config = configuration(system)
    name: str = config.get("systems/0/name")
    every = config.get("systems/0/partitions")
    partitions = [partition for partition in every if is_ours(partition.get("extras", {}))]
    if not partitions:
        raise UserError(
            f"--system {system}: none of its partitions has the extras of iowatch: "
            "`iowatch docs howto/site` says how to give them, also where another file defines it"
        )
    environments = [
        environ
        for partition in partitions
        for environ in environments_of(config, f"{name}:{partition['name']}", partition)
    ]
    config.select_subconfig(system, ignore_resolve_errors=True)
    prefix = Path(_option(config, PREFIX, "systems/0/prefix"))
    if not prefix.is_absolute():  # ReFrame's own is the folder in which it happens to be started
        raise UserError(
            f"{name} has no 'prefix' that begins with /: write `\"prefix\": str(results())` beside "
            f"its name, with `from iowatch.base.places import results`, or set {PREFIX}"
        )
    require_for_jobs(f"{PREFIX}, or 'prefix' of the system", prefix)
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
        stage=Path(_option(config, STAGE, "systems/0/stagedir") or prefix),
        database=_database(config),
        promises={suite: promise(every, suite) for suite in SUITES},
        logs=tuple(h["name"] for h in config.get("logging/0/handlers") if h["type"] == "file"),
        sources=tuple(file for file in config.sources if file != "<builtin>"),
        doubts=tuple(_doubts(name, partitions, environments, config.sources)),
    )


def bare_configuration(system: str, partition: str, environ: str) -> dict[str, Any]:
    """A configuration of ReFrame for this place alone, whose jobs get no environment; it is to be
    read after the site's own. UserError."""
    place = f"{system}:{partition}"
    (entry,) = configuration(place)["systems"]
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


def require_for_jobs(name: str, folder: Path) -> Path:
    """Return this folder, if jobs can be started in it and can name it; else UserError.

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
    return Path(_option(config, DATABASE, "storage/0/sqlite_db_file")).expanduser()


def results_database() -> Path:
    """The results database of ReFrame's configuration, whatever the system. UserError."""
    return _database(configuration("generic"))


def configuration(system: str = "") -> Any:
    """ReFrame's configuration with this system chosen, if any, as ReFrame itself would read it."""
    require_version()
    given = (os.environ.get(f"RFM_CONFIG_{name}", "") for name in ("PATH", "FILES"))
    sources = configuration_files(*(text.split(":") if text else [] for text in given))
    try:
        site = load_configuration(sources)
        site.validate()
        if system and (unknown := _unknown(system, site["systems"])):
            raise UnknownSystem(f"--system {system}: {unknown}")
        if system:
            site.select_subconfig(system, ignore_resolve_errors=True)  # as ReFrame itself does
    except UserError:
        raise
    except SystemExit as err:  # a configuration file of ours that refuses to go on
        raise UserError(str(err.code).removeprefix("error: ")) from None
    except Exception as err:
        where = ", ".join(sources) or f"RFM_CONFIG_FILES, which is not set: {activate()}"
        of_system = f"--system {system}: " if system else ""
        raise UserError(f"{of_system}{_why(err)}: see {where}") from None
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


def environments_of(
    config: Any, place: str, partition: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the environments of a partition, each as it is there; UserError: one is not defined."""
    config.select_subconfig(place, ignore_resolve_errors=True)
    defined = {environ["name"]: environ for environ in config.get("environments", [])}
    for name in partition.get("environs", ()):
        if name not in defined:
            raise UserError(
                f"{file_of(place.partition(':')[0], config.sources)}: the environment {name} is "
                f"not defined for {place}: define it, or mend its target_systems"
            )
        yield defined[name]


def _doubts(
    system: str,
    partitions: Sequence[Mapping[str, Any]],
    environments: Iterable[Mapping[str, Any]],
    sources: Iterable[str],
) -> Iterator[str]:
    """Say once of each key in the extras that it is like one of iowatch's, unless a partition's
    `foreign` names it."""
    read: list[tuple[Mapping[str, Any], Collection[str]]] = [
        (entry, Filesystem.keys()) for entry in partitions
    ]
    read += [(entry, _OF_ENVIRON) for entry in environments]
    foreign = {name for entry in partitions for name in entry["extras"].get(FOREIGN, ())}
    near: dict[str, str] = {}
    for entry, keys in read:
        near |= near_misses(entry.get("extras", {}), keys)
    for name, key in near.items():
        if name not in foreign:
            yield (
                f"{file_of(system, sources)}: extras have {name}, and iowatch does not read it: is "
                f"{key} meant? If it is another program's, name it in {FOREIGN!r} of a partition"
            )
