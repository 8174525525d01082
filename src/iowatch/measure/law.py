"""The law that a result must satisfy: no figure without a verified write."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from iowatch.base.text import counted, numbers_in_words
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.parameters import (
    CHUNK,
    COLLECTIVE,
    COLLECTIVE_METADATA,
    FLUSH,
    HINTS,
    MDT,
    MIB,
    PATTERN,
    READ_EXISTING,
    SECONDS,
    SUBFILING,
    TRANSFER,
    WRITE_KEEP,
    Way,
    format_size,
    pattern_of,
)
from iowatch.cases.verdict import Reason
from iowatch.measure import job_environment
from iowatch.measure.job_environment import require_built, require_variables
from iowatch.measure.job_folder import EXIT_CODE, note_of, why_it_failed
from iowatch.measure.mounted import Known, require_known
from iowatch.measure.result import (
    FAILURES,
    LEAST_STEPS,
    InvalidResult,
    Measurement,
    Repetition,
    Result,
    read_result,
)

#: The subject of a law, the value of a run, and the values that satisfy the law.
Law = tuple[str, Any, Collection[Any]]


def enforce(laws: Iterable[Law], who: str = "", reason: Reason = Reason.NOT_AS_ASKED) -> None:
    """Raise InvalidResult with this reason for the first law that is broken; `who` is the program
    it is about."""
    for subject, value, wanted in laws:
        if value in wanted:
            continue
        if wanted == [0] and subject.startswith("repetitions"):
            single = f"is 1 {subject.replace('repetitions', 'repetition', 1)}"
            there = single if value == 1 else f"are {value} {subject}"
            sentence = f"there {there}, and there should be none"
        else:
            sentence = f"{subject}: {value}, where {' or '.join(map(str, wanted))} was asked for"
        raise InvalidResult(f"{who}: {sentence}" if who else sentence, reason)


#: Part of the bytes that may be in a page cache for any reason, as benchio has it.
_NEGLIGIBLE = 0.01


def id_of_round(run_id: str, file: str) -> str:
    """Return the id that a run gives to the benchio that writes this file of the run's job.

    A job may start it many times: `result.2.7.json` is of `ID-2-7`.
    """
    rounds = file.partition(".json")[0].split(".")[1:]
    return "-".join([run_id, *rounds])


def require_id(given: str, file: str, run_id: str) -> None:
    """Raise InvalidResult unless a file of the run with this id has the id that was given to it."""
    asked = id_of_round(run_id, file)
    if given != asked:
        raise InvalidResult(
            f"{file} is another job's: its run has the id {given}, where this one gave {asked}",
            Reason.NO_OUTPUT,
        )


def require_of_job(result: Result, file: str, run_id: str, made: datetime) -> None:
    """Raise InvalidResult unless the job of the run with this id, made then, wrote this file.

    A stage that ReFrame keeps may hold what an earlier job has left there.
    """
    require_id(result.run["id"], file, run_id)
    if (made - result.started).total_seconds() > job_environment.APART_S:
        raise InvalidResult(
            f"{file} began at {result.started:%Y-%m-%d %H:%M:%S} UTC, before its job was made at "
            f"{made:%Y-%m-%d %H:%M:%S} UTC: look at the clocks of {' '.join(result.run['hosts'])}",
            Reason.WRONG_CLOCK,
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of benchio that has ended, by what it was given."""

    folder: Path  # with what it left
    case: Case
    filesystem: Filesystem
    run_id: str
    made: datetime
    nodes: int  # that it was given
    spec: str = ""  # what Spack says that its benchio is built of
    #: What it hands over to its ranks, by name: what the site's configuration says, or nothing.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Numbers of the OSTs that were declared to be away; None: nothing was declared.
    away: Collection[int] | None = None
    known: Known = field(default_factory=dict)  # none: the place has no past


