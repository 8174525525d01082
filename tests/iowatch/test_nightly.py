"""A night as a whole, with stand-ins for its sessions."""

import itertools
import json
import re
import shutil
import signal
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from attrs import evolve
from cases import PLACE
from clock import NOW
from nights import BLESSED
from refusals import assert_refused
from reported import HDF5, MPIIO, forget, of_night, reported, session, store
from shown import prometheus

from iowatch.base.files import UserError
from iowatch.cases.filesystem import SUITES
from iowatch.cases.run import Promise, day_of, night_id
from iowatch.judge import bless
from iowatch.night import aftermath, gate, nightly
from iowatch.night.nightly import NothingDue
from iowatch.night.on_record import month, nights, read
from iowatch.night.record import SystemRecord
from iowatch.night.session import EndedSession, ignore_signals, interruptible
from iowatch.night.wanted import Wanted, read_duration
from iowatch.pages import report
from iowatch.pages.report import html as drawn
from iowatch.past import words
from iowatch.past.words import GateRecord
from iowatch.site.site import Site

FUTURE = NOW + timedelta(days=1)
SEVERE = {"verdict": "regression (own_past)", "result": "fail"}
LOW = reported(HDF5, NOW - timedelta(minutes=1), 300.0, verdict="suspect (own_past)", promised=1)


def before(**ago):
    return NOW - timedelta(**ago)


def ended(*tests, began=NOW, uuid="", **how):
    """How a session ends that has measured this; without tests HDF5 is well."""
    tests = tests or [reported(HDF5, before(minutes=1), promised=1)]
    return EndedSession(report=session(*tests, uuid=uuid, began=began), **how)


WELL = ended()
NOTHING = EndedSession(status=1, error="ERROR: no such check")


class OneCase(Site):
    """A site whose suites are HDF5 alone."""

    def cases(self, suite):
        return {HDF5}


@pytest.fixture
def database(tmp_path):
    return tmp_path / "results" / "results.db"


@pytest.fixture
def run(monkeypatch, tmp_path, database):
    """run(Session..., system=...): a night of a site whose sessions end so; without any, well.

    They store their reports unless `stores` is false, after what happens `meanwhile`. In run.given
    are the options and the night that each was given.
    """
    place = evolve(PLACE, name="tmpfs", path="/x", cached_reads=True, keep_days=30)
    promises = dict.fromkeys(SUITES, Promise(1, "5e"))
    begun = map(night_id, (before(minutes=9, seconds=-n) for n in itertools.count()))
    numbers = itertools.count()
    monkeypatch.setattr(nightly, "read_site", lambda system: run.site)
    monkeypatch.setattr(nightly, "ignore_signals", lambda: None)  # pytest wants its Ctrl-C
    monkeypatch.setattr(nightly, "night_id", lambda now: next(begun))  # none twice in a second
    monkeypatch.setattr(report, "html", report.markdown)  # a page takes long to draw
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    (tmp_path / "local.yaml").write_text("general: {}\n")
    (tmp_path / "baselines").mkdir()

    def run(*ends, stores=True, says_night=True, meanwhile=lambda: None, system="local", **wanted):
        run.given, left = [], list(ends or [WELL])

        def run_session(options, night, deadline, follow, locks):
            if night:  # a hand run has none
                *options, extras = options
                assert extras == f"--session-extras=night={night},promise=1-5e"
            run.given.append((options, night))
            end = left.pop(0)
            meanwhile()
            if end.report is None:
                return end
            info = {**end.report["session_info"]}
            info["uuid"] = info["uuid"] or f"session {next(numbers)}"
            info |= {"night": night} if says_night and night else {}
            end = replace(end, report={**end.report, "session_info": info})
            if stores:
                store(database, end.report)
            return end

        monkeypatch.setattr(nightly, "run_session", run_session)
        return nightly.run(Wanted(system=system, **wanted), report.write_page)

    run.site = OneCase(
        system="local", filesystems=(place,), is_whole=True, prefix=tmp_path, stage=tmp_path,
        database=database, promises=promises,
    )  # fmt: skip
    return run


