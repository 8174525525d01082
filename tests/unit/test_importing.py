"""Old data as a results database, and a past to be replayed."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import jsonschema
import pytest
import reframe
from typer.testing import CliRunner

from iowatch import bless
from iowatch.bless import jobs_of
from iowatch.case import Case
from iowatch.cli import app
from iowatch.detector import backtest
from iowatch.history import by_night, read
from iowatch.importers import database as importing_module
from iowatch.importers.runs import ImportFailed, Run

HDF5 = Case("old", "fs3", "gnu", "write", "shared", "hdf5", 4, 1, (8, 8, 8), 24)
NIGHT = datetime(2020, 6, 1, 3, tzinfo=timezone.utc)
LOG = "{time:%FT%T%z}|reframe 3.1|Ior on old:fs3 using gnu|num_tasks=24|write={figure}|ref=0|MB/s\n"
OPTIONS = ["--case", str(HDF5).replace("=24", "={num_tasks}"), "--figure", "write"]


def run(hours=0.0, case=HDF5, file="old.log", line=1, remark="", **figures):
    return Run(case, NIGHT + timedelta(hours=hours), figures, Path(file), line, remark)


def iowatch(*words):
    """Exit code, stdout, stderr."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def database(tmp_path):
    """database(run, ...): a results database of these runs."""

    def write(*runs, name="old.sqlite"):
        importing_module.write(runs, tmp_path / name)
        return tmp_path / name

    return write


def test_imported_runs_are_read_like_any_other_but_are_not_verified(database):
    figures = {"total_max": 512.25, "ratio": 0.5, "close_fraction": 0.125}
    file = database(run(**figures, remark="verdict ok"), run(24, line=2))
    good, failed = read([file])
    assert (good.case, good.time, good.figures) == (HDF5, NIGHT, figures)
    assert (good.verdict, failed.verdict, failed.figures) == ("imported", "invalid", {})
    assert good.sentence == f"{HDF5}: imported from old.log:1, which says: verdict ok"
    assert failed.sentence == f"{HDF5}: imported from old.log:2"


def test_session_is_one_of_reframe(database):
    """By its own schema of reports; and its tables have each run."""
    file = database(run(total_max=1.0), run(1, line=2), run(30, line=3, total_max=2.0))
    schema = Path(reframe.__file__).with_name("schemas") / "runreport.json"
    with closing(sqlite3.connect(file)) as connection:
        blobs = connection.execute("SELECT json_blob FROM sessions").fetchall()
        query = "SELECT system, partition, environ, job_completion_time_unix, uuid FROM testcases"
        tests = connection.execute(query).fetchall()
    sessions = [json.loads(blob) for (blob,) in blobs]
    for session in sessions:
        jsonschema.validate(session, json.loads(schema.read_text()))
    assert [session["session_info"]["num_cases"] for session in sessions] == [2, 1]
    assert [session["session_info"]["num_failures"] for session in sessions] == [1, 0]
    results = [[test["result"] for test in s["runs"][0]["testcases"]] for s in sessions]
    assert results == [["pass", "fail"], ["pass"]]
    assert {test[:3] for test in tests} == {("old", "fs3", "gnu")}
    assert [test[3] - NIGHT.timestamp() for test in tests] == [0, 3600, 108000]
    assert len({test[4] for test in tests}) == 3


def test_runs_count_once_in_however_many_databases(database):
    nights = [run(24 * day, total_max=1.0 + day) for day in range(3)]
    files = [database(*nights[:2]), database(*nights, name="later.sqlite")]
    assert [record.figures["total_max"] for record in read(files)] == [1, 2, 3]


def test_runs_of_one_case_in_the_same_second_are_all_there(database):
    file = database(run(total_max=1.0), run(total_max=2.0))
    assert sorted(record.figures["total_max"] for record in read([file])) == [1, 2]


