"""Files that are written whole, or not at all, and stay when the power fails."""

from __future__ import annotations

import errno
import glob
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from iowatch.base.text import one_line

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
    mode = stat.S_IFREG
    try:
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode
    except (OSError, ValueError) as err:  # such as a loop of links
        why = err.strerror if isinstance(err, OSError) else err
        raise UserError(f"{path}: cannot be written: {why}") from None
    target = path.resolve()
    if not stat.S_ISREG(mode):
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
