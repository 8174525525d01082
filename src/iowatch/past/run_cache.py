"""The runs of sessions that have been read before, kept beside ReFrame's results database.

It is several kilobytes of JSON a run: a year of nights takes many seconds to decode. DATABASE.runs
keeps what history needs of each session, with the digest of the session's row in the database and
one of its own. A row is compared again as soon as the database is another file, by its inode, size
and times; `iowatch nights --check` trusts none of them. The file may be deleted at any time. It is
made anew if it is missing, damaged or of another iowatch.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any

from iowatch.base.files import as_shared
from iowatch.cases.metric import shared_reference
from iowatch.cases.run import Promise, Run
from iowatch.cases.verdict import Flag, Outcome, Reason, State
from iowatch.measure.case_ids import known_case
from iowatch.measure.checks import CHECKS
from iowatch.past.reframe_database import CACHE, state_of

BUSY_S = 10.0  # to wait for another process that fills the file

#: Texts that many runs share, and mappings that are decoded when somebody looks into them: of most
#: runs nobody does.
_SHARED = ("session", "night", "result", "filesystem", "row")
_LATER = ("provenance", "system_context", "slowest", "control", "by_node", "detector")

_TABLES = {
    "form": "CREATE TABLE form (digest TEXT)",
    "sessions": "CREATE TABLE sessions (uuid TEXT PRIMARY KEY, row TEXT, content TEXT, file TEXT)",
    "contents": "CREATE TABLE contents (uuid TEXT PRIMARY KEY, runs BLOB)",
}
_EVERYTHING = "FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
#: The contents of another iowatch may mean something else.
_FORM = hashlib.sha256(
    repr(
        (
            _TABLES,
            [(c.name, [p.name for p in (*c.parameters, *c.ways)]) for c in CHECKS.values()],
            [field.name for field in fields(Run)],
            [str(word) for words in (State, Reason, Flag) for word in words],
        )
    ).encode()
).hexdigest()

#: Words of SQLite on a file, not on a statement, which only a broken program gets wrong.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSED = {
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
}


class _Damaged(Exception):
    """What the file holds is not what was put into it."""


class _Foreign(Exception):
    """The file is somebody else's: nothing is written to it."""


@dataclass(frozen=True)
class _Kept:
    """What is kept of a session."""

    row: str  # digest of its row in the database
    content: str  # digest of what is kept of it
    file: str  # the database, as it was when the row was last read


