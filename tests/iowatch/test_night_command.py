"""What `iowatch run` prints, sends and ends with, of nights that have ended one way or
another."""

import errno
import io
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from clock import NOW, SET
from nights import eventful
from reported import HDF5, MPIIO, reported, session
from rich.console import Console
from servers import posts
from shown import as_message, as_text, show_night
from typer.testing import CliRunner

from iowatch.base.files import UserError
from iowatch.base.places import CONFIG_FILES
from iowatch.cases.run import night_id
from iowatch.cli import app
from iowatch.night import nightly, notices
from iowatch.night.gate import night_of
from iowatch.night.night import Night
from iowatch.night.nightly import NothingDue
from iowatch.night.notices import NotSent, Outbox
from iowatch.night.progress import Progress, watch
from iowatch.night.record import SystemRecord
from iowatch.night.session import Interrupted
from iowatch.night.wanted import Wanted
from iowatch.past.history import runs_of

DAY = f"iowatch local {NOW:%Y-%m-%d}"
REGRESSION = {"result": "fail", "verdict": "regression (own_past)", "sentence": "ratio is 0.1"}


def judged(*tests, **changes):
    """The night of these tests."""
    runs = list(runs_of(session(*tests, began=NOW, night=night_id(NOW))))
    record = SystemRecord(system="local", runs=runs, now=NOW)
    return replace(night_of(record, night_id(NOW)), **changes)


def away(of, why="away"):
    return reported(of, verdict="unjudged (maintenance)", result="skip", sentence=why)


ALL_WELL = judged(reported(HDF5))
RED = judged(reported(HDF5, **REGRESSION), reported(MPIIO))
NOT_MEASURED = judged(reported(HDF5), away(MPIIO))
A_PROBLEM = "1 problem with the night as a whole"
STOPPED = {"problems": ["interrupted by SIGTERM"], "signal": int(signal.SIGTERM)}
INTERRUPTED = replace(ALL_WELL, **STOPPED)
NOTHING_RAN = Night(system="local", id=night_id(NOW), problems=["nothing ran"])


