"""ReFrame's results database as a file: its sessions, the row and the night of each.

Only read, and never for long: a reader that kept it locked would make ReFrame lose its night. A
statement of its own therefore fetches each session, in a millisecond.
"""

from __future__ import annotations

import hashlib
import shlex
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iowatch.base.files import UserError
from iowatch.cases.filesystem import NIGHTLY
from iowatch.cases.run import is_night_id, night_id

SCHEMA_VERSION = "1.0"

LOCKED_S = 60.0  # to wait for a session that is being stored: as long as ReFrame waits

RECORDS = {"sessions", "testcases"}  # ReFrame's tables that every session adds to

TABLES = RECORDS | {"metadata"}

#: The end of the name of the cache of runs beside it, iowatch.past.run_cache.
CACHE = ".runs"
#: A file may change again within the tick of its clock: one so young is not known by its times.
SETTLED_S = 2.0


def row_digest(session: str, start: float, text: bytes) -> str:
    """The digest of a session's row, by which it is known that nobody has changed it."""
    digest = hashlib.sha256(f"{session} {start!r} ".encode())
    digest.update(text)
    return digest.hexdigest()


def rows(file: Path, wanted: Collection[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the JSON of each session, or of these, undecoded. UserError."""
    if wanted is not None and not wanted:
        return
    with _database(file) as connection:
        if connection is None:
            return
        for (session,) in _fetch(connection, "SELECT uuid FROM sessions"):
            if wanted is not None and session not in wanted:
                continue
            query = "SELECT CAST(json_blob AS BLOB) FROM sessions WHERE uuid = ?"
            for (text,) in _fetch(connection, query, session):  # none if deleted meanwhile
                yield session, text or b""


def rows_with_digests(file: Path, wanted: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    """Yield those of these sessions that are on record, the digests of their rows, and their JSON.
    UserError."""
    began = starts(file) if wanted else {}
    for uuid, text in rows(file, wanted):
        yield uuid, row_digest(uuid, began[uuid], text), text


def systems(file: Path, since: datetime) -> set[str]:
    """The systems with a test on record that ended since then, of iowatch or not. UserError."""
    with _database(file) as connection:
        if connection is None:
            return set()
        query = (
            "SELECT DISTINCT system FROM testcases "
            "WHERE job_completion_time_unix >= ? OR job_completion_time_unix IS NULL"
        )
        return {name for (name,) in _fetch(connection, query, since.timestamp())}


def state_of(database: Path) -> str:
    """What a database is known by, unless somebody writes to it; empty: it is too young."""
    try:
        status = database.stat()
    except OSError:
        return ""
    changed = max(status.st_mtime, status.st_ctime)
    is_settled = 0 < changed < time.time() - SETTLED_S
    if not is_settled or database.with_name(f"{database.name}-wal").exists():
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def starts(file: Path) -> dict[str, float]:
    """The id of each session, and when it began, in seconds since 1970; UserError."""
    with _database(file) as connection:
        if connection is None:
            return {}
        began = dict(_fetch(connection, "SELECT uuid, session_start_unix FROM sessions"))
    for session, start in began.items():
        if not isinstance(start, int | float):
            raise damaged(file, session, TypeError(f"it began at {start!r}"))
    return began


def clear_empty(file: Path) -> bool:
    """Remove a database without any session, as a full disk leaves it, for ReFrame makes one anew
    only where there is none. False: it is no such one. UserError."""
    with _database(file) as connection:
        if connection is not None:
            return False
    try:
        file.unlink()
    except OSError as err:
        raise UserError(f"{file}: is empty and cannot be removed: {err.strerror}") from None
    return True


def damaged(file: Path, session: str, err: Exception) -> UserError:
    return UserError(
        f"{file}: session {session} is damaged ({err!r}): restore the database from a backup, or "
        f"delete it: `reframe --delete-stored-sessions={session}`"
    )


@contextmanager
def _database(file: Path) -> Iterator[sqlite3.Connection | None]:
    """The database to read from, if it is one of a known ReFrame; None: no session was ever stored
    in it. UserError."""
    try:
        is_there = file.is_file()
    except OSError as err:  # such as a name that is too long
        raise UserError(f"{file}: no results database can be there: {err.strerror}") from None
    if not is_there:
        raise UserError(f"{file}: there is no such results database: name one with --db")
    # Only read, but "rw": SQLite can then undo a session whose storing was cut off.
    uri = f"{file.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCKED_S)) as connection:
            if _is_empty(connection):
                yield None
                return
            version = _fetch(connection, "SELECT schema_version FROM metadata") or [("none",)]
            if version != [(SCHEMA_VERSION,)]:
                raise UserError(
                    f"{file}: its schema is version {version[0][0]}, and {SCHEMA_VERSION} is known "
                    f"here: another ReFrame wrote it: go on with that one, or {_aside(file)}"
                )
            yield connection
    except sqlite3.DatabaseError as err:
        raise UserError(f"{file}: {_why_unusable(file, err)}") from None


def _why_unusable(file: Path, err: sqlite3.DatabaseError) -> str:
    """Say why a database cannot be read, and what to do."""
    if "locked" in str(err):
        return f"still locked after {LOCKED_S:g} s: a session is being stored; try again"
    if "readonly" in str(err):
        return (
            "the storing of a session was cut off, and must be undone first: read it once as the "
            "user who runs ReFrame"
        )
    is_sqlite = isinstance(err, sqlite3.OperationalError)  # else truncated, or none at all
    fault = "not a results database of ReFrame" if is_sqlite else "damaged, or no SQLite database"
    return f"{fault} ({err}): restore it from a backup, or {_aside(file)}"


def _is_empty(connection: sqlite3.Connection) -> bool:
    """Has ReFrame made its tables, or some of them or none, and never stored anything?"""
    tables = {
        name
        for (name,) in _fetch(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    filled = (_fetch(connection, f"SELECT 1 FROM {table} LIMIT 1") for table in RECORDS & tables)
    return tables <= TABLES and not any(filled)


def _aside(file: Path) -> str:
    """Return the command that begins history anew, and keeps what there is."""
    return f"begin anew with `mv {shlex.quote(str(file))} {shlex.quote(f'{file}.damaged')}`"


def _fetch(connection: sqlite3.Connection, statement: str, *values: str | float) -> list[Any]:
    """All rows: a statement with rows left to fetch would keep its lock."""
    return connection.execute(statement, values).fetchall()


#: The key of a session's information that has the id of its night.
NIGHT_KEY = "night"

#: ReFrame's results of a test that did not come to an end: its session was stopped.
UNFINISHED = ("abort", "<unknown>")


def tests_of(session: Mapping[str, Any]) -> list[Any]:
    return [test for run in session["runs"] for test in run["testcases"]]


def night_id_of(session: Mapping[str, Any]) -> str:
    """The id of a session's night; of one that nobody gave an id, the name under which its raw
    results are kept, if it ran the whole nightly suite; else empty: it was run by hand."""
    info, tests = session["session_info"], tests_of(session)
    if given := info.get(NIGHT_KEY):
        return str(given)
    ran, promised, kept = set(), 0, ""
    for test in tests:
        is_ours = test.get("suite") == NIGHTLY and test.get("case_id")
        if is_ours and test["result"] not in UNFINISHED:
            ran.add(test["case_id"])
            promised = max(promised, test.get("promised", 0))
            kept = Path(test.get("kept") or "").parent.name or kept
    if not promised or len(ran) < promised:
        return ""
    began = night_id(datetime.fromtimestamp(info["time_start_unix"], tz=UTC))
    return kept if is_night_id(kept) else began
