"""How a session of ReFrame ends, and the lock of a night: with a stand-in for ReFrame, real
processes and real signals."""

import ctypes
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iowatch.files import UserError
from iowatch.night.session import (
    environment,
    locked,
    run_session,
    temporary_folder,
    why_it_failed,
)

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
import json, os, signal, sys, time
from iowatch.night import session
for number in session.SIGNALS:
    signal.signal(number, signal.SIG_DFL)  # whatever the tests themselves are started with
session.GRACE_S, session.JOB_GRACE_S, session.FOLLOW_S = 1.0, 0.5, 0.01
heard = []
lock = open("lock", "w")
import fcntl; fcntl.flock(lock, fcntl.LOCK_EX)
with session.interruptible(), session.held():
    if sys.argv[3:]:
        os.kill(os.getpid(), int(sys.argv[3]))
    done = session.run_session(
        [], "2026-11-22T025836", time.monotonic() + float(sys.argv[1]),
        heard.extend if sys.argv[2] == "quiet" else None, [lock.fileno()],
    )
with open("heard", "w") as file:
    json.dump(heard, file)
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


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo ERROR: no such check >&2", "ERROR: no such check"),
        ("echo '[ OK ] (2/4)'", ""),  # its last line is as often as not its progress
        ("printf '' > $report", "its report is cut off: is there room left in {}?"),
        ("printf '{{\"runs\": [' > $report", "its report is cut off: is there room left in {}?"),
    ],
)
def test_quiet_session_shows_nothing_and_says_why_there_is_no_report(start, tmp_path, body, error):
    said, lines = result(start(body=f"{body}; kill $(cat job); exit 1", quiet=True))
    assert lines == []
    assert (said["report"], said["error"], said["status"]) == (None, error.format(tmp_path), 1)


def test_what_reframe_says_is_told_by_whole_lines_while_it_runs(start, tmp_path):
    end = STORES.split(";", 1)[1]
    body = f"printf 'half a '; sleep 0.3; printf 'line\\n\\377\\nnot'; sleep 0.3; {end}"
    said, lines = result(start(body=body, quiet=True))
    assert (said["status"], lines) == (1, [])
    heard = json.loads((tmp_path / "heard").read_text())
    assert heard == ["to the terminal", "half a line", "\ufffd"]


def test_no_room_for_temporary_files(monkeypatch):
    def full(prefix):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("iowatch.night.session.tempfile.TemporaryDirectory", full)
    with pytest.raises(UserError, match=r"^no temporary folder can be made, nothing was run: .*"):
        run_session([], "", 0)
    adopts = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    assert adopts.value == 0, "orphans of other tests would wait for this process"


def test_environment_of_reframe(start, tmp_path):
    needed = "$RFM_GENERATE_FILE_REPORTS$RFM_ENABLE_RESULTS_STORAGE"
    body = f'echo "$IOWATCH_NIGHT $IOWATCH_TMPDIR $TMPDIR {needed}" > told; mktemp; {STORES}'
    result(start(body=body))
    night, jobs, own, stores = (tmp_path / "told").read_text().split()
    assert stores == "11", "without them ReFrame reports and stores nothing"
    assert (night, jobs) == ("2026-11-22T025836", str(tmp_path))
    # The variable has the last word, whatever a configuration says.
    assert environment(tmp_path, "")["RFM_ENABLE_RESULTS_STORAGE"] == "0", "of blame nothing is"
    assert Path(own).parent == tmp_path
    assert not Path(own).exists(), "its temporary files go with the session"


def test_why_it_failed():
    said = [
        ("\x1b[31mERROR: no such system\x1b[0m\nLog file(s) saved in x\n", "ERROR: no such system"),
        ('  File "a.py", line 3\n    x = (\nSyntaxError: never closed\n',
         'File "a.py", line 3: SyntaxError: never closed'),
        ("\x1b[32m[ OK ]\x1b[0m (2/4) it\nresults database: [on] /x\n", ""),
        ("", ""),
    ]  # fmt: skip
    for output, reason in said:
        assert why_it_failed(output) == reason


def test_time_limit_lets_reframe_store(start, tmp_path):
    said, lines = result(start(limit=0.5, quiet=True))
    assert lines == [], "a quiet night prints its summary alone"
    assert said["report"] == {}
    assert (said["stopped"], said["signal"]) == ("the time limit was reached", 0)
    assert_nothing_is_left(tmp_path)


