"""The records of a night and of a case, as `--json` prints them and text, JUnit and export read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Self

import attrs

from iowatch.base.documents import Count, filled
from iowatch.base.text import one_line
from iowatch.cases.run import began, deciding, fastest
from iowatch.night.case_night import CaseNight, Expected
from iowatch.night.headline import Headline
from iowatch.night.verdicts import NightVerdicts
from iowatch.past.words import COLOURS

Time = Annotated[str, {"format": "date-time"}]
Metrics = Annotated[
    Mapping[str, float],
    "Values of the best run by name; the page on metrics has their units.",
]
StateText = Annotated[str, "The state of the verdict; the page on verdicts lists them."]
ReasonText = Annotated[str, "Why; empty: nothing is to be explained."]
IsRed = Annotated[bool, "Does it make its night red?"]


@attrs.frozen(kw_only=True)
class CaseEntry:
    """A case in a night, with the fields of its verdict."""

    case: Annotated[str, "The id of the case."]
    name: Annotated[str, "A short name, as on the page."]
    state: StateText
    reason: ReasonText
    flags: Sequence[str]
    red: IsRed
    sentence: str
    known: Annotated[str, "Why the failure is expected; empty: it is not."]
    rate: Annotated[float | None, "The rate of the best run, by which the case is judged."]
    unit: Annotated[str, {"enum": ["MiB/s", "items/s"]}]
    expected: ExpectedRate | None
    metrics: Metrics
    folder: Annotated[str, "Where the raw results of the last run are; empty: nowhere."]

    @classmethod
    def describe(cls, row: CaseNight, **more: Any) -> Self:
        expected = row.expected
        return filled(
            cls,
            row,
            case=str(row.case),
            **row.outcome.fields,
            red=row.is_red,
            sentence=one_line(row.remark),
            known=one_line(row.known),
            expected=expected and ExpectedRate.describe(expected, bool(row.blessed)),
            metrics=dict(row.metrics),
            folder=row.last.folder,
            **more,
        )


@attrs.frozen(kw_only=True)
class ExpectedRate:
    """What the rate is compared with."""

    value: float
    low: Annotated[float | None, "The usual range."]
    high: float | None
    blessed: Annotated[bool, "From a blessed baseline?"]
    source: str

    @classmethod
    def describe(cls, expected: Expected, blessed: bool) -> Self:
        return filled(cls, expected, blessed=blessed, source=one_line(expected.source))


@attrs.frozen(kw_only=True)
class CaseDocument(CaseEntry):
    """A case in its last night, and its nights."""

    night: str
    nights: Annotated[Sequence[RunsOfNight], "The last first."]


@attrs.frozen(kw_only=True)
class RunsOfNight:
    """The runs of a case in one night."""

    night: str
    state: StateText
    reason: ReasonText
    flags: Sequence[str]
    red: IsRed
    runs: Annotated[Count, "Runs of the night."]
    rate: Annotated[float | None, "Of the best run."]
    metrics: Metrics


def case_document(row: CaseNight, last: Mapping[str, Sequence[Any]]) -> CaseDocument:
    """Describe a case with these of its nights."""
    nights = [
        RunsOfNight(
            night=night,
            **deciding(runs).outcome.fields,
            red=deciding(runs).is_red,
            runs=len(runs),
            rate=best.rate if best else None,
            metrics=dict(best.metrics) if best else {},
        )
        for night, runs in last.items()
        for best in [fastest(runs)]
    ]
    return CaseDocument.describe(row, night=row.night, nights=nights)


@attrs.frozen(kw_only=True)
class HeadlineEntry:
    """What the page of a night says first."""

    banner: Annotated[str, "The night in a line."]
    since: Annotated[date | None, "The day on which the worst began."]
    layer: Annotated[str, "The likely layer; empty: nobody can tell."]
    next_step: Annotated[str, "A command; empty: there is none."]

    @classmethod
    def describe(cls, top: Headline) -> Self:
        return cls(
            banner=one_line(top.banner), since=top.since, layer=top.layer, next_step=top.command
        )


@attrs.frozen(kw_only=True)
class AlarmEntry:
    """What is slow as a whole."""

    subject: str
    state: StateText
    reason: ReasonText
    flags: Sequence[str]
    red: IsRed
    sentence: str
    cases: Sequence[str]


@attrs.frozen(kw_only=True)
class NightEntry:
    """A night without its cases."""

    system: str
    id: Annotated[str, "The night, or of a hand run the name under which its raw results are kept."]
    began: Time
    ended: Time
    colour: Annotated[str, {"enum": [*COLOURS]}]
    why: Annotated[str, "The sentence that comes first."]
    by_hand: Annotated[bool, "A session that was run by hand, which is no night."]
    sessions: Annotated[Sequence[str], "UUIDs of ReFrame's sessions."]
    measured: Annotated[Count, "Cases that were measured."]
    red: Annotated[Count, "Cases that make the night red."]
    amber: Annotated[Count, "Cases that were not measured, for a known reason."]
    promised: Annotated[int | None, "Cases that the site's file promises; null: nobody knows."]
    problems: Annotated[Sequence[str], "What is wrong with the night as a whole."]

    @classmethod
    def describe(cls, night: NightVerdicts, **more: Any) -> Self:
        return filled(
            cls,
            night,
            began=began(night.id).isoformat(),
            ended=night.ended.isoformat(timespec="seconds"),
            why=one_line(night.judged.why if night.judged else night.why),
            by_hand=night.is_by_hand,
            sessions=sorted(night.sessions),
            red=len(night.red),
            amber=len(night.amber),
            problems=[*map(one_line, night.problems)],
            **more,
        )


@attrs.frozen(kw_only=True)
class NightDocument(NightEntry):
    """A night with its cases."""

    headline: HeadlineEntry
    notes: Sequence[str]
    alarms: Sequence[AlarmEntry]
    cases: Annotated[Sequence[CaseEntry], "The worst first."]


def night_document(night: NightVerdicts, top: Headline) -> NightDocument:
    """Describe all of a night."""
    alarms = [
        filled(
            AlarmEntry,
            alarm,
            **alarm.outcome.fields,
            red=alarm.is_red,
            sentence=one_line(alarm.sentence),
            cases=[str(row.case) for row in alarm.rows],
        )
        for alarm in night.alarms
    ]
    return NightDocument.describe(
        night,
        headline=HeadlineEntry.describe(top),
        notes=[*map(one_line, night.notes)],
        alarms=alarms,
        cases=[*map(CaseEntry.describe, night.worst_first)],
    )
