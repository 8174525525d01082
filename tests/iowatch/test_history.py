"""What a session of ReFrame says of its runs, and which night they belong to."""

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from cases import case, changed
from nights import BLESSED
from reported import FIXTURE, HDF5, MPIIO, reported, session, store
from typer.testing import CliRunner

from iowatch import cli, history, run_cache
from iowatch.files import UserError
from iowatch.history import runs_of
from iowatch.judge import by_past
from iowatch.night.gate import Known, night_of, on_record
from iowatch.references import Reference
from iowatch.run import by_case, day_of, night_id, nights_of
from iowatch.verdict import RED

# Runs


def only_run(**changes):
    (run,) = runs_of(session(FIXTURE, reported(HDF5, **changes)))
    return run


def test_verdict_is_the_check_s_if_reframe_agrees():
    why = {"fail_reason": "cannot copy\nresult.json"}
    because = f"{HDF5}: cannot copy result.json"
    expected = "its failure was expected, and its verdict is"
    said = [
        (("pass", "ok", "fine"), ("ok", "fine")),
        (("pass", "no_baseline", "none yet"), ("no_baseline", "none yet")),  # in record mode
        (("pass", "", ""), ("invalid", f"{HDF5}: measured but not judged")),
        (("skip", "", ""), ("invalid", f"{HDF5}: skip")),
        (("skip", "ok", ""), ("invalid", f"{HDF5}: skip")),
        (("skip", "not_measured", "away"), ("not_measured", "away")),
        (("skip", "left_out", "no ior"), ("left_out", "no ior")),
        (
            ("pass", "left_out", "no ior"),
            ("invalid", f"{HDF5}: passed, and its verdict is left_out"),
        ),
        (
            ("pass", "not_measured", "away"),
            ("invalid", f"{HDF5}: passed, and its verdict is not_measured"),
        ),
        (("xpass", "ok", ""), ("invalid", f"{HDF5}: passed, and ReFrame expects it to fail")),
        (("xfail", "defect", "slow"), ("defect", "slow")),
        (("xfail", "", ""), ("invalid", f"{HDF5}: measured but not judged")),
        *((("fail", kind, "slow"), (kind, "slow")) for kind in sorted(RED)),
        *((("fail", kind, ""), (kind, because)) for kind in sorted(RED)),
        *(
            (("pass", kind, ""), ("invalid", f"{HDF5}: passed with a red verdict, {kind}"))
            for kind in sorted(RED - {"no_baseline"})
        ),
        *(
            (("fail", kind, "fine"), ("invalid", because))
            for kind in (
                *("ok", "suspect", "noisy", "improvement", "transient", "", "nonsense"),
                "not_measured",
            )
        ),
        *(
            (("xfail", kind, "fine"), ("invalid", f"{HDF5}: {expected} {kind}"))
            for kind in ("invalid", "too_fast", "ok", "suspect", "no_baseline")
        ),
    ]
    for (result, verdict, sentence), wanted in said:
        reason = why if result == "fail" else {}
        run = only_run(result=result, verdict=verdict, sentence=sentence, **reason)
        assert (run.kind, run.sentence) == wanted, (result, verdict)
        green = [("pass", "ok"), ("pass", "no_baseline"), ("xfail", "defect")]
        green += [("skip", "left_out"), ("skip", "not_measured")]
        assert run.is_amber is ((result, verdict) == green[-1]), run
        assert not (run.kind.is_untried and run.metrics)
        assert run.is_red is ((result, verdict) not in green), run
        assert run.is_known is ((result, verdict) == ("xfail", "defect")), run


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
    assert not only_run(result="fail", verdict="too_fast").is_measured, "of a cache"


def test_what_is_no_run_of_a_case():
    old = "local:tmpfs/gnu/write/shared/hdf5/-/-/64x64x64/4"
    others = [FIXTURE, reported(HDF5, case_id=""), reported(HDF5, case_id=old)]
    unfinished = [reported(MPIIO, result=result) for result in ("abort", "<unknown>")]
    assert [run.case for run in runs_of(session(*others, *unfinished, reported(HDF5)))] == [HDF5]


