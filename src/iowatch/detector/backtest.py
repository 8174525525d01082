"""Replay a table of past nights through the rules: what would iowatch have said?

The first nights of every case are blessed without asking. An alarm that has gone leaves the
baseline as it is; otherwise as many nights after it are blessed anew, as a site would that found
the cause, or accepts the change. Nights in between have the verdict no_baseline.

Nothing that a check imports may import this module: it needs polars.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from iowatch.detector.baseline import Baseline, Sample, estimate
from iowatch.detector.rules import Detector, State
from iowatch.detector.settings import NORMAL, Settings
from iowatch.files import UserError
from iowatch.verdict import Kind

#: A table of nights: run 0 is the nightly run, 1 and up are the re-runs that could have been made.
NIGHTS: dict[str, Any] = {
    "case": pl.String,
    "night": pl.Int64,
    "run": pl.Int64,
    "max_mib_s": pl.Float64,
    "control_max_mib_s": pl.Float64,  # MPI-IO's in the same job
    "finish_fraction": pl.Float64,
}
#: A table of runs, as published of "A Year in the Life of a Parallel File System": the runs of one
#: day are that day's re-runs, and every other column is a part of the case's name.
RUNS: dict[str, Any] = {"start_utc": pl.Datetime, "mib_s": pl.Float64}
OPTIONAL = ("control_max_mib_s", "finish_fraction")
_BANDWIDTH = (1e-9, 1e15)
BOUNDS = {
    "run": (0, 1000),
    "max_mib_s": _BANDWIDTH,
    "control_max_mib_s": _BANDWIDTH,
    "mib_s": _BANDWIDTH,
    "finish_fraction": (0, 1),
}

PERSISTED_AFTER = 14  # nights: is it then still ...
PERSISTED_DROP = 0.1  # ... so far below the baseline (median of a week)?
_EPOCH = datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class JudgedNight:
    """The verdict on one case-night."""

    case: str
    night: int | str
    verdict: str
    rule: str | None
    runs_used: int
    drop: float | None

    def json(self) -> str:
        drop = None if self.drop is None else round(self.drop, 4)
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "drop": drop})


@dataclass
class Backtest:
    """All verdicts, and what they amount to. Nights with no_baseline are not judged."""

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
            f"{self.cases} case(s), {self.judged} nights judged: {self.alarms} alarm(s)"
            f" ({1000 * self.alarms / nights:.2f} per 1000), {self.persisted} persisted,"
            f" {self.transients} transient ({1000 * self.transients / nights:.2f} per 1000);"
            f" {self.severe} severe night(s); {self.runs} runs used"
            f" ({self.runs / nights:.2f} a night)"
        )
        return text + (f"; {self.short} case(s) with too few nights" if self.short else "")


@dataclass(frozen=True, slots=True)
class PastNight:
    """A night of the table: its name there and its runs."""

    night: int | str
    samples: list[Sample]


def backtest(path: Path, bless_nights: int = 30, settings: Settings = NORMAL) -> Backtest:
    """Replay the table; UserError if it, or the number of nights to bless, will not do."""
    if bless_nights < settings.min_nights:
        raise UserError(
            f"{bless_nights} nights to bless: a baseline needs at least {settings.min_nights}"
        )
    result = Backtest()
    for case, nights in read(path).items():
        replay(case, nights, bless_nights, settings, result)
    return result


def replay(
    case: str, nights: Sequence[PastNight], bless_nights: int, settings: Settings, result: Backtest
) -> None:
    """Add the verdicts on one case to the result."""
    result.cases += 1
    result.short += len(nights) < bless_nights
    detector, state = Detector(None, settings), State()
    blessing: list[list[Sample]] | None = []  # collected for the next bless; None: there is no need
    for index, past in enumerate(nights):
        if blessing is not None and len(blessing) == bless_nights:
            detector, state = Detector(estimate(blessing, settings), settings), State()
            blessing = None
        open_alarm = state.alarm is not None
        state, verdict = detector.judge(state, past.samples)
        if detector.baseline and not open_alarm:
            result.judged += 1
            result.runs += verdict.runs
            result.severe += verdict.kind is Kind.SEVERE
        if blessing is not None:
            blessing.append(past.samples)
        if state.alarm and not open_alarm:
            baseline, later = detector.baseline, nights[index + 1 :]
            result.alarms += 1
            if baseline is None or verdict.kind is Kind.DEFECT or persists(baseline, later):
                result.persisted += 1  # a defect has never been well
            blessing = [] if baseline else blessing
        elif verdict.kind is Kind.TRANSIENT and detector.baseline:
            blessing = None
        row = JudgedNight(
            case, past.night, str(verdict.kind), verdict.rule, verdict.runs, verdict.drop
        )
        if state.alarm and open_alarm:  # an alarm is told once
            row = JudgedNight(case, past.night, str(Kind.NO_BASELINE), None, verdict.runs, None)
        if row.verdict != Kind.NO_BASELINE or index >= bless_nights:
            result.rows.append(row)


def persists(baseline: Baseline, later: Sequence[PastNight]) -> bool:
    """Is the case of an alarm still slow two weeks later?"""
    week = later[PERSISTED_AFTER - 4 : PERSISTED_AFTER + 3] or later[-7:]
    values = [math.log(night.samples[0].best) for night in week]
    return bool(values) and median(values) < baseline.m + math.log(1 - PERSISTED_DROP)


def read(path: Path) -> dict[str, list[PastNight]]:
    """The nights of every case in order of time; UserError names what is wrong."""
    try:
        table = pl.read_csv(path, infer_schema=False).with_row_index("line", offset=2)
    except (OSError, pl.exceptions.PolarsError) as err:
        reason = str(err).partition("\n")[0]
        raise UserError(f"{path}: cannot be read as a CSV table: {reason}") from None
    table = _from_runs(path, table) if "start_utc" in table.columns else _from_nights(path, table)
    nights: dict[str, list[PastNight]] = {}
    for case, night, run, time, best, control, finish in table.iter_rows():
        past = nights.setdefault(case, [])
        if run == 0:
            past.append(PastNight(night, []))
        elif not past or past[-1].night != night:
            continue  # no nightly run, so nobody could have asked for a re-run
        if time is None:  # gaps between nights do not matter
            time = _EPOCH + timedelta(days=len(past), hours=4 * run)
        past[-1].samples.append(Sample(time, best, best / control if control else None, finish))
    return nights


def _from_nights(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    table = _typed(path, table, NIGHTS)
    key = ["case", "night", "run"]
    twice = table.filter(pl.struct(key).is_duplicated())
    if twice.height:
        case, night, run = twice.select(key).row(0)
        raise UserError(f"{path}: case {case}, night {night}, run {run} is there twice")
    return (
        table.filter(pl.col("max_mib_s").is_not_null())  # else the job has failed
        .sort(key)
        .select(*key, pl.lit(None, pl.Datetime).alias("time"), *list(NIGHTS)[3:])
    )


def _from_runs(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    table = _typed(path, table, RUNS).filter(pl.col("mib_s").is_not_null())
    parts = [name for name in table.columns if name not in ("line", *RUNS)]
    night = pl.col("start_utc").dt.strftime("%Y-%m-%d")
    case = pl.concat_str(parts, separator="/", ignore_nulls=True) if parts else pl.lit("case")
    return (
        table.with_columns(case=case, night=night)
        .sort("case", "start_utc")
        .select(
            "case",
            "night",
            pl.int_range(pl.len()).over("case", "night").alias("run"),
            "start_utc",
            "mib_s",
            *(pl.lit(None, pl.Float64).alias(name) for name in OPTIONAL),
        )
    )


def _typed(path: Path, table: pl.DataFrame, columns: Mapping[str, Any]) -> pl.DataFrame:
    """The table with these columns read as what they are. Only numbers may be empty: null."""
    for name, kind in columns.items():
        if name in OPTIONAL and name not in table.columns:
            table = table.with_columns(pl.lit(None, kind).alias(name))
            continue
        if name not in table.columns:
            forms = " or ".join(", ".join(form) for form in (NIGHTS, RUNS))
            raise UserError(f"{path}: has no column {name}; it needs {forms}")
        text = pl.col(name).str.strip_chars().replace(["", "nan", "NaN"], None)
        if kind == pl.Datetime:
            value = text.str.to_datetime("%Y-%m-%dT%H:%M:%SZ", strict=False)
        else:
            value = text.cast(kind, strict=False)
        sound = value.is_between(*BOUNDS[name]) if name in BOUNDS else value.is_not_null()
        if kind == pl.Float64:
            sound |= text.is_null()
        wrong = table.filter(~sound.fill_null(False))
        if wrong.height:
            line, cell = wrong.select("line", name).row(0)
            raise UserError(f"{path}, line {line}: {name} is {cell!r}")
        table = table.with_columns(value.alias(name))
    return table