class RunCache:
    """The runs of one results database, as far as they have been read before.

    Everything works without it, but slowly: `trouble` says in a sentence why it could not be used.
    """

    def __init__(self, database: Path) -> None:
        self.trouble = ""
        self.path = database.with_name(database.name + CACHE)
        self._file = state_of(database)
        self._kept = dict[str, _Kept]()
        self._compared = list[tuple[str, str]]()
        self._connection: sqlite3.Connection | None = None
        with self._usable():
            self._open(database)

    def _open(self, database: Path) -> None:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise _Foreign("is no regular file")
            if self.path.samefile(database):
                raise _Foreign("is the results database")
        with as_shared(self.path.parent), suppress(OSError):  # of which SQLite says more
            self.path.touch(exist_ok=False)
        self._connection = connection = sqlite3.connect(self.path, timeout=BUSY_S)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        if not _is_ours(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not _is_ours(connection):  # nobody else has made it meanwhile
                _make(connection)
            connection.commit()
        rows = connection.execute("SELECT uuid, row, content, file FROM sessions")
        self._kept = {uuid: _Kept(*texts) for uuid, *texts in rows}

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Give the file up if it is damaged, somebody else's, or cannot be used."""
        try:
            yield
        except (sqlite3.Error, OSError, _Damaged, _Foreign) as err:
            code = getattr(err, "sqlite_errorcode", 0) & 0xFF  # without what SQLite adds to it
            is_damaged = code in _DAMAGED or isinstance(err, _Damaged)
            if isinstance(err, sqlite3.Error) and not is_damaged and code not in _REFUSED:
                raise
            self._kept = {}
            self.close(keep=False)
            why = f"cannot be used: {err}"
            if is_damaged:
                why = f"is damaged ({err}) and is made anew"
                self.path.unlink(missing_ok=True)
            elif isinstance(err, _Foreign):
                why = f"{err}, and no cache of iowatch's: move it away"
            self.trouble = f"{self.path}: {why}: the nights before are decoded again, slowly"

    def is_other(self, session: str, row: str) -> bool:
        """Return whether a session is kept whose row had another digest."""
        return session in self._kept and self._kept[session].row != row

    def read(self, session: str, row: str = "") -> list[Run] | None:
        """Read the runs of a session whose row has this digest; without one, if the database is as
        it was when the row was read. None: they are not kept, or the row is to be read."""
        kept = self._kept.get(session)
        is_known = kept and (kept.row == row if row else self._file == kept.file != "")
        if not (kept and is_known):
            return None
        with self._usable():
            if self._connection:
                query = "SELECT CAST(runs AS BLOB) FROM contents WHERE uuid = ?"
                ((content,),) = self._connection.execute(query, [session]).fetchall() or [(b"",)]
                if _digest(session, kept.row, content or b"") != kept.content:
                    raise _Damaged(f"session {session} is not as it was kept")
                self._compared += [(self._file, session)] if kept.file != self._file else []
                try:
                    return list(_runs(content))
                except (ValueError, TypeError, LookupError, AttributeError) as err:
                    raise _Damaged(f"session {session}: {err!r}") from None
        return None

    def add(self, session: str, row: str, runs: Sequence[Run]) -> None:
        """Add the runs of a session, whose row has this digest; they are kept for good when the
        cache is closed."""
        with self._usable():
            if self._connection:
                content = json.dumps([_as_json(run) for run in runs]).encode()
                kept = row, _digest(session, row, content), self._file
                for table, *values in (("sessions", *kept), ("contents", content)):
                    marks = ", ".join("?" * len(values))
                    insert = f"INSERT OR REPLACE INTO {table} VALUES (?, {marks})"
                    self._connection.execute(insert, [session, *values])

    def close(self, keep: bool = True) -> None:
        """Keep what was added, unless it is not to be kept."""
        connection, self._connection = self._connection, None
        if connection:
            try:
                if keep:
                    with suppress(sqlite3.Error):  # then they are compared again
                        say = "UPDATE sessions SET file = ? WHERE uuid = ?"
                        connection.executemany(say, self._compared)
                    with self._usable():
                        connection.commit()
            finally:
                connection.close()


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Are these the tables of this iowatch? _Foreign if they are nobody's cache."""
    tables = dict(connection.execute(f"SELECT name, sql {_EVERYTHING}"))
    if tables and "form" not in tables:
        raise _Foreign("is another database")
    return tables == _TABLES and [*connection.execute("SELECT digest FROM form")] == [(_FORM,)]


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables, in place of those of another iowatch."""
    for kind, name in connection.execute(f"SELECT type, name {_EVERYTHING}").fetchall():
        connection.execute(f'DROP {kind} IF EXISTS "{name}"')
    for statement in _TABLES.values():
        connection.execute(statement)
    connection.execute("INSERT INTO form VALUES (?)", [_FORM])


def _digest(session: str, row: str, content: bytes) -> str:
    return hashlib.sha256(f"{session} {row} ".encode() + content).hexdigest()


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


def _runs(content: bytes) -> Iterator[Run]:
    for values in json.loads(content):
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

    def __getitem__(self, key: str) -> Any:
        return _mapping(self._text)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_mapping(self._text))

    def __len__(self) -> int:
        return len(_mapping(self._text))


@lru_cache(8)  # who looks at one key mostly looks at all, and then at no other
def _mapping(text: str) -> Mapping[str, Any]:
    decoded: Mapping[str, Any] = json.loads(text)
    return decoded
