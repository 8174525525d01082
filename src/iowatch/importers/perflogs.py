"""Performance logs that ReFrame wrote of iowatch's own checks.

A header names the columns, the metrics last. A log that was appended to has several headers:

    result|job_completion_time|...|case_id|state|...|total_max_value|total_max_lower_thres|...
    pass|2026-11-21T22:51:16|...|small:memory/gnu/...|ok|...|512.3|400.0|...
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from iowatch.case import Case, known_case
from iowatch.check import DRIFT
from iowatch.files import UserError
from iowatch.kinds import METRICS
from iowatch.kinds.each_ost import is_of_ost

CASE = "case_id"  # the column that only logs of iowatch's checks have
TIMES = ("job_completion_time", "asctime")
EXACT = "job_completion_time_unix"
VALUE = "_value"
WIDTH = 3  # columns of a metric: value, lower and upper threshold
_NONE = ("None", "null", "")


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """One run of one case; nobody knows whether what it wrote was verified."""

    case: Case
    time: datetime  # of its end, with its time zone
    metrics: Mapping[str, float]  # in the units of iowatch.kinds; empty if the run failed
    file: Path
    line: int
    state: str  # as the log has it

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def read(file: Path, text: str) -> Iterator[ImportedRun]:
    """Yield the runs of one log. UserError names the line that cannot be read."""
    lines = text.split("\n")
    if lines[-1]:
        raise UserError(f"{file}:{len(lines)}: truncated: the line has no end")
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        place, cells = f"{file}:{number}", line.rstrip("\r").split("|")
        if any(name in cells for name in TIMES):
            header = cells
        elif not line.strip():
            continue
        elif CASE not in header:
            raise UserError(
                f"{place}: no performance log of iowatch's checks: the line before the results "
                f"must name the columns, {CASE} among them"
            )
        elif run := _run(file, number, header, cells):
            yield run


def _run(
    file: Path, number: int, header: Sequence[str], cells: Sequence[str]
) -> ImportedRun | None:
    """Read a line; None for a test that has no case, or whose check has no metrics.

    ReFrame's header has the metrics of a session's first test only: other tests may have more or
    fewer, and none at all if they failed.
    """
    place = f"{file}:{number}"
    in_header = [name.removesuffix(VALUE) for name in header if name.endswith(VALUE)]
    first = header.index(in_header[0] + VALUE) if in_header else len(header) - 1
    columns = dict(zip(header[:first], cells, strict=False))
    values = [] if cells[first:] == [""] else cells[first:]
    if len(columns) < first or not cells[first:]:
        raise UserError(f"{place}: truncated: it ends in front of the metrics")
    known = known_case(columns[CASE])
    if columns[CASE] in _NONE or (known and not known.metrics):
        return None
    if not known:
        raise UserError(f"{place}: {columns[CASE]!r} is no case of this iowatch")
    if values:
        names = _metrics(place, known, in_header, len(values))
        pairs = zip(names, values[::WIDTH], strict=True)
        metrics = {name: _number(place, value) for name, value in pairs if value not in _NONE}
    else:
        metrics = {}
    if columns.get("result") == "pass" and "total_max" not in metrics:
        raise UserError(f"{place}: truncated: the test has passed, but has no metrics")
    return ImportedRun(
        case=known,
        time=_time(place, columns),
        metrics=metrics,
        file=file,
        line=number,
        state=columns.get("state") or columns.get("result") or "unknown",
    )


def _metrics(place: str, case: Case, in_header: Sequence[str], columns: int) -> list[str]:
    """Name the metrics that so many columns hold. UserError if their number fits no case."""
    if unknown := [name for name in in_header if name not in METRICS and not is_of_ost(name)]:
        raise UserError(f"{place}: {unknown[0]} is no metric of this iowatch")
    names = case.metrics + [name for name in in_header if is_of_ost(name)]
    if columns == WIDTH * (len(names) + 1):  # with a baseline there is one more
        names.append(DRIFT)
    if columns != WIDTH * len(names):
        raise UserError(
            f"{place}: truncated, or of another iowatch: {columns} columns of metrics, and not "
            f"{WIDTH * len(names)}"
        )
    return names


def _number(place: str, text: str) -> float:
    """Read a finite number. UserError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{place}: {text!r} is no number")
    return number


def _time(place: str, columns: Mapping[str, str]) -> datetime:
    """Read when the job ended; a time without a time zone is of this machine's. UserError."""
    text = next((columns[name] for name in (EXACT, *TIMES) if name in columns), "")
    try:
        if EXACT in columns:
            return datetime.fromtimestamp(float(text), UTC)
        return datetime.fromisoformat(text.replace(",", ".")).astimezone()
    except (ValueError, OverflowError):
        raise UserError(f"{place}: {text!r} is no time") from None