@pytest.fixture
def ends(monkeypatch):
    """ends(Night or what is raised, *options): the command, whose night ends so."""
    monkeypatch.delenv("IOWATCH_WEBHOOK", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def invoke(end, *options):
        def run(wanted, publish):
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(nightly, "run", run)
        return CliRunner().invoke(app, ["nightly", "--system", "local", *options])

    return invoke


def test_a_command_leaves_the_environment_as_it_was(monkeypatch):
    for given in (None, "/centre/settings.py"):
        if given:
            monkeypatch.setenv(CONFIG_FILES, given)
        else:
            monkeypatch.delenv(CONFIG_FILES, raising=False)
        done = CliRunner().invoke(app, ["env"])
        assert "site_configs/settings.py" in done.output
        assert os.environ.get(CONFIG_FILES) == given


@pytest.fixture
def mails(monkeypatch):
    """The mails that are sent."""
    sent = []
    monkeypatch.setattr(Outbox, "send", lambda self, notice: sent.append(notice))
    return sent


def test_exit_code_output_and_mail(ends, mails):
    due = NothingDue("local: no re-run is due")
    for end, code, text, subject in (
        (ALL_WELL, 0, "green: 1 case measured, ", ALL_WELL.summary.headline.banner),
        (NOTHING_RAN, 1, "problem: nothing ran\n", f"Red · {A_PROBLEM}"),
        (NOT_MEASURED, 4, "amber: 1 case measured, 1 not", NOT_MEASURED.summary.headline.banner),
        (INTERRUPTED, 143, "problem: interrupted by", f"Red, interrupted · {A_PROBLEM}"),
        (UserError("no such system"), 2, "iowatch: error: no such system\n", "not run"),
        (Interrupted(signal.SIGINT), 130, "iowatch: error: interrupted by SIGINT\n", "not run"),
    ):
        done = ends(end, "--mail", "io@example.org")
        assert done.exit_code == code, end
        assert text in done.output
        assert done.output == text or not isinstance(end, BaseException)
        mail = mails.pop()
        assert mail.title == f"{DAY}: {subject}"
        assert text.removeprefix("iowatch: error: ").strip() in mail.text
    done = ends(due, "--mail", "io@example.org")
    assert (done.exit_code, done.output, mails) == (0, "local: no re-run is due\n", [])
    assert ends(due, "--again", "--quiet").output == ""


NO_HOOK = "--webhook: not a URL: "


def test_wrong_usage_is_one_line_and_runs_nothing(ends):
    for options, message in (
        (["--suite", "weekly"], "--suite weekly: there are nightly, acceptance, hourly"),
        (["--suite", "hourly", "--again"], "--suite hourly is no night: leave out --again, "),
        (["--time-limit", "soon"], "--time-limit: not a time such as 90m, 6h or 1d12h: 'soon'"),
        (["--again", "-n", "hdf5"], "--again runs what is due: leave out --name"),
        (["--again", "--resume"], "--resume ends the whole night: leave out --again and --name"),
        (["--mail", "-oops"], "--mail -oops: not one mail address"),
        (["--webhook", "file:///etc/passwd"], NO_HOOK),
        (["--webhook", "https:///secret"], NO_HOOK),
        (["--webhook", "http://[::1/secret"], NO_HOOK),
        (["hdf5"], "hdf5: no option of iowatch: those of ReFrame follow `--`, such as `-- -J "),
        (["--", "--disable-hook=set_verdict"], "--disable-hook=set_verdict: no option of ReFrame"),
        (["--", "--disable-ho", "set_verdict"], "--disable-ho: no option of ReFrame's for a night"),
        (["--", "-C", "memory.py"], "-C: no option of ReFrame's for a night"),
        (["--", "-S", "verdict=ok"], "--setvar verdict=ok: a night may set only repeats, "),
        (["--", "-vSSharedFileWrite.verdict=ok"], "--setvar SharedFileWrite.verdict=ok: a night"),
        (["--", "-S"], "after `--`: argument -S/--setvar: expected one argument"),
    ):
        done = ends(AssertionError("it ran"), *options)
        assert (done.exit_code, done.output.count("\n")) == (2, 1), options
        assert done.output.startswith(f"iowatch: error: {message}")
        assert "secret" not in done.output
    fine = "-v -J qos=io -S repeats=1 -S SlowOst.time_limit=1h"
    assert ends(ALL_WELL, "--", *fine.split()).exit_code == 0
    with pytest.raises(UserError, match="exclude each other"):
        Wanted(system="local", quiet=True, verbose=True).check()


def test_mail_that_fails_is_said_and_no_green_night(monkeypatch, ends):
    def refuse(self, notice):
        raise NotSent("no mail to root: no such user")

    monkeypatch.setattr(Outbox, "send", refuse)
    for night, code in ((ALL_WELL, 3), (NOT_MEASURED, 3), (NOTHING_RAN, 1), (INTERRUPTED, 143)):
        done = ends(night, "--mail", "root")
        message = "iowatch: error: no mail to root: no such user\n"
        assert (done.exit_code, done.stderr) == (code, message)
        assert " measured" in done.stdout


def test_night_runs_although_its_mail_cannot_be_sent(ends, monkeypatch):
    monkeypatch.setattr(notices.shutil, "which", lambda name, path: None)
    done = ends(ALL_WELL, "--mail", "root")
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1)
    assert "green: 1 case measured" in done.stdout


def test_webhook_has_the_summary_beside_the_mail_and_fails_for_itself(ends, mails, monkeypatch):
    red = replace(RED, problems=["disk <b> & more"], page=Path("/results/page.html"))
    with posts() as server:
        for night, code in ((ALL_WELL, 0), (red, 1), (UserError("no such system"), 2)):
            done = ends(night, "--webhook", server.url, "--mail", "root")
            assert done.exit_code == code
        well, bad, refused = [document["text"].splitlines() for document in server.got]
        assert all(document.keys() == {"text"} for document in server.got)
        assert server.headers[0]["Content-Type"] == "application/json"
        assert well == [f"{DAY}: Green · 1 case"]
        assert bad[:2] == [
            f"{DAY}: {red.summary.headline.banner}",
            "problem: disk &lt;b&gt; &amp; more",
        ]
        assert bad[-1] == "report: /results/page.html"
        assert refused == [f"{DAY}: not run", "no such system"]
        assert ends(NothingDue("not due"), "--again", "--webhook", server.url).exit_code == 0
        assert (len(server.got), len(mails)) == (3, 3)
        server.status = 404
        monkeypatch.setenv("IOWATCH_WEBHOOK", server.url)
        for night, code in ((ALL_WELL, 3), (red, 1), (INTERRUPTED, 143)):
            done = ends(night, "--mail", "root")
            assert (done.exit_code, done.stderr.count("\n")) == (code, 1)
            assert " measured" in done.stdout
            assert "secret" not in done.output
        assert len(mails) == 6


