"""A night as a whole, with stand-ins for its sessions."""

import errno
import io
import itertools
import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cases import changed
from nights import BLESSED
from reported import HDF5, MPIIO, reported, session, store
from rich.console import Console
from servers import ONE_ADDRESS, free_port, posts
from typer.testing import CliRunner

from iowatch import bless, report
from iowatch.cli import app
from iowatch.export import prometheus
from iowatch.files import UserError, counted
from iowatch.history import read as runs_in_databases
from iowatch.night import nightly, notices, record
from iowatch.night.alarms import Alarm
from iowatch.night.gate import Night, night_of
from iowatch.night.nightly import NothingDue, Wanted, read_duration
from iowatch.night.notices import NotSent, Outbox
from iowatch.night.progress import Progress, watch
from iowatch.night.session import Interrupted, Session, ignore_signals, interruptible
from iowatch.run import Promise, day_of, night_id
from iowatch.site import SWEEPS, Filesystem, Site
from iowatch.tables import as_message, as_text, in_brief, show_night
from iowatch.verdict import Kind

HERE = Path(__file__).parent
FUTURE = datetime.now(UTC) + timedelta(days=1)
NOW = datetime.now(UTC)
GREEN = session(reported(HDF5, NOW - timedelta(minutes=1), promised=1), uuid="now", began=NOW)


class OneCase(Site):
    """A site whose sweeps are HDF5 alone."""

    def cases(self, sweep):
        return {HDF5}


@dataclass
class Given:
    """What a session is given."""

    options: list
    night: str


@pytest.fixture
def database(tmp_path):
    return tmp_path / "results" / "results.db"


@pytest.fixture
def site(monkeypatch, tmp_path, database):
    """site(Session...): a site whose sessions end so, and store their reports unless `stores` is
    false, after what happens `meanwhile`; gives what each is given."""
    place = Filesystem(
        "local", "tmpfs", ("gnu",), "tmpfs", "/x", ("tmpfs",), 1e6, None, True, 4, 30, {}
    )
    promises = dict.fromkeys(SWEEPS, Promise(1, "5e"))
    site = OneCase("local", (place,), True, tmp_path, tmp_path, database, promises)
    monkeypatch.setattr(nightly, "read_site", lambda system: site)
    monkeypatch.setattr(nightly, "ignore_signals", lambda: None)  # pytest wants its Ctrl-C
    begun = map(night_id, (NOW - timedelta(minutes=9, seconds=-n) for n in itertools.count()))
    monkeypatch.setattr(nightly, "night_id", lambda now: next(begun))  # none twice in a second
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    (tmp_path / "local.yaml").write_text("general: {}\n")

    def sessions(*ends, stores=True, says_night=True, meanwhile=lambda: None):
        given, left = [], list(ends)

        def run_session(options, night, deadline, follow, locks):
            *options, extras = options
            assert extras == f"--session-extras=night={night},promise=1-5e"
            given.append(Given(options, night))
            end = left.pop(0)
            meanwhile()
            if end.report:
                report = {**end.report, "session_info": {**end.report["session_info"]}}
                if says_night:
                    report["session_info"]["night"] = night
                if stores:
                    store(database, report)
                end = replace(end, report=report)
            return end

        monkeypatch.setattr(nightly, "run_session", run_session)
        return given

    return sessions


def test_green_night(site, database):
    given = site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    anew = f"{database} was not there: history begins anew with this night"
    assert (night.is_red, night.problems, night.notes, night.signal) == (False, [], [anew], 0)
    assert "history begins anew" in night.page.read_text()
    site(Session(replace_uuid("next")))
    assert nightly.run(Wanted("local")).notes == []
    assert ([row.case for row in night.cases], night.id) == ([HDF5], given[0].night)
    assert given[0].options == ["--system", "local", "--timestamp=nightly"]
    assert timedelta(0) <= NOW.date() - day_of(night.id) <= timedelta(days=1)
    assert night.page == database.parent / f"report-local-{night.id}.html"
    assert night.page.read_text().startswith("<!doctype html>")


def test_night_says_what_it_will_do_and_how_long_that_usually_takes(site, database, capsys):
    """By whole nights alone, without their re-runs; --quiet says nothing."""

    def says(**wanted):
        site(Session(GREEN), stores=False)
        nightly.run(Wanted("local", **wanted))
        return capsys.readouterr().out.splitlines()

    first = says()
    assert re.fullmatch(r"Night \S+ of local: 1 case will be measured \(1 on tmpfs\)\.", first[0])
    assert first[1:] == [
        "How long it takes is not known: no whole night like this one is on record."
    ]

    def night(number, minutes, *tests, hours=0):
        began = NOW - timedelta(days=number)
        ended = began + timedelta(minutes=minutes, hours=hours)
        tests = tests or (reported(HDF5, ended),)
        return session(*tests, uuid=f"{number} {hours}", began=began, night=night_id(began))

    long_ago, half = night(40, 500), night(3, 2, reported(MPIIO, NOW))
    again = night(2, 0, hours=8)
    store(database, long_ago, half, night(2, 7), again, night(1, 5))
    assert says()[1] == "The last nights like this one took 5 to 7 minutes."
    (named,) = says(names=["hdf5"])
    assert named.endswith(" of local: those of 1 case (1 on tmpfs) that --name matches.")
    assert says(quiet=True) == []
    killed = says(sweep="acceptance", death="tmpfs:server")[2]
    assert killed.startswith("On record: a server of tmpfs is killed while this runs. So kill one")
    store(database, *(night(0.1 * n, 150) for n in range(2, 9)))
    assert says()[1] == "The last nights like this one took about 2 hours."
    with pytest.raises(UserError, match="exclude each other"):
        Wanted("local", quiet=True, verbose=True).check()


def output_of_reframe(*ends):
    """What ReFrame prints of tests that end so, and of what has built benchio for them."""
    lines = ["[ \x1b[32mRUN     \x1b[0m ] SharedFileWrite %backend=hdf5 /e1 @local:disk+gnu"]
    for number, (result, name) in enumerate(ends, 1):
        end = f"[ \x1b[31m{result:>8}\x1b[0m ] ({number:>2}/{len(ends)}) {name} /e1 @local:x+gnu"
        lines += [end, "P: total_max: 514.5 MiB/s"]
    return [*lines, "[  FAILED  ] Ran 40/40 test case(s) from 21 check(s) (1 failure(s))"]


