"""The metrics of a verified run."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median

from iowatch import raw_results
from iowatch.case import Case
from iowatch.checks import (
    CONTROL,
    MDTEST_RATES,
    METADATA,
    NAME_PHASES,
    NAME_RATES,
    OST,
    rate_name,
    rate_unit,
)
from iowatch.files import brief_rate
from iowatch.law import bytes_of, osts_in_words
from iowatch.result import InvalidResult, Repetition, Result, Slowest, conditions
from iowatch.verdict import Reason

#: What the time of a run goes into, one after the other; output is all that an application says.
PHASES = ("open", "define", "write", "read", "output", "flush", "close", "sync")
#: Of names, likewise.
PHASES_OF_NAMES = (*NAME_PHASES[:2], "sync", *NAME_PHASES[2:])
#: Those that make a file of the data.
ENDS = ("open", "define", "flush", "close")
#: A rank is slow if it takes so many times the mean of all, in every repetition.
SLOW_RANK = 1.5
#: A node is slow among so many or more.
SLOW_AMONG = 3


def phases_among(found: Collection[str]) -> list[str]:
    """The phases of these that the time of a run goes into, in the order of time."""
    every = PHASES_OF_NAMES if "create" in found else PHASES
    return [phase for phase in every if phase in found]


@dataclass(frozen=True)
class Measured:
    """What a run that satisfies the law came to."""

    metrics: Mapping[str, float]
    conditions: Mapping[str, str]  # what it met with
    repetitions: Sequence[Repetition] = field(default_factory=list)  # of the case's own backend
    #: Median seconds of each phase of MPI-IO in the same rounds; none if the case is MPI-IO's own.
    control: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()  # to be known, whatever the verdict

    @property
    def slowest(self) -> dict[str, str]:
        """Of each phase the rank that was the slowest in most repetitions, in words."""
        return {
            name: _slowest([rep.slowest[name] for rep in self.repetitions])
            for name in _phases(self.repetitions)
        }


def measured(result: Result, case: Case, notes: Sequence[str] = ()) -> Measured:
    """What a result that satisfies the law says of its case."""
    *control, own = result.measurements  # the control comes first
    seconds = _medians(control[0].repetitions) if control else {}
    metrics = metrics_of(result, case)
    return Measured(metrics, conditions(result), own.repetitions, seconds, notes)


def metrics_of(result: Result, case: Case) -> dict[str, float]:
    """The metrics of a case whose result satisfies the law."""
    by_backend = {m.backend: m.repetitions for m in result.measurements}
    reps = by_backend[case.backend]
    if case.operation == METADATA:
        return _name_metrics(reps)
    # Whatever else is at work on the filesystem, it disturbs the fastest repetition least.
    fastest = max(reps, key=lambda rep: rep.rate)
    values = {
        **rate_metrics([rep.rates for rep in reps]),
        "data_median": median(rep.rates["data"] for rep in reps),
    }
    names = case.metrics
    if "finish_fraction" in names:
        values["finish_fraction"] = _finish_fraction(case.backend, reps, by_backend[CONTROL])
    if "stored_fraction" in names:
        values["stored_fraction"] = min(1.0, fastest.file_bytes / bytes_of(case))
    for name in names:
        if name.endswith("_s"):
            values[name] = median(rep.seconds[name.removesuffix("_s")] for rep in reps)
    if "instance_min" in names:
        values["instance_min"] = median(
            min(rep.instances, default=rep.rates["total"]) for rep in reps
        )
    if "ratio" in names:
        # With the sync: NetCDF syncs within its close, and MPI-IO does not.
        values["ratio"] = fastest.rate / max(rep.rate for rep in by_backend[CONTROL])
    return {name: values[name] for name in names}


def _name_metrics(reps: Sequence[Repetition]) -> dict[str, float]:
    """Of a check of names: the fastest repetition of each phase is the one that others disturb
    least."""
    items = [rep.rates["items"] for rep in reps]
    return {
        "items_max": max(items),
        "items_median": median(items),
        **{rate: max(rep.rates[name] for rep in reps) for name, rate in NAME_RATES.items()},
        **{f"{name}_s": median(rep.seconds[name] for rep in reps) for name in PHASES_OF_NAMES},
    }


def physical_rate(metrics: Mapping[str, float]) -> float:
    """The rate in MiB/s that the filesystem has to stand: of what was compressed, less than that of
    what was written; of names 0."""
    if rate_unit(metrics) != "MiB/s":
        return 0
    return metrics[rate_name(metrics)] * metrics.get("stored_fraction", 1)


def _finish_fraction(
    backend: str, reps: Sequence[Repetition], control: Sequence[Repetition]
) -> float:
    """The part of the time, sync included, in which a library makes a file of what it has written,
    by the median seconds of each phase.

    It is what the library takes to open, define, flush (if it is told to) and close the file beyond
    MPI-IO in the same rounds: HDF5 sets the file's size in H5Fclose, NetCDF makes its header in
    nf90_enddef, and an application waits for either. What it has thereby saved in the sync does
    not count: NetCDF flushes its file before it closes it, and the disk has to do that once in any
    case. MPI-IO and POSIX make nothing of what they have written: of them it is the close.
    """
    seconds, usual = _medians(reps), _medians(control)
    if backend in PLAIN:
        finish = seconds["close"]
    else:
        # No sync is in a read.
        saved = usual.get("sync", 0.0) - seconds.get("sync", 0.0)
        finish = _ends_s(seconds) - _ends_s(usual) - max(0.0, saved)
    whole = median(rep.seconds.get("stable", rep.seconds["total"]) for rep in reps)
    # Of many files each phase is that of the slowest, and the sum may be longer than any file took.
    return min(1.0, max(0.0, finish) / whole)


PLAIN = (CONTROL, "posix")  # whose file is the array, and nothing else


def _medians(reps: Sequence[Repetition]) -> dict[str, float]:
    """Median seconds of each phase."""
    return {name: median(rep.seconds[name] for rep in reps) for name in _phases(reps)}


def _ends_s(seconds: Mapping[str, float]) -> float:
    """Seconds before and after the data are moved."""
    return sum(seconds.get(phase, 0.0) for phase in ENDS)


def ost_rates(result: Result, osts: Mapping[str, int]) -> dict[str, dict[int, list[float]]]:
    """The rates of each OST, by operation: of a write synced, for a client's cache is as fast for
    every OST. `osts` has its number by benchio's name of it.
    """
    rates: dict[str, dict[int, list[float]]] = {"write": {}, "read": {}}
    for one in result.sound:
        rates[one.operation][osts[one.target]] = [rep.rate for rep in one.repetitions]
    return rates


def ost_metrics(
    result: Result, osts: Mapping[str, int], void: Sequence[str] = ()
) -> dict[str, float]:
    """The metrics of every OST by itself, from a result that satisfies the law; `osts` as above,
    and `void` a sentence on each that has none.

    An OST's rate is the best of its repetitions, MiB/s. `ost_ratio` is the slowest OST's rate over
    the median of its peers, and `ost_read_ratio` the same of reads. InvalidResult: it has no peers.
    """
    totals = [
        {kind: max(rep.rates[kind] for rep in one.repetitions) for kind in ("total", "stable")}
        for one in result.sound
        if one.operation == "write"
    ]
    if len(totals) < 2:
        why = "; ".join(["fewer than two OSTs can be compared", *void])
        raise InvalidResult(why, Reason.IO_ERROR)
    best = {
        f"{OST[operation]}{ost}": max(rates)
        for operation, by_ost in ost_rates(result, osts).items()
        for ost, rates in by_ost.items()
    }
    return {
        **rate_metrics(totals),
        "ost_ratio": osts_of(best, "write")[0].to_peers,
        "ost_read_ratio": osts_of(best, "read")[0].to_peers,
        **best,
    }


#: In what benchio says of a target that hangs: its name.
_HUNG = re.compile(r"/benchio\.[^/]+/target\.([^/:]+)")


def hung_osts(folder: Path) -> dict[str, str]:
    """Why a start of benchio was ended, by the target that it hung on: a job leaves what each says,
    as `said.1` and so on, and starts again without that target."""
    hung = {}
    for number in itertools.count(1):
        said = raw_results.find(folder, f"said.{number}")
        if said is None or raw_results.find(folder, f"result.{number}.json"):
            break
        error = raw_results.error_of(raw_results.read_text(said))
        if found := _HUNG.search(error):
            hung[found[1]] = error.removeprefix("benchio: error: ")
    return hung


def void_osts(why: Mapping[str, str], osts: Mapping[str, int]) -> list[str]:
    """A sentence on each OST that could not be measured; `osts` as above."""
    return [f"OST {osts[name]} was not measured: {said}" for name, said in why.items()]


def osts_away(text: str) -> dict[str, tuple[int, ...]]:
    """By filesystem, from `fs3:7,fs3:9` as a session declares it; ValueError if it is not so."""
    found: dict[str, set[int]] = {}
    for one in filter(None, text.split(",")):
        name, _, ost = one.rpartition(":")
        found.setdefault(name, set()).add(int(ost))
    return {name: tuple(sorted(osts)) for name, osts in found.items()}


def require_away(away: Collection[int], void: Mapping[str, str], osts: Mapping[str, int]) -> None:
    """InvalidResult unless the OSTs that were declared to be away are those that could not be
    measured, and all of them; `osts` as above."""
    if there := set(away) - {osts[name] for name in void}:
        raise InvalidResult(
            f"the session was declared to be without {osts_in_words(sorted(there))}, which it "
            "could measure"
        )
    if unknown := {name: why for name, why in void.items() if osts[name] not in away}:
        raise InvalidResult("; ".join(void_osts(unknown, osts)), Reason.IO_ERROR)


def ior_metrics(rounds: Sequence[Result], ior: Sequence[float]) -> dict[str, float]:
    """The metrics of benchio beside IOR: one repetition of benchio in each round, and IOR's rates.

    `ior_ratio` is benchio's best rate over IOR's. IOR syncs before it closes, and its rate has that
    in it: so has benchio's here.
    """
    reps = [rep for done in rounds for rep in done.measurements[0].repetitions]
    return {
        **rate_metrics([rep.rates for rep in reps]),
        "ior_max": max(ior),
        "ior_median": median(ior),
        "ior_ratio": max(rep.rate for rep in reps) / max(ior),
    }


def mdtest_metrics(
    rounds: Sequence[Result], mdtest: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """The metrics of benchio beside mdtest: one repetition of benchio in each round, and mdtest's
    rates in operations a second by phase.

    `mdtest_ratio` is the best rate at which benchio creates files over that of mdtest, whose clock
    runs until they are synced: so does benchio's here, and its directories are synced with them.
    """
    reps = [rep for done in rounds for rep in done.measurements[0].repetitions]
    best = {phase: max(rates[phase] for rates in mdtest) for phase in mdtest[0]}
    created = max(
        rep.operations["create"] / (rep.seconds["create"] + rep.seconds["sync"]) for rep in reps
    )
    return {
        **_name_metrics(reps),
        **{MDTEST_RATES[phase]: rate for phase, rate in best.items()},
        "mdtest_ratio": created / best["create"],
    }


@dataclass(frozen=True)
class Ost:
    """One OST among its peers."""

    name: str  # its number
    rate: float  # MiB/s
    to_peers: float  # its rate over the median of all others


def osts_of(
    metrics: Mapping[str, float], operation: str, among: Collection[str] | None = None
) -> list[Ost]:
    """The OSTs that have a metric of their own, slowest first; `among`: only these, by number, and
    no other is a peer."""
    rates = {
        name.removeprefix(OST[operation]): rate
        for name, rate in metrics.items()
        if re.fullmatch(rf"{OST[operation]}\d+", name)
    }
    chosen = rates if among is None else {name: rates[name] for name in among if name in rates}
    slowest_first = sorted(chosen.items(), key=itemgetter(1))
    ordered = [rate for _, rate in slowest_first]
    return [
        Ost(name, rate, rate / median([*ordered[:at], *ordered[at + 1 :]] or [rate]))
        for at, (name, rate) in enumerate(slowest_first)
    ]


def osts_below(metrics: Mapping[str, float], operation: str, bound: float) -> list[Ost]:
    """Those slower than `bound` times the median of their peers, slowest first."""
    return [ost for ost in osts_of(metrics, operation) if ost.to_peers < bound]


def slow_osts(metrics: Mapping[str, float], operation: str, bound: float) -> str:
    """The same in one phrase."""
    return ", ".join(
        f"OST {ost.name} ({brief_rate(ost.rate)} MiB/s, {ost.to_peers:.2f} of its peers)"
        for ost in osts_below(metrics, operation, bound)
    )


def rate_metrics(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The statistics of these total rates, and of the stable ones where they are of writes."""
    totals = [rates["total"] for rates in found]
    values = {
        "total_max": max(totals),
        "total_median": median(totals),
        "total_mean": fmean(totals),
        "total_min": min(totals),
    }
    if stable := [rates["stable"] for rates in found if "stable" in rates]:
        values |= {"stable_max": max(stable), "stable_median": median(stable)}
    return values


