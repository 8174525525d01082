"""The writes of a library, as Darshan counted them: collectively, or each process for itself.

The white paper counted 24 collective writes of 24 ranks through each library, and 0, 6 and 10
independent ones, of headers. Where collective writes have silently become independent, most of the
bandwidth is lost, and no library says so. It happens above MPI-IO, where a library makes
independent calls, and in MPI-IO, where a hint or a default keeps it from collecting.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import ClassVar

from iowatch.base.commands import run
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.verdict import Reason
from iowatch.measure.kinds.array import ControlledArrayKind

#: Independent writes that each library may make in one file.
BOUNDS = {"mpiio": 0, "hdf5": 6, "netcdf": 10}

#: Bytes that the filesystem gets, to those that MPI-IO was given: with data sieving, each process
#: writes back what lies between its own rows. Otherwise they are the same.
MOST_BYTES = 1.5

#: Bytes of a write that the filesystem gets. Collected ones are of a stripe, or of MPI-IO's buffer.
LEAST_WRITE = 64 * 2**10


@dataclass(frozen=True, eq=False, kw_only=True)
class ProfileKind(ControlledArrayKind):
    """benchio's writes under Darshan, of which none warms up."""

    starts_once: ClassVar[bool] = False

    def command_line(self, case: Case) -> list[str]:
        return [*super().command_line(case), "--warmup 0"]


PROFILE = ProfileKind(
    name="IoProfile",
    short="profile shared",
    backends=tuple(BOUNDS),
    repeats=1,  # of one, every independent write is seen
    metrics={},  # Darshan takes time: there is no bandwidth in it
)


def writes_of(backend: str, files: Mapping[str, Writes]) -> Writes:
    """The writes of a backend to its one file; ProfileError if there is none, or several."""
    of_backend = [
        writes
        for path, writes in files.items()
        if PurePath(path).stem.rpartition(".")[2] == backend  # hdf5.h5; not what MPI-IO has beside
    ]
    if len(of_backend) != 1:
        raise ProfileError(f"Darshan saw {len(of_backend)} files that {backend} wrote, and not 1")
    return of_backend[0]


def fault_of(backend: str, writes: Writes, ranks: int, repetitions: int) -> str:
    """Say in one sentence how a backend wrote its file wrongly; empty: it did not.

    HDF5 and NetCDF may make more collective writes than the data need: of metadata. If a file has
    as many independent writes as ranks, these may be the data, so no bound allows them.
    """
    needed = ranks * repetitions
    bound = min(BOUNDS[backend] * repetitions, ranks - 1)
    if writes.collective < needed or writes.independent > bound:
        return (
            f"{backend} does not write collectively: {writes}, where {ranks} ranks and "
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


def read_log(log: Path, ranks: int) -> dict[str, Writes]:
    """The writes to each file, by its path, in a log of so many processes; ProfileError."""
    if not log.exists():
        raise ProfileError(
            f"Darshan wrote no {log.name}: is its library built with the MPI that benchio has?"
        )
    # By another process: a log that is cut off can crash PyDarshan's C library, which prints, too.
    log_facts = json.loads(_run(log, "iowatch.measure.darshan_reader", str(log)).splitlines()[-1])
    if log_facts["processes"] != ranks:
        raise ProfileError(
            f"{log.name} is of {log_facts['processes']} processes, and {ranks} wrote"
        )
    if log_facts["partial"]:
        raise ProfileError(f"{log.name} is incomplete: Darshan had too little memory")
    return {path: Writes(**counts) for path, counts in log_facts["files"].items()}


def write_summary(log: Path, page: Path) -> None:
    """Write Darshan's own HTML summary of a log; ProfileError."""
    _run(log, "darshan", "summary", str(log), "--output", str(page))
    if not page.exists():
        raise ProfileError(f"PyDarshan made no summary of {log.name}")


def _run(log: Path, module: str, *arguments: str) -> str:
    """Return the output of a module; ProfileError with the last line of its error."""
    answer = run(sys.executable, "-m", module, *arguments, timeout_s=None)
    if answer.trouble:
        why = answer.trouble.removeprefix(f"`{answer.command}` ")
        raise ProfileError(f"PyDarshan cannot read {log.name}: {why}")
    return answer.text