def test_progress_counts_cases_and_the_jobs_that_they_have_had():
    write = "SharedFileWrite %backend=hdf5"
    progress = Progress(9, lambda: 4)
    progress.hear(output_of_reframe(("OK", "BuiltBenchio ~local:x+gnu"), ("OK", "LibraryVersions")))
    progress.hear(output_of_reframe(("FAIL", write), ("XFAIL", write)))
    assert str(progress) == "3 of 9 cases done, 1 red, 1 running or queued, 5 to come; 0 min"
    progress.hear(output_of_reframe(("FAIL", write)))
    progress.hear(["==> test failed during 'setup': test staged in '/x'"])  # it had no job
    assert str(progress) == "4 of 9 cases done, 2 red, 1 running or queued, 4 to come; 0 min"
    progress.hear(output_of_reframe(("SKIP", write)))
    later = "2 red, 1 not measured, 1 running or queued, 3 to come; 0 min"
    assert str(progress) == f"5 of 9 cases done, {later}"
    waiting = Progress(9, lambda: 1, lambda: "squeue does not answer")
    assert str(waiting).endswith(", 8 to come; 0 min; squeue does not answer")
    unknown = Progress(0, lambda: 1)
    assert str(unknown) == "0 cases done, 0 red, 1 running or queued; 0 min"


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch, capsys):
    progress = Progress(9, lambda: 0)
    with watch(progress) as follow:
        follow(output_of_reframe(("OK", "LibraryVersions")))
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr("iowatch.night.progress.LOG_EVERY_S", 0.0)
        follow([])
    assert capsys.readouterr() == (f"{progress}\n", "")
    assert str(progress).startswith("1 of 9 cases done")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "gone"), BrokenPipeError()])
