"""Old data as a results database, and a past to be replayed; what is read in outputs of EPCC's
benchio, and what is refused: tests/data/README.md."""

import json
import os
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean, median

import jsonschema
import pytest
import reframe
from cases import case, changed
from refusals import refusals
from typer.testing import CliRunner

from iowatch import bless
from iowatch.bless import samples_of
from iowatch.cli import app
from iowatch.detector import backtest
from iowatch.files import UserError
from iowatch.history import read
from iowatch.importers import database as old_data
from iowatch.importers import epcc
from iowatch.importers.runs import Run
from iowatch.run import by_case as nights_by_case

DATA = Path(__file__).parents[1] / "data"
PLACE = "archer:fs3/gnu"
STATISTICS = ("max", "median", "mean", "min")
STRIPES = {
    "unstriped": "/stripe_count=1/stripe_size=1",
    "striped": "/stripe_count=4/stripe_size=1",
    "defstriped": "/stripe_count=4/stripe_size=8",
    "fullstriped": "/stripe_count=-1/stripe_size=1",
    "benchio_files": "",
}
WHERE = {"stripe_count": 4, "stripe_size": 1, "local_size": (8, 8, 8)}
HDF5 = case("SharedFileWrite", "old:fs3/gnu", **WHERE, writers=24)
NIGHT = datetime(2020, 6, 1, 3, tzinfo=UTC)
LOG = "{time:%FT%T%z}|reframe 3.1|Ior on old:fs3 using gnu|num_tasks=24|write={rate}|ref=0|MB/s\n"
OPTIONS = ["--case", str(HDF5).replace("=24", "={num_tasks}"), "--metric", "write"]


def run(hours=0.0, measured=HDF5, file="old.log", line=1, remark="", **metrics):
    return Run(measured, NIGHT + timedelta(hours=hours), metrics, Path(file), line, remark)


