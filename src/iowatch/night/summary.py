"""What stands beside the cases of a night: matrix, baselines, what is new, hours, environments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from statistics import median

from iowatch.base.text import brief_time, counted
from iowatch.cases.case import Case, short_names
from iowatch.cases.parameters import BACKENDS, SHARING, TITLES
from iowatch.cases.run import Run, day_of, deciding, fastest
from iowatch.judge.by_hour import HourValue, usual_hours
from iowatch.judge.settings import NORMAL
from iowatch.measure.case_ids import table_order
from iowatch.measure.kinds.latency import CALLS
from iowatch.night.case_night import CaseNight
from iowatch.night.document import Headline, SkippedCase, in_days
from iowatch.night.headline import signed
from iowatch.night.verdicts import NightVerdicts
from iowatch.past.hours import CaseHour, by_case

OTHERS = "other"  # the column of what goes through none of the libraries


@dataclass(frozen=True)
class Cell:
    """The cases of one check and library on a filesystem."""

    worst: Case
    sign: str  # the word that tells it without its colour; empty: all is well
    words: str  # the whole of it, for whoever does not see it


@dataclass(frozen=True)
class Block:
    """A filesystem of the matrix."""

    filesystem: str
    columns: Mapping[str, str]  # the title of each backend
    checks: Mapping[str, Sequence[Cell | None]]  # by what they do; None: there is no such case


def matrix(night: NightVerdicts) -> list[Block]:
    """Sort the cases of a night by filesystem, check and library."""
    cells: dict[str, dict[str, dict[str, list[CaseNight]]]] = {}
    for row in sorted(night.cases, key=lambda row: table_order(row.case)):
        column = row.case.backend if row.case.backend in BACKENDS else OTHERS
        checks = cells.setdefault(row.last.filesystem or row.case.partition, {})
        checks.setdefault(row.case.shape, {}).setdefault(column, []).append(row)
    blocks = list[Block]()
    for filesystem, checks in sorted(cells.items()):
        used = {column for columns in checks.values() for column in columns}
        titles = {name: TITLES.get(name, name) for name in (*BACKENDS, OTHERS) if name in used}
        rows = {
            shape: [_cell(columns.get(name)) for name in titles]
            for shape, columns in checks.items()
        }
        blocks.append(Block(filesystem, titles, rows))
    return blocks


def _cell(rows: Sequence[CaseNight] | None) -> Cell | None:
    if not rows:
        return None
    row = min(rows, key=lambda row: row.severity)
    more = f", and {counted(len(rows) - 1, 'more case')}" if len(rows) > 1 else ""
    sign = signed(-row.drop) if row.drop is not None else str(row.outcome.state)
    return Cell(row.case, "" if row.is_quiet or row.is_recorded else sign, f"{row.in_brief}{more}")


# Baselines


def baselines(night: NightVerdicts) -> str:
    """Say how many cases have a baseline, and how far the others are from one."""
    rows = [row for row in night.cases if row.case.metrics]
    if not rows:
        return ""
    words = [f"{counted(sum(bool(row.blessed) for row in rows), 'case', total=len(rows))} blessed"]
    days = sorted(row.blessed.blessed for row in rows if row.blessed)
    words[0] += f", last on {in_days(days[-1])} {days[-1].year}" if days else ""
    nights = [len(row.measured_nights) + bool(fastest(row.runs)) for row in rows if not row.blessed]
    few = sorted(count for count in nights if count < NORMAL.min_nights)
    if few:
        least = f"{few[0]} to " if few[0] < few[-1] else ""
        least_needed = f"{few[-1]} of {NORMAL.min_nights} nights"
        words.append(f"{len(few)} without a baseline: {least}{least_needed}")
    if enough := len(nights) - len(few):
        words.append(f"{enough} with the nights for one: iowatch bless --system {night.system}")
    return "; ".join(words)


def acknowledged(night: NightVerdicts) -> list[str]:
    """List what people have acknowledged of these cases, and of how many."""
    entries = list[str]()
    for entry in night.expected:
        count = sum(entry.excuses(str(row.case), night.day) for row in night.cases)
        entries += [f"{entry} ({counted(count, 'case')})"] if count else []
    return entries


# Since last night


@dataclass(frozen=True)
class SinceLastNight:
    """What is not as it was on the night before."""

    last: str  # that night; empty: there is none
    cases: Mapping[str, Sequence[Case]]  # of each kind of change that there is
    skipped: Sequence[SkippedCase]  # for the first time


def since_last_night(night: NightVerdicts) -> SinceLastNight:
    """Compare each case with its last night before."""
    nights = {name for row in night.cases for name in row.earlier}
    last = max(nights | {skipped.last for skipped in night.skipped}, default="")
    cases: dict[str, list[Case]] = {kind: [] for kind in _KINDS}
    for row in night.worst_first:
        was = deciding(row.earlier[max(row.earlier)]) if row.earlier else None
        for kind, is_so in _KINDS.items():
            if is_so(row, was):
                cases[kind].append(row.case)
    skipped = [skipped for skipped in night.skipped if skipped.last == last != ""]
    return SinceLastNight(
        last, {kind: of_kind for kind, of_kind in cases.items() if of_kind}, skipped
    )


def _is_resolved(row: CaseNight, was: Run | None) -> bool:
    is_open = row.is_red or row.is_amber or row.known
    return row.outcome.is_resolved or bool(was and was.is_red and not is_open)


#: The kinds of change, by the case tonight and its deciding run before; None: it had none.
_KINDS: Mapping[str, Callable[[CaseNight, Run | None], bool]] = {
    "New red": lambda row, was: row.is_red and not (was and was.is_red),
    "Still red": lambda row, was: bool(row.is_red and was and was.is_red),
    "Resolved": _is_resolved,
    "Newly not measured": lambda row, was: bool(row.is_amber and was and not was.outcome.is_amber),
}


# Events


@dataclass(frozen=True)
class Mark:
    """An event on the time axis of a case."""

    day: date
    words: str

    @property
    def sentence(self) -> str:
        return f"{in_days(self.day)}: {self.words}"


MARKS = 8  # events that a trend shows, the last
VERSIONS = ("benchio", "mpi", "compiler", *SHARING[1:])  # that a trend shows


def marks(night: NightVerdicts, row: CaseNight) -> list[Mark]:
    """List what has happened of late to a case and its system, oldest first."""
    events = [(event.at.date(), f"{event.event} ({event.who})") for event in night.events]
    if blessed := row.blessed:
        events.append((blessed.blessed, f"blessed by {blessed.who}: {blessed.why}"))
    for entry in night.expected:
        if entry.when and entry.case.fullmatch(str(row.case)):
            events.append((entry.when, f"acknowledged, {entry}"))
    events += [
        (entry.begins.date(), f"maintenance: {entry.why}")
        for entry in night.maintenance
        if row.last.filesystem in entry.filesystems
    ]
    first = row.trend.nights[0]
    marks = [Mark(day, words) for day, words in [*events, *_versions(row)]]
    marks = [mark for mark in marks if first <= mark.day <= night.day]
    return sorted(marks, key=lambda mark: mark.day)[-MARKS:]


RECENT = timedelta(days=2)  # before the worst of a night began


def recent_marks(events: Sequence[Mark], top: Headline) -> list[Mark]:
    """Choose the events of the days before the worst began: one of them may be why."""
    return [mark for mark in events if top.since and top.since - RECENT <= mark.day <= top.since]


def _versions(row: CaseNight) -> list[tuple[date, str]]:
    """List the nights on which a library had another version than on the night before."""
    known: Mapping[str, str] = {}
    changes = []
    for night, runs in [*sorted(row.earlier.items()), (row.night, row.runs)]:
        provenance = deciding(runs).provenance
        met = {name: provenance[name] for name in VERSIONS if name in provenance}
        words = [
            f"{name} {known[name]} → {met[name]}"
            for name in VERSIONS
            if name in known and name in met and known[name] != met[name]
        ]
        changes += [(day_of(night), ", ".join(words))] if words else []
        known = {**known, **met}
    return changes


# Hours


@dataclass(frozen=True)
class CallHours:
    """The p99 of a call of a case in each hour."""

    case: Case
    filesystem: str
    call: str
    words: str
    values: Mapping[datetime, float]  # s; of two runs in an hour the later one
    middle: float  # s, their median


def call_hours(hours: Sequence[CaseHour]) -> list[CallHours]:
    """Tell of each call of each case; nothing: no hour is on record."""
    calls = list[CallHours]()
    for case, of_case in by_case(hours).items():
        times = [hour.time.replace(minute=0, second=0, microsecond=0) for hour in of_case]
        for call in CALLS:
            p99 = [hour.quantile(call, "p99") for hour in of_case]
            values, words = dict(zip(times, p99, strict=True)), _in_words(of_case, call)
            place, middle = of_case[-1].filesystem, median(values.values())
            calls.append(CallHours(case, place, call, words, values, middle))
    return calls


def _in_words(hours: Sequence[CaseHour], call: str) -> str:
    """Say what the map shows, for whoever does not see it."""
    last = hours[-1]
    value, low, high = last.calls[call]["p99"]
    least = brief_time(low or 0.0)
    known = f"within {least} to {brief_time(high)}" if high else f"at least {least}"
    worst = max(hours, key=lambda hour: hour.quantile(call, "p99"))
    middle = median(hour.quantile(call, "p99") for hour in hours)
    words = (
        f"p99 of {call} on {last.filesystem}: {brief_time(value)} in the last hour (95 % "
        f"{known}), median of {counted(len(hours), 'hour')} {brief_time(middle)}, "
        f"worst {brief_time(worst.quantile(call, 'p99'))} on {worst.time:%Y-%m-%d at %H:00} UTC"
    )
    values = [HourValue(hour.time, hour.quantile(call, "p99")) for hour in hours]
    if usual := usual_hours(values):
        slow = max(range(len(usual)), key=lambda hour: usual[hour].median)
        words += f"; usually slowest at {slow:02}:00, {brief_time(usual[slow].median)}"
    return words


# Environments side by side

#: Provenance that tells environments apart for a reader.
LIBRARIES = (*SHARING[1:], "mpi", "compiler")


@dataclass(frozen=True)
class Comparison:
    """A partition that measured in several environments."""

    partition: str
    #: Libraries of each environment of which not all have the same version.
    environs: Mapping[str, Sequence[str]]
    #: The name of each setting, and its case in every environment; None: not measured there.
    settings: Mapping[str, Sequence[Case | None]]


def comparisons(rows: Iterable[CaseNight]) -> list[Comparison]:
    """The partitions with a setting that was measured in two environments or more.

    Settings are in the order of `rows`, environments in that of their libraries' versions. A check
    without a bandwidth has nothing to compare.
    """
    partitions: dict[str, dict[Case, dict[str, CaseNight]]] = {}
    for row in rows:
        if row.case.metrics:
            settings = partitions.setdefault(row.case.partition, {})
            settings.setdefault(replace(row.case, environ=""), {})[row.case.environ] = row
    shared = {
        partition: {setting: rows for setting, rows in settings.items() if len(rows) > 1}
        for partition, settings in partitions.items()
    }
    return [_compare(partition, rows) for partition, rows in shared.items() if rows]


def _compare(partition: str, settings: Mapping[Case, Mapping[str, CaseNight]]) -> Comparison:
    versions: dict[str, dict[str, str]] = {}
    for rows in settings.values():
        for environ, row in rows.items():
            versions.setdefault(environ, {}).update(_built_with(row))
    built_in = {
        name: {versions_of.get(name) for versions_of in versions.values()} for name in LIBRARIES
    }
    told = [name for name in LIBRARIES if len(built_in[name] - {None}) > 1]
    libraries = {
        environ: [f"{name} {versions_of[name]}" for name in told if name in versions_of]
        for environ, versions_of in versions.items()
    }
    environs = sorted(libraries, key=lambda environ: _by_number(libraries[environ], environ))
    names = short_names(settings)
    return Comparison(
        partition,
        {environ: libraries[environ] for environ in environs},
        {
            names[setting]: [rows[e].case if e in rows else None for e in environs]
            for setting, rows in settings.items()
        },
    )


def _built_with(row: CaseNight) -> dict[str, str]:
    """Only the version of Open MPI, which says who has built it, too."""
    met = row.last.provenance
    return {name: met[name].partition(",")[0] for name in LIBRARIES if name in met}


def _by_number(libraries: Sequence[str], environ: str) -> tuple[bool, list[list[int]], str]:
    """Sorts 1.8.16 before 1.10.0, and what nobody knows last."""
    numbers = [[int(number) for number in re.findall(r"\d+", text)] for text in libraries]
    return not libraries, numbers, environ