def test_terminal_that_goes_away_does_not_end_the_night(monkeypatch, error):
    class Gone(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            raise error

    monkeypatch.setattr(sys, "stderr", Gone())
    progress = Progress(9, lambda: 0)
    with watch(progress) as follow:
        follow(output_of_reframe(("OK", "LibraryVersions")))
    assert progress.done == 1


def test_options_that_reframe_gets(site):
    """The site's own mode for a sweep: it may allow longer jobs, too."""
    for wanted, options in (
        ({"sweep": "acceptance"}, ["--mode=acceptance"]),
        ({"record": True}, ["--timestamp=nightly", "--setvar=record=1"]),
        ({"sweep": "acceptance", "record": True}, ["--mode=acceptance", "--setvar=record=1"]),
        ({"names": ["hdf5", "/a1"]}, ["--name=hdf5", "--name=/a1", "--timestamp=nightly"]),
        ({"options": ["-J", "qos=io"]}, ["--timestamp=nightly", "-J", "qos=io"]),
    ):
        given = site(Session(GREEN), stores=False)
        nightly.run(Wanted("local", **wanted))
        assert given[0].options == ["--system", "local", *options]


def test_night_without_reference_values_is_refused_before_any_job(site, tmp_path):
    """Each run would be verified, and then fail for want of them."""
    file = tmp_path / "local.yaml"
    for spoil, said in (
        (file.unlink, "there is no such file: write the line `general: {}` into it to begin with"),
        (lambda: file.write_text("general: ["), "line 1: while parsing"),
    ):
        spoil()
        given = site(Session(GREEN), stores=False)
        with pytest.raises(UserError, match=f"^{file} cannot be used as reference values: {said}"):
            nightly.run(Wanted("local"))
        assert given == []
        nightly.run(Wanted("local", sweep="acceptance"))
        assert len(given) == 1, "that goes by its contract"


def test_session_that_is_on_record_is_not_said_to_be_lost(site, tmp_path):
    """Of a baseline that somebody has changed, nothing else is said."""
    (tmp_path / "baselines").mkdir()
    bless.write("local", tmp_path, {HDF5: BLESSED})
    baselines = tmp_path / "baselines" / "local.yaml"
    baselines.write_text(baselines.read_text().replace("tmpfs", "scratch"))
    site(Session(GREEN))
    (problem,) = nightly.run(Wanted("local")).problems
    assert "was changed since it was blessed" in problem


def test_green_report_is_not_enough(site, database, tmp_path):
    missing = f"1 of 1 case was not run: {HDF5}"
    lost = "the session is not in ReFrame's results database"
    red = session(
        reported(HDF5, result="fail", verdict="regression", promised=1), uuid="red", began=NOW
    )
    other = session(reported(HDF5), reported(MPIIO), uuid="other", began=NOW)
    said = [
        (Session(GREEN, status=1), ["reframe ended with exit code 1"]),
        (Session(red, status=1), []),  # the verdict says it
        (Session(other), [f"1 case ran that nobody asked for: {MPIIO}"]),
        (
            Session(replace_uuid("late"), stopped="the time limit was reached"),
            ["the time limit was reached"],
        ),
        (
            Session(None, status=1, error="ERROR: no such check"),
            [missing, "reframe: ERROR: no such check"],
        ),
        (Session(None, status=3), [missing]),
    ]
    for end, problems in said:
        site(end)
        night = nightly.run(Wanted("local"))
        assert night.problems == problems
        assert night.is_red
        assert bool(night.cases) is bool(end.report)
    site(Session(replace_uuid("gone")), stores=False)
    night = nightly.run(Wanted("local"))
    assert (night.problems, len(night.cases)) == ([lost], 1)
    damage = partial(database.write_text, "no database\n" * 99)
    site(Session(GREEN), stores=False, meanwhile=damage)
    night = nightly.run(Wanted("local"))
    assert "results.db: damaged, or no SQLite database" in night.problems[0]
    assert len(night.cases) == 1
    given = site(Session(GREEN))
    with pytest.raises(UserError, match=r"results.db: damaged, .* begin anew with `mv "):
        nightly.run(Wanted("local"))
    assert given == [], "what the checks cannot read need not be measured"
    database.unlink()
    (tmp_path / "runs").write_text("")
    site(Session(GREEN), stores=False)
    assert nightly.run(Wanted("local")).is_red


def shown_later(database):
    """The last night, as page, text, index and export have it."""
    return report.read("local", [database])


def test_night_is_the_same_whoever_shows_it_later(site, database, tmp_path):
    """Green, amber or red, and whatever has become of the site's files since."""
    away = {"verdict": "not_measured", "result": "skip", "sentence": f"{HDF5}: away"}
    bad = {"verdict": "regression", "result": "fail"}
    for number, (changes, status, colour) in enumerate(
        (({}, 0, "green"), ({}, 1, "red"), (away, 0, "amber"), (bad, 1, "red"))
    ):
        skipped = int(colour == "amber")
        test = reported(HDF5, NOW, promised=1, **changes)
        tonight = session(test, uuid=f"{number}", began=NOW, num_skipped=skipped)
        site(Session(tonight, status=status))
        night, later = nightly.run(Wanted("local")), shown_later(database)
        assert (night.colour, later.colour) == (colour, colour)
        assert (later.id, later.brief, later.why) == (night.id, night.brief, night.why)
        assert (later.problems, later.notes) == (night.problems, night.notes)
        assert report.write_page(later, tmp_path).name == night.page.name


def test_case_that_was_taken_out_of_the_suite_makes_no_later_view_red(site, database):
    """Two cases on most nights before, one tonight, as the site's file has it by now."""
    before = [
        session(
            *(reported(of, NOW - timedelta(days)) for of in (HDF5, MPIIO)),
            uuid=f"{days}", began=NOW - timedelta(days), night=night_id(NOW - timedelta(days)),
            promise="2-0ld",
        )
        for days in range(1, 8)
    ]  # fmt: skip
    database.parent.mkdir()
    store(database, *before)
    site(Session(GREEN))
    assert nightly.run(Wanted("local")).brief == shown_later(database).brief == "Green: 1 case"
    promised = [line for line in prometheus([shown_later(database)]).splitlines()
                if line.startswith("iowatch_night_promised_cases{")]  # fmt: skip
    assert promised == ['iowatch_night_promised_cases{system="local"} 1.0']


def test_night_of_which_runs_are_gone_or_came_later_is_not_as_it_was_judged(site, database):
    """Green by its record alone, it would hide what is not there, and what nobody has judged."""
    other = {"verdict": "severe", "result": "fail"}
    for uuid, tests, changed_to, problems, colour in (
        ("a", [reported(HDF5, NOW), reported(HDF5, NOW - timedelta(1))], 1, 1, "red"),
        ("b", [reported(HDF5, NOW)], 2, 0, "red"),
        ("c", [reported(HDF5, NOW)], 1, 0, "green"),
    ):
        database.unlink(missing_ok=True)
        site(Session(session(*tests, uuid=uuid, began=NOW)), stores=False)
        night = nightly.run(Wanted("local"))
        kept = record.read_judged(database, "local", night.id)
        kept = replace(kept, colour="green", problems=[])
        record.keep_judged(database, "local", night.id, kept)
        stored = [reported(HDF5, NOW), reported(HDF5, NOW + timedelta(0, 1), **other)][:changed_to]
        store(database, session(*stored, uuid=uuid, began=NOW, night=night.id))
        later = report.Record(
            "local", [database], nightly.Known(), runs_in_databases([database]), FUTURE
        )
        assert (len(later.night().problems), later.night().colour) == (problems, colour)
    assert later.night().problems == []


def test_night_in_which_nothing_ran_is_the_last_wherever_it_is_shown(site, database, tmp_path):
    """Else the night before would be shown, green, as if it were the last."""
    site(Session(GREEN))
    nightly.run(Wanted("local"))
    site(Session(None, status=1, error="ERROR: no such check"))
    night, later = nightly.run(Wanted("local")), shown_later(database)
    assert (later.id, later.colour, later.why) == (night.id, "red", night.why)
    assert later.problems == night.problems
    assert 'iowatch_night_colour{system="local",colour="red"} 1.0' in prometheus([later])
    assert night.why in report.markdown(later).replace("\\", "")
    assert 'failures="1"' in report.junit(later)
    index = report.write_site([database], tmp_path / "www")
    assert "nothing ran" in (index.parent / f"local-{night.id}.html").read_text()
    assert re.findall(r'class="([GAR])"', index.read_text()) == ["G", "R"]
    site(Session(replace_uuid("next")))
    nightly.run(Wanted("local"))
    assert shown_later(database).colour == "green"


def test_record_that_cannot_be_read_makes_its_night_red(site, database):
    site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    path = record.path_of(database, "local", night.id)
    kept = json.loads(path.read_text())
    texts = ["", "null", "[]", "{}", json.dumps({**kept, "runs": None}),
             json.dumps({**kept, "problems": "x"}), json.dumps({**kept, "more": 1}),
        *(json.dumps({**kept, **wrong}) for wrong in ({"colour": "blue"}, {"time": "today"},
                                                      {"time": "2026-01-01"}))]  # fmt: skip
    for text in texts:
        path.write_text(text)
        later = shown_later(database)
        assert later.is_red, text
        assert later.problems[0].startswith(f"{path}: what was said of the night cannot be read: ")


def test_red_alarm_that_nobody_would_raise_by_now_leaves_its_night_red(site, database):
    """It needed the baseline that was in force then."""
    site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    kept = replace(
        record.read_judged(database, "local", night.id), colour="red", why="tmpfs is slow"
    )
    record.keep_judged(database, "local", night.id, kept)
    assert shown_later(database).why == "as it was judged: tmpfs is slow"
    assert shown_later(database).is_red


def replace_uuid(name):
    return {**GREEN, "session_info": {**GREEN["session_info"], "uuid": name}}


def test_case_that_the_site_promised_last_night_and_not_tonight_is_a_problem(site, database):
    before = session(
        reported(HDF5), reported(MPIIO), uuid="before", began=NOW - timedelta(1),
        night=night_id(NOW - timedelta(1)), promise="2-5e",
    )  # fmt: skip
    database.parent.mkdir()
    store(database, before)
    for number in (1, 2):  # decoded, and in brief
        site(Session(replace_uuid(f"{number}")))
        (problem,) = nightly.run(Wanted("local")).problems
        assert f"which promised 2 cases, and not all are asked for now: {MPIIO}: " in problem
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("DELETE FROM sessions WHERE uuid != 'before'")


def test_empty_database_is_made_anew_and_said(site, database):
    database.parent.mkdir()
    database.write_bytes(b"")
    site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    assert night.problems == []
    assert night.notes == [
        f"{database} was empty, as a full disk leaves it: history begins anew with this night"
    ]


def test_blessed_nights_that_are_not_on_record_make_the_night_red(site, tmp_path):
    """They were when it was blessed; nobody removed the baseline."""
    first, last = (night_id(NOW - timedelta(days)) for days in (40, 10))
    entry = replace(BLESSED, first=first, last=last, blessed=day_of(last))
    (tmp_path / "baselines").mkdir()
    bless.write("local", tmp_path, {HDF5: entry})
    site(Session(GREEN))
    (problem,) = nightly.run(Wanted("local")).problems
    assert problem.startswith("the blessed nights of 1 case are not on record, ")


def test_database_that_is_lost_while_the_night_runs_is_a_problem(site, database, monkeypatch):
    """With no baseline either, which would say so."""
    database.parent.mkdir()
    before = [
        session(reported(HDF5), uuid=f"{n}", began=NOW - timedelta(n), night=night_id(NOW))
        for n in (1, 2)
    ]
    store(database, *before)
    for last, gone in ((1, "2 of 2 sessions are"), (2, "1 of 1 session is")):
        site(Session(replace_uuid(f"now {last}")), meanwhile=database.unlink)
        (problem,) = nightly.run(Wanted("local")).problems
        assert problem == (
            f"{database}: {gone} gone since the night began: restore it from a backup"
        )
    database.unlink()
    store(database, *before)
    days = {place: (NOW - timedelta(n)).date() for n, place in enumerate(("disk", "tmpfs"), 1)}
    monkeypatch.setattr(OneCase, "archived", days)
    site(Session(replace_uuid("archived")), meanwhile=database.unlink)
    assert nightly.run(Wanted("local")).problems == [], "on the last of these days, too"


def test_blessed_case_that_left_the_nightly_suite_is_named_until_somebody_says_why(
    site, tmp_path, monkeypatch
):
    """Also if it is still in an acceptance test, and the whole suite was green without it."""
    both = {HDF5, MPIIO}
    monkeypatch.setattr(
        OneCase, "cases", lambda self, sweep: {HDF5} if sweep == "nightly" else both
    )
    (tmp_path / "baselines").mkdir()
    bless.write("local", tmp_path, {MPIIO: BLESSED})
    file = tmp_path / "local.yaml"
    named = (
        f"nobody guards 1 blessed case, not in the nightly suite any more: {MPIIO}: put it back, "
        f"or say why under `retired` in {file}"
    )
    broad = (
        f"{file}: `retired` names cases of the nightly suite and counts for nothing: "
        "local:tmpfs/.*: name only what is not measured"
    )
    for text, notes in (
        ("{}", [named]),
        ("retired:\n  local:.*/backend=posix/.*: it is slow, ticket 1\n", [named]),
        ("retired:\n  local:tmpfs/.*: all gone, ticket 1\n", [broad, named]),
        ("retired:\n  local:.*/backend=mpiio/.*: hdf5 is enough, ticket 1\n", []),
    ):
        file.write_text(text)
        site(Session(replace_uuid(text)))
        night = nightly.run(Wanted("local"))
        said = [note for note in night.notes if "begins anew" not in note]
        assert (night.colour, said) == ("green", notes)


def test_entries_that_are_of_no_case_of_the_site_are_noted(site, tmp_path):
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
    site(Session(GREEN))
    entries = {
        "local.yaml": "local:tmpfs/.*/backend=HDF5/.*",
        "expected_failures/local.yaml": "local:tmp/.*",
    }
    night = nightly.run(Wanted("local"))
    assert (night.is_red, night.problems) == (False, [])
    assert [note for note in night.notes if "match no case" in note] == [
        f"{tmp_path / file}: 1 of its entries match no case of the site and count for nothing: "
        f"{named}: `iowatch rename` gives them the new name of a place; mend or remove others"
        for file, named in entries.items()
    ]


def test_page_that_cannot_be_written_is_a_problem(site, database, monkeypatch):
    (database.parent / f"report-local-{night_id(NOW)}.html").mkdir(parents=True)
    monkeypatch.setattr(nightly, "night_id", lambda now: night_id(NOW))
    site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    (problem,) = night.problems
    assert problem.endswith(".html: cannot be written: it is no regular file")
    assert night.page is None


def test_record_that_cannot_be_written_is_a_problem(site, database):
    database.parent.mkdir()
    (database.parent / record.FOLDER).write_text("no folder")
    site(Session(GREEN))
    *_, problem = nightly.run(Wanted("local")).problems
    assert "/nights/local-" in problem
    assert problem.endswith(".json: cannot be written: File exists")


def test_clock_that_is_set_back_during_the_night_hides_no_verdict(site):
    ended = NOW + timedelta(hours=2)
    test = reported(HDF5, ended, promised=1, result="fail", verdict="severe")
    site(Session(session(test, uuid="1", began=NOW), status=1))
    night = nightly.run(Wanted("local"))
    assert [str(row.kind) for row in night.red] == ["severe"]
    assert night.problems == []


def test_session_stored_without_its_night_hides_no_verdict(site):
    """It was cut off before ReFrame wrote down which night it was of."""
    test = reported(HDF5, promised=2, result="fail", verdict="severe")
    site(Session(session(test, uuid="1"), status=1), says_night=False)
    assert [str(row.kind) for row in nightly.run(Wanted("local")).red] == ["severe"]


def test_signal_after_the_session_loses_nothing(site, monkeypatch):
    """While the night is judged: else nobody would see what was measured."""
    look_back = nightly.look_back

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGTERM)
        return look_back(*arguments)

    monkeypatch.setattr(nightly, "look_back", interrupted)
    monkeypatch.setattr(nightly, "ignore_signals", ignore_signals)
    site(Session(GREEN))
    with interruptible():
        night = nightly.run(Wanted("local"))
    assert (len(night.cases), night.problems, night.signal) == (1, [], 0)


