"""One session of ReFrame: watched, and ended in time without leaving anything behind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from iowatch.reframe_site import CHECKS, why_it_failed

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 60.0  # for ReFrame to cancel its jobs, one scheduler's command each, and to store
JOB_GRACE_S = 10.0  # for the jobs on this machine to end after that
PR_SET_CHILD_SUBREAPER = 36


class Interrupted(BaseException):
    """A signal asked iowatch to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True)
class Session:
    """What is left of a session of ReFrame."""

    report: dict[str, Any] | None = None  # None: it wrote none
    status: int = 0  # exit code
    stopped: str = ""  # why it was ended early
    signal: int = 0  # that ended it
    error: str = ""  # the last that ReFrame said, if it wrote no report


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
    """For what is short and must not be left half done."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def run_session(
    options: Sequence[str], deadline: float, quiet: bool = False, lock: int | None = None
) -> Session:
    """Run the checks with these options of ReFrame's, until `deadline` (time.monotonic) at most.

    ReFrame's output goes through unless `quiet`. It inherits the descriptor `lock`, and so keeps
    that lock if iowatch itself is killed.
    """
    with tempfile.TemporaryDirectory(prefix="iowatch.") as folder:
        report = Path(folder, "report.json")  # a fresh one: ReFrame writes none if nothing ran
        output = Path(folder, "output")
        command = ["reframe", "-c", str(CHECKS), "-r", "--report-file", str(report), *options]
        process, stopped, number, error = None, "", 0, ""
        with output.open("w") as sink:
            try:
                process = subprocess.Popen(
                    command,
                    stdout=sink if quiet else None,
                    stderr=subprocess.STDOUT if quiet else None,
                    # Ctrl-C is for iowatch: ReFrame would store nothing after a second one.
                    start_new_session=True,
                    pass_fds=() if lock is None else (lock,),
                )
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stopped = "the time limit was reached"
            except Interrupted as interrupt:
                stopped, number = str(interrupt), interrupt.number
        if stopped:
            stopped += _stop(process)
        session = json.loads(report.read_text("utf-8")) if report.exists() else None
        if quiet and session is None:
            error = why_it_failed(output.read_text("utf-8", "replace"))
        status = process.returncode if process else 0
    return Session(session, status, stopped, number, error)


def _stop(process: subprocess.Popen[bytes] | None) -> str:
    """End ReFrame and all its jobs on this machine; what must be said of it."""
    if process is None:  # interrupted while it started: it has no job yet
        _send(signal.SIGTERM, _descendants())
        return "" if _end_jobs() or _end_jobs(signal.SIGKILL) else "; reframe still runs"
    # Jobs whose ReFrame has ended become our children.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    said = ""
    process.terminate()  # then ReFrame cancels its jobs and stores the session
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        said = f"; reframe did not end within {GRACE_S:g} s and was killed: the session is lost, "
        said += "and the scheduler may still have its jobs"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _send(signal.SIGTERM, _descendants())
    if not _end_jobs() and not _end_jobs(signal.SIGKILL):
        said += f"; not to be killed: {', '.join(map(str, sorted(_descendants())))}"
    return said


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
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    generation = {os.getpid()}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        found |= generation
    return found
