"""Replay a table of past nights through the rules: what would iowatch have said?

The first nights of every case are blessed without asking. An alarm that has gone leaves the
baseline as it is; otherwise as many nights after it are blessed anew, as a site would that found
the cause, or accepts the change. Nights in between are unjudged. If the table says
what filesystem each case is on, each filesystem is replayed as well, like one more case.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from iowatch.detector.baseline import Baseline, Sample, estimate
from iowatch.detector.common import Common, Group, Runs
from iowatch.detector.rules import R4, Detector, Memory
from iowatch.detector.settings import NORMAL, Settings
from iowatch.files import UserError, counted
from iowatch.verdict import NO_REFERENCE, Outcome, Verdict


def _name(text: str) -> str:
    return text


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise ValueError
    return int(text)


def _night(text: str) -> int | str:
    """The number of a night, or its id or day as `iowatch history --csv` has it."""
    is_id = re.fullmatch(r"\d{4}-\d\d-\d\d(T\d{6})?", text, re.ASCII)
    return text if is_id else _whole(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.ASCII | re.IGNORECASE):
        raise ValueError
    return float(text)


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


Column = Callable[[str], Any]  # what a cell says; ValueError
FILESYSTEM = "filesystem"  # the column that says which one a case is on

#: A table of nights: run 0 is the nightly run, 1 and up are the re-runs that could have been made.
NIGHTS: Mapping[str, Column] = {
    "case": _name,
    "night": _night,
    "run": _whole,
    "max_mib_s": _number,
    "control_max_mib_s": _number,  # MPI-IO's in the same job
    "overhead_fraction": _number,
    FILESYSTEM: _name,
}
#: A table of runs, as published of "A Year in the Life of a Parallel File System": the runs of one
#: day are that day's re-runs, and every other column is a part of the case's name; those up to
#: `filesystem` are the name of that.
RUNS: Mapping[str, Column] = {"start_utc": _time, "mib_s": _number}
OPTIONAL = ("control_max_mib_s", "overhead_fraction", FILESYSTEM)
_BANDWIDTH = (1e-9, 1e15)
BOUNDS = {
    "run": (0, 1000),
    "max_mib_s": _BANDWIDTH,
    "control_max_mib_s": _BANDWIDTH,
    "mib_s": _BANDWIDTH,
    "overhead_fraction": (0, 1),
}

PERSISTED_AFTER = 14  # nights: is it then still ...
PERSISTED_DROP = 0.1  # ... so far below the baseline (median of a week)?
_EPOCH = datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class JudgedNight:
    """The verdict on one case-night, or on that of a filesystem."""

    case: str
    night: int | str
    outcome: Outcome
    rule: str | None
    runs_used: int
    drop: float | None

    def json(self) -> str:
        fields = {name: getattr(self, name) for name in ("case", "night")} | self.outcome.fields
        fields |= {"rule": self.rule, "runs_used": self.runs_used}
        drop = None if self.drop is None else round(self.drop, 4)
        return json.dumps({**fields, "drop": drop})


@dataclass
class Backtest:
    """All verdicts, and what they amount to. Nights without a baseline are not judged."""

    what: str = "case"  # that each is a verdict on
    rows: list[JudgedNight] = field(default_factory=list)
    cases: int = 0
    short: int = 0  # cases with too few nights to bless
    judged: int = 0
    runs: int = 0  # of the judged nights
    alarms: int = 0
    persisted: int = 0
    severe: int = 0  # nights of which nothing but the night is said

    @property
    def transients(self) -> int:
        return self.alarms - self.persisted

    @property
    def summary(self) -> str:
        nights = max(self.judged, 1)
        text = (
            f"{counted(self.cases, self.what)}, {counted(self.judged, 'night')} judged:"
            f" {counted(self.alarms, 'alarm')}"
            f" ({1000 * self.alarms / nights:.2f} per 1000), {self.persisted} persisted,"
            f" {self.transients} transient ({1000 * self.transients / nights:.2f} per 1000);"
            f" {counted(self.severe, 'severe night')}; {counted(self.runs, 'run')} used"
            f" ({self.runs / nights:.2f} a night)"
        )
        return text + (
            f"; {counted(self.short, self.what)} with too few nights" if self.short else ""
        )


#: The runs of a night: of a case, or of several by case.
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class PastNight(Generic[R]):
    """A night of the table: its name there and its runs."""

    night: int | str
    samples: R


class Judge(Protocol[R_contra]):
    """A judge of a case, or of cases that share something, after the bless."""

    baseline: Baseline | None

    def judge(self, state: Memory, night: R_contra, /) -> tuple[Memory, Verdict]: ...

    def value(self, night: R_contra, /) -> float:
        """Its first run relative to the baseline, as a logarithm."""


@dataclass(frozen=True)
class CasePast:
    """The nights of a case, and the filesystem that it is on, if the table says so."""

    nights: list[PastNight[list[Sample]]] = field(default_factory=list)
    filesystem: str = ""


def backtest(
    path: Path, bless_nights: int = 30, settings: Settings = NORMAL
) -> tuple[Backtest, Backtest]:
    """Replay the table, by case and by filesystem; UserError if it, or the number of nights to
    bless, will not do."""
    if bless_nights < settings.min_nights:
        raise UserError(
            f"{bless_nights} nights to bless: a baseline needs at least {settings.min_nights}"
        )
    series = read(path)
    result, whole = Backtest(), Backtest("filesystem")
    for case, past in series.items():
        replay(case, past.nights, bless_nights, bless_case(settings), result)
    for name, nights in filesystems(series, settings).items():
        replay(name, nights, bless_nights, bless_filesystem(settings), whole)
    return result, whole


def bless_case(settings: Settings) -> Callable[[list[list[Sample]]], Judge[list[Sample]]]:
    def bless(nights: list[list[Sample]]) -> Judge[list[Sample]]:
        return Detector(estimate(nights, settings) if nights else None, settings)

    return bless


def bless_filesystem(settings: Settings) -> Callable[[list[Runs]], Judge[Runs]]:
    def bless(nights: list[Runs]) -> Judge[Runs]:
        cases: dict[str, list[Sequence[Sample]]] = {}
        for runs in nights:
            for case, samples in runs.items():
                cases.setdefault(case, []).append(samples)
        enough = {
            case: samples for case, samples in cases.items() if len(samples) >= settings.min_nights
        }
        baselines = {case: estimate(samples, settings) for case, samples in enough.items()}
        return Group(Common.FILESYSTEM, baselines, nights, settings)

    return bless


def filesystems(
    series: Mapping[str, CasePast], settings: Settings = NORMAL
) -> dict[str, list[PastNight[Runs]]]:
    """The nights of each filesystem on which half of its cases, and enough to judge it by, have a
    run."""
    members: dict[str, dict[str, CasePast]] = {}
    for case, past_of_case in series.items():
        if past_of_case.filesystem:
            members.setdefault(past_of_case.filesystem, {})[case] = past_of_case
    by_filesystem: dict[str, list[PastNight[Runs]]] = {}
    for name, cases in members.items():
        nights: dict[Any, dict[str, list[Sample]]] = {}
        for case, past_of_case in cases.items():
            for past in past_of_case.nights:
                nights.setdefault(past.night, {})[case] = past.samples
        if len(cases) >= settings.common_cases:
            least = max(settings.common_cases, len(cases) / 2)
            by_filesystem[name] = [
                PastNight(night, nights[night]) for night in sorted(nights)
                if len(nights[night]) >= least
            ]  # fmt: skip
    return by_filesystem


def replay(
    name: str,
    nights: Sequence[PastNight[R]],
    bless_nights: int,
    bless: Callable[[list[R]], Judge[R]],
    result: Backtest,
) -> None:
    """Add the verdicts on one case, or on one filesystem, to the result."""
    result.cases += 1
    result.short += len(nights) < bless_nights
    judge, state = bless([]), Memory()
    blessing: list[R] | None = []  # collected for the next bless; None: there is no need
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
        row = JudgedNight(
            name, past.night, verdict.outcome, verdict.rule, verdict.runs, verdict.drop
        )
        if state.alarm and open_alarm:  # an alarm is told once
            row = JudgedNight(name, past.night, NO_REFERENCE, None, verdict.runs, None)
        if row.outcome != NO_REFERENCE or index >= bless_nights:
            result.rows.append(row)


def persists(judge: Judge[R], later: Sequence[PastNight[R]]) -> bool:
    """Is the case of an alarm still slow two weeks later?"""
    week = later[PERSISTED_AFTER - 4 : PERSISTED_AFTER + 3] or later[-7:]
    values = [judge.value(night.samples) for night in week]
    return bool(values) and median(values) < math.log(1 - PERSISTED_DROP)


def read(path: Path) -> dict[str, CasePast]:
    """The nights of every case in order of time; UserError names what is wrong."""
    header, lines = _lines(path)
    rows = (_from_runs if "start_utc" in header else _from_nights)(path, header, lines)
    series: dict[str, CasePast] = {}
    for case, night, run, time, best, control, finish, filesystem in rows:
        past = series.setdefault(case, CasePast([], filesystem)).nights
        if run == 0:
            past.append(PastNight(night, []))
        elif not past or past[-1].night != night:
            continue  # no nightly run, so nobody could have asked for a re-run
        if time is None:  # gaps between nights do not matter
            time = _EPOCH + timedelta(days=len(past), hours=4 * run)
        past[-1].samples.append(Sample(time, best, best / control if control else None, finish))
    return series


#: Case, night, run, time, bandwidth, its control's, overhead_fraction, and filesystem.
Row = tuple[str, Any, int, datetime | None, float, float | None, float | None, str]
Lines = Sequence[tuple[int, dict[str, str]]]  # the number of each line, and its cells


def _lines(path: Path) -> tuple[Sequence[str], Lines]:
    """The columns of a CSV table, and its lines; UserError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            table = csv.reader(stream, strict=True)
            header = next(table, [])
            rows = [(table.line_num, row) for row in table if row]
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise UserError(f"{path}: cannot be read as a CSV table: {reason}") from None
    for number, row in rows:
        if len(row) != len(header):
            raise UserError(
                f"{path}: cannot be read as a CSV table: line {number} has {len(row)} cells, and "
                f"the first line {len(header)}"
            )
    if twice := [name for name in header if header.count(name) > 1]:
        raise UserError(f"{path}: column {twice[0]} is there twice: remove one")
    return header, [(number, dict(zip(header, row, strict=True))) for number, row in rows]


