"""Criteria on one rate of benchio, or of IOR beside it, and on single OSTs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, stdev
from types import MappingProxyType
from typing import ClassVar

import attrs

from iowatch.base.records import COUNT, choice, key
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.parameters import BACKENDS, CONTROL
from iowatch.evidence.criteria.by_session import BySession
from iowatch.evidence.criteria.criterion import (
    Certified,
    Criterion,
    Curve,
    Finding,
    Nights,
    Suite,
    refused,
)
from iowatch.evidence.exhibits import Condition, Evidence, Exhibit
from iowatch.evidence.terms import COMMITTED, POSITIVE, Rules, Storage, Terms
from iowatch.measure.kinds.ior import EASY, HARD, IO500
from iowatch.measure.kinds.metadata import NAME_PHASES
from iowatch.measure.kinds.slow_ost import OST, Ost, osts_of


@attrs.frozen(kw_only=True)
class OfArray(BySession):
    """A criterion on what benchio writes or reads of one array."""

    evidence_of: ClassVar[str] = "array"
    varies_like: ClassVar[Sequence[str]] = ("stable_median", "total_median")

    operation: str = key(
        choice("write", "read"), "The operation whose rate is judged.", default="write"
    )
    backend: str = key(choice(*BACKENDS), "The I/O library whose rate is judged.", default=CONTROL)
    instances: int | None = key(
        COUNT,
        "Concurrent benchmarks (needs `SystemLoad` in the suite); their aggregate is judged.",
        default=None,
    )

    def concerns(self, case: Case) -> bool:
        return (
            super().concerns(case)
            and self.operation in case.check.operations
            and case.backend == self.backend
            and case.instances == self.instances
        )

    def misfits(self, terms: Terms, place: Filesystem) -> Iterator[str]:
        yield from super().misfits(terms, place)
        if self.operation == "read" and terms.rules.times_memory and place.cached_reads:
            yield (
                f"what is read of {place.name} may come from a client's cache, by 'cached_reads' "
                "of the site's file"
            )

    def details(self) -> list[str]:
        words = [f"{self.operation} {self.files}", self.backend, self.filesystem]
        words += [self.scope] if self.scope else []
        return words + ([f"{self.instances} at once"] if self.instances else [])


@attrs.frozen(kw_only=True)
class BandwidthCriterion(OfArray):
    """The time is from opening a file to closing it; of a write, to having synced it."""

    kind: ClassVar[str] = "bandwidth"
    unit: ClassVar[str] = "MiB/s"
    short_unit: ClassVar[str] = "MiB/s"

    def ceiling(self, storage: Storage) -> float | None:
        return storage.peak


@attrs.frozen(kw_only=True)
class PeakCriterion(OfArray):
    """The bandwidth as a part of the peak that the contract gives."""

    kind: ClassVar[str] = "peak"
    unit: ClassVar[str] = "of the filesystem's peak"
    needs: ClassVar[Sequence[str]] = ("peak",)

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        assert storage.peak is not None
        return self.rate(runs[0]) / storage.peak

    def ceiling(self, storage: Storage) -> float | None:
        return 1.0


@attrs.frozen(kw_only=True)
class RatioCriterion(OfArray):
    """The bandwidth of a library divided by MPI-IO's in the same rounds of the same job."""

    kind: ClassVar[str] = "ratio"
    unit: ClassVar[str] = "of MPI-IO's in the same rounds"
    varies_like: ClassVar[Sequence[str]] = ("ratio",)

    backend: str = key(
        choice(*(name for name in BACKENDS if name != CONTROL)),
        "The I/O library that is compared with MPI-IO.",
    )

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        rates = runs[0].rates
        pairs = zip(rates[self.backend], rates[CONTROL], strict=True)
        return median(rate / control for rate, control in pairs)


@attrs.frozen(kw_only=True)
class RepeatabilityCriterion(OfArray):
    """Standard deviation of the repetitions of a job over their mean, as of log-normal rates."""

    kind: ClassVar[str] = "repeatability"
    unit: ClassVar[str] = "standard deviation over mean of the repetitions"
    is_less_better: ClassVar[bool] = True
    varies_like: ClassVar[Sequence[str]] = ()

    committed: float = key(POSITIVE, COMMITTED, name="at_most")

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        logarithms = [math.log(rate) for rate in runs[0].rates[runs[0].case.backend]]
        return math.sqrt(math.expm1(stdev(logarithms) ** 2)) if len(logarithms) > 1 else 0.0


