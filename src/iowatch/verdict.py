"""What a night says of a case: one word, one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """The verdicts, worst first. Each is a word of its own, the same everywhere."""

    INVALID = "invalid"  # not verified: it has no metrics
    TOO_FAST = "too_fast"  # above the physical ceiling: a cache or a bug was measured
    SEVERE = "severe"  # every run of the night is far below the baseline
    DEFECT = "defect"  # worse than an absolute bound: needs no history
    REGRESSION = "regression"  # worse than a reference, or lastingly below the baseline
    NO_BASELINE = "no_baseline"  # nothing to compare with
    NOT_MEASURED = "not_measured"  # for a reason that is no fault of what it would have measured
    LEFT_OUT = "left_out"  # what it needs has never been there, such as its program
    SUSPECT = "suspect"  # low tonight, but that is no alarm (yet)
    TRANSIENT = "transient"  # an alarm that has gone
    IMPROVEMENT = "improvement"
    NOISY = "noisy"  # as usual, of a case that varies too much to show what matters
    OK = "ok"
    IMPORTED = "imported"  # old data: nobody verified it here

    @property
    def is_red(self) -> bool:
        """Red, unless the site expects it; a case without a baseline is red outside record mode."""
        return self in RED

    @property
    def is_amber(self) -> bool:
        """Nobody knows how it is; nothing that was tried and not verified is."""
        return self is Kind.NOT_MEASURED

    @property
    def is_untried(self) -> bool:
        """Nothing was run, or nothing that says anything of what it would have measured."""
        return self in UNTRIED

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return RANK[self]


RED = frozenset(
    {
        *(Kind.REGRESSION, Kind.SEVERE, Kind.DEFECT, Kind.TOO_FAST, Kind.INVALID),
        Kind.NO_BASELINE,
    }
)
#: Of these nothing is past, evidence or baseline.
WORTHLESS = frozenset({Kind.INVALID, Kind.TOO_FAST, Kind.NOT_MEASURED, Kind.LEFT_OUT})
UNTRIED = frozenset({Kind.NOT_MEASURED, Kind.LEFT_OUT})
#: What was not verified, or cannot be, is never excused.
EXCUSABLE = frozenset({Kind.REGRESSION, Kind.DEFECT, Kind.SEVERE})
#: A night that may stand for how a case usually is.
GOOD = frozenset({Kind.OK, Kind.NOISY, Kind.TRANSIENT, Kind.IMPROVEMENT, Kind.NO_BASELINE})
RANK = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a night says of a case."""

    kind: Kind
    sentence: str
    failed: tuple[str, ...] = ()  # the metrics beyond their bounds that made it what it is
    # Of the detector:
    runs: int = 1  # of the night that were looked at
    rule: str | None = None
    drop: float | None = None  # part of the usual bandwidth or ratio that is lost; < 0: gained
    since: datetime | None = None
    raised: datetime | None = None  # the night that raised the alarm
    rerun_at: datetime | None = None  # a re-run is due, not before this

    @property
    def is_red(self) -> bool:
        return self.kind.is_red