def _from_nights(path: Path, header: Sequence[str], lines: Lines) -> Iterator[Row]:
    rows = {}
    for values in _typed(path, header, lines, NIGHTS):
        key = values["case"], values["night"], values["run"]
        if key in rows:
            case, night, run = key
            raise UserError(f"{path}: case {case}, night {night}, run {run} is there twice")
        rows[key] = [values[name] for name in list(NIGHTS)[3:]]
    if len({type(night) for _, night, _ in rows}) > 1:
        raise UserError(f"{path}: some nights are numbers and others ids: use one of them")
    for key, (best, control, finish, where) in sorted(rows.items(), key=lambda item: item[0]):
        if best is not None:  # else the job has failed
            yield (*key, None, best, control, finish, where or "")


def _from_runs(path: Path, header: Sequence[str], lines: Lines) -> Iterator[Row]:
    parts = [name for name in header if name not in RUNS]
    measured = []
    for values, (_, cells) in zip(_typed(path, header, lines, RUNS), lines, strict=True):
        case = "/".join(cells[name] for name in parts if cells[name]) if parts else "case"
        to = parts.index(FILESYSTEM) + 1 if FILESYSTEM in parts else 0
        where = "/".join(cells[name] for name in parts[:to])
        if values["mib_s"] is not None:
            measured.append((case, values["start_utc"], values["mib_s"], where))
    before, run = None, 0
    for case, time, best, where in sorted(measured, key=lambda row: row[:2]):
        night = f"{time:%Y-%m-%d}"
        run = run + 1 if before == (case, night) else 0
        before = case, night
        yield case, night, run, time, best, None, None, where


def _typed(
    path: Path, header: Sequence[str], lines: Lines, columns: Mapping[str, Column]
) -> Iterator[dict[str, Any]]:
    """Yield the cells of each line. Only measured values may be empty: None. UserError."""
    for name in columns:
        if name not in header and name not in OPTIONAL:
            forms = " or ".join(", ".join(form) for form in (NIGHTS, RUNS))
            raise UserError(f"{path}: has no column {name}; it needs {forms}")
    for number, cells in lines:
        values: dict[str, Any] = {}
        for name, column in columns.items():
            text = cells.get(name, "").strip()
            if text not in ("", "nan", "NaN"):
                values[name] = _cell(path, number, name, column, text)
            elif column is _number or name in OPTIONAL:
                values[name] = None
            else:
                raise UserError(f"{path}, line {number}: {name} is empty")
        yield values


def _cell(path: Path, line: int, name: str, column: Column, text: str) -> Any:
    """Read a cell, within its bounds. UserError."""
    try:
        value = column(text)
        low, high = BOUNDS.get(name, (value, value))
        if low <= value <= high:
            return value
    except ValueError:
        pass
    raise UserError(f"{path}, line {line}: {name} is {text!r}")