def on_record(database, runs=()):
    """The record of the system, beside a database."""
    return SystemRecord(system="local", databases=[database], runs=runs, now=FUTURE)


def later(database):
    """The last night, as page, text, index and export have it."""
    return read("local", [database])


def test_green_night(run, database):
    night = run()
    anew = f"{database} was not there: history begins anew with this night"
    assert (night.colour, night.problems, night.notes, night.signal) == ("green", [], [anew], 0)
    assert [row.case for row in night.cases] == [HDF5]
    assert run.given == [(["--system", "local", "--timestamp=nightly"], night.id)]
    assert timedelta(0) <= NOW.date() - day_of(night.id) <= timedelta(days=1)
    assert night.page == database.parent / f"report-local-{night.id}.html"
    assert "history begins anew" in night.page.read_text()
    assert run().notes == []
    database.write_bytes(b"")
    shutil.rmtree(database.parent / words.FOLDER)
    night = run()
    assert (night.problems, night.notes) == ([], [anew.replace(
        "was not there", "was empty, as a full disk leaves it"
    )])  # fmt: skip


def test_night_says_what_it_will_do_and_how_long_that_usually_takes(run, database, capsys, golden):
    """By whole nights alone, without their re-runs; --quiet says nothing."""
    texts = []

    def says(title, **wanted):
        run(stores=False, **wanted)
        text = re.sub(r"[\d-]+T\d{6}", "NIGHT", capsys.readouterr().out)
        texts.append(f"# {title}\n{text}")

    def night(number, minutes, *tests, hours=0):
        began = before(days=number)
        last = began + timedelta(minutes=minutes, hours=hours)
        return of_night(began, *tests or [reported(HDF5, last)], uuid=f"{number} {hours}")

    says("the first")
    long_ago, half = night(40, 500), night(3, 2, reported(MPIIO, NOW))
    store(database, long_ago, half, night(2, 7), night(2, 0, hours=8), night(1, 5))
    says("after nights of 5 and 7 minutes")
    says("--name", names=["hdf5"])
    says("--quiet", quiet=True)
    says("a server is killed", suite="acceptance", death="tmpfs:server")
    store(database, *(night(0.1 * n, 150) for n in range(2, 9)))
    says("after nights of two hours and a half")
    golden("announced.txt", "".join(texts))


def test_options_that_reframe_gets(run):
    """The site's own mode for a suite: it may allow longer jobs, too."""
    for wanted, options in (
        ({"suite": "acceptance"}, ["--mode=acceptance"]),
        ({"record": True}, ["--timestamp=nightly", "--setvar=record=1"]),
        ({"suite": "acceptance", "record": True}, ["--mode=acceptance", "--setvar=record=1"]),
        ({"names": ["hdf5", "/a1"]}, ["--name=hdf5", "--name=/a1", "--timestamp=nightly"]),
        ({"options": ["-J", "qos=io"]}, ["--timestamp=nightly", "-J", "qos=io"]),
    ):
        run(stores=False, **wanted)
        assert run.given[0][0] == ["--system", "local", *options]


def test_what_was_measured_otherwise_is_noted_wherever_the_night_is_shown(run, database):
    run(options=["-S", "repeats=1"])
    assert later(database).notes[-1] == "ReFrame was also given: -S repeats=1"


class TwoCases(OneCase):
    """A site whose suites have MPI-IO besides."""

    def cases(self, suite):
        return {HDF5, MPIIO}