def test_job_that_was_queued_as_its_session_was_stopped_was_not_measured():
    """One whose job had begun, or that nobody knows why it never was submitted, is no run."""
    stopped = {"result": "abort", "verdict": "", "perfvalues": {}, "job_submit_time": 1.0}
    waits = reported(HDF5, **stopped, queued="job 7 had no nodes yet (Priority)")
    behind = reported(MPIIO, **{**stopped, "job_submit_time": None})
    began = reported(changed(HDF5, writers=8), **stopped, queued="")
    elsewhere = {**behind, "partition": "other"}
    said = [(run.case, run.kind, run.sentence) for run in runs_of(session(waits, behind, began))]
    queue = "job 7 had no nodes yet (Priority)"
    assert said == [
        (HDF5, "not_measured",
         f"{HDF5}: its job was still queued when the session was ended: {queue}"),
        (MPIIO, "not_measured",
         f"{MPIIO}: its turn had not come when the session was ended: before it, {queue}"),
    ]  # fmt: skip
    assert list(runs_of(session(behind, began))) == []
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
    runs = runs_in(*month, *evening, nightly(24, 1, rate=100.0, verdict="suspect"))
    healthy, last = runs[-2:]
    assert timedelta(0) < last.time - healthy.time < timedelta(hours=20)
    baseline = {
        "bandwidth": 1000.0, "ratio": None, "ratio_spread": None, "finish_fraction": None,
        "first": min(r.night for r in runs if r.night), "blessed": FIRST.date(),
        "last": night_id(after(-48)),
    }  # fmt: skip
    entry = type(BLESSED)(**{**vars(BLESSED), **baseline})
    nights = by_case(runs)[HDF5]
    earlier = [own for night, own in nights.items() if night < last.night]
    past = by_past(earlier, (), entry, last.time, last.metrics, {})
    assert (past.verdict.kind, past.verdict.runs) == ("suspect", 1), "as the check judges it"
    assert past.verdict.sentence.startswith("bandwidth is 90% below its baseline")
    (row,) = night_of("local", last.night, runs, Known({HDF5: entry}), NOW).cases
    assert (row.runs, row.metrics["total_max"]) == ([last], 100.0)
    assert (row.kind, row.rerun_at) == ("suspect", last.time + timedelta(hours=4))


def test_nights_that_alternate_in_queueing_do_not_melt_into_one():
    both = (HDF5, MPIIO)
    sessions = [
        nightly(24 * n, *((23, 0.5) if n % 2 else (0.5, 23)), of=both, rate=1000.0 + n)
        for n in range(10)
    ]
    runs = runs_in(*sessions)
    for of in both:
        assert list(hours_of(runs, of)) == ids(*(24 * n for n in range(10))), of
        for number, night in enumerate(by_case(runs)[of].values()):
            assert [run.metrics["total_max"] for run in night] == [1000.0 + number], (of, number)
    for number, night in enumerate(nights_of(runs)):
        found = on_record("local", night, runs, Known(), NOW)
        assert {row.case for row in found.cases} == set(both), number
        assert all(len(row.runs) == 1 and len(row.earlier) == number for row in found.cases)


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
    early, late = after(2 + 1 / 30), after(26 - 1 / 30)
    first, second = night_id(early), night_id(late)
    assert day_of(first) == day_of(second)
    sessions = [
        session(reported(HDF5, time, rate), uuid=str(rate), began=time, night=night_id(time))
        for time, rate in ((early, 1000.0), (late, 500.0))
    ]
    runs = runs_in(*sessions)
    assert [len(night) for night in by_case(runs)[HDF5].values()] == [1, 1]
    names = f"2 nights of local began on 2026-03-03: name one of {first}, {second}"
    with pytest.raises(UserError, match=f"^{names}$"):
        on_record("local", "2026-03-03", runs, Known(), NOW)
    for night, rate in ((first, 1000), (second, 500)):
        (row,) = on_record("local", night, runs, Known(), NOW).cases
        assert (row.night, row.metrics["total_max"]) == (night, rate)
    assert on_record("local", "", runs, Known(), NOW).id == second

    store(tmp_path / "results.db", *sessions)
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    def report(night):
        words = ["--system", "local", "--db", str(tmp_path / "results.db"), "--night", night]
        return CliRunner().invoke(cli.app, ["report", *words])

    done = report("2026-03-03")
    assert (done.exit_code, done.stderr) == (2, f"iowatch: error: {names}\n")
    assert [report(night).stdout for night in (first, second)] == [
        f"{tmp_path}/record-local-{night}.html\n" for night in (first, second)
    ]


