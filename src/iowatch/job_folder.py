"""The folder of a job that has ended: files that may be compressed, and benchio's errors."""

from __future__ import annotations

import zlib
from pathlib import Path

from iowatch.bounded import regular_bytes, unpacked

COMPRESSED = ".gz"
EXIT_CODE = "exit_code"  # what the last launcher of a job ended with
NODE_FAILURE = "error: Node failure on "  # as srun says it, before what it then does


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


def why_it_failed(folder: Path) -> str:
    """Return what :func:`error_of` finds in a run's standard error."""
    return error_of(standard_error(folder)) or "no result file and nothing in stderr"


def standard_error(folder: Path) -> str:
    """Return a run's standard error; of a job that starts benchio again, that of the last start."""
    starts = sorted(folder.glob("said.*"), key=lambda file: int(file.name.split(".")[1]))
    file = starts[-1] if starts else folder / "rfm_job.err"
    return read_bytes(file).decode("utf-8", "replace") if file.is_file() else ""


def error_of(text: str) -> str:
    """Return benchio's own error in the standard error of a start. Else the line that a node has
    failed, else the last line; empty: there is none.

    Where nobody can end the ranks of a hang, they all say so: the first is the one that knows why.
    """
    lines = [line for line in text.split("\n") if any(map(str.isalnum, line))]  # not mpirun's rules
    errors = [line for line in lines if line.startswith("benchio: error:")]
    errors += [line for line in lines if NODE_FAILURE in line]
    return errors[0] if errors else (lines or [""])[-1]