def test_part_of_the_suite_is_a_hand_run_and_never_red_for_the_rest(run, database):
    """It is no night, later too: neither a gap in the past nor the last night."""
    run()
    last = later(database).id
    two = TwoCases(**{**vars(run.site), "promises": dict.fromkeys(SUITES, Promise(2, "5e"))})
    half = ended(reported(HDF5, before(minutes=1), promised=2))
    part = ended(*(reported(case, before(minutes=1), promised=0) for case in (HDF5, MPIIO)))
    for end, wanted in ((half, {"names": ["hdf5"]}), (part, {"system": "local:tmpfs"})):
        run.site = replace(two, is_whole=end is half)
        night = run(end, **wanted)
        assert (night.colour, night.problems, night.is_by_hand) == ("green", [], True)
        assert night.page.name == f"hand-local-{night.id}.html"
        record = SystemRecord.load("local", [database])
        assert next(listed.id for listed in nights(record) if listed.is_by_hand) == night.id
        assert read("local", [database], night.id).is_by_hand
        assert night.summary.headline.status.endswith(", run by hand"), (
            "nobody is to take it for a night"
        )
        assert [given for _, given in run.given] == [""]
    assert later(database).id == last
    run.site = two
    assert run(EndedSession(report=session()), names=["x"]).problems == [
        "--name matches none of the cases"
    ]


def test_what_cannot_go_well_is_refused_before_any_job(run, database, tmp_path):
    """Each run would be verified, and then fail for want of a reference, or of its past."""
    file = tmp_path / "local.yaml"
    for spoil, message in (
        (file.unlink, f"^{file} cannot be used as reference values: there is no such file: "),
        (lambda: file.write_text("general: ["), f"^{file}: line 1: while pars"),
    ):
        spoil()
        with pytest.raises(UserError, match=message):
            run()
        assert run.given == []
        run(suite="acceptance", stores=False)
        assert len(run.given) == 1, "that goes by its contract"
    file.write_text("general: {}\n")
    for folder in ("expected_failures", "maintenance", "events", "user_outputs"):
        broken = tmp_path / folder / "local.yaml"
        broken.parent.mkdir()
        broken.write_text("- at: once\n")
        with pytest.raises(UserError, match=f"^{broken}, entry 1: "):
            run()
        assert run.given == []
        if folder == "events":
            assert SystemRecord.load("local", []).events == (), "no verdict depends on them"
        broken.unlink()
    bless.write("local", tmp_path, {HDF5: BLESSED})
    baselines = tmp_path / "baselines" / "local.yaml"
    baselines.write_text(baselines.read_text().replace("tmpfs", "scratch"))
    with pytest.raises(UserError, match="was changed since it was blessed"):
        run()
    baselines.unlink()
    database.write_text("no database\n" * 99)
    with pytest.raises(UserError, match=r"results.db: damaged, .* begin anew with `mv "):
        run()
    assert run.given == []


def test_green_report_is_not_enough(run, database, tmp_path):
    missing = f"1 of 1 case was not run: {HDF5}"
    red = reported(HDF5, promised=1, result="fail", verdict="regression (own_past)")
    for end, problems in (
        (replace(WELL, status=1), ["reframe ended with exit code 1"]),
        (ended(red, status=1), []),  # the verdict says it
        (ended(reported(HDF5), reported(MPIIO)), [f"1 case ran that nobody asked for: {MPIIO}"]),
        (replace(WELL, stopped="the time limit was reached"), ["the time limit was reached"]),
        (NOTHING, [missing, "reframe: ERROR: no such check"]),
        (EndedSession(status=3), [missing]),
    ):
        night = run(end)
        assert (night.problems, night.is_red) == (problems, True)
        assert bool(night.cases) is bool(end.report)
    night = run(stores=False)
    lost = ["the session is not in ReFrame's results database"]
    assert (night.problems, len(night.cases)) == (lost, 1)
    night = run(replace(WELL, error="failed to store it"), stores=False)
    assert night.problems == [f"{lost[0]}: reframe: failed to store it"], "one cause, one line"
    night = run(stores=False, meanwhile=partial(database.write_text, "no database\n" * 99))
    assert "results.db: damaged, or no SQLite database" in night.problems[0]
    assert len(night.cases) == 1
    database.unlink()
    (tmp_path / "runs").write_text("")
    assert run(stores=False).is_red


# What was said of it


