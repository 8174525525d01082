"""A log of Darshan, read with PyDarshan: each file's counts, and what wrote it.

Run as a program, this module prints the writes that MPI-IO made, as JSON. A broken log crashes it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from darshan.backend import cffi_backend as backend

from iowatch.cases.parameters import MIB
from iowatch.measure.darshan_counts import (
    BELONGING,
    COLLECTIVE,
    MPIIO,
    NAMING,
    POSIX,
    SIZES_OF,
    FileCounts,
    ModuleCounts,
    UnreadableLog,
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


def _counts(log: str) -> dict[str, Any]:
    """Count the writes to each file that MPI-IO wrote."""

    counts, files = read_counts(log), {}
    for key, modules in counts.files.items():
        if MPIIO in modules:
            mpiio, posix = modules[MPIIO], modules.get(POSIX, ModuleCounts())
            collective = mpiio.calls("write", COLLECTIVE)
            files[counts.names[key]] = {
                "collective": collective,
                "independent": mpiio.calls("write") - collective,
                "bytes": mpiio.bytes("write"),
                "posix": posix.calls("write"),
                "posix_bytes": posix.bytes("write"),
            }
    return {"processes": counts.ranks, "partial": counts.is_partial, "files": files}


if __name__ == "__main__":
    print(json.dumps(_counts(sys.argv[1])))
