"""The verdict on each criterion of a contract, from the evidence.

Nothing that a check imports may import this module: what it needs is the extra `report`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

from iowatch.acceptance.contract import Contract, Criterion
from iowatch.acceptance.evidence import Evidence, Exhibit
from iowatch.case import Case
from iowatch.checks import CONTROL, OST
from iowatch.files import counted
from iowatch.metrics import osts_of
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
            and criterion.operation in case.check.operations
            and case.files == criterion.files
            and case.backend == criterion.backend
            and case.check.needs_stripes == (criterion.kind == "slow_ost")
            and case.instances is None
            and case.check.has_control
            and not case.way
            and bool(case.metrics)
        )

    if invalid := sorted(map(str, filter(concerns, evidence.invalid))):
        reason = evidence.invalid[Case.parse(invalid[0])].removeprefix(f"{invalid[0]}: ")
        return Finding(REFUSED, f"invalid: {_first(invalid)}: {reason}")
    exhibits = [one for one in evidence.exhibits if concerns(one.case)]
    missing = {case for case in expected if concerns(case)} - {one.case for one in exhibits}
    if missing:
        return Finding(REFUSED, f"not measured: {_first(sorted(map(str, missing)))}")
    return _judge(contract, criterion, exhibits, mine)


def _first(cases: Sequence[str]) -> str:
    return cases[0] + (f" and {len(cases) - 1} more" if len(cases) > 1 else "")


def _judge(
    contract: Contract,
    criterion: Criterion,
    exhibits: Sequence[Exhibit],
    mine: Mapping[str, Filesystem],
) -> Finding:
    confidence = contract.confidence
    if criterion.kind == "scaling":
        few, many = (_best(exhibits, nodes) for nodes in (criterion.from_nodes, criterion.to_nodes))
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
    best = _best(exhibits, criterion.nodes)
    if not best:
        nodes = f" with {counted(criterion.nodes, 'node')}" if criterion.nodes else ""
        return Finding(REFUSED, f"no such case was measured{nodes}")
    finding = _judge_case(criterion, best, mine[best[0].case.partition], confidence)
    return replace(finding, case=str(best[0].case))


def _judge_case(
    criterion: Criterion, best: Sequence[Exhibit], place: Filesystem, confidence: float
) -> Finding:
    """The verdict on a criterion that is about one case, from all its runs."""
    if criterion.kind == "slow_ost":
        each = [one.osts[criterion.operation] for one in best]
        rates_of = {
            ost: [rate for rates in each for rate in rates.get(ost, ())]
            for ost in sorted({ost for rates in each for ost in rates})
        }
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


def _best(exhibits: Sequence[Exhibit], nodes: int | None) -> list[Exhibit]:
    """All runs of the case with the highest median rate, of those with so many nodes."""
    cases: dict[Case, list[Exhibit]] = {}
    for one in exhibits:
        if nodes in (None, one.nodes):
            cases.setdefault(one.case, []).append(one)
    if not cases:
        return []
    return cases[max(cases, key=lambda case: _middle(cases[case]))]


def _middle(exhibits: Sequence[Exhibit]) -> float:
    backend = exhibits[0].case.backend
    rates = [
        r for one in exhibits for osts in one.osts.values() for rs in osts.values() for r in rs
    ]
    return median(rates or _all_rates(exhibits, backend))


def _all_rates(exhibits: Sequence[Exhibit], backend: str) -> list[float]:
    return [rate for one in exhibits for rate in one.rates[backend]]


PASS, FAIL, OPEN, REFUSED = "pass", "fail", "not conclusive", "not certified"

_SEED = 1  # of the bootstrap: a dossier is the same each time
_RESAMPLES = 9999
_FEWEST = 6  # values of a bootstrap: of 3 it passes 6 % of what it should pass 2.5 % of
_MOST = 100  # times the repetitions that there are: more will not be made


@dataclass(frozen=True)
class Finding:
    """The verdict on one criterion."""

    verdict: str
    reason: str = ""  # of a verdict that is neither pass nor fail
    measured: float | None = None  # median, or the statistic that the criterion is about
    low: float | None = None  # confidence interval; None: there is none
    high: float | None = None
    repetitions: int = 0
    jobs: int = 0
    case: str = ""  # that it is about

    def margin(self, criterion: Criterion) -> float | None:
        """How much better than committed, as a fraction of it; negative: worse."""
        if self.measured is None or not criterion.committed:
            return None
        excess = self.measured / criterion.committed - 1
        return excess if criterion.at_least is not None else -excess


def judge_median(
    criterion: Criterion, values: Sequence[float], jobs: int, confidence: float
) -> Finding:
    """The verdict on the median of repeated values, by its exact interval (order statistics)."""
    measured = float(np.median(values))
    test = stats.quantile_test(values, q=criterion.committed, p=0.5)
    interval = test.confidence_interval(confidence)

    def needed() -> float:
        """The rank at the interval's end grows with the repetitions; the part of them on the wrong
        side of the committed value does not."""
        is_good = measured >= criterion.committed
        wrong = sum((value >= criterion.committed) != is_good for value in values) / len(values)
        numbers = np.arange(len(values) + 1, _MOST * len(values))
        ranks = stats.binom.ppf((1 - confidence) / 2, numbers, 0.5)
        enough = numbers[ranks >= wrong * numbers + 1]
        return float(enough[0]) if len(enough) else math.inf

    found = (measured, float(interval.low), float(interval.high))
    return _finding(criterion, found, len(values), jobs, needed)


def judge_scaling(
    criterion: Criterion,
    few: Sequence[float],
    many: Sequence[float],
    jobs: int,
    confidence: float,
) -> Finding:
    """The verdict on the medians of two numbers of nodes, by a bootstrap of both samples."""
    assert criterion.from_nodes is not None
    assert criterion.to_nodes is not None
    linear = criterion.to_nodes / criterion.from_nodes

    def efficiency(few: Any, many: Any, axis: int = -1) -> Any:
        return np.median(many, axis=axis) / np.median(few, axis=axis) / linear

    measured, repetitions = float(efficiency(few, many)), min(len(few), len(many))
    low = high = math.nan
    if repetitions >= _FEWEST:
        interval = stats.bootstrap(
            (few, many),
            efficiency,
            confidence_level=confidence,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
        low, high = float(interval.low), float(interval.high)

    def needed() -> float:
        """Intervals shrink with the square root of the repetitions."""
        if math.isnan(low):
            return _FEWEST
        margin = measured - criterion.committed
        reach = measured - low if margin > 0 else high - measured
        return repetitions * (reach / margin) ** 2 if margin else math.inf

    return _finding(criterion, (measured, low, high), repetitions, jobs, needed)


def judge_repeatability(
    criterion: Criterion, values: Sequence[float], jobs: int, confidence: float
) -> Finding:
    """The verdict on standard deviation over mean, as of log-normal rates: by the chi-squared
    interval of the deviation of their logarithms. A bootstrap would be far too narrow."""
    count = len(values)
    if count < 2:
        return Finding(OPEN, "one repetition has no spread", repetitions=count, jobs=jobs)
    spread = float(np.std(np.log(values), ddof=1))

    above, below = (1 + confidence) / 2, (1 - confidence) / 2

    def end(probability: float, number: Any = count) -> Any:
        """Of the interval of the variation, if so many repetitions had this spread."""
        degrees = number - 1
        return _variation(spread * np.sqrt(degrees / stats.chi2.ppf(probability, degrees)))

    measured = float(_variation(spread))

    def needed() -> float:
        numbers = np.arange(count + 1, _MOST * count)
        if measured <= criterion.committed:
            enough = numbers[end(below, numbers) <= criterion.committed]
        else:
            enough = numbers[end(above, numbers) > criterion.committed]
        return float(enough[0]) if len(enough) else math.inf

    found = (measured, float(end(above)), float(end(below)))
    return _finding(criterion, found, count, jobs, needed)


def judge_slowest(criterion: Criterion, rates: Mapping[int, Sequence[float]], jobs: int) -> Finding:
    """The verdict on the slowest OST: the best rate of each counts, so there is no interval."""
    if len(rates) < 2:
        return Finding(REFUSED, f"{len(rates)} OST has no peers")
    operation = criterion.operation
    best = {f"{OST[operation]}{ost}": max(values) for ost, values in rates.items()}
    slowest = osts_of(best, operation)[0]
    verdict = PASS if slowest.to_peers >= criterion.committed else FAIL
    repetitions = min(len(values) for values in rates.values())
    return Finding(
        verdict, f"OST {slowest.name}", slowest.to_peers, repetitions=repetitions, jobs=jobs
    )


def _variation(spread: Any) -> Any:
    """Standard deviation over mean of a log-normal distribution, by that of the logarithms."""
    return np.sqrt(np.expm1(spread**2))


def _finding(
    criterion: Criterion,
    found: tuple[float, float, float],
    repetitions: int,
    jobs: int,
    needed: Callable[[], float],
) -> Finding:
    """The verdict on a measured value with the ends of its interval (nan: there is none).

    `needed` estimates how many repetitions would settle it.
    """
    measured, low, high = found
    if not (math.isnan(low) or math.isnan(high)):
        better = criterion.at_least is not None
        if (low >= criterion.committed) if better else (high <= criterion.committed):
            return Finding(PASS, "", *found, repetitions, jobs)
        if (high < criterion.committed) if better else (low > criterion.committed):
            return Finding(FAIL, "", *found, repetitions, jobs)
        return Finding(OPEN, _more(needed(), repetitions), *found, repetitions, jobs)
    reason = f"{repetitions} repetitions are too few for a confidence interval; "
    reason += _more(needed(), repetitions)
    return Finding(OPEN, reason, measured, repetitions=repetitions, jobs=jobs)


def _more(needed: float, repetitions: int) -> str:
    if needed > _MOST * repetitions:
        return "too near to the committed value for any number of repetitions"
    return f"about {max(1, math.ceil(needed) - repetitions)} repetitions more would settle it"
