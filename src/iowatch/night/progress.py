"""The progress of a night while it runs, by what ReFrame says."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from iowatch.base.text import counted
from iowatch.measure.checks import CHECKS

#: Is given the lines that ReFrame has printed since it was last called.
Follow = Callable[[Sequence[str]], None]

#: Where no line can be rewritten, as in a log, there is a new one so often.
LOG_EVERY_S = 300.0
CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

# [       OK ] ( 3/40) SharedFileWrite %backend=hdf5 ... /e1f8c5d8 @local:disk+gnu
_ENDED = re.compile(r"\[ +(OK|XFAIL|FAIL|XPASS|ERROR|ABORT|SKIP) \] \( *\d+/\d+\) (\w+)")
_GREEN = ("OK", "XFAIL")
_SKIPPED = "SKIP"  # nearly always before there was a job
# [ RUN      ] comes when a test is set up, long before its job: how many jobs there have been is
# counted by the folders of raw results. These stages are before that.
_NO_JOB = re.compile(r"==> test failed during '(?:startup|setup|compile\w*)'")


@dataclass
class Progress:
    cases: int  # to be measured; 0: nobody knows
    jobs: Callable[[], int]  # how many were given to the scheduler so far
    waits: Callable[[], str] = str  # what they wait for, besides their turn; empty: nothing
    names: Collection[str] = tuple(CHECKS)  # of the classes of these cases
    done: int = 0
    red: int = 0
    skipped: int = 0
    without_job: int = 0  # that are done
    began: float = field(default_factory=time.monotonic)
    _is_case: bool = False  # was the last test that ended one of ours?

    def hear(self, lines: Sequence[str]) -> None:
        for line in lines:
            if ended := _ENDED.match(COLOURS.sub("", line)):
                self._is_case = ended[2] in self.names  # else it has built benchio
                self.done += self._is_case
                self.red += self._is_case and ended[1] not in (*_GREEN, _SKIPPED)
                self.skipped += self._is_case and ended[1] == _SKIPPED
            elif _NO_JOB.match(line):
                self.without_job += self._is_case

    def __str__(self) -> str:
        running = max(0, self.jobs() - (self.done - self.without_job - self.skipped))
        to_come = max(0, self.cases - self.done - running)
        skipped = f"{self.skipped} not measured, " if self.skipped else ""
        minutes = round((time.monotonic() - self.began) / 60)
        return (
            f"{counted(self.done, 'case', total=self.cases or None)} done, {self.red} red, "
            f"{skipped}{running} running or queued"
            f"{f', {to_come} to come' if self.cases else ''}; "
            f"{minutes} min" + (f"; {waits}" if (waits := self.waits()) else "")
        )


@contextmanager
def watch(progress: Progress) -> Iterator[Follow]:
    """Yield a function that is given ReFrame's new lines now and then. On a terminal it rewrites
    one line, which is gone after the block; elsewhere it prints one at long intervals.

    Nothing that goes wrong with it is of any concern to the night.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield _logged(progress)
        return
    # rich takes some logs for terminals. (Its Live would hide the cursor, which kill -9 left so.)
    console = Console(stderr=True, highlight=False, force_terminal=True)

    def rewrite(text: str, style: str = "") -> None:
        with suppress(OSError, SystemExit):  # the terminal has gone; rich exits at a closed pipe
            console.control(CLEAR_LINE)
            # One column is left free: some terminals begin a line after the last one.
            line = Text(text, style=style, no_wrap=True, overflow="ellipsis", end="")
            console.print(line, width=max(1, console.width - 1), end="")

    def follow(lines: Sequence[str]) -> None:
        progress.hear(lines)
        rewrite(str(progress), "red" if progress.red else "")

    try:
        yield follow
    finally:
        rewrite("")


def _logged(progress: Progress) -> Follow:
    last_line = time.monotonic()

    def log(lines: Sequence[str]) -> None:
        nonlocal last_line
        progress.hear(lines)
        if time.monotonic() - last_line >= LOG_EVERY_S:
            last_line = time.monotonic()
            say(str(progress))

    return log


def say(text: str) -> None:
    """Print it if that can be done; whether the night itself can be printed is seen at its end."""
    with suppress(OSError):
        print(text, flush=True)


def interject(text: str) -> None:
    """Print it as an error is printed, and on a terminal below the line that is rewritten there."""
    with suppress(OSError):
        if sys.stderr:  # not closed
            above = "\n" if sys.stderr.isatty() else ""
            print(f"{above}{text}", file=sys.stderr, flush=True)
