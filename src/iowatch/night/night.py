"""A night of a system: what makes its document, and what its page shows besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import attrs

from iowatch.base.documents import filled
from iowatch.base.files import UserError
from iowatch.base.text import one_line
from iowatch.cases.metric import Reference
from iowatch.cases.run import Run, began, day_of, deciding, fastest
from iowatch.cases.verdict import Outcome
from iowatch.measure.case_ids import table_order
from iowatch.measure.context import Compared
from iowatch.measure.job_folder import WrongData, last_lines, wrong_data
from iowatch.measure.kinds.latency import CALLS
from iowatch.measure.kinds.slow_ost import OST, osts_of
from iowatch.night.case_night import CaseNight, Phase
from iowatch.night.document import (
    AlarmEntry,
    CallLatency,
    CaseDocument,
    CaseEntry,
    ExpectedRate,
    NightDocument,
    NightEntry,
    NightSummary,
    RunsOfNight,
)
from iowatch.night.headline import headline, next_step
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
from iowatch.night.trend import Change, Trend
from iowatch.night.user_cost import user_costs
from iowatch.night.verdicts import NightVerdicts
from iowatch.past.hours import CaseHour, by_case, cumulative
from iowatch.site.published import SlowClose, slow_close

OST_DAYS = 42  # of nights, in the plots of OSTs
_EVERY = 4  # of the bounds of benchio's buckets, one so many: five of a decade

Entry = TypeVar("Entry", bound=NightEntry)
Summary = TypeVar("Summary", bound=NightSummary)
CaseKind = TypeVar("CaseKind", bound=CaseEntry)


def case_entry(kind: type[CaseKind], row: CaseNight, whole: NightVerdicts, **more: Any) -> CaseKind:
    """Describe a case of a night."""
    case, expected, under = row.case, row.expected, whole.merged.get(row.case)
    return filled(
        kind,
        row,
        case,
        **row.outcome.fields,
        red=row.is_red,
        work=f"{case.shape}, with {case.way}" if case.way else case.shape,
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
    return case_entry(
        CaseDocument, row, night, order=0, night=row.night, nights=nights, user_costs=costs
    )


def night_entry(kind: type[Entry], night: NightVerdicts, **more: Any) -> Entry:
    """Describe a night without its cases."""
    return filled(
        kind,
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


def night_summary(kind: type[Summary], night: NightVerdicts, **more: Any) -> Summary:
    """Describe a night as an index shows it."""
    top, costs = headline(night), user_costs(night)
    return night_entry(kind, night, headline=top, user_costs=costs, **more)


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
    tabled = sorted(night.cases, key=lambda row: table_order(row.case))
    order = {row.case: number for number, row in enumerate(tabled)}
    return night_summary(
        NightDocument,
        night,
        first_ended=night.runs[0].time if night.runs else None,
        notes=[*map(one_line, night.notes)],
        alarms=alarms,
        cases=[
            case_entry(CaseEntry, row, night, order=order[row.case]) for row in night.worst_first
        ],
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
        is_told = row.outcome.is_failed and entry.folder
        page = filled(
            CasePage,
            entry,
            row,
            marks=events[row.case],
            osts={operation: _osts(row, operation) for operation in OST},
            wrong=next(filter(None, map(wrong_data, reversed(corrupt))), None),
            printed=last_lines(Path(entry.folder)) if is_told else (),
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


@dataclass(frozen=True, kw_only=True)
class Night(NightVerdicts):
    """The verdicts of a night, and what they come to: each is made once, when it is first shown."""

    summary = cached_property(lambda night: night_summary(NightSummary, night))
    document = cached_property(night_document)
    for_page = cached_property(lambda night: night_page(night, night.document))
