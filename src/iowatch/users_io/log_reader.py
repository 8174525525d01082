"""A log of Darshan, read in a process that a broken log may crash.

Run as a program, this module reads the path of a log from each line of standard input, as JSON, and
answers in a line. Paths, names, users and programs stay in that process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from darshan.backend import cffi_backend as backend

from iowatch.parameters import MIB
from iowatch.users_io.access_class import AccessClass, Amount
from iowatch.users_io.file_classes import (
    BELONGING,
    NAMING,
    PARTIAL,
    SIZES_OF,
    FileCounts,
    ModuleCounts,
    UnreadableLog,
    classes_of,
)

_STRIPES = ("LUSTRE_COMP_STRIPE_COUNT", "LUSTRE_COMP_STRIPE_SIZE")
_NO_LOG = "it is no log, cut off, or of another version of Darshan"


class LogCounts(NamedTuple):
    """The counts of a log: of each file by its id, and its path and its stripes by that id."""

    files: dict[int, FileCounts]
    names: dict[int, str]
    stripes: dict[int, str]
    ranks: int
    is_partial: bool  # Darshan had too little memory for it


def read_log(path: str) -> tuple[list[tuple[AccessClass, Amount]], set[str]]:
    """Return the classes of a log with their amounts, and what is to be said of the log."""
    log = read_counts(path)
    notes = {PARTIAL} if log.is_partial else set()
    return [*classes_of(log.files, log.names, log.stripes, log.ranks, notes)], notes


def read_counts(path: str) -> LogCounts:
    """Read the counts of a log; UnreadableLog."""
    try:
        Path(path).open("rb").close()
    except OSError as err:
        raise UnreadableLog(err.strerror) from None
    handle = backend.libdutil.darshan_log_open(os.fsencode(path))
    if handle == backend.ffi.NULL:
        raise UnreadableLog(_NO_LOG)
    log = {"handle": handle, "modules": None}
    try:
        job = backend.ffi.new("struct darshan_job *")
        if backend.libdutil.darshan_log_get_job(handle, job) < 0 or job.nprocs < 1:
            raise UnreadableLog(_NO_LOG)
        names = _read_names(handle)
        modules = backend.log_get_modules(log)
        files: dict[int, FileCounts] = {}
        for module in (*NAMING, *SIZES_OF):
            if module in modules:
                _read_module(log, module, job.nprocs, files)
        stripes = {}
        while record := backend.log_get_record(log, "LUSTRE", dtype="dict"):
            if len(record["components"]) == 1:
                count, size = (record["components"][0]["counters"][name] for name in _STRIPES)
                stripes[record["id"]] = f"{count}x{max(1, size // MIB)}"
    finally:
        backend.libdutil.darshan_log_close(handle)
    is_partial = any(modules[module]["partial_flag"] for module in SIZES_OF if module in modules)
    return LogCounts(files, names, stripes, job.nprocs, is_partial)


def _read_names(handle: Any) -> dict[int, str]:
    """Read the paths of files, in whatever encoding their users have."""
    records, count = backend.ffi.new("struct darshan_name_record **"), backend.ffi.new("int *")
    backend.libdutil.darshan_log_get_name_records(handle, records, count)
    names = {}
    for number in range(count[0]):
        record = records[0][number]
        names[record.id] = backend.ffi.string(record.name).decode(errors="replace")
        backend.libdutil.darshan_free(record.name)
    backend.libdutil.darshan_free(records[0])
    return names


def _read_module(
    log: dict[str, Any], module: str, ranks: int, files: dict[int, FileCounts]
) -> None:
    """Add the records of a module to those of the files.

    PyDarshan's own function does not tell the last record from one that is cut off.
    """
    prefix = f"{module.replace('-', '')}_"
    names = [name.removeprefix(prefix) for name in backend.counter_names(module)]
    buffer = backend.ffi.new("void **")
    kind, index = backend._structdefs[module], log["modules"][module]["idx"]
    while True:
        buffer[0] = backend.ffi.NULL
        status = backend.libdutil.darshan_log_get_record(log["handle"], index, buffer)
        if status < 1:
            break
        record = backend.ffi.cast(kind, buffer)[0]
        key = record.file_rec_id if module in BELONGING else record.base_rec.id
        counters = zip(names, backend.ffi.unpack(record.counters, len(names)), strict=True)
        layer = files.setdefault(key, {}).setdefault(module, ModuleCounts())
        # -1: not counted.
        layer.add({name: n for name, n in counters if n > 0}, record.base_rec.rank, ranks)
        backend.libdutil.darshan_free(buffer[0])
    if status < 0:
        raise UnreadableLog("a module of it is cut off, or of a newer Darshan")


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
