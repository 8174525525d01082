"""A site's archive of Darshan logs, read by several processes at once.

A log that is cut off can crash Darshan's library: it then ends the process that reads it, and
another process goes on with the next log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from iowatch.adopt.users_io.file_classes import AccessClass, Amount, Usage
from iowatch.base.files import UserError

_READER = "iowatch.adopt.users_io.log_reader"
_SUFFIX = ".darshan"
_COMPRESSED = tuple(f"{_SUFFIX}.{end}" for end in ("gz", "bz2", "xz", "zst"))
_LONGEST_S = 900.0  # of one log
_WAITING = 64  # answers that are not added up yet

_Answer = str | list[Any]  # why a log is not read; or its classes and what is to be said of it


def find_logs(places: Sequence[Path], refused: Callable[[str, str], None]) -> Iterator[str]:
    """Yield the paths of all logs in these folders and files. `refused` is told of a folder that
    cannot be listed, and of a compressed log."""

    def refuse(err: OSError) -> None:
        refused(str(err.filename), err.strerror or "it cannot be listed")

    for place in places:
        if place.is_file():
            yield str(place)
            continue
        for folder, folders, names in os.walk(place, onerror=refuse):
            folders.sort()
            for path in (str(Path(folder, name)) for name in sorted(names)):
                if path.endswith(_SUFFIX):
                    yield path
                elif path.endswith(_COMPRESSED):
                    refused(path, "it is compressed: decompress it first")


def require_logs(places: Sequence[Path]) -> int:
    """Count the logs of an archive; UserError if there is none, or no such place."""
    for place in places:
        if not place.exists():
            raise UserError(f"{place}: there is no such file or folder")
    refused: list[str] = []
    count = sum(1 for _ in find_logs(places, lambda path, why: refused.append(f"{path}: {why}")))
    if not count:
        where = ", ".join(map(str, places))
        nothing = f"{where}: no file here ends in {_SUFFIX}: name a folder of Darshan logs"
        raise UserError(refused[0] if refused else nothing)
    return count


def read_archive(
    places: Sequence[Path], advance: Callable[[], None], unread: Callable[[str, str], None]
) -> Usage:
    """Add up all logs of an archive. `advance` is called after each log, `unread` with the name of
    what could not be read, and why."""
    usage, readers, waiting = Usage(), _Readers(), deque[tuple[str, Future[_Answer]]]()

    def refuse(path: str, why: str) -> None:
        usage.unread[why.partition(": ")[0]] += 1  # more is of one log
        unread(path, why)

    def take() -> None:
        path, answer = waiting.popleft()
        match answer.result():
            case str(why):
                refuse(path, why)
            case classes, notes:
                usage.add(((AccessClass(*c), Amount(*a)) for c, a in classes), notes)
        advance()

    pool = ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 16))
    try:
        for path in find_logs(places, refuse):
            waiting.append((path, pool.submit(readers.answer, path)))
            if len(waiting) > _WAITING:
                take()
        while waiting:
            take()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        readers.stop()
    return usage


class _Readers:
    """The processes that read logs, one of each thread."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._running: set[subprocess.Popen[str]] = set()
        self.is_over = False

    def answer(self, path: str) -> _Answer:
        """Return the answer of the process of this thread on a log."""
        reader = self._reader()
        assert reader.stdin is not None
        assert reader.stdout is not None
        timer = threading.Timer(_LONGEST_S, reader.kill)
        timer.start()
        try:
            reader.stdin.write(json.dumps(path) + "\n")
            reader.stdin.flush()
            line = reader.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            answer: _Answer = json.loads(line)
            return answer
        self._local.reader = None  # another one takes its place
        self._running.discard(reader)
        code = reader.wait()
        if code == -signal.SIGKILL:
            return f"it takes more than {_LONGEST_S / 60:.0f} minutes, or too much memory"
        if code < 0:
            return f"Darshan's library crashes on it ({signal.Signals(-code).name})"
        raise UserError(f"PyDarshan does not load: `{sys.executable} -m {_READER}` says why")

    def stop(self) -> None:
        """End all processes."""
        self.is_over = True
        for reader in [*self._running]:
            reader.kill()
            reader.wait()

    def _reader(self) -> subprocess.Popen[str]:
        reader: subprocess.Popen[str] | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = subprocess.Popen(
                [sys.executable, "-m", _READER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # an interrupt is for this process, which ends that one
            )
            self._local.reader = reader
            self._running.add(reader)
            if self.is_over:
                reader.kill()
        return reader
