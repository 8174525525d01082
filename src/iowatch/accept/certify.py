"""The verdict on each criterion of a contract, from the evidence.

Nothing that a check imports may import this module: what it needs is the extra `report`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from iowatch.accept.criteria import Contract, Criterion
from iowatch.accept.evidence import Evidence, Job
from iowatch.accept.judge import (
    REFUSED,
    Finding,
    judge_median,
    judge_repeatability,
    judge_scaling,
    judge_slowest,
)
from iowatch.case import Case
from iowatch.results import CONTROL
from iowatch.site import Filesystem


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

    if invalid := sorted(map(str, filter(concerns, evidence.invalid))):
        reason = evidence.invalid[Case.parse(invalid[0])].removeprefix(f"{invalid[0]}: ")
        return Finding(REFUSED, f"invalid: {_first(invalid)}: {reason}")
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
        finding = judge_scaling(
            criterion,
            _all_rates(few, criterion.backend),
            _all_rates(many, criterion.backend),
            len(few) + len(many),
            confidence,
        )
        return replace(finding, case=f"{few[0].case} and {many[0].case}")
    best = _best(jobs, criterion.nodes)
    if not best:
        nodes = f" with {criterion.nodes} node(s)" if criterion.nodes else ""
        return Finding(REFUSED, f"no such case was measured{nodes}")
    finding = _judge_case(criterion, best, mine[best[0].case.partition], confidence)
    return replace(finding, case=str(best[0].case))


def _judge_case(
    criterion: Criterion, best: Sequence[Job], place: Filesystem, confidence: float
) -> Finding:
    """The verdict on a criterion that is about one case, from all its jobs."""
    if criterion.kind == "slow_ost":
        osts = sorted({ost for job in best for ost in job.osts})
        rates_of = {ost: [rate for job in best for rate in job.osts.get(ost, ())] for ost in osts}
        return judge_slowest(criterion, rates_of, len(best))
    rates = _all_rates(best, criterion.backend)
    if criterion.kind == "repeatability":
        return judge_repeatability(criterion, rates, len(best), confidence)
    if criterion.kind == "peak":
        rates = [rate / place.peak for rate in rates]
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
