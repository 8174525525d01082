"""How a session of ReFrame ends: with a stand-in for ReFrame, real processes and real signals."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iowatch.night.session import run_session
from iowatch.site import UsageError, why_it_failed

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
import json, os, signal, sys, time
from iowatch.night import session
for number in session.SIGNALS:
    signal.signal(number, signal.SIG_DFL)  # whatever the tests themselves are started with
session.GRACE_S, session.JOB_GRACE_S = 1.0, 0.5
lock = open("lock", "w")
import fcntl; fcntl.flock(lock, fcntl.LOCK_EX)
with session.interruptible(), session.held():
    if sys.argv[3:]:
        os.kill(os.getpid(), int(sys.argv[3]))
    done = session.run_session(
        [], time.monotonic() + float(sys.argv[1]), sys.argv[2] == "quiet", lock.fileno()
    )
print(json.dumps(vars(done)))
"""
SLEEPS = "setsid sleep 300"
STUBBORN = "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done'"
STORES = 'echo "{}" > $report; kill $(cat job); exit 1'
PR_GET_CHILD_SUBREAPER = 37
WAITS = "while :; do sleep 0.05; done"


@pytest.fixture
def start(tmp_path):
    """start(job=, term=, body=, limit=, quiet=): iowatch's side of a session, running.

    `before` is a signal that comes before it.
    """
    started = []

    def begin(job=SLEEPS, term=STORES, body=WAITS, limit=60, quiet=False, before=None):
        program = tmp_path / "reframe"
        text = STAND_IN.replace("{job}", job).replace("{term}", term).replace("{body}", body)
        program.write_text(text)
        program.chmod(0o755)
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", DRIVER, str(limit), "quiet" if quiet else "loud"),
                *([] if before is None else [str(int(before))]),
            ],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        if limit > 10 and before is None:
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
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it never came")


def result(process):
    """What the session says of itself, and what went to the terminal."""
    text, _ = process.communicate(timeout=30)
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
    said, lines = result(start(body=f'echo "{{}}" > $report; {STORES.split(";", 1)[1]}'))
    assert said == {"report": {}, "status": 1, "stopped": "", "signal": 0, "error": ""}
    assert lines == ["to the terminal"]
    assert_nothing_is_left(tmp_path)


def test_quiet_session_shows_nothing_and_says_why_there_is_no_report(start):
    body = "echo ERROR: no such check >&2; kill $(cat job); exit 1"
    said, lines = result(start(body=body, quiet=True))
    assert lines == []
    assert (said["report"], said["error"]) == (None, "ERROR: no such check")


def test_what_is_no_error_is_no_reason(start):
    """ReFrame's last line is as often as not its progress."""
    body = "echo '[ OK ] (2/4)'; kill $(cat job); exit 1"
    said, _ = result(start(body=body, quiet=True))
    assert (said["report"], said["error"], said["status"]) == (None, "", 1)


@pytest.mark.parametrize("text", ["", '{"session_info": {'])
def test_report_that_is_cut_off(start, tmp_path, text):
    body = f"printf '%s' '{text}' > $report; kill $(cat job); exit 0"
    said, _ = result(start(body=body))
    assert said["report"] is None
    assert said["error"] == f"its report is cut off: is there room left in {tmp_path}?"


def test_no_room_for_temporary_files(monkeypatch):
    def full(prefix):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("iowatch.site.tempfile.TemporaryDirectory", full)
    with pytest.raises(UsageError, match=r"^no temporary folder can be made, nothing was run: .*"):
        run_session([], 0)
    adopts = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    assert adopts.value == 0, "orphans of other tests would wait for this process"


