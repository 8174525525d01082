"""Reading the history never costs ReFrame a night, nor ReFrame's storing the reader."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillReading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from reported import BEGAN, HDF5, MPIIO, of_night, reported, store

from iowatch.base.files import UserError
from iowatch.past import history, reframe_database
from iowatch.past.history import read

NOBODY = 65534
BRIEF = "results.db.runs"  # what has been read
CASES = 2


def python(*words):
    return [sys.executable, *map(str, words)]


def others(database):
    """The files beside it."""
    return {path.name for path in database.parent.iterdir()} - {database.name}


def put(database, *nights, wait_s=60):
    """Store these nights, as ReFrame does, which waits so long for a lock."""
    for number in nights:
        began = BEGAN + timedelta(days=number)
        tests = [reported(of, began) for of in (HDF5, MPIIO)]
        store(database, of_night(began, *tests), wait_s=wait_s)


@pytest.fixture
def database(tmp_path):
    """Three nights of two cases."""
    put(tmp_path / "db/results.db", 0, 1, 2)
    return tmp_path / "db/results.db"


@pytest.fixture
def in_the_middle(monkeypatch):
    """in_the_middle(action): done once, when a read has a session and others are still to come."""

    def set_up(action):
        actions = [action]

        def decode(text):
            if actions:
                actions.pop()()
            return json.loads(text)

        monkeypatch.setattr(history, "decoded", decode)

    return set_up


def test_a_session_is_stored_while_others_are_read(database, in_the_middle):
    in_the_middle(lambda: put(database, 3, wait_s=0))
    assert len(read([database])) == 3 * CASES
    assert len(read([database])) == 4 * CASES


def test_session_that_is_deleted_meanwhile_is_not_missed(database, in_the_middle):
    def delete():
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("DELETE FROM sessions WHERE rowid = 3")

    in_the_middle(delete)
    assert len(read([database])) == 2 * CASES


def test_reading_changes_nothing(database):
    before = database.read_bytes()
    for _ in range(2):
        assert len(read([database])) == 3 * CASES
        assert database.read_bytes() == before
        assert others(database) == {BRIEF}


HANG = """
import sys, time
from pathlib import Path
from iowatch.past import history, reframe_database
def hang(text):
    print("in the middle", flush=True)
    time.sleep(600)
history.decoded = hang
history.read([Path(sys.argv[1])])
"""


def test_killed_reader_leaves_nothing_behind(database):
    before = database.read_bytes()
    words = python("-c", HANG, database)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout.readline() == "in the middle\n"
        finally:
            reader.kill()
    assert database.read_bytes() == before
    assert others(database) <= {BRIEF, f"{BRIEF}-journal"}, "which the next reader undoes"
    put(database, 3, wait_s=0)
    assert len(read([database])) == 4 * CASES


def begin(database):
    """A writer that has stored one more session, but not yet to the end."""
    writer = sqlite3.connect(database)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute(
        "INSERT INTO sessions SELECT 'another', session_start_unix, session_end_unix, json_blob, ''"
        " FROM sessions WHERE rowid = 1"
    )
    return writer


def test_read_that_begins_while_a_session_is_stored_waits_for_it(database):
    with closing(begin(database)) as writer, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, [database])
        with pytest.raises(StillReading):
            reading.result(0.3)
        writer.commit()
        assert len(reading.result(60)) == 4 * CASES


def test_database_that_stays_locked_is_said_to_be(database, monkeypatch):
    monkeypatch.setattr(reframe_database, "LOCKED_S", 0.1)
    with (
        closing(begin(database)),
        pytest.raises(UserError, match=r"results.db: still locked after 0.1 s"),
    ):
        read([database])


CUT_OFF = """
import os, signal, sqlite3, sys
writer = sqlite3.connect(sys.argv[1])
writer.execute("PRAGMA cache_size = 2")
writer.execute("INSERT INTO sessions VALUES ('cut off', 0, 0, hex(zeroblob(1000000)), '')")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def cut_off(database):
    """The database after ReFrame was killed in the middle of storing a session."""
    done = subprocess.run(python("-c", CUT_OFF, database))
    assert done.returncode == -signal.SIGKILL
    assert database.with_name("results.db-journal").stat().st_size > 0
    return database


def test_session_whose_storing_was_cut_off_is_none(cut_off):
    assert len(read([cut_off])) == 3 * CASES
    assert not cut_off.with_name("results.db-journal").exists()
    put(cut_off, 3)
    assert len(read([cut_off])) == 4 * CASES


def test_session_that_was_cut_off_and_may_not_be_undone_is_said_to_be(cut_off, monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        database = cut_off.parent.rename(Path(folder) / "db") / cut_off.name
        Path(folder).chmod(0o755)
        monkeypatch.setenv("RFM_PREFIX", folder)  # this checkout may be in root's home
        database.chmod(0o444)
        user = os.geteuid()
        try:
            if user == 0:  # who may write any file
                os.seteuid(NOBODY)
            with pytest.raises(UserError, match=r"results.db: the storing of a session was cut"):
                read([database])
        finally:
            os.seteuid(user)