@attrs.frozen(kw_only=True)
class ScalingCriterion(OfArray):
    """The ratio of two bandwidths, divided by the ratio of their numbers of nodes."""

    kind: ClassVar[str] = "scaling"
    unit: ClassVar[str] = "of linear scaling between the two numbers of nodes"

    nodes: int | None = attrs.field(init=False, default=None)  # two, in its place
    from_nodes: int = key(COUNT, "The lower number of nodes.")
    to_nodes: int = key(COUNT, "The higher number of nodes.")

    def contradiction(self) -> str:
        if self.to_nodes > self.from_nodes:
            return ""
        return f"to_nodes is {self.to_nodes}, and from_nodes {self.from_nodes}: it must be more"

    @property
    def sizes(self) -> Sequence[int | None]:
        return (self.from_nodes, self.to_nodes)

    @property
    def no_case(self) -> str:
        return "no case has these numbers of nodes"

    @property
    def scope(self) -> str:
        return f"{self.from_nodes} to {self.to_nodes} nodes"

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        few, many = runs
        return self.rate(many) / self.rate(few) / (many.nodes / few.nodes)

    def curve(self, evidence: Evidence, sessions: Collection[str]) -> Curve:
        """For each number of nodes the median over these sessions of the case that the first
        session finds best."""
        suite = evidence.suite(self.filesystem)
        runs = [run for run in evidence.exhibits if run.case in suite and self.concerns(run.case)]
        first = [run for run in runs if run.session == evidence.counting[0].uuid]
        points = []
        for nodes in sorted({run.nodes for run in first}):
            best = max((run for run in first if run.nodes == nodes), key=self.rate).case
            rates = [self.rate(run) for run in runs if run.case == best and run.session in sessions]
            if rates:
                points.append((float(nodes), median(rates)))
        by_node = dict(points)[self.from_nodes] / self.from_nodes
        ends = points[0][0], points[-1][0]
        lines = {
            name: (part * by_node * ends[0], part * by_node * ends[1])
            for name, part in (("linear", 1.0), ("committed", self.committed))
        }
        return points, lines


#: How many files IO500's patterns have; the backend is posix.
_FILES_OF: Mapping[str, str] = MappingProxyType({EASY: "process", HARD: "shared"})
_POSIX = "posix"


@attrs.frozen(kw_only=True)
class IorCriterion(OfArray):
    """MiB/s of IOR, which moves the same bytes as benchio; io500 is one of IO500's patterns."""

    kind: ClassVar[str] = "ior"
    unit: ClassVar[str] = "MiB/s of IOR, beside benchio on the same pattern"
    evidence_of: ClassVar[str] = "ior"
    short_unit: ClassVar[str] = "MiB/s"
    varies_like: ClassVar[Sequence[str]] = ("ior_median",)

    io500: str | None = key(
        choice(EASY, HARD),
        "IO500's pattern ior-easy or ior-hard, of a fixed size: no score of IO500's.",
        default=None,
    )
    files: str = key(
        choice("shared", "process"),
        "One file, or one of each rank; as IO500's pattern has it if one is named, else shared.",
        default=attrs.Factory(lambda self: _FILES_OF.get(self.io500, "shared"), takes_self=True),
    )
    backend: str = key(
        choice(*BACKENDS),
        "The I/O library of IOR: posix for a pattern of IO500's, else mpiio.",
        default=attrs.Factory(lambda self: _POSIX if self.io500 else CONTROL, takes_self=True),
    )

    def contradiction(self) -> str:
        if self.io500 and (self.files, self.backend) != (_FILES_OF[self.io500], _POSIX):
            return f"io500 {self.io500} has files {_FILES_OF[self.io500]} and backend {_POSIX}"
        return ""

    @property
    def ways(self) -> Sequence[tuple[str, str]]:
        return [(IO500.name, self.io500)] if self.io500 else []

    def rate(self, run: Exhibit) -> float:
        return median(run.ior)

    def details(self) -> list[str]:
        return super().details() + ([IO500.in_words(self.io500)] if self.io500 else [])


