"""What a session of ReFrame says of its runs, and which night they belong to."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from attrs import evolve
from cases import case, changed, outcome_of
from nights import BLESSED, judged
from reported import FIXTURE, HDF5, MPIIO, reported, session, store
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.cases.metric import Reference
from iowatch.cases.run import by_case, day_of, night_id, nights_of
from iowatch.cases.verdict import JOB_FAILED, Flag
from iowatch.judge.judge import by_past
from iowatch.night.gate import night_of
from iowatch.night.on_record import night_on_record
from iowatch.night.record import SystemRecord
from iowatch.past import history, run_cache
from iowatch.past.history import runs_of

BOTH = (HDF5, MPIIO)

# Runs


def only_run(**changes):
    (run,) = runs_of(session(FIXTURE, reported(HDF5, **changes)))
    return run


#: Of these the check's own word counts; the last is amber, the one before known.
TRUSTED = (
    *(("pass", "ok"), ("pass", "unjudged (no_reference)")),  # the latter in record mode
    *(
        ("skip", "skipped (not_installed)"),
        ("xfail", "regression (slow_library)"),
        ("skip", "unjudged (maintenance)"),
    ),
)
NEVER_EXCUSED = ("failed (io_error)", "failed (corrupt)", "failed (above_ceiling)")
FAULTS = (*NEVER_EXCUSED, "regression (own_past)", "regression (absolute_bound)")
UNREFERENCED = "unjudged (no_reference)"
UNJUDGED, BECAUSE = "measured but not judged", "cannot copy result.json"
NOT_EXPECTED = "its failure was expected, and its verdict is"
MISTRUSTED = [
    ("pass", "", UNJUDGED),
    ("xfail", "", UNJUDGED),
    ("skip", "", "skip"),
    ("skip", "ok", "skip"),
    ("xpass", "ok", "passed, and ReFrame expects it to fail"),
    *(
        ("pass", kind, f"passed, and its verdict is {kind}")
        for kind in ("skipped (not_installed)", "unjudged (maintenance)")
    ),
    *(("pass", kind, f"passed with a red verdict, {kind}") for kind in FAULTS),
    *(("fail", kind, BECAUSE) for kind in ("ok", "suspect (own_past)", "ok (low_sensitivity)")),
    *(("fail", kind, BECAUSE) for kind in ("improvement (reference)", "ok (resolved)")),
    *(("fail", kind, BECAUSE) for kind in ("", "unjudged (maintenance)")),
    *(("xfail", kind, f"{NOT_EXPECTED} {kind}") for kind in ("ok", *NEVER_EXCUSED)),
    *(("xfail", kind, f"{NOT_EXPECTED} {kind}") for kind in ("suspect (own_past)", UNREFERENCED)),
]


def test_verdict_is_the_check_s_if_reframe_agrees():
    why = {"fail_reason": "cannot copy\nresult.json"}
    for result, verdict in (*TRUSTED, *(("fail", kind) for kind in (*FAULTS, UNREFERENCED))):
        run = only_run(result=result, verdict=verdict, sentence="so it is")
        known = outcome_of(verdict).flagged(Flag.KNOWN)
        assert run.outcome == (known if result == "xfail" else outcome_of(verdict))
        assert run.sentence == "so it is"
        assert run.is_red is (result == "fail")
        assert not (run.outcome.is_untried and run.metrics)
    for result, verdict, message in MISTRUSTED:
        reason = why if result == "fail" else {}
        run = only_run(result=result, verdict=verdict, sentence="fine", **reason)
        told = JOB_FAILED, message
        assert (run.outcome, run.sentence) == told, (result, verdict)
    assert only_run(state="nonsense", result="fail", **why).outcome == JOB_FAILED
    for kind in FAULTS:
        run = only_run(result="fail", verdict=kind, sentence="", **why)
        assert (str(run.outcome), run.sentence) == (kind, BECAUSE)


def test_metrics_and_bounds_are_numbers():
    values = {"total_max": [900.0, 1000.0, -0.2, None], "ratio": [1.1, 1, None, None]}
    values |= {"close_s": [None, 0], "sync_s": [float("nan"), 0], "write_s": [float("inf"), 0]}
    values["data_median"] = [-5.0, 0]
    run = only_run(perfvalues={f"local:tmpfs:{name}": value for name, value in values.items()})
    assert run.metrics == {"total_max": 900, "ratio": 1.1}
    assert run.references == {"total_max": Reference(1000, -0.2, None)}
    assert run.is_measured
    assert not only_run(perfvalues={}).is_measured
    assert not only_run(perfvalues=None).is_measured, "of a job that was killed"
    assert not only_run(result="fail", verdict="failed (above_ceiling)").is_measured, "of a cache"


def test_what_is_no_run_of_a_case():
    old = "local:tmpfs/gnu/write/shared/hdf5/-/-/64x64x64/4"
    others = [FIXTURE, reported(HDF5, case_id=""), reported(HDF5, case_id=old)]
    unfinished = [reported(MPIIO, result=result) for result in ("abort", "<unknown>")]
    assert [run.case for run in runs_of(session(*others, *unfinished, reported(HDF5)))] == [HDF5]


def test_job_that_was_queued_as_its_session_was_stopped_was_not_measured():
    """One whose job had begun, or that nobody knows why it never was submitted, is no run."""
    stopped = {"result": "abort", "verdict": "", "perfvalues": {}, "job_submit_time": 1.0}
    queue = "job 7 had no nodes"
    waits = reported(HDF5, **stopped, queued=queue)
    behind = reported(MPIIO, **{**stopped, "job_submit_time": None})
    began = reported(changed(HDF5, ranks=8), **stopped, queued="")
    runs = list(runs_of(session(waits, behind, began)))
    assert [(run.case, str(run.outcome)) for run in runs] == [
        (of, "unjudged (queued)") for of in BOTH
    ]
    assert "its job had not ended" in runs[0].sentence
    assert "its turn had not come" in runs[1].sentence
    assert all(run.sentence.endswith(queue) for run in runs)
    assert list(runs_of(session(behind, began))) == []
    elsewhere = {**behind, "partition": "other"}
    assert [run.case for run in runs_of(session(waits, elsewhere))] == [HDF5]


# Nights

FIRST = datetime(2026, 3, 2, 22, tzinfo=UTC)
NOW = FIRST + timedelta(days=30)


def after(hours):
    return FIRST + timedelta(hours=hours)


def nightly(began, *ends, of=(HDF5,), night=None, rate=None, **changes):
    """A session of a night that began so many hours after the first; each of its cases ended so
    many hours after that."""
    tests = [
        reported(one, after(began + hours), rate, **changes)
        for one, hours in zip(of, ends, strict=True)
    ]
    night = night_id(after(began)) if night is None else night
    return session(*tests, uuid=f"{began} {night}", began=after(began), night=night)


def runs_in(*sessions):
    """As reading a database has them: in the order of time."""
    runs = [run for each in sessions for run in runs_of(each)]
    return sorted(runs, key=lambda run: run.time)


def shown(night, runs, now=NOW):
    return night_on_record(SystemRecord(system="local", runs=runs, now=now), night)


def hours_of(runs, of=HDF5):
    """The runs of each night of a case, as hours after the first."""
    nights = by_case(runs)[of]
    return {n: [(r.time - FIRST) / timedelta(hours=1) for r in runs] for n, runs in nights.items()}


def ids(*hours):
    return [night_id(after(each)) for each in hours]


@pytest.mark.parametrize("before", ["another night", "a hand run", "both"])
def test_slow_night_is_not_well_because_a_run_of_the_evening_before_was(before):
    month = [nightly(24 * n - 24 * 30, 1, rate=1000.0) for n in range(29)]
    by_hand = nightly(20, 0.5, night="", rate=1000.0)
    late = nightly(0, 19, rate=1000.0)
    evening = {"another night": [late], "a hand run": [by_hand], "both": [late, by_hand]}[before]
    runs = runs_in(*month, *evening, nightly(24, 1, rate=100.0, verdict="suspect (own_past)"))
    last = runs[-1]
    assert timedelta(0) < last.time - runs[-2].time < timedelta(hours=20)
    entry = evolve(
        BLESSED, bandwidth=1000.0, ratio=None, ratio_spread=None, overhead_fraction=None,
        first=ids(-24 * 30)[0], last=ids(-48)[0], blessed=FIRST.date(),
    )  # fmt: skip
    nights = by_case(runs)[HDF5]
    earlier = [runs_then for night, runs_then in nights.items() if night < last.night]
    past = by_past(last.case.check, earlier, (), entry, last.time, last.metrics, {})
    assert (str(past.verdict.outcome), past.verdict.runs) == ("suspect (own_past)", 1), (
        "as the check judges it"
    )
    assert past.verdict.sentence.startswith("bandwidth is 90% below its baseline")
    known = {HDF5: entry}
    record = SystemRecord(system="local", runs=judged(runs, known), now=NOW, blessed=known)
    (row,) = night_of(record, last.night).cases
    (last,) = row.runs
    assert (last.time, row.metrics["total_max"]) == (runs[-1].time, 100.0)
    assert (str(row.outcome), row.rerun_at) == (
        "suspect (own_past)",
        last.time + timedelta(hours=4),
    )


def test_time_of_day_decides_nothing():
    over_midnight = [nightly(0, 1), nightly(0, 5, night=ids(0)[0])]
    assert hours_of(runs_in(*over_midnight)) == {ids(0)[0]: [1, 5]}
    assert day_of(ids(0)[0]) == FIRST.date()
    long = [nightly(0, 30), nightly(24, 0.5), nightly(0, 34, night=ids(0)[0])]
    assert hours_of(runs_in(*long)) == {ids(0)[0]: [30, 34], ids(24)[0]: [24.5]}
    assert list(by_case(runs_in(*reversed(long)))[HDF5]) == ids(0, 24)
    elsewhere = datetime(2026, 3, 3, 1, tzinfo=timezone(timedelta(hours=3)))
    assert night_id(elsewhere) == "2026-03-02T220000"


def test_of_two_nights_in_one_day_each_is_one(tmp_path, monkeypatch):
    # The first begins two minutes after midnight, the second two minutes before the next.
    rates = dict(zip(ids(2 + 1 / 30, 26 - 1 / 30), (1000.0, 500.0), strict=True))
    first, second = rates
    assert day_of(first) == day_of(second)
    sessions = [nightly(2 + 1 / 30, 0, rate=1000.0), nightly(26 - 1 / 30, 0, rate=500.0)]
    runs = runs_in(*sessions)
    assert [len(night) for night in by_case(runs)[HDF5].values()] == [1, 1]
    names = f"2 nights of local began on 2026-03-03: name one of {first}, {second}"
    with pytest.raises(UserError, match=f"^{names}$"):
        shown("2026-03-03", runs)
    for night, rate in rates.items():
        (row,) = shown(night, runs).cases
        assert (row.night, row.metrics["total_max"]) == (night, rate)
    assert shown("", runs).id == second

    store(tmp_path / "results.db", *sessions)
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    words = ["report", "--system", "local", "--db", str(tmp_path / "results.db"), "--night"]
    done = CliRunner().invoke(cli.app, [*words, first])
    assert done.stdout == f"{tmp_path}/record-local-{first}.html\n"


def test_clock_that_was_set_back():
    usual, now = [nightly(24 * n, 1) for n in range(3)], after(50)
    last, ahead = ids(48, 24 * 365)
    future = nightly(24 * 365, 1, rate=100.0)
    set_back = nightly(24 * 200, -24 * 199, rate=100.0)  # while its first job ran
    for wrong in (future, set_back):
        runs = runs_in(*usual, wrong)
        night = shown("", runs, now)
        assert (night.id, night.cases[0].metrics["total_max"]) == (last, 0.5)
        (note,) = night.notes
        assert note.startswith("1 run is on record with a time later than now: ")
        record = SystemRecord(system="local", runs=runs, now=now)
        assert night_of(record, last).notes == [note]
    assert runs[1].time < now
    (row,) = night_of(record, ids(24 * 200)[0]).cases
    assert (row.metrics["total_max"], len(row.earlier)) == (100.0, 3), "its own night judges it"

    runs = runs_in(*usual, future)
    assert (shown("", runs, now).later, shown(ahead, runs, now).id) == (ahead, ahead)
    with pytest.raises(UserError, match=f"later than now: .*: name one, the last is {ahead}$"):
        shown("", runs_in(future), now)

    two_hours_back = nightly(46, 0.5, night=last)
    runs = runs_in(*usual, two_hours_back)
    before = {other: [24 * n + 1] for n, other in enumerate(ids(0, 24))}
    assert hours_of(runs) == {**before, last: [46.5, 49]}
    (row,) = shown(last, runs, now).cases
    assert (len(row.runs), len(row.earlier)) == (2, 2)


def test_session_that_nobody_gave_an_id():
    began, other = ids(0)[0], "2026-03-01T220000"
    three = (*BOTH, case("LibraryVersions"))
    acceptance = {"suite": "acceptance"}
    stopped = nightly(0, 1, 2, of=BOTH, night="")
    stopped["runs"][0]["testcases"][1]["result"] = "abort"
    mixed = session(reported(HDF5), reported(MPIIO, **acceptance), began=FIRST)
    twice = session(reported(HDF5), reported(HDF5), began=FIRST)
    broken = {"result": "fail", "verdict": "failed (io_error)"}
    for what, made, night in (
        ("the whole suite, from cron", nightly(0, 1, 2, of=BOTH, night=""), began),
        ("and nothing went well", nightly(0, 1, 2, of=BOTH, night="", **broken), began),
        ("more than the suite", nightly(0, 1, 2, 3, of=three, night=""), began),
        ("a part of it", nightly(0, 1, night=""), ""),
        ("one case twice", twice, ""),
        ("the whole, but cut off", stopped, ""),
        ("of two suites", mixed, ""),
        ("another suite", nightly(0, 1, 2, of=BOTH, night="", **acceptance), ""),
        ("that another suite was given", nightly(0, 1, 2, of=BOTH, **acceptance), began),
        ("a part that was given one", nightly(0, 1, night=other), other),
    ):
        runs = runs_in(made)
        assert {run.night for run in runs} == {night}, what
        assert nights_of(runs) == ({night: runs} if night else {}), what
        (nights, *_) = by_case(runs).values()
        assert list(nights) == ([night] if night else []), what


def test_hand_run_is_on_record_and_no_part_of_a_night(monkeypatch):
    netcdf = changed(HDF5, backend="netcdf")
    by_hand = nightly(26, 1, 1, of=(HDF5, netcdf), night="", rate=9.0, promised=3)
    runs = runs_in(nightly(0, 1), nightly(24, 1), by_hand)
    assert hours_of(runs) == {night: [24 * n + 1] for n, night in enumerate(ids(0, 24))}
    night = shown("", runs)
    assert ([row.case for row in night.cases], night.id) == ([HDF5], ids(24)[0])
    with pytest.raises(UserError, match=r"^no night of system local .*, only what was run by hand"):
        shown("", runs_in(by_hand))
    monkeypatch.setattr(cli.reading, "selected", lambda db, case, since: runs)
    lines = CliRunner().invoke(cli.app, ["history"]).stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:3]] == [
        ["2", "2026-03-02", "2026-03-03", "3", "1"],
        ["0", "2026-03-04", "2026-03-04", "1", "1"],
    ]


# Databases


def test_databases_are_read_and_one_session_in_two_of_them_counts_once(tmp_path):
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    store(first, nightly(0, 1), nightly(24, 1))
    store(second, nightly(24, 1), nightly(48, 1))
    for again in ("decoded", "in brief"):
        assert hours_of(history.read([second, first])) == {
            night: [24 * n + 1] for n, night in enumerate(ids(0, 24, 48))
        }, again
    since = history.read([first, second], since=after(30), spans=[(after(-1), after(1))])
    assert list(hours_of(since)) == ids(0, 48)


def test_session_is_decoded_once(tmp_path, monkeypatch):
    database, notes = tmp_path / "results.db", []
    met = {"provenance": {"hosts": "n1 n2"}, "slowest": {"write": "rank 3"}, "control": {"open": 1}}
    bound = {"perfvalues": {"local:tmpfs:ratio": [0.5, 1.0, -0.6, None, "1", "pass"]}}
    night = nightly(0, 1, **met, **bound)
    night["session_info"]["promise"] = "2-5e"
    store(database, night, nightly(24, 1, suite="acceptance"))
    first = history.read([database])
    assert {(run.of_contract, *run.references) for run in first} == {(False, "ratio"), (True,)}
    assert {run.promise is None for run in first} == {False, True}
    monkeypatch.setattr(history, "runs_of", lambda session: pytest.fail("it is decoded again"))
    assert history.read([database], notes=notes) == first
    assert notes == []


def by_another_iowatch(brief):
    sql(brief, "UPDATE form SET digest = 'old'")


def of_another_form(brief):
    brief.unlink()
    sql(brief, "CREATE TABLE form (digest TEXT); CREATE TABLE sessions (uuid TEXT, runs TEXT);"
        "CREATE INDEX by_uuid ON sessions (uuid); ANALYZE")  # fmt: skip


def with_a_trigger(brief):
    refuse = "BEGIN SELECT RAISE(ABORT, 'no'); END; DELETE FROM sessions"
    sql(brief, f"CREATE TRIGGER refuses BEFORE INSERT ON contents {refuse}")


def link_to_the_database(brief):
    brief.unlink()
    brief.symlink_to("results.db")


def second_name_of_the_database(brief):
    brief.unlink()
    brief.hardlink_to(brief.with_name("results.db"))


def a_pipe(brief):
    brief.unlink()
    os.mkfifo(brief)


def a_folder(brief):
    brief.unlink()
    brief.mkdir()


SLOWLY = "the nights before are decoded again, slowly"
FOREIGN = "and no cache of iowatch's: move it away"
#: What stands where the cache should, and what is said of it; empty: nothing, it is made anew.
INSTEAD = {
    "nothing": (Path.unlink, ""),
    "an empty file": (lambda brief: brief.write_bytes(b""), ""),
    "of another iowatch": (by_another_iowatch, ""),
    "of another form": (of_another_form, ""),
    "with a trigger": (with_a_trigger, ""),
    "a folder": (a_folder, f"is no regular file, {FOREIGN}"),
    "a pipe": (a_pipe, f"is no regular file, {FOREIGN}"),
    "the database, by a link": (link_to_the_database, f"is the results database, {FOREIGN}"),
    "the database itself": (second_name_of_the_database, f"is the results database, {FOREIGN}"),
    "a copy of the database": (
        lambda brief: shutil.copy(brief.with_name("results.db"), brief),
        f"is another database, {FOREIGN}",
    ),
    "a text": (
        lambda brief: brief.write_text("no database at all " * 99),
        "is damaged (file is not a database) and is made anew",
    ),
    "what cannot be decoded": (
        lambda brief: sql(brief, "UPDATE contents SET runs = CAST(x'ff' AS TEXT)"),
        "is damaged (session 0 2026-03-02T220000 is not as it was kept) and is made anew",
    ),
    "other types": (
        lambda brief: sql(brief, "UPDATE contents SET runs = NULL; UPDATE sessions SET content=1"),
        "is damaged (session 0 2026-03-02T220000 is not as it was kept) and is made anew",
    ),
}


def sql(file, statements):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(statements)


@pytest.mark.parametrize("instead", INSTEAD)
def test_whatever_stands_in_the_place_of_the_cache_costs_time_alone(tmp_path, instead):
    database, brief = tmp_path / "results.db", tmp_path / "results.db.runs"
    store(database, nightly(0, 1))
    assert len(history.read([database])) == 1
    before, (put, why) = database.read_bytes(), INSTEAD[instead]
    put(brief)
    for again in (False, True):
        notes = []
        assert len(history.read([database], notes=notes)) == 1
        is_told = why and not (again and "made anew" in why)
        assert notes == ([f"{brief}: {why}: {SLOWLY}"] if is_told else [])
        assert database.read_bytes() == before


def test_cache_that_may_not_be_read_or_written_costs_time_alone(monkeypatch):
    """Of a user who is not root, who may do all."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        database, brief = Path(folder, "results.db"), Path(folder, "results.db.runs")
        Path(folder).chmod(0o755)
        monkeypatch.setenv("RFM_PREFIX", folder)  # this checkout may be in root's home
        store(database, nightly(0, 1))
        history.read([database])
        for mode, told in ((0, ["cannot be used: unable to open database file"]), (0o444, [])):
            brief.chmod(mode)
            notes = []
            try:
                os.seteuid(65534 if user == 0 else user)
                assert len(history.read([database], notes=notes)) == 1
            finally:
                os.seteuid(user)
            assert notes == [f"{brief}: {why}: {SLOWLY}" for why in told]