def test_night_is_the_same_whoever_shows_it_later(run, database, tmp_path):
    """Green, amber or red, and whatever has become of the site's files since."""
    away = {"verdict": "unjudged (maintenance)", "result": "skip", "sentence": "away"}
    for changes, status, colour in (({}, 0, "green"), ({}, 1, "red"), (away, 0, "amber"),
                                    (SEVERE, 1, "red")):  # fmt: skip
        end = ended(reported(HDF5, NOW, promised=1, **changes), status=status)
        end.report["runs"][0]["num_skipped"] = int(colour == "amber")
        night, shown = run(end), later(database)
        assert (night.colour, shown.colour) == (colour, colour)
        assert (shown.id, shown.why) == (night.id, night.why)
        assert shown.summary.headline.banner == night.summary.headline.banner
        assert (shown.problems, shown.notes) == (night.problems, night.notes)
        assert report.write_page(shown, tmp_path).name == night.page.name


def test_case_that_was_taken_out_of_the_suite_makes_no_later_view_red(run, database):
    """Two cases on most nights before, one tonight, as the site's file has it by now."""
    for days in range(1, 8):
        began = before(days=days)
        both = (reported(of, began) for of in (HDF5, MPIIO))
        store(database, of_night(began, *both, promise="2-0ld"))
    assert (
        run().summary.headline.banner == later(database).summary.headline.banner == "Green · 1 case"
    )
    assert 'iowatch_night_promised_cases{system="local"} 1.0' in prometheus([later(database)])


def test_a_word_knows_its_rows_and_the_word_before(run, database, monkeypatch):
    """A night a week decodes all anew, and a night tells once what was changed or lost before."""
    charts = {"filesystem scratch": {"by": "5e", "runs": 1, "state": {}}}
    monkeypatch.setattr(gate, "alarms_of", lambda *given: ([], charts))
    first, second = run(), run()
    assert on_record(database).groups(second.id) == charts, "where the next night goes on"
    kept = [on_record(database).words.read(night.id) for night in (first, second)]
    assert [len(word.rows) for word in kept] == [1, 1]
    assert kept[1].before == {first.id: kept[0].seal}
    assert [word.is_checked for word in kept] == [True, False]
    forget(database, *kept[0].rows)
    told = f"1 earlier night is not on record as judged, {first.id}: 1 of 1 session is not on "
    assert [p.startswith(told) for p in run().problems] == [True]
    assert run().problems == []
    monkeypatch.setattr(aftermath, "CHECKED_EVERY", timedelta(0))
    assert on_record(database).words.read(run().id).is_checked


def test_night_in_which_nothing_ran_is_the_last_wherever_it_is_shown(run, database, tmp_path):
    """Else the night before would be shown, green, as if it were the last."""
    run()
    night, shown = run(NOTHING), later(database)
    assert (shown.id, shown.colour, shown.why) == (night.id, "red", night.why)
    assert shown.problems == night.problems
    assert 'iowatch_night_colour{system="local",colour="red"} 1.0' in prometheus([shown])
    assert night.why in report.markdown(shown.for_page).replace("\\", "")
    assert 'failures="1"' in report.junit(shown.document)
    index = report.write_site([month(shown.system, [database])], tmp_path / "www")
    assert (index.parent / f"local-{night.id}.html").exists()
    assert "nothing ran" in drawn(shown.for_page)
    assert re.findall(r'class="([GAR])"', index.read_text()) == ["G", "R"]
    run()
    assert later(database).colour == "green"


def test_record_that_cannot_be_read_makes_its_night_red(run, database):
    path = database.parent / words.FOLDER / f"local-{run().id}.json"
    kept = json.loads(path.read_text())
    wrong = [{"rows": None}, {"problems": "x"}, {"more": 1}, {"colour": "blue"}]
    wrong += [{"time": "today"}, {"time": "2026-01-01"}]
    for text in ("", "null", "[]", "{}", *(json.dumps({**kept, **each}) for each in wrong)):
        path.write_text(text)
        shown = later(database)
        assert shown.is_red, text
        assert shown.problems[0].startswith(
            f"{path}: what was said of the night cannot be believed: "
        )