@pytest.mark.parametrize(("name", "times"), [("SIGINT", 2), ("SIGTERM", 1), ("SIGHUP", 1)])
def test_signal_lets_reframe_store_and_a_second_one_changes_nothing(start, tmp_path, name, times):
    process = start(term=f"sleep 0.3; {STORES}")
    os.killpg(process.pid, signal.Signals[name])  # as Ctrl-C does; ReFrame must not get it
    assert process.stdout.readline() == "to the terminal\n"
    assert process.stdout.readline() == (
        f"iowatch: interrupted by {name}: its jobs are being ended, and what was measured is "
        "stored; this takes 0.042 minutes at most, and no Ctrl-C makes it shorter\n"
    )
    assert is_running(tmp_path / "job"), "it is said at once"
    for _ in range(times):
        os.killpg(process.pid, signal.Signals[name])
        time.sleep(0.1)
    said, lines = result(process)
    assert (said["report"], said["stopped"]) == ({}, f"interrupted by {name}")
    assert lines == [], "and once"
    assert said["signal"] == signal.Signals[name]
    assert_nothing_is_left(tmp_path)


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("term", "report", "more"),
    [
        ('echo "{}" > $report; exit 1', {}, ""),
        (
            ":",
            None,
            "; reframe did not end within 1 s and was killed: the session is lost, and the "
            "scheduler may still have its jobs",
        ),
    ],
)
def test_job_that_does_not_end_is_killed_and_reframe_too(start, tmp_path, term, report, more):
    process = start(job=STUBBORN, term=term)
    process.terminate()
    said, _ = result(process)
    assert (said["report"], said["stopped"]) == (report, f"interrupted by SIGTERM{more}")
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


def test_what_a_killed_iowatch_left_is_removed_once_its_reframe_has_ended(
    start, tmp_path, monkeypatch
):
    others = tmp_path / "iowatch.somebody"
    others.mkdir()
    process = start(body=f"while [ ! -e end ]; do sleep 0.05; done; {STORES}")
    process.kill()
    process.wait()
    (left,) = set(tmp_path.glob("iowatch.*")) - {others}
    link = tmp_path / "iowatch.link"
    link.symlink_to(left)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder():
        assert left.is_dir(), "its ReFrame still writes there"
    (tmp_path / "end").touch()
    wait_for(lambda: not is_running(tmp_path / "pid") and not is_running(tmp_path / "job"))
    with temporary_folder() as (folder, _):
        assert set(tmp_path.glob("iowatch.*")) == {others, link, folder}


# The lock of a night


def test_second_night_is_refused_and_says_who_is_at_work(tmp_path):
    folder = tmp_path / "results"  # not there yet
    with locked("archer", [folder]):
        sentence = (
            r"archer: a night is still at work, since \d{4}-\d\d-\d\d \d\d:\d\d UTC, "
            rf"process {os.getpid()} on \S+; nothing was run"
        )
        with pytest.raises(UserError) as refused, locked("archer", [folder]):
            pass
        assert re.fullmatch(sentence, str(refused.value))
        with locked("cirrus", [folder]):
            pass
    with locked("archer", [folder]):
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
    with (
        pytest.raises(UserError, match=r"results.*: cannot be written, nothing was run: "),
        locked("archer", [tmp_path / "results" / "new"]),
    ):
        pass

    def full(handle, data, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    sentence = r"archer\.lock: cannot be written, nothing was run: No space left on device$"
    with pytest.raises(UserError, match=sentence), locked("archer", [tmp_path]):
        pass
    monkeypatch.undo()
    with pytest.raises(ZeroDivisionError), locked("archer", [tmp_path]):
        raise ZeroDivisionError
    with locked("archer", [tmp_path]):
        pass  # neither has kept it


def test_former_owner_is_forgotten(tmp_path):
    file = tmp_path / "nightly.archer.lock"
    file.write_text("since long ago, process 1 on a machine with a long name".ljust(150))
    with locked("archer", [tmp_path]):
        (line,) = file.read_text().splitlines()
        assert re.fullmatch(rf"since [\d: -]+ UTC, process {os.getpid()} on \S+ *", line)
    assert file.read_text().strip() == ""


def test_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    """In a folder that others may write to."""
    target, file = tmp_path / "target", tmp_path / "nightly.archer.lock"
    for make in (os.symlink, os.link):
        target.write_text("precious")
        make(target, file)
        with (
            pytest.raises(
                UserError, match=r"archer\.lock: is a link or no regular file: remove it"
            ),
            locked("archer", [tmp_path]),
        ):
            pass
        assert target.read_text() == "precious"
        file.unlink()


def test_ctrl_c_while_it_is_loaded_ends_it_in_silence(tmp_path):
    """What it imports first is asked for by somebody who then changes their mind."""
    (tmp_path / "typer.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    places = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "iowatch", "history"],
        env={**os.environ, "PYTHONPATH": places},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
