"""The figures of a case: what is recorded of a verified run, and judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from iowatch.case import Case
from iowatch.result import CONTROL, Repetition, Result, Slowest

DRIFT = "drift"  # judged already: has no reference
OST = "ost_"  # followed by its number: the rate of one OST

#: Every figure with its unit; a case has some of them (see figure_names).
FIGURES = {
    "total_max": "MiB/s",
    "total_median": "MiB/s",
    "total_mean": "MiB/s",
    "total_min": "MiB/s",
    "stable_median": "MiB/s",
    "data_median": "MiB/s",
    "open_s": "s",
    "define_s": "s",
    "write_s": "s",
    "sync_s": "s",
    "read_s": "s",
    "close_s": "s",
    "close_fraction": "1",
    "finish_fraction": "1",
    "ratio": "1",
    "instance_min": "MiB/s",
    "ost_ratio": "1",
    "ior_max": "MiB/s",
    "ior_median": "MiB/s",
    "ior_ratio": "1",
    DRIFT: "1",
}
_ONLY: dict[str, Callable[[Case], bool]] = {
    "stable_median": lambda case: case.operation == "write",
    "define_s": lambda case: case.operation == "write",
    "write_s": lambda case: case.operation == "write",
    "sync_s": lambda case: case.operation == "write",
    "read_s": lambda case: case.operation == "read",
    "ratio": lambda case: case.backend != CONTROL,
    "instance_min": lambda case: case.instances is not None,
    "ost_ratio": lambda case: case.each_ost,
    "ior_max": lambda case: case.ior_peer,
    "ior_median": lambda case: case.ior_peer,
    "ior_ratio": lambda case: case.ior_peer,
    DRIFT: lambda case: False,
}
_TOTALS = ("total_max", "total_median", "total_mean", "total_min")
_EACH_OST = (*_TOTALS, "ost_ratio")
_IOR_PEER = (*_TOTALS, "ior_max", "ior_median", "ior_ratio")


def figure_names(case: Case) -> list[str]:
    """The figures that a case must have.

    One of each OST has one of every OST besides, and one with a baseline the detector's `drift`.
    """
    if case.each_ost:
        return list(_EACH_OST)
    if case.ior_peer:
        return list(_IOR_PEER)
    return [name for name in FIGURES if name not in _ONLY or _ONLY[name](case)]


def unit(figure: str) -> str:
    """The unit of a figure."""
    return FIGURES.get(figure, "MiB/s")  # of one OST


def figures(result: Result, case: Case) -> dict[str, float]:
    """The figures of a case whose result satisfies the law; `unit` knows their units."""
    measured = {m.backend: m.repetitions for m in result.measurements}
    reps = measured[case.backend]
    # Whatever else is at work on the filesystem, it disturbs the fastest repetition least.
    fastest = max(reps, key=lambda rep: rep.rates["total"])
    values = {
        **_totals([rep.rates["total"] for rep in reps]),
        "data_median": median(rep.rates["data"] for rep in reps),
        "close_fraction": fastest.seconds["close"] / fastest.seconds["total"],
        "finish_fraction": _finish_s(fastest, measured[CONTROL]) / fastest.seconds["total"],
    }
    names = figure_names(case)
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
        control = max(rep.rates["total"] for rep in measured[CONTROL])
        values["ratio"] = fastest.rates["total"] / control
    return {name: values[name] for name in names}


def finish_fraction(figures: Mapping[str, float]) -> float | None:
    """What the detector's R3 looks at: of imported runs only the close is known."""
    return figures.get("finish_fraction", figures.get("close_fraction"))


def _finish_s(fastest: Repetition, control: Sequence[Repetition]) -> float:
    """Seconds that a library takes to finish its file: to close it, and to flush it for longer than
    MPI-IO does. Where there is a flush before it, HDF5 sets the file's size there, not in H5Fclose.
    """
    if fastest in control:
        return fastest.seconds["close"]
    flush = fastest.seconds.get("sync", 0.0)  # none of a read
    usual = median(rep.seconds.get("sync", 0.0) for rep in control)
    return fastest.seconds["close"] + max(0.0, flush - usual)


def ost_figures(results: Mapping[int, Sequence[Result]]) -> dict[str, float]:
    """The figures of every OST in turn, from the runs on each; all satisfy the law.

    An OST's rate is the best of its repetitions, MiB/s; `ost_ratio` is the slowest OST's rate over
    the median of its peers.
    """
    rates = {
        f"{OST}{ost}": max(
            rep.rates["total"] for run in runs for rep in run.measurements[0].repetitions
        )
        for ost, runs in results.items()
    }
    return {**_totals(list(rates.values())), "ost_ratio": min(_to_peers(rates).values()), **rates}


def ior_figures(rounds: Sequence[Result], ior: Sequence[float]) -> dict[str, float]:
    """The figures of benchio beside IOR: one repetition of benchio in each round, and IOR's rates.

    `ior_ratio` is benchio's best rate over IOR's.
    """
    rates = [rep.rates["total"] for done in rounds for rep in done.measurements[0].repetitions]
    return {
        **_totals(rates),
        "ior_max": max(ior),
        "ior_median": median(ior),
        "ior_ratio": max(rates) / max(ior),
    }


def slow_osts(figures: Mapping[str, float], bound: float) -> str:
    """One phrase on the OSTs slower than `bound` times the median of their peers, slowest first."""
    rates = {name: rate for name, rate in figures.items() if re.fullmatch(rf"{OST}\d+", name)}
    to_peers = _to_peers(rates)
    return ", ".join(
        f"OST {name.removeprefix(OST)} ({rates[name]:.0f} MiB/s, {ratio:.2f} of its peers)"
        for name, ratio in sorted(to_peers.items(), key=lambda item: item[1])
        if ratio < bound
    )


def _to_peers(rates: Mapping[str, float]) -> dict[str, float]:
    """The rate of each over the median of all others."""
    return {
        name: rate / median([other for peer, other in rates.items() if peer != name] or [rate])
        for name, rate in rates.items()
    }


def _totals(rates: Sequence[float]) -> dict[str, float]:
    return {
        "total_max": max(rates),
        "total_median": median(rates),
        "total_mean": fmean(rates),
        "total_min": min(rates),
    }


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
