"""One night at a time."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from iowatch.reframe_site import UsageError


@contextmanager
def locked(system: str, folder: Path) -> Iterator[int]:
    """Hold the lock of a system's nights, a file in `folder`; UsageError if somebody else does.

    Gives the descriptor: whoever inherits it keeps the lock until it ends too.
    """
    file = folder / f"nightly.{system}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as err:
        raise _not_written(file, err) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owner = f"since {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
            owner += f", process {os.getpid()} on {socket.gethostname()}\n"
            os.truncate(handle, 0)
            os.write(handle, owner.encode())
        except BlockingIOError:
            owner = os.read(handle, 200).decode(errors="replace").strip()
            raise UsageError(
                f"{system}: a night is still at work, {owner}; nothing was run"
            ) from None
        except OSError as err:  # such as a full disk
            raise _not_written(file, err) from None
        try:
            yield handle
        finally:
            os.truncate(handle, 0)
    finally:
        os.close(handle)


def _not_written(file: Path, err: OSError) -> UsageError:
    return UsageError(f"{file}: cannot be written, nothing was run: {err.strerror}")
