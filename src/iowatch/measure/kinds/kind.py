"""A kind of check: what its cases ask for, and what came of them.

A module of this folder is one kind, whole: its checks override what is different for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, ClassVar

from iowatch.cases.case import Case, Check, Part
from iowatch.cases.metric import RATIO, Metric, Metrics
from iowatch.cases.parameters import Size
from iowatch.measure.law import Job, notes, require_one_result, verified
from iowatch.measure.measured import Measured, node_ratios
from iowatch.measure.result import Repetition, Result


@dataclass(frozen=True, kw_only=True)
class KeptFiles:
    """The files of an earlier night that a job has read, and those that it keeps."""

    has_kept: bool  # all files were kept, and verified
    read: str | None  # the night of what was read; empty: nothing was there; None: it did not look
    why_not: str  # why what was read is not verified; empty: it is
    is_lost: bool  # what was kept is gone, or differs
    read_id: str = ""  # the run that had kept what was read; empty: nothing was verified


@dataclass(frozen=True, eq=False, kw_only=True)
class Kind(Check):
    """A check whose jobs can be read."""

    def read(self, job: Job, repeats: int) -> Measured:
        """Read what a job has left; InvalidResult if that breaks the law."""
        require_one_result(job.folder)
        result = verified(job, "result.json", repeats)
        return self.measured(result, job.case, notes(result, job.case, job.filesystem))

    def measured(self, result: Result, case: Case, notes: Sequence[str] = ()) -> Measured:
        """Return what one result that satisfies the law says of its case."""
        return Measured.from_results(
            [result],
            self.metrics_of(result, case),
            repetitions=result.measurements[-1].repetitions,
            notes=notes,
            by_node=node_ratios(result, self.operation) if self.is_free_of_others(case) else {},
        )

    def is_free_of_others(self, case: Case) -> bool:
        """Does no node of a job wait for another while it writes or reads? Then its own rate says
        something of the node."""
        return False

    def kept_files(self, job: Job) -> KeptFiles | None:
        """The kept files that a job has read or written; None: it does neither."""
        return None

    def metrics_of(self, result: Result, case: Case) -> dict[str, float]:
        """Return the metrics of a case whose one result satisfies the law."""
        return self.metrics_of_rounds(result.measurements[0].repetitions, case)

    def metrics_of_rounds(self, reps: Sequence[Repetition], case: Case) -> dict[str, float]:
        """Return the same of these rounds, where benchio measures one thing."""
        raise NotImplementedError(f"{self.name} measures nothing")


#: benchio's options of parameters that only checks of single calls have.
_OPTIONS = {
    "files": "files", "items": "items", "mdt": "mdt-index", "per_file": "per-file",
    "sample": "sample", "seconds": "seconds",
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class CallsKind(Kind):
    """A check of single calls on small files, each of which has a rate by itself: most of the time
    goes into one or two, and what another has lost is hardly seen in the whole."""

    calls: ClassVar[Mapping[str, str]] = {}  # the metric of each
    size: str  # of a case; a parameter in braces stands for its value

    def elements(self, case: Case) -> Size:
        return (1, 1, 1)

    def _values(self, case: Case) -> dict[str, str]:
        given = {p.name: (p, case.get(p.name)) for p in self.parameters if p.name in _OPTIONS}
        return {name: p.format(value) for name, (p, value) in given.items() if value is not None}

    def size_of(self, case: Case) -> str:
        values = self._values(case)
        return self.size.format(**values) + (f", MDT {values['mdt']}" if "mdt" in values else "")

    def command_line(self, case: Case) -> list[str]:
        options = (f"--{_OPTIONS[name]} {text}" for name, text in self._values(case).items())
        return [f"--operation {self.operation}", *options]

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        return {
            Part(call, metric=rate, words=f"the rate of {call}"): metrics[rate]
            for call, rate in self.calls.items()
            if rate in metrics
        }


#: The best and the median round, by the end of a metric's name.
_BEST_AND_MEDIAN = {"max": "best", "median": "median"}


def two_metrics(name: str, unit: str, *, title: str = "", about: str, **more: Any) -> Metrics:
    """Declare the best and the median value of some rate; `{}` stands for these words."""
    return {
        f"{name}_{key}": Metric(unit, title=title.format(word), about=about.format(word), **more)
        for key, word in _BEST_AND_MEDIAN.items()
    }


def ratio_metrics(names: Mapping[str, str], about: str) -> Metrics:
    """Declare a ratio for each operation, for which `{}` stands."""
    return {name: replace(RATIO, about=about.format(word)) for word, name in names.items()}


def two_values(name: str, values: Sequence[float]) -> dict[str, float]:
    """The values of these metrics."""
    return {f"{name}_max": max(values), f"{name}_median": median(values)}
