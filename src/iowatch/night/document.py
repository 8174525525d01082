"""The document of a night, made once: page, mail, chat, text, JSON, JUnit, export and index show it
and compute nothing. What is in no `NightDocument` is for its page alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Self

import attrs

from iowatch.base.documents import Count, filled
from iowatch.base.files import UserError
from iowatch.base.text import one_line
from iowatch.cases.case import Case
from iowatch.cases.metric import Reference
from iowatch.cases.run import Run, began, day_of, deciding, fastest
from iowatch.cases.verdict import Flag, Outcome, Reason, State
from iowatch.measure.context import Compared
from iowatch.measure.job_folder import last_lines
from iowatch.measure.kinds.latency import CALLS
from iowatch.measure.kinds.slow_ost import OST, osts_of
from iowatch.measure.wrong_data import WrongData, wrong_data
from iowatch.night.case_night import CaseNight, Change, Phase, Trend
from iowatch.night.headline import Headline, headline, next_step
from iowatch.night.summary import (
    Block,
    CallHours,
    Comparison,
    Mark,
    SinceLastNight,
    acknowledged,
    baselines,
    call_hours,
    comparisons,
    marks,
    matrix,
    recent_marks,
    since_last_night,
)
from iowatch.night.user_cost import UserCost, user_costs
from iowatch.night.verdicts import NightVerdicts, SkippedCase
from iowatch.past.hours import CaseHour, by_case, cumulative
from iowatch.past.words import COLOURS
from iowatch.site.published import SlowClose, slow_close

SITE_DAYS = 30  # that the index of all systems shows
SILENT = timedelta(hours=36)  # after which a system without a new night is not green any more
OST_DAYS = 42  # of nights, in the plots of OSTs
_EVERY = 4  # of the bounds of benchio's buckets, one so many: five of a decade

Time = Annotated[datetime, {"format": "date-time"}]
Metrics = Annotated[
    Mapping[str, float],
    "Values of the best run by name; the page on metrics has their units.",
]


@attrs.frozen(kw_only=True)
class VerdictEntry:
    """A verdict."""

    state: Annotated[str, "The state of the verdict; the page on verdicts lists them."]
    reason: Annotated[str, "Why; empty: nothing is to be explained."]
    flags: Sequence[str]
    red: Annotated[bool, "Does it make its night red?"]

    @property
    def outcome(self) -> Outcome:
        reason = Reason(self.reason) if self.reason else None
        return Outcome(State(self.state), reason, frozenset(map(Flag, self.flags)))

    @property
    def is_recorded(self) -> bool:
        """Return whether it is only recorded, with nothing to compare it with."""
        return self.outcome.is_unreferenced and not self.red

    @property
    def is_open(self) -> bool:
        """Return whether nobody knows if it is well."""
        return self.outcome.is_amber or self.is_recorded


@attrs.frozen(kw_only=True)
class ExpectedRate:
    """What the rate is compared with."""

    value: float
    low: Annotated[float | None, "The usual range."]
    high: float | None
    blessed: Annotated[bool, "From a blessed baseline?"]
    word: Annotated[str, {"enum": ["expected", "usual"]}]
    source: str


@attrs.frozen(kw_only=True)
class CaseEntry(VerdictEntry):
    """A case in a night, with the fields of its verdict."""

    case: Annotated[Case, "The id of the case."]
    name: Annotated[str, "A short name, as on the page."]
    filesystem: str
    quiet: Annotated[bool, "There is nothing to look into."]
    sentence: str
    last_sentence: Annotated[str, "What the check said."]
    in_brief: Annotated[str, "The name, the verdict and the loss."]
    known: Annotated[str, "Why the failure is expected; empty: it is not."]
    under: Annotated[str, "The subject of the red alarm that says why it is red; empty: none."]
    next_step: Annotated[str, "A command; empty: there is none."]
    rate: Annotated[float | None, "The rate of the best run, by which the case is judged."]
    unit: Annotated[str, {"enum": ["MiB/s", "items/s"]}]
    expected: ExpectedRate | None
    drop: Annotated[float | None, "Part of the expected rate that is lost; negative: gained."]
    metrics: Metrics
    runs: Annotated[Count, "Runs of the night."]
    failed_runs: Count
    folder: Annotated[str, "Where the raw results of the last run are; empty: nowhere."]

    @property
    def is_ok(self) -> bool:
        """Return whether there is nothing to say, either."""
        return self.quiet and not self.outcome.is_insensitive

    @classmethod
    def describe(cls, row: CaseNight, whole: NightVerdicts, **more: Any) -> Self:
        expected, under = row.expected, whole.merged.get(row.case)
        return filled(
            cls,
            row,
            **row.outcome.fields,
            red=row.is_red,
            filesystem=row.last.filesystem,
            quiet=row.is_quiet,
            sentence=one_line(row.remark),
            last_sentence=one_line(row.last_sentence),
            in_brief=one_line(row.in_brief),
            known=one_line(row.known),
            under=under.subject if row.is_red and under else "",
            next_step="" if row.is_quiet else next_step(whole, row),
            expected=expected
            and filled(
                ExpectedRate, expected, blessed=bool(row.blessed), source=one_line(expected.source)
            ),
            metrics=dict(row.metrics),
            runs=len(row.runs),
            folder=row.last.folder,
            **more,
        )


@attrs.frozen(kw_only=True)
class RunsOfNight(VerdictEntry):
    """The runs of a case in one night."""

    night: str
    runs: Annotated[Count, "Runs of the night."]
    rate: Annotated[float | None, "Of the best run."]
    metrics: Metrics


@attrs.frozen(kw_only=True)
class CaseDocument(CaseEntry):
    """A case in its last night, and its nights."""

    night: str
    user_costs: Sequence[UserCost]
    nights: Annotated[Sequence[RunsOfNight], "The last first."]


def case_document(
    night: NightVerdicts, row: CaseNight, last: Mapping[str, Sequence[Run]]
) -> CaseDocument:
    """Describe a case of a night with these of its nights."""
    nights = [
        RunsOfNight(
            night=name,
            **deciding(runs).outcome.fields,
            red=deciding(runs).is_red,
            runs=len(runs),
            rate=best.rate if best else None,
            metrics=dict(best.metrics) if best else {},
        )
        for name, runs in last.items()
        for best in [fastest(runs)]
    ]
    costs = [cost for cost in user_costs(night) if cost.case == row.case]
    return CaseDocument.describe(row, night, night=row.night, nights=nights, user_costs=costs)


@attrs.frozen(kw_only=True)
class AlarmEntry(VerdictEntry):
    """What is slow as a whole."""

    subject: str
    sentence: str
    cases: Sequence[Case]
    in_brief: Annotated[Sequence[str], "A line on each of them."]


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

    @property
    def day(self) -> date:
        return day_of(self.id)

    @classmethod
    def describe(cls, night: NightVerdicts, **more: Any) -> Self:
        return filled(
            cls,
            night,
            began=began(night.id),
            why=one_line(night.judged.why if night.judged else night.why),
            by_hand=night.is_by_hand,
            sessions=sorted(night.sessions),
            red=len(night.red),
            amber=len(night.amber),
            problems=[*map(one_line, night.problems)],
            **more,
        )


@attrs.frozen(kw_only=True)
class NightSummary(NightEntry):
    """A night as an index shows it."""

    headline: Headline
    user_costs: Annotated[Sequence[UserCost], "The most first."]

    @property
    def worst_costs(self) -> list[UserCost]:
        return [cost for cost in self.user_costs if cost.worst]

    @classmethod
    def describe(cls, night: NightVerdicts, **more: Any) -> Self:
        more |= {"headline": headline(night), "user_costs": user_costs(night)}
        return super().describe(night, **more)


@attrs.frozen(kw_only=True)
class SystemEntry(NightSummary):
    """The last night of a system."""

    age_s: Annotated[Count, "Seconds since the last night ended."]
    late: Annotated[bool, "No night has come for 36 hours."]

    @property
    def shown_colour(self) -> str:
        """The colour of the night; red if a night must have been missed."""
        return "red" if self.late else self.colour


@attrs.frozen(kw_only=True)
class CallLatency:
    """How long single calls of a case took in the hours of the last month."""

    case: Case
    filesystem: str
    operation: Annotated[str, {"enum": [*CALLS]}]
    buckets: Annotated[Mapping[float, int], "By a number of seconds, the calls that took no more."]
    calls: Count
    seconds: Annotated[float, "Of all calls together."]


def _latencies(hours: Sequence[CaseHour]) -> Iterator[CallLatency]:
    for case, of_case in by_case(hours).items():
        month = [hour for hour in of_case if f"{hour.time:%Y-%m}" == f"{of_case[-1].time:%Y-%m}"]
        for call in CALLS:
            bounds, calls, seconds = cumulative(month, call)
            yield CallLatency(
                case=case,
                filesystem=of_case[-1].filesystem,
                operation=call,
                buckets=dict([*bounds.items()][::_EVERY]),
                calls=calls,
                seconds=seconds,
            )


@attrs.frozen(kw_only=True)
class NightDocument(NightSummary):
    """A night with its cases."""

    first_ended: Annotated[
        datetime | None, "The end of the first run; null: nothing ran.", {"format": "date-time"}
    ]
    notes: Sequence[str]
    alarms: Annotated[Sequence[AlarmEntry], "The worst first."]
    cases: Annotated[Sequence[CaseEntry], "The worst first."]
    skipped: Annotated[Sequence[SkippedCase], "Cases that need what has never been there."]
    latencies: Annotated[Sequence[CallLatency], "Of the hours before the end of the night."]
    page: Annotated[str, "The file of its page; empty: none was written with this document."]

    @property
    def red_alarms(self) -> list[AlarmEntry]:
        return [alarm for alarm in self.alarms if alarm.red]


def night_document(night: NightVerdicts) -> NightDocument:
    """Describe all of a night."""
    alarms = [
        AlarmEntry(
            subject=alarm.subject,
            **alarm.outcome.fields,
            red=alarm.is_red,
            sentence=one_line(alarm.sentence),
            cases=[row.case for row in alarm.rows],
            in_brief=[one_line(row.in_brief) for row in alarm.rows],
        )
        for alarm in night.alarms
    ]
    return NightDocument.describe(
        night,
        first_ended=night.runs[0].time if night.runs else None,
        notes=[*map(one_line, night.notes)],
        alarms=alarms,
        cases=[CaseEntry.describe(row, night) for row in night.worst_first],
        latencies=[*_latencies(night.hours)],
        page=str(night.page or ""),
    )


# For the page alone


@attrs.frozen(kw_only=True)
class CasePage(CaseEntry):
    """A case with what its drawings and tables show."""

    trend: Trend
    marks: Sequence[Mark]
    phases: Sequence[Phase]
    control_phases: Sequence[Phase]
    slowest: Mapping[str, str]
    usual: Mapping[str, float]
    references: Mapping[str, Reference]
    changes: Sequence[Change] | None
    last_good: date | None
    around: Compared | None
    #: By operation, each night's rate of each OST over the median of its peers.
    osts: Mapping[str, Sequence[tuple[date, Mapping[str, float]]]]
    wrong: WrongData | None  # the evidence of tonight's runs, the last first
    printed: Sequence[str]  # the last lines that the job of a failed run has printed
    paper: SlowClose | None  # what the white paper measured, if this is its fault


@attrs.frozen(kw_only=True)
class NightPage(NightDocument):
    """A night with all that its page shows."""

    cases: Sequence[CasePage]
    counts: Sequence[tuple[Outcome, int]]
    baselines: str
    acknowledged: Sequence[str]
    matrix: Sequence[Block]
    recent_marks: Sequence[Mark]
    since_last_night: SinceLastNight
    comparisons: Sequence[Comparison]
    calls: Sequence[CallHours]
    basis: str


def night_page(night: NightVerdicts, document: NightDocument) -> NightPage:
    """Add to the document of a night what its page shows besides."""
    events = {row.case: marks(night, row) for row in night.cases}
    top = document.headline
    cases = list[CasePage]()
    for entry, row in zip(document.cases, night.worst_first, strict=True):
        corrupt = [Path(r.folder) for r in row.runs if r.outcome.is_corrupt and r.folder]
        page = filled(
            CasePage,
            entry,
            row,
            marks=events[row.case],
            osts={operation: _osts(row, operation) for operation in OST},
            wrong=next(filter(None, map(wrong_data, reversed(corrupt))), None),
            printed=last_lines(Path(entry.folder))
            if row.outcome.is_failed and entry.folder
            else (),
            paper=_paper(row),
        )
        cases.append(page)
    return filled(
        NightPage,
        document,
        night,
        cases=cases,
        baselines=baselines(night),
        acknowledged=acknowledged(night),
        matrix=matrix(night),
        recent_marks=recent_marks(events[top.case], top) if top.case else [],
        since_last_night=since_last_night(night),
        comparisons=comparisons(night.cases),
        calls=call_hours(night.hours),
    )


def _osts(row: CaseNight, operation: str) -> list[tuple[date, dict[str, float]]]:
    """Return the best of each OST in each of the last nights; nothing if there are no OSTs."""
    if not row.case.check.by_target:
        return []
    first = day_of(row.night) - timedelta(days=OST_DAYS - 1)
    nights = list[tuple[date, dict[str, float]]]()
    for night, runs in {**row.earlier, row.night: row.runs}.items():
        best: dict[str, float] = {}
        for run in runs:
            for ost in osts_of(run.metrics, operation) if run.is_measured else ():
                best[ost.name] = max(best.get(ost.name, 0.0), ost.to_peers)
        if day_of(night) >= first:
            nights.append((day_of(night), best))
    return nights


def _paper(row: CaseNight) -> SlowClose | None:
    is_measured = row.case.backend in ("hdf5", "netcdf") and row.case.operation == "write"
    if not (is_measured and row.is_slow_to_finish):
        return None
    try:
        return slow_close()
    except UserError:  # iowatch without its checkout
        return None
