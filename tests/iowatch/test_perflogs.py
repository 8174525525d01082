"""Performance logs made a results database again, a past to be replayed, and what is refused."""

import json
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
import reframe
from cases import case, changed
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import assert_refused
from typer.testing import CliRunner

from iowatch.base.files import UserError
from iowatch.cases.run import by_case as nights_by_case
from iowatch.cases.verdict import IMPORTED
from iowatch.cli import app
from iowatch.judge import backtest
from iowatch.judge.blessed import samples_of
from iowatch.past import perflogs
from iowatch.past.history import read
from iowatch.past.perflogs import ImportedRun

WHERE = {"stripe_count": 4, "stripe_size": 1, "local_size": (8, 8, 8)}
HDF5 = case("SharedFileWrite", "old:fs3/gnu", **WHERE, ranks=24)
NIGHT = datetime(2020, 6, 1, 3, tzinfo=UTC)


def run(hours=0.0, measured=HDF5, line=1, **metrics):
    return ImportedRun(
        case=measured,
        time=NIGHT + timedelta(hours=hours),
        metrics=metrics,
        file=Path("old.log"),
        line=line,
        state="ok",
    )


def iowatch(*words):
    """Exit code, stdout, stderr."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def database(tmp_path):
    """database(run, ...): a results database of these runs."""

    def write(*runs, name="old.sqlite"):
        perflogs.write(runs, tmp_path / name)
        return tmp_path / name

    return write


def test_imported_runs_are_read_like_any_other_but_are_not_verified(database):
    metrics = {"total_max": 512.25, "ratio": 0.5, "overhead_fraction": 0.125}
    file = database(run(**metrics), run(24, line=2))
    good, failed = read([file])
    assert (good.case, good.time, good.metrics) == (HDF5, NIGHT, metrics)
    assert (good.outcome, failed.metrics) == (IMPORTED, {})
    assert str(failed.outcome) == "failed (job_failed, imported)"
    assert good.sentence == "imported from old.log:1, state ok"
    assert failed.sentence == "imported from old.log:2, state ok"


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


def test_a_run_that_is_imported_twice_counts_once(database):
    nights = [run(24 * day, total_max=1.0 + day) for day in range(3)]
    files = [database(*nights[:2]), database(*nights, name="later.sqlite")]
    assert [one.metrics["total_max"] for one in read(files)] == [1, 2, 3]


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

    monkeypatch.setattr(perflogs, "_report", full)
    with pytest.raises(UserError, match=r"new.sqlite: cannot be written: database or disk is f"):
        database(run(), name="new.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["old.sqlite"]


def log(folder, *rates, name="old.log"):
    """A log of HDF5 with the rate of a night each, and no other metric."""
    days = ((NIGHT + timedelta(days=day), rate) for day, rate in enumerate(rates))
    lines = [
        line(HDF5, [rate if name == "total_max" else None for name in NAMES], time=f"{at:%FT%T%z}")
        for at, rate in days
    ]
    path = folder / name
    path.write_text("\n".join([header(*NAMES), *lines, ""]))
    return path


def test_users_mistakes_are_one_line_and_leave_nothing(tmp_path, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\n")
    for name, text in {
        "other": "job_completion_time|result|name|triad_value|\n2026-07-01T03:00:00|pass|a|1|\n",
        "Built.log": f"{header()}\n{NO_CASE}\n",
    }.items():
        Path(name).write_text(text)
    log(tmp_path, 100)
    lines = []
    for files in ("Built.log", "nosuch.log", ".", "binary", "old.log other"):
        code, out, err = iowatch("import", *files.split(), "--output", "new.sqlite")
        assert (code, out, err.count("\n")) == (2, "", 1), err
        lines.append(f"{files}\n    {err}")
    golden("imported-mistakes.txt", "".join(lines))
    assert not Path("new.sqlite").exists()


def test_a_run_that_stands_in_two_logs_is_imported_once(tmp_path):
    new, rates = tmp_path / "new.sqlite", [1000 + day for day in range(60)]
    logs = [log(tmp_path, *rates), log(tmp_path, *rates[:9], name="copy.log")]
    code, out, _ = iowatch("import", *logs, "--output", new)
    assert (code, out) == (0, f"{new}: 60 runs of 1 case, 2020-06-01 to 2020-07-30, 0 failed\n")
    assert [run.metrics["total_max"] for run in read([new])] == rates


# The table for a replay.


def test_replay_has_the_runs_that_the_detector_had(database, tmp_path):
    """Imported runs of one day, in UTC, are a night and its re-runs; what failed is none."""
    mpiio = changed(HDF5, backend="mpiio")
    file = database(
        run(0, total_max=1 / 3, ratio=0.7, overhead_fraction=0.1),
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
            given = [(run.best, run.overhead_fraction) for run in past.samples]
            assert given == [(run.best, run.overhead_fraction) for run in expected]
            ratios = [run.ratio for run in past.samples]
            assert ratios == pytest.approx([run.ratio for run in expected])
    assert len(replayed[str(HDF5)].nights[0].samples) == 2
    only = iowatch("history", "--csv", "--db", file, "--case", "=mpiio/")[1]
    assert [line.split(",")[1][-2:] for line in only.splitlines()[1:]] == ["02", "03", "08"]


# Lines of a log. The header has the metrics of the session's first test only.


@pytest.fixture
def british(monkeypatch):
    """Times without a time zone are of London: an hour ahead in summer."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "GMT0BST,M3.5.0/1,M10.5.0")
        time.tzset()
        yield
    time.tzset()


