"""What others wrote, read within bounds: a regular file, of so many bytes, so deep.

A file of a site, of another party or of a job may be anything: a pipe that never ends, a device, a
hundred thousand brackets. Whoever reads one has an OSError or a ValueError that says so, at once.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import reprlib
import stat
from pathlib import Path
from typing import Any, BinaryIO

MOST = 2**28  # bytes of a file
DEEPEST = 60  # lists and mappings in one another
SHOWN = 200  # characters of a value that a refusal quotes

_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxdict, _BRIEF.maxlist, _BRIEF.maxtuple = 4, 8, 8, 8
_BRIEF.maxstring = _BRIEF.maxother = SHOWN
_BRIEF.maxlong = 5000  # digits: more are no number to Python


def opened_regular(file: Path) -> BinaryIO:
    """Open a regular file to read it. OSError: it is none."""
    if not stat.S_ISREG(file.stat().st_mode):  # to open a device may do something
        raise OSError(errno.EINVAL, "it is no regular file", str(file))
    return os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb")


def regular_bytes(file: Path, most: int = MOST) -> bytes:
    """Read a regular file of so many bytes at most. OSError; ValueError: it has more."""
    with opened_regular(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        return _bounded(stream.read(most + 1) if size <= most else None, most)


def unpacked(packed: bytes, most: int = MOST) -> bytes:
    """Decompress what gzip has made. OSError, EOFError, zlib.error; ValueError: it has more."""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        return _bounded(stream.read(most + 1), most)


def _bounded(content: bytes | None, most: int) -> bytes:
    if content is None or len(content) > most:
        raise ValueError(f"it has more than {most / 2**20:.0f} MiB")
    return content


def regular_text(file: Path, most: int = MOST, errors: str = "strict") -> str:
    """Read a regular file as UTF-8. OSError, ValueError."""
    return regular_bytes(file, most).decode("utf-8", errors)


def decoded(text: str | bytes, **how: Any) -> Any:
    """Decode JSON, with these hooks of json.loads. ValueError: it is none, or nested too deeply."""
    try:
        value = json.loads(text, **how)
    except RecursionError:
        raise _too_deep() from None
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 1):  # inline, for a session has a hundred thousand values
        level = [
            inner
            for outer in level
            for inner in (outer if isinstance(outer, list) else outer.values())
            if type(inner) in (list, dict)
        ]
        if not level:
            return value
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEEPEST} deep")


def json_of(file: Path) -> Any:
    """Decode a JSON file. OSError, ValueError."""
    return decoded(regular_bytes(file))


def reason_of(err: Exception) -> str:
    """Say why a file could not be read, without the file's name."""
    return (err.strerror if isinstance(err, OSError) else None) or str(err)


def quoted(value: Any) -> str:
    """Write a value for a refusal, in Python's words, however large or deep it is."""
    return _BRIEF.repr(value)