@attrs.frozen(kw_only=True)
class MetadataCriterion(BySession):
    """Operations a second of all nodes in one phase; `items` are files that go through all."""

    kind: ClassVar[str] = "metadata"
    unit: ClassVar[str] = "operations a second of all nodes, of one phase or of all together"
    short_unit: ClassVar[str] = "operations/s"
    evidence_of: ClassVar[str] = "names"
    varies_like: ClassVar[Sequence[str]] = ("items_median",)
    outgrows_memory: ClassVar[bool] = False  # nobody reads names back from the servers' memory

    files: str = key(
        choice("shared", "process"),
        "One directory for all ranks, or a directory of each rank.",
        default="shared",
    )
    phase: str = key(
        choice(*NAME_PHASES, "items"), "The phase; items: files that go through all of them."
    )

    def rate(self, run: Exhibit) -> float:
        return median(run.rates[self.phase])

    def details(self) -> list[str]:
        place = "one directory" if self.files == "shared" else "a directory of each process"
        return [self.phase, place, self.filesystem, self.scope]


@attrs.frozen(kw_only=True)
class DegradedCriterion(OfArray):
    """The bandwidth of a session without some OSTs over that of one with all.

    The n-th session without the OSTs is compared with the n-th that had all of them, so that nobody
    can choose which.
    """

    kind: ClassVar[str] = "degraded"
    unit: ClassVar[str] = "of the bandwidth of sessions with all OSTs, each beside the next without"
    needs: ClassVar[Sequence[str]] = ("osts",)

    away: int = key(COUNT, "The number of OSTs that are away.")

    @property
    def condition(self) -> Condition:
        return ((self.filesystem, self.away),)

    def groups(self, terms: Terms, suite: Suite) -> tuple[list[list[Case]], str]:
        groups, why = super().groups(terms, suite)
        if not why and not any(case.check.by_target for case in suite):
            why = "the suite has no SlowOst, which would show what is away"
        return groups, why

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        whole, without = runs
        return self.rate(without) / self.rate(whole)

    def details(self) -> list[str]:
        return [*super().details(), f"without {counted(self.away, 'OST')}"]


@attrs.frozen(kw_only=True)
class SlowOstCriterion(OfArray):
    """The best rate of the slowest OST over the median of its peers, in all sessions together.

    The best of each OST counts, so there is no interval, and sizes and nodes do not matter.
    """

    kind: ClassVar[str] = "slow_ost"
    unit: ClassVar[str] = "of the median of its peers: the slowest OST"
    evidence_of: ClassVar[str] = "osts"
    needs: ClassVar[Sequence[str]] = ("osts",)
    has_interval: ClassVar[bool] = False

    def conflicts(self, rules: Rules, storage: Storage) -> Iterator[str]:
        return Criterion.conflicts(self, rules, storage)

    def too_small(self, terms: Terms, case: Case, nodes: int) -> str:
        return ""

    def rate(self, run: Exhibit) -> float:
        return median(rate for rates in run.osts[self.operation].values() for rate in rates)

    @property
    def scope(self) -> str:
        return ""

    def conclude(self, terms: Terms, by_turn: Mapping[str, Sequence[Exhibit]]) -> Finding:
        runs, rates = [*chain.from_iterable(by_turn.values())], dict[int, list[float]]()
        for run in runs:
            for ost, of_run in run.osts[self.operation].items():
                rates.setdefault(ost, []).extend(of_run)
        if len(rates) < 2:
            return refused("fewer than two OSTs can be compared")
        slowest = self._slowest(rates)
        return Finding(
            verdict=Certified.PASS if self.is_kept(slowest.to_peers) else Certified.FAIL,
            reason=f"the slowest is OST {slowest.name}",
            measured=slowest.to_peers,
            values={run.session: self._slowest(run.osts[self.operation]).to_peers for run in runs},
        )

    def _slowest(self, rates: Mapping[int, Sequence[float]]) -> Ost:
        best = {f"{OST[self.operation]}{ost}": max(of_ost) for ost, of_ost in rates.items()}
        return osts_of(best, self.operation)[0]

    def prospect(
        self, terms: Terms, groups: Sequence[Sequence[Case]], nights: Nights
    ) -> tuple[str, bool]:
        cases = counted(len(groups[0]), "case")
        return f"{cases}; the best rate of each OST over all sessions counts", True
