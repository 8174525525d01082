"""The history that ReFrame's own results database holds, as the real ReFrame writes it."""

import gc
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from checks.replay import sessions, store

from iowatch.base.files import UserError
from iowatch.past import history
from iowatch.past.history import read
from iowatch.past.reframe_database import clear_empty

CASE = "small:memory/{}/SharedFileWrite/backend={}/local_size=8x8x8/ranks=2"


@pytest.fixture
def database(night, tmp_path):
    """A copy of the night that was stored: two libraries, fine and broken, and the versions."""
    return Path(shutil.copy(night, tmp_path / "results.db"))


def test_runs_of_a_session_are_read(database):
    """At first from ReFrame's database, then in brief from beside it."""
    for _ in range(2):
        found = {str(run.case): run for run in read([database])}
        assert len(found) == 6
        fine, broken = (found[CASE.format(name, "hdf5")] for name in ("fine", "broken"))
        versions = found["small:memory/fine/LibraryVersions"]
        assert [str(run.outcome) for run in (fine, broken, versions)] == [
            "ok",
            "failed (no_output)",
            "ok",
        ]
        assert fine.metrics["total_max"] > 0
        assert fine.provenance["hosts"]
        assert fine.control["close"] > 0, "of MPI-IO in the same rounds"
        assert dict(found[CASE.format("fine", "mpiio")].control) == {}
        assert (broken.metrics, dict(broken.provenance), versions.metrics) == ({}, {}, {})
        assert "not readable JSON" in broken.sentence
        assert {run.night for run in found.values()} == {fine.night}
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d{6}", fine.night)


@pytest.mark.long
def test_a_place_with_a_new_name_keeps_its_past(site):
    """A check goes by it, too, and whoever claims a name that is there is told so in a line."""
    site.write["backend"] = ["mpiio"]
    assert site.reframe("-r", "--mode=record").returncode == 0
    site.partitions = {"disk": {"extras": {"filesystem": "disk", "formerly": ["memory"]}}}
    bound = "{total_max: [1.0e+9, -0.1, null, MiB/s]}"
    site.references = f"general: {{}}\nSharedFileWrite:\n  small:memory/.*: {bound}\n"
    judged = site.reframe("-r").stdout
    if site.report()[0]["reason"] == "node_busy" and os.geteuid() != 0:
        pytest.skip("other work keeps this node busy, and only root can hide that")
    assert re.search(r"1e\+09|1000000000", judged)
    listed = site._run("iowatch", "history", "--case", "=mpiio/", "--json").stdout
    (case,) = json.loads(listed)["cases"]
    assert (case["case"].partition("/")[0], case["runs"]) == ("small:disk", 2)
    site.partitions["memory"] = {}
    refused = "formerly has small:memory/real for small:disk/real, and both are there now"
    done = site.reframe("-r")
    assert done.returncode != 0
    assert refused in done.stdout


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def execute(statement):
    def change(path):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    return change


def foreign(path):
    """Somebody else's: not to be removed, though it has no session."""
    path.unlink()
    execute("CREATE TABLE mine (a)")(path)


SPOILED = [
    (truncate, "damaged, or no SQLite database"),
    (lambda path: path.write_text("results\n" * 99), "damaged, or no SQLite database"),
    (Path.unlink, "there is no such results database: name one with --db"),
    (execute("DROP TABLE sessions"), r"not a results database of ReFrame \(no such table"),
    (execute("DROP TABLE metadata"), r"not a results database of ReFrame \(no such table"),
    (lambda path: foreign(path), r"not a results database of ReFrame \(no such table"),
    (execute("UPDATE metadata SET schema_version = '9.0'"), "its schema is version 9.0"),
    (execute("DELETE FROM metadata"), "its schema is version none"),
    (execute("UPDATE sessions SET json_blob = '{'"), "session [-0-9a-f]+ is damaged"),
    (execute("UPDATE sessions SET json_blob = '{}'"), "session [-0-9a-f]+ is damaged"),
    (execute("UPDATE sessions SET json_blob = NULL"), "session [-0-9a-f]+ is damaged"),
    (execute("UPDATE sessions SET session_start_unix = 'x'"), "session [-0-9a-f]+ is damaged"),
    *(
        (
            execute(f"UPDATE sessions SET json_blob = replace(json_blob, '{old}', '{new}')"),
            "session [-0-9a-f]+ is damaged",
        )
        for old, new in (('"perfvalues": {', '"perfvalues": 5, "x": {'), ('"result": ', '"y": '))
    ),
]


def test_what_is_no_database_of_reframe_is_named(night, tmp_path):
    for number, (spoil, sentence) in enumerate(SPOILED):
        database = Path(shutil.copy(night, tmp_path / f"{number}.db"))
        spoil(database)
        with pytest.raises(UserError, match=f"^{database}: {sentence}") as told:
            read([database])
        assert gc.isenabled(), sentence
        advice = ("--db", f"`mv {database} {database}.damaged`", "`reframe --delete-stored-session")
        assert any(command in str(told.value) for command in advice), "what to do"
        if database.exists():
            with suppress(UserError):
                clear_empty(database)
            assert database.exists(), "what is there is kept"


def test_broken_program_is_not_taken_for_a_session_that_is_damaged(database, monkeypatch):
    monkeypatch.setattr(history, "read_metrics", lambda perfvalues: perfvalues.no_such_name)
    with pytest.raises(AttributeError, match="no_such_name"):
        read([database])


def test_session_that_is_damaged_goes_as_the_message_says(site, night, tmp_path):
    database = Path(shutil.copy(night, tmp_path / "results.db"))
    store(database, 1)
    execute("UPDATE sessions SET json_blob = '{' WHERE rowid = 1")(database)
    with pytest.raises(UserError) as told:
        read([database])
    (command,) = re.findall("`(.*)`", str(told.value))
    site.environment["RFM_SQLITE_DB_FILE"] = str(database)
    done = site._run(*command.split())
    assert done.returncode == 0, done.stdout
    assert len(read([database])) == 6


def without_sessions(path):
    execute("DELETE FROM testcases")(path)
    execute("DELETE FROM sessions")(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        without_sessions,
        lambda path: (without_sessions(path), execute("DROP TABLE metadata")(path)),
        lambda path: (without_sessions(path), execute("DELETE FROM metadata")(path)),
        lambda path: (path.unlink(), execute("CREATE TABLE sessions(uuid TEXT)")(path)),
    ],
)
def test_database_in_which_nothing_was_ever_stored_is_no_past(database, spoil):
    """A full disk cut ReFrame off while it made the tables."""
    assert not clear_empty(database)
    spoil(database)
    assert read([database]) == []
    assert clear_empty(database)
    assert not database.exists()


def test_runs_in_brief_may_be_damaged_old_or_of_sessions_that_are_gone(database):
    expected = read([database])
    brief = database.with_name("results.db.runs")
    spoils = [
        Path.unlink,
        truncate,
        lambda path: path.write_text("runs\n" * 999),
        execute("UPDATE form SET digest = 'of another iowatch'"),
        execute("UPDATE contents SET runs = 'garbled'"),
    ]
    for number, spoil in enumerate(spoils):
        assert brief.exists(), number
        spoil(brief)
        assert read([database]) == expected, number
        assert read([database]) == expected, number
    store(database, 1)
    assert len(read([database])) == 2 * len(expected)
    execute(f"DELETE FROM sessions WHERE uuid = '{sessions(database)[0]}'")(database)
    assert len(read([database])) == len(expected)
    assert not {run.session for run in read([database])} & {run.session for run in expected}