def test_clock_that_was_set_back():
    usual = [nightly(24 * n, 1) for n in range(3)]
    future = nightly(24 * 365, 1, rate=100.0)
    runs = runs_in(*usual, future)
    now = after(50)
    found = on_record("local", "", runs, Known(), now)
    assert (found.id, found.cases[0].metrics["total_max"]) == (ids(48)[0], 0.5)
    assert found.notes == [
        "1 run is on record with a time later than now: a clock was wrong, and what it dated does "
        "not count"
    ]
    assert night_of("local", ids(48)[0], runs, Known(), now).notes == found.notes
    (ahead,) = ids(24 * 365)
    assert (found.later, on_record("local", ahead, runs, Known(), now).id) == (ahead, ahead)
    with pytest.raises(UserError, match=f"later than now: .*: name one, the last is {ahead}$"):
        on_record("local", "", runs_in(future), Known(), now)

    set_back = nightly(24 * 200, -24 * 199, rate=100.0)  # while its first job ran
    runs = runs_in(*usual, set_back)
    assert runs[1].time < now
    assert on_record("local", "", runs, Known(), now).id == ids(48)[0]
    assert on_record("local", "", runs, Known(), now).notes == found.notes
    (row,) = night_of("local", ids(24 * 200)[0], runs, Known(), now).cases
    assert (row.metrics["total_max"], len(row.earlier)) == (100.0, 3), "its own night judges it"

    night = ids(48)[0]
    earlier_than_its_night = nightly(46, 0.5, night=night)  # two hours back
    assert hours_of(runs_in(*usual, earlier_than_its_night)) == {
        **{other: [24 * n + 1] for n, other in enumerate(ids(0, 24))}, night: [46.5, 49],
    }  # fmt: skip
    (row,) = on_record("local", night, runs_in(*usual, earlier_than_its_night), Known(), now).cases
    assert (len(row.runs), len(row.earlier)) == (2, 2)


def test_session_that_nobody_gave_an_id():
    both, began, other = (HDF5, MPIIO), ids(0)[0], "2026-03-01T220000"
    acceptance = {"sweep": "acceptance"}
    broken = nightly(0, 1, 2, of=both, night="", result="fail", verdict="invalid")
    stopped = nightly(0, 1, 2, of=both, night="")
    stopped["runs"][0]["testcases"][1]["result"] = "abort"
    mixed = session(reported(HDF5), reported(MPIIO, **acceptance), began=FIRST)
    twice = session(reported(HDF5), reported(HDF5), began=FIRST)
    versions = case("LibraryVersions")
    nights = [
        ("the whole sweep, from cron", nightly(0, 1, 2, of=both, night=""), began),
        ("the whole sweep, though nothing went well", broken, began),
        ("more than the sweep", nightly(0, 1, 2, 3, of=(*both, versions), night=""), began),
        ("a part of it", nightly(0, 1, night=""), ""),
        ("one case twice", twice, ""),
        ("the whole, but cut off", stopped, ""),
        ("of two sweeps", mixed, ""),
        ("another sweep", nightly(0, 1, 2, of=both, night="", **acceptance), ""),
        ("that another sweep was given", nightly(0, 1, 2, of=both, **acceptance), began),
        ("a part that was given one", nightly(0, 1, night=other), other),
    ]
    for what, made, night in nights:
        runs = runs_in(made)
        assert runs, what
        assert {run.night for run in runs} == {night}, what
        assert nights_of(runs) == ({night: runs} if night else {}), what
        (nights, *_) = by_case(runs).values()
        assert list(nights) == ([night] if night else []), what


