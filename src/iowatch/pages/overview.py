"""Overviews of the record: the standing of each system, its nights, its cases, one case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import Annotated

import attrs
from rich.console import Console

from iowatch.base.documents import Count
from iowatch.base.text import brief_rate, counted, one_line
from iowatch.cases.case import Case, short_names
from iowatch.cases.run import Run, day_of, deciding, fastest, nights_of
from iowatch.measure.case_ids import find_case
from iowatch.night.case_night import CaseNight
from iowatch.night.document import HeadlineEntry, NightEntry
from iowatch.night.gate import night_of
from iowatch.night.night import Night
from iowatch.night.on_record import SILENT, hand_session, night_on_record
from iowatch.night.record import SystemRecord
from iowatch.night.user_cost import UserCost
from iowatch.pages.tables import number_text, rate_text, tell

MOST = 30  # nights that are listed or shown, if nobody asks for certain ones

#: Exit codes of plugins of Nagios, the worst first, and their names.
CRITICAL, WARNING, UNKNOWN, FINE = 2, 1, 3, 0
NAGIOS = {CRITICAL: "CRITICAL", WARNING: "WARNING", UNKNOWN: "UNKNOWN", FINE: "OK"}


# Systems


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The last night of a system, and how long ago it ended."""

    night: Night
    age: timedelta

    @property
    def is_late(self) -> bool:
        """Return whether the night is so old that another must have been missed."""
        return self.age > SILENT

    @property
    def colour(self) -> str:
        """The colour of the night; red if a night must have been missed."""
        return "red" if self.is_late else self.night.colour

    @property
    def document(self) -> SystemEntry:
        return SystemEntry.describe(
            self.night,
            headline=HeadlineEntry.describe(self.night.headline),
            age_s=round(self.age.total_seconds()),
            late=self.is_late,
        )

    @property
    def nagios(self) -> int:
        """The exit code of a plugin: what was red stays so, and else nobody knows for long."""
        if self.night.is_red:
            return CRITICAL
        if self.is_late:
            return UNKNOWN
        return WARNING if self.night.colour == "amber" else FINE

    @property
    def words(self) -> str:
        """What the page of the night says first, and how old the night is."""
        minutes = self.age / timedelta(minutes=1)
        age = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
        late = ", and no night since" if self.is_late else ""
        return f"{self.night.headline.banner}, {age} ago{late}"

    @property
    def performance(self) -> Iterator[str]:
        """Numbers as a plugin prints them, LABEL=VALUE;WARNING;CRITICAL;LEAST."""
        name, night = self.night.system, self.night
        yield f"{name}_red={len(night.red)};;0;0"
        yield f"{name}_problems={len(night.problems)};;0;0"
        yield f"{name}_amber={len(night.amber)};0;;0"
        yield f"{name}_measured={night.measured};;;0"
        yield f"{name}_age={self.age.total_seconds():.0f}s;{SILENT.total_seconds():.0f};;0"


@attrs.frozen(kw_only=True)
class SystemEntry(NightEntry):
    """The last night of a system."""

    headline: HeadlineEntry
    age_s: Annotated[Count, "Seconds since the last night ended."]
    late: Annotated[bool, "No night has come for 36 hours."]


def standing(record: SystemRecord) -> Standing:
    """Read the last night of a system; UserError."""
    night = night_on_record(record)
    return Standing(night=night, age=max(record.now - night.ended, timedelta()))


def nagios(standings: Sequence[Standing]) -> tuple[int, str]:
    """The exit code and the line of a plugin."""
    code = min((entry.nagios for entry in standings), key=[*NAGIOS].index)
    text = "; ".join(f"{entry.night.system}: {entry.words}" for entry in standings)
    numbers = " ".join(number for entry in standings for number in entry.performance)
    return code, f"IOWATCH {NAGIOS[code]} - {one_line(text).replace('|', '/')} | {numbers}"


def show_status(standings: Iterable[Standing], console: Console) -> None:
    """Print a line on each system, and why it is not green."""
    for entry in standings:
        night = entry.night
        tell(console, f"{night.system}, night {night.id}: {entry.words}", _style(entry.colour))
        if night.colour != "green":
            tell(console, f"    {night.why}")


def _style(colour: str) -> str:
    return "yellow" if colour == "amber" else colour


# Nights


def nights(
    record: SystemRecord, since: date | None = None, until: date | None = None
) -> Iterator[Night]:
    """Judge the nights and the sessions that were run by hand, the last first; UserError.

    Only those count that began on one of these days, both included.
    """
    past = record.nights
    every = [(name, "") for name in past]
    every += [(name, session) for session, name in record.by_hand.items()]
    for name, session in sorted(every, reverse=True):
        if (since and day_of(name) < since) or (until and day_of(name) > until):
            continue
        yield hand_session(record, session) if session else _listed(record, name, past[name])


def _listed(record: SystemRecord, name: str, runs: Sequence[Run]) -> Night:
    """A night by the word of its gate, which has looked for alarms: that takes its time. Without
    one, or if there are other runs than it judged, the night is judged now."""
    word = record.word(name)
    if not word:
        return night_on_record(record, name)
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        cases.setdefault(run.case, []).append(run)
    rows = [
        CaseNight(case=case, name=str(case), night=name, runs=of_case, earlier={}, blessed=None)
        for case, of_case in cases.items()
    ]
    return Night(system=record.system, id=name, cases=rows, problems=word.problems, judged=word)