def _phases(repetitions: Sequence[Repetition]) -> list[str]:
    return phases_among({name for rep in repetitions for name in rep.seconds})


def _slowest(places: Sequence[Slowest]) -> str:
    """Such as `rank 3 on nid00017, 7 of 10 times, 1.8 times the mean`."""
    (((rank, host), times),) = Counter((place.rank, place.host) for place in places).most_common(1)
    to_mean = median(place.to_mean for place in places if place.rank == rank)
    return f"rank {rank} on {host}, {times} of {len(places)} times, {to_mean:.1f} times the mean"


def slow_node(repetitions: Sequence[Repetition]) -> str:
    """A phrase on the node that always takes much longer than half of all nodes; empty: none does.

    The sync is each node's alone. Where ranks wait for one another in a write or read, no node
    shows there.
    """
    for phase in ("sync", "write", "read"):
        spreads = [rep.nodes[phase] for rep in repetitions if phase in rep.nodes]
        hosts = {spread.host for spread in spreads}
        if len(spreads) < 2 or len(hosts) > 1 or spreads[0].nodes < SLOW_AMONG:
            continue
        excess = min(spread.most / spread.median if spread.median else 1.0 for spread in spreads)
        if excess >= SLOW_RANK:
            return (
                f"the node {hosts.pop()} is the slowest in {phase} in all {len(spreads)} "
                f"repetitions, by {excess:.1f} times the median of {spreads[0].nodes} nodes or more"
            )
    return ""


def slow_rank(repetitions: Sequence[Repetition]) -> str:
    """A phrase on the rank that is always much slower than the others in the longest phase.

    Empty if there is none. Where ranks wait for one another, as in collective calls, the slow one
    cannot be told from those that wait.
    """
    phases = _phases(repetitions)
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