def test_baseline_that_was_lost_makes_the_night_red(site, database):
    before = session(reported(HDF5), uuid="before", began=NOW - timedelta(1), night="2026-01-01")
    (test,) = before["runs"][0]["testcases"]
    test["perfvalues"]["local:tmpfs:drift"] = [0.1, 0, None, None, "1", "pass"]
    database.parent.mkdir()
    store(database, before)
    site(Session(GREEN))
    (problem,) = nightly.run(Wanted("local")).problems
    assert problem.startswith("the baseline of 1 case is gone since the night before: ")


# Re-runs


def blessed_past(database, folder, *tonight):
    """A blessed case with 40 usual nights, and runs of tonight: (hours ago, rate, verdict)."""
    sessions = []
    for ago in range(40, 0, -1):
        began = NOW - timedelta(days=ago)
        test = reported(HDF5, began, 1000.0)
        sessions.append(session(test, uuid=f"{ago}", began=began, night=night_id(began)))
    night = night_id(NOW - timedelta(hours=13))
    for hours, rate, verdict in tonight:
        time = NOW - timedelta(hours=hours)
        test = reported(HDF5, time, rate, verdict=verdict, promised=1)
        sessions.append(session(test, uuid=f"tonight {hours}", began=time, night=night))
    database.parent.mkdir()
    store(database, *sessions)
    first, last = (sessions[n]["session_info"]["night"] for n in (0, 29))
    entry = replace(
        BLESSED, bandwidth=1000.0, ratio=None, ratio_spread=None, finish_fraction=None,
        first=first, last=last, blessed=day_of(last),
    )  # fmt: skip
    (folder / "baselines").mkdir()
    bless.write("local", folder, {HDF5: entry})
    return night


def test_rerun_is_a_part_of_its_night(site, database, tmp_path):
    night = blessed_past(database, tmp_path, (12, 300.0, "suspect"), (8, 300.0, "suspect"))
    well = session(reported(HDF5, NOW, 990.0, promised=1), uuid="again", began=NOW)
    given = site(Session(well))
    found = nightly.run(Wanted("local", again=True))
    assert [(each.options, each.night) for each in given] == [
        (
            ["--system", "local:tmpfs", "-p", "^gnu$", "--name=/a1", "--timestamp=nightly"],
            night,
        )
    ]
    (row,) = found.cases
    assert (found.id, [run.metrics["total_max"] for run in row.runs]) == (night, [300, 300, 990])
    assert (row.kind, found.problems, found.notes) == ("ok", [], [])
    with pytest.raises(NothingDue, match=r"^local: no re-run is due$"):
        nightly.run(Wanted("local", again=True))


