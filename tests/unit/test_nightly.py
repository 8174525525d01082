"""A night as a whole, with stand-ins for its sessions."""

import signal
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner
from unit.reported import HDF5, MPIIO, reported, session

from iowatch import cli as commands
from iowatch.cli import app
from iowatch.night import nightly
from iowatch.night.gate import gate
from iowatch.night.mail import MailError, Outbox
from iowatch.night.nightly import NothingDue, Wanted, read_duration
from iowatch.night.session import Interrupted, Session, ignore_signals, interruptible
from iowatch.site import Filesystem, UsageError


class OneCase(Filesystem):
    """A filesystem whose sweeps are HDF5 alone."""

    def cases(self, sweep):
        return {HDF5}

    def profiles(self, sweep):
        return set()


@pytest.fixture
def site(monkeypatch, tmp_path):
    """site(Session...): a site whose sessions end so; gives the options that each is given."""
    place = OneCase("local", "tmpfs", ("gnu",), "tmpfs", "/x", ("tmpfs",), 1e6, None, True, 4, {})
    monkeypatch.setattr(nightly, "filesystems", lambda system: [place])
    monkeypatch.setattr(nightly, "results_database", lambda: tmp_path / "results.db")
    monkeypatch.setattr(nightly, "is_stored", lambda system, uuid: uuid == "1")
    monkeypatch.setattr(nightly, "ignore_signals", lambda: None)  # pytest wants its Ctrl-C

    def sessions(*ends):
        given, left = [], list(ends)

        def run_session(options, deadline, quiet, lock):
            given.append(options)
            return left.pop(0)

        monkeypatch.setattr(nightly, "run_session", run_session)
        return given

    return sessions


GREEN = session(reported(HDF5))


def test_green_night(site):
    given = site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    assert (night.is_red, night.problems, night.notes) == (False, [], [])
    assert given == [["--system", "local"]]


def test_access_pattern_that_was_not_looked_at_is_missed(site, monkeypatch):
    site(Session(GREEN))
    monkeypatch.setattr(OneCase, "profiles", lambda self, sweep: {MPIIO})
    assert nightly.run(Wanted("local")).problems == [
        f"1 of 1 access patterns not looked at: {MPIIO}"
    ]


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        ({"sweep": "acceptance"}, ["--mode=acceptance"]),
        ({"record": True}, ["--setvar=record=1"]),
        ({"sweep": "acceptance", "record": True}, ["--mode=acceptance", "--setvar=record=1"]),
        ({"names": ["hdf5", "/a1"]}, ["--name=hdf5", "--name=/a1"]),
    ],
)
def test_options_that_reframe_gets(site, wanted, options):
    """The site's own mode for a sweep: it may allow longer jobs, too."""
    given = site(Session(GREEN))
    nightly.run(Wanted("local", **wanted))
    assert given == [["--system", "local", *options]]


@pytest.mark.parametrize(
    ("end", "problems"),
    [
        (Session(GREEN, status=1), ["reframe ended with exit code 1"]),
        (
            Session({**GREEN, "session_info": {"uuid": "2"}}),
            ["the session is not in ReFrame's results database"],
        ),
        (
            Session(GREEN, stopped="the time limit was reached"),
            ["the time limit was reached"],
        ),
        (
            Session(None, status=1, error="ERROR: no such check"),
            [
                f"1 of 1 cases not run: {HDF5}",
                "LibraryVersions did not run on tmpfs+gnu",
                "reframe: ERROR: no such check",
            ],
        ),
    ],
)
def test_green_report_is_not_enough(site, end, problems):
    site(end)
    night = nightly.run(Wanted("local"))
    assert night.problems == problems
    assert night.is_red


def test_sessions_after_one_that_was_stopped_are_not_run(site, monkeypatch):
    parts = [nightly.Part(["a"], {HDF5}, False), nightly.Part(["b"], {MPIIO}, False)]
    monkeypatch.setattr(nightly, "_reruns", lambda *arguments: parts)
    stopped = Session(GREEN, stopped="interrupted by SIGTERM", signal=signal.SIGTERM)
    given = site(stopped)
    night = nightly.run(Wanted("local", again=True))
    assert given == [["a"]]
    assert night.problems == ["interrupted by SIGTERM", f"1 of 1 cases not run: {MPIIO}"]
    assert night.signal == signal.SIGTERM


def test_signal_after_the_session_loses_nothing(site, monkeypatch):
    """While ReFrame is asked whether the session is on record, or nobody would see what is."""

    def is_stored(system, uuid):
        return signal.raise_signal(signal.SIGTERM) is None

    monkeypatch.setattr(nightly, "is_stored", is_stored)
    monkeypatch.setattr(nightly, "ignore_signals", ignore_signals)
    site(Session(GREEN))
    with interruptible():
        night = nightly.run(Wanted("local"))
    assert (len(night.rows), night.problems, night.signal) == (1, [], 0)


def test_history_that_cannot_be_read_is_a_problem(site, tmp_path):
    (tmp_path / "results.db").write_text("no database\n" * 99)
    site(Session(GREEN))
    night = nightly.run(Wanted("local"))
    assert len(night.problems) == 1
    assert "results.db: damaged, or no SQLite database" in night.problems[0]


