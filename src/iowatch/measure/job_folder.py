"""The folder of a job that has ended: files that may be compressed, and why the job failed."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

from iowatch.base.bounded import regular_bytes, unpacked
from iowatch.base.text import one_line
from iowatch.measure.causes import Cause, cause_of

COMPRESSED = ".gz"
EXIT_CODE = "exit_code"  # what the last launcher of a job ended with
ERRORS, OUTPUT = "rfm_job.err", "rfm_job.out"  # what a job printed
SAID = "said.*[0-9]"  # likewise, a start of a job that starts benchio again
MOST = 2**20  # bytes that are read at either end of what a job printed
SHOWN, SHOWN_WIDTH = 30, 300  # last lines of a job that a page shows, and their characters


def read_bytes(file: Path) -> bytes:
    """Read a file, compressed or not; OSError, ValueError."""
    if file.suffix == COMPRESSED:
        try:
            return unpacked(regular_bytes(file))
        except (EOFError, zlib.error) as err:  # cut off, or garbled
            raise ValueError(str(err)) from None
    return regular_bytes(file)


def read_text(file: Path) -> str:
    """Read a text, compressed or not; OSError, ValueError."""
    return read_bytes(file).decode("utf-8")


def find(folder: Path, name: str) -> Path | None:
    """A file of a run, compressed or not; None: it is not there."""
    there = (folder / name, folder / f"{name}{COMPRESSED}")
    return next((file for file in there if file.is_file()), None)


def lines_of(folder: Path, name: str) -> list[str]:
    """Return the lines of a text among the files of a run; none: it is not there."""
    file = find(folder, name)
    return read_bytes(file).decode("utf-8", "replace").splitlines() if file else []


def why_it_failed(folder: Path) -> Cause:
    """Return the cause that a run's output tells; of a job that starts benchio again, that of the
    last start comes first."""
    cause = cause_of(standard_error(folder), printed(folder / ERRORS), printed(folder / OUTPUT))
    sentence = cause.sentence or "no result file, and nothing that the job printed says why"
    return replace(cause, sentence=sentence)


def note_of(folder: Path) -> str:
    """Return the line in which benchio says that its end went wrong after the result was written;
    empty: it did not."""
    lines = standard_error(folder).split("\n")
    return next((line for line in lines if line.startswith("benchio: note:")), "")


def standard_error(folder: Path) -> str:
    """Return a run's standard error; of a job that starts benchio again, that of the last start."""
    starts = sorted(folder.glob(SAID), key=lambda file: int(file.name.split(".")[1]))
    return printed(starts[-1] if starts else folder / ERRORS)


def last_lines(folder: Path) -> list[str]:
    """Return the end of what a run printed, as lines that print; empty: nothing is left of it."""
    text = printed(folder / ERRORS, MOST // 64) or printed(folder / OUTPUT, MOST // 64)
    return [one_line(line)[:SHOWN_WIDTH] for line in text.rstrip().splitlines()[-SHOWN:]]


def printed(file: Path, most: int = MOST) -> str:
    """Return what a job printed to a file, of a long one both ends; empty: the file is not there,
    or cannot be read."""
    if not file.is_file():
        return ""
    try:
        with file.open("rb") as text:
            first = text.read(most)
            size = text.seek(0, 2)
            text.seek(max(size - most, len(first)))
            cut = b"\n" if size > 2 * most else b""
            return (first + cut + text.read(most)).decode("utf-8", "replace")
    except OSError:
        return ""
