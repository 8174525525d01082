"""The documents that commands print with --json, as iowatch.output-1.schema.json describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iowatch.base.text import document, one_line
from iowatch.cases.run import began, deciding, fastest
from iowatch.night.case_night import CaseNight
from iowatch.night.headline import Headline
from iowatch.night.job_script import in_words
from iowatch.night.night import Night
from iowatch.past.cost import Cost, cost_entry

if TYPE_CHECKING:
    from iowatch.judge.backtest import Backtest
    from iowatch.night.finding import Culprit
    from iowatch.pages.overview import CaseHistory, Standing


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
    first, notes = headline_entry(night.headline), [*map(one_line, night.notes)]
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
        "measured": night.measured,
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
            "headline": headline_entry(standing.night.headline),
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