def iowatch(*words):
    """Exit code, stdout, stderr."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def database(tmp_path):
    """database(run, ...): a results database of these runs."""

    def write(*runs, name="old.sqlite"):
        old_data.write(runs, tmp_path / name)
        return tmp_path / name

    return write


def test_imported_runs_are_read_like_any_other_but_are_not_verified(database):
    metrics = {"total_max": 512.25, "ratio": 0.5, "finish_fraction": 0.125}
    file = database(run(**metrics, remark="verdict ok"), run(24, line=2))
    good, failed = read([file])
    assert (good.case, good.time, good.metrics) == (HDF5, NIGHT, metrics)
    assert (good.kind, failed.kind, failed.metrics) == ("imported", "invalid", {})
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


def test_runs_count_once_and_those_of_one_second_are_all_there(database):
    nights = [run(24 * day, total_max=1.0 + day) for day in range(3)]
    files = [database(*nights[:2]), database(*nights, name="later.sqlite")]
    assert [one.metrics["total_max"] for one in read(files)] == [1, 2, 3]
    file = database(run(total_max=1.0), run(total_max=2.0), name="second.sqlite")
    assert sorted(one.metrics["total_max"] for one in read([file])) == [1, 2]


def test_all_or_nothing(database, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"/nosuch/x.sqlite: cannot be written: No such file"):
        database(run(), name="nosuch/x.sqlite")
    file = database(run(total_max=1.0))
    before = file.read_bytes()
    with pytest.raises(UserError, match=r"old.sqlite: is there already: name a new file"):
        database(run())
    assert file.read_bytes() == before

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(old_data, "_report", full)
    with pytest.raises(UserError, match=r"new.sqlite: cannot be written: database or disk is f"):
        database(run(), name="new.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["old.sqlite"]


def log(folder, *rates, name="old.log", first=NIGHT):
    path = folder / name
    days = enumerate(rates)
    path.write_text(
        "".join(LOG.format(time=first + timedelta(days=d), rate=rate) for d, rate in days)
    )
    return path


def test_users_mistakes_are_one_line_and_leave_nothing(tmp_path, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\n")
    for name, text in {
        "other": "hello\n",
        "job.out": " Simple Parallel IO benchmark\n",
        "Built.log": "job_completion_time|result|case_id|verdict|\n2026-07-01T03:00:00|pass|null|"
        "null|\n",
    }.items():
        Path(name).write_text(text)
    for name in ("old.log", "copy.log"):
        log(tmp_path, 100, name=name)
    lines = []
    for files, options in (
        *((name, []) for name in ("Built.log", "nosuch.log", ".", "binary", "old.log")),
        *((names, OPTIONS) for names in ("old.log other", "old.log copy.log", "job.out")),
        *(("old.log", [*OPTIONS, "--stripes", stripes]) for stripes in ("a=1", "a=0x1")),
    ):
        code, out, err = iowatch("import", *files.split(), "--to", "new.sqlite", *options)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        lines.append(f"{' '.join([files, *options])}\n    {err}")
    golden("importers-mistakes.txt", "".join(lines))
    assert not Path("new.sqlite").exists()


def test_imported_nights_can_be_blessed_and_replayed(tmp_path):
    (tmp_path / "old.yaml").write_text("")
    new, table = tmp_path / "new.sqlite", tmp_path / "past.csv"
    rates = [1000 + 7 * (day % 5) for day in range(40)] + [300] * 20
    assert iowatch("import", log(tmp_path, *rates), "--to", new, *OPTIONS)[0] == 0
    options = ["--system", "old", "--why", "a test", "--folder", tmp_path, "--db", new]
    code, out, err = iowatch("bless", *options, "--to", "2020-06-25")
    assert code == 0, (out, err)
    (blessed,) = bless.read("old", tmp_path).values()
    assert blessed.bandwidth == pytest.approx(1014e6 / 2**20)
    table.write_text(iowatch("history", "--csv", "--db", new)[1])
    code, out, err = iowatch("backtest", table)
    assert (code, "1 alarm" in err, "1 persisted" in err) == (1, True, True), err
    verdicts = [json.loads(line)["verdict"] for line in out.splitlines()]
    # The first 30 are blessed. Later than 40: nobody has run the nights again.
    assert 45 <= 30 + verdicts.index("regression") <= 55


# The table for a replay.


def test_replay_has_the_runs_that_the_detector_had(database, tmp_path):
    """Imported runs of one day, in UTC, are a night and its re-runs; what failed is none."""
    mpiio = changed(HDF5, backend="mpiio")
    file = database(
        run(0, total_max=1 / 3, ratio=0.7, finish_fraction=0.1),
        run(20, total_max=500.0, ratio=0.71),
        run(24, line=2),
        run(48, total_max=600.0),
        run(8 * 24 + 20, total_max=700.0),
        *(run(24 * day, mpiio, total_max=900.0 + day) for day in (1, 2, 7)),
    )
    code, out, _ = iowatch("history", "--csv", "--db", file)
    assert code == 0
    table = tmp_path / "past.csv"
    table.write_text(out)
    replayed = backtest.read(table)
    for one, days in ((HDF5, (1, 3, 9)), (mpiio, (2, 3, 8))):
        nights = [night.night for night in replayed[str(one)].nights]
        assert nights == [f"2020-06-{day:02}" for day in days]

    for one, nights in nights_by_case(read([file])).items():
        kept = [samples_of(runs) for runs in nights.values() if samples_of(runs)]
        for past, expected in zip(replayed[str(one)].nights, kept, strict=True):
            given = [(run.best, run.finish_fraction) for run in past.samples]
            assert given == [(run.best, run.finish_fraction) for run in expected]
            ratios = [run.ratio for run in past.samples]
            assert ratios == pytest.approx([run.ratio for run in expected])
    assert len(replayed[str(HDF5)].nights[0].samples) == 2
    only = iowatch("history", "--csv", "--db", file, "--case", "=mpiio/")[1]
    assert [line.split(",")[1][-2:] for line in only.splitlines()[1:]] == ["02", "03", "08"]


# Outputs of EPCC's benchio


@pytest.fixture
def output(tmp_path):
    """output(text): the runs in an output of benchio with this text."""

    def write(text, stripes=STRIPES):
        path = tmp_path / "job.out"
        path.unlink(missing_ok=True)  # what is written over goes to the disk at once
        path.write_text(text)
        os.utime(path, (1.5e9, 1.5e9))
        return epcc.read(path, text, PLACE, stripes)

    return write


def sample(name):
    return (DATA / f"benchio-{name}.out").read_text()


@pytest.mark.parametrize("name", ["mib", "gib", "fpp"])
def test_runs_of_an_output(output, golden, name):
    """Ten rates of each library, rates in GiB/s, and folders striped in different ways."""
    text, lines = sample(name), []
    for run in output(text):
        assert run.time == datetime(2017, 7, 14, 2, 40, tzinfo=UTC), "of the file"
        (file,) = re.findall(r"Writing to (\S+)", text.splitlines()[run.line - 1])
        part = text.partition(f"Writing to {file}")[2].partition("Writing to")[0]
        factor = 1024 if name == "gib" else 1
        rates = [float(rate) * factor for rate in re.findall(r", rate = +(\S+)", part)]
        metrics = (max(rates), median(rates), fmean(rates), min(rates))
        assert tuple(run.metrics[f"total_{one}"] for one in STATISTICS) == metrics, file
        ratio = f", ratio {run.metrics['ratio']:.3f}" if "ratio" in run.metrics else ""
        lines.append(f"{file}: {run.case}: {len(rates)} rates{ratio}\n")
    golden(f"epcc-{name}.txt", "".join(lines))


@pytest.mark.parametrize("errors", ["error on rank", "HDF5-DIAG"])
def test_rate_of_a_failed_write_is_no_metric(output, errors):
    """Whichever rank says so, and when: after 'Finished', or in front of it."""
    text = sample("failed")
    assert text.count(", rate =") == 2
    other = {"error on rank": "HDF5-DIAG", "HDF5-DIAG": "error on rank"}[errors]
    text = "\n".join(line for line in text.splitlines() if other not in line) + "\n"
    runs = output(text)
    assert [(run.metrics, errors in run.remark) for run in runs] == [({}, True)] * 2
    runs = output(re.sub(f".*{errors}.*", "", text).partition("#000")[0])
    assert [bool(run.metrics) for run in runs] == [True] * 2, "it was for these lines"


def test_outputs_that_are_read_whole(output):
    mib, gib = sample("mib"), sample("gib")
    both = output("Job 7 begins\n" + mib + "Application resources: 3 s\n" + gib)
    assert len(both) == 4 + 18, "jobs after each other in one file"
    wrapped = mib.replace("       MiB/s", "\n MiB/s").replace(" , rate", "\n , rate")
    assert wrapped.count("\n") > 1.5 * mib.count("\n"), "lines of at most 80 columns"
    assert [run.metrics for run in output(wrapped)] == [run.metrics for run in output(mib)]
    assert len(output(mib.replace("netcdf.dat", "adios.dat "))) == 3, "what is not measured here"


#: What is replaced by what, in which output.
NOT_WHOLE = [
    ("mib", "Finished", ""),
    ("mib", r"(?s)Deleting: benchio_files/hdf5.*", ""),
    ("mib", r"rate =    314\.", "rate =    14."),
    ("gib", "GiB/s", "MiB/s"),
    ("mib", "MiB/s", "MB/s"),
    ("mib", r"maxrate = +\d", "maxrate = 9"),
    ("mib", r" time = .*314\..*\n", ""),
    ("mib", r"time =    1.59.*", "time =    1.59"),
    ("mib", r"time =    1.59.*rate.*", "rate = "),
    ("gib", r" time = .*33137.*\n", ""),
    ("gib", r" Writing to striped/hdf5.*\n", ""),
    ("mib", r"Running on.*", ""),
    ("mib", r"Array size is.*", "Array size is ("),
    ("mib", r"mpiio\.dat", "posix.dat"),
    ("mib", r"(?s)Serial.*", "\n Finished\n"),
    ("mib", r"(?s)^.*(?=Writing to benchio_files/hdf5)", ""),
    ("mib", "Finished", "Simple Parallel IO benchmark"),
]


def test_output_that_is_not_whole_is_refused(output, tmp_path, golden):
    def attempt(name, pattern, put):
        text = sample(name)
        changed = re.sub(pattern, put, text, count=name == "mib")
        assert changed != text, pattern
        output(changed)

    text = refusals(UserError, attempt, NOT_WHOLE)
    golden("importers-epcc.txt", text.replace(str(tmp_path), ""))


def test_cut_anywhere(output):
    """And a folder that is not described."""
    for name in ("mib", "gib"):
        text = sample(name)
        whole = text.index("Finished") + len("Finished")
        for end in range(text.index("benchmark") + len("benchmark"), len(text), 61):
            if end < whole:
                with pytest.raises(UserError):
                    output(text[:end])
            else:
                assert output(text[:end]), (name, end)
    with pytest.raises(UserError, match=r"job.out: say how fullstriped and striped is striped: "):
        output(text, {"unstriped": STRIPES["unstriped"]})
