"""How a session of ReFrame ends, and the lock of a night: with a stand-in for ReFrame, real
processes and real signals."""

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iowatch.base import locks
from iowatch.base.files import UserError
from iowatch.base.locks import exclusive, holder, locked
from iowatch.night.session import environment, run_session, why_cut_short, why_reframe_failed

ROOT = Path(__file__).parents[2]

# Each stand-in starts a job with a session of its own, as ReFrame does.
STAND_IN = """\
#!/bin/bash
# Stands in for ReFrame: runs one "job" for ever.
while [ "$1" != --report-file ]; do shift; done
report=$2
echo $$ > pid
{job} &
echo $! > job
trap '{term}' INT
trap '' TERM  # lost
echo "to the terminal"
touch started
{body}
"""
DRIVER = """\
import fcntl, json, os, signal, sys, time
from iowatch.night import session
limit, grace, is_quiet, before = json.loads(sys.argv[1])
for number in session.SIGNALS:
    signal.signal(number, signal.SIG_DFL)  # whatever the tests themselves are started with
session.GRACE_S, session.JOB_GRACE_S, session.FOLLOW_S = grace, 0.5, 0.01
heard = []
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
with session.interruptible(), session.held():
    if before:
        os.kill(os.getpid(), before)
    done = session.run_session(
        [], "2026-11-22T025836", time.monotonic() + limit,
        heard.extend if is_quiet else None, [lock.fileno()],
    )
with open("heard", "w") as file:
    json.dump(heard, file)
print(json.dumps(vars(done)))
"""
SLEEPS = "setsid sleep 300"
STUBBORN = "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done'"
ENDS = "kill $(cat job); exit 1"
STORES = f'echo "{{}}" > $report; {ENDS}'
WAITS = "while :; do sleep 0.05; done"
UNTIL_THE_END = f"while [ ! -e end ]; do sleep 0.05; done; {STORES}"
PR_GET_CHILD_SUBREAPER = 37


@pytest.fixture
def start(tmp_path):
    """start(job=, term=, body=, limit=, quiet=): iowatch's side of a session, running.

    `before` is a signal that comes before it.
    """
    started = []

    def begin(job=SLEEPS, term=STORES, body=WAITS, limit=60, grace=30, quiet=False, before=0):
        program = tmp_path / "reframe"
        text = STAND_IN.replace("{job}", job).replace("{term}", term).replace("{body}", body)
        program.write_text(text)
        program.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps([limit, grace, quiet, before])],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        if limit > 10 and not before:
            wait_for((tmp_path / "started").exists)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
    for file in (tmp_path / "pid", tmp_path / "job"):  # what a failed test leaves behind
        if is_running(file) and Path(f"/proc/{file.read_text().strip()}/cwd").resolve() == tmp_path:
            os.kill(int(file.read_text()), signal.SIGKILL)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def result(process):
    """What the session says of itself, and what went to the terminal."""
    text, _ = process.communicate(timeout=60)
    *lines, last = text.splitlines()
    return json.loads(last), lines


def is_running(file: Path) -> bool:
    """Does the process whose id a file holds still run?"""
    try:
        state = Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


def assert_nothing_is_left(folder):
    assert not is_running(folder / "job")
    assert not list(folder.glob("iowatch.*"))


def test_session_that_ends_by_itself(start, tmp_path):
    needed = "$RFM_GENERATE_FILE_REPORTS$RFM_ENABLE_RESULTS_STORAGE"
    body = f'echo "$IOWATCH_NIGHT $IOWATCH_TMPDIR $TMPDIR {needed}" > told; mktemp; {STORES}'
    session, lines = result(start(body=body))
    assert session == {"report": {}, "status": 1, "stopped": "", "signal": 0, "error": ""}
    assert lines[0] == "to the terminal"
    night, jobs, temporary, stores = (tmp_path / "told").read_text().split()
    assert stores == "11", "without them ReFrame reports and stores nothing"
    assert (night, jobs) == ("2026-11-22T025836", str(tmp_path))
    assert Path(temporary).parent == tmp_path
    assert_nothing_is_left(tmp_path)  # its temporary files go with the session


