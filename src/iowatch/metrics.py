"""The metrics of a verified run, and where a slow one lost its time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from iowatch.case import Case
from iowatch.checks import CONTROL, OST
from iowatch.result import Repetition, Result, Slowest, conditions

TOTAL = "total"
#: A rank is slow if it takes so many times the mean of all, in every repetition.
SLOW_RANK = 1.5


@dataclass(frozen=True)
class Measured:
    """What a run that satisfies the law came to."""

    metrics: Mapping[str, float]
    conditions: Mapping[str, str]  # what it met with
    repetitions: Sequence[Repetition] = field(default_factory=list)  # of the case's own backend

    @property
    def slowest(self) -> dict[str, str]:
        """Of each phase the rank that was the slowest in most repetitions, in words."""
        phases = self.repetitions[0].seconds if self.repetitions else ()
        return {
            name: _slowest([rep.slowest[name] for rep in self.repetitions])
            for name in phases
            if name != TOTAL
        }


def measured(result: Result, case: Case) -> Measured:
    """What a result that satisfies the law says of its case."""
    own = result.measurements[-1].repetitions  # the control comes first
    return Measured(metrics_of(result, case), conditions(result), own)


def metrics_of(result: Result, case: Case) -> dict[str, float]:
    """The metrics of a case whose result satisfies the law."""
    by_backend = {m.backend: m.repetitions for m in result.measurements}
    reps = by_backend[case.backend]
    # Whatever else is at work on the filesystem, it disturbs the fastest repetition least.
    fastest = max(reps, key=lambda rep: rep.rates["total"])
    values = {
        **_totals([rep.rates["total"] for rep in reps]),
        "data_median": median(rep.rates["data"] for rep in reps),
        "close_fraction": fastest.seconds["close"] / fastest.seconds["total"],
        "finish_fraction": _finish_s(fastest, by_backend[CONTROL]) / fastest.seconds["total"],
    }
    names = case.metrics
    for name in names:
        if name.endswith("_s"):
            values[name] = median(rep.seconds[name.removesuffix("_s")] for rep in reps)
    if "stable_median" in names:
        values["stable_median"] = median(rep.rates["stable"] for rep in reps)
    if "instance_min" in names:
        values["instance_min"] = median(
            min(rep.instances, default=rep.rates["total"]) for rep in reps
        )
    if "ratio" in names:
        control = max(rep.rates["total"] for rep in by_backend[CONTROL])
        values["ratio"] = fastest.rates["total"] / control
    return {name: values[name] for name in names}


def finish_fraction(metrics: Mapping[str, float]) -> float | None:
    """The part of the time that finishes the file; of imported runs only the close is known."""
    return metrics.get("finish_fraction", metrics.get("close_fraction"))


def _finish_s(fastest: Repetition, control: Sequence[Repetition]) -> float:
    """Seconds that a library takes to finish its file: to close it, and to flush it for longer than
    MPI-IO does. Where there is a flush before it, HDF5 sets the file's size there, not in H5Fclose.
    """
    if fastest in control:
        return fastest.seconds["close"]
    flush = fastest.seconds.get("sync", 0.0)  # none of a read
    usual = median(rep.seconds.get("sync", 0.0) for rep in control)
    return fastest.seconds["close"] + max(0.0, flush - usual)


def ost_metrics(results: Mapping[int, Sequence[Result]]) -> dict[str, float]:
    """The metrics of every OST in turn, from the runs on each; all satisfy the law.

    An OST's rate is the best of its repetitions, MiB/s; `ost_ratio` is the slowest OST's rate over
    the median of its peers.
    """
    rates = {
        f"{OST}{ost}": max(
            rep.rates["total"] for run in runs for rep in run.measurements[0].repetitions
        )
        for ost, runs in results.items()
    }
    return {**_totals(list(rates.values())), "ost_ratio": osts_of(rates)[0].to_peers, **rates}


def ior_metrics(rounds: Sequence[Result], ior: Sequence[float]) -> dict[str, float]:
    """The metrics of benchio beside IOR: one repetition of benchio in each round, and IOR's rates.

    `ior_ratio` is benchio's best rate over IOR's.
    """
    rates = [rep.rates["total"] for done in rounds for rep in done.measurements[0].repetitions]
    return {
        **_totals(rates),
        "ior_max": max(ior),
        "ior_median": median(ior),
        "ior_ratio": max(rates) / max(ior),
    }


@dataclass(frozen=True)
class Ost:
    """One OST among its peers."""

    name: str  # its number
    rate: float  # MiB/s
    to_peers: float  # its rate over the median of all others


def osts_of(metrics: Mapping[str, float]) -> list[Ost]:
    """The OSTs that have a metric of their own, slowest first."""
    rates = {
        name.removeprefix(OST): rate
        for name, rate in metrics.items()
        if re.fullmatch(rf"{OST}\d+", name)
    }
    found = [
        Ost(name, rate, rate / median([r for peer, r in rates.items() if peer != name] or [rate]))
        for name, rate in rates.items()
    ]
    return sorted(found, key=lambda ost: ost.rate)


def slow_osts(metrics: Mapping[str, float], bound: float) -> str:
    """One phrase on the OSTs slower than `bound` times the median of their peers, slowest first."""
    return ", ".join(
        f"OST {ost.name} ({ost.rate:.0f} MiB/s, {ost.to_peers:.2f} of its peers)"
        for ost in osts_of(metrics)
        if ost.to_peers < bound
    )


def _totals(rates: Sequence[float]) -> dict[str, float]:
    return {
        "total_max": max(rates),
        "total_median": median(rates),
        "total_mean": fmean(rates),
        "total_min": min(rates),
    }


def slow_phase(metrics: Mapping[str, float], usual: Mapping[str, float]) -> str:
    """A phrase on the phase that most of the time is lost in; empty if there is none."""
    longer = {
        name: metrics[name] - usual[name]
        for name in metrics
        if name.endswith("_s") and name in usual
    }
    name = max(longer, key=lambda name: longer[name], default="")
    if not name or longer[name] <= max(0, sum(longer.values()) / 2):
        return ""
    return (
        f"most of the time is lost in {name.removesuffix('_s')}: {metrics[name]:.3g} s, "
        f"usually {usual[name]:.3g} s"
    )


def _slowest(places: Sequence[Slowest]) -> str:
    """Such as `rank 3 on nid00017, 7 of 10 times, 1.8 times the mean`."""
    (((rank, host), times),) = Counter((place.rank, place.host) for place in places).most_common(1)
    to_mean = median(place.to_mean for place in places if place.rank == rank)
    return f"rank {rank} on {host}, {times} of {len(places)} times, {to_mean:.1f} times the mean"


def slow_rank(repetitions: Sequence[Repetition]) -> str:
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
