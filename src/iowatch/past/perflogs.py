"""ReFrame's performance logs of iowatch's checks, made a results database again.

A header names the columns, the metrics last. A log that was appended to has several headers:

    job_completion_time|result|case_id|state|...|total_max_value|total_max_lower_thres|...
    2026-11-21T22:51:16|pass|small:memory/gnu/...|ok|...|512.3|400.0|...

ReFrame's code writes the database. A log has no word of the witness: each run is flagged
`imported`, whatever the log says.
"""

from __future__ import annotations

import math
import socket
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from iowatch.base import reframe_inside
from iowatch.base.bounded import reason_of, regular_text
from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.metric import DRIFT
from iowatch.cases.verdict import IMPORTED, JOB_FAILED, Flag
from iowatch.measure.case_ids import known_case
from iowatch.measure.checks import METRICS, metric
from iowatch.measure.kinds.slow_ost import is_of_ost
from iowatch.past.history import NIGHT_KEY

CASE = "case_id"  # the column that only logs of iowatch's checks have
TIME = "job_completion_time"
VALUE = "_value"
WIDTH = 3  # columns of a metric: value, lower and upper threshold
_NONE = ("None", "null", "")

_REFRAMES_TIME = "%Y%m%dT%H%M%S%z"
#: The outcome of a run without metrics: its old record does not say why.
_FAILED = JOB_FAILED.flagged(Flag.IMPORTED)
_UUIDS = uuid.UUID("6cf3a3b0-7f0c-4a7e-9d55-0f4f7b9e3a51")  # made up: the name space of sessions


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """One run of one case; nobody knows whether what it wrote was verified."""

    case: Case
    time: datetime  # of its end, with its time zone
    metrics: Mapping[str, float]  # empty if the run failed
    file: Path
    line: int
    state: str  # as the log has it


# Reading logs


def read(files: Sequence[Path]) -> list[ImportedRun]:
    """Read the runs in performance logs; a run that stands in two files counts once. UserError if
    a log cannot be read, or if there is no run."""
    runs: dict[tuple[Any, ...], ImportedRun] = {}
    for file in files:
        try:
            text = regular_text(file, 2**30, "replace")  # then it is garbled, where it matters
        except (OSError, ValueError) as err:
            raise UserError(f"{file}: cannot be read: {reason_of(err)}") from None
        for run in read_log(file, text):
            runs.setdefault((run.case, run.time, *run.metrics.items()), run)
    if not runs:
        raise UserError("there is no run of a case in these files")
    return [*runs.values()]


def read_log(file: Path, text: str) -> Iterator[ImportedRun]:
    """Yield the runs of one log. UserError names the line that cannot be read."""
    *lines, rest = text.split("\n")
    if rest:
        raise UserError(f"{file}:{len(lines) + 1}: truncated: the line has no end")
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = line.rstrip("\r").split("|")
        if CASE in cells:
            header = cells
        elif line.strip():
            try:
                run = _run(file, number, header, cells)
            except ValueError as err:
                raise UserError(f"{file}:{number}: {err}") from None
            if run:
                yield run


def _run(
    file: Path, number: int, header: Sequence[str], cells: Sequence[str]
) -> ImportedRun | None:
    """Read a line; None for a test that has no case, or whose check has no metrics. ValueError.

    ReFrame's header has the metrics of a session's first test only: other tests may have more or
    fewer, and none at all if they failed.
    """
    if not header:
        raise ValueError(
            "no performance log of iowatch's checks: the line before the results must name the "
            f"columns, {CASE} among them"
        )
    in_header = [name.removesuffix(VALUE) for name in header if name.endswith(VALUE)]
    first = header.index(in_header[0] + VALUE) if in_header else len(header) - 1
    columns = dict(zip(header[:first], cells, strict=False))
    values = [] if cells[first:] == [""] else cells[first:]
    if len(cells) <= first:
        raise ValueError("truncated: it ends in front of the metrics")
    case = known_case(columns[CASE])
    if columns[CASE] in _NONE or (case and not case.metrics):
        return None
    if not case:
        raise ValueError(f"{columns[CASE]!r} is no case of this iowatch")
    metrics = _metrics(case, in_header, values) if values else {}
    if columns.get("result") == "pass" and "total_max" not in metrics:
        raise ValueError("truncated: the test has passed, but has no metrics")
    try:
        time = datetime.fromisoformat(columns[TIME]).astimezone()  # without a zone, of this machine
    except (ValueError, OverflowError):
        raise ValueError(f"{columns[TIME]!r} is no time") from None
    state = columns.get("state") or "unknown"
    return ImportedRun(case=case, time=time, metrics=metrics, file=file, line=number, state=state)


