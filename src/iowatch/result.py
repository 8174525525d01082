"""benchio's result file, and the law that it must satisfy."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
from jsonschema.exceptions import best_match

from iowatch.case import Case
from iowatch.checks import (
    CHUNK,
    COLLECTIVE,
    COLLECTIVE_METADATA,
    FLUSH,
    HINTS,
    MDT,
    NAME_PHASES,
    PATTERN,
    READ_EXISTING,
    TRANSFER,
    WRITE_KEEP,
    Way,
    format_bytes,
    format_size,
    pattern_of,
)
from iowatch.files import counted
from iowatch.raw_results import EXIT_CODE, read_text, why_it_failed
from iowatch.site import MIB, Filesystem


class InvalidResult(Exception):
    """A run that gives no metric; the message is one sentence that says why."""


@dataclass(frozen=True)
class Slowest:
    """The rank that took longest in a phase."""

    rank: int
    host: str
    to_mean: float  # its time, as a multiple of the mean of all ranks


@dataclass(frozen=True)
class Witness:
    """Who confirmed what was written in a repetition."""

    bytes: int  # that were confirmed
    is_raw: bool  # read from the dataset's place in the file; else through the library
    is_direct: bool  # read past the page cache
    page_cache_fraction: float | None  # that a page cache may have served; None: nobody knows
    names: int = 0  # that were there once, and gone in the end
    unsynced_fraction: float | None = None  # of the files, to be written after the sync

    @property
    def detours(self) -> list[str]:
        """What stood between the witness and the disk, in words."""
        detours = [] if self.is_raw else ["through the library"]
        if self.page_cache_fraction != 0 and not self.is_direct:
            is_known = self.page_cache_fraction is not None
            detours.append("through a page cache" if is_known else "perhaps through a page cache")
        return detours


@dataclass(frozen=True)
class Span:
    """The seconds of all files from the first open to the last close, or to the end of the sync."""

    window: float
    phases: float  # the windows of its phases together
    between: float  # in which no rank is in a phase
    overlap: float  # that windows of phases share
    by_ranks: float  # the window by the clock of each node
    by_rank_0: float  # the span by the clock of rank 0, with the agreement of all ranks

    def adds_up(self) -> bool:
        """Are its phases, and what is between them, the whole?"""
        whole = self.phases + self.between - self.overlap
        return math.isclose(whole, self.window, rel_tol=_DIGITS)

    def is_longest(self, nodes: int) -> bool:
        """Is it the longer one of the two clocks, where nodes have none in common?"""
        longest = self.by_ranks if nodes == 1 else max(self.by_ranks, self.by_rank_0)
        return math.isclose(self.window, longest, rel_tol=_DIGITS)


@dataclass(frozen=True)
class Spread:
    """One figure over the nodes that have it."""

    nodes: int
    median: float
    most: float
    host: str  # of the node with the most
    whole: float | None  # of all nodes; None: they are too many to be listed


@dataclass(frozen=True)
class Repetition:
    """One timed write, or read, of all files by one backend."""

    round: int
    started: datetime  # UTC, by the clock of rank 0
    #: MiB/s: data, total, stable (of writes). Of names the operations a second of each phase, and
    #: of `items`, which go through all phases.
    rates: dict[str, float]
    #: open, write, ..., close of the file that took longest; total, stable, sync, unlink of all.
    seconds: dict[str, float]
    spans: dict[str, Span]  # total, and of writes stable; of names none
    slowest: dict[str, Slowest]  # the rank that took longest in each
    instances: list[float]  # MiB/s of each, open to close; of one alone: empty
    file_bytes: int  # that all files take, by their sizes
    witness: Witness
    operations: dict[str, int] = field(default_factory=dict)  # of each phase; of names alone
    clocks_agree: bool = True  # those of nodes, to 1 %
    nodes: dict[str, Spread] = field(default_factory=dict)  # mib; seconds of write, read, sync

    @property
    def rate(self) -> float:
        """MiB/s that no cache can flatter: of a write, with the time to sync it; or items/s."""
        name = next((name for name in ("stable", "items") if name in self.rates), "total")
        return self.rates[name]


@dataclass(frozen=True)
class Measurement:
    """What one backend did, without its warm-up."""

    operation: str
    backend: str
    cache_suspect: bool  # what was read may have come from memory
    collective: str | None  # what the library says its transfers were; None: it does not say
    metadata: str | None  # what HDF5 repeats of its collective metadata: yes, no, or why not
    hints: dict[str, str]  # of MPI-IO: those whose effect was seen, else as the file repeats them
    requested: dict[Way, Any]  # collective, collective_metadata, hints: as the run was told
    layout: dict[str, Any]  # requested, observed; sizes in bytes
    subfiles: int  # that HDF5 has made of a file; 0: it is one
    repetitions: list[Repetition]
    target: str = ""  # what benchio calls the OST that it wrote to by itself; empty: to no one
    error: str = ""  # why that could not be measured, or no more than these repetitions


@dataclass(frozen=True)
class Result:
    """A run with status `ok`."""

    started: datetime  # UTC, by the clock of rank 0
    run: dict[str, Any]  # as the schema has it
    versions: dict[str, str | None]  # of benchio, its compiler and each library
    environment: dict[str, str]  # variables that change I/O
    measurements: list[Measurement]

    @property
    def existing(self) -> str:
        """The id of the run that had written what this one has read; empty: it wrote it itself."""
        return str((self.run.get("existing") or {"id": ""})["id"])

    @property
    def void(self) -> dict[str, str]:
        """Why a target could not be measured, by its name."""
        return {m.target: m.error for m in reversed(self.measurements) if m.error}

    @property
    def sound(self) -> list[Measurement]:
        """What counts: what was written and read of a target that failed does not."""
        return [m for m in self.measurements if m.target not in self.void]


@cache
def _validator() -> jsonschema.Draft202012Validator:
    # jsonschema.validate would judge the schema itself anew with every file, which takes longer.
    text = resources.files("iowatch").joinpath("benchio.result-3.schema.json").read_text("utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def read_result(path: Path) -> Result:
    """Read a benchio.result/3 file; InvalidResult if it is not one or the run was not ok."""
    try:
        text = read_text(path)
        data = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_int64,
            object_pairs_hook=_each_key_once,
        )
        wrong = best_match(_validator().iter_errors(data))
    except (OSError, ValueError, RecursionError) as err:
        raise InvalidResult(f"{path.name} is not readable JSON: {err}") from None
    if wrong is not None:
        place = "/".join(str(step) for step in wrong.absolute_path) or "top level"
        raise InvalidResult(
            f"{path.name} is not a benchio.result/3: {place}: {wrong.message[:200]}"
        )

    if error := data["error"]:
        raise InvalidResult(f"benchio: {data['status']}: {_in_words(error)}")
    built = {"benchio": data["benchio"]["version"], "compiler": data["benchio"]["compiler"]}
    measurements = [_measurement(case) for case in data["cases"]]
    return Result(
        started=_time(data["started"]),
        run=data["run"],
        versions=built | data["libraries"],
        environment=data["environment"],
        measurements=measurements,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _int64(text: str) -> int:
    if abs(number := int(text)) >= 2**63:
        raise ValueError(f"{text[:20]}... is no integer of benchio's")
    return number


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"it has {max(keys, key=keys.count)!r} twice in one place")
    return found


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # the schema knows its form alone
        raise InvalidResult(f"benchio's clock says {text}, and there is no such time") from None


def _measurement(case: dict[str, Any]) -> Measurement:
    return Measurement(
        case["operation"],
        case["backend"],
        bool(case["cache"] and case["cache"]["suspect"]),
        case["collective"]["observed"],
        case["collective_metadata"]["echoed"],
        case["hints"]["observed"] or case["hints"]["echoed"] or {},
        {
            COLLECTIVE: case["collective"]["requested"],
            COLLECTIVE_METADATA: case["collective_metadata"]["requested"],
            HINTS: sorted(case["hints"]["requested"].items()),
        },
        case["layout"],
        case["subfiles"]["observed"]["count"] if case["subfiles"] else 0,
        [_repetition(rep) for rep in case["repetitions"] if not rep["warmup"]],
        case["target"]["name"] if case["target"] else "",
        _in_words(case["target"]["error"]) if case["target"] and case["target"]["error"] else "",
    )


def _in_words(error: Mapping[str, Any]) -> str:
    place = f" on {error['host']}" if "host" in error else ""  # earlier versions do not say where
    parts = [f"rank {error['rank']}{place}", error["call"], error["path"], error["message"]]
    return ": ".join(filter(None, parts))


#: Phases that begin on all ranks together. The others begin where a file is ready for them: of many
#: files, the first may be closed long before the last is written, and none of them closes slowly.
_TOGETHER = ("total", "stable", "sync", "unlink")


def _repetition(rep: dict[str, Any]) -> Repetition:
    phases, witness = rep["phases"].items(), rep["witness"]
    operations = {name: time["operations"] for name, time in phases if "operations" in time}
    together = {*_TOGETHER, *operations}
    seconds = {
        phase: time["window" if phase in together else "file_window"] for phase, time in phases
    }
    rates = dict(rep["rates"])
    if operations:
        seconds["total"] = sum(seconds[name] for name in operations)
        rates = {name: time["rate"] for name, time in phases if "rate" in time}
        rates["items"] = operations["create"] / seconds["total"] if seconds["total"] else math.inf
    return Repetition(
        rep["round"],
        _time(rep["started"]),
        rates,
        seconds,
        {name: _span(rep["phases"], name) for name in ("total", "stable") if name in rep["phases"]},
        {phase: _slowest(time) for phase, time in phases},
        rep["instances"] or [],
        rep["file_bytes"],
        Witness(
            witness["bytes"],
            witness["method"] == "pread",
            witness["direct"],
            witness["page_cache_fraction"],
            witness.get("names", 0),
            witness.get("unsynced_fraction"),
        ),
        operations,
        rep["clocks_agree"],
        {name: _spread(figure) for name, figure in (rep["nodes"] or {}).items()},
    )


def _spread(figure: Mapping[str, Any]) -> Spread:
    each = figure["each"]
    whole = None if each is None else sum(value for value in each if value is not None)
    _, _, middle, _, most = figure["quantiles"]
    return Spread(figure["nodes"], middle, most, figure["most"], whole)


#: Phases that a span may have, in the order of time: sync is the end of stable alone.
_IN_TOTAL = ("open", "define", "write", "read", "flush", "close")


def _span(phases: Mapping[str, Mapping[str, Any]], name: str) -> Span:
    within = (*_IN_TOTAL, "sync") if name == "stable" else _IN_TOTAL
    time = phases[name]
    return Span(
        time["window"],
        sum(phases[phase]["window"] for phase in within if phase in phases),
        time["between"],
        time["overlap"],
        time["by_ranks"],
        time["by_rank_0"],
    )


#: Part of the bytes that may be in a page cache for any reason, as benchio has it.
_NEGLIGIBLE = 0.01

#: Of benchio, besides those that the law compares with the case: they change what is measured.
_OPTIONS = (
    *("transfer", "flush", "direct", "warmup", "settle", "phase_barrier", "halo", "alignment"),
    *("chunk", "file_format"),
)


def conditions(result: Result) -> dict[str, str]:
    """What a run met with, in words: when a metric changes, so may one of these have."""
    measured = result.sound[-1]
    run = result.run
    conditions = {name: version for name, version in result.versions.items() if version}
    conditions |= {f"variable {name}": value for name, value in result.environment.items()}
    conditions |= {f"hint {name}": value for name, value in measured.hints.items()}
    if layout := _layout_in_words(measured.layout["observed"]):
        conditions["layout"] = layout
    if run["filesystem"]["mdt_index"] is not None:
        conditions["MDT"] = str(run["filesystem"]["mdt_index"])
    if run["filesystem"]["mount_type"]:
        conditions["mount"] = run["filesystem"]["mount_type"]
    if measured.collective:
        conditions["transfer"] = measured.collective
    # Without the fraction: of a page cache, that is another one each night.
    detours = [detour for rep in measured.repetitions for detour in rep.witness.detours]
    if detours:
        conditions["witness"] = ", ".join(dict.fromkeys(detours))
    if not all(rep.clocks_agree for rep in measured.repetitions):
        conditions["clocks"] = "those of the nodes differ by more than 1 % of what was timed"
    options = [f"{name} {run[name]}" for name in _OPTIONS]
    conditions["options"] = ", ".join([*options, f"pattern {pattern_of(run['access'])}"])
    conditions["hosts"] = " ".join(run["hosts"])
    conditions["free space"] = f"{run['filesystem']['free_bytes'] / 2**30:.0f} GiB"
    return conditions


def _layout_in_words(observed: Mapping[str, Any] | None) -> str:
    """All components of a layout, and what else the filesystem says of it; empty if nothing is
    known. Not their OSTs, of which the filesystem chooses others each time.
    """
    if observed is None:
        return ""
    parts = observed["components"] or [observed]
    words = [_component_in_words(part, len(parts) > 1) for part in parts]
    said = (observed["said"] or "").splitlines()
    words += [" ".join(line.split()) for line in said if _SAID.search(line)]
    return "; ".join(filter(None, words))


#: Of what tools of GPFS and BeeGFS say, what is of the layout and not of one file.
_SAID = re.compile(r"replication|pool|type:|chunk ?size|number of", re.I)


def _component_in_words(part: Mapping[str, Any], is_one_of_several: bool) -> str:
    size = None if part["stripe_size"] is None else format_bytes(part["stripe_size"])
    if part.get("pattern") == "mdt":
        text = "on the MDT"
    elif part["stripe_count"] is None:
        text = f"blocks of {size}" if size else ""
    else:
        text = f"stripes {'all' if part['stripe_count'] == -1 else part['stripe_count']} x {size}"
    if part.get("pattern", "raid0") not in ("raid0", "mdt"):
        text += f" {part['pattern']}"
    text += f", pool {part['pool']}" if part["pool"] else ""
    if not is_one_of_several:
        return text
    end = part["end_byte"]
    return f"{text} to {'the end' if end is None else format_bytes(end)}"


def _slowest(time: dict[str, Any]) -> Slowest:
    to_mean = time["max"] / time["mean"] if time["mean"] else 1.0
    return Slowest(time["slowest_rank"], time["slowest_host"], to_mean)


#: So far apart the clocks of a login node and a compute node may be, s.
CLOCKS_APART_S = 300


def id_of_round(run_id: str, file: str) -> str:
    """The id that a run gives to the benchio that writes this file of its job.

    A job may start it many times: `result.2.7.json` is of `ID-2-7`.
    """
    rounds = file.partition(".json")[0].split(".")[1:]
    return "-".join([run_id, *rounds])


def require_of_job(result: Result, file: str, run_id: str, made: datetime) -> None:
    """InvalidResult if the job of the run with this id, made at that time, did not write this file.

    A stage that ReFrame keeps may hold what an earlier job has left there.
    """
    asked, found = id_of_round(run_id, file), result.run["id"]
    if found != asked:
        raise InvalidResult(
            f"{file} is another job's: its run has the id {found}, where this one gave {asked}"
        )
    if (made - result.started).total_seconds() > CLOCKS_APART_S:
        raise InvalidResult(
            f"{file} began at {result.started:%Y-%m-%d %H:%M:%S} UTC, before its job was made at "
            f"{made:%Y-%m-%d %H:%M:%S} UTC: look at the clocks of {' '.join(result.run['hosts'])}"
        )


@dataclass(frozen=True)
class Job:
    """A job of benchio that has ended, by what it was given."""

    folder: Path  # with what it left
    case: Case
    filesystem: Filesystem
    run_id: str
    made: datetime
    nodes: int  # that it was given
    spec: str = ""  # what Spack says that its benchio is built of


def verified(
    job: Job,
    name: str,
    repeats: int,
    hung: Collection[str] = (),
    operations: Sequence[str] = (),
) -> Result:
    """What a job wrote to the file of this name, if it satisfies the law; else InvalidResult.

    `hung` are the targets that it was not to try again; `operations` as of :func:`require`.
    """
    file = job.folder / name
    if not file.exists():
        raise InvalidResult(why_it_failed(job.folder))
    result = read_result(file)
    require_of_job(result, name, job.run_id, job.made)
    require_hosts(result.run["hosts"], job.nodes)
    require(result, job.case, repeats, job.filesystem, hung, operations)
    require_built(result.versions, job.spec)
    return result


def exit_code(folder: Path) -> str:
    """What the last launcher of a job ended with; empty: the job did not come to write it."""
    file = folder / EXIT_CODE
    return file.read_text("utf-8", "replace").strip() if file.exists() else ""


def require_end(job: Job) -> None:
    """InvalidResult unless the launcher, too, says that benchio ended well."""
    if exit_code(job.folder) != "0":
        raise InvalidResult(f"benchio reported success but failed: {why_it_failed(job.folder)}")


_HOSTS_NAMED = 4


def require_hosts(hosts: Sequence[str], nodes: int) -> None:
    """InvalidResult unless a run had a host for each node that it was to have.

    A scheduler that is not told how many writers a node takes packs them: every result then looks
    well, and is one of fewer nodes.
    """
    if len(hosts) == nodes:
        return
    names = " ".join([*hosts[:_HOSTS_NAMED], *(["..."] if len(hosts) > _HOSTS_NAMED else [])])
    asked = counted(nodes, "node", "were")
    raise InvalidResult(
        f"it ran on {counted(len(hosts), 'host')} ({names}), where {asked} asked for: look in "
        "rfm_job.sh at what the scheduler was told of them, and let no other job share the nodes"
    )


#: What a package of Spack is in a result, and the words before its version there. Versions of
#: other MPIs are not compared: nobody has seen what they say.
_PACKAGES = {
    "hdf5": ("hdf5", ""),
    "netcdf-c": ("netcdf", ""),
    "parallel-netcdf": ("pnetcdf", ""),
    "openmpi": ("mpi", "Open MPI v"),
    "mpich": ("mpi", "MPICH Version:"),
}
_PACKAGE = re.compile(r"\^([\w-]+)@(\S+)")


def require_built(versions: Mapping[str, str | None], spec: str) -> None:
    """InvalidResult if what ran is not linked to what Spack's concrete spec of benchio names.

    An external may be another version than it says, and a module may put another in its place.
    """
    for package, asked in _PACKAGE.findall(spec):
        library, words = _PACKAGES.get(package, ("", ""))
        number = _NUMBER.search(asked)
        if not library or not number:
            continue
        said = versions.get(library) or "not built in"
        found = re.search(rf"{words}\s*({_NUMBER.pattern})", said)
        pairs = zip(found[1].split("."), number[0].split("."), strict=False) if found else ()
        if not found or any(int(one) != int(other) for one, other in pairs):
            raise InvalidResult(
                f"{library}: the library says {said}, where Spack was asked for {package}@{asked}: "
                "mend the external's version or prefix in spack.yaml, or the modules of the job"
            )


def bytes_of(case: Case) -> int:
    """That all writers of a case together write, or read, in a round; the files of names hold 8 to
    32 each, in turns."""
    if case.items:
        return case.writers * sum(8 * (1 + item % 4) for item in range(case.items))
    return 8 * math.prod(case.local_size) * case.writers


def require(
    result: Result,
    case: Case,
    repeats: int,
    filesystem: Filesystem,
    hung: Collection[str] = (),
    operations: Sequence[str] = (),
) -> None:
    """Enforce the law: what ran is what was asked for, and a witness has confirmed every byte.

    Of a check that looks at each OST by itself, `hung` are the targets that the run was not to try
    again. `operations` are benchio's, if not those of the check. InvalidResult says what differs.
    """
    run = result.run
    targets = [""]
    if case.check.needs_stripes:
        targets = [target for target in filesystem.targets if target not in hung]
    operations = operations or case.check.operations
    backends = [backend for _ in operations for backend in case.backends for _ in targets]
    bytes_written, nodes = bytes_of(case), len(run["hosts"])
    laws: list[_Law] = [
        ("writers", run["writers"], [case.writers]),
        ("operations", run["operations"], [list(operations)]),
        ("files", run["files"], [case.files]),
        ("instances", run["instances"], [case.instances or 1]),
        ("local size", run["local_size"] and format_size(run["local_size"]),
         [format_size((1, 1, 1) if case.items else case.local_size)]),
        ("items", run.get("items", 0), [case.items]),
        ("bytes", run["bytes"], [bytes_written]),
        ("filesystem", run["filesystem"]["type"], filesystem.types),
        ("transfer", TRANSFER.format(run["transfer"]), [TRANSFER.format(case.transfer)]),
        _way(FLUSH, run["flush"], case),
        _way(CHUNK, run["chunk"] if any(run["chunk"]) else None, case),
        (PATTERN.name, pattern_of(run["access"]), [PATTERN.format(case.get(PATTERN.name))]),
        ("backends", [m.backend for m in result.measurements], [backends]),
        *(("targets", sorted(m.target for m in result.measurements if m.operation == operation),
           [sorted(targets * len(case.backends))]) for operation in map(_timed, operations)),
    ]  # fmt: skip
    for measurement in result.sound:
        backend, reps = measurement.backend, measurement.repetitions
        laws += [
            (f"repetitions of {backend}", len({rep.round for rep in reps}), [repeats]),
            (f"rounds of {backend}", [rep.round for rep in reps],
             [[rep.round for rep in result.sound[0].repetitions]]),
            (f"repetitions of {backend} of which the witness confirmed more or less than all bytes",
             sum(rep.witness.bytes != bytes_written for rep in reps), [0]),
            (f"repetitions of {backend} whose files were kept",
             sum(measurement.operation == "write" and "unlink" not in rep.seconds for rep in reps),
             [len(reps) if WRITE_KEEP in operations else 0]),
            (f"repetitions of {backend} with a rate or time that is no number",
             sum(not _is_timed(rep) for rep in reps), [0]),
            (f"repetitions of {backend} with a rate that is not their bytes over their time",
             sum(not _adds_up(rep, bytes_written) for rep in reps), [0]),
            *_names(case, reps),
            (f"repetitions of {backend} with a phase that is longer than the whole",
             sum(_has_too_long_a_phase(rep) for rep in reps), [0]),
        ]  # fmt: skip
        laws += [
            *_ways(measurement, case),
            *_layout(measurement, case, filesystem, READ_EXISTING in operations),
            *_spans(backend, reps, nodes),
            (
                f"repetitions of {backend} whose nodes moved more or less than all bytes",
                sum(not _is_moved_by_nodes(rep, bytes_written) for rep in reps),
                [0],
            ),
        ]
    if (mdt := case.get(MDT.name)) is not None:
        laws += [("MDT", run["filesystem"]["mdt_index"], [mdt])]
    suspects = list(dict.fromkeys(m.backend for m in result.sound if m.cache_suspect))
    if suspects and not filesystem.cached_reads:
        raise InvalidResult(
            f"what {' and '.join(suspects)} read may have come from a cache, which 'cached_reads' "
            f"of {case.system}:{case.partition} does not allow"
        )
    witnesses = [rep.witness for m in result.sound for rep in m.repetitions]
    unsynced = max((witness.unsynced_fraction or 0 for witness in witnesses), default=0)
    if unsynced > _NEGLIGIBLE:
        raise InvalidResult(
            f"the page cache still held {unsynced:.0%} of what was synced: fsync does not reach "
            f"stable storage on this {run['filesystem']['type']}; look for `volatile` in its mount "
            "options, and at LD_PRELOAD"
        )
    for name, found, wanted in laws:
        if found not in wanted:
            raise InvalidResult(_broken(name, found, wanted))


def others_in_place(night: str, run_id: str) -> str:
    """That what was read is not what a night had kept, whatever its bytes say of themselves."""
    return f"in the place of what {night} kept are the files of another run, {run_id}"


def _timed(operation: str) -> str:
    """What a case of the result file calls it."""
    return {WRITE_KEEP: "write", READ_EXISTING: "read"}.get(operation, operation)


#: What a law is about, what was found, and what was asked for.
_Law = tuple[str, Any, Collection[Any]]


def _broken(name: str, found: Any, wanted: Collection[Any]) -> str:
    """The sentence on a law that was broken."""
    if wanted == [0]:
        there = f"is 1 {name.replace('repetitions', 'repetition', 1)}"
        return f"there {there if found == 1 else f'are {found} {name}'}, and there should be none"
    return f"{name}: {found}, where {' or '.join(map(str, wanted))} was asked for"


def _way(way: Way, found: Any, case: Case, backend: str = "") -> _Law:
    """That a run, or one backend of it, was told to write or read in the way of the case."""
    name = f"{way.name} of {backend}" if backend else way.name
    return name, way.format(found), [way.format(case.get(way.name))]


def _ways(measurement: Measurement, case: Case) -> list[_Law]:
    """That a backend was told the way of the case, and took it where that can be seen.

    Of hints it cannot be: what a file repeats of them is no evidence.
    """
    backend, reps = measurement.backend, measurement.repetitions
    laws = [_way(way, found, case, backend) for way, found in measurement.requested.items()]
    found, kind = measurement.collective, "collective"
    if found and not case.get(COLLECTIVE.name):  # the library adds that this was asked for
        found, kind = found.partition(",")[0], "independent"
    laws += [(f"collective transfer of {backend}", found, [None, kind])]
    said = measurement.metadata
    if said and not said.startswith("not supported"):  # by HDF5 1.8
        wanted = COLLECTIVE_METADATA.format(case.get(COLLECTIVE_METADATA.name))
        laws += [(f"collective metadata of {backend}", said, [wanted])]
    flushes = len(reps) if case.get(FLUSH.name) else 0
    found_flushes = sum("flush" in rep.seconds for rep in reps)
    laws += [(f"repetitions of {backend} with a flush", found_flushes, [flushes])]
    if case.get(CHUNK.name) and backend in CHUNK.backends:
        in_one_run = sum(rep.witness.is_raw for rep in reps)
        laws += [(f"repetitions of {backend} without chunks", in_one_run, [0])]
    subfiles = case.subfiles if backend == "hdf5" else 0
    laws += [(f"subfiles of {backend}", measurement.subfiles, [subfiles])]
    if case.is_compressed:
        too_large = sum(rep.file_bytes >= bytes_of(case) for rep in reps)
        laws += [(f"repetitions of {backend} whose files are not compressed", too_large, [0])]
    return laws


def _layout(
    measurement: Measurement, case: Case, filesystem: Filesystem, was_there: bool
) -> list[_Law]:
    """That a backend was told the layout of the case, and that its files have it; files that were
    there already have had it told by who wrote them."""
    backend, target = measurement.backend, measurement.target
    setstripe = filesystem.layouts.get(case.layout or "")
    wanted = _wanted_layout(case, filesystem)
    asked = {**wanted, "setstripe": setstripe} if setstripe or wanted["stripe_size"] else None
    asked = None if was_there else asked
    laws: list[_Law] = [
        (f"requested layout of {backend}", measurement.layout["requested"], [asked])
    ]
    observed = measurement.layout["observed"]
    laws += layout_laws(backend, observed, case, filesystem, target)
    if target and filesystem.storage.is_numbered and observed:
        laws += [(f"OSTs of {backend}", observed["osts"], [[filesystem.targets.get(target)]])]
    return laws


def layout_laws(
    who: str,
    observed: Mapping[str, Any] | None,
    case: Case,
    filesystem: Filesystem,
    target: str = "",
) -> list[_Law]:
    """That files have the layout of the case, as far as it is one in numbers, and else that theirs
    is known. `observed` has stripe_count, stripe_size in bytes, and pool; None: nobody knows it."""
    if filesystem.osts is None:
        return []
    if observed is None or observed["stripe_count"] is None:
        return [(f"observed layout of {who}", "unknown", ["one that is known"])]
    wanted = _wanted_layout(case, filesystem, target)
    count = observed["stripe_count"]
    if wanted["stripe_count"] == -1 and count >= min(2, len(filesystem.osts_of(case))):
        wanted["stripe_count"] = count  # `notes` says whether these are all
    return [
        (f"{name.replace('_', ' ')} of {who}", observed[name], [value])
        for name, value in wanted.items()
        if value is not None
    ]


def require_layouts(who: str, job: Job, name: str, files: int, size: int) -> None:
    """Enforce the law of the layouts of a program's files, as the job has listed them in a file of
    this name: so many files, of `size` bytes at most, have the layout of the case."""
    if job.filesystem.osts is None:
        return
    listing = job.folder / name
    text = listing.read_text("utf-8", "replace") if listing.exists() else ""
    listed = job.filesystem.storage.layouts(text)
    if len(listed) != files:
        raise InvalidResult(
            f"the layouts of {counted(len(listed), 'file')} are listed, and {who} has written "
            f"{files}: see {name}"
        )
    for components in listed:
        observed = None
        if components:  # of several, the one that holds most of the file
            most = max(components, key=lambda part: part.bytes_of(size))
            pool = most.pool or None
            observed = {"stripe_count": most.count, "stripe_size": most.size, "pool": pool}
        for law, value, wanted in layout_laws(f"{who}'s files", observed, job.case, job.filesystem):
            if value not in wanted:
                raise InvalidResult(_broken(law, value, wanted))


def _wanted_layout(case: Case, filesystem: Filesystem, target: str = "") -> dict[str, Any]:
    """What a case asks for in numbers; None: it does not say."""
    if filesystem.osts is None or case.stripe_size is None:
        return {"stripe_count": None, "stripe_size": None, "pool": None}
    return {
        "stripe_count": filesystem.stripe_count(case),
        "stripe_size": case.stripe_size * MIB,
        "pool": case.pool or (None if filesystem.storage.is_numbered else target or None),
    }


def notes(result: Result, case: Case, filesystem: Filesystem) -> list[str]:
    """What is to be known of a run that satisfies the law: that all OSTs were not all of them."""
    observed = result.sound[-1].layout["observed"]
    if case.stripe_count != -1 or observed is None:
        return []
    known, found = set(filesystem.osts_of(case)), observed["osts"]
    missing = sorted(known - set(found)) if found else []
    if observed["stripe_count"] >= len(known) and not missing:
        return []
    said = f"striped over {observed['stripe_count']} of {len(known)} OSTs"
    if not missing:
        return [said]
    return [f"{said}: {osts_in_words(missing)} {'is' if len(missing) == 1 else 'are'} missing"]


def osts_in_words(osts: Sequence[int]) -> str:
    """`OST 2`, or `OSTs 2 and 3`; there is one at least."""
    *others, last = map(str, osts)
    return f"OSTs {', '.join(others)} and {last}" if others else f"OST {last}"


def _names(case: Case, reps: Sequence[Repetition]) -> list[_Law]:
    """That each name was there once and then gone, and every phase went through all of them."""
    if not case.items:
        return []
    each = case.items * case.writers
    found = [rep.operations for rep in reps]
    return [
        ("repetitions in which more or fewer names were confirmed than there were",
         sum(rep.witness.names != 2 * each for rep in reps), [0]),
        ("repetitions of which a phase has more or fewer operations than there were names",
         sum(any(of[name] != each for name in NAME_PHASES if name != "list") for of in found), [0]),
        # One node lists all names, or each does; or each writer those of another.
        ("repetitions in which not every name was listed",
         sum(of["list"] < 2 * each or of["list"] % (2 * case.items) for of in found), [0]),
    ]  # fmt: skip


def _is_timed(rep: Repetition) -> bool:
    numbers = [*rep.rates.values(), *rep.seconds.values()]
    return all(math.isfinite(number) for number in numbers) and rep.seconds["total"] > 0


#: Digits are lost where a result is written, and no more.
_ROUNDING = 1e-3
#: benchio writes nine digits of a number.
_DIGITS = 1e-6


def _adds_up(rep: Repetition, size: int) -> bool:
    """Of what is timed. The time of the rate `data` is not kept here: it must be a part of all."""
    if rep.operations:
        return all(
            math.isclose(rep.rates[name] * rep.seconds[name], count, rel_tol=_ROUNDING)
            for name, count in rep.operations.items()
        )
    return all(
        math.isclose(rep.rates[name] * rep.seconds[name], size / MIB, rel_tol=_ROUNDING)
        for name in rep.spans
    ) and rep.rates["data"] >= rep.rates["total"] * (1 - _ROUNDING)


def _is_moved_by_nodes(rep: Repetition, size: int) -> bool:
    """Do the parts of nodes that are listed come to all bytes? Of names no node has a part."""
    moved = rep.nodes["mib"].whole if rep.nodes else None
    return moved is None or math.isclose(moved, size / MIB, rel_tol=_DIGITS)


def _spans(backend: str, reps: Sequence[Repetition], nodes: int) -> list[_Law]:
    """That phases, and what lies between them, are the whole; and that no clock has it longer."""
    gaps = sum(not all(span.adds_up() for span in rep.spans.values()) for rep in reps)
    short = sum(not all(span.is_longest(nodes) for span in rep.spans.values()) for rep in reps)
    return [
        (f"repetitions of {backend} with phases that do not add up to the whole", gaps, [0]),
        (f"repetitions of {backend} with a time that is not the longer one of two clocks",
         short, [0]),
    ]  # fmt: skip


def _has_too_long_a_phase(rep: Repetition) -> bool:
    """Of those between opening a file and closing it."""
    most = rep.seconds["total"] * (1 + _ROUNDING)
    return any(time > most for phase, time in rep.seconds.items() if phase not in _TOGETHER)


@dataclass(frozen=True)
class KnownFault:
    """Versions of a library, both ends included, that are slow on a type of filesystem."""

    library: str
    first: tuple[int, ...]
    last: tuple[int, ...]
    filesystem: str
    reason: str


#: The white paper, section 6: "HDF5 Performance" found all versions on ARCHER slow, "from the
#: default 1.8.14 to the most current 1.10.0"; "NetCDF Performance" says "avoid the use of NetCDF
#: versions 4.3.3.1 and below", section 7 "versions of NetCDF below 4.4.0".
KNOWN_FAULTS = [
    KnownFault(
        "hdf5",
        (1, 8, 14),
        (1, 10, 0),
        "lustre",
        "H5Fclose sets the file's size, which is slow on Lustre (white paper, section 6)",
    ),
    KnownFault(
        "netcdf",
        (0,),
        (4, 3, 3, 1),
        "lustre",
        "netCDF below 4.4.0 closes files through that path of HDF5 (white paper, section 6)",
    ),
]

_LINE = re.compile(r"^(mpiio|hdf5|netcdf|pnetcdf) +(\S.*?) *$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


def read_versions(text: str) -> dict[str, str]:
    """The version of each library in what `benchio --version` prints."""
    return dict(_LINE.findall(text))


def known_faults(versions: Mapping[str, str], filesystems: Collection[str]) -> list[str]:
    """A sentence for each library whose version is known to be slow on one of these types."""
    return [
        f"{fault.library} {versions[fault.library]}: {fault.reason}"
        for fault in KNOWN_FAULTS
        if fault.filesystem in filesystems
        and (number := _NUMBER.search(versions.get(fault.library, "")))
        and fault.first <= tuple(map(int, number[0].split("."))) <= fault.last
    ]
