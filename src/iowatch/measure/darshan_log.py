"""A log of Darshan: the calls that wrote to each file."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from iowatch.base.commands import run
from iowatch.cases.verdict import Reason


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