def test_red_alarm_that_nobody_would_raise_by_now_leaves_its_night_red(run, database):
    """It needed the baseline that was in force then."""
    night = run()
    kept = on_record(database).words.read(night.id)
    told = evolve(kept, colour="red", why="tmpfs is slow")
    on_record(database).words.keep(night.id, told)
    shown = later(database)
    assert (shown.is_red, shown.why) == (True, "as it was judged: tmpfs is slow")


# What makes it red


def test_what_is_wrong_with_the_record_is_a_problem_of_the_night(run, database, tmp_path):
    baselines = tmp_path / "baselines" / "local.yaml"
    first, last = (night_id(before(days=days)) for days in (40, 10))

    def blessed_nights_gone():
        entry = evolve(BLESSED, first=first, last=last, blessed=day_of(last))
        bless.write("local", tmp_path, {HDF5: entry})

    def baseline_gone():
        judged = reported(HDF5)
        judged["perfvalues"]["local:tmpfs:drift"] = [0.1, 0, None, None, "1", "pass"]
        store(database, of_night(before(days=1), judged))

    def fewer_cases_than_promised():
        began, both = before(days=2), (reported(HDF5), reported(MPIIO))
        store(database, of_night(began, *both, promise="2-5e"))
        rows = {night_id(began): ""}
        told = GateRecord(time=began, colour="green", why="well", promised=2, rows=rows)
        on_record(database).words.keep(night_id(began), told)

    for spoil, message in (
        (blessed_nights_gone, "the blessed nights of 1 case are not on record, "),
        (baseline_gone, "the baseline of 1 case is gone since the night before: "),
        (fewer_cases_than_promised, "which promised 2 cases, and not all are asked for now: "),
    ):
        spoil()
        (problem,) = run().problems
        assert message in problem
        baselines.unlink(missing_ok=True)
        database.unlink()
        shutil.rmtree(database.parent / words.FOLDER)


def test_database_that_is_lost_while_the_night_runs_is_a_problem(run, database, monkeypatch):
    """With no baseline either, which would say so."""
    nights = [of_night(before(days=n), reported(HDF5), uuid=f"{n}") for n in (1, 2)]
    store(database, *nights)
    for gone in ("2 of 2 sessions are", "1 of 1 session is"):
        problem, *_ = run(meanwhile=database.unlink).problems
        assert problem.startswith(f"{database}: {gone} gone since the night began: ")
    database.unlink()
    shutil.rmtree(database.parent / words.FOLDER)
    store(database, *nights)
    days = {place: before(days=n).date() for n, place in enumerate(("disk", "tmpfs"), 1)}
    monkeypatch.setattr(OneCase, "archived", days)
    assert run(meanwhile=database.unlink).problems == [], "on the last of these days, too"


def test_blessed_case_that_left_the_nightly_suite_is_named_until_somebody_says_why(
    run, tmp_path, monkeypatch
):
    """Also if it is still in an acceptance test, and the whole suite was green without it."""
    both = {HDF5, MPIIO}
    monkeypatch.setattr(OneCase, "cases", lambda _, suite: {HDF5} if suite == "nightly" else both)
    bless.write("local", tmp_path, {MPIIO: BLESSED})
    run()
    file = tmp_path / "local.yaml"
    named = f"nobody guards 1 blessed case, not in the nightly suite any more: {MPIIO}: "
    broad = f"{file}: `retired` names cases of the nightly suite and counts for nothing: local:tm"
    for text, notes in (
        ("{}", [named]),
        ("retired:\n  local:.*/backend=posix/.*: it is slow, ticket 1\n", [named]),
        ("retired:\n  local:tmpfs/.*: all gone, ticket 1\n", [broad, named]),
        ("retired:\n  local:.*/backend=mpiio/.*: hdf5 is enough, ticket 1\n", []),
    ):
        file.write_text(text)
        night = run()
        assert night.colour == "green"
        for note, begin in zip(night.notes, notes, strict=True):
            assert note.startswith(begin)