def test_environment_of_reframe(tmp_path):
    """The variable has the last word, whatever a configuration says: of blame nothing is stored."""
    stored = [
        environment(tmp_path, "", is_it)["RFM_ENABLE_RESULTS_STORAGE"] for is_it in (False, True)
    ]
    assert stored == ["0", "1"]
    # A centre's `remote_detect` would start a job in every partition, each night.
    assert environment(tmp_path, "", True)["RFM_REMOTE_DETECT"] == "no"


def test_quiet_session_tells_whole_lines_while_it_runs_and_why_there_is_no_report(start, tmp_path):
    body = (
        "printf 'half a '; sleep 0.3; printf 'line\\n\\377\\nERROR: no such check\\nnot'; sleep 0.3"
    )
    session, lines = result(start(body=f"{body}; {ENDS}", quiet=True))
    assert (session["report"], session["status"], lines) == (None, 1, [])
    assert session["error"] == "ERROR: no such check"
    heard = json.loads((tmp_path / "heard").read_text())
    assert heard == ["to the terminal", "half a line", "\ufffd", "ERROR: no such check"]


@pytest.mark.parametrize("report", ["", '{"runs": ['])
def test_report_that_is_cut_off_is_none(start, tmp_path, report):
    session, _ = result(start(body=f"printf '{report}' > $report; {ENDS}", quiet=True))
    cut_off = f"its report is cut off: is there room left in {tmp_path}?"
    assert (session["report"], session["error"]) == (None, cut_off)


def test_no_room_for_temporary_files(monkeypatch):
    def full(prefix):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("iowatch.night.session.tempfile.TemporaryDirectory", full)
    with pytest.raises(UserError, match=r"^no temporary folder can be made, nothing was run: .*"):
        run_session([], "", 0)
    adopts = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    assert adopts.value == 0, "orphans of other tests would wait for this process"


def test_session_that_was_cut_short_or_is_not_stored_says_why():
    said = "\x1b[31mERROR: run session stopped: value error: no format 'b':\n| /l.py:978\x1b[0m\n"
    assert why_cut_short(said) == "run session stopped: value error: no format 'b'"
    said = "\x1b[33mWARNING: failed to store results in the database: a readonly database\x1b[0m\n"
    assert why_cut_short(said) == "failed to store results in the database: a readonly database"
    assert why_cut_short("[  PASSED  ] Ran 2/2 test case(s)\n") == ""


def test_why_it_failed():
    for output, reason in (
        ("\x1b[31mERROR: no such system\x1b[0m\nLog file(s) saved in x\n", "ERROR: no such system"),
        ('  File "a.py", line 3\n    x = (\nSyntaxError: never closed\n',
         'File "a.py", line 3: SyntaxError: never closed'),
        ("\x1b[32m[ OK ]\x1b[0m (2/4) it\nresults database: [on] /x\n", ""),  # its progress
        ("", ""),
    ):  # fmt: skip
        assert why_reframe_failed(output) == reason


