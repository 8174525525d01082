"""The documents that commands print with --json, as iowatch.output-1.schema.json describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iowatch.cost import Cost
from iowatch.files import document, one_line
from iowatch.night.case_night import CaseNight
from iowatch.night.job_script import in_words
from iowatch.night.night import Night
from iowatch.pages.headline import Headline, headline
from iowatch.run import began, deciding, fastest

if TYPE_CHECKING:
    from iowatch.acceptance.accept import Judged
    from iowatch.acceptance.plan import Plan
    from iowatch.adopt.probe import SiteLine
    from iowatch.certificate.certify import Judgement
    from iowatch.detector.backtest import Backtest
    from iowatch.night.finding import Culprit
    from iowatch.overview import CaseHistory, Standing
    from iowatch.users_io.stand_in import Proposal


# Nights


def night_text(night: Night) -> str:
    """Write all of a night, for `show` and `report`."""
    rows = [case_entry(row) for row in night.worst_first]
    alarms = [
        {
            "subject": alarm.subject,
            **alarm.outcome.fields,
            "red": alarm.is_red,
            "sentence": one_line(alarm.sentence),
            "cases": [str(row.case) for row in alarm.rows],
        }
        for alarm in night.alarms
    ]
    first, notes = headline_entry(headline(night)), [*map(one_line, night.notes)]
    parts = {"headline": first, "notes": notes, "alarms": alarms, "cases": rows}
    return document(night={**night_entry(night), **parts})


def headline_entry(top: Headline) -> dict[str, Any]:
    """Describe what the page says first."""
    return {
        "banner": one_line(top.banner),
        "since": f"{top.since}" if top.since else None,
        "layer": top.layer,
        "next_step": top.command,
    }


def night_entry(night: Night) -> dict[str, Any]:
    """Describe a night without its cases."""
    return {
        "system": night.system,
        "id": night.id,
        "began": began(night.id).isoformat(),
        "ended": night.ended.isoformat(timespec="seconds"),
        "colour": night.colour,
        "why": one_line(night.judged.why if night.judged else night.why),
        "by_hand": night.is_by_hand,
        "sessions": sorted(night.sessions),
        "measured": len(night.cases) - len(night.amber),
        "red": len(night.red),
        "amber": len(night.amber),
        "promised": night.promised,
        "problems": [*map(one_line, night.problems)],
    }


def case_entry(row: CaseNight) -> dict[str, Any]:
    """Describe a case in one night."""
    expected = row.expected
    return {
        "case": str(row.case),
        "name": row.name,
        **row.outcome.fields,
        "red": row.is_red,
        "sentence": one_line(row.remark),
        "known": one_line(row.known),
        "rate": row.rate,
        "unit": row.unit,
        "expected": expected
        and {
            "value": expected.value,
            "low": expected.low,
            "high": expected.high,
            "blessed": bool(row.blessed),
            "source": one_line(expected.source),
        },
        "metrics": dict(row.metrics),
        "folder": row.last.folder,
    }


def nights(listed: Iterable[Night]) -> str:
    """Write the nights of `nights`."""
    return document(nights=[night_entry(night) for night in listed])


def status(standings: Iterable[Standing]) -> str:
    """Write the last night of each system."""
    systems = [
        {
            **night_entry(standing.night),
            "headline": headline_entry(standing.top),
            "age_s": round(standing.age.total_seconds()),
            "late": standing.is_late,
        }
        for standing in standings
    ]
    return document(systems=systems)


def case_text(row: CaseNight, last: Mapping[str, Sequence[Any]]) -> str:
    """Write a case with these of its nights."""
    entries = []
    for night, runs in last.items():
        best, last_run = fastest(runs), deciding(runs)
        entries.append(
            {
                "night": night,
                **last_run.outcome.fields,
                "red": last_run.is_red,
                "runs": len(runs),
                "rate": best.rate if best else None,
                "metrics": dict(best.metrics) if best else {},
            }
        )
    return document(case={**case_entry(row), "night": row.night, "nights": entries})


def history(cases: Iterable[CaseHistory]) -> str:
    """Write every case on record."""
    return document(
        cases=[
            {
                "case": str(entry.case),
                "nights": entry.nights,
                "first": f"{entry.first}",
                "last": f"{entry.last}",
                "runs": entry.runs,
                "by_hand": entry.by_hand,
                "failed": entry.failed,
                "imported": entry.imported,
                "best": entry.best,
            }
            for entry in cases
        ]
    )


def blame(finding: Culprit) -> str:
    """Write what each environment came to, and which change is guilty."""
    tried = [
        {
            "change": in_words(entry.change) if entry.change else None,
            "values": [*entry.values],
            "rates": [*entry.rates],
            "worse_by": loss and {"typical": loss.typical, "low": loss.low, "high": loss.high},
            "fault": one_line(entry.fault),
        }
        for entry in finding.tried
        for loss in [finding.loss(entry)]
    ]
    return document(
        blame={
            "case": str(finding.case),
            "metric": finding.metric,
            "good": finding.good.night,
            "red": finding.red.night,
            "certain": finding.is_sure,
            "conclusion": one_line(finding.conclusion),
            "environments": tried,
            "notes": [*map(one_line, finding.notes)],
            "folder": str(finding.folder or ""),
        }
    )


# Before and after


def site_check(tried: Sequence[SiteLine]) -> str:
    """Write what was tried of a site, and what is to be mended."""
    lines = [
        {
            "place": line.place,
            "subject": line.subject,
            "ok": line.is_ok,
            "text": one_line(line.text),
        }
        for line in tried
    ]
    return document(site_check=lines)


def cost_entry(cost: Cost) -> dict[str, Any]:
    """Describe the cost of jobs."""
    return {
        "jobs": cost.jobs,
        "tib_written": cost.tib,
        "minutes": cost.seconds / 60,
        "node_hours": cost.node_hours,
        "jobs_without_rate": cost.unknown,
    }


def run_plan(system: str, suite: str, parts: Mapping[str, Cost], how_long: str) -> str:
    """Write what a suite will cost."""
    return document(
        plan={
            "system": system,
            "suite": suite,
            "partitions": {name: cost_entry(cost) for name, cost in parts.items()},
            "total": cost_entry(sum(parts.values(), Cost())),
            "how_long": how_long,
        }
    )


def suite_proposal(proposal: Proposal, parts: Mapping[str, Cost]) -> str:
    """Write the cases that stand for what users do, without a name of theirs."""
    usage = proposal.usage
    operations = {
        operation: {
            "total": total,
            "stood_for": proposal.covered(operation),
            "cases": [
                {
                    "case": case.text,
                    "part": case.part,
                    "in_all": case.in_all,
                    "differences": [*case.differences],
                }
                for case in proposal.stand_ins
                if case.operation == operation
            ],
            "without_case": [
                {"reason": reason, "part": part}
                for reason, part in proposal.without_case.get(operation, {}).items()
            ],
        }
        for operation, total in proposal.totals.items()
    }
    return document(
        suite_proposal={
            "system": proposal.place.system,
            "partition": proposal.place.partition,
            "cover": proposal.cover,
            "logs": usage.logs,
            "not_read": [
                {"reason": reason, "count": count} for reason, count in usage.unread.items()
            ],
            "operations": operations,
            "suite": {
                check: [dict(case.values) for case in cases]
                for check, cases in proposal.suite.items()
            },
            "cost": cost_entry(sum(parts.values(), Cost())),
        }
    )


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


def backtest(results: Iterable[Backtest]) -> str:
    """Write all verdicts of a replay."""
    return document(
        backtest=[
            {
                "subject": result.noun,
                "cases": result.cases,
                "judged": result.judged,
                "alarms": result.alarms,
                "persisted": result.persisted,
                "severe": result.severe,
                "runs": result.runs,
                "short": result.short,
                "nights": [row.fields for row in result.rows],
            }
            for result in results
        ]
    )
