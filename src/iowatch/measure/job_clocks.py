"""The clocks of a job: whether the time of day was set while it ran.

benchio times by a clock that nobody sets. Other programs may not, and what they say that they took
counts only if the time of day went on as that clock did. The job notes both, see job/clocks.sh.
"""

from __future__ import annotations

import platform
import time
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from iowatch.cases.verdict import Reason
from iowatch.measure.job_folder import find, read_text
from iowatch.measure.result import InvalidResult

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