def test_broken_program_is_not_taken_for_a_file_that_cannot_be_used(tmp_path, monkeypatch):
    database = tmp_path / "results.db"
    store(database, nightly(0, 1))
    tables = {"sessions": "CREATE TABLE sessions (uuid TEXT)"}
    monkeypatch.setattr(run_cache, "_TABLES", run_cache._TABLES | tables)
    with pytest.raises(sqlite3.OperationalError, match="no such column: row"):
        history.read([database])


def test_raw_results_are_found_where_they_were_moved_to(tmp_path, monkeypatch):
    """With the database, or to where the site has its results now."""
    old, new, site = (tmp_path / name for name in ("old", "new", "site"))
    monkeypatch.setenv("RFM_PREFIX", str(site))
    run = "runs/2026-03-01T010000/a,case"

    def folder():
        (run,) = history.read([database])
        return run.folder

    for prefix in (old, site):
        (prefix / run).mkdir(parents=True)
    new.mkdir()
    database = old / "results.db"
    store(database, nightly(0, 1, kept=f"{old}/{run}"))
    assert folder() == f"{old}/{run}", "it is there still"
    database = database.rename(new / "results.db")
    (old / "runs").rename(new / "runs")
    for _ in range(2):  # decoded, and in brief
        assert folder() == f"{new}/{run}"
    monkeypatch.chdir(tmp_path)
    database = Path("new/results.db")
    assert folder() == f"{new}/{run}"
    (new / "runs").rename(tmp_path / "archive")
    assert folder() == f"{site}/{run}", "where the site has its results"
    (site / "runs").rename(site / "gone")
    assert folder() == f"{old}/{run}", "nobody knows better"