def test_reframes_temporary_files_go_with_the_session(start, tmp_path):
    body = f'echo "$TMPDIR" > own; echo "$IOWATCH_TMPDIR" > jobs; mktemp; {STORES}'
    result(start(body=body))
    assert (tmp_path / "jobs").read_text().strip() == str(tmp_path)
    own = Path((tmp_path / "own").read_text().strip())
    assert own.parent == tmp_path
    assert not own.exists()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("\x1b[31mERROR: no such system\x1b[0m\nLog file(s) saved in x\n", "ERROR: no such system"),
        ('  File "a.py", line 3\n    x = (\nSyntaxError: never closed\n',
         'File "a.py", line 3: SyntaxError: never closed'),
        ("\x1b[32m[ OK ]\x1b[0m (2/4) it\nresults database: [on] /x\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_why_it_failed(output, reason):
    assert why_it_failed(output) == reason


def test_time_limit_lets_reframe_store(start, tmp_path):
    said, _ = result(start(limit=0.5))
    assert said["report"] == {}
    assert (said["stopped"], said["signal"]) == ("the time limit was reached", 0)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_lets_reframe_store(start, tmp_path, name):
    process = start()
    os.killpg(process.pid, signal.Signals[name])  # as Ctrl-C does; ReFrame must not get it
    said, _ = result(process)
    assert said["report"] == {}
    assert said["stopped"] == f"interrupted by {name}"
    assert said["signal"] == signal.Signals[name]
    assert_nothing_is_left(tmp_path)


def test_second_signal_changes_nothing(start, tmp_path):
    process = start(term=f"sleep 0.3; {STORES}")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    said, _ = result(process)
    assert (said["report"], said["stopped"]) == ({}, "interrupted by SIGINT")
    assert_nothing_is_left(tmp_path)


def test_signal_while_the_time_limit_is_enforced_changes_nothing(start, tmp_path):
    process = start(limit=2, term=f"touch stopping; sleep 0.5; {STORES}")
    wait_for((tmp_path / "stopping").exists)
    process.send_signal(signal.SIGINT)
    said, _ = result(process)
    assert (said["report"], said["stopped"]) == ({}, "the time limit was reached")
    assert_nothing_is_left(tmp_path)


def test_signal_that_came_before_the_session_starts_nothing(start, tmp_path):
    """Between two sessions of one night."""
    said, _ = result(start(before=signal.SIGTERM))
    assert (said["stopped"], said["signal"]) == ("interrupted by SIGTERM", signal.SIGTERM)
    assert not (tmp_path / "started").exists()


def test_jobs_of_a_reframe_that_was_killed_are_ended(start, tmp_path):
    process = start()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    said, _ = result(process)
    assert (said["report"], said["signal"], said["error"]) == (None, 0, "")
    assert said["stopped"] == (
        "reframe was killed by SIGKILL: the session is lost, and the scheduler may still have its "
        "jobs"
    )
    assert_nothing_is_left(tmp_path)


def test_job_that_outlives_its_reframe_is_ended(start, tmp_path):
    process = start(job=STUBBORN, term='echo "{}" > $report; exit 1')
    process.terminate()
    said, _ = result(process)
    assert (said["report"], said["stopped"]) == ({}, "interrupted by SIGTERM")
    assert_nothing_is_left(tmp_path)


def test_reframe_that_does_not_end_is_killed_with_its_jobs(start, tmp_path):
    process = start(job=STUBBORN, term=":")
    process.terminate()
    said, _ = result(process)
    assert said["report"] is None
    assert said["stopped"] == (
        "interrupted by SIGTERM; reframe did not end within 1 s and was killed: the session is "
        "lost, and the scheduler may still have its jobs"
    )
    assert_nothing_is_left(tmp_path)


def test_ignored_signal_stays_ignored(start):
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


def test_lock_is_held_until_reframe_ends(start, tmp_path):
    """Even if iowatch itself is killed: the next night must not begin beside it."""
    process = start(body=f"while [ ! -e end ]; do sleep 0.05; done; {STORES}")
    process.kill()
    process.wait()
    held = ["flock", "--nonblock", tmp_path / "lock", "true"]
    assert subprocess.run(held).returncode == 1
    (tmp_path / "end").touch()
    wait_for(lambda: subprocess.run(held).returncode == 0)
