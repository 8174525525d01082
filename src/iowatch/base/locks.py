"""Locks by which processes keep out of each other's way; each is a file that says who holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from iowatch.base.files import UserError, as_shared, make_folder
from iowatch.base.text import one_line

_OWNER_BYTES = 200
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextlib.contextmanager
def locked(system: str, folders: Iterable[Path]) -> Iterator[list[int]]:
    """Hold the lock of a system's nights in each of these folders; UserError if somebody else does.

    The descriptors are for a ReFrame that is started: it keeps the locks even if its iowatch is
    killed.
    """
    with contextlib.ExitStack() as held:
        descriptors = []
        for folder in dict.fromkeys(map(os.path.realpath, folders)):  # none is locked twice
            file = Path(folder, f"nightly.{system}.lock")
            busy = f"{system}: a night is still at work"
            descriptors.append(held.enter_context(exclusive(file, busy)))
        yield descriptors


@contextlib.contextmanager
def exclusive(file: Path, busy: str) -> Iterator[int]:
    """Hold the lock that this file is; its folder is made if need be.

    Gives the descriptor: whoever inherits it keeps the lock until it ends too.
    Raises: UserError, with `busy` and the holder if somebody else holds the lock.
    """
    try:
        make_folder(file.parent)
        # A link, in a folder that others may write to, would let them choose what is written over.
        with as_shared(file.parent):
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise _no_lock_file(file) from None
        raise _not_written(file, err) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise _no_lock_file(file)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owner = f"since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
            _write_owner(handle, f"{owner}, process {os.getpid()} on {socket.gethostname()}")
        except BlockingIOError:
            raise UserError(f"{busy}, {holder(file)}; nothing was run") from None
        except OSError as err:  # such as a full disk
            if err.errno in _NO_LOCKS:
                raise _cannot_lock(file, err) from None
            raise _not_written(file, err) from None
        try:
            yield handle
        finally:
            with contextlib.suppress(OSError):
                _write_owner(handle, "")
    finally:
        os.close(handle)


def holder(file: Path) -> str:
    """Say who holds the lock that this file is: who has written so in it, unless that process has
    ended here, and another has inherited the lock."""
    try:
        owner = file.read_bytes()[:_OWNER_BYTES].decode(errors="replace").strip()
    except OSError:
        owner = ""
    named = re.search(r"process (\d+) on ([^\s,]+)", owner)
    if named and named[2] != socket.gethostname():
        return one_line(owner)
    holders = _holders(file)
    if named and (named[1] in holders or (not holders and Path("/proc", named[1]).exists())):
        return one_line(owner)
    if names := ", ".join(f"process {pid} ({name})" for pid, name in holders.items()):
        inherited = ", which has inherited it" if named else ""
        return f"{names} on {socket.gethostname()}{inherited}"
    return f"a process that has inherited it: as root, `fuser -v {file}` names it"


def _holders(file: Path) -> dict[str, str]:
    """The processes of this machine that hold the lock of a file, as far as this user may see, and
    their programs."""
    holders = {}
    for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
        process = info.parents[1]
        with contextlib.suppress(OSError):  # it has just ended, or is another user's
            if "\nlock:" in info.read_text() and (process / "fd" / info.name).samefile(file):
                holders[process.name] = (process / "comm").read_text().strip()
    return holders


def _write_owner(handle: int, owner: str) -> None:
    size = _OWNER_BYTES
    os.pwrite(handle, owner.encode()[: size - 1].ljust(size - 1) + b"\n", 0)


def _no_lock_file(file: Path) -> UserError:
    return UserError(f"{file}: is a link or no regular file: remove it; nothing was run")


def _cannot_lock(file: Path, err: OSError) -> UserError:
    return UserError(
        f"{file}: its filesystem cannot lock files ({err.strerror}), nothing was run: mount it "
        f"with locks, as Lustre with `flock`, or keep {file.parent} on another filesystem "
        "(RFM_PREFIX names that of the results)"
    )


def _not_written(file: Path, err: OSError) -> UserError:
    return UserError(f"{file}: cannot be written, nothing was run: {err.strerror}")