def test_rerun_of_a_red_night_does_not_make_it_green(site, database, tmp_path):
    """What runs again is green, and what was wrong before is on record."""
    low = reported(HDF5, NOW - timedelta(minutes=1), 300.0, verdict="suspect", promised=1)
    blessed_past(database, tmp_path)
    site(Session(session(low, uuid="low", began=NOW), status=3, stopped="killed"))
    first = nightly.run(Wanted("local"))
    assert (first.colour, first.problems) == ("red", ["killed"])
    parts = [nightly.Part(["a"], {HDF5})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly, "_reruns", lambda *arguments: (first.id, parts))
        well = session(reported(HDF5, NOW, 990.0, promised=1), uuid="again", began=NOW)
        site(Session(well))
        again = nightly.run(Wanted("local", again=True))
    assert (again.colour, again.problems) == ("red", ["killed"])
    assert shown_later(database).problems == ["killed"]
    assert [row.kind for row in again.cases] == ["ok"]


def test_rerun_of_one_case_says_that_another_is_red(site, database):
    bad = reported(MPIIO, NOW, result="fail", verdict="severe", sentence=f"{MPIIO}: it is slow")
    night = night_id(NOW - timedelta(hours=1))
    database.parent.mkdir()
    store(database, session(bad, reported(HDF5, NOW), uuid="first", began=NOW, night=night))
    parts = [nightly.Part(["a"], {HDF5})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly, "_reruns", lambda *arguments: (night, parts))
        well = session(reported(HDF5, NOW, 990.0, promised=1), uuid="again", began=NOW)
        site(Session(well))
        again = nightly.run(Wanted("local", again=True))
    assert ([row.case for row in again.cases], again.colour) == ([HDF5], "red")
    assert again.notes[-1].startswith("the night as a whole is red: mpiio on tmpfs: ")


def test_rerun_has_the_last_word_though_the_clock_was_set_back(site, database, tmp_path):
    blessed_past(database, tmp_path, (5, 300.0, "suspect"))
    early = NOW - timedelta(hours=6)
    site(Session(session(reported(HDF5, early, 990.0, promised=1), uuid="again", began=early)))
    (row,) = nightly.run(Wanted("local", again=True)).cases
    assert [run.metrics["total_max"] for run in row.runs] == [300, 990]
    assert row.kind == "ok"


def test_rerun_that_is_not_due_yet(site, database, tmp_path):
    blessed_past(database, tmp_path, (3, 300.0, "suspect"))
    site()
    due = NOW + timedelta(hours=1)
    sentence = rf"^local: no re-run is due: the next from {due:%Y-%m-%d %H:%M} UTC$"
    with pytest.raises(NothingDue, match=sentence):
        nightly.run(Wanted("local", again=True))


def test_old_night_is_not_continued(site, database, tmp_path):
    """Nor one that is the last only because the clock was set back."""
    night = blessed_past(database, tmp_path, (60, 300.0, "suspect"))
    ahead = NOW + timedelta(days=1)
    later = reported(HDF5, ahead, 300.0, verdict="suspect", promised=1)
    store(database, session(later, uuid="later", began=ahead, night=night_id(ahead)))
    given = site()
    said = rf"^local: no re-run is due: the last night, {night}, ended on .* more than 2 days ago$"
    with pytest.raises(NothingDue, match=said):
        nightly.run(Wanted("local", again=True))
    assert given == []


def test_suspect_says_the_command_that_runs_it_again(site, database, tmp_path):
    blessed_past(database, tmp_path)
    low = reported(HDF5, NOW - timedelta(minutes=1), 300.0, verdict="suspect", promised=1)
    site(Session(session(low, uuid="low", began=NOW)))
    (note,) = nightly.run(Wanted("local")).notes
    assert note.startswith("1 case is suspect, and re-runs are due from ")
    assert note.endswith(" UTC: iowatch nightly --system local --again")
    acceptance = Wanted("archer:fs3", sweep="acceptance").rerun_command
    assert acceptance == "iowatch nightly --system archer:fs3 --sweep acceptance --again"


def test_night_that_was_killed_goes_on_as_the_same(site, database, tmp_path):
    """What is on record was not lost, and one that is over is not continued."""
    resume = Wanted("local", resume=True)
    given = site(Session(GREEN))
    (tmp_path / "runs" / "by hand").mkdir(parents=True)
    with pytest.raises(UserError, match=rf"^--resume: there is no night of local in {tmp_path}$"):
        nightly.run(resume)
    old, last = (night_id(NOW - timedelta(hours=hours)) for hours in (90, 1))
    for night, system, refused in (
        (old, "local", rf"^--resume: the last night, {old}, was not stored, and is over: "),
        (last, "other", rf"^--resume: the last night, {old}, was not stored, and is over: "),
    ):
        (tmp_path / "runs" / night / f"{system}:tmpfs,gnu,LibraryVersions").mkdir(parents=True)
        with pytest.raises(UserError, match=refused):
            nightly.run(resume)
    assert given == []
    (tmp_path / "runs" / last / "local:tmpfs,gnu,LibraryVersions").mkdir()
    night = nightly.run(resume)
    assert (night.id, night.problems) == (last, [])
    ours = ["--timestamp=nightly", "--timestamp=resumed_%FT%H%M%S", "--setvar=resumes=1"]
    assert given == [Given(["--system", "local", *ours], last)]
    said = f"^--resume: the last night, {last}, is on record: nothing of it was lost$"
    with pytest.raises(UserError, match=said):
        nightly.run(resume)


def test_night_that_was_lost_is_a_problem_of_the_next(site, database, tmp_path, monkeypatch):
    """Its session was killed, or deleted; once. By hand or of another system, it is none."""

    def began(hours, told=None, system="local"):
        night = night_id(NOW - timedelta(hours=hours))
        job = tmp_path / "runs" / night / f"{system}:tmpfs,gnu,LibraryVersions" / "job.json"
        job.parent.mkdir(parents=True)
        job.write_text(json.dumps({"night": night if told is None else told}))
        return night

    def problems(uuid):
        site(Session(replace_uuid(uuid)))
        return nightly.run(Wanted("local")).problems

    began(20, told="")
    began(21, system="other")
    began(22)  # on record
    stored = session(reported(HDF5), uuid="was", night=night_id(NOW - timedelta(hours=22)))
    database.parent.mkdir()
    store(database, stored)
    assert problems("first") == []
    lost = began(24)
    (said,) = problems("second")
    assert said.startswith(f"the night {lost} is not in the results database: its session was ")
    assert f"{tmp_path}/runs/{lost}, " in said
    assert problems("third") == [], "it is known"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM sessions WHERE uuid = 'was'")
    (said,) = problems("fourth")
    assert said.startswith(f"the night {night_id(NOW - timedelta(hours=22))} is not in ")
    site(Session(replace_uuid("not stored")), stores=False)
    told = nightly.run(Wanted("local"))
    assert told.problems == ["the session is not in ReFrame's results database"]
    began((NOW - datetime.fromisoformat(f"{told.id}+00:00")) / timedelta(hours=1))
    assert problems("after that") == [], "it was said of the night itself"
    began(90)
    monkeypatch.setattr(OneCase, "archived", {"tmpfs": (NOW - timedelta(days=2)).date()})
    assert problems("fifth") == [], "the site has moved it out"


