"""Performance logs made a results database again, which is read like ReFrame's.

ReFrame's code writes it, but nothing is added to a database that ReFrame writes to. A log has no
word of the witness: each run is flagged `imported`, whatever the log says.
"""

from __future__ import annotations

import socket
import sqlite3
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from iowatch import reframe_inside
from iowatch.case import Case
from iowatch.files import UserError, counted
from iowatch.history import NIGHT_KEY
from iowatch.importers import perflogs
from iowatch.importers.perflogs import ImportedRun
from iowatch.kinds import metric
from iowatch.verdict import IMPORTED, JOB_FAILED, Flag

_TIME = "%Y%m%dT%H%M%S%z"  # as ReFrame writes a session's times
#: Such a run has no metrics, and its old record does not say why.
_FAILED = JOB_FAILED.flagged(Flag.IMPORTED)
_UUIDS = uuid.UUID("6cf3a3b0-7f0c-4a7e-9d55-0f4f7b9e3a51")  # made up: the name space of sessions


def read(files: Sequence[Path]) -> list[ImportedRun]:
    """Read the runs in performance logs. UserError: one of them cannot be read or is there twice,
    or there is none."""
    seen: dict[tuple[Any, ...], ImportedRun] = {}
    for file in files:
        try:
            text = file.read_text("utf-8", errors="replace")  # then it is garbled, where it matters
        except OSError as err:
            raise UserError(f"{file}: cannot be read: {err.strerror}") from None
        for run in perflogs.read(file, text):
            key = (run.case, run.time, *run.metrics.items())
            if key in seen:
                raise UserError(f"{run.place}: is the same run as {seen[key].place}")
            seen[key] = run
    if not seen:
        raise UserError("there is no run of a case in these files")
    return [*seen.values()]


def write(runs: Sequence[ImportedRun], to: Path) -> None:
    """Make a results database of these runs, whole or not at all. UserError says why."""
    if to.exists():
        raise UserError(f"{to}: is there already: name a new file with --to")
    try:
        # ReFrame's lock is a file next to its database: here it is one that nobody else uses.
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as folder:
            new = Path(folder, "results.db")
            reframe_inside.store(new, sessions(runs))
            new.rename(to)
    except (OSError, sqlite3.Error) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise UserError(f"{to}: cannot be written: {reason}") from None


def sessions(runs: Iterable[ImportedRun]) -> Iterator[dict[str, Any]]:
    """Yield the runs as reports of ReFrame: a session for each file and day, in UTC.

    Each of several runs of one case in the same second has a session: a session's runs are told
    apart by case and time.
    """
    days: dict[tuple[Path, date, int], list[ImportedRun]] = {}
    same: Counter[tuple[Path, Case, datetime]] = Counter()
    for run in runs:
        key = (run.file, run.case, run.time)
        day = run.time.astimezone(UTC).date()
        days.setdefault((run.file, day, same[key]), []).append(run)
        same[key] += 1
    return map(_report, days.values())


def _report(runs: Sequence[ImportedRun]) -> dict[str, Any]:
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
            "time_start": f"{start:{_TIME}}",
            "time_start_unix": start.timestamp(),
            "time_end": f"{end:{_TIME}}",
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
        "sentence": f"imported from {run.place}, state {run.state}",
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
    return (
        f"{counted(len(runs), 'run')} of {counted(len({run.case for run in runs}), 'case')},"
        f" {days[0]} to {days[-1]},"
        f" {sum(not run.metrics for run in runs)} failed"
    )
