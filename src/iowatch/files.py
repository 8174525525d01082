"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from iowatch.errors import UserError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path`, or of what that links to, at the end;
    none is left if that fails.

    UserError if it cannot be written, or if `path` is a device or a pipe, which would be gone.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: cannot be written: it is no regular file")
        yield temporary
        temporary.replace(target)
    except OSError as err:  # Pillow's have no number
        raise UserError(f"{path}: cannot be written: {err.strerror or err}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