def test_nothing_to_run_again_before_the_first_night(site, database):
    site()
    sentence = f"^--again: nothing is on record yet: there is no {database}$"
    with pytest.raises(UserError, match=sentence):
        nightly.run(Wanted("local", again=True))
    database.parent.mkdir(exist_ok=True)
    store(database)
    with pytest.raises(NothingDue, match=r"^local: no re-run is due$"):
        nightly.run(Wanted("local", again=True))


def test_sessions_after_one_that_was_stopped_are_not_run(site, monkeypatch):
    parts = [nightly.Part(["a"], {HDF5}), nightly.Part(["b"], {MPIIO})]
    monkeypatch.setattr(nightly, "_reruns", lambda *arguments: (night_id(NOW), parts))
    stopped = Session(GREEN, stopped="interrupted by SIGTERM", signal=signal.SIGTERM)
    given = site(stopped)
    night = nightly.run(Wanted("local", again=True))
    assert [each.options for each in given] == [["a", "--timestamp=nightly"]]
    assert night.problems == ["interrupted by SIGTERM", f"1 of 1 case was not run: {MPIIO}"]
    assert night.signal == signal.SIGTERM


# The command


def test_duration():
    for text, seconds in (("90m", 5400), ("6h", 21600), ("1d12h", 129600), ("1h1m1s", 3661)):
        assert read_duration(text) == timedelta(seconds=seconds)
    for text in ("", "6", "0h", "h", "-1h", "6 h", "1m1h", "six", "9" * 30 + "d"):
        with pytest.raises(ValueError, match="not a time such as"):
            read_duration(text)


def judged(*tests, **changes):
    """The night of these tests."""
    runs = list(nightly.runs_of(session(*tests, began=NOW, night=night_id(NOW))))
    found = night_of("local", night_id(NOW), runs, nightly.Known(), NOW + timedelta(days=1))
    return replace(found, **changes)


ALL_WELL = judged(reported(HDF5))
NOT_MEASURED = judged(
    reported(HDF5),
    reported(MPIIO, verdict="not_measured", result="skip", sentence=f"{MPIIO}: away"),
)
INTERRUPTED = judged(
    reported(HDF5), problems=["interrupted by SIGTERM"], signal=int(signal.SIGTERM)
)
NOTHING_RAN = Night("local", night_id(NOW), problems=["nothing ran"])


@pytest.fixture
def ends(monkeypatch):
    """ends(Night or what is raised, *options): the command, whose night ends so."""
    monkeypatch.delenv(notices.WEBHOOK, raising=False)

    def invoke(end, *options):
        def run(wanted):
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(nightly, "run", run)
        return CliRunner().invoke(app, ["nightly", "--system", "local", *options])

    return invoke


@pytest.fixture
def mails(monkeypatch):
    """The mails that are sent."""
    sent = []
    monkeypatch.setattr(Outbox, "send", lambda self, notice: sent.append(notice))
    return sent


def test_exit_code_output_and_mail(ends, mails):
    usage, ctrl_c = UserError("no such system"), Interrupted(signal.SIGINT)
    due = NothingDue("local: no re-run is due")
    refused = "iowatch: error: no such system\n"
    told = [
        (ALL_WELL, 0, "green: 1 case measured, ", "green, 1 case"),
        (NOTHING_RAN, 1, "problem: nothing ran\n", "red, 0 of 0 cases, 1 problem"),
        (
            NOT_MEASURED,
            4,
            "amber: 1 case measured, 1 not measured, 0 with a red",
            "amber, 2 cases, 1 not measured",
        ),
        (
            INTERRUPTED,
            143,
            "problem: interrupted by",
            "red, interrupted, 0 of 1 case, 1 problem",
        ),
        (usage, 2, refused, "not run"),
        (ctrl_c, 130, "iowatch: error: interrupted by SIGINT\n", "not run"),
        (due, 0, "local: no re-run is due\n", None),
    ]
    for end, code, text, subject in told:
        done = ends(end, "--mail", "io@example.org")
        assert done.exit_code == code, end
        if isinstance(end, BaseException):
            assert done.output == text
        assert text in done.output
        if subject is None:
            assert mails == []
            continue
        (mail,) = mails
        mails.clear()
        assert mail.title == f"iowatch local {datetime.now(UTC):%Y-%m-%d}: {subject}"
        assert text.removeprefix("iowatch: error: ").strip() in mail.text
    assert ends(due, "--again", "--quiet").output == ""


NO_HOOK = "--webhook: not a URL: give the URL that the chat has made for the webhook, https://..."


def test_wrong_usage_is_one_line_and_runs_nothing(ends):
    for options, sentence in (
        (["--sweep", "weekly"], "--sweep weekly: there are nightly and acceptance"),
        (["--time-limit", "soon"], "--time-limit: not a time such as 90m, 6h or 1d12h: 'soon'"),
        (["--again", "-n", "hdf5"], "--again runs what is due: leave out --name"),
        (["--again", "--resume"], "--resume ends the whole night: leave out --again and --name"),
        (["--mail", "-oops"], "--mail -oops: not one mail address"),
        (["--webhook", "file:///etc/passwd"], NO_HOOK),
        (["--webhook", "https:///secret"], NO_HOOK),
        (["--webhook", "http://[::1/secret"], NO_HOOK),
        (
            ["hdf5"],
            "hdf5: no option of iowatch: those of ReFrame follow `--`, such as `-- -J "
            "reservation=NAME`",
        ),
    ):
        done = ends(AssertionError("it ran"), *options)
        assert (done.exit_code, done.output) == (2, f"iowatch: error: {sentence}\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--disable-hook=set_verdict"],
            "--disable-hook=set_verdict: no option of ReFrame's for a",
        ),
        (["--disable-ho", "set_verdict"], "--disable-ho: no option of ReFrame's for a night"),
        (["-C", "memory.py"], "-C: no option of ReFrame's for a night"),
        (["-S", "verdict=ok"], "--setvar verdict=ok: a night may set only repeats, "),
        (["-vSSharedFileWrite.verdict=ok"], "--setvar SharedFileWrite.verdict=ok: a night may set"),
        (["-S"], "after `--`: argument -S/--setvar: expected one argument"),
        (["-v", "-J", "qos=io", "-S", "repeats=1", "-S", "SlowOst.time_limit=1h"], ""),
    ],
)
def test_option_of_reframes_that_could_switch_judging_off_is_refused(ends, options, said):
    done = ends(ALL_WELL, "--", *options)
    assert (done.exit_code == 2) == bool(said), done.output
    assert done.stderr.startswith(f"iowatch: error: {said}" if said else "")


