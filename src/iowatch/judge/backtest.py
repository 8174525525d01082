"""Replay past nights, or a table of them, through the rules: what would iowatch have said?

The first nights of every case are blessed without asking. An alarm that has gone leaves the
baseline as it is. After any other, as many nights are blessed anew, as by a site that accepts the
change. Nights in between are unjudged. If it is known what filesystem a case is on,
that filesystem is replayed as well, like one more case.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import attrs

from iowatch.base.bounded import reason_of, regular_text
from iowatch.base.documents import Count, filled
from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.run import Run, by_case
from iowatch.cases.verdict import NO_REFERENCE, Outcome, Verdict
from iowatch.judge.baseline import Sample, estimate
from iowatch.judge.bless import samples_of
from iowatch.judge.groups import Common, Group, Runs
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import NORMAL, R4, Settings

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_BANDWIDTH = 1e-9, 1e15
FILESYSTEM = "filesystem"  # the column that says which one a case is on


class Column(NamedTuple):
    """A column of a table: texts of a pattern, and values between two bounds."""

    pattern: str = ".+"
    convert: Callable[[str], Any] = str
    bounds: tuple[float, float] | None = None
    may_be_empty: bool = False

    def value(self, text: str) -> Any:
        """Return the value of a cell; ValueError."""
        if text in ("", "nan", "NaN") and self.may_be_empty:
            return None
        if not re.fullmatch(self.pattern, text, re.ASCII):
            raise ValueError
        value = self.convert(text)
        if self.bounds and not self.bounds[0] <= value <= self.bounds[1]:
            raise ValueError
        return value


#: A table of nights: run 0 is the nightly run, 1 and up are the re-runs that could have been made.
#: A night is a number, or its id or day.
NIGHTS: Mapping[str, Column] = {
    "case": Column(),
    "night": Column(
        r"[+-]?\d{1,18}|\d{4}-\d\d-\d\d(T\d{6})?",
        lambda text: text if "-" in text[1:] else int(text),
    ),
    "run": Column(r"\d{1,3}", int),
    "max_mib_s": Column(_NUMBER, float, _BANDWIDTH, may_be_empty=True),
    "control_max_mib_s": Column(_NUMBER, float, _BANDWIDTH, may_be_empty=True),  # MPI-IO's
    "overhead_fraction": Column(_NUMBER, float, (0, 1), may_be_empty=True),
    FILESYSTEM: Column(may_be_empty=True),
}
OPTIONAL = ("control_max_mib_s", "overhead_fraction", FILESYSTEM)

PERSISTED_AFTER = 14  # nights: is it then still ...
PERSISTED_DROP = 0.1  # ... so far below the baseline (median of a week)?
_EPOCH = datetime(2000, 1, 1)


@attrs.frozen(kw_only=True)
class JudgedEntry:
    """The verdict on one case-night, or on that of a filesystem."""

    case: str
    night: str | int
    state: str
    reason: str
    flags: Sequence[str]
    rule: str | None
    runs_used: Annotated[Count, "Runs that were looked at."]
    drop: Annotated[float | None, "The part of the usual rate that is lost."]


@attrs.frozen(kw_only=True)
class BacktestDocument:
    """All verdicts on cases, or on filesystems."""

    subject: Annotated[str, {"enum": ["case", "filesystem"]}]
    cases: Annotated[Count, "How many there are."]
    judged: Annotated[Count, "Nights judged."]
    alarms: Annotated[Count, "Alarms."]
    persisted: Annotated[Count, "Alarms of a loss that stayed."]
    severe: Annotated[Count, "Nights of which nothing but the night is said."]
    runs: Annotated[Count, "Runs of the judged nights."]
    short: Annotated[Count, "Cases with too few nights."]
    nights: Sequence[JudgedEntry]


@dataclass(frozen=True, slots=True)
class JudgedNight:
    """The verdict on one case-night, or on that of a filesystem."""

    case: str
    night: int | str
    verdict: Verdict

    @property
    def outcome(self) -> Outcome:
        return self.verdict.outcome

    @property
    def entry(self) -> JudgedEntry:
        drop, runs = self.verdict.drop, self.verdict.runs
        told = self.outcome.fields | {"rule": self.verdict.rule, "runs_used": runs}
        return filled(JudgedEntry, self, **told, drop=drop and round(drop, 4))

    @property
    def line(self) -> str:
        """The verdict on one line, with the part of what is usual that is lost."""
        drop = self.verdict.drop
        lost = "" if drop is None else f", {drop:.0%} lost"
        return f"{self.night}: {self.case}: {self.outcome}{lost}"


@dataclass
class Backtest:
    """All verdicts, and what they amount to. Nights without a baseline are not judged."""

    noun: str = "case"  # that each is a verdict on
    rows: list[JudgedNight] = field(default_factory=list)
    cases: int = 0
    short: int = 0  # cases with too few nights to bless
    judged: int = 0
    runs: int = 0  # of the judged nights
    alarms: int = 0
    persisted: int = 0
    severe: int = 0  # nights of which nothing but the night is said

    @property
    def document(self) -> BacktestDocument:
        nights = [row.entry for row in self.rows]
        return filled(BacktestDocument, self, subject=self.noun, nights=nights)

    @property
    def transients(self) -> int:
        return self.alarms - self.persisted

    @property
    def summary(self) -> str:
        nights = max(self.judged, 1)
        short = f"; {counted(self.short, self.noun)} with too few nights" if self.short else ""
        return (
            f"{counted(self.cases, self.noun)}, {counted(self.judged, 'night')} judged:"
            f" {counted(self.alarms, 'alarm')}"
            f" ({1000 * self.alarms / nights:.2f} per 1000), {self.persisted} persisted,"
            f" {self.transients} transient ({1000 * self.transients / nights:.2f} per 1000);"
            f" {counted(self.severe, 'severe night')}; {counted(self.runs, 'run')} used"
            f" ({self.runs / nights:.2f} a night){short}"
        )


@dataclass(frozen=True, slots=True)
class PastNight:
    """A night of the table: its name there and its runs."""

    night: int | str
    samples: Any  # of a case, or of several by case


@dataclass(frozen=True)
class CasePast:
    """The nights of a case, and the filesystem that it is on, if the table says so."""

    nights: list[PastNight] = field(default_factory=list)
    filesystem: str = ""


def backtest(
    series: Mapping[str, CasePast], bless_nights: int = 30, settings: Settings = NORMAL
) -> tuple[Backtest, Backtest]:
    """Replay nights, by case and by filesystem; UserError if the number of nights to bless will
    not do."""
    if bless_nights < settings.min_nights:
        raise UserError(
            f"{bless_nights} nights to bless: a baseline needs at least {settings.min_nights}"
        )
    result, whole = Backtest(), Backtest("filesystem")
    for case, past in series.items():
        replay(case, past.nights, bless_nights, partial(bless_case, settings=settings), result)
    for name, nights in filesystems(series, settings).items():
        bless = partial(bless_filesystem, settings=settings)
        replay(name, nights, bless_nights, bless, whole)
    return result, whole


def bless_case(nights: list[list[Sample]], settings: Settings = NORMAL) -> Detector:
    return Detector(estimate(nights, settings) if nights else None, settings)


def bless_filesystem(nights: list[Runs], settings: Settings = NORMAL) -> Group:
    cases: dict[str, list[Sequence[Sample]]] = {}
    for runs in nights:
        for case, samples in runs.items():
            cases.setdefault(case, []).append(samples)
    baselines = {
        case: estimate(samples, settings)
        for case, samples in cases.items()
        if len(samples) >= settings.min_nights
    }
    return Group(Common.FILESYSTEM, baselines, nights, settings)


def filesystems(
    series: Mapping[str, CasePast], settings: Settings = NORMAL
) -> dict[str, list[PastNight]]:
    """The nights of each filesystem on which half of its cases, and enough to judge it by, have a
    run."""
    by_filesystem: dict[str, list[PastNight]] = {}
    for name in dict.fromkeys(past.filesystem for past in series.values() if past.filesystem):
        cases = {case: past for case, past in series.items() if past.filesystem == name}
        least = max(settings.common_cases, len(cases) / 2)
        nights: dict[Any, dict[str, list[Sample]]] = {}
        for case, past in cases.items():
            for past_night in past.nights:
                nights.setdefault(past_night.night, {})[case] = past_night.samples
        if len(cases) >= settings.common_cases:
            every = sorted(nights.items())
            by_filesystem[name] = [PastNight(n, runs) for n, runs in every if len(runs) >= least]
    return by_filesystem


def replay(
    name: str,
    nights: Sequence[PastNight],
    bless_nights: int,
    bless: Callable[[list[Any]], Detector | Group],
    result: Backtest,
) -> None:
    """Add the verdicts on one case, or on one filesystem, to the result."""
    result.cases += 1
    result.short += len(nights) < bless_nights
    judge, state = bless([]), Memory()
    blessing: list[Any] | None = []  # collected for the next bless; None: there is no need
    for index, past in enumerate(nights):
        if blessing is not None and len(blessing) == bless_nights:
            judge, state = bless(blessing), Memory()
            blessing = None
        open_alarm = state.alarm is not None
        state, verdict = judge.judge(state, past.samples)
        if judge.baseline and not open_alarm:
            result.judged += 1
            result.runs += verdict.runs
            result.severe += verdict.rule == R4
        if blessing is not None:
            blessing.append(past.samples)
        if state.alarm and not open_alarm:
            result.alarms += 1
            if not judge.baseline or verdict.outcome.is_absolute:
                result.persisted += 1  # a defect has never been well
            else:
                result.persisted += persists(judge, nights[index + 1 :])
            blessing = [] if judge.baseline else blessing
        elif verdict.outcome.is_resolved and judge.baseline:
            blessing = None
        if state.alarm and open_alarm:  # an alarm is told once
            verdict = Verdict(NO_REFERENCE, "", runs=verdict.runs)
        if verdict.outcome != NO_REFERENCE or index >= bless_nights:
            result.rows.append(JudgedNight(name, past.night, verdict))


def persists(judge: Detector | Group, later: Sequence[PastNight]) -> bool:
    """Return whether the case of an alarm is still slow two weeks later."""
    week = later[PERSISTED_AFTER - 4 : PERSISTED_AFTER + 3] or later[-7:]
    values = [judge.value(night.samples) for night in week]
    return bool(values) and median(values) < math.log(1 - PERSISTED_DROP)


Cells = dict[str, Any]  # a line of a table, by column


def past_of(runs: Iterable[Run]) -> dict[str, CasePast]:
    """The nights of every case on record, with what the detector had of them; UserError if there
    are none."""
    series: dict[str, CasePast] = {}
    for case, nights in by_case(run for run in runs if not run.of_contract).items():
        measured = ((night, samples_of(of_night)) for night, of_night in sorted(nights.items()))
        if past := [PastNight(night, samples) for night, samples in measured if samples]:
            series[str(case)] = CasePast(past, nights[max(nights)][-1].filesystem)
    if not series:
        raise UserError("no valid run in the results database matches")
    return dict(sorted(series.items()))


def past_of_table(path: Path) -> dict[str, CasePast]:
    """The nights of every case of a table in order of time; UserError names what is wrong."""
    header, lines = _lines(path)
    needed = [name for name in NIGHTS if name not in OPTIONAL]
    if missing := [name for name in needed if name not in header]:
        raise UserError(f"{path}: has no column {missing[0]}; it needs {', '.join(needed)}")
    for number, row in lines:
        for name, column in NIGHTS.items():
            text = row.get(name, "").strip()
            try:
                row[name] = column.value(text)
            except ValueError:
                wrong = repr(text) if text else "empty"
                raise UserError(f"{path}, line {number}: {name} is {wrong}") from None
    series: dict[str, CasePast] = {}
    for row in _in_order(path, (row for _, row in lines)):
        past = series.setdefault(row["case"], CasePast([], row[FILESYSTEM] or "")).nights
        if row["run"] == 0:
            past.append(PastNight(row["night"], []))
        elif not past or past[-1].night != row["night"]:
            continue  # no nightly run, so nobody could have asked for a re-run
        # Gaps between nights do not matter.
        time = _EPOCH + timedelta(days=len(past), hours=4 * row["run"])
        best, control = row["max_mib_s"], row.get("control_max_mib_s")
        ratio = best / control if control else None
        past[-1].samples.append(Sample(time, best, ratio, row.get("overhead_fraction")))
    return series


def _lines(path: Path) -> tuple[Sequence[str], list[tuple[int, Cells]]]:
    """The columns of a CSV table, and its lines with their numbers; UserError."""
    try:
        text = regular_text(path).removeprefix("\ufeff")
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        header = table.fieldnames or []
        lines = [(table.line_num, row) for row in table]
    except (OSError, ValueError, csv.Error) as err:
        raise UserError(f"{path}: cannot be read as a CSV table: {reason_of(err)}") from None
    for number, row in lines:
        if None in row or None in row.values():
            raise UserError(
                f"{path}: cannot be read as a CSV table: line {number} has not the {len(header)} "
                "cells of the first line"
            )
    if twice := [name for name in header if header.count(name) > 1]:
        raise UserError(f"{path}: column {twice[0]} is there twice: remove one")
    return header, lines


def _in_order(path: Path, rows: Iterable[Cells]) -> list[Cells]:
    """The rows of a table of nights in order of time, without failed jobs. UserError."""
    by_key: dict[tuple[str, Any, int], Cells] = {}
    for row in rows:
        case, night, run = key = row["case"], row["night"], row["run"]
        if by_key.setdefault(key, row) is not row:
            raise UserError(f"{path}: case {case}, night {night}, run {run} is there twice")
    if len({type(night) for _, night, _ in by_key}) > 1:
        raise UserError(f"{path}: some nights are numbers and others ids: use one of them")
    ordered = [by_key[key] for key in sorted(by_key)]
    return [row for row in ordered if row["max_mib_s"] is not None]
