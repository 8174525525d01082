"""One session of ReFrame: watched, and ended in time without leaving anything behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from iowatch.base.bounded import json_of
from iowatch.base.files import UserError
from iowatch.base.places import CHECKS_FOLDER, LOG, reframe_program
from iowatch.night.progress import COLOURS, Follow, interject
from iowatch.site.site import JOB_TMPDIR, NIGHT

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FOLLOW_S = 1.0  # how often it is looked what ReFrame says
GRACE_S = 120.0  # for ReFrame to cancel its jobs, one after the other, and to store
JOB_GRACE_S = 30.0  # for the jobs on this machine to end after that
PR_SET_CHILD_SUBREAPER = 36
OUT_OF_TIME = "the time limit was reached"
LOST = "the session is lost, and the scheduler may still have its jobs"


class Interrupted(BaseException):
    """A signal asked iowatch to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True, kw_only=True)
class EndedSession:
    """A session of ReFrame that has ended: its report, and why it ended."""

    report: dict[str, Any] | None = None  # None: it wrote none
    status: int = 0  # exit code
    stopped: str = ""  # why it was ended early
    signal: int = 0  # that ended it
    error: str = ""  # why there is no report, as far as ReFrame said so

    @property
    def is_out_of_time(self) -> bool:
        """Return whether the session was ended for the time alone, and ended well."""
        return self.stopped == OUT_OF_TIME


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """The first signal of the block becomes Interrupted; those that follow are ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore_signals()
        raise Interrupted(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # nohup
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Hold back signals during a short step that must not be left half done."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def held(how: int = signal.SIG_BLOCK) -> Iterator[None]:
    """Let signals wait until the block ends or a session runs; other children get none either.

    With SIG_UNBLOCK, within such a block, they come through, also those that have waited.
    """
    before = signal.pthread_sigmask(how, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_session(
    options: Sequence[str],
    night: str,
    deadline: float,
    follow: Follow | None = None,
    locks: Sequence[int] = (),
    is_stored: bool = True,
) -> EndedSession:
    """Run the checks with these options of ReFrame's, until `deadline` (time.monotonic) at most,
    as a part of this night.

    `follow` is given every second the lines that ReFrame has printed since, which nobody else sees
    then; without it they go through. ReFrame inherits the descriptors `locks`, and so keeps
    these locks if iowatch itself is killed. UserError if there is no room for temporary files, or
    what the shell allows is too little.
    """
    _require_limits()
    with held(), _adopting(), temporary_folder() as folder:
        report = folder / "report.json"  # a fresh one: ReFrame writes none if nothing ran
        output = folder / "output"
        command = [reframe_program(), "-c", str(CHECKS_FOLDER), "-r"]
        command += ["--report-file", str(report), *options]
        process, stopped, number = None, "", 0
        with output.open("wb") as sink, output.open("rb") as printed:
            try:
                with held(signal.SIG_UNBLOCK):
                    process = subprocess.Popen(
                        command,
                        stdout=sink if follow else None,
                        stderr=subprocess.STDOUT if follow else None,
                        # Ctrl-C is for iowatch: ReFrame would store nothing after a second one.
                        start_new_session=True,
                        # Perhaps iowatch was started with SIGINT ignored, as by `&` in a script.
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                        pass_fds=locks,
                        env=environment(folder, night, is_stored),
                    )
                    if follow:
                        _follow(process, printed, follow, deadline)
                    process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stopped = OUT_OF_TIME
            except Interrupted as interrupt:
                stopped, number = str(interrupt), interrupt.number
        if stopped:
            ignore_signals()  # a second one would leave ReFrame and its jobs behind
            if number:  # somebody waits; at the time limit nobody does, and a night may be quiet
                most = (GRACE_S + 3 * JOB_GRACE_S) / 60  # as in _stop
                interject(
                    f"iowatch: {stopped}: its jobs are being ended, and what was measured is "
                    f"stored; this takes {most:.2g} minutes at most, and no Ctrl-C makes it shorter"
                )
            stopped += _stop(process)
        elif process and process.returncode < 0:
            ignore_signals()
            name = signal.Signals(-process.returncode).name
            stopped = f"reframe was killed by {name}: {LOST}{_end_jobs_of_killed()}"
        session, error = _read(report)
        if follow and not stopped:
            said_by_reframe = output.read_text("utf-8", "replace")
            failed = why_reframe_failed if session is None else why_cut_short
            error = error or failed(said_by_reframe)
        status = process.returncode if process else 0
    return EndedSession(report=session, status=status, stopped=stopped, signal=number, error=error)


def _follow(
    process: subprocess.Popen[bytes], printed: BinaryIO, follow: Follow, deadline: float
) -> None:
    """Tell what a process says, line by line, until it ends or the deadline comes."""
    begun = b""  # a line
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(left, FOLLOW_S))
            return
        *lines, begun = (begun + printed.read()).split(b"\n")
        follow([line.decode("utf-8", "replace") for line in lines])


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Jobs whose ReFrame has ended become children of this process."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed after the block. UserError if none can be made."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="iowatch.")
    except OSError as err:
        raise UserError(f"no temporary folder can be made, nothing was run: {err}") from None
    with folder as name:
        yield Path(name)


def environment(folder: Path, night: str, is_stored: bool) -> dict[str, str]:
    """ReFrame's own environment, for a session of this night, or of none, that is stored or not:
    ReFrame leaves a log in TMPDIR whenever it starts.

    Its jobs get the user's TMPDIR again, from reframe_checks/reframe_4_10.py.
    """
    users = {JOB_TMPDIR: os.environ.get("TMPDIR", "")}
    # Without a report, or a place in the database, a night is as if nothing had been measured.
    stores = "1" if is_stored else "0"
    needed = {"RFM_GENERATE_FILE_REPORTS": "1", "RFM_ENABLE_RESULTS_STORAGE": stores}
    # A centre may want ReFrame to look at the processors of every partition: a job to each.
    needed["RFM_REMOTE_DETECT"] = "no"
    # A night may run at the same time, and go on with its log.
    needed |= {} if is_stored else {LOG: "reframe.beside.log"}
    return {**os.environ, "TMPDIR": str(folder), NIGHT: night, **users, **needed}


def why_reframe_failed(output: str) -> str:
    """The line of ReFrame's output that says what went wrong; empty if there is none."""
    plain = COLOURS.sub("", output)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    # A configuration that is no Python makes ReFrame print a traceback, the place near its end.
    place = [line for line in lines if line.startswith("File ")][-1:]
    error = [line for line in lines if re.search(r"rror: |^ERROR", line)][-1:]
    return ": ".join(place + error) if error else ""


