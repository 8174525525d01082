"""A log of Darshan, read in a process that a broken log may crash.

Run as a program, this module reads the path of a log from each line of standard input, as JSON, and
answers in a line. Paths, names, users and programs stay in that process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from iowatch.adopt.users_io.file_classes import AccessClass, Amount, classes_of
from iowatch.measure.darshan_counts import PARTIAL, UnreadableLog
from iowatch.measure.darshan_reader import read_counts


def read_log(path: str) -> tuple[list[tuple[AccessClass, Amount]], set[str]]:
    """Return the classes of a log with their amounts, and what is to be said of the log."""
    log = read_counts(path)
    notes = {PARTIAL} if log.is_partial else set()
    return [*classes_of(log.files, log.names, log.stripes, log.ranks, notes)], notes


# The process


def serve() -> None:
    """Answer for each log that standard input names."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Darshan's library may print
    with tempfile.TemporaryFile("w+b") as errors:
        os.dup2(errors.fileno(), 2)
        for line in sys.stdin:
            errors.seek(0)
            errors.truncate()
            try:
                classes, notes = read_log(json.loads(line))
                answer = json.dumps([classes, sorted(notes)])
            except UnreadableLog as err:
                errors.seek(0)
                answer = json.dumps(f"{err}{_words(errors.read().decode(errors='replace'))}")
            except Exception as err:  # its message may have a name of a user in it
                answer = json.dumps(f"it is damaged ({type(err).__name__})")
            print(answer, file=answers, flush=True)


def _words(errors: str) -> str:
    """Return what Darshan's library says of a log, unless that has a path in it."""
    lines = [line.removeprefix("Error: ").rstrip(".") for line in errors.splitlines()]
    telling = [line for line in lines if "/" not in line and "darshan_log_open" not in line]
    return f": {telling[-1]}" if telling else ""


if __name__ == "__main__":
    serve()
