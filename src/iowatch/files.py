"""Files that are written whole, or not at all, and stay when the power fails."""

from __future__ import annotations

import errno
import glob
import json
import os
import socket
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOM = 2**20  # bytes; with less, a job script or what a job says may be cut off


def umask_in(folder: Path) -> int:
    """Return the umask for what is made in a folder, or in the one where it will be: what is in a
    group's folder, its members may write."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    status, umask = there.stat(), os.umask(0o077)
    os.umask(umask)
    goes_to_group = status.st_mode & stat.S_ISGID or status.st_gid == os.getegid()
    return umask & ~0o070 if status.st_mode & stat.S_IWGRP and goes_to_group else umask


@contextmanager
def as_shared(folder: Path) -> Iterator[None]:
    """Let the members of a group write what is made in the group's folder meanwhile."""
    before = os.umask(umask_in(folder))
    try:
        yield
    finally:
        os.umask(before)


def make_folder(folder: Path) -> None:
    """Make a folder of those that may be a group's, and those above it, if need be; OSError."""
    with as_shared(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write to. At the end it takes the place of `path`, or of the target of that link,
    on stable storage. None is left after a failure.

    UserError if it cannot be written, or if `path` is a device or a pipe, which would be gone.
    """
    try:
        target = path.resolve()
        is_other = target.exists() and not target.is_file()
    except (OSError, RuntimeError, ValueError) as err:  # such as a loop of links
        raise UserError(f"{path}: cannot be written: {err}") from None
    if is_other:
        raise UserError(f"{path}: cannot be written: it is no regular file")
    host = socket.gethostname()
    temporary = target.with_name(f".{target.name}.{host}.{os.getpid()}")
    try:
        _remove_left(target, host)
        # Made here and now: what others have put in its place is not written through.
        temporary.unlink(missing_ok=True)
        with as_shared(target.parent):
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
        stabilize(temporary)
        temporary.replace(target)
        stabilize(target.parent)
    except OSError as err:  # Pillow's have no number
        raise UserError(f"{path}: cannot be written: {err.strerror or err}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _remove_left(target: Path, host: str) -> None:
    """Remove what processes of this host have left beside a file as they were killed; OSError."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{glob.escape(host)}.*"):
        pid = left.name.rpartition(".")[2]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            left.unlink(missing_ok=True)


def listed(folder: Path) -> list[Path]:
    """List what is in a folder; nothing if there is none. UserError: it cannot be read, which glob
    would take for empty."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as err:
        raise UserError(f"{folder}: cannot be read: {err.strerror}") from None


def stabilize(*paths: Path) -> None:
    """Force files to stable storage, and of folders the names in them; OSError."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as err:
            if err.errno != errno.EINVAL or path.is_file():  # some know no such call for folders
                raise
        finally:
            os.close(descriptor)


def no_room(*folders: Path) -> str:
    """The first of these folders whose disk is full, or the user's quota there, in words; empty:
    all have room. A file is written to try it."""
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(file.fileno())
        except OSError as err:
            if err.errno in (errno.ENOSPC, errno.EDQUOT):
                lacking = "room" if err.errno == errno.ENOSPC else "quota"
                return f"no {lacking} is left on the disk of {folder}"
    return ""


class UserError(Exception):
    """A mistake in what was given: the message is one line that says what and what to do.

    Not one of ReFrame's own exceptions: with those it would skip a check and exit with 0.
    """

    def __str__(self) -> str:  # what was given may be anything
        return one_line(super().__str__())


def one_line(text: str) -> str:
    """A text without line breaks, and with a question mark for what does not print."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def counted(count: int, noun: str, verb: str = "", total: int | None = None) -> str:
    """A count in words: `1 case`, `2 cases`; with the verb `are` or `were`, `1 case is`; with the
    `total`, `1 of 2 cases is`."""
    words = f"{count} {noun}" if total is None else f"{count} of {total} {noun}"
    words += "" if (count if total is None else total) == 1 else "s"
    return f"{words} {_SINGULAR[verb] if count == 1 else verb}" if verb else words


_SINGULAR = {"are": "is", "were": "was"}


def brief(value: float) -> str:
    """Write a number to four digits or to the unit, large ones without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def brief_time(seconds: float) -> str:
    """Write a time with three digits, in s, ms or µs: `302 ms`."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        value = seconds * scale
        if value >= 0.9995 or seconds == 0:
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def brief_bytes(count: int) -> str:
    """Write a number of bytes with three digits: `1.5 GiB`."""
    units = (unit for unit in ("TiB", "GiB", "MiB", "KiB") if count >= _BYTES[unit])
    unit = next(units, "")
    return f"{count / _BYTES[unit]:.3g} {unit}" if unit else f"{count} bytes"


_BYTES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def brief_rate(value: float) -> str:
    """A bandwidth in MiB/s: whole from 10 on, and below with two digits, so that 0.37 is not 0."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def numbers_in_words(noun: str, numbers: Collection[int]) -> str:
    """Say which targets, such as `OSTs 0 to 23, 25`."""
    texts = [
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs(numbers)
    ]
    return f"{noun}{'s' * (len(numbers) > 1)} {', '.join(texts)}"


def runs(numbers: Iterable[int]) -> list[range]:
    """Return the same numbers, in order, as runs without a gap."""
    joined: list[range] = []
    for number in sorted(numbers):
        if joined and number == joined[-1].stop:
            joined[-1] = range(joined[-1].start, number + 1)
        else:
            joined.append(range(number, number + 1))
    return joined


SCHEMA = "iowatch.output/1"


def document(**parts: Any) -> str:
    """Write a document."""
    return json.dumps({"schema": SCHEMA, **parts}, indent=1)