def why_cut_short(output: str) -> str:
    """The line of ReFrame's output that says why a session ended before its last test, or was not
    stored; empty: neither."""
    words = r"ERROR: (run session stopped: .+)|WARNING: (failed to store results .+)"
    stopped = re.search(words, COLOURS.sub("", output))
    return (stopped[1] or stopped[2]).strip().rstrip(":") if stopped else ""


#: What a session needs: the limit, its letter in `ulimit`, the least, the unit, and what it is.
_NEEDED = (
    (resource.RLIMIT_NOFILE, "n", 64, 1, "open files"),
    (resource.RLIMIT_FSIZE, "f", 64 * 1024, 1024, "KiB in a file"),
)


def _require_limits() -> None:
    """UserError if a limit of the shell would fail ReFrame or its jobs: they name other causes."""
    for limit, letter, least, unit, noun in _NEEDED:
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY and allowed < least * unit:
            raise UserError(
                f"`ulimit -{letter}` allows {allowed // unit} {noun}, and {least} are needed: "
                "raise it; nothing was run"
            )
    mask = os.umask(0)
    os.umask(mask)
    if mask & 0o700:
        raise UserError(
            f"`umask {mask:04o}` takes files from their owner: set 0022, or 0077; nothing was run"
        )


def _read(report: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        return json_of(report), ""
    except FileNotFoundError:
        return None, ""
    except ValueError:
        return None, f"its report is cut off: is there room left in {tempfile.gettempdir()}?"


def _stop(process: subprocess.Popen[bytes] | None) -> str:
    """End ReFrame and all its jobs on this machine; what must be said of it."""
    if process is None:  # interrupted while it started: it has no job yet
        _send(signal.SIGTERM, _descendants())
        return "" if _end_jobs() or _end_jobs(signal.SIGKILL) else "; reframe still runs"
    # Then ReFrame cancels its jobs and stores the session. SIGTERM is lost on it while it writes to
    # its log: the exception that it makes of that one is caught there.
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        sentence = f"; reframe did not end within {GRACE_S:g} s and was killed: {LOST}"
        return sentence + _end_jobs_of_killed()
    # Left is at most a job that it was just starting, and so did not know to cancel.
    return "" if _end_jobs() else _end_jobs_of_killed()


def _end_jobs_of_killed() -> str:
    """End jobs that ReFrame has not cancelled; what must be said of it."""
    _send(signal.SIGTERM, _descendants())
    if _end_jobs() or _end_jobs(signal.SIGKILL):
        return ""
    return f"; not to be killed: {', '.join(map(str, sorted(_descendants())))}"


def _end_jobs(number: int | None = None) -> bool:
    """Does everything that this process started end soon, or because of this signal?"""
    end = time.monotonic() + JOB_GRACE_S
    while left := _descendants():
        if time.monotonic() > end:
            break
        if number is not None:
            _send(number, left)  # more than once: what is being killed may start something
        time.sleep(0.05)
    return not left


def _send(number: int, processes: set[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _descendants() -> set[int]:
    """The processes that descend from this one; those that have ended are reaped."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            # pid (name) state parent ..., and a name may hold anything
            status = file.read_text("utf-8", "replace")
            parents[int(file.parent.name)] = int(status.rpartition(")")[2].split()[1])
    descendants: set[int] = set()
    generation = {os.getpid()}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        descendants |= generation
    return descendants
