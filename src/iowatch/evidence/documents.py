"""A plan, an acceptance test and a certificate as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iowatch.base.text import document, one_line
from iowatch.past.cost import cost_entry

if TYPE_CHECKING:
    from iowatch.evidence.judged import Judged
    from iowatch.evidence.plan import Plan
    from iowatch.evidence.rows import Judgement


def acceptance_plan(planned: Plan) -> str:
    """Write what an acceptance test will cost and show."""
    return document(
        acceptance_plan={
            "title": planned.contract.title,
            "sessions": planned.sessions,
            "session": cost_entry(planned.cost),
            "decidable": planned.is_decidable,
            "criteria": [
                {"name": name, "decidable": is_enough, "sentence": sentence}
                for name, (sentence, is_enough) in planned.outlooks.items()
            ],
        }
    )


def acceptance(judged: Judged, lines: Sequence[str], is_same: bool = True) -> str:
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


def certificate(judged: Judgement, lines: Sequence[str], is_same: bool = True) -> str:
    """Write the certificate of a change; `is_same`: its maker was told this."""
    rows = [("group", row) for row in judged.groups] + [("case", row) for row in judged.cases]
    before, after = judged.question.sides
    return document(
        certificate={
            "change": judged.question.change,
            "system": judged.question.system,
            "before": before,
            "after": after,
            "limit": judged.question.limit,
            "verdict": judged.answer,
            "as_told": is_same,
            "rows": [
                {
                    "name": row.name,
                    "kind": kind,
                    "cases": [str(case) for case in row.cases],
                    "nights": row.nights,
                    "verdict": row.answer,
                    "ratio": row.ratio,
                    "low": row.low,
                    "high": row.high,
                    "nights_missing": row.nights_missing,
                    "why": one_line(row.why),
                }
                for kind, row in rows
            ],
            "lines": [*lines],
        }
    )
