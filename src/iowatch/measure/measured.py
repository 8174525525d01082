"""The metrics of a verified run, and the rank or node that was slow in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Self

from iowatch.cases.metric import PHASES
from iowatch.cases.run import ByNode
from iowatch.measure.provenance import provenance
from iowatch.measure.result import Repetition, Result, Slowest

#: A rank is slow if it takes so many times the mean of all, in every repetition.
SLOW_RANK = 1.5
#: A node is slow among so many or more.
SLOW_AMONG = 3


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurement of a run that satisfies the law."""

    metrics: Mapping[str, float]
    results: Sequence[Result]  # of benchio
    provenance: Mapping[str, str]  # what it met with
    repetitions: Sequence[Repetition] = ()  # of the case's own backend
    #: Median seconds of each phase of MPI-IO in the same rounds; none if the case is MPI-IO's own.
    control: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()  # to be known, whatever the verdict
    #: MiB/s of each round by backend, writes synced; of names, operations a second by phase.
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: Rates by operation and OST, of a case that measures each OST by itself.
    osts: Mapping[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)
    ior: Sequence[float] = ()  # MiB/s of each round of IOR, in turn with benchio
    by_node: ByNode = field(default_factory=ByNode)  # where nodes do not wait for one another

    @classmethod
    def from_results(
        cls, results: Sequence[Result], metrics: Mapping[str, float], **more: Any
    ) -> Self:
        """Add the rates of the rounds to these metrics, and the provenance of the last result."""
        usual: dict[str, Any] = {"provenance": provenance(results[-1])}
        usual["rates"] = rates_of_rounds(results)
        return cls(results=results, metrics=metrics, **(usual | more))

    def slowest(self, phases: Sequence[str] = PHASES) -> dict[str, str]:
        """Name the rank that was the slowest in most repetitions, by phase."""
        return {
            name: _slowest([rep.slowest[name] for rep in self.repetitions])
            for name in _among(phases, self.repetitions)
        }


def node_rates(result: Result, operation: str) -> dict[str, float]:
    """The median rate of each node, MiB/s, of a write synced; none if the nodes are too many to be
    listed, or none did this."""
    rates = dict[str, list[float]]()
    measured = [m for m in result.sound if m.operation == operation][-1:]  # after its control
    for rep in (rep for m in measured for rep in m.repetitions if rep.nodes):
        parts = [rep.nodes[name].parts for name in (operation, "sync") if name in rep.nodes]
        for host, mib, *seconds in zip(
            result.run["hosts"], rep.nodes["mib"].parts, *parts, strict=False
        ):
            spent = sum(second or 0.0 for second in seconds)
            if mib and spent:
                rates.setdefault(host, []).append(mib / spent)
    return {host: median(several) for host, several in rates.items()}


def node_ratios(result: Result, operation: str) -> ByNode:
    """The rate of each node over the median of its peers; empty: it has too few."""
    rates = node_rates(result, operation)
    if len(rates) < SLOW_AMONG:
        return {}
    middle = median(rates.values())
    return {"ratios": {operation: {host: round(r / middle, 4) for host, r in rates.items()}}}


def medians_of(reps: Sequence[Repetition]) -> dict[str, float]:
    """Median seconds of each phase."""
    return {name: median(rep.seconds[name] for rep in reps) for name in _among(PHASES, reps)}


def rate_metrics(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The statistics of these total rates, and of the stable ones where they are of writes."""
    totals = [rates["total"] for rates in rounds]
    values = {
        "total_max": max(totals),
        "total_median": median(totals),
        "total_mean": fmean(totals),
        "total_min": min(totals),
    }
    if stable := [rates["stable"] for rates in rounds if "stable" in rates]:
        values |= {"stable_max": max(stable), "stable_median": median(stable)}
    return values


def rates_of_rounds(results: Sequence[Result]) -> dict[str, list[float]]:
    """The rates of each backend, MiB/s, in the order of rounds; of names operations a second of
    each phase."""
    rates: dict[str, list[float]] = {}
    for result in results:
        for measurement in result.measurements:
            for rep in measurement.repetitions:
                rated = {measurement.backend: rep.rate} if rep.spans else rep.rates
                for name, rate in rated.items():
                    rates.setdefault(name, []).append(rate)
    return rates


def _among(phases: Sequence[str], repetitions: Sequence[Repetition]) -> list[str]:
    """Return the phases that are on record."""
    return [name for name in phases if any(name in rep.seconds for rep in repetitions)]


def _slowest(places: Sequence[Slowest]) -> str:
    """Say `rank 3 on nid00017, 7 of 10 times, 1.8 times the mean`."""
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


def slow_rank(repetitions: Sequence[Repetition], phases: Sequence[str] = PHASES) -> str:
    """A phrase on the rank that is always much slower than the others in the longest phase.

    Empty if there is none. Where ranks wait for one another, as in collective calls, the slow one
    cannot be told from those that wait.
    """
    there = _among(phases, repetitions)
    longest = max(there, key=lambda name: median(rep.seconds[name] for rep in repetitions))
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
