"""Criteria on the bandwidth of benchio's array: `bandwidth`, `peak`, `ratio`, `repeatability`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.by_session import BySession
from iowatch.acceptance.exhibits import Exhibit
from iowatch.acceptance.terms import POSITIVE, Storage, Terms
from iowatch.case import Case
from iowatch.check import Check
from iowatch.files import brief, counted
from iowatch.kinds.array import Array
from iowatch.parameters import BACKENDS, CONTROL
from iowatch.records import COUNT, choice, key
from iowatch.site import Filesystem

#: The metrics that vary between sessions as bandwidth does.
BANDWIDTH = ("stable_median", "total_median")


@attrs.frozen(kw_only=True)
class OfArray(BySession):
    """A criterion on what benchio writes or reads of one array."""

    varies_like: ClassVar[Sequence[str]] = BANDWIDTH

    operation: str = key(choice("write", "read"), default="write")
    backend: str = key(choice(*BACKENDS), default=CONTROL)
    instances: int | None = key(COUNT, default=None)  # concurrent benchmarks

    @property
    def ways(self) -> Sequence[tuple[str, str]]:
        """The ways in which the cases write or read, where they are not benchio's own."""
        return ()

    def suits(self, check: Check) -> bool:
        """Does a check measure what the criterion is about?"""
        return isinstance(check, Array)

    def concerns(self, case: Case) -> bool:
        return (
            self.suits(case.check)
            and self.operation in case.check.operations
            and case.files == self.files
            and case.backend == self.backend
            and case.instances == self.instances
            and [(way.name, value) for way, value in case.ways] == [*self.ways]
            and bool(case.metrics)
        )

    def misfit(self, terms: Terms, place: Filesystem) -> str:
        if why := super().misfit(terms, place):
            return why
        if self.operation == "read" and terms.rules.times_memory and place.cached_reads:
            return (
                f"what is read of {place.name} may come from a client's cache, by 'cached_reads' "
                "of the site's file"
            )
        return ""

    def rate(self, run: Exhibit) -> float:
        return median(run.rates[run.case.backend])

    @property
    def scope(self) -> str:
        """The numbers of nodes, in words; empty if they do not matter."""
        return ""

    def details(self) -> list[str]:
        words = [f"{self.operation} {self.files}", self.backend, self.filesystem]
        words += [self.scope] if self.scope else []
        return words + ([f"{self.instances} at once"] if self.instances else [])


@attrs.frozen(kw_only=True)
class OnNodes(OfArray):
    """A criterion on one case of an array, on any number of nodes unless it names one."""

    nodes: int | None = key(COUNT, default=None)

    @property
    def sizes(self) -> Sequence[int | None]:
        return (self.nodes,)

    @property
    def no_case(self) -> str:
        nodes = f" with {counted(self.nodes, 'node')}" if self.nodes else ""
        return super().no_case + nodes

    @property
    def scope(self) -> str:
        return counted(self.nodes, "node") if self.nodes else "best of all cases"


@attrs.frozen(kw_only=True)
class Bandwidth(OnNodes):
    """The time is from opening a file to closing it; of a write, to having synced it."""

    kind: ClassVar[str] = "bandwidth"
    unit: ClassVar[str] = "MiB/s"

    def amount(self, value: float) -> str:
        return f"{brief(value)} MiB/s"

    def ceiling(self, storage: Storage) -> float | None:
        return storage.peak


@attrs.frozen(kw_only=True)
class Peak(OnNodes):
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
class Ratio(OnNodes):
    """The bandwidth of a library divided by MPI-IO's in the same rounds of the same job."""

    kind: ClassVar[str] = "ratio"
    unit: ClassVar[str] = "of MPI-IO's in the same rounds"
    varies_like: ClassVar[Sequence[str]] = ("ratio",)

    backend: str = key(choice(*(name for name in BACKENDS if name != CONTROL)))

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        rates = runs[0].rates
        pairs = zip(rates[self.backend], rates[CONTROL], strict=True)
        return median(rate / control for rate, control in pairs)


@attrs.frozen(kw_only=True)
class Repeatability(OnNodes):
    """Standard deviation of the repetitions of a job over their mean, as of log-normal rates."""

    kind: ClassVar[str] = "repeatability"
    unit: ClassVar[str] = "standard deviation over mean of the repetitions"
    is_less_better: ClassVar[bool] = True
    varies_like: ClassVar[Sequence[str]] = ()

    committed: float = key(POSITIVE, name="at_most")

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        logarithms = [math.log(rate) for rate in runs[0].rates[runs[0].case.backend]]
        return math.sqrt(math.expm1(stdev(logarithms) ** 2)) if len(logarithms) > 1 else 0.0
