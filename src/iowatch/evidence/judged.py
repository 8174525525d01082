"""An acceptance test that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iowatch.base.text import document, one_line
from iowatch.evidence.contract import Contract
from iowatch.evidence.criteria.criterion import WORST_FIRST, Criterion, Finding
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


def acceptance_document(judged: Judged, lines: Sequence[str], is_same: bool = True) -> str:
    """Write the verdicts of an acceptance test; `is_same`: its maker was told these."""
    sessions = judged.evidence.sessions
    return document(
        acceptance={
            "title": judged.contract.title,
            "verdict": judged.overall,
            "as_told": is_same,
            "sessions": {
                "wanted": judged.contract.rules.sessions,
                "counting": len(judged.evidence.counting),
                "on_record": len(sessions),
            },
            "criteria": [
                {
                    "name": criterion.name,
                    "kind": criterion.kind,
                    "filesystem": criterion.filesystem,
                    "verdict": finding.verdict,
                    "reason": one_line(finding.reason),
                    "committed": criterion.committed,
                    "bound": criterion.bound,
                    "unit": criterion.unit,
                    "measured": finding.measured,
                    "low": finding.low,
                    "high": finding.high,
                }
                for criterion, finding in judged.findings.items()
            ],
            "lines": [*lines],
        }
    )
