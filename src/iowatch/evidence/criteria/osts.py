"""Criteria on single OSTs: `slow_ost` compares them, and `degraded` does without some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import ClassVar

import attrs

from iowatch.base.records import COUNT, key
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.evidence.criteria.criterion import (
    Certified,
    Criterion,
    Finding,
    Nights,
    Suite,
    refused,
)
from iowatch.evidence.criteria.rates import OfArray
from iowatch.evidence.exhibits import Condition, Exhibit
from iowatch.evidence.terms import Rules, Storage, Terms
from iowatch.measure.kinds.slow_ost import OST, Ost, osts_of


@attrs.frozen(kw_only=True)
class DegradedCriterion(OfArray):
    """The bandwidth of a session without some OSTs over that of one with all.

    The n-th session without the OSTs is compared with the n-th that had all of them, so that nobody
    can choose which.
    """

    kind: ClassVar[str] = "degraded"
    unit: ClassVar[str] = "of the bandwidth of sessions with all OSTs, each beside the next without"
    needs: ClassVar[Sequence[str]] = ("osts",)

    away: int = key(COUNT, "The number of OSTs that are away.")

    @property
    def condition(self) -> Condition:
        return ((self.filesystem, self.away),)

    def why_no_case(self, terms: Terms, suite: Suite) -> str:
        if why := super().why_no_case(terms, suite):
            return why
        if not any(case.check.by_target for case in suite):
            return "the suite has no SlowOst, which would show what is away"
        return ""

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        whole, without = runs
        return self.rate(without) / self.rate(whole)

    def details(self) -> list[str]:
        return [*super().details(), f"without {counted(self.away, 'OST')}"]


@attrs.frozen(kw_only=True)
class SlowOstCriterion(OfArray):
    """The best rate of the slowest OST over the median of its peers, in all sessions together.

    The best of each OST counts, so there is no interval, and sizes and nodes do not matter.
    """

    kind: ClassVar[str] = "slow_ost"
    unit: ClassVar[str] = "of the median of its peers: the slowest OST"
    evidence_of: ClassVar[str] = "osts"
    needs: ClassVar[Sequence[str]] = ("osts",)
    has_interval: ClassVar[bool] = False

    def conflicts(self, rules: Rules, storage: Storage) -> Iterator[str]:
        return Criterion.conflicts(self, rules, storage)

    def too_small(self, terms: Terms, case: Case, nodes: int) -> str:
        return ""

    def rate(self, run: Exhibit) -> float:
        return median(rate for rates in run.osts[self.operation].values() for rate in rates)

    @property
    def scope(self) -> str:
        return ""

    def conclude(self, terms: Terms, by_turn: Mapping[str, Sequence[Exhibit]]) -> Finding:
        runs, rates = [*chain.from_iterable(by_turn.values())], dict[int, list[float]]()
        for run in runs:
            for ost, of_run in run.osts[self.operation].items():
                rates.setdefault(ost, []).extend(of_run)
        if len(rates) < 2:
            return refused("fewer than two OSTs can be compared")
        slowest = self._slowest(rates)
        return Finding(
            verdict=Certified.PASS if self.is_kept(slowest.to_peers) else Certified.FAIL,
            reason=f"the slowest is OST {slowest.name}",
            measured=slowest.to_peers,
            values={run.session: self._slowest(run.osts[self.operation]).to_peers for run in runs},
        )

    def _slowest(self, rates: Mapping[int, Sequence[float]]) -> Ost:
        best = {f"{OST[self.operation]}{ost}": max(of_ost) for ost, of_ost in rates.items()}
        return osts_of(best, self.operation)[0]

    def prospect(
        self, terms: Terms, groups: Sequence[Sequence[Case]], nights: Nights
    ) -> tuple[str, bool]:
        cases = counted(len(groups[0]), "case")
        return f"{cases}; the best rate of each OST over all sessions counts", True
