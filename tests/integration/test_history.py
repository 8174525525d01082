"""The history that ReFrame's own results database holds, as the real ReFrame writes it."""

import gc
import shutil
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest
from integration.sessions import store

from iowatch.history import HistoryError, by_night, read

CASE = "small:memory/{}/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2"


@pytest.fixture
def database(night, tmp_path):
    """A copy of the night that was stored."""
    return Path(shutil.copy(night, tmp_path / "results.db"))


def test_runs_of_a_session_are_read(database):
    records = read([database])
    found = {str(record.case): record for record in records}
    assert set(found) == {CASE.format("fine"), CASE.format("broken")}, "no fixture, no versions"
    fine, broken = found[CASE.format("fine")], found[CASE.format("broken")]
    assert (fine.verdict, broken.verdict) == ("ok", "invalid")
    assert fine.figures["total_max"] > 0
    assert fine.conditions["hosts"]
    assert (broken.figures, broken.conditions) == ({}, {})
    assert "not readable JSON" in broken.sentence


def test_nights_have_the_day_of_their_first_run_and_databases_add_up(database, tmp_path):
    for days in (1, 1, 5):
        store(database, days)
    other = tmp_path / "other.db"
    shutil.copy(database, other)
    store(other, 7)
    cases = by_night(read([database, other]))
    assert len(cases) == 2
    for nights in cases.values():
        first = min(nights)
        assert sorted(nights) == [first + timedelta(days) for days in (0, 1, 5, 7)]
        assert [len(nights[night]) for night in sorted(nights)] == [1, 2, 1, 1]


def test_test_of_another_suite_and_timed_out_job_are_no_figures(database):
    store(database, 1, case_id="another suite's")
    store(database, 2, verdict="", result="fail", perfvalues={})
    cases = by_night(read([database]))
    assert {len(nights) for nights in cases.values()} == {2}
    for nights in cases.values():
        (record,) = nights[max(nights)]
        assert (record.verdict, record.figures) == ("invalid", {})


def test_what_was_too_fast_is_no_past(database):
    store(database, 1, verdict="too_fast", result="fail")
    for nights in by_night(read([database])).values():
        (record,) = nights[max(nights)]
        assert (record.verdict, record.figures) == ("too_fast", {})


def test_numbers_that_only_python_has_in_json_spoil_nothing(database):
    store(database, 1, case_id="another suite's", upper=float("inf"))
    store(database, 2, num_tasks=float("nan"))
    assert len(read([database])) == 4


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def execute(statement):
    def change(path):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    return change


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (truncate, "damaged, or no SQLite database"),
        (lambda path: path.write_text("results\n" * 99), "damaged, or no SQLite database"),
        (Path.unlink, "there is no such results database: name one with --db"),
        (lambda path: path.write_bytes(b""), "not a results database of ReFrame: no such table"),
        (execute("DROP TABLE sessions"), "not a results database of ReFrame: no such table"),
        (execute("UPDATE metadata SET schema_version = '9.0'"), "its schema is version 9.0"),
        (execute("DELETE FROM metadata"), "its schema is version none"),
        (execute("UPDATE sessions SET json_blob = '{'"), "session [-0-9a-f]+ is damaged"),
        (execute("UPDATE sessions SET json_blob = '{}'"), "session [-0-9a-f]+ is damaged"),
        (execute("UPDATE sessions SET json_blob = NULL"), "session [-0-9a-f]+ is damaged"),
    ],
)
def test_what_is_no_database_of_reframe_is_named(database, spoil, sentence):
    spoil(database)
    with pytest.raises(HistoryError, match=f"^{database}: {sentence}"):
        read([database])
    assert gc.isenabled()


def test_command_lists_cases_nights_and_gaps(database, site):
    store(database, 3)
    site.environment["RFM_SQLITE_DB_FILE"] = str(database)
    done = site._run("iowatch", "history")
    assert done.returncode == 0, done.stdout
    header, broken, fine, total = done.stdout.splitlines()
    assert header.split()[:4] == ["nights", "first", "last", "gaps"]
    first = date.fromisoformat(fine.split()[1])
    assert fine.split()[:6] == ["2", str(first), str(first + timedelta(3)), "2", "2", "0"]
    assert fine.endswith(CASE.format("fine"))
    assert broken.split()[5] == "2", "invalid runs"
    assert total == "2 case(s)"
    assert site._run("iowatch", "history", "--case", "/fine/").stdout.endswith("1 case(s)\n")
    site.environment["RFM_SQLITE_DB_FILE"] = "/nowhere/results.db"
    done = site._run("iowatch", "history")
    assert (done.returncode, len(done.stdout.splitlines())) == (2, 1)
    assert done.stdout.startswith("iowatch: error: /nowhere/results.db: there is no such")
