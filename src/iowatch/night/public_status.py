"""The status of filesystems for users: how each is, since when, and what that costs.

It is made of nothing but what the site has written for users (public names, public texts, the names
of their outputs) and of this module's words and numbers. So no path, host or case can be on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from iowatch.base.files import UserError
from iowatch.cases.case import Case
from iowatch.cases.filesystem import NIGHTLY, file_of
from iowatch.cases.parameters import TITLES
from iowatch.cases.run import day_of
from iowatch.judge.explain import Layer
from iowatch.night.case_night import CaseNight
from iowatch.night.document import SILENT, in_days
from iowatch.night.night import Night
from iowatch.night.on_record import night_on_record
from iowatch.night.record import SystemRecord
from iowatch.site.site import Site, read_site

DAYS = 30  # that the page shows

_DOING = {"write": "writing", "read": "reading", "metadata": "creating, listing and removing files"}


class PublicState(StrEnum):
    """The state of a filesystem on the page."""

    SLOWER = "slower than usual"
    UNKNOWN = "state unknown"
    USUAL = "working as usual"


class DayBar(NamedTuple):
    """A day of a filesystem."""

    day: date
    state: PublicState

    @property
    def words(self) -> str:
        return f"{in_days(self.day)}: {self.state}"


@dataclass(frozen=True, kw_only=True)
class PublicFilesystem:
    """A filesystem on the page, in words for users alone."""

    name: str
    state: PublicState
    slower: str  # writing with HDF5 and NetCDF
    costs: Sequence[str]
    remarks: Sequence[str]
    bars: Sequence[DayBar]  # of every day, the last one at the end

    @property
    def since(self) -> str:
        """`since 18 Nov`; a day of which nothing is known says nothing against it."""
        alike = (self.state, PublicState.UNKNOWN)
        since = takewhile(lambda bar: bar.state in alike, reversed(self.bars))
        days = [bar.day for bar in since if bar.state is self.state]
        earlier = " or earlier" if days[-1:] == [self.bars[0].day] else ""
        return f"since {in_days(days[-1])}{earlier}" if days else ""


@dataclass(frozen=True, kw_only=True)
class StatusPage:
    """All that the page shows."""

    measured: datetime  # when the last night ended
    filesystems: Sequence[PublicFilesystem]
    events: Sequence[str]

    @property
    def headline(self) -> str:
        """`Slower than usual: Work; state unknown: Scratch`."""
        words = [
            f"{state}: {', '.join(names)}"
            for state in (PublicState.SLOWER, PublicState.UNKNOWN)
            if (names := [entry.name for entry in self.filesystems if entry.state is state])
        ]
        text = "; ".join(words) or "all filesystems work as usual"
        return text[0].upper() + text[1:]

    @property
    def worst(self) -> PublicState:
        return next(state for state in PublicState if state in {f.state for f in self.filesystems})


def read_status(system: str, databases: Sequence[Path]) -> StatusPage:
    """Make the page of a system of what is on record; UserError."""
    site = read_site(system)
    return status_page(site, SystemRecord.load(site.system, databases, site=site).for_pages())


def status_page(site: Site, record: SystemRecord) -> StatusPage:
    """Make the page of what is on record; UserError."""
    public = {place.partition: place.public_name for place in site.filesystems if place.public_name}
    if not public:
        raise UserError(
            f"no filesystem of {site.system} has a name for users: add 'public_name' to the extras "
            f"of its partitions in {file_of(site.system, site.sources)}"
        )
    last = night_on_record(record)
    is_silent = record.now - last.ended > SILENT
    end = record.now.date() if is_silent else last.day
    days = [end - timedelta(days=ago) for ago in reversed(range(DAYS))]
    nights: dict[date, Night] = {}
    for name in sorted(record.nights):  # of a day with several nights the last one counts
        if f"{days[0]}" <= name <= last.id:
            nights[day_of(name)] = last if name == last.id else night_on_record(record, name)
    return StatusPage(
        measured=last.ended,
        filesystems=[
            _filesystem(name, site, record, last, days, nights, is_silent)
            for name in dict.fromkeys(public.values())
        ],
        events=[
            f"{in_days(event.at.date())}: {event.public}"
            for event in sorted(record.events, key=lambda event: event.at, reverse=True)
            if event.public and days[0] <= event.at.date() <= record.now.date()
        ],
    )


def _filesystem(
    name: str,
    site: Site,
    record: SystemRecord,
    last: Night,
    days: Sequence[date],
    nights: Mapping[date, Night],
    is_silent: bool,
) -> PublicFilesystem:
    """Say how the filesystems are that have this public name."""
    places = [place for place in site.filesystems if place.public_name == name]
    partitions = {place.partition for place in places}
    # What the site asked of earlier nights is not known here.
    asked = {case for case in site.cases(NIGHTLY) if case.partition in partitions}
    states = {
        day: _state(night, partitions, asked if night is last else ())
        for day, night in nights.items()
    }
    bars = [DayBar(day, states.get(day, PublicState.UNKNOWN)) for day in days]
    state = PublicState.UNKNOWN if is_silent else _state(last, partitions, asked)
    is_slower = state is PublicState.SLOWER
    costs = last.summary.worst_costs if is_slower else []
    return PublicFilesystem(
        name=name,
        state=state,
        slower=_slower(_slow_cases(last, partitions)) if is_slower else "",
        costs=[cost.plain for cost in costs if cost.case.partition in partitions],
        remarks=[*_remarks(record, last, partitions, {place.name for place in places}, days[0])],
        bars=bars,
    )


def _rows(night: Night, partitions: set[str]) -> list[CaseNight]:
    return [row for row in night.cases if row.case.partition in partitions and row.case.metrics]


def _slow_cases(night: Night, partitions: set[str]) -> list[CaseNight]:
    """The cases that are slow, by themselves or under an alarm; a slow node is no filesystem."""
    alarms = [alarm for alarm in night.alarms if alarm.outcome.is_slow]
    alarmed = {row.case for alarm in alarms if alarm.layer != Layer.NODE for row in alarm.rows}
    return [
        row
        for row in _rows(night, partitions)
        if row.case in alarmed or (row.outcome.is_slow and not row.case.check.by_node)
    ]


def _state(night: Night, partitions: set[str], asked: Collection[Case]) -> PublicState:
    if _slow_cases(night, partitions):
        return PublicState.SLOWER
    rows = _rows(night, partitions)
    outcomes = [row.outcome for row in rows]
    measured = {row.case for row in rows}
    missing = sum(case not in measured for case in asked if case.check.metrics)
    judged = sum(outcome.is_good and not outcome.is_unreferenced for outcome in outcomes)
    # A few that are well say nothing of the others.
    if 2 * judged <= len(outcomes) + missing or any(outcome.is_failed for outcome in outcomes):
        return PublicState.UNKNOWN
    return PublicState.USUAL


def _slower(rows: Sequence[CaseNight]) -> str:
    """Write `writing with HDF5 and NetCDF, reading`."""
    words = []
    for operation, doing in _DOING.items():
        alike = [row.case for row in rows if row.case.operation == operation]
        titles = [TITLES[name] for name in TITLES if name in {case.backend for case in alike}]
        through = f" with {' and '.join(titles)}" if titles and operation != "metadata" else ""
        words += [f"{doing}{through}"] if alike else []
    return ", ".join(words)


def _remarks(
    record: SystemRecord, last: Night, partitions: set[str], names: set[str], first: date
) -> Iterator[str]:
    """What the site has written for users about maintenance and known faults."""
    for entry in sorted(record.maintenance, key=lambda entry: entry.begins):
        if entry.public and names & {*entry.filesystems} and entry.ends.date() >= first:
            times = (time.astimezone(UTC) for time in (entry.begins, entry.ends))
            words = " to ".join(f"{in_days(time.date())}, {time:%H:%M}" for time in times)
            yield f"{words} UTC: {entry.public}"
    today = record.now.date()
    for fault in record.expected:
        rows = _rows(last, partitions)
        if fault.public and any(fault.excuses(str(row.case), today) for row in rows):
            yield fault.public
