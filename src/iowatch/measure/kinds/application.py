"""An application's own output: what each round of its job has left, and the law of it.

Nobody can say of every byte of an application what it should be, as benchio's witness can. Four
things are confirmed instead. All files are on the filesystem and synced on every node. A process of
another node, if there is one, has read each file past its page cache. All rounds have left the same
bytes, where the application computes the same each time. The application's own reader finds in the
files what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.records import number
from iowatch.base.text import counted
from iowatch.cases.case import KIB, WARMUPS, Case
from iowatch.cases.metric import RATE_BOUND, SECONDS, STABLE, TO_CONTROL, TOTALS, phase_seconds
from iowatch.cases.parameters import (
    CONTROL,
    LAYOUT,
    MIB,
    POOL,
    RANKS,
    STRIPE_COUNT,
    STRIPE_SIZE,
    Size,
)
from iowatch.cases.verdict import Reason
from iowatch.measure.job_environment import require_unset
from iowatch.measure.job_folder import read_text
from iowatch.measure.kinds.array import SHARED_FILE_WRITE
from iowatch.measure.kinds.kind import Kind
from iowatch.measure.law import Job, require_id, require_layouts, verified
from iowatch.measure.measured import Measured, rate_metrics, rates_of_rounds
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, Result, reading

FORMAT = "iowatch.application/1"
_OUTPUT = replace(
    SECONDS, about="The median time that went into output, as the application's own log says."
)
_SECONDS = number("seconds", 0)
NAME = "application"  # what a round leaves begins with it

#: Size of the control in the same rounds: 2 MiB of each writer.
CONTROL_SIZE: Size = (64, 64, 64)

#: How its files were read again.
DIRECT, ELSEWHERE, CACHED = "direct", "elsewhere", "cached"
_DETOURS = {DIRECT: "", ELSEWHERE: "on another node", CACHED: "perhaps through a page cache"}


@dataclass(frozen=True)
class Output:
    """A file that an application has written in a round."""

    name: str
    bytes: int
    digest: str  # SHA-256 of what was read again
    how: str  # it was read: DIRECT, ELSEWHERE, CACHED


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of an application, which ended well."""

    version: str  # as it says itself
    run_s: float  # that it took, at most
    output_s: float  # that it spent on output, as it says itself
    sync_s: float  # until all of it was on stable storage, after the application had ended
    files: Sequence[Output]
    confirmed: str  # by its own reader, in words
    repeats_itself: bool  # each round writes the same bytes

    @property
    def rates(self) -> dict[str, float]:
        """MiB/s: total, of the time in output, and stable, with the sync."""
        mib = sum(file.bytes for file in self.files) / MIB
        return {"total": mib / self.output_s, "stable": mib / (self.output_s + self.sync_s)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplicationKind(Kind):
    """The output of an application beside MPI-IO, in the same rounds; the application's name stands
    where others have a backend."""

    mib: int  # that it writes in a round at most

    def room_kib(self, case: Case, repeats: int) -> int:
        return super().room_kib(control(case), repeats) + self.mib * MIB // KIB

    def bytes_written(self, case: Case, targets: int) -> int:
        return self.repeats * ((1 + WARMUPS) * control(case).bytes + self.mib * MIB)

    def read(self, job: Job, repeats: int) -> Measured:
        results, rounds = of_rounds(job, repeats)
        stable = [done.rates["stable"] for done in rounds]
        return Measured.from_results(
            results,
            metrics_of(results, rounds),
            provenance=provenance_of(job.case, results, rounds),
            rates=rates_of_rounds(results) | {job.case.backend: stable},
        )


def application(program: str, name: str, short: str, mib: int) -> ApplicationKind:
    return ApplicationKind(
        name=name,
        short=short,
        mib=mib,
        parameters=(LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, RANKS),
        fixed={"backend": program},
        backends=(program,),
        repeats=3,
        metrics={
            **TOTALS,
            **STABLE,
            "output_s": _OUTPUT,
            **phase_seconds("sync"),
            "ratio": TO_CONTROL,
        },
        bounds=RATE_BOUND,
        bounds_comment="The floor of total_max only says that something moved.",
    )


#: The first is measured every night, where a site has not chosen others.
APPLICATIONS = (
    application("GROMACS", "GromacsTrajectory", "trajectory", 64),
    application("CP2K", "Cp2kRestart", "restart and density", 64),
    application("Meep", "MeepState", "state of fields", 96),
)


def control(case: Case) -> Case:
    """MPI-IO's: as many ranks and the same layout, in the same rounds."""
    values = {**dict(case.parameters), "backend": CONTROL, "local_size": CONTROL_SIZE}
    check = SHARED_FILE_WRITE
    kept = tuple((p.name, values[p.name]) for p in check.parameters if p.name in values)
    return replace(case, check=check, parameters=kept)


def of_rounds(job: Job, repeats: int) -> tuple[list[Result], list[Round]]:
    """Read the rounds of a job in which benchio and the application took turns.

    InvalidResult says which of them breaks the law.
    """
    of_benchio = replace(job, case=control(job.case))
    results, rounds = [], []
    for place in range(1, repeats + 1):
        results.append(verified(of_benchio, f"result.{place}.json", 1))
        rounds.append(_round(job, place))
    who, before = job.case.backend, {file.name: file.digest for file in rounds[0].files}
    for place, other in enumerate(rounds[1:], 2):
        now = {file.name: file.digest for file in other.files} if other.repeats_itself else before
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise InvalidResult(
                    f"{who} computes the same in each round, and {name} of round {place} has "
                    "other bytes than that of round 1",
                    Reason.CORRUPT,
                )
    require_unset(job.folder)
    for place, done in enumerate(rounds, 1):
        where = f"see {NAME}.{place}.out"
        if not _SECONDS.accepts(done.output_s) or not 0 < done.output_s <= done.run_s:
            raise InvalidResult(
                f"{who} says that its output took {done.output_s} s of a run of {done.run_s} s; "
                f"{where}"
            )
        if not _SECONDS.accepts(done.sync_s) or not done.sync_s > 0:
            raise InvalidResult(
                f"the sync of round {place} took {done.sync_s} s: it was none; {where}"
            )
    return results, rounds


def metrics_of(results: Sequence[Result], rounds: Sequence[Round]) -> dict[str, float]:
    """The metrics of an application beside MPI-IO, one repetition of which is in each round."""
    values = rate_metrics([done.rates for done in rounds])
    best = max(rep.rate for result in results for rep in result.measurements[-1].repetitions)
    return {
        **values,
        "output_s": median(done.output_s for done in rounds),
        "sync_s": median(done.sync_s for done in rounds),
        "ratio": values["stable_max"] / best,
    }


def provenance_of(case: Case, results: Sequence[Result], rounds: Sequence[Round]) -> dict[str, str]:
    """Say what a run met with: what changes the control changes the application, too."""
    last, files = rounds[-1], rounds[-1].files
    # What is known of the files, and how.
    alike = "the same bytes in all rounds" if last.repeats_itself and len(rounds) > 1 else "in part"
    hows = dict.fromkeys(_DETOURS[file.how] for done in rounds for file in done.files)
    mib = sum(file.bytes for file in files) / MIB
    return provenance(results[-1]) | {
        case.backend: last.version,
        "output": f"{mib:.0f} MiB in {counted(len(files), 'file')}",
        "confirmed": ", ".join(filter(None, [alike, *hows, last.confirmed])),
    }


def _round(job: Job, number: int) -> Round:
    name = f"{NAME}.{number}.json"
    if not (job.folder / name).exists():
        why = f"round {number} of {job.case.backend} has left no {name}"
        raise InvalidResult(why, Reason.NO_OUTPUT)
    with reading(name, FORMAT):
        data = decoded(read_text(job.folder / name))
        if data["format"] != FORMAT:
            raise InvalidResult(f"{name} is {data['format']!r}, where {FORMAT} is known")
        require_id(data["id"], name, job.run_id)
        files = [Output(f["name"], f["bytes"], f["digest"], f["how"]) for f in data["files"]]
        for why, reason in _failings(job.case.backend, data, files, number):
            raise InvalidResult(why, reason)
        largest = max(file.bytes for file in files)
        layout = f"{NAME}.{number}.layout"
        require_layouts(job.case.backend, job, layout, len(files), largest)
        return Round(
            version=str(data["version"]),
            run_s=data["run_s"],
            output_s=data["output_s"],
            sync_s=data["sync_s"],
            files=files,
            confirmed=str(data["reader"]["said"]),
            repeats_itself=bool(data["repeats_itself"]),
        )


def _failings(
    who: str, data: Mapping[str, Any], files: Sequence[Output], number: int
) -> Iterator[tuple[str, Reason]]:
    """Say what is wrong with what a round has left, and what that is a case of."""
    where, silent, written = f"see {NAME}.{number}.out", "it does not say why", data["written"]
    if data["exit_code"] != 0:
        why = f"{data['why'] or silent}; {where}"
        yield f"{who} ended with {data['exit_code']}: {why}", Reason.PROGRAM_FAILED
    if lacking := data["missing"]:
        yield f"{who} ended well and has not written {lacking}; {where}", Reason.NO_OUTPUT
    if not written:
        yield f"{who} ended well and has written nothing", Reason.NO_OUTPUT
    names = [file.name for file in files]
    if twice := [name for name in names if names.count(name) > 1]:
        yield f"{twice[0]} of {who} was read twice, and not alike; {where}", Reason.CORRUPT
    if len(names) != written:
        there = f"of the {counted(written, 'file')} that {who} has written, {len(names)} could be"
        yield f"{there} read again; {where}", Reason.IO_ERROR
    for file in files:
        if type(file.bytes) is not int or file.bytes <= 0:
            yield f"{who} ended well, and its {file.name} is empty", Reason.NO_OUTPUT
        if len(file.digest) != 64 or file.how not in _DETOURS:
            yield f"{file.name} of {who} could not be read again", Reason.IO_ERROR
    if data["sync_s"] is None:
        yield f"what {who} has written could not be synced; {where}", Reason.NOT_SYNCED
    if data["reader"]["exit_code"] != 0 or not data["reader"]["said"]:
        why = f"{data['reader']['said'] or silent}; see reader.{number}.out"
        yield f"{who} cannot read what it has written: {why}", Reason.CORRUPT
