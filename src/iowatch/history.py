"""What ReFrame's results databases hold: every run of every case, by night.

ReFrame's database is the only store, and this module only reads it. A reader that kept it locked
would make ReFrame lose its night, so each session is fetched with a statement of its own, which
takes a millisecond however long the history is, and is decoded when the lock is released.
"""

from __future__ import annotations

import gc
import json
import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.files import UserError
from iowatch.verdict import TOO_FAST, Reference

SCHEMA_VERSION = "1.0"
LOCKED_S = 60.0  # to wait for a session that is being stored: as long as ReFrame waits
NIGHT = timedelta(hours=20)  # five jobs four hours apart; the next nightly run is a day later

#: ReFrame's results of a test that did not come to an end: its session was stopped.
UNFINISHED = ("abort", "<unknown>")


class HistoryError(UserError):
    """A database cannot be read; one line says which and what to do."""


@dataclass(frozen=True)
class Record:
    """One run of one case."""

    case: Case
    time: datetime  # UTC, of the job's end
    verdict: str
    sentence: str
    figures: Mapping[str, float]  # empty if the run was invalid, or too fast
    test: str  # ReFrame's hash of the check and its parameters: `-n /hash` selects it
    session: str
    result: str = "pass"  # ReFrame's: pass, fail, xfail
    conditions: Mapping[str, str] = field(default_factory=dict)  # what the run met with
    slowest: Mapping[str, str] = field(default_factory=dict)  # rank in each phase, in words
    references: Mapping[str, Reference] = field(default_factory=dict)  # that it was judged by


def read(files: Iterable[Path]) -> list[Record]:
    """All runs in these databases, oldest first; one that is in several counts once."""
    found = {}
    with _without_gc():
        for file in files:
            for session in sessions(file):
                for record in _records(session):
                    found[record.session, record.case, record.time] = record
    return sorted(found.values(), key=lambda record: (record.time, str(record.case)))


def by_night(records: Iterable[Record]) -> dict[Case, dict[date, list[Record]]]:
    """The records of each case in its own nights; see `nights_of`."""
    cases: dict[Case, list[Record]] = {}
    for record in records:
        cases.setdefault(record.case, []).append(record)
    return {case: nights_of(runs) for case, runs in cases.items()}


def nights_of(records: Iterable[Record]) -> dict[date, list[Record]]:
    """The records, oldest first, by the day on which their night began, in UTC.

    What is run within NIGHT of a night's first run belongs to that night, past midnight too. Of two
    nights that begin on one day, just after midnight and just before the next, the second has the
    next day.
    """
    nights: dict[date, list[Record]] = {}
    night = date.min
    for record in sorted(records, key=lambda record: record.time):
        if not nights or not is_same_night(nights[night], record.time):
            day = record.time.date()
            night = max(day, night + timedelta(days=1)) if nights else day
            nights[night] = []
        nights[night].append(record)
    return nights


def is_same_night(night: Sequence[Record], time: datetime) -> bool:
    """Is a run at this time one more of the night?

    Not if the night begins later: a clock that was wrong has dated it.
    """
    return timedelta(0) <= time - night[0].time < NIGHT


