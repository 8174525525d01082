"""The runs of sessions that have been read before, kept beside ReFrame's results database.

A session in ReFrame's database never changes, and it is several kilobytes of JSON a run: a year of
nights takes many seconds to decode. DATABASE.runs keeps what history needs of each session. The
file may be deleted at any time. The file is made anew if it is missing, damaged or of another
iowatch. Only sessions that are still in ReFrame's database are taken from it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from sys import intern
from typing import Any

from iowatch.case import known_case
from iowatch.kinds import CHECKS
from iowatch.references import shared_reference
from iowatch.run import Promise, Run
from iowatch.verdict import Flag, Outcome, Reason, State

SUFFIX = ".runs"
BUSY_S = 10.0  # to wait for another process that fills the file

#: Texts that many runs share, and mappings that are decoded when somebody looks into them: of most
#: runs nobody does.
_SHARED = ("session", "night", "result", "filesystem")
_LATER = ("provenance", "system_context", "slowest", "control", "by_node")

#: The contents of another iowatch may mean something else.
_FORM = hashlib.sha256(
    repr(
        (
            [(c.name, [p.name for p in (*c.parameters, *c.ways)]) for c in CHECKS.values()],
            [field.name for field in fields(Run)],
            [str(word) for words in (State, Reason, Flag) for word in words],
        )
    ).encode()
).hexdigest()

_TABLES = """
CREATE TABLE IF NOT EXISTS form (digest TEXT);
CREATE TABLE IF NOT EXISTS sessions (uuid TEXT PRIMARY KEY, start REAL, runs TEXT);
CREATE INDEX IF NOT EXISTS by_start ON sessions (start);
"""

#: Words of SQLite on a file, not on a statement, which only a broken program gets wrong.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSED = {
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
}


class RunCache:
    """The runs of one results database, as far as they have been read before.

    Everything works without it, but slowly: `trouble` says in a sentence why it could not be used.
    """

    def __init__(self, database: Path) -> None:
        self.sessions: set[str] = set()  # that are kept; none if the file cannot be used
        self.trouble = ""
        self._path = database.with_name(database.name + SUFFIX)
        self._connection: sqlite3.Connection | None = None
        with self._usable():
            self._open()

    def _open(self) -> None:
        self._connection = connection = sqlite3.connect(self._path, timeout=BUSY_S)
        connection.executescript(_TABLES)
        forms = connection.execute("SELECT digest FROM form").fetchall()
        if forms != [(_FORM,)]:
            connection.execute("DELETE FROM form")
            connection.execute("DELETE FROM sessions")
            connection.execute("INSERT INTO form VALUES (?)", [_FORM])
        self.sessions = {uuid for (uuid,) in connection.execute("SELECT uuid FROM sessions")}

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Give the file up if it is damaged or cannot be used."""
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError) as err:
            code = getattr(err, "sqlite_errorcode", 0) & 0xFF  # without what SQLite adds to it
            is_damaged = code in _DAMAGED or isinstance(err, json.JSONDecodeError)
            if not is_damaged and code not in _REFUSED:
                raise
            self.sessions = set()
            self.close(keep=False)
            why = f"is damaged ({err}) and is made anew" if is_damaged else f"cannot be used: {err}"
            self.trouble = f"{self._path}: {why}: the nights before are decoded again, slowly"
            if is_damaged:
                self._path.unlink(missing_ok=True)

    def add(self, session: str, start: float, runs: Sequence[Run]) -> None:
        """Add the runs of a session that began at `start`, in seconds since 1970; they are kept
        for good when the cache is closed."""
        with self._usable():
            if self._connection:
                row = session, start, json.dumps([_as_json(run) for run in runs])
                self._connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", row)

    def read(self, wanted: Collection[str], since: float) -> list[Run]:
        """Read the runs of those of these sessions that are kept; none began before `since`."""
        with self._usable():
            if self._connection:
                query = "SELECT uuid, runs FROM sessions WHERE start >= ?"
                rows = self._connection.execute(query, [since])
                return [run for uuid, text in rows if uuid in wanted for run in _runs(text)]
        return []

    def close(self, keep: bool = True) -> None:
        """Keep what was added, unless it is not to be kept."""
        connection, self._connection = self._connection, None
        if connection:
            try:
                with self._usable():
                    if keep:
                        connection.commit()
            finally:
                connection.close()


def _as_json(run: Run) -> dict[str, Any]:
    values: dict[str, Any] = {field.name: getattr(run, field.name) for field in fields(Run)}
    values |= {name: json.dumps(dict(values[name])) for name in _LATER if values[name]}
    return values | {
        "case": str(run.case),
        "outcome": run.outcome.fields,
        "time": run.time.timestamp(),
        "references": {
            name: (entry.value, entry.lower_threshold, entry.upper_threshold)
            for name, entry in run.references.items()
        },
        "promise": str(run.promise or ""),
    }


def _runs(text: str) -> Iterator[Run]:
    for values in json.loads(text):
        case = known_case(values["case"])
        if case is None:
            continue
        values |= {name: intern(values[name]) for name in _SHARED}
        values |= {name: Later(values[name]) for name in _LATER if values[name]}
        yield Run(
            **values
            | {
                "case": case,
                "time": datetime.fromtimestamp(values["time"], tz=UTC),
                "outcome": Outcome.read(values["outcome"]),
                "references": {
                    name: shared_reference(*entry) for name, entry in values["references"].items()
                },
                "promise": Promise.parse(values["promise"]),
            }
        )


class Later(Mapping[str, Any]):
    """A mapping that is decoded when somebody looks into it."""

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
