"""A log of Darshan, read in a process that a broken log may crash.

Run as a program, this module reads the path of a log from each line of standard input, as JSON, and
answers in a line. Paths, names, users and programs stay in that process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from iowatch.users_io.access_class import READ, WRITE, AccessClass, Amount, to_row
from iowatch.users_io.file_classes import (
    ALL,
    BELONGING,
    BINS,
    MPIIO,
    NAMING,
    PARTIAL,
    SIZES_OF,
    FileCounts,
    ModuleCounts,
    UnreadableLog,
    classes_of,
)

#: Counters that are summed, by the ends of their names, whatever the module.
_SUMS = {
    f"{operation} {name}": ends
    for operation, calls, done in ((READ, "READS", "READ"), (WRITE, "WRITES", "WRITTEN"))
    for name, ends in {
        "bytes": [f"BYTES_{done}"],
        "calls": [f"{way}{calls}" for way in ("", "INDEP_", "COLL_", "SPLIT_", "NB_")],
        "collective": [f"COLL_{calls}", f"SPLIT_{calls}"],
        "consecutive": [f"CONSEC_{calls}"],
        "sequential": [f"SEQ_{calls}"],
        **{
            bin_name: [f"SIZE_{operation.upper()}{way}_{bin_name}" for way in ("", "_AGG")]
            for bin_name in BINS
        },
    }.items()
} | {
    "fastest": ["FASTEST_RANK_BYTES"],
    "slowest": ["SLOWEST_RANK_BYTES"],
    "unaligned": ["FILE_NOT_ALIGNED"],
    "views": ["VIEWS"],
    "maps": ["MMAPS"],
    "collective data": ["USE_MPIIO_COLLECTIVE"],
    "names": ["OPENS", "STATS", "RENAME_SOURCES"],
}
_COMMON = [(f"ACCESS{number}_ACCESS", f"ACCESS{number}_COUNT") for number in range(1, 5)]


_NO_LOG = "it is no log, cut off, or of another version of Darshan"


def read_log(path: str) -> tuple[list[tuple[AccessClass, Amount]], set[str]]:
    """Return the classes of a log with their amounts, and what is to be said of the log."""
    from darshan.backend import cffi_backend as backend

    handle = backend.libdutil.darshan_log_open(os.fsencode(path))
    if handle == backend.ffi.NULL:
        raise UnreadableLog(_NO_LOG)
    log = {"handle": handle, "modules": None}
    try:
        job = backend.ffi.new("struct darshan_job *")
        if backend.libdutil.darshan_log_get_job(handle, job) < 0 or job.nprocs < 1:
            raise UnreadableLog(_NO_LOG)
        names = _read_names(backend, handle)
        modules = backend.log_get_modules(log)
        files: dict[int, FileCounts] = {}
        for module in (*NAMING, *SIZES_OF):
            if module in modules:
                _read_module(backend, log, module, job.nprocs, files)
    finally:
        backend.libdutil.darshan_log_close(handle)
    partial = [module for module in SIZES_OF if modules.get(module, {}).get("partial_flag")]
    notes = {PARTIAL} if partial else set()
    return [*classes_of(files, names, job.nprocs, notes)], notes


def _read_names(backend: Any, handle: Any) -> dict[int, str]:
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
    backend: Any, log: dict[str, Any], module: str, ranks: int, files: dict[int, FileCounts]
) -> None:
    """Add the records of a module to those of the files."""
    names = {name: at for at, name in enumerate(backend.counter_names(module))}
    prefix = "MPIIO" if module == MPIIO else module

    def at(end: str) -> int | None:
        return names.get(f"{prefix}_{end}")

    sums = [
        (key, [place for end in ends if (place := at(end)) is not None])
        for key, ends in _SUMS.items()
    ]
    sums = [(key, places) for key, places in sums if places]
    common = [(a, b) for x, y in _COMMON if (a := at(x)) is not None and (b := at(y)) is not None]
    buffer = backend.ffi.new("void **")
    kind, index = backend._structdefs[module], log["modules"][module]["idx"]
    while True:
        buffer[0] = backend.ffi.NULL
        status = backend.libdutil.darshan_log_get_record(log["handle"], index, buffer)
        if status < 1:
            break
        record = backend.ffi.cast(kind, buffer)[0]
        key = record.file_rec_id if module in BELONGING else record.base_rec.id
        counters = backend.ffi.unpack(record.counters, len(names))
        layer = files.setdefault(key, {}).setdefault(module, ModuleCounts())
        _add(layer, record.base_rec.rank, ranks, counters, sums, common)
        backend.libdutil.darshan_free(buffer[0])
    if status < 0:
        raise UnreadableLog("a module of it is cut off, or of a newer Darshan")


def _add(
    layer: ModuleCounts,
    rank: int,
    ranks: int,
    counters: Sequence[int],
    sums: list[tuple[str, list[int]]],
    common: list[tuple[int, int]],
) -> None:
    """Add a record to those of the same file."""
    for key, places in sums:
        # -1: not counted.
        if value := sum(counters[place] for place in places if counters[place] > 0):
            layer.counts[key] += value
    for size, count in common:
        if counters[count] > 0:
            layer.sizes[counters[size]] += counters[count]
    for key, places in [(ALL, []), *sums]:
        word = key.removesuffix(" calls")
        if word == key != ALL:
            continue
        calls = sum(counters[place] for place in places if counters[place] > 0)
        many = ranks if rank < 0 else 1
        if movers := many if key == ALL else min(many, calls):
            layer.movers[word] += movers
            layer.first.setdefault(word, max(0, rank))


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
                rows = [to_row(access_class, amount) for access_class, amount in classes]
                answer = {"classes": rows, "notes": sorted(notes)}
            except UnreadableLog as err:
                errors.seek(0)
                answer = {"trouble": f"{err}{_words(errors.read().decode(errors='replace'))}"}
            print(json.dumps(answer), file=answers, flush=True)


def _words(errors: str) -> str:
    """Return what Darshan's library says of a log, unless that has a path in it."""
    lines = [line.removeprefix("Error: ").rstrip(".") for line in errors.splitlines()]
    telling = [line for line in lines if "/" not in line and "darshan_log_open" not in line]
    return f": {telling[-1]}" if telling else ""


if __name__ == "__main__":
    serve()