def test_entries_that_are_of_no_case_of_the_site_are_noted(run, tmp_path):
    """A bound on a name that was misspelt is none."""
    (tmp_path / "local.yaml").write_text(
        "SharedFileWrite:\n  local:tmpfs/.*/backend=HDF5/.*: {total_max: [9, -0.1, null]}\n"
        "  local:.*: {}\n"
    )
    (tmp_path / "expected_failures").mkdir()
    (tmp_path / "expected_failures/local.yaml").write_text(
        "- {case: 'local:tmp/.*', until: 2026-12-01, why: ticket 4711}\n"
        f"- {{case: '{HDF5}', until: 2026-12-01, why: ticket 4712}}\n"
    )
    (tmp_path / "user_outputs").mkdir()
    outputs = tmp_path / "user_outputs/local.yaml"
    outputs.write_text(
        "- {name: a WRF output, size: 9, library: netcdf, ranks: 512}\n"
        "- {name: a checkpoint, size: 9, library: hdf5, ranks: 512}\n"
    )
    night = run()
    assert (night.colour, night.problems) == ("green", [])
    (note,) = [note for note in night.notes if note.startswith(f"{outputs}: ")]
    assert ": no case of the nightly suite stands for a WRF output: " in note
    idle = "1 of its entries match no case of the site and count for nothing"
    for file, named in (
        ("local.yaml", "local:tmpfs/.*/backend=HDF5/.*"),
        ("expected_failures/local.yaml", "local:tmp/.*"),
    ):
        (note,) = [note for note in night.notes if note.startswith(f"{tmp_path / file}: ")]
        assert f": {idle}: {named}: " in note


def test_page_or_record_that_cannot_be_written_is_a_problem(run, database, monkeypatch):
    (database.parent / f"report-local-{night_id(NOW)}.html").mkdir(parents=True)
    monkeypatch.setattr(nightly, "night_id", lambda now: night_id(NOW))
    (database.parent / words.FOLDER / f"local-{night_id(NOW)}.json").mkdir(parents=True)
    night = run()
    _, of_page, of_record = night.problems
    assert of_page.endswith(".html: cannot be written: it is no regular file")
    assert re.search(r"/nights/local-.*\.json: cannot be written: it is no regular", of_record)
    assert night.page is None


def test_no_verdict_is_hidden(run):
    """By a clock that is set back, or a session that was cut off before it named its night."""
    ahead = reported(HDF5, NOW + timedelta(hours=2), promised=1, **SEVERE)
    night = run(ended(ahead, status=1))
    assert ([str(row.outcome) for row in night.red], night.problems) == (
        ["regression (own_past)"],
        [],
    )
    night = run(ended(reported(HDF5, promised=2, **SEVERE), status=1), says_night=False)
    assert [str(row.outcome) for row in night.red] == ["regression (own_past)"]


def test_signal_after_the_session_loses_nothing(run, monkeypatch):
    """While the night is judged: else nobody would see what was measured."""
    load = SystemRecord.load

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        return load(*arguments, **options)

    monkeypatch.setattr(SystemRecord, "load", interrupted)
    monkeypatch.setattr(nightly, "ignore_signals", ignore_signals)
    with interruptible():
        night = run()
    assert (len(night.cases), night.problems, night.signal) == (1, [], 0)


# Re-runs


@pytest.fixture
def tonight(database, tmp_path):
    """tonight((hours ago, rate), ...): these suspicious runs of a blessed case, after 40 usual
    nights; the night's id."""

    def make(*runs):
        for ago in range(40, 0, -1):
            began = before(days=ago)
            store(database, of_night(began, reported(HDF5, began, 1000.0)))
        night = night_id(before(hours=13))
        for hours, rate in runs:
            time = before(hours=hours)
            test = reported(HDF5, time, rate, verdict="suspect (own_past)", promised=1)
            store(database, of_night(time, test, night=night))
        first, last = (night_id(before(days=days)) for days in (40, 11))
        entry = evolve(
            BLESSED, bandwidth=1000.0, ratio=None, ratio_spread=None, overhead_fraction=None,
            first=first, last=last, blessed=day_of(last),
        )  # fmt: skip
        bless.write("local", tmp_path, {HDF5: entry})
        return night

    return make


