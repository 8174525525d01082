"""Runs in brief, beside ReFrame's results database: what would be decoded anew every night.

A session in ReFrame's database never changes, and it is several kilobytes of JSON a run: a year of
them takes seconds to decode. What history needs of each run is kept in DATABASE.runs, which may be
deleted at any time, and is made anew whenever it is missing, damaged or of another iowatch. Only
sessions that are still in ReFrame's database are taken from it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from iowatch.case import Case, known_case
from iowatch.checks import CHECKS
from iowatch.references import Reference
from iowatch.run import Promise, Run
from iowatch.verdict import Kind

SUFFIX = ".runs"
BUSY_S = 10.0  # another process is filling it: then it is done without

#: Of another iowatch, what is in the cache may mean something else.
_FORM = hashlib.sha256(
    repr(
        (
            [(c.name, [p.name for p in (*c.parameters, *c.ways)]) for c in CHECKS.values()],
            [field.name for field in fields(Run)],
            [str(kind) for kind in Kind],
        )
    ).encode()
).hexdigest()

_TABLES = """
CREATE TABLE IF NOT EXISTS form (digest TEXT);
CREATE TABLE IF NOT EXISTS sessions (uuid TEXT PRIMARY KEY, start REAL);
CREATE TABLE IF NOT EXISTS runs (
    session TEXT, start REAL, case_id TEXT, time REAL, kind TEXT, sentence TEXT, night TEXT,
    test TEXT, result TEXT, filesystem TEXT, folder TEXT, names TEXT, metrics BLOB,
    conditions TEXT, slowest TEXT, control TEXT, bounds TEXT, promise TEXT, circumstances TEXT,
    of_contract INTEGER
);
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (start);
"""


class RunCache:
    """The runs of one results database, as far as they have been read before."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + SUFFIX)
        self._connection = self._open() or self._open()  # damaged: it begins anew
        self.sessions: set[str] = set()
        if self._connection:
            found = self._connection.execute("SELECT uuid FROM sessions")
            self.sessions = {uuid for (uuid,) in found}

    def _open(self) -> sqlite3.Connection | None:
        """None if there can be none: everything works without it."""
        try:
            connection = sqlite3.connect(self._path, timeout=BUSY_S)
            with closing(connection.cursor()) as cursor:
                cursor.executescript(_TABLES)
                forms = cursor.execute("SELECT digest FROM form").fetchall()
            if not forms:
                connection.execute("INSERT INTO form VALUES (?)", [_FORM])
            elif forms != [(_FORM,)]:
                connection.close()
                self._path.unlink()
                return None
        except sqlite3.OperationalError:  # no room, not to be written, or somebody is at work
            return None
        except sqlite3.DatabaseError:
            with suppress(OSError):
                self._path.unlink()
            return None
        return connection

    def add(self, session: str, start: float, runs: Iterable[Run]) -> None:
        """Keep the runs of a session; kept for good when the cache is closed."""
        if self._connection:
            rows = [_row(start, run) for run in runs]
            marks = ", ".join("?" * 19)
            try:
                self._connection.execute(
                    "INSERT OR REPLACE INTO sessions VALUES (?, ?)", [session, start]
                )
                self._connection.executemany(f"INSERT INTO runs VALUES ({marks})", rows)
            except sqlite3.Error:
                self.close(keep=False)

    def read(self, wanted: Collection[str], since: float) -> list[Run] | None:
        """The runs of these sessions, of which none began before `since`; None: it is damaged, and
        will begin anew."""
        if not self._connection:
            return []
        try:
            rows = self._connection.execute("SELECT * FROM runs WHERE start >= ?", [since])
            known = ((known_case(row[2]), row) for row in rows if row[0] in wanted)
            return [_run(case, row) for case, row in known if case]
        except (sqlite3.Error, ValueError, TypeError):
            self.close(keep=False)
            with suppress(OSError):
                self._path.unlink()
            return None

    def close(self, keep: bool = True) -> None:
        if self._connection:
            with suppress(sqlite3.Error):
                if keep:
                    self._connection.commit()
            self._connection.close()
            self._connection = None


def _row(start: float, run: Run) -> tuple[Any, ...]:
    bounds = {
        name: (entry.value, entry.lower_threshold, entry.upper_threshold)
        for name, entry in run.references.items()
    }
    return (
        *(run.session, start, str(run.case), run.time.timestamp(), str(run.kind), run.sentence),
        *(run.night, run.test, run.result, run.filesystem, run.folder),
        *(" ".join(run.metrics), array("d", run.metrics.values()).tobytes()),
        *(_text(run.conditions), _text(run.slowest), _text(run.control), _text(bounds)),
        *(str(run.promise or ""), _text(run.circumstances), run.of_contract),
    )


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values)) if values else ""


def _run(case: Case, row: tuple[Any, ...]) -> Run:
    return Run(
        case=case,
        session=_same(row[0]),
        time=datetime.fromtimestamp(row[3], tz=UTC),
        kind=Kind(row[4]),
        sentence=row[5],
        night=_same(row[6]),
        test=row[7],
        result=_same(row[8]),
        filesystem=_same(row[9]),
        folder=row[10],
        metrics=dict(zip(_names(row[11]), array("d", row[12]), strict=True)),
        conditions=Later(row[13]) if row[13] else {},
        slowest=Later(row[14]) if row[14] else {},
        control=Later(row[15]) if row[15] else {},
        references=_bounds(row[16]) if row[16] else {},
        promise=_promise(row[17]),
        circumstances=Later(row[18]) if row[18] else {},
        of_contract=bool(row[19]),
    )


@cache
def _names(text: str) -> list[str]:
    return text.split()


@cache  # the same few of thousands
def _same(text: str) -> str:
    return text


@cache  # likewise
def _promise(text: str) -> Promise | None:
    return Promise.parse(text)


@cache  # the same every night
def _bounds(text: str) -> Mapping[str, Reference]:
    return {name: Reference(*entry) for name, entry in json.loads(text).items()}


class Later(Mapping[str, Any]):
    """A mapping that is decoded when somebody looks into it: of most runs nobody does."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _mapping(self) -> Mapping[str, Any]:
        decoded: Mapping[str, Any] = json.loads(self._text)
        return decoded

    def __getitem__(self, key: str) -> Any:
        return self._mapping()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())