def test_all_or_nothing(database, tmp_path, monkeypatch):
    with pytest.raises(ImportFailed, match=r"/nosuch/x.sqlite: cannot be written: No such file"):
        database(run(), name="nosuch/x.sqlite")
    file = database(run(total_max=1.0))
    before = file.read_bytes()
    with pytest.raises(ImportFailed, match=r"old.sqlite: is there already: name a new file"):
        database(run())
    assert file.read_bytes() == before

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(importing_module, "_report", full)
    with pytest.raises(ImportFailed, match=r"new.sqlite: cannot be written: database or disk is f"):
        database(run(), name="new.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["old.sqlite"]


def log(folder, *figures, name="old.log", first=NIGHT):
    path = folder / name
    days = enumerate(figures)
    path.write_text("".join(LOG.format(time=first + timedelta(days=d), figure=f) for d, f in days))
    return path


def test_command_says_what_it_has_read(tmp_path):
    new = tmp_path / "new.sqlite"
    code, out, err = iowatch("import", log(tmp_path, 100, "None", 300), "--to", new, *OPTIONS)
    assert (code, err) == (0, "")
    assert out == f"{new}: 3 run(s) of 1 case(s), 2020-06-01 to 2020-06-03, 1 invalid\n"
    code, out, _ = iowatch("history", "--db", new)
    assert (code, out.splitlines()[-1]) == (0, "1 case(s)")
    assert out.splitlines()[1].split()[:6] == ["3", "2020-06-01", "2020-06-03", "0", "3", "1"]


def test_users_mistakes_are_one_line_and_leave_nothing(tmp_path):
    new, good = tmp_path / "new.sqlite", log(tmp_path, 100)
    binary, other = tmp_path / "binary", tmp_path / "other"
    binary.write_bytes(b"\xff\xfe\n")
    other.write_text("hello\n")
    copy = log(tmp_path, 100, name="copy.log")
    output = tmp_path / "job.out"
    output.write_text(" Simple Parallel IO benchmark\n")
    built = tmp_path / "BuiltBenchio.log"
    built.write_text(
        "job_completion_time|result|case_id|verdict|\n2026-07-01T03:00:00|pass|null|null|\n"
    )
    for files, options, said in (
        ([built], [], "error: there is no run of a case in these files"),
        ([tmp_path / "nosuch.log"], [], "nosuch.log: cannot be read: No such file or directory"),
        ([tmp_path], [], f"{tmp_path}: cannot be read: Is a directory"),
        ([binary], [], "binary: neither a performance log of ReFrame nor"),
        ([good, other], OPTIONS, "other: neither a performance log of ReFrame nor an output of"),
        ([good, copy], OPTIONS, "copy.log:1: is the same run as"),
        ([good], [], "old.log: of a test that is not iowatch's"),
        ([output], OPTIONS, "job.out: of benchio: say where it ran with --case SYSTEM:PARTITION/"),
        ([good], [*OPTIONS, "--stripes", "a=1"], "--stripes a=1: is not FOLDER=COUNTxSIZE such as"),
        ([good], [*OPTIONS, "--stripes", "a=0x1"], "--stripes a=0x1: is not FOLDER=COUNTxSIZE"),
    ):
        code, out, err = iowatch("import", *files, "--to", new, *options)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert err.startswith("iowatch: error: ")
        assert said in err
        assert not new.exists()


def test_imported_nights_can_be_blessed(tmp_path):
    (tmp_path / "old.yaml").write_text("")
    new = tmp_path / "new.sqlite"
    figures = [1000 + 7 * (day % 5) for day in range(25)]
    assert iowatch("import", log(tmp_path, *figures), "--to", new, *OPTIONS)[0] == 0
    options = ["--system", "old", "--why", "a test", "--folder", tmp_path, "--db", new]
    code, out, _ = iowatch("bless", *options)
    assert code == 0, out
    (blessed,) = bless.read("old", tmp_path).values()
    assert blessed.bandwidth == pytest.approx(1014e6 / 2**20)


# The table for a replay.


def test_replay_has_the_jobs_that_the_detector_had(database, tmp_path):
    """Re-runs belong to their night, past midnight too; what failed is no job."""
    mpiio = replace(HDF5, backend="mpiio")
    file = database(
        run(20, total_max=1 / 3, ratio=0.7, close_fraction=0.1),
        run(24, total_max=500.0, ratio=0.71),
        run(44, line=2),
        run(48, total_max=600.0),
        run(8 * 24 + 20, total_max=700.0),
        *(run(24 * day, mpiio, total_max=900.0 + day) for day in (1, 2, 7)),
    )
    code, out, _ = iowatch("history", "--csv", "--db", file)
    assert code == 0
    table = tmp_path / "past.csv"
    table.write_text(out)
    replayed = backtest.read(table)
    assert [night.night for night in replayed[str(HDF5)]] == [0, 1, 8]
    assert [night.night for night in replayed[str(mpiio)]] == [1, 2, 7]
    for case, nights in by_night(read([file])).items():
        for past, records in zip(replayed[str(case)], nights.values(), strict=True):
            jobs = jobs_of(records)
            assert [job.best for job in past.jobs] == [job.best for job in jobs]
            assert [job.close for job in past.jobs] == [job.close for job in jobs]
            assert [job.ratio for job in past.jobs] == pytest.approx([job.ratio for job in jobs])
    assert len(replayed[str(HDF5)][0].jobs) == 2
    only = iowatch("history", "--csv", "--db", file, "--case", "/mpiio/")[1]
    assert [line.split(",")[1] for line in only.splitlines()[1:]] == ["0", "1", "6"]


def test_replay_of_imported_nights(tmp_path):
    new, table = tmp_path / "new.sqlite", tmp_path / "past.csv"
    figures = [1000 + 7 * (day % 5) for day in range(40)] + [300] * 20
    assert iowatch("import", log(tmp_path, *figures), "--to", new, *OPTIONS)[0] == 0
    table.write_text(iowatch("history", "--csv", "--db", new)[1])
    code, out, err = iowatch("backtest", table)
    assert (code, "1 alarm(s)" in err, "1 persisted" in err) == (1, True, True), err
    first = next(json.loads(line) for line in out.splitlines() if '"regression"' in line)
    assert 45 <= first["night"] <= 55, "later than 40: nobody has run the nights again"


def test_nothing_to_replay_is_an_error(database):
    file = database(run())
    for options in ([], ["--case", "nosuch"]):
        code, _, err = iowatch("history", "--csv", "--db", file, *options)
        assert (code, err) == (2, "iowatch: error: no valid run in the results database matches\n")
