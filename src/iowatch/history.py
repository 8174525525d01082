"""What ReFrame's results databases hold: every run of every case, by night.

ReFrame's database is the only store, and this module only reads it. A reader that kept it locked
would make ReFrame lose its night, so all rows of a file are fetched at once and the file is closed
before anything is computed.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from iowatch.case import Case

SCHEMA_VERSION = "1.0"
LOCKED_S = 5.0  # to wait for a session that is being stored
NIGHT = timedelta(hours=20)  # five jobs four hours apart; the next nightly run is a day later

#: One row for each test of each session, and of it only what a record needs.
_QUERY = """
SELECT json_extract(test.value, '$.case_id'),
       json_extract(test.value, '$.job_completion_time_unix'),
       sessions.session_start_unix,
       json_extract(test.value, '$.result'),
       json_extract(test.value, '$.verdict'),
       json_extract(test.value, '$.sentence'),
       json_extract(test.value, '$.perfvalues'),
       json_extract(test.value, '$.hashcode'),
       sessions.uuid
FROM sessions, json_each(sessions.json_blob, '$.runs') AS run,
     json_each(run.value, '$.testcases') AS test
WHERE json_extract(test.value, '$.case_id') <> ''
"""


class HistoryError(Exception):
    """A database cannot be read; one line says which and what to do."""


@dataclass(frozen=True)
class Record:
    """One run of one case."""

    case: Case
    time: datetime  # UTC, of the job's end
    verdict: str
    sentence: str
    figures: Mapping[str, float]  # empty if the run was invalid
    test: str  # ReFrame's hash of the check and its parameters: `-n /hash` selects it
    session: str


def read(files: Iterable[Path]) -> list[Record]:
    """All runs in these databases, oldest first; one that is in several counts once."""
    found = {}
    for file in files:
        for record in _read_file(file):
            found[record.session, record.case, record.time] = record
    return sorted(found.values(), key=lambda record: (record.time, str(record.case)))


def by_night(records: Iterable[Record]) -> dict[Case, dict[date, list[Record]]]:
    """The records of each case, oldest first, by the day on which their night began, in UTC.

    What is run within NIGHT of a night's first run is a re-run of that night, past midnight too.
    """
    cases: dict[Case, dict[date, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.time):
        nights = cases.setdefault(record.case, {})
        last = next(reversed(nights), None)
        if last is None or not is_same_night(nights[last], record.time):
            last = record.time.date()
        nights.setdefault(last, []).append(record)
    return cases


def is_same_night(night: Sequence[Record], time: datetime) -> bool:
    """Is a run at this time one more of the night?"""
    return time - night[0].time < NIGHT


def _read_file(file: Path) -> list[Record]:
    if not file.is_file():
        raise HistoryError(f"{file}: there is no such results database: name one with --db")
    try:
        rows = _fetch(file)
    except sqlite3.OperationalError as err:
        if "locked" in str(err):
            raise HistoryError(
                f"{file}: still locked after {LOCKED_S:g} s: a session is being stored; try again"
            ) from None
        raise HistoryError(f"{file}: not a results database of ReFrame: {err}") from None
    except sqlite3.DatabaseError as err:  # truncated, or no SQLite at all
        raise HistoryError(
            f"{file}: damaged, or no SQLite database ({err}): restore it, or move it away"
        ) from None
    return [record for row in rows if (record := _record(row)) is not None]


def _fetch(file: Path) -> list[tuple[Any, ...]]:
    """All rows; the database is closed again when they are returned."""
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCKED_S)
    try:
        ((version,),) = connection.execute("SELECT schema_version FROM metadata").fetchall() or [
            ("none",)
        ]
        if version != SCHEMA_VERSION:
            raise HistoryError(
                f"{file}: its schema is version {version}, and {SCHEMA_VERSION} is known here: "
                "another ReFrame wrote it"
            )
        return connection.execute(_QUERY).fetchall()
    finally:
        connection.close()


def _record(row: tuple[Any, ...]) -> Record | None:
    """The record of one row; None for a test of another suite, or of an older form of case."""
    case_id, ended, started, result, verdict, sentence, perfvalues, test, session = row
    try:
        case = Case.parse(case_id)
    except ValueError:
        return None
    values = json.loads(perfvalues or "{}") or {}
    figures = {
        name.rsplit(":", 1)[-1]: float(entry[0])
        for name, entry in values.items()
        if isinstance(entry[0], int | float) and math.isfinite(entry[0])
    }
    invalid = "invalid" if result != "pass" else ""  # a job that timed out has no verdict
    return Record(
        case=case,
        time=datetime.fromtimestamp(ended or started, tz=timezone.utc),
        verdict=verdict or invalid,
        sentence=sentence or "",
        figures=figures,
        test=test,
        session=session,
    )