def _metrics(case: Case, in_header: Sequence[str], cells: Sequence[str]) -> dict[str, float]:
    """Read the metrics in these columns. ValueError if they are not those of the case."""
    of_osts = [name for name in in_header if is_of_ost(name)]
    if unknown := [name for name in in_header if name not in (*METRICS, *of_osts)]:
        raise ValueError(f"{unknown[0]} is no metric of this iowatch")
    names = case.metrics + of_osts
    if len(cells) == WIDTH * (len(names) + 1):  # with a baseline there is one more
        names.append(DRIFT)
    if len(cells) != WIDTH * len(names):
        raise ValueError(
            f"truncated, or of another iowatch: {len(cells)} columns of metrics, and not "
            f"{WIDTH * len(names)}"
        )
    pairs = zip(names, cells[::WIDTH], strict=True)
    return {name: _number(text) for name, text in pairs if text not in _NONE}


def _number(text: str) -> float:
    """Read a finite number. ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no number")
    return number


# Writing a database


def write(runs: Sequence[ImportedRun], to: Path) -> None:
    """Make a results database of these runs, whole or not at all. UserError says why."""
    if to.exists():
        raise UserError(f"{to}: is there already: name a new file with --output")
    days: dict[tuple[Path, date], list[ImportedRun]] = {}
    for run in runs:
        days.setdefault((run.file, run.time.astimezone(UTC).date()), []).append(run)
    try:
        # ReFrame's lock is a file next to its database: here it is one that nobody else uses.
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as folder:
            new = Path(folder, "results.db")
            reframe_inside.store(new, map(_report, days.values()))
            new.rename(to)
    except (OSError, sqlite3.Error) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise UserError(f"{to}: cannot be written: {reason}") from None


def _report(runs: Sequence[ImportedRun]) -> dict[str, Any]:
    """Make a session of the runs of a file and a day (UTC), as ReFrame reports one."""
    # The same runs have the same session whenever they are imported: history counts them once.
    content = repr([(str(r.case), r.time.timestamp(), sorted(r.metrics.items())) for r in runs])
    session = str(uuid.uuid5(_UUIDS, content))
    start, end = (f(run.time for run in runs) for f in (min, max))
    counts = {
        "num_cases": len(runs),
        "num_failures": sum(not run.metrics for run in runs),
        "num_aborted": 0,
        "num_skipped": 0,
    }
    tests = [_test(run, f"{session}:0:{index}") for index, run in enumerate(runs)]
    return {
        "session_info": {
            "data_version": reframe_inside.version_of_reports(),
            "hostname": socket.gethostname(),
            "uuid": session,
            NIGHT_KEY: f"{start.astimezone(UTC):%Y-%m-%d}",
            "time_start": f"{start:{_REFRAMES_TIME}}",
            "time_start_unix": start.timestamp(),
            "time_end": f"{end:{_REFRAMES_TIME}}",
            "time_end_unix": end.timestamp(),
            "time_elapsed": (end - start).total_seconds(),
            **counts,
        },
        "runs": [{**counts, "run_index": 0, "testcases": tests}],
        "restored_cases": [],
    }


def _test(run: ImportedRun, identity: str) -> dict[str, Any]:
    """Write a run as ReFrame's report has the test of it."""
    case, check = run.case, run.case.check.name
    prefix = f"{case.system}:{case.partition}"
    return {
        "name": f"{check} {case}",
        "display_name": f"{check} {case}",
        "unique_name": check,
        "hashcode": "",  # nothing that could be run again
        "filename": str(run.file),
        "system": case.system,
        "partition": case.partition,
        "environ": case.environ,
        "case_id": str(case),
        **(IMPORTED if run.metrics else _FAILED).fields,
        "sentence": f"imported from {run.file}:{run.line}, state {run.state}",
        "result": "pass" if run.metrics else "fail",
        "fail_phase": None if run.metrics else "sanity",
        "fail_reason": None,
        "job_completion_time": run.time.isoformat(timespec="seconds"),
        "job_completion_time_unix": run.time.timestamp(),
        "job_nodelist": [],
        "perfvalues": {
            f"{prefix}:{name}": [value, 0, None, None, metric(name).unit, "pass"]
            for name, value in run.metrics.items()
        },
        "time_total": None,
        "uuid": identity,
    }


def summary(runs: Sequence[ImportedRun]) -> str:
    """Say in one line what was read, which shows whether the cases and days are as meant."""
    days = sorted(run.time.date() for run in runs)
    cases, failed = {run.case for run in runs}, sum(not run.metrics for run in runs)
    return (
        f"{counted(len(runs), 'run')} of {counted(len(cases), 'case')}, {days[0]} to {days[-1]}, "
        f"{failed} failed"
    )