@pytest.mark.parametrize("interrupted", [False, True])
def test_time_limit_lets_reframe_store_and_a_signal_changes_nothing(start, tmp_path, interrupted):
    term = f"touch stopping; while [ ! -e go ]; do sleep 0.05; done; {STORES}"
    process = start(limit=0.5, quiet=True, term=term)
    wait_for((tmp_path / "stopping").exists)
    if interrupted:
        process.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    session, lines = result(process)
    assert lines == [], "a quiet night prints its summary alone"
    assert (session["report"], session["stopped"]) == ({}, "the time limit was reached")
    assert session["signal"] == 0
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(("name", "times"), [("SIGINT", 2), ("SIGTERM", 1), ("SIGHUP", 1)])
def test_signal_lets_reframe_store_and_a_second_one_changes_nothing(start, tmp_path, name, times):
    process = start(term=f"while [ ! -e go ]; do sleep 0.05; done; {STORES}")
    os.killpg(process.pid, signal.Signals[name])  # as Ctrl-C does; ReFrame must not get it
    assert process.stdout.readline() == "to the terminal\n"
    assert process.stdout.readline() == (
        f"iowatch: interrupted by {name}: its jobs are being ended, and what was measured is "
        "stored; this takes 0.53 minutes at most, and no Ctrl-C makes it shorter\n"
    )
    assert is_running(tmp_path / "job"), "it is said at once"
    for _ in range(times):
        os.killpg(process.pid, signal.Signals[name])
        time.sleep(0.1)
    (tmp_path / "go").touch()
    session, lines = result(process)
    assert (session["report"], session["stopped"]) == ({}, f"interrupted by {name}")
    assert lines == [], "and once"
    assert session["signal"] == signal.Signals[name]
    assert_nothing_is_left(tmp_path)


def test_signal_that_came_before_the_session_starts_nothing(start, tmp_path):
    """Between two sessions of one night."""
    session, _ = result(start(before=int(signal.SIGTERM)))
    assert (session["stopped"], session["signal"]) == ("interrupted by SIGTERM", signal.SIGTERM)
    assert not (tmp_path / "started").exists()


LOST = "the session is lost, and the scheduler may still have its jobs"


def test_jobs_of_a_reframe_that_was_killed_are_ended(start, tmp_path):
    process = start()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    session, _ = result(process)
    assert (session["report"], session["signal"], session["error"]) == (None, 0, "")
    assert session["stopped"] == f"reframe was killed by SIGKILL: {LOST}"
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(
    ("term", "grace", "report", "more"),
    [
        ('echo "{}" > $report; exit 1', 30, {}, ""),
        (":", 0.5, None, f"; reframe did not end within 0.5 s and was killed: {LOST}"),
    ],
)
def test_job_that_does_not_end_is_killed_and_reframe_too(
    start, tmp_path, term, grace, report, more
):
    process = start(job=STUBBORN, term=term, grace=grace)
    process.terminate()
    session, _ = result(process)
    assert (session["report"], session["stopped"]) == (report, f"interrupted by SIGTERM{more}")
    assert_nothing_is_left(tmp_path)


