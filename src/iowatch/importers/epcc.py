"""What EPCC's benchio prints, and the programs that came of it.

One output is of one job and has several cases: each library writes a file of its own into one or
more folders, which the user has striped in different ways:

     Running on           24  process(es)
     Array size is   (         128 ,          128 ,          128 )
     Writing to unstriped/mpiio.dat
     time =   0.79999999999999994      , rate =    480.00000000000006       MiB/s

The program syncs nothing, and when a write has failed it goes on and prints a rate. MPI-IO's errors
are in its output, HDF5's only where stderr went to the same file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isclose, prod
from pathlib import Path
from statistics import fmean, median

from iowatch.checks import CONTROL, Size, format_size
from iowatch.files import UserError
from iowatch.importers.runs import Run, as_number, case_of, mib_per_s

BANNER = "Simple Parallel IO benchmark"

#: The check, the backend and who has a file: by the name of what is written, without number.
KINDS = {
    "mpiio": ("SharedFileWrite", "mpiio", ""),
    "hdf5": ("SharedFileWrite", "hdf5", ""),
    "netcdf": ("SharedFileWrite", "netcdf", ""),
    # Rank 0 writes as much as all together, but gathers nothing.
    "serial": ("FilePerProcess", "posix", "gather"),
    "proc": ("FilePerProcess", "posix", "process"),
    "rank": ("FilePerProcess", "posix", "process"),
    "fpp": ("FilePerProcess", "posix", "process"),
    "fpp-hdf5": ("FilePerProcess", "hdf5", "process"),
    "fpp-netcdf": ("FilePerProcess", "netcdf", "process"),
    "node": ("FilePerProcess", "posix", "node"),
    "adios": None,  # left out: not measured here
}

#: White space may be a new line: some compilers end a line after 80 columns.
_TOKEN = re.compile(
    rf"(?P<banner>{BANNER})"
    r"|Running on\s+(?P<processes>\d+)\s+process"
    r"|Array size is\s+\(\s*(?P<x>\d+)\s*,\s*(?P<y>\d+)\s*,\s*(?P<z>\d+)\s*\)"
    r"|Writing to\s+(?P<folder>\S+)/(?P<name>[^\s/]+)\s"
    r"|^ *time =\s+(?P<time>\S+)\s*,\s+rate =\s+(?P<rate>\S+)\s+(?P<unit>[MG]iB/s)\s"
    r"|(min|avg)time =\s+\S+\s*,\s+(?P<kind>max|avg)rate =\s+(?P<summary>\S+)\s+"
    r"(?P<summary_unit>[MG]iB/s)\s"
    r"|^ *(?P<finished>Finished) *$"
    r"|(?P<garbled>Array size|Writing to|^ *time =|rate =)",
    re.MULTILINE,
)
_SUMMARY: dict[str, Callable[[list[float]], float]] = {"max": max, "avg": fmean}
_ROUNDING = 1e-6  # the size is computed in single precision
#: What the program and its libraries say of a failure, and go on.
_ERROR = re.compile(r"^.*(error on rank|HDF5-DIAG|NetCDF: ).*$", re.MULTILINE)


@dataclass
class _Target:
    """What was written into one folder through one library."""

    line: int
    rates: list[float] = field(default_factory=list)  # MiB/s


@dataclass
class _Job:
    """One run of the program."""

    processes: int = 0
    size: Size = (0, 0, 0)
    targets: dict[tuple[str, str], _Target] = field(default_factory=dict)  # by folder and name

    @property
    def mib(self) -> float:
        return 8 * prod(self.size) * self.processes / 2**20


def read(file: Path, text: str, place: str, stripes: Mapping[str, str]) -> list[Run]:
    """The runs of one output, all of them at the time of the file's last change.

    `place` is SYSTEM:PARTITION/ENVIRON; `stripes` has for each folder the part of a case id that
    says how it is striped. UserError if the output is not whole, or these do not say enough.
    """
    time = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    # Any rank prints it, whenever it likes: which of the writes has failed is not to be known.
    error = _ERROR.search(text)
    runs = []
    jobs = _jobs(file, text)
    if unknown := sorted({folder for job in jobs for folder, _ in job.targets} - set(stripes)):
        example = unknown[0]
        raise UserError(
            f"{file}: say how {' and '.join(unknown)} is striped: --stripes {example}=4x1 for 4 "
            f"stripes of 1 MiB, {example}=-1x1 for all OSTs, {example}=none for no stripes"
        )
    for job in jobs:
        for (folder, name), target in job.targets.items():
            here = f"{file}:{target.line}"
            if name not in KINDS:
                raise UserError(f"{here}: {name} is none of {', '.join(KINDS)}")
            kind = KINDS[name]
            if kind is None:
                continue
            check, backend, files = kind
            case = case_of(
                here,
                f"{place}/{check}/backend={backend}{stripes[folder]}"
                f"/local_size={format_size(job.size)}/writers={job.processes}"
                + (f"/files={files}" if files else ""),
            )
            metrics = {} if error else _metrics(job, folder, name)
            remark = error[0].strip() if error else ""
            runs.append(Run(case, time, metrics, file, target.line, remark))
    return runs


def _metrics(job: _Job, folder: str, name: str) -> dict[str, float]:
    """What the rates of one case come to, and for HDF5 and NetCDF the ratio to MPI-IO."""
    rates = job.targets[folder, name].rates
    metrics = {
        "total_max": max(rates),
        "total_median": median(rates),
        "total_mean": fmean(rates),
        "total_min": min(rates),
    }
    control = job.targets.get((folder, CONTROL))
    if control and name in ("hdf5", "netcdf"):
        metrics["ratio"] = max(rates) / max(control.rates)
    return metrics


def _jobs(file: Path, text: str) -> list[_Job]:
    """The runs of the program that an output holds; UserError if one is not whole."""
    jobs: list[_Job] = []
    job: _Job | None = None
    target: _Target | None = None
    for token in _TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        here, found = f"{file}:{line}", token.groupdict()
        if found["banner"] and not job:
            job, target = _Job(), None
            jobs.append(job)
        elif not job or found["banner"] or found["garbled"]:
            shown = text.splitlines()[line - 1].strip()
            raise UserError(f"{here}: {shown!r} is garbled, or what is before it truncated")
        elif found["processes"]:
            job.processes = int(found["processes"])
        elif found["x"]:
            job.size = int(found["x"]), int(found["y"]), int(found["z"])
        elif found["name"]:
            name = re.sub(r"\d{6}$", "", found["name"].removesuffix(".dat"))
            target = job.targets[found["folder"], name] = _Target(line)
        elif found["finished"]:
            counts = [len(target.rates) for target in job.targets.values()]
            if not counts or min(counts) < max(counts) or not counts[0]:
                raise UserError(f"{here}: garbled: not the same number of rates of every file")
            job = None
        elif found["rate"]:
            rate = mib_per_s(here, found["rate"], found["unit"])
            # Whoever lost a digit, or took GiB for MiB, would not notice otherwise.
            if not target or not isclose(
                rate * as_number(here, found["time"]), job.mib, rel_tol=_ROUNDING
            ):
                raise UserError(f"{here}: garbled: time x rate is not {job.mib:g} MiB")
            target.rates.append(rate)
        elif found["summary"]:
            rate = mib_per_s(here, found["summary"], found["summary_unit"])
            known = target.rates if target else []
            if not known or not isclose(rate, _SUMMARY[found["kind"]](known), rel_tol=_ROUNDING):
                raise UserError(f"{here}: garbled: {found['kind']}rate is not that of the rates")
    if job:
        raise UserError(f"{file}: truncated: its end, 'Finished', is missing")
    return jobs
