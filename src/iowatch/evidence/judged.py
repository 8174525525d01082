"""An acceptance test that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import attrs

from iowatch.base.documents import Count, document, filled
from iowatch.base.text import one_line
from iowatch.evidence.contract import Contract
from iowatch.evidence.criteria.criterion import (
    FAIL,
    OPEN,
    PASS,
    REFUSED,
    WORST_FIRST,
    Criterion,
    Finding,
)
from iowatch.evidence.exhibits import Evidence
from iowatch.evidence.terms import Exclusion


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An acceptance test, as far as its evidence says."""

    contract: Contract
    exclusions: Sequence[Exclusion]
    evidence: Evidence
    findings: Mapping[Criterion, Finding]

    @property
    def overall(self) -> str:
        """The verdict on the contract: the worst of any criterion."""
        return min((finding.verdict for finding in self.findings.values()), key=WORST_FIRST.index)


Certified = Annotated[str, {"enum": [PASS, FAIL, OPEN, REFUSED]}]


@attrs.frozen(kw_only=True)
class Acceptance:
    """The verdicts of an acceptance test."""

    title: str
    verdict: Certified
    as_told: Annotated[bool, "Are the verdicts those that the maker of the evidence was told?"]
    sessions: SessionCounts
    criteria: Sequence[CriterionEntry]
    lines: Annotated[Sequence[str], "What is printed without --json."]


@attrs.frozen(kw_only=True)
class SessionCounts:
    """The sessions of an acceptance test."""

    wanted: Annotated[Count, "By the contract."]
    counting: Annotated[Count, "That count."]
    on_record: Annotated[Count, "In all."]


@attrs.frozen(kw_only=True)
class CriterionEntry:
    """The verdict on one criterion."""

    name: str
    kind: str
    filesystem: str
    verdict: Certified
    reason: str
    committed: Annotated[float, "The committed value."]
    bound: Annotated[str, {"enum": ["at least", "at most"]}]
    unit: str
    measured: Annotated[float | None, "The median over sessions, or the statistic of the kind."]
    low: Annotated[float | None, "The confidence interval; null: there is none."]
    high: float | None


def acceptance_document(judged: Judged, lines: Sequence[str], is_same: bool = True) -> str:
    """Write the verdicts of an acceptance test; `is_same`: its maker was told these."""
    sessions = judged.evidence.sessions
    return document(
        acceptance=Acceptance(
            title=judged.contract.title,
            verdict=judged.overall,
            as_told=is_same,
            sessions=SessionCounts(
                wanted=judged.contract.rules.sessions,
                counting=len(judged.evidence.counting),
                on_record=len(sessions),
            ),
            criteria=[
                filled(CriterionEntry, finding, criterion, reason=one_line(finding.reason))
                for criterion, finding in judged.findings.items()
            ],
            lines=lines,
        )
    )
