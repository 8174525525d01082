"""One case in a night's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from iowatch.case import Case
from iowatch.detector.judgement import NOISY, OK, SEVERE, SUSPECT, TRANSIENT
from iowatch.expected import ExpectedFailure, excuse
from iowatch.report.past import Change, Expected, Past
from iowatch.report.sentence import sentence_of
from iowatch.report.trend import Trend, trend_of
from iowatch.verdict import (
    DEFECT,
    IMPROVEMENT,
    INVALID,
    NO_BASELINE,
    REGRESSION,
    TOO_FAST,
    Reference,
)

#: Verdicts, worst first.
ORDER = (
    *(INVALID, TOO_FAST, SEVERE, DEFECT, REGRESSION, NO_BASELINE),
    *(SUSPECT, TRANSIENT, IMPROVEMENT, NOISY, OK),
)
QUIET = frozenset({OK, NOISY})


@dataclass(frozen=True)
class Row:
    """One case tonight."""

    case: Case
    name: str  # short, but no two cases of a night share it
    verdict: str
    red: bool
    known: str  # why the failure is expected; empty: it is not
    sentence: str  # the one that matters
    said: str  # the check's own
    runs: int
    invalid_runs: int
    figures: Mapping[str, float]  # of the best run; empty if the last was invalid
    usual: Mapping[str, float]  # median of each on the nights compared with
    expected: Expected | None
    slowest: Mapping[str, str]  # the slowest rank in each phase, in words
    osts: Sequence[tuple[str, float, float]]  # number, MiB/s, of the median; slowest first
    references: Mapping[str, Reference]  # the bounds that the checks judged by
    last_good: date | None  # the night that `changes` are since
    changes: Sequence[Change] | None  # None: tonight's conditions are not on record
    trend: Trend

    @property
    def label(self) -> str:
        """The verdict in words."""
        return f"{self.verdict} (known)" if self.known else self.verdict

    @property
    def remark(self) -> str:
        """The sentence without the name."""
        return self.sentence.removeprefix(f"{self.name}: ")

    @property
    def drop(self) -> float | None:
        """The part of the expected bandwidth that is lost; negative: gained."""
        if not (self.expected and self.figures):
            return None
        return 1 - self.figures["total_max"] / self.expected.value

    @property
    def is_quiet(self) -> bool:
        """Nothing to look into; what ReFrame failed is not quiet, whatever its verdict."""
        return self.verdict in QUIET and not (self.red or self.known or self.invalid_runs)

    @property
    def is_ok(self) -> bool:
        """Nothing to say either."""
        return self.is_quiet and self.verdict == OK

    @property
    def phases(self) -> list[tuple[str, float, float | None]]:
        """Each phase with its seconds tonight and usually, in the order of time."""
        return [
            (phase, self.figures[f"{phase}_s"], self.usual.get(f"{phase}_s"))
            for phase in ("open", "define", "write", "read", "sync", "close")
            if f"{phase}_s" in self.figures
        ]


def row_of(
    case: Case,
    name: str,
    past: Past,
    excuses: Sequence[ExpectedFailure],
    night: date,
    first: date,
) -> Row:
    """The row of a case: its trend begins with `first`."""
    last = past.tonight[-1]
    known = excuse(excuses, str(case), night) if last.result == "xfail" else None
    return Row(
        case=case,
        name=name,
        verdict=last.verdict,
        red=last.result not in ("pass", "xfail"),
        known=str(known or "expected") if last.result == "xfail" else "",
        sentence=sentence_of(case, name, past),
        said=last.sentence,
        runs=len(past.tonight),
        invalid_runs=sum(not run.figures for run in past.tonight),
        figures=past.figures,
        usual=past.usual,
        expected=past.expected,
        slowest=past.best.slowest if past.best else {},
        osts=past.osts,
        references=last.references,
        last_good=past.last_good,
        changes=past.changes,
        trend=trend_of(past, first),
    )


def severity(row: Row) -> tuple[bool, int, float, str]:
    """Sorts the worst first."""
    rank = ORDER.index(row.verdict) if row.verdict in ORDER else len(ORDER)
    return not row.red, rank, -(row.drop or 0), str(row.case)
