"""A kind of check: what its cases ask for, and what came of them.

A module of this folder is one kind, whole: its checks override what is different for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iowatch.cases.case import Case, Check
from iowatch.measure.law import Job, notes, require_one_result, verified
from iowatch.measure.measured import Measured, node_ratios
from iowatch.measure.result import Result


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
        raise NotImplementedError(f"{self.name} measures nothing")
