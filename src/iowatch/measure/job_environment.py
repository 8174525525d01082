"""The environment of a job, as its ranks had it: variables, and the libraries that Spack named."""

from __future__ import annotations

import platform
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from iowatch.cases.verdict import Reason
from iowatch.measure.job_folder import find, read_text
from iowatch.measure.result import VERSION_NUMBER, InvalidResult

#: The file in which a job notes what it has itself: a name, and the digest of its value, a line.
ASKED = "asked_environment"

_HASHED = "sha256:"
_DIGITS = 16


def require_variables(
    environment: Mapping[str, Any], variables: Mapping[str, str], folder: Path
) -> None:
    """Raise InvalidResult unless all ranks had these variables as their job had them.

    `environment` is that of a result, and `folder` the job's. The site's configuration has the text
    of each of the variables, or none.
    """
    if not variables:
        return
    file = folder / ASKED
    lines = read_text(file).splitlines() if file.exists() else []
    asked = {name: digest for name, _, digest in (line.partition(" ") for line in lines)}
    for name, text in variables.items():
        seen = environment["of_job"].get(name)
        if name not in asked or seen is None:
            where = file.name if name not in asked else "the result"
            raise InvalidResult(f"{where} says nothing of {name}, which the job hands over")
        for rank, had in _had(seen):
            if asked[name] not in _digests(had):
                value = had if seen["telling"] or had is None else "another value"
                wanted = text if seen["telling"] and text else "that of the job"
                raise InvalidResult(
                    f"{name}: {rank} had {'none' if value is None else value}, where "
                    f"{wanted if asked[name] else 'none'} was asked for: let the launcher pass it "
                    f"on, by SLURM_EXPORT_ENV=ALL in 'env_vars', `srun --export=ALL` or `mpirun -x "
                    f"{name}`"
                )


def _had(seen: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """What rank 0 had of a variable, and the first rank that had another value."""
    yield "rank 0", seen["value"]
    if seen["other_rank"] is not None:
        yield f"rank {seen['other_rank']} on {seen['other_host']}", seen["other_value"]


def _digests(value: str | None) -> list[str]:
    """The digests of a value, also without what a launcher has put before a list; "" if it is not
    set."""
    if value is None:
        return [""]
    if value.startswith(_HASHED):
        return [value.removeprefix(_HASHED)]
    parts = value.split(":")
    ends = (":".join(parts[first:]) for first in range(len(parts)))
    return [sha256(end.encode()).hexdigest()[:_DIGITS] for end in ends]


#: The name of a package of Spack in a result, and the words before its version there. Versions of
#: other MPIs are not compared: nobody has seen what they say.
_PACKAGES = {
    "hdf5": ("hdf5", ""),
    "netcdf-c": ("netcdf", ""),
    "parallel-netcdf": ("pnetcdf", ""),
    "adios2": ("adios2", ""),
    "openmpi": ("mpi", "Open MPI v"),
    "mpich": ("mpi", "MPICH Version:"),
}
_PACKAGE = re.compile(r"\^([\w-]+)@(\S+)")


def require_built(versions: Mapping[str, str | None], spec: str) -> None:
    """Raise InvalidResult unless what ran is linked to what Spack's concrete spec of benchio names.

    An external may be another version than it says, and a module may put another in its place.
    """
    for package, asked in _PACKAGE.findall(spec):
        library, words = _PACKAGES.get(package, ("", ""))
        number = VERSION_NUMBER.search(asked)
        if not library or not number:
            continue
        version = versions.get(library) or "not built in"
        numbers = re.search(rf"{words}\s*({VERSION_NUMBER.pattern})", version)
        pairs = zip(numbers[1].split("."), number[0].split("."), strict=False) if numbers else ()
        if not numbers or any(int(built) != int(wanted) for built, wanted in pairs):
            raise InvalidResult(
                f"{library}: the library says {version}, where Spack was asked for "
                f"{package}@{asked}: mend the external's version or prefix in spack.yaml, or the "
                "modules of the job"
            )


NAME = "clocks"  # the file of what was noted

#: So far apart the clocks of a login node and a compute node may be, and times on record be wrong.
APART_S = 300

#: Seconds by which both clocks may differ: one is noted in steps of 0.01 s.
_NOTED_S = 0.05


def ahead() -> float:
    """Return how far this machine's time of day is ahead of the clock that nobody sets, seconds."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def require_unset(folder: Path, most_s: float = _NOTED_S, was_ahead: float | None = None) -> None:
    """Raise InvalidResult if somebody has set the time of day by more than this while a job ran.

    `was_ahead` is what :func:`ahead` returned where the job was made, which says when it ended.
    """
    jumps = set_by(folder)
    if was_ahead is None and not jumps:
        raise InvalidResult(f"{NAME} says nothing of how the job's clocks went", Reason.NO_OUTPUT)
    if was_ahead is not None:
        jumps[platform.node()] = max(jumps.get(platform.node(), 0.0), ahead() - was_ahead, key=abs)
    host, seconds = max(jumps.items(), key=lambda entry: abs(entry[1]), default=("", 0.0))
    if abs(seconds) > most_s:
        way = "forward" if seconds > 0 else "back"
        raise InvalidResult(
            f"the clock of {host} was set {way} by {round(abs(seconds), 1):g} s while the job ran: "
            "its times are wrong, so have that node slew its clock (chronyd without makestep)",
            Reason.WRONG_CLOCK,
        )


def set_by(folder: Path) -> dict[str, float]:
    """Return by how many seconds the time of day of each host was set, at least; back: less than 0.
    Hosts of which too little was noted are left out."""
    noted = defaultdict[str, list[tuple[float, float, float]]](list)
    file = find(folder, NAME)
    for words in (line.split() for line in read_text(file).splitlines()) if file else ():
        try:
            host, before, now, after = words
            noted[host].append((float(before), float(now), float(after)))
        except ValueError:  # the job was ended as it wrote this
            continue
    jumps = dict[str, float]()
    for host, looks in noted.items():
        for (start, first, begun), (end, last, over) in combinations(looks, 2):
            went = last - first
            # The time between both looks is not less than end - begun, nor more than over - start.
            jump = max(0.0, went - (over - start)) + min(0.0, went - (end - begun))
            jumps[host] = max(jumps.get(host, 0.0), jump, key=abs)
    return jumps
