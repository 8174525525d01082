"""Sessions as ReFrame reports and stores them."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from cases import case, changed, outcome_of

from iowatch.cases.run import night_id
from iowatch.cases.verdict import Verdict
from iowatch.judge.rules import Memory
from iowatch.judge.settings import NORMAL
from iowatch.judge.stored import JudgedRun
from iowatch.measure.checks import metric

HDF5 = case()
MPIIO = changed(HDF5, backend="mpiio")
BEGAN = datetime(2026, 3, 1, 1, tzinfo=UTC)
_TABLES = """
CREATE TABLE sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL,
                      json_blob TEXT, report_file TEXT);
CREATE TABLE testcases(system TEXT, job_completion_time_unix REAL, session_uuid TEXT);
CREATE TABLE metadata(schema_version TEXT);
INSERT INTO metadata VALUES ('1.0');
"""


def reported(of, ended=None, rate=None, verdict="ok", **changes):
    """A test as ReFrame reports it; without an end it ended when its session began. An empty
    `verdict`: it has none."""
    place = f"{of.system}:{of.partition}"
    detector = {}
    if verdict and ended and (outcome := outcome_of(verdict)).is_suspect:
        due = Verdict(outcome, "fine", rerun_at=ended + NORMAL.rerun_after)
        detector = JudgedRun(by="", runs=1, verdict=due, state=Memory()).stored(due)
    values = dict.fromkeys(of.metrics, 0.5)
    if rate:  # in writing there is a sync besides
        values |= {name: rate for name in ("total_max", "stable_max") if name in values}
    return {
        "name": of.check.name,
        "display_name": of.check.name,
        "hashcode": "a1",
        "partition": of.partition,
        "environ": of.environ,
        "case_id": str(of),
        "suite": "nightly",
        "promised": 2,
        "filesystem_name": of.partition,
        **(outcome_of(verdict).fields if verdict else {"state": ""}),
        "sentence": "fine",
        "result": "pass",
        "detector": detector,
        "job_completion_time_unix": ended and ended.timestamp(),
        "perfvalues": {
            f"{place}:{name}": [value, 0, None, None, metric(name).unit, "pass"]
            for name, value in values.items()
        },
    } | changes


#: What builds benchio has no case.
FIXTURE = {
    "name": "BuiltBenchio",
    "display_name": "BuiltBenchio",
    "result": "pass",
    "job_completion_time_unix": None,
    "perfvalues": {},
}


def session(*tests, uuid="1", began=BEGAN, night="", promise="", **changes):
    """A session of ReFrame; `night` is the id that it was given, `promise` what is said of it."""
    info = {"uuid": uuid, "time_start_unix": began.timestamp()}
    info |= {key: text for key, text in (("night", night), ("promise", promise)) if text}
    run = {"testcases": list(tests), "num_skipped": 0, "num_aborted": 0, **changes}
    return {"session_info": info, "runs": [run]}


def of_night(began, *tests, **changes):
    """The session of a night that began then; without tests HDF5 is well."""
    told = {"uuid": night_id(began), "began": began, "night": night_id(began)}
    return session(*(tests or [reported(HDF5, began)]), **(told | changes))


def store(database, *sessions, wait_s=5):
    """Put sessions into a results database, which is made with its folder if there is none, after
    so many seconds at most for a lock."""
    is_new = not database.exists()
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database, timeout=wait_s)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")  # no power cut is tried here
        if is_new:
            connection.executescript(_TABLES)
        for stored in sessions:
            info = stored["session_info"]
            start = info["time_start_unix"]
            row = (info["uuid"], start, start + 60, json.dumps(stored), "")
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
            tests = [
                (str(test.get("case_id")).partition(":")[0], start, info["uuid"])
                for run in stored["runs"]
                for test in run["testcases"]
            ]
            connection.executemany("INSERT INTO testcases VALUES (?, ?, ?)", tests)


def forget(database, *uuids):
    """Delete sessions from a results database."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("DELETE FROM sessions WHERE uuid = ?", [(uuid,) for uuid in uuids])