def verified(
    job: Job,
    name: str,
    repeats: int,
    hung: Collection[str] = (),
    operations: Sequence[str] = (),
) -> Result:
    """Read what a job wrote to the file of this name. InvalidResult: it breaks the law.

    `hung` are the targets that it was not to try again; `operations` as of :func:`require`.
    """
    file = job.folder / name
    if not file.exists():
        ended = exit_code(job.folder)
        if ended == "0":  # its last words are no error
            why = f"{job.folder.name}: {name} is not there, though benchio ended well"
            raise InvalidResult(why, Reason.NO_OUTPUT)
        cause = why_it_failed(job.folder)
        reason = cause.reason or FAILURES.get(ended, Reason.NO_OUTPUT)
        raise InvalidResult(cause.sentence, reason)
    try:
        result = read_result(file)
    except InvalidResult as err:
        if err.reason is not Reason.PROGRAM_FAILED:
            raise
        cause = why_it_failed(job.folder)  # a library that ended benchio may have printed why
        raise InvalidResult(cause.sentence, cause.reason or err.reason) from None
    require_of_job(result, name, job.run_id, job.made)
    require_hosts(result.run["hosts"], job.nodes)
    require_known(result, job.known)
    require(result, job.case, repeats, job.filesystem, hung, operations)
    require_built(result.versions, job.spec)
    require_variables(result.environment, job.variables, job.folder)
    return result


def require_one_result(folder: Path) -> None:
    """InvalidResult if a job that writes one result file has left several."""
    if len(files := list(folder.glob("result*.json"))) > 1:
        raise InvalidResult(f"{folder.name}: {len(files)} result files, where 1 was written")


def exit_code(folder: Path) -> str:
    """Read what the last launcher of a job ended with; empty: the job did not come to write it."""
    file = folder / EXIT_CODE
    return file.read_text("utf-8", "replace").strip() if file.exists() else ""


def require_end(job: Job) -> None:
    """Raise InvalidResult unless benchio, of which no result tells, ended well."""
    if (code := exit_code(job.folder)) != "0":
        cause = why_it_failed(job.folder)
        why = f"benchio {'failed' if code else 'did not run'}: {cause.sentence}"
        other = Reason.PROGRAM_FAILED if code else Reason.NO_OUTPUT
        raise InvalidResult(why, cause.reason or other)


def notes_on_end(job: Job) -> list[str]:
    """Say what came after the last result of a job was written, which takes nothing from it.

    Empty: benchio, and its launcher, ended well.
    """
    code, words = exit_code(job.folder), note_of(job.folder)
    if code == "0" and not words:
        return []
    if not words:
        words = "the job was ended before its launcher"
        if code:
            words = f"its launcher ended with {code}: {why_it_failed(job.folder).sentence}"
    return [f"after its result was written: {words.removeprefix('benchio: note: ')}"]


_HOSTS_NAMED = 4


