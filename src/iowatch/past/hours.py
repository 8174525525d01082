"""The record of hours: what single calls took in each hour that a system was measured.

It is apart from the results database, in `hours/SYSTEM-MONTH.jsonl` beside it: an hour is part of
no night, and a year of them would make that database several times as large. A line is a case in
an hour.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from iowatch.base.bounded import decoded, reason_of, regular_text
from iowatch.base.files import UserError, as_shared, listed, make_folder
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.measure.case_ids import known_case, table_order
from iowatch.measure.kinds.latency import CALLS, bucket_bound
from iowatch.measure.result import read_result
from iowatch.site.formerly import former_names

FOLDER = "hours"
#: What a night shows of them, and is judged by.
SHOWN = timedelta(days=35)


@dataclass(frozen=True, kw_only=True)
class CaseHour:
    """The calls of a case in one hour."""

    time: datetime  # UTC, of the job's end
    case: Case
    filesystem: str
    calls: Mapping[str, Mapping[str, Any]]  # as the result has them, and the sum of the seconds

    def quantile(self, call: str, name: str) -> float:
        """Return a quantile of a call, in seconds."""
        value: float = self.calls[call][name][0]
        return value

    def count(self, call: str) -> int:
        """Return how many calls there were."""
        return sum(self.calls[call]["buckets"])


def of_run(run: Run) -> CaseHour:
    """Read what a verified run has measured. InvalidResult."""
    result = read_result(Path(run.folder, "result.json"))
    rep = result.measurements[0].repetitions[-1]
    calls = {call: {**rep.latency["calls"][call], "sum": rep.seconds[call]} for call in CALLS}
    return CaseHour(time=run.time, case=run.case, filesystem=run.filesystem, calls=calls)


def append(folder: Path, hours: Iterable[CaseHour]) -> list[str]:
    """Put hours of one system on record, on stable storage, each whole, and say which of before
    were lost. UserError."""
    lost = list[str]()
    for hour in hours:
        file = folder / FOLDER / f"{hour.case.system}-{hour.time:%Y-%m}.jsonl"
        line = {
            "time": hour.time.isoformat(timespec="seconds"),
            "case": str(hour.case),
            "filesystem": hour.filesystem,
            "calls": hour.calls,
        }
        try:
            make_folder(file.parent)
            with as_shared(file.parent), file.open("a+b") as lines:
                if _is_torn(lines):
                    lost.append(f"{file}: the last hour was cut off as it was written, and is lost")
                lines.write(f"{json.dumps(line)}\n".encode())
                lines.flush()
                os.fsync(lines.fileno())
        except OSError as err:
            raise UserError(f"{file}: the hour is not on record: {err.strerror}") from None
    return lost


def _is_torn(lines: BinaryIO) -> bool:
    """Remove a last line that is not whole; was there one?"""
    lines.seek(0)
    *whole, rest = lines.read().split(b"\n")
    if rest:
        lines.truncate(sum(len(line) + 1 for line in whole))
    return bool(rest)


def read(system: str, folders: Iterable[Path], until: datetime) -> list[CaseHour]:
    """Read the last hours of a system before `until`, as many as a night shows, the oldest first.
    UserError."""
    months: dict[str, list[Path]] = {}
    for folder in folders:
        for file in listed(folder / FOLDER):
            if match := re.fullmatch(rf"{re.escape(system)}-(\d{{4}}-\d\d)\.jsonl", file.name):
                months.setdefault(match[1], []).append(file)
    hours, since = dict[tuple[datetime, Case], CaseHour](), None
    for month in sorted(months, reverse=True):
        if since and month < f"{since:%Y-%m}":
            break
        for file in months[month]:
            every = _read(file, file.stat().st_size)
            hours |= {(hour.time, hour.case): hour for hour in every if hour.time <= until}
        if hours:
            since = max(time for time, _ in hours) - SHOWN
    shown = (hour for hour in hours.values() if since and hour.time > since)
    return sorted(shown, key=lambda hour: (hour.time, str(hour.case)))


@lru_cache(maxsize=4)
def _read(file: Path, size: int) -> Sequence[CaseHour]:
    """Read the hours of a file of this size, which only grows: a page judges many nights by it.

    A last line that is not whole was cut off, and is none.
    """
    hours = list[CaseHour]()
    try:
        text = regular_text(file)
    except (OSError, ValueError) as err:
        raise UserError(f"{file}: cannot be read: {reason_of(err)}") from None
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            stored = decoded(line)
            case, time = known_case(stored["case"]), datetime.fromisoformat(stored["time"])
            calls = {call: stored["calls"][call] for call in CALLS}
            filesystem = str(stored["filesystem"])
        except (ValueError, LookupError, TypeError):
            raise UserError(f"{file}: line {number} is no hour: remove that line") from None
        if case:  # else of another iowatch
            time = time.astimezone(UTC)
            hours.append(
                CaseHour(
                    time=time, case=former_names().place(case), filesystem=filesystem, calls=calls
                )
            )
    return hours


def by_case(hours: Iterable[CaseHour]) -> dict[Case, list[CaseHour]]:
    """Group hours by their case."""
    cases: dict[Case, list[CaseHour]] = {}
    for hour in hours:
        cases.setdefault(hour.case, []).append(hour)
    return dict(sorted(cases.items(), key=lambda item: table_order(item[0])))


def cumulative(hours: Sequence[CaseHour], call: str) -> tuple[dict[float, int], int, float]:
    """Add up a call of these hours: by bound of a bucket the calls that took no longer, all calls,
    and their seconds."""
    counts = [0] * 182
    for hour in hours:
        figures = hour.calls[call]
        for number, count in enumerate(figures["buckets"], start=figures["first_bucket"]):
            counts[number] += count
    so_far, bounds = 0, dict[float, int]()
    for bucket, count in enumerate(counts[:-1]):
        so_far += count
        bounds[bucket_bound(bucket)] = so_far
    return bounds, sum(counts), sum(hour.calls[call]["sum"] for hour in hours)