MPIIO = changed(HDF5, backend="mpiio")
NAMES = HDF5.metrics
VALUES = [100.1234567890123 + number for number in range(len(NAMES))]
NO_CASE = "2026-07-01T03:00:00|pass|null|null|"


def header(*names):
    columns = [f"{n}_{c}" for n in names for c in ("value", "lower_thres", "upper_thres")]
    return "|".join(["job_completion_time|result|case_id|state", *(columns or [""])])


def line(measured, metrics, state="ok", result="pass", time="2026-07-01T03:00:00"):
    columns = [f"{value}|-0.5|None" for value in metrics] or [""]
    return "|".join([time, result, str(measured), state, *columns])


def runs(*lines, end="\n"):
    return list(perflogs.read_log(Path("old.log"), "\n".join(lines) + end))


@pytest.mark.parametrize("first", [NAMES, NAMES[:-1], [*NAMES, "drift"], []])
def test_metrics_are_exact_under_any_header(first, british):
    control, library, judged, invalid, stopped = runs(
        header(*first),
        line(MPIIO, VALUES[:-1]),
        line(HDF5, VALUES, "regression", "fail"),
        line(HDF5, [*VALUES, -0.25], time="2026-12-02T03:00:00"),
        line(HDF5, [], "invalid", "fail"),
        line(HDF5, [], "null", "fail"),
    )
    assert NAMES[-1] == "ratio"
    assert control.metrics == dict(zip(NAMES[:-1], VALUES[:-1], strict=True))
    assert library.metrics == dict(zip(NAMES, VALUES, strict=True))
    assert judged.metrics == {**library.metrics, "drift": -0.25}
    assert invalid.metrics == stopped.metrics == {}
    assert library.case == HDF5
    assert (library.state, library.line) == ("regression", 3)
    assert library.time == datetime(2026, 7, 1, 2, tzinfo=UTC)
    assert judged.time == datetime(2026, 12, 2, 3, tzinfo=UTC)


@given(st.lists(st.floats(0, 1e12) | st.none(), min_size=10, max_size=10), st.integers(0, 999))
def test_what_a_log_says_comes_back(values, ost):
    """Metrics of OSTs are those of the header, and one that is none is left out."""
    slow_ost = case("SlowOst", stripe_size=1)
    names = [*slow_ost.metrics, f"ost_{ost}", f"ost_read_{ost}"]
    assume(values[names.index("total_max")] is not None)
    (run,) = runs(header(*names), line(slow_ost, values))
    known = dict(zip(names, values, strict=True))
    assert run.metrics == {name: value for name, value in known.items() if value is not None}


def test_check_without_a_case_is_no_run():
    assert runs(header(), NO_CASE) == []


WHOLE = line(HDF5, VALUES)
IN_ALL = 3 * len(NAMES)  # columns: a metric and its two thresholds
OF_ANOTHER = "truncated, or of another iowatch: {} columns of metrics, and not"
GARBLED = [
    (WHOLE.rpartition("|")[0], OF_ANOTHER.format(IN_ALL - 1)),
    (f"{WHOLE}|1", OF_ANOTHER.format(IN_ALL + 1)),
    ("2026-07-01T03:00:00|pa", "truncated: it ends in front of the metrics"),
    (line(HDF5, []), "truncated: the test has passed, but has no metrics"),
    (WHOLE.replace("100.", "1o0."), "'1o0.1234567890123' is no number"),
    (WHOLE.replace("100.1234567890123", "nan"), "'nan' is no number"),
    (WHOLE.replace("=hdf5", "=hdf6"), "'old:fs3/gnu/SharedFileWrite/backend=hdf6/"),
    (WHOLE.replace("2026-07", "2026-13"), "'2026-13-01T03:00:00' is no time"),
]


def test_garbled_line_is_named():
    def attempt(garbled):
        runs(header(*NAMES), WHOLE, garbled)

    wanted = [(garbled, rf"old\.log:3: {re.escape(why)}") for garbled, why in GARBLED]
    assert_refused(UserError, attempt, wanted)
    with pytest.raises(UserError, match=r"old.log:2: speed is no metric of this iowatch"):
        runs(header(*NAMES[:-1], "speed"), WHOLE)
    with pytest.raises(UserError, match=r"old.log:2: truncated: the line has no end"):
        runs(header(*NAMES), WHOLE, end="")