# What cannot be printed

ENDED_NIGHT = """\
import sys
from iowatch.cli import main
from iowatch.night import nightly, notices
from iowatch.night.night import Night
nightly.run = lambda wanted, publish: Night(system="local", id="2026-11-20T003000")
notices.Outbox.send = lambda self, notice: open("mail", "w").write(notice.title)
sys.argv[1:] = ["nightly", "--system", "local", "--mail", "root"]
main()
"""
NOTHING_DUE = """\
import os, sys
from iowatch.cli import main
from iowatch.night import nightly
def run(wanted, publish):
    os.set_inheritable(os.open("a file", os.O_RDWR | os.O_CREAT), True)
    os.system("echo what ReFrame says >&2")
    raise nightly.NothingDue("no re-run is due")
nightly.run = run
sys.argv[1:] = ["nightly", "--system", "local", "--again"]
main()
"""
LONG = """\
import sys
from iowatch.cli import main
from iowatch.night import nightly
nightly.run = lambda wanted, publish: print("something long" * 10000)
sys.argv[1:] = ["nightly", "--system", "local"]
main()
"""
HELP = "import sys; from iowatch.cli import main; sys.argv[1:] = ['--help']; main()"


@pytest.fixture
def program(tmp_path):
    """program(text, into="> file"): its exit code, output and errors."""

    def run(text, into=""):
        command = shlex.join([sys.executable, "-c", SET + text])
        words = ["bash", "-c", f"{command} {into}; exit ${{PIPESTATUS[0]}}"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    ("into", "code", "message"),
    [
        (">/dev/full", 3, "the summary cannot be printed: No space left on device\n"),
        ("| true", 3, "the summary cannot be printed: nobody reads it\n"),
        (">&-", 0, ""),
    ],
)
def test_output_that_goes_nowhere_loses_neither_mail_nor_verdict(
    program, tmp_path, into, code, message
):
    told = message and f"iowatch: error: {message}"
    assert program(ENDED_NIGHT, into) == (code, "", told)
    assert (tmp_path / "mail").read_text() == f"{DAY}: Green · 0 cases"


def test_what_cannot_be_printed_is_one_line(program, tmp_path):
    message = "iowatch: error: no room is left for what is printed: No space left on device\n"
    for text in (HELP, LONG):
        assert program(text, ">/dev/full") == (3, "", message)
    assert program(NOTHING_DUE, ">/dev/full") == (3, "", f"what ReFrame says\n{message}")
    # Closed output is not the next file that is opened, such as the lock or the database.
    assert program(NOTHING_DUE.replace(" >&2", ""), ">&-") == (0, "", "")
    assert (tmp_path / "a file").read_text() == ""


# The texts of a night


def shown(night, width, **how):
    text = io.StringIO()
    show_night(night, Console(file=text, width=width, highlight=False, **how))
    return text.getvalue()


def test_texts_of_a_night(golden):
    """Columns never run together, and a sentence is one line, however narrow the terminal."""
    night = eventful()
    texts = {width: shown(night, width) for width in (40, 80, 100)}
    assert as_text(night) == texts[80].lstrip()
    for width, text in texts.items():
        rows = text.partition("\nproblem: ")[0].splitlines()
        assert width == 40 or max(len(line.rstrip()) for line in rows) <= width
        assert text.replace("\n", "").isprintable()
    parts = {f"{width} columns": text for width, text in texts.items()}
    parts |= {"a chat": as_message(night), "a subject": night.summary.headline.banner}
    text = "".join(f"# {title}\n{text.strip()}\n\n" for title, text in parts.items())
    golden("night.txt", "\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    coloured = [line for line in shown(night, 100, force_terminal=True).splitlines()
                if "\x1b[31m" in line]  # fmt: skip
    assert any("regression (own_past)" in line for line in coloured)
    assert not any(" ok" in line for line in coloured)


# How far it is


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