def test_nothing_is_due_without_suspects(site, tmp_path):
    with closing(sqlite3.connect(tmp_path / "results.db")) as database, database:
        database.execute("CREATE TABLE metadata (schema_version)")
        database.execute("INSERT INTO metadata VALUES ('1.0')")
        database.execute("CREATE TABLE sessions (uuid, session_start_unix, json_blob)")
    site()
    with pytest.raises(NothingDue, match=r"^local: no re-run is due$"):
        nightly.run(Wanted("local", again=True))


def test_nothing_to_run_again_before_the_first_night(site, tmp_path):
    site()
    sentence = f"^--again: nothing is on record yet: there is no {tmp_path}/results.db$"
    with pytest.raises(UsageError, match=sentence):
        nightly.run(Wanted("local", again=True))


def test_command_that_runs_again():
    assert Wanted("archer").rerun_command == "iowatch nightly --system archer --again"
    acceptance = Wanted("archer:fs3", sweep="acceptance").rerun_command
    assert acceptance == "iowatch nightly --system archer:fs3 --sweep acceptance --again"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("6h", 21600), ("1d12h", 129600), ("1h1m1s", 3661)]
)
def test_duration(text, seconds):
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "6", "0h", "h", "-1h", "6 h", "1m1h", "six", "9" * 30 + "d"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="not a time such as"):
        read_duration(text)


def invoke(*options):
    return CliRunner().invoke(app, ["nightly", "--system", "local", *options])


def ends(monkeypatch, end):
    """The night ends so: a Night, or what is raised."""

    def run(wanted):
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(nightly, "run", run)
    monkeypatch.setattr(commands, "results_database", lambda: Path("nowhere.db"))


def interrupted():
    night = gate({HDF5}, GREEN)
    night.problems, night.signal = ["interrupted by SIGTERM"], signal.SIGTERM
    return night


@pytest.mark.parametrize(
    ("night", "code"),
    [
        (gate({HDF5}, GREEN), 0),
        (gate({HDF5}, None), 1),
        (interrupted(), 143),
        (UsageError("no such system"), 2),
        (Interrupted(signal.SIGINT), 130),
        (NothingDue("local: no re-run is due"), 0),
    ],
)
def test_exit_code(monkeypatch, night, code):
    ends(monkeypatch, night)
    assert invoke().exit_code == code


@pytest.mark.parametrize("error", [UsageError("no such system"), Interrupted(signal.SIGINT)])
def test_error_is_one_line(monkeypatch, error):
    ends(monkeypatch, error)
    assert invoke().output == f"iowatch: error: {error}\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--sweep", "weekly"], "--sweep weekly: there are nightly and acceptance"),
        (["--time-limit", "soon"], "--time-limit: not a time such as 90m, 6h or 1d12h: 'soon'"),
        (
            ["--again", "-n", "hdf5"],
            "--again runs what is due: leave out --name",
        ),
        (["--mail", "-oops"], "--mail -oops: not one mail address"),
    ],
)
def test_wrong_usage_is_one_line_and_runs_nothing(monkeypatch, options, sentence):
    ends(monkeypatch, AssertionError("it ran"))
    result = invoke(*options)
    assert (result.exit_code, result.output) == (2, f"iowatch: error: {sentence}\n")


def test_nothing_due_is_one_line_and_quiet_none(monkeypatch):
    ends(monkeypatch, NothingDue("local: no re-run is due"))
    assert invoke("--again").output == "local: no re-run is due\n"
    assert invoke("--again", "--quiet").output == ""


@pytest.fixture
def mails(monkeypatch):
    """The mails that are sent: subject and text."""
    sent = []
    monkeypatch.setattr(Outbox, "send", lambda self, *mail: sent.append(mail))
    monkeypatch.setattr("iowatch.night.mail.shutil.which", lambda name, path: "/usr/sbin/sendmail")
    return sent


@pytest.mark.parametrize(
    ("night", "what", "text"),
    [
        (gate({HDF5}, GREEN), "green, 1 cases", "green: 1 case(s) measured, "),
        (interrupted(), "red, interrupted, 0 of 1 cases, 1 problem(s)", "problem: interrupted by"),
        (UsageError("no such system"), "not run", "no such system"),
        (Interrupted(signal.SIGINT), "not run", "interrupted by SIGINT"),
    ],
)
def test_mail(monkeypatch, mails, night, what, text):
    ends(monkeypatch, night)
    invoke("--mail", "io@example.org")
    ((subject, body),) = mails
    assert subject.split(": ")[1] == what
    assert subject.startswith("iowatch local 2")
    assert text in body


def test_nothing_due_is_no_mail(monkeypatch, mails):
    ends(monkeypatch, NothingDue("local: no re-run is due"))
    assert invoke("--again", "--mail", "root").exit_code == 0
    assert mails == []


@pytest.mark.parametrize(("report", "code"), [(GREEN, 3), (None, 1)])
def test_mail_that_fails_is_said_and_no_green_night(monkeypatch, mails, report, code):
    def refuse(self, *mail):
        raise MailError("no mail to root: no such user")

    monkeypatch.setattr(Outbox, "send", refuse)
    ends(monkeypatch, gate({HDF5}, report))
    result = invoke("--mail", "root")
    assert result.exit_code == code
    assert result.stderr == "iowatch: error: no mail to root: no such user\n"
    assert "1 case(s) measured" in result.stdout or report is None