def test_ignored_signal_stays_ignored():
    """As under nohup."""
    script = (
        "import os, signal; from iowatch.night import session\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with session.interruptible(): os.kill(os.getpid(), signal.SIGHUP)\n"
        "with session.interruptible(): os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("Interrupted: interrupted by SIGTERM")


def test_reframe_of_an_iowatch_that_was_killed_keeps_its_lock(start, tmp_path):
    """The next night must not begin beside it."""
    process = start(body=UNTIL_THE_END)
    process.kill()
    process.wait()
    held = ["flock", "--nonblock", tmp_path / "lock", "true"]
    assert subprocess.run(held).returncode == 1
    (tmp_path / "end").touch()
    wait_for(lambda: subprocess.run(held).returncode == 0)
    wait_for(lambda: not is_running(tmp_path / "pid") and not is_running(tmp_path / "job"))


@pytest.mark.parametrize(
    ("number", "allowed", "said"),
    [
        (resource.RLIMIT_NOFILE, 63, "`ulimit -n` allows 63 open files, and 64 are needed"),
        (
            resource.RLIMIT_FSIZE,
            1000 * 1024,
            "`ulimit -f` allows 1000 KiB in a file, and 65536 are",
        ),
    ],
)
def test_shell_that_allows_too_little_is_refused_before_anything_runs(
    monkeypatch, number, allowed, said
):
    """ReFrame and mpirun would name other causes."""
    known = resource.getrlimit
    monkeypatch.setattr(
        resource, "getrlimit", lambda one: (allowed, allowed) if one == number else known(one)
    )
    with pytest.raises(UserError, match=f"^{said}.*: raise it; nothing was run$"):
        run_session([], "", 0)


def test_mask_that_takes_files_from_their_owner_is_refused(monkeypatch):
    before = os.umask(0o777)
    try:
        with pytest.raises(
            UserError, match=r"^`umask 0777` takes files from their owner: set 0022"
        ):
            run_session([], "", 0)
        assert os.umask(0o777) == 0o777, "it stays"
    finally:
        os.umask(before)


# The lock of a night


def test_second_night_is_refused_and_says_who_is_at_work(tmp_path):
    folder = tmp_path / "results"  # not there yet
    with locked("archer", [folder]):
        sentence = (
            r"^archer: a night is still at work, since \d{4}-\d\d-\d\d \d\d:\d\d UTC, "
            rf"process {os.getpid()} on \S+; nothing was run$"
        )
        with pytest.raises(UserError, match=sentence), locked("archer", [folder]):
            pass
        with locked("cirrus", [folder]):
            pass
    with locked("archer", [folder]):
        pass


def test_holder_of_a_lock_that_was_inherited_is_who_has_it_now(tmp_path, monkeypatch):
    """Whoever wrote the file has ended; another machine's process cannot be looked for."""
    file = tmp_path / "lock"
    script = (
        f"exec 8>>{file}; flock 8; echo process $$ on $HOSTNAME, since then >&8; "
        "sleep 60 > /dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; echo $!"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    heir = int(done.stdout)
    here = socket.gethostname()
    try:
        assert holder(file) == f"process {heir} (sleep) on {here}, which has inherited it"
        with pytest.raises(UserError, match=f"^busy, process {heir} "), exclusive(file, "busy"):
            pass
    finally:
        os.kill(heir, signal.SIGKILL)
    monkeypatch.setattr(locks, "_holders", lambda file: {})  # another user's
    assert holder(file) == (f"a process that has inherited it: as root, `fuser -v {file}` names it")
    for there in (f"process {os.getpid()} on {here}, since then", "process 1 on elsewhere, since"):
        file.write_text(f"{there}\n")
        assert holder(file) == there


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_filesystem_without_locks_is_named_as_such(tmp_path, monkeypatch, number):
    def refuse(handle, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    sentence = (
        rf"^{tmp_path}/nightly\.archer\.lock: its filesystem cannot lock files \(.+\), nothing was "
        rf"run: mount it with locks, as Lustre with `flock`, or keep {tmp_path} on another"
    )
    with pytest.raises(UserError, match=sentence), locked("archer", [tmp_path]):
        pass


def test_nights_that_share_but_one_folder_are_not_at_work_at_once(tmp_path):
    one, other, shared = (tmp_path / name for name in ("one", "other", "shared"))
    (tmp_path / "link").symlink_to(shared)
    with locked("archer", [one, shared, tmp_path / "link"]):
        with pytest.raises(UserError, match=r"a night is"), locked("archer", [other, shared]):
            pass
        with locked("archer", [other]):
            pass


def test_lock_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "results").write_text("a file")
    refused = r"results.*: cannot be written, nothing was run: "
    with pytest.raises(UserError, match=refused), locked("archer", [tmp_path / "results" / "new"]):
        pass

    def full(handle, data, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    refused = r"archer\.lock: cannot be written, nothing was run: No space left on device$"
    with pytest.raises(UserError, match=refused), locked("archer", [tmp_path]):
        pass
    monkeypatch.undo()
    with pytest.raises(ZeroDivisionError), locked("archer", [tmp_path]):
        raise ZeroDivisionError
    with locked("archer", [tmp_path]):
        pass  # neither has kept it


def test_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    """In a folder that others may write to."""
    target, file = tmp_path / "target", tmp_path / "nightly.archer.lock"
    refused = r"archer\.lock: is a link or no regular file: remove it"
    for make in (os.symlink, os.link):
        target.write_text("precious")
        make(target, file)
        with pytest.raises(UserError, match=refused), locked("archer", [tmp_path]):
            pass
        assert target.read_text() == "precious"
        file.unlink()
