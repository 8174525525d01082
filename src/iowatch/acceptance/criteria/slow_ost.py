"""The criterion `slow_ost`: the slowest OST against the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.array import OnNodes
from iowatch.acceptance.criteria.base import FAIL, PASS, Criterion, Finding, Nights, refused
from iowatch.acceptance.exhibits import Exhibit
from iowatch.acceptance.terms import Rules, Storage, Terms
from iowatch.case import Case
from iowatch.check import Check
from iowatch.files import counted
from iowatch.kinds.each_ost import OST, Ost, osts_of


@attrs.frozen(kw_only=True)
class SlowOst(OnNodes):
    """The best rate of the slowest OST over the median of its peers, in all sessions together.

    The best of each OST counts, so there is no interval, and sizes and nodes do not matter.
    """

    kind: ClassVar[str] = "slow_ost"
    unit: ClassVar[str] = "of the median of its peers: the slowest OST"
    needs: ClassVar[Sequence[str]] = ("osts",)
    has_interval: ClassVar[bool] = False

    def suits(self, check: Check) -> bool:
        return check.by_target

    def conflict(self, rules: Rules, storage: Storage) -> str:
        return Criterion.conflict(self, rules, storage)

    def too_small(self, terms: Terms, case: Case, nodes: int) -> str:
        return ""

    def rate(self, run: Exhibit) -> float:
        return median(rate for rates in run.osts[self.operation].values() for rate in rates)

    @property
    def scope(self) -> str:
        return ""

    def conclude(self, terms: Terms, by_turn: Mapping[str, Sequence[Exhibit]]) -> Finding:
        return self.judge_slowest([run for runs in by_turn.values() for run in runs])

    def judge_slowest(self, runs: Collection[Exhibit]) -> Finding:
        """The verdict on the best rate of each OST in any of these runs."""
        rates: dict[int, list[float]] = {}
        for run in runs:
            for ost, of_run in run.osts[self.operation].items():
                rates.setdefault(ost, []).extend(of_run)
        if len(rates) < 2:
            return refused("fewer than two OSTs can be compared")
        slowest = self._slowest(rates)
        return Finding(
            verdict=PASS if self.is_kept(slowest.to_peers) else FAIL,
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