def well_again(began=NOW):
    return ended(reported(HDF5, began, 990.0, promised=1), began=began)


def test_rerun_is_a_part_of_its_night(run, tonight):
    night = tonight((12, 300.0), (8, 300.0))
    again = run(well_again(), again=True)
    place = ["--system", "local:tmpfs", "-p", "^gnu$", "--name=/a1", "--timestamp=nightly"]
    assert run.given == [(place, night)]
    (row,) = again.cases
    assert (again.id, [run.metrics["total_max"] for run in row.runs]) == (night, [300, 300, 990])
    assert (str(row.outcome), again.problems, again.notes) == ("ok", [], [])
    with pytest.raises(NothingDue, match=r"^local: no re-run is due$"):
        run(again=True)


def due(monkeypatch, night, *cases):
    """Re-runs of these cases are due, in a session each."""
    parts = [nightly.PlannedSession([f"session {n}"], {case}) for n, case in enumerate(cases)]
    monkeypatch.setattr(nightly, "_reruns", lambda *arguments: (night, parts))


def test_rerun_of_a_red_night_does_not_make_it_green(run, database, tonight, monkeypatch):
    """What runs again is green, and what was wrong before is on record."""
    tonight()
    first = run(ended(LOW, status=3, stopped="killed"))
    assert (first.colour, first.problems) == ("red", ["killed"])
    due(monkeypatch, first.id, HDF5)
    again = run(well_again(), again=True)
    assert (again.colour, again.problems) == ("red", ["killed"])
    assert later(database).problems == ["killed"]
    assert [str(row.outcome) for row in again.cases] == ["ok"]


def test_rerun_of_one_case_says_that_another_is_red(run, database, monkeypatch):
    began = before(hours=1)
    bad = reported(MPIIO, NOW, sentence="it is slow", **SEVERE)
    store(database, of_night(began, bad, reported(HDF5, NOW)))
    due(monkeypatch, night_id(began), HDF5)
    again = run(well_again(), again=True)
    assert ([row.case for row in again.cases], again.colour) == ([HDF5], "red")
    assert again.notes[-1].startswith("the night as a whole is red: mpiio on tmpfs: ")


def test_rerun_has_the_last_word_though_the_clock_was_set_back(run, tonight):
    tonight((5, 300.0))
    (row,) = run(well_again(before(hours=6)), again=True).cases
    assert [run.metrics["total_max"] for run in row.runs] == [300, 990]
    assert str(row.outcome) == "ok"


def test_rerun_that_is_not_due_is_not_made(run, database, tonight):
    """Nor of an old night, though it is the last only because the clock was set back."""

    def refused(message, error=NothingDue):
        with pytest.raises(error, match=message):
            run(again=True)
        assert run.given == []

    refused(f"^--again: nothing is on record yet: there is no {database}$", UserError)
    store(database)
    refused(r"^local: no re-run is due$")
    night = tonight((60, 300.0))
    ahead = reported(HDF5, FUTURE, 300.0, verdict="suspect (own_past)", promised=1)
    store(database, of_night(FUTURE, ahead))
    refused(f"the last night, {night}, ended on .* more than 2 days ago$")
    time = before(hours=3)
    test = reported(HDF5, time, 300.0, verdict="suspect (own_past)", promised=1)
    store(database, of_night(time, test))
    due = f"{NOW + timedelta(hours=1):%Y-%m-%d %H:%M} UTC"
    refused(rf"^local: no re-run is due: the next from {due}$")


def test_suspect_says_the_command_that_runs_it_again(run, tonight):
    tonight()
    (note,) = run(ended(LOW)).notes
    assert note.startswith("1 case is suspect, and re-runs are due from ")
    assert note.endswith(" UTC: iowatch run --system local --again")
    acceptance = Wanted(system="archer:fs3", suite="acceptance").rerun_command
    assert acceptance == "iowatch run --system archer:fs3 --suite acceptance --again"