def require_hosts(hosts: Sequence[str], nodes: int) -> None:
    """Raise InvalidResult unless a run had a host for each node that it was to have.

    A scheduler that is not told how many ranks a node takes packs them: every result then looks
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


def require(
    result: Result,
    case: Case,
    repeats: int,
    filesystem: Filesystem,
    hung: Collection[str] = (),
    operations: Sequence[str] = (),
) -> None:
    """Enforce the law: what ran is what was asked for, and a witness has confirmed every byte.

    `hung` are the targets that a run of a check on each OST was not to try again. `operations` are
    benchio's, if not those of the check. InvalidResult says what differs.
    """
    run = result.run
    targets = [""]
    if case.check.by_target:
        targets = [target for target in filesystem.targets if target not in hung]
    operations = operations or case.check.operations
    backends = [backend for _ in operations for backend in case.backends for _ in targets]
    laws: list[Law] = [
        ("ranks", run["ranks"], [case.ranks]),
        ("operations", run["operations"], [list(operations)]),
        ("files", run["files"], [case.files]),
        ("instances", run["instances"], [case.instances or 1]),
        ("local size", run["local_size"] and format_size(run["local_size"]),
         [format_size(case.check.elements(case))]),
        ("items", run.get("items", 0), [case.items]),
        ("seconds", run.get("seconds", 0), [case.get(SECONDS.name) or 0]),
        ("bytes", run["bytes"], [case.bytes]),
        *((name, run.get(name), [value]) for name, value in case.check.asked_of(case).items()),
        ("transfer", TRANSFER.format(run["transfer"]), [TRANSFER.format(case.transfer)]),
        _way(FLUSH, run["flush"], case),
        _way(CHUNK, run["chunk"] if any(run["chunk"]) else None, case),
        (PATTERN.name, pattern_of(run["access"]), [PATTERN.format(case.get(PATTERN.name))]),
        ("backends", [m.backend for m in result.measurements], [backends]),
        *(("targets", sorted(m.target for m in result.measurements if m.operation == operation),
           [sorted(targets * len(case.backends))]) for operation in map(_timed, operations)),
    ]  # fmt: skip
    rounds = [rep.round for rep in result.sound[0].repetitions] if result.sound else []
    for measurement in result.sound:
        backend, reps = measurement.backend, measurement.repetitions
        keeps = WRITE_KEEP in operations if measurement.operation == "write" else None
        laws += [
            (f"repetitions of {backend}", len({rep.round for rep in reps}), [repeats]),
            (f"rounds of {backend}", [rep.round for rep in reps], [rounds]),
            *(
                (f"repetitions of {backend} {fault}", sum(map(is_so, reps)), [0])
                for fault, is_so in _faults(case, backend, len(run["hosts"]), keeps).items()
            ),
            *_ways(measurement, case),
            *_hints(measurement, result.environment["variables"]),
        ]
    if (mdt := case.get(MDT.name)) is not None:
        laws += [("MDT", run["filesystem"]["mdt_index"], [mdt])]
    _require_trustworthy(result, case, filesystem)
    place: Law = ("filesystem", run["filesystem"]["type"], filesystem.types)
    enforce([place], reason=Reason.WRONG_FILESYSTEM)
    enforce(laws)
    was_there = READ_EXISTING in operations
    layouts = (_layout(measurement, case, filesystem, was_there) for measurement in result.sound)
    enforce(itertools.chain.from_iterable(layouts), reason=Reason.WRONG_LAYOUT)


def _require_trustworthy(result: Result, case: Case, filesystem: Filesystem) -> None:
    """InvalidResult if a clock is too coarse for what it timed, or if a cache may have served what
    was read, or kept what was to be stored."""
    reps = [rep for m in result.sound for rep in m.repetitions]
    if step := max((rep.clock_step for rep in reps if rep.is_too_short), default=0):
        raise InvalidResult(
            f"a clock of {' '.join(result.run['hosts'])} goes in steps of {step:.2g} s, and a rate "
            f"is of less than {LEAST_STEPS} of them: see which clocksource the kernel has",
            Reason.WRONG_CLOCK,
        )
    suspects = list(dict.fromkeys(m.backend for m in result.sound if m.cache_suspect))
    if suspects and not filesystem.cached_reads:
        raise InvalidResult(
            f"what {' and '.join(suspects)} read may have come from a cache, which 'cached_reads' "
            f"of {case.system}:{case.partition} does not allow",
            Reason.CACHED_READ,
        )
    unsynced = max((rep.witness.unsynced_fraction or 0 for rep in reps), default=0)
    if unsynced > _NEGLIGIBLE:
        raise InvalidResult(
            f"the page cache still held {unsynced:.0%} of what was synced: fsync does not reach "
            f"stable storage on this {result.run['filesystem']['type']}; look for `volatile` in "
            "its mount options, and at LD_PRELOAD",
            Reason.NOT_SYNCED,
        )


def _faults(
    case: Case, backend: str, nodes: int, keeps: bool | None
) -> dict[str, Callable[[Repetition], bool]]:
    """Name what no repetition of a backend may be. `keeps`: the written files are to stay; None:
    the repetition reads.

    A rate has bytes and seconds that come to it, phases and gaps come to the whole, and no clock
    has the whole longer.
    """
    size, moved = case.bytes, case.check.bytes_moved(case)
    faults: dict[str, Callable[[Repetition], bool]] = {}
    if keeps is not None:
        fault = "whose files were removed" if keeps else "whose files were kept"
        faults[fault] = lambda rep: ("unlink" in rep.seconds) == keeps
    if case.get(FLUSH.name):
        faults["without a flush"] = lambda rep: "flush" not in rep.seconds
    else:
        faults["with a flush"] = lambda rep: "flush" in rep.seconds
    if case.get(CHUNK.name) and backend in CHUNK.backends:
        faults["without chunks"] = lambda rep: rep.witness.is_raw
    if case.is_compressed:
        faults["whose files are not compressed"] = lambda rep: rep.file_bytes >= size
    return faults | {
        "of which the witness confirmed more or less than all bytes":
            lambda rep: rep.witness.bytes != case.check.bytes_confirmed(case, rep.file_bytes),
        "with a rate or time that is no number":
            lambda rep: not rep.is_timed,
        "with a rate that is not their bytes over their time":
            lambda rep: not rep.adds_up(moved),
        "with a phase that is longer than the whole":
            lambda rep: rep.has_too_long_a_phase,
        "with phases that do not add up to the whole":
            lambda rep: not all(span.adds_up() for span in rep.spans.values()),
        "timed by the shorter of two clocks, that of rank 0 and those of the nodes":
            lambda rep: not all(span.is_longest(nodes) for span in rep.spans.values()),
        "whose nodes moved more or less than all bytes":
            lambda rep: not rep.is_moved_by_nodes(moved),
        **case.check.faults(case),
    }  # fmt: skip


def others_in_place(night: str, run_id: str) -> str:
    """Say that what was read is not what a night had kept, whatever the bytes say of themselves."""
    return f"in the place of what {night} kept are the files of another run, {run_id}"


def _timed(operation: str) -> str:
    """Return the name of an operation in the cases of the result file."""
    return {WRITE_KEEP: "write", READ_EXISTING: "read"}.get(operation, operation)


def _way(way: Way, value: Any, case: Case, backend: str = "") -> Law:
    """State that a run, or one backend of it, was told to write or read in the way of the case."""
    name = f"{way.name} of {backend}" if backend else way.name
    return name, way.format(value), [way.format(case.get(way.name))]


def _ways(measurement: Measurement, case: Case) -> list[Law]:
    """State that a backend was told the way of the case, and took it where that can be seen."""
    backend = measurement.backend
    laws = [_way(way, value, case, backend) for way, value in measurement.requested.items()]
    transfer, kind = measurement.collective, "collective"
    if transfer and not case.get(COLLECTIVE.name):  # the library adds that this was asked for
        transfer, kind = transfer.partition(",")[0], "independent"
    laws += [(f"collective transfer of {backend}", transfer, [None, kind])]
    metadata = measurement.metadata
    if metadata and not metadata.startswith("not supported"):  # by HDF5 1.8
        wanted = COLLECTIVE_METADATA.format(case.get(COLLECTIVE_METADATA.name))
        laws += [(f"collective metadata of {backend}", metadata, [wanted])]
    subfiles = case.subfiles if backend in SUBFILING else 0
    return [*laws, (f"subfiles of {backend}", measurement.subfiles, [subfiles])]


def _hints(measurement: Measurement, variables: Mapping[str, str]) -> Iterator[Law]:
    """State that a file repeats no hint otherwise than was asked for: a variable may override it.

    One that it repeats is no evidence that the hint does anything.
    """
    setters = "".join(f", with {name}={text}" for name, text in variables.items() if "HINT" in name)
    for name, wanted in measurement.requested[HINTS] or ():
        value = measurement.hints.get(name, wanted)
        if value.lower() != wanted.lower():
            yield f"hint {name} of {measurement.backend}{setters}", value, [wanted]


def _layout(
    measurement: Measurement, case: Case, filesystem: Filesystem, was_there: bool
) -> list[Law]:
    """State that a backend was told the layout of the case, and that the files have that layout.
    For files that were there already, whoever wrote them was told."""
    backend, target = measurement.backend, measurement.target
    setstripe = filesystem.layouts.get(case.layout or "")
    wanted = _wanted_layout(case, filesystem)
    asked = {**wanted, "setstripe": setstripe} if setstripe or wanted["stripe_size"] else None
    asked = None if was_there else asked
    laws: list[Law] = [(f"requested layout of {backend}", measurement.layout["requested"], [asked])]
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
) -> list[Law]:
    """State that files have the layout of the case, as far as that is one in numbers, and else that
    their layout is known.

    `observed` has stripe_count, stripe_size in bytes, and pool; None: nobody knows them.
    """
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
    """Enforce the law of the layouts of a program's files, as the job has listed them in this file.
    There must be as many files, of `size` bytes at most."""
    if job.filesystem.osts is None:
        return
    listing = job.folder / name
    text = listing.read_text("utf-8", "replace") if listing.exists() else ""
    listed = job.filesystem.storage.layouts(text)
    if len(listed) != files:
        raise InvalidResult(
            f"the layouts of {counted(len(listed), 'file')} are listed, and {who} has written "
            f"{files}: see {name}",
            Reason.WRONG_LAYOUT,
        )
    for components in listed:
        observed = None
        if components:  # of several, the one that holds most of the file
            most = max(components, key=lambda part: part.bytes_of(size))
            pool = most.pool or None
            observed = {"stripe_count": most.count, "stripe_size": most.size, "pool": pool}
        laws = layout_laws(f"{who}'s files", observed, job.case, job.filesystem)
        enforce(laws, reason=Reason.WRONG_LAYOUT)


def _wanted_layout(case: Case, filesystem: Filesystem, target: str = "") -> dict[str, Any]:
    """Return the layout that a case asks for in numbers; None: the case does not say."""
    if filesystem.osts is None or case.stripe_size is None:
        return {"stripe_count": None, "stripe_size": None, "pool": None}
    return {
        "stripe_count": filesystem.stripe_count(case),
        "stripe_size": case.stripe_size * MIB,
        "pool": case.pool or (None if filesystem.storage.is_numbered else target or None),
    }


def notes(result: Result, case: Case, filesystem: Filesystem) -> list[str]:
    """Say of a run that satisfies the law what it did not take of what was asked for: hints, and of
    all OSTs some; empty: it took all, for all that can be seen."""
    return [*_dropped_hints(result), *_missing_osts(result, case, filesystem)]


def _dropped_hints(result: Result) -> Iterator[str]:
    """Say which hints the files do not repeat: MPI-IO repeats those that it takes."""
    for measurement in {m.backend: m for m in result.sound}.values():
        asked = measurement.requested[HINTS] or ()
        dropped = [f"{name}={value}" for name, value in asked if name not in measurement.hints]
        if dropped and measurement.hints:  # else nobody can see what it took
            yield f"{measurement.backend} has dropped what hints asked for: {', '.join(dropped)}"


def _missing_osts(result: Result, case: Case, filesystem: Filesystem) -> list[str]:
    observed = result.sound[-1].layout["observed"]
    if case.stripe_count != -1 or observed is None:
        return []
    known, osts = set(filesystem.osts_of(case)), observed["osts"]
    missing = sorted(known - set(osts)) if osts else []
    if observed["stripe_count"] >= len(known) and not missing:
        return []
    sentence = f"striped over {observed['stripe_count']} of {len(known)} OSTs"
    if not missing:
        return [sentence]
    osts_missing = numbers_in_words("OST", missing)
    return [f"{sentence}: {osts_missing} {'is' if len(missing) == 1 else 'are'} missing"]