@contextmanager
def _without_gc() -> Iterator[None]:
    """No search for cycles: decoded JSON has none, and it would take a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def sessions(file: Path, wanted: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """What ReFrame has stored of each session, or of these, as in its reports; HistoryError."""
    if not file.is_file():
        raise HistoryError(f"{file}: there is no such results database: name one with --db")
    # Only read, but "rw": SQLite can then undo a session whose storing was cut off.
    uri = f"{file.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCKED_S)) as connection:
            yield from _sessions(connection, file, wanted)
    except sqlite3.OperationalError as err:
        if "locked" in str(err):
            raise HistoryError(
                f"{file}: still locked after {LOCKED_S:g} s: a session is being stored; try again"
            ) from None
        if "readonly" in str(err):
            raise HistoryError(
                f"{file}: the storing of a session was cut off, and must be undone first: "
                "read it once as the user who runs ReFrame"
            ) from None
        raise HistoryError(f"{file}: not a results database of ReFrame: {err}") from None
    except sqlite3.DatabaseError as err:  # truncated, or no SQLite at all
        raise HistoryError(
            f"{file}: damaged, or no SQLite database ({err}): restore it, or move it away"
        ) from None


def _sessions(
    connection: sqlite3.Connection, file: Path, wanted: Collection[str] | None
) -> Iterator[dict[str, Any]]:
    ((version,),) = _fetch(connection, "SELECT schema_version FROM metadata") or [("none",)]
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"{file}: its schema is version {version}, and {SCHEMA_VERSION} is known here: "
            "another ReFrame wrote it"
        )
    for (session,) in _fetch(connection, "SELECT uuid FROM sessions"):
        if wanted is not None and session not in wanted:
            continue
        query = "SELECT json_blob FROM sessions WHERE uuid = ?"
        for (text,) in _fetch(connection, query, session):  # none if it was deleted meanwhile
            try:
                stored = json.loads(text)
                info = stored["session_info"]
                stored["tests"] = [test for run in stored["runs"] for test in run["testcases"]]
                info["uuid"], _ = session, info["time_start_unix"]
            except (ValueError, TypeError, KeyError) as err:
                raise HistoryError(
                    f"{file}: session {session} is damaged ({err!r}): restore the database, or "
                    "delete this session from it"
                ) from None
            yield stored


def _records(session: dict[str, Any]) -> Iterator[Record]:
    """The runs of all cases; a test of another suite is none, nor one of an older form of case."""
    info = session["session_info"]
    for test in session["tests"]:
        case = _case(str(test.get("case_id")))
        if case is not None and test["result"] not in UNFINISHED:
            yield _record(case, info["uuid"], info["time_start_unix"], test)


def _fetch(connection: sqlite3.Connection, statement: str, *values: str) -> list[Any]:
    """All rows: a statement with rows left to fetch would keep its lock."""
    return connection.execute(statement, values).fetchall()


def _record(case: Case, session: str, start: float, test: Mapping[str, Any]) -> Record:
    invalid = "invalid" if test["result"] != "pass" else ""  # a job that timed out has no verdict
    verdict = test.get("verdict") or invalid
    ended = test["job_completion_time_unix"] or start
    perfvalues = test.get("perfvalues") or {}
    return Record(
        case=case,
        time=datetime.fromtimestamp(ended, tz=timezone.utc),
        verdict=verdict,
        sentence=test.get("sentence") or "",
        # What a cache or a bug made is no past to compare with.
        figures={} if verdict == TOO_FAST else _figures(perfvalues),
        test=test["hashcode"],
        session=session,
        result=test["result"],
        conditions=test.get("conditions") or {},
        slowest=test.get("slowest") or {},
        references=_references(perfvalues),
    )


@cache  # the same few hundred every night
def _case(text: str) -> Case | None:
    """None if that is no case."""
    try:
        return Case.parse(text)
    except ValueError:
        return None


def recorded(test: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a test as ReFrame stores it."""
    return _figures(test.get("perfvalues") or {})


def _figures(perfvalues: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """From {"system:partition:name": [value, reference, ...]}; no value is null."""
    return {
        _name(key): float(entry[0])
        for key, entry in perfvalues.items()
        if entry[0] is not None and math.isfinite(entry[0])
    }


def _references(perfvalues: Mapping[str, Sequence[Any]]) -> dict[str, Reference]:
    """Where there is a bound, from [value, reference, lower threshold, upper threshold, ...]."""
    return {
        _name(key): _reference(*entry[1:4])
        for key, entry in perfvalues.items()
        if any(threshold is not None for threshold in entry[2:4])
    }


@cache  # the same every night
def _reference(value: float, lower: float | None, upper: float | None) -> Reference:
    return Reference(value, lower, upper)


@cache  # one text for the figures of all records
def _name(key: str) -> str:
    return key.rsplit(":", 1)[-1]