def show_nights(listed: Iterable[NightEntry], console: Console) -> None:
    """Print a line on each night."""
    tell(
        console,
        f"{'night':<17} {'system':<10} {'':<7} {'cases':>5} {'red':>4} {'amber':>5}",
        "bold",
    )
    for night in listed:
        colour = "by hand" if night.by_hand else night.colour
        words = style = ""
        if not (night.by_hand or night.colour == "green"):
            words, style = night.why, _style(night.colour)
        tell(
            console,
            f"{night.id:<17} {night.system:<10} {colour:<7} {night.measured + night.amber:>5}"
            f" {night.red:>4} {night.amber:>5}  {words}".rstrip(),
            style,
        )


# Cases


def last_of(record: SystemRecord, text: str) -> tuple[CaseNight, list[UserCost]]:
    """The last night of the case with this id or name, or with this in either, and what that costs
    users; UserError."""
    past = record.past_nights
    cases = {run.case for runs in past.values() for run in runs}
    last = {run.case for run in past[max(past)]} if past else set[Case]()
    case = find_case(text, cases, short_names(last))
    last_id = max(name for name, runs in past.items() if any(run.case == case for run in runs))
    night = night_of(record, last_id)
    (row,) = (row for row in night.cases if row.case == case)
    return row, [cost for cost in night.user_costs if cost.row is row]


def last_nights(row: CaseNight) -> dict[str, Sequence[Run]]:
    """The last nights of a case with their runs, the last first."""
    every = {**row.earlier, row.night: row.runs}
    return dict(islice(sorted(every.items(), reverse=True), MOST))


def show_case(row: CaseNight, costs: Iterable[UserCost], console: Console) -> None:
    """Print the verdict on a case, its baseline and its last nights."""
    expected = row.expected
    tell(console, str(row.case), "bold")
    style = "red" if row.is_red else "yellow" if row.is_amber else ""
    tell(console, f"{row.outcome}, night {row.night}: {row.sentence}", style)
    if row.known:
        tell(console, f"known: {row.known}")
    for cost in costs:
        tell(console, f"cost to users: {cost.sentence}")
    if expected:
        band = "".join(
            f", usually {brief_rate(expected.low)} to {brief_rate(expected.high)}"
            if expected.low and expected.high
            else ""
        )
        rate = f"{brief_rate(expected.value)} {row.unit}"
        tell(console, f"{expected.word}: {rate}{band}; {expected.source}")
    else:
        tell(console, "expected: nothing yet, for no good night is on record")
    if row.last.folder:
        tell(console, f"raw results: {row.last.folder}")
    console.print()
    tell(console, f"{'night':<17} {row.unit:>8} {'ratio':>6} {'overhead %':>10} runs  verdict")
    for night, runs in last_nights(row).items():
        best, last = fastest(runs), deciding(runs)
        metrics: Mapping[str, float] = best.metrics if best else {}
        rate = rate_text(best.rate if best else None)
        ratio = number_text(metrics.get("ratio"), ".2f")
        overhead = number_text(metrics.get("overhead_fraction"), ".1%").rstrip("%")
        tell(
            console,
            f"{night:<17} {rate:>8} {ratio:>6} {overhead:>10} {len(runs):>4}  {last.outcome}",
            "red" if last.is_red else "",
        )


@attrs.frozen(kw_only=True)
class CaseHistory:
    """Everything on record of a case, as numbers."""

    case: Case
    nights: Annotated[Count, "Nights that measured it."]
    first: Annotated[date, "The first day."]
    last: Annotated[date, "The last day."]
    runs: Annotated[Count, "All runs."]
    by_hand: Annotated[Count, "Runs of no night."]
    failed: Annotated[Count, "Runs that failed."]
    best: Annotated[float | None, "The best rate."]


def histories(runs: Iterable[Run]) -> Iterator[CaseHistory]:
    """Count the runs of each case, oldest first, that was not always skipped."""
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        if not run.outcome.is_skipped:
            cases.setdefault(run.case, []).append(run)
    for case, of_case in sorted(cases.items(), key=lambda item: str(item[0])):
        past = nights_of(of_case)
        yield CaseHistory(
            case=case,
            nights=len(past),
            first=day_of(min(past)) if past else of_case[0].time.date(),
            last=day_of(max(past)) if past else of_case[-1].time.date(),
            runs=len(of_case),
            by_hand=sum(not run.night for run in of_case),
            failed=sum(run.outcome.is_failed for run in of_case),
            best=max((run.rate or 0 for run in of_case if run.is_measured), default=None),
        )


def show_history(entries: Iterable[CaseHistory], console: Console) -> None:
    """Print a line on each case."""
    title = f"{'nights':>6} {'first':<10} {'last':<10} {'runs':>5} {'by hand':>7} {'failed':>7}"
    tell(console, f"{title} {'best MiB/s':>10}  case", "bold")
    listed = [*entries]
    for entry in listed:
        tell(
            console,
            f"{entry.nights:>6} {entry.first} {entry.last} {entry.runs:>5} {entry.by_hand:>7}"
            f" {entry.failed:>7} {rate_text(entry.best):>10}  {entry.case}",
        )
    tell(console, counted(len(listed), "case"))
