"""The criterion `degraded`: the bandwidth that is left while OSTs are away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.array import OnNodes
from iowatch.acceptance.criteria.base import Suite
from iowatch.acceptance.exhibits import Condition, Evidence, Exhibit, Key
from iowatch.acceptance.terms import Rules, Storage, Terms
from iowatch.case import Case
from iowatch.files import counted
from iowatch.records import COUNT, key


@attrs.frozen(kw_only=True)
class Degraded(OnNodes):
    """The bandwidth of a session without some OSTs over that of one with all.

    The n-th session without the OSTs is compared with the n-th that had all of them, so that nobody
    can choose which.
    """

    kind: ClassVar[str] = "degraded"
    unit: ClassVar[str] = "of the bandwidth of sessions with all OSTs, each beside the next without"
    needs: ClassVar[Sequence[str]] = ("osts",)
    sessions_per_value: ClassVar[int] = 2

    away: int = key(COUNT)  # OSTs

    @property
    def condition(self) -> Condition:
        return ((self.filesystem, self.away),)

    def why_no_case(self, terms: Terms, suite: Suite) -> str:
        if why := super().why_no_case(terms, suite):
            return why
        if not _witnesses(suite):
            return "the suite has no SlowOst, which would show what is away"
        return ""

    def required(self, evidence: Evidence, suite: Suite, cases: Sequence[Case]) -> list[Key]:
        every = sorted([*cases, *_witnesses(suite)], key=str)
        sessions = evidence.counting_with(self.condition)
        without = [(session.uuid, case) for session in sessions for case in every]
        return super().required(evidence, suite, cases) + without

    def turns(self, evidence: Evidence) -> dict[str, tuple[str, ...]]:
        pairs = zip(evidence.counting, evidence.counting_with(self.condition), strict=False)
        return {without.uuid: (whole.uuid, without.uuid) for whole, without in pairs}

    def incomplete(self, rules: Rules, evidence: Evidence) -> str:
        if why := super().incomplete(rules, evidence):
            return why
        count = len(evidence.counting_with(self.condition))
        if count < rules.sessions:
            without = counted(self.away, "OST")
            return f"{count} of the {rules.sessions} sessions without {without} were measured"
        return ""

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        whole, without = runs
        return self.rate(without) / self.rate(whole)

    def details(self) -> list[str]:
        return [*super().details(), f"without {counted(self.away, 'OST')}"]


def _witnesses(suite: Suite) -> list[Case]:
    """The cases that show which OSTs are away."""
    return [case for case in suite if case.check.by_target]