def test_what_was_measured_otherwise_or_in_part_is_noted_wherever_the_night_is_shown(
    site, database, monkeypatch
):
    site(Session(GREEN))
    whole = nightly.read_site("local")
    monkeypatch.setattr(nightly, "read_site", lambda system: replace(whole, is_whole=False))
    nightly.run(Wanted("local:tmpfs", options=["-S", "repeats=1"]))
    assert shown_later(database).notes[-2:] == [
        "ReFrame was also given: -S repeats=1", "only local:tmpfs was asked for, 1 case",
    ]  # fmt: skip


def test_mail_that_fails_is_said_and_no_green_night(monkeypatch, ends, mails):
    def refuse(self, notice):
        raise NotSent("no mail to root: no such user")

    monkeypatch.setattr(Outbox, "send", refuse)
    for night, code in ((ALL_WELL, 3), (NOT_MEASURED, 3), (NOTHING_RAN, 1), (INTERRUPTED, 143)):
        done = ends(night, "--mail", "root")
        assert (done.exit_code, done.stderr) == (
            code, "iowatch: error: no mail to root: no such user\n",
        )  # fmt: skip
        measured = len(night.cases) - len(night.amber)
        assert f"{counted(measured, 'case')} measured" in done.stdout


def test_night_runs_although_its_mail_cannot_be_sent(ends, monkeypatch):
    monkeypatch.setattr(notices.shutil, "which", lambda name, path: None)
    done = ends(ALL_WELL, "--mail", "root")
    assert (done.exit_code, done.stderr) == (
        3,
        "iowatch: error: no mail to root: there is no sendmail on this machine: install a mail "
        "server\n",
    )
    assert "green: 1 case measured" in done.stdout


def test_webhook_has_the_summary_and_none_is_no_other_verdict(ends, monkeypatch):
    """A real server; a chat's own."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    day = f"iowatch local {datetime.now(UTC):%Y-%m-%d}"
    red = red_night(problems=["disk <b> & more"], page=Path("/results/page.html"))
    with posts() as server:
        for night, code in ((ALL_WELL, 0), (red, 1), (UserError("no such system"), 2)):
            assert ends(night, "--webhook", server.url).exit_code == code
        well, bad, refused = [document["text"].splitlines() for document in server.got]
        assert all(document.keys() == {"text"} for document in server.got)
        assert server.headers[0]["Content-Type"] == "application/json"
        assert well == [f"{day}: green, 1 case"]
        assert bad[:2] == [
            f"{day}: red, 1 of 2 cases, 1 problem", "Problem: disk &lt;b&gt; &amp; more",
        ]  # fmt: skip
        assert bad[2].startswith("regression: hdf5 on tmpfs: the stable rate is ")
        assert bad[-1] == "The page: /results/page.html"
        assert refused == [f"{day}: not run", "no such system"]
        assert ends(NothingDue("not due"), "--again", "--webhook", server.url).exit_code == 0
        assert len(server.got) == 3

        # Whatever becomes of it, the night is what it is, and the URL remains a secret.
        gone = f"http://127.0.0.1:{free_port()}/secret"
        monkeypatch.setenv("IOWATCH_WEBHOOK", server.url)
        for url, status, answers, why in (
            ("", 500, True, "it answered 500 Internal Server Error"),
            ("", 302, True, "it answered 302 Found"),
            (gone, 200, True, "[Errno 111] Connection refused"),
            ("", 200, False, "timed out"),
        ):
            server.status, server.location = status, server.url if status == 302 else ""
            (server.answers.set if answers else server.answers.clear)()
            if not answers:
                monkeypatch.setattr(notices, "WEBHOOK_TIMEOUT_S", 0.3)
            for night, code in ((ALL_WELL, 3), (red, 1), (INTERRUPTED, 143)):
                done = ends(night, *(["--webhook", url] if url else []))
                said = f"nothing posted to the webhook at 127.0.0.1: {why}\n"
                assert (done.exit_code, done.stderr) == (code, f"iowatch: error: {said}")
                assert f"{counted(len(night.cases), 'case')} measured" in done.stdout
                assert "secret" not in done.output


def test_message_has_a_line_for_each_alarm_and_each_reason_why_cases_were_not_measured():
    away = {"verdict": "not_measured", "result": "skip"}
    others = [changed(HDF5, writers=writers) for writers in (2, 3, 5)]
    *gone, queued = (reported(of, sentence=f"{of}: away", **away) for of in others)
    queued["sentence"] = f"{others[-1]}: still queued"
    night = judged(reported(HDF5), *gone)
    assert as_message(night) == "not_measured: 2 cases: away"
    night = judged(reported(HDF5), *gone, queued)
    (name,) = (row.name for row in night.cases if row.case == others[-1])
    assert sorted(as_message(night).splitlines()) == [
        "not_measured: 2 cases: away", f"not_measured: {name}: still queued",
    ]  # fmt: skip
    night = red_night()
    alarm = Alarm("tmpfs", Kind.REGRESSION, "slow", night.red, frozenset(r.case for r in night.red))
    assert as_message(replace(night, alarms=[alarm])) == "regression: tmpfs: slow"


def test_mail_and_webhook_are_sent_both_even_if_one_fails(ends, mails, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with posts() as server:
        server.status = 404
        done = ends(ALL_WELL, "--mail", "root", "--webhook", server.url)
        assert (done.exit_code, len(mails), len(server.got)) == (3, 1, 1)


@pytest.fixture
def sendmail(monkeypatch, tmp_path):
    """The file that a stand-in for sendmail, first on PATH, writes to."""
    program = tmp_path / "sendmail"
    program.write_text(f"#!/bin/sh\n{ONE_ADDRESS}\ncat > {tmp_path}/mail\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "mail"


ENDED_NIGHT = """\
import sys
sys.path[:0] = sys.argv[1].split(":")
import test_nightly
from iowatch.cli import app
from iowatch.night import nightly
nightly.run = lambda wanted: test_nightly.ALL_WELL
app(["nightly", "--system", "local", "--mail", "root"])
"""


@pytest.mark.parametrize(
    ("into", "code", "said"),
    [
        (">/dev/full", 3, "the summary cannot be printed: No space left on device\n"),
        ("| true", 3, "the summary cannot be printed: nobody reads it\n"),
        (">&-", 0, ""),
    ],
)
def test_output_that_goes_nowhere_loses_neither_mail_nor_verdict(
    sendmail, tmp_path, into, code, said
):
    program = shlex.join([sys.executable, "-c", ENDED_NIGHT, f"{HERE}:{HERE.parent}"])
    done = subprocess.run(
        ["bash", "-c", f"{program} {into}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    mail = sendmail.read_text()
    assert "\ngreen: 1 case measured, 0 with a red verdict" in mail
    assert done.returncode == code, done.stderr
    assert done.stderr.endswith(said and f"iowatch: error: {said}")
    assert "Traceback" not in done.stderr


NOTHING_DUE = """\
from iowatch.cli import app
from iowatch.night import nightly
def run(wanted):
    raise nightly.NothingDue("no re-run is due")