def test_hand_run_is_on_record_and_no_part_of_a_night(tmp_path, monkeypatch):
    other = changed(HDF5, backend="netcdf")
    by_hand = nightly(26, 1, 1, of=(HDF5, other), night="", rate=9.0, promised=3)
    runs = runs_in(nightly(0, 1), nightly(24, 1), by_hand)
    assert hours_of(runs) == {night: [24 * n + 1] for n, night in enumerate(ids(0, 24))}
    found = on_record("local", "", runs, Known(), NOW)
    assert ([row.case for row in found.cases], found.id) == ([HDF5], ids(24)[0])
    monkeypatch.setattr(cli.earlier, "selected", lambda db, pattern: runs)
    lines = CliRunner().invoke(cli.app, ["history"]).stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:3]] == [
        ["2", "2026-03-02", "2026-03-03", "3", "1"],
        ["0", "2026-03-04", "2026-03-04", "1", "1"],
    ]
    with pytest.raises(
        UserError, match=r"^no night of system local is on record, only what was run by hand"
    ):
        on_record("local", "", runs_in(by_hand), Known(), NOW)


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
    database = tmp_path / "results.db"
    met = {"conditions": {"hosts": "n1 n2"}, "slowest": {"write": "rank 3"}, "control": {"open": 1}}
    bound = {"perfvalues": {"local:tmpfs:ratio": [0.5, 1.0, -0.6, None, "1", "pass"]}}
    store(database, nightly(0, 1, **met, **bound), nightly(24, 1, sweep="acceptance"))
    first = history.read([database])
    assert {(run.of_contract, *run.references) for run in first} == {(False, "ratio"), (True,)}
    decoded = []
    monkeypatch.setattr(history, "runs_of", lambda session: decoded.append(session) or [])
    notes = []
    assert history.read([database], notes=notes) == first
    assert (decoded, notes) == ([], [])


def test_runs_in_brief_that_cannot_be_used_are_a_note(tmp_path):
    database, brief = tmp_path / "results.db", tmp_path / "results.db.runs"
    store(database, nightly(0, 1))
    brief.mkdir()
    notes = []
    assert len(history.read([database], notes=notes)) == 1
    slowly = "the nights before are decoded again, slowly"
    assert notes == [f"{brief}: cannot be used: unable to open database file: {slowly}"]
    brief.rmdir()
    brief.write_text("no database at all " * 99)
    for wanted in (
        [f"{brief}: is damaged (file is not a database) and is made anew: {slowly}"],
        [],
    ):
        notes = []
        assert len(history.read([database], notes=notes)) == 1
        assert notes == wanted


def test_broken_program_is_not_taken_for_a_file_that_cannot_be_used(tmp_path, monkeypatch):
    database = tmp_path / "results.db"
    store(database, nightly(0, 1))
    monkeypatch.setattr(run_cache, "_TABLES", run_cache._TABLES.replace(", runs TEXT", ""))
    with pytest.raises(sqlite3.OperationalError, match="no such column: runs"):
        history.read([database])


def test_raw_results_are_found_where_they_were_moved_to(tmp_path, monkeypatch):
    """With the database, or to where the site has its results now."""
    old, new, site = (tmp_path / name for name in ("old", "new", "site"))
    monkeypatch.setenv("RFM_PREFIX", str(site))
    run = "runs/2026-03-01T010000/a,case"

    def folder():
        (found,) = history.read([database])
        return found.folder

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


def test_table_without_a_match_prints_nothing_but_the_error(monkeypatch):
    monkeypatch.setattr(cli.earlier, "selected", lambda db, pattern: [])
    done = CliRunner().invoke(cli.app, ["history", "--csv"])
    error = "iowatch: error: no valid run in the results database matches\n"
    assert (done.exit_code, done.output) == (2, error)
