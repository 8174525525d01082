"""How a library writes a file, as Darshan counted it: collectively, or each process for itself.

The white paper counted 24 collective writes of 24 writers through each library, and 0, 6 and 10
independent ones, of headers. Where collective writes have silently become independent, most of the
bandwidth is lost, and no library says so. It happens above MPI-IO, where a library makes
independent calls, and in MPI-IO, where a hint or a default keeps it from collecting.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from iowatch.commands import run
from iowatch.files import counted
from iowatch.verdict import Reason

#: Independent writes that each library may make in one file.
BOUNDS = {"mpiio": 0, "hdf5": 6, "netcdf": 10}

#: Bytes that the filesystem gets, to those that MPI-IO was given: with data sieving, each process
#: writes back what lies between its own rows. Otherwise they are the same.
MOST_BYTES = 1.5

#: Bytes of a write that the filesystem gets. Collected ones are of a stripe, or of MPI-IO's buffer.
LEAST_WRITE = 64 * 2**10

#: The counters of Darshan's modules that make up each field of Writes.
COUNTERS: dict[str, dict[str, tuple[str, ...]]] = {
    "MPI-IO": {
        "collective": ("MPIIO_COLL_WRITES", "MPIIO_SPLIT_WRITES"),
        "independent": ("MPIIO_INDEP_WRITES", "MPIIO_NB_WRITES"),
        "bytes": ("MPIIO_BYTES_WRITTEN",),
    },
    "POSIX": {"posix": ("POSIX_WRITES",), "posix_bytes": ("POSIX_BYTES_WRITTEN",)},
}


class ProfileError(Exception):
    """A log cannot be judged; the message says why."""

    reason = Reason.PROGRAM_FAILED


@dataclass(frozen=True)
class Writes:
    """Calls that wrote to one file, of all processes and repetitions, and the bytes in them."""

    collective: int  # of MPI-IO
    independent: int  # of MPI-IO
    bytes: int = 0
    posix: int = 0  # what MPI-IO made of them; 0: it did not use POSIX, or Darshan does not see it
    posix_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.collective} collective and {self.independent} independent writes"


def read_log(log: Path, writers: int) -> dict[str, Writes]:
    """The writes to each file, by its path, in a log of so many processes; ProfileError."""
    if not log.exists():
        raise ProfileError(
            f"Darshan wrote no {log.name}: is its library built with the MPI that benchio has?"
        )
    # By another process: a log that is cut off can crash PyDarshan's C library, which prints, too.
    log_facts = json.loads(_run(log, "iowatch.darshan_log", str(log)).splitlines()[-1])
    if log_facts["processes"] != writers:
        raise ProfileError(
            f"{log.name} is of {log_facts['processes']} processes, and {writers} wrote"
        )
    if log_facts["partial"]:
        raise ProfileError(f"{log.name} is incomplete: Darshan had too little memory")
    return {path: Writes(**counts) for path, counts in log_facts["files"].items()}


def write_summary(log: Path, page: Path) -> None:
    """Write Darshan's own HTML summary of a log; ProfileError."""
    _run(log, "darshan", "summary", str(log), "--output", str(page))
    if not page.exists():
        raise ProfileError(f"PyDarshan made no summary of {log.name}")


def writes_of(backend: str, files: dict[str, Writes]) -> Writes:
    """The writes of a backend to its one file; ProfileError if there is none, or several."""
    logs = [
        writes
        for path, writes in files.items()
        if PurePath(path).stem.rpartition(".")[2] == backend  # hdf5.h5; not what MPI-IO has beside
    ]
    if len(logs) != 1:
        raise ProfileError(f"Darshan saw {len(logs)} files that {backend} wrote, and not 1")
    return logs[0]


def judge(backend: str, writes: Writes, writers: int, repetitions: int) -> str:
    """What is wrong with how a backend wrote its file, in one sentence; empty if nothing is.

    HDF5 and NetCDF may make more collective writes than the data need: of metadata. As many
    independent writes as there are writers may be the data, whatever the bound is.
    """
    needed = writers * repetitions
    bound = min(BOUNDS[backend] * repetitions, writers - 1)
    if writes.collective < needed or writes.independent > bound:
        return (
            f"{backend} does not write collectively: {writes}, where {writers} writers and "
            f"{counted(repetitions, 'repetition')} make {needed} collective ones or more, and "
            f"{bound} independent at most"
        )
    uncollected = f"MPI-IO does not collect the writes of {backend}: it "
    times = writes.posix_bytes / max(writes.bytes, 1)
    if times > MOST_BYTES:
        return f"{uncollected}writes {times:.1f} times its bytes"
    calls = writes.collective + writes.independent
    size = writes.posix_bytes / max(writes.posix, 1)
    if writes.posix > calls and size < LEAST_WRITE:
        return f"{uncollected}makes {writes.posix} of them, of {size:.0f} bytes each, from {calls}"
    return ""


def _run(log: Path, module: str, *arguments: str) -> str:
    """What a module prints; ProfileError with the last line of its error."""
    answer = run(sys.executable, "-m", module, *arguments, timeout_s=None)
    if answer.trouble:
        why = answer.trouble.removeprefix(f"`{answer.command}` ")
        raise ProfileError(f"PyDarshan cannot read {log.name}: {why}")
    return answer.text


def _counts(log: str) -> dict[str, Any]:
    """What the log says of each file that MPI-IO wrote."""
    import darshan

    report = darshan.DarshanReport(log, read_all=False)
    modules = {module: report.modules[module] for module in COUNTERS if module in report.modules}
    files: dict[str, Counter[str]] = {}
    for module in modules:  # MPI-IO comes first
        report.mod_read_all_records(module, dtype="numpy")
        names = report.counters[module]["counters"]
        for record in report.records[module]:
            path = report.name_records[record["id"]]
            if module == "MPI-IO":
                files.setdefault(path, Counter())
            elif path not in files:
                continue
            counts = dict(zip(names, record["counters"].tolist(), strict=True))
            # One record of all processes, or one of each that opened the file.
            for field, counters in COUNTERS[module].items():
                files[path][field] += sum(counts[counter] for counter in counters)
    return {
        "processes": report.metadata["job"]["nprocs"],
        "partial": any(module["partial_flag"] for module in modules.values()),
        "files": files,
    }


if __name__ == "__main__":
    print(json.dumps(_counts(sys.argv[1])))