nightly.run = run
app(["nightly", "--system", "local", "--again"])
"""


@pytest.mark.parametrize("words", [("-c", NOTHING_DUE), ("-m", "iowatch", "--help")])
def test_what_cannot_be_printed_is_one_line(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    said = "iowatch: error: what there is to say cannot be printed: No space left on device\n"
    assert done.stderr == said


FILE_WITHOUT_NAME = """\
import os, sys
from iowatch.cli import app
from iowatch.night import nightly
def run(wanted):
    print("something", flush=True)
    os.write(os.open("/dev/full", os.O_WRONLY), b"such as a job's file")
nightly.run = run
app(["nightly", "--system", "local"])
"""


def test_a_file_that_cannot_be_written_is_not_what_is_printed():
    """Python says of it neither its name nor that it is another."""
    done = subprocess.run([sys.executable, "-c", FILE_WITHOUT_NAME], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "something\n")
    assert done.stderr.endswith("\nOSError: [Errno 28] No space left on device\n")
    assert "printed" not in done.stderr


def test_closed_output_is_not_the_next_file_that_is_opened(tmp_path):
    """ReFrame would write there: to the lock file, or to the database."""
    script = (
        "import sys, os; from iowatch.cli import app; from iowatch.night import nightly\n"
        "def run(wanted):\n"
        "    os.set_inheritable(os.open('a file', os.O_RDWR | os.O_CREAT), True)\n"
        "    os.system('echo what ReFrame says')\n"
        "    raise nightly.NothingDue\n"
        "nightly.run = run; app(['nightly', '--system', 'local'])\n"
    )
    command = f"{shlex.join([sys.executable, '-c', script])} >&-"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a file").read_text() == ""


@pytest.mark.parametrize(("system", "shown"), [("no\nsuch", "no such"), ("no\udcff", "no?")])
def test_name_that_is_no_line_is_shown_as_one(sendmail, system, shown):
    done = CliRunner().invoke(app, ["nightly", "--system", system, "--mail", "root"])
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert line.startswith(f"iowatch: error: --system {shown}: no configuration file has this")
    assert (
        f"\nSubject: iowatch {shown} {datetime.now(UTC):%Y-%m-%d}: not run\n"
        in sendmail.read_text()
    )


# The table


def red_night(**changes):
    """HDF5 has regressed."""
    low = reported(HDF5, result="fail", verdict="regression", sentence="ratio is 0.1")
    return judged(low, reported(MPIIO), **changes)


ROW = ["4", "0.5", "0.50", "50.0", "regression"]  # writers and all that follows


def test_table_fits_eighty_columns_and_explains_what_is_red():
    lines = as_text(red_night()).splitlines()
    assert max(map(len, lines)) <= 80
    (where,) = [number for number, line in enumerate(lines) if line.endswith(" regression")]
    assert lines[where + 1].strip() == "ratio is 0.1"
    assert lines[where].split() == ["write", "shared", "hdf5", "64x64x64", *ROW]
    assert lines[where - 1] == "tmpfs"
    assert lines[-1].startswith("red: 2 cases measured, 1 with a red verdict, 0 problems")
    known = reported(HDF5, result="xfail", verdict="defect", sentence="slow (until 2027)")
    lines = as_text(judged(known)).splitlines()
    (where,) = [number for number, line in enumerate(lines) if line.endswith(" defect (known)")]
    assert lines[where + 1] == "    slow (until 2027)"
    assert lines[-1].startswith("green: ")


def test_columns_never_run_together_and_sentences_are_one_line():
    """Long names, a narrow terminal, more text than fits: rows take two lines."""
    sentence = "hdf5 is slow: " + "and " * 50 + "so on"
    place = "local:scratch_gpuwrite/gnu"
    values = {"stripe_count": -1, "stripe_size": 1, "local_size": (128, 128, 128)}
    slow, fine = (changed(each, place=place, **values) for each in (HDF5, MPIIO))
    load = changed(fine, check="SystemLoad", instances=2)  # the longest: `write shared x2`
    night = judged(
        reported(slow, result="fail", verdict="regression", sentence=sentence),
        reported(fine),
        reported(load),
    )
    for width in (40, 80, 100):
        text = io.StringIO()
        show_night(night, Console(file=text, width=width, highlight=False))
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        assert "scratch_gpuwrite" in lines
        assert f"    {sentence}" in lines
        (row,) = [line for line in lines if "regression" in line]
        assert row.split()[-10:] == ["hdf5", "all", "x", "1", "128x128x128", *ROW], width
        rows = [line for line in lines[:-2] if sentence not in line]
        assert width == 40 or max(map(len, rows)) <= width
    coloured = io.StringIO()
    show_night(night, Console(file=coloured, force_terminal=True, width=100))
    red = [line for line in coloured.getvalue().splitlines() if "\x1b[31m" in line]
    assert any("regression" in line for line in red)
    assert not any("mpiio" in line for line in red)


def test_one_alarm_takes_the_place_of_many_sentences():
    night = red_night(problems=["[red]no[/red]"])
    said, rows, merged = "1 of 2 cases are [b]slow[/b]", night.red, frozenset({HDF5})
    alarm = Alarm("fs3", Kind.REGRESSION, said, rows, merged)
    text = as_text(replace(night, alarms=[alarm]))
    assert "ratio is 0.1" not in text
    assert f"\nregression: fs3: {said}\n    hdf5 on tmpfs: regression\n" in text, text
    assert "1 with a red verdict, 1 red alarm of several cases, 1 problem" in text
    assert in_brief(replace(night, alarms=[alarm])).startswith("red, fs3 is slow, 1 of 2 cases")
    known = replace(alarm, known="expected until then")
    assert "regression (known): fs3: " in as_text(replace(night, alarms=[known]))
    assert " regression\n" in text
    assert "\nproblem: [red]no[/red]\n" in text, "no markup"
    assert text.replace("\n", "").isprintable()


def test_night_in_brief():
    stopped = red_night(signal=15, problems=["interrupted by SIGTERM"])
    assert in_brief(judged(reported(MPIIO))) == "green, 1 case"
    assert in_brief(red_night()) == "red, 1 of 2 cases"
    assert in_brief(stopped) == "red, interrupted, 1 of 2 cases, 1 problem"
