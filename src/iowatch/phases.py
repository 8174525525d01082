"""Where a slow run lost its time: the phase, and the rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from iowatch.results import Repetition, Slowest

TOTAL = "total"
#: A rank is slow if it takes so many times the mean of all, in every repetition.
SLOW_RANK = 1.5


def slow_phase(figures: Mapping[str, float], usual: Mapping[str, float]) -> str:
    """A phrase on the phase that most of the time is lost in; empty if there is none."""
    longer = {
        name: figures[name] - usual[name]
        for name in figures
        if name.endswith("_s") and name in usual
    }
    name = max(longer, key=lambda name: longer[name], default="")
    if not name or longer[name] <= max(0, sum(longer.values()) / 2):
        return ""
    return (
        f"most of the time is lost in {name.removesuffix('_s')}: {figures[name]:.3g} s, "
        f"usually {usual[name]:.3g} s"
    )


def slowest_ranks(repetitions: Sequence[Repetition]) -> dict[str, str]:
    """Of each phase the rank that was the slowest in most repetitions, in words."""
    return {
        name: _slowest([rep.slowest[name] for rep in repetitions])
        for name in repetitions[0].seconds
        if name != TOTAL
    }


def _slowest(places: Sequence[Slowest]) -> str:
    """Such as `rank 3 on nid00017, 7 of 10 times, 1.8 times the mean`."""
    (((rank, host), times),) = Counter((place.rank, place.host) for place in places).most_common(1)
    to_mean = median(place.to_mean for place in places if place.rank == rank)
    return f"rank {rank} on {host}, {times} of {len(places)} times, {to_mean:.1f} times the mean"


def slow_rank(repetitions: list[Repetition]) -> str:
    """A phrase on the rank that is always much slower than the others in the longest phase.

    Empty if there is none. Where ranks wait for one another, as in collective calls, the slow one
    cannot be told from those that wait.
    """
    phases = [name for name in repetitions[0].seconds if name != TOTAL]
    longest = max(phases, key=lambda name: median(rep.seconds[name] for rep in repetitions))
    slowest = [rep.slowest[longest] for rep in repetitions]
    ranks = {(place.rank, place.host) for place in slowest}
    if len(repetitions) < 2 or len(ranks) > 1:
        return ""
    excess = min(place.to_mean for place in slowest)
    if excess < SLOW_RANK:
        return ""
    ((rank, host),) = ranks
    return (
        f"rank {rank} on {host} is the slowest in {longest} in all {len(slowest)} repetitions, by "
        f"{excess:.1f} times the mean or more"
    )
