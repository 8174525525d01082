"""The evidence of an acceptance run: raw result files, read again and held to the law.

Nothing that a check imports may import this module: what it needs is the extra `report`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from iowatch import results
from iowatch.accept.criteria import (
    REFUSED,
    Contract,
    Criterion,
    Finding,
    judge_median,
    judge_repeatability,
    judge_scaling,
    judge_slowest,
)
from iowatch.case import Case
from iowatch.errors import UserError
from iowatch.past.history import sessions
from iowatch.results import CONTROL, InvalidResult, Result
from iowatch.site import Filesystem
from iowatch.sweep import ACCEPTANCE
from iowatch.verdict import INVALID, TOO_FAST

Session = dict[str, Any]  # as ReFrame stores it
SPACK_LOCK = "spack.lock"
SKEW_S = 300.0  # between the clocks of login and compute nodes


class DossierError(UserError):
    """There is no evidence to look at; one line says why."""


@dataclass(frozen=True)
class Job:
    """One job of a case, and what it left behind."""

    case: Case
    nodes: int
    session: str
    rates: Mapping[str, Sequence[float]]  # backend -> MiB/s of each round, open to close
    osts: Mapping[int, Sequence[float]]  # of a case that writes to each OST: its rates
    conditions: Mapping[str, str]
    files: Mapping[Path, str]  # results and job script: their SHA-256


@dataclass
class Evidence:
    """All jobs that satisfy the law, and what is wrong with the others."""

    jobs: list[Job] = field(default_factory=list)
    invalid: dict[Case, str] = field(default_factory=dict)
    sessions: list[Mapping[str, Any]] = field(default_factory=list)
    unused: list[Mapping[str, Any]] = field(default_factory=list)  # on record: who chose, shows it
    builds: dict[Path, str] = field(default_factory=dict)  # Spack's lock files: their SHA-256


def acceptance_sessions(
    databases: Sequence[Path], system: str, wanted: Collection[str]
) -> tuple[list[Session], list[Session]]:
    """The sessions with these uuids, else the last that measured the acceptance sweep; the others.

    DossierError if there is none.
    """
    found = {
        session["session_info"]["uuid"]: session
        for database in databases
        for session in sessions(database)
        if any(
            test.get("sweep") == ACCEPTANCE and test["system"] == system
            for test in session["tests"]
        )
    }
    names = ", ".join(map(str, databases))
    if unknown := [uuid for uuid in wanted if uuid not in found]:
        raise DossierError(f"{names}: no acceptance session {unknown[0]} of {system} is on record")
    if not found:
        raise DossierError(
            f"{names}: no acceptance session of {system} is on record: run "
            f"`iowatch nightly --system {system} --sweep acceptance`"
        )
    by_time = sorted(found.values(), key=lambda session: session["session_info"]["time_start_unix"])
    used = [s for s in by_time if s["session_info"]["uuid"] in wanted] or by_time[-1:]
    return used, [session for session in by_time if session not in used]


def collect(
    used: Iterable[Session], places: Sequence[Filesystem], unused: Iterable[Session] = ()
) -> Evidence:
    """The jobs of the used sessions, read from the files that they left."""
    filesystems = {(place.system, place.partition): place for place in places}
    evidence = Evidence(unused=[session["session_info"] for session in unused])
    for session in used:
        info = session["session_info"]
        evidence.sessions.append(info)
        for test in session["tests"]:
            if not test.get("case_id"):
                if test["outputdir"]:  # of the build, among others
                    evidence.builds |= _checksums(Path(test["outputdir"]).rglob(SPACK_LOCK))
                continue
            case = Case.parse(test["case_id"])
            if case.ior_peer:  # a second opinion, on which no criterion is
                continue
            try:
                place = filesystems[case.system, case.partition]
                job = _job(test, case, place, info)
                claimed = {path for other in evidence.jobs for path in other.files}
                if twice := claimed & set(job.files):
                    raise InvalidResult(f"{min(twice)}: a later session wrote over it")
                evidence.jobs.append(job)
            except KeyError:
                evidence.invalid[case] = "the site's configuration no longer has its partition"
            except InvalidResult as err:
                evidence.invalid[case] = str(err)
    return evidence


def _job(test: Mapping[str, Any], case: Case, place: Filesystem, session: Mapping[str, Any]) -> Job:
    folder = Path(test["outputdir"] or "")
    if test["verdict"] in ("", INVALID, TOO_FAST):
        raise InvalidResult(test["sentence"] or f"the job did not end: {test['fail_reason']}")
    if not test["outputdir"] or not folder.is_dir():
        raise InvalidResult(f"{folder}: its output is no longer there")
    osts: dict[int, list[float]] = {}
    rates: dict[str, list[float]] = {}
    paths = sorted(folder.glob("result*.json"))
    expected = test["repeats"] * (place.osts or 0) if case.each_ost else 1
    if len(paths) != expected:
        raise InvalidResult(f"{folder}: {len(paths)} result files, where {expected} were written")
    for path in paths:
        ost = int(path.name.split(".")[2]) if case.each_ost else None
        result = results.load(path)
        seconds = result.started.timestamp()
        if not -SKEW_S < seconds - session["time_start_unix"] < session["time_elapsed"] + SKEW_S:
            raise InvalidResult(f"{path}: another session wrote it, at {result.started}")
        results.require(result, case, 1 if case.each_ost else test["repeats"], place, ost)
        if ost is not None:
            osts.setdefault(ost, []).extend(_rates(result)[CONTROL])
        else:
            rates = _rates(result)
    return Job(
        case=case,
        nodes=test["nodes"],
        session=session["uuid"],
        rates=rates,
        osts=osts,
        conditions=results.conditions(result),
        files=_checksums([*paths, *folder.glob("rfm_job.sh")]),
    )


def _checksums(paths: Iterable[Path]) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def _rates(result: Result) -> dict[str, list[float]]:
    return {m.backend: [rep.rates["total"] for rep in m.repetitions] for m in result.measurements}


def certify(
    contract: Contract, evidence: Evidence, expected: Collection[Case], places: Sequence[Filesystem]
) -> dict[Criterion, Finding]:
    """The verdict on each criterion."""
    return {
        criterion: _certify(contract, criterion, evidence, expected, places)
        for criterion in contract.criteria
    }


def _certify(
    contract: Contract, criterion: Criterion, evidence: Evidence, expected: Iterable[Case],
    places: Sequence[Filesystem],
) -> Finding:  # fmt: skip
    """The verdict on one criterion; `not certified` if what it is about was not all measured."""
    mine = {place.partition: place for place in places if place.name == criterion.filesystem}
    if not mine:
        names = ", ".join(sorted({place.name for place in places}))
        return Finding(REFUSED, f"no filesystem {criterion.filesystem!r}: there are {names}")

    def concerns(case: Case) -> bool:
        return (
            case.partition in mine
            and case.operation == criterion.operation
            and case.files == criterion.files
            and case.backend == criterion.backend
            and case.each_ost == (criterion.kind == "slow_ost")
            and case.instances is None
            and not case.ior_peer
        )

    if invalid := sorted(str(case) for case in evidence.invalid if concerns(case)):
        return Finding(REFUSED, f"invalid: {_first(invalid)}")
    jobs = [job for job in evidence.jobs if concerns(job.case)]
    missing = {case for case in expected if concerns(case)} - {job.case for job in jobs}
    if missing:
        return Finding(REFUSED, f"not measured: {_first(sorted(map(str, missing)))}")
    return _judge(contract, criterion, jobs, mine)


def _first(cases: Sequence[str]) -> str:
    return cases[0] + (f" and {len(cases) - 1} more" if len(cases) > 1 else "")


def _judge(
    contract: Contract, criterion: Criterion, jobs: Sequence[Job], mine: Mapping[str, Filesystem]
) -> Finding:
    confidence = contract.confidence
    if criterion.kind == "scaling":
        few, many = (_best(jobs, nodes) for nodes in (criterion.from_nodes, criterion.to_nodes))
        if not few or not many:
            return Finding(REFUSED, "no case has these numbers of nodes")
        return judge_scaling(
            criterion,
            _all_rates(few, criterion.backend),
            _all_rates(many, criterion.backend),
            len(few) + len(many),
            confidence,
        )
    best = _best(jobs, criterion.nodes)
    if not best:
        nodes = f" with {criterion.nodes} node(s)" if criterion.nodes else ""
        return Finding(REFUSED, f"no such case was measured{nodes}")
    if criterion.kind == "slow_ost":
        osts = sorted({ost for job in best for ost in job.osts})
        rates_of = {ost: [rate for job in best for rate in job.osts.get(ost, ())] for ost in osts}
        return judge_slowest(criterion, rates_of)
    rates = _all_rates(best, criterion.backend)
    if criterion.kind == "repeatability":
        return judge_repeatability(criterion, rates, len(best), confidence)
    if criterion.kind == "peak":
        rates = [rate / mine[best[0].case.partition].peak for rate in rates]
    if criterion.kind == "ratio":
        control = _all_rates(best, CONTROL)
        rates = [rate / other for rate, other in zip(rates, control, strict=True)]
    return judge_median(criterion, rates, len(best), confidence)


def _best(jobs: Sequence[Job], nodes: int | None) -> list[Job]:
    """All jobs of the case with the highest median rate, of those with so many nodes."""
    cases: dict[Case, list[Job]] = {}
    for job in jobs:
        if nodes in (None, job.nodes):
            cases.setdefault(job.case, []).append(job)
    if not cases:
        return []
    return cases[max(cases, key=lambda case: _middle(cases[case]))]


def _middle(jobs: Sequence[Job]) -> float:
    backend = jobs[0].case.backend
    rates = [rate for job in jobs for rates in job.osts.values() for rate in rates]
    return median(rates or _all_rates(jobs, backend))


def _all_rates(jobs: Sequence[Job], backend: str) -> list[float]:
    return [rate for job in jobs for rate in job.rates[backend]]