def test_sessions_after_one_that_was_stopped_are_not_run(run, monkeypatch):
    due(monkeypatch, night_id(NOW), HDF5, MPIIO)
    stopped = replace(WELL, stopped="interrupted by SIGTERM", signal=signal.SIGTERM)
    night = run(stopped, again=True)
    assert [options for options, _ in run.given] == [["session 0", "--timestamp=nightly"]]
    assert night.problems == ["interrupted by SIGTERM", f"1 of 1 case was not run: {MPIIO}"]
    assert night.signal == signal.SIGTERM


# Nights that were killed


NO_JOB = object()


@pytest.fixture
def left(tmp_path):
    """left(hours ago, ...): the raw results of a night; its id. Its job may have `told` another, or
    nothing: NO_JOB."""

    def make(hours, told=None, system="local"):
        night = night_id(before(hours=hours))
        job = tmp_path / "runs" / night / f"{system}:tmpfs,gnu,LibraryVersions" / "job.json"
        job.parent.mkdir(parents=True)
        if told is not NO_JOB:
            told = night if told is None else told
            job.write_text(json.dumps({"night": told, "suite": "nightly"}))
        return night

    return make


def test_night_that_was_killed_goes_on_as_the_same(run, left, tmp_path):
    """What is on record was not lost, and one that is over is not continued."""

    def resumed(*nights):
        for hours, system in nights:
            left(hours, told=NO_JOB, system=system)
        return run(resume=True)

    old, last = (night_id(before(hours=hours)) for hours in (90, 1))
    (tmp_path / "runs" / "by hand").mkdir(parents=True)
    over = f"^--resume: the last night, {old}, was not measured to its end, and is over: "
    wanted = [
        ((), f"^--resume: there is no night of local in {tmp_path}$"),
        ((90, "local"), over),
        ((1, "other"), over),
    ]
    assert_refused(UserError, lambda *night: resumed(*[night] if night else []), wanted)
    assert run.given == []
    night = resumed((1, "local"))
    assert (night.id, night.problems) == (last, [])
    ours = ["--timestamp=nightly", "--timestamp=resumed_%FT%H%M%S", "--setvar=resumes=1"]
    assert run.given == [(["--system", "local", *ours], last)]
    with pytest.raises(UserError, match=f"^--resume: the last night, {last}, is on record: "):
        resumed()


def test_night_that_was_lost_is_a_problem_of_the_next(run, left, database, tmp_path, monkeypatch):
    """Its session was killed, or deleted; once. By hand or of another system, it is none."""
    left(20, told="")
    left(21, system="other")
    stored = left(22)
    store(database, session(reported(HDF5), uuid="was", night=stored))
    assert run().problems == []
    lost = left(24)
    (message,) = run().problems
    assert message.startswith(f"the night {lost} is not in the results database: its session was ")
    assert f"{tmp_path}/runs/{lost}, " in message
    assert run().problems == [], "it is known"
    forget(database, "was")
    (message,) = run().problems
    assert message.startswith(f"the night {stored} is not in ")
    told = run(stores=False)
    assert told.problems == ["the session is not in ReFrame's results database"]
    left((NOW - datetime.fromisoformat(f"{told.id}+00:00")) / timedelta(hours=1))
    assert run().problems == [], "it was said of the night itself"
    left(90)
    monkeypatch.setattr(OneCase, "archived", {"tmpfs": before(days=2).date()})
    assert run().problems == [], "the site has moved it out"


def test_duration():
    for text, seconds in (("90m", 5400), ("6h", 21600), ("1d12h", 129600), ("1h1m1s", 3661)):
        assert read_duration(text) == timedelta(seconds=seconds)
    wrong = ("", "6", "0h", "h", "-1h", "6 h", "1m1h", "six", "9" * 30 + "d")
    assert_refused(UserError, read_duration, [(text, "not a time such as") for text in wrong])
