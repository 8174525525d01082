"""What the detector says of a night: of one case, and of all cases of a filesystem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from iowatch.detector.settings import NORMAL, Settings

OK = "ok"
NO_BASELINE = "no_baseline"
SUSPECT = "suspect"  # low tonight, but that is no alarm (yet)
REGRESSION = "regression"
DEFECT = "defect"
SEVERE = "severe"
IMPROVEMENT = "improvement"
TRANSIENT = "transient"
NOISY = "noisy"
RED = frozenset({REGRESSION, DEFECT, SEVERE})

#: The rules: bandwidth, ratio to MPI-IO, close phase, this night alone, R1 mirrored.
R1, R2, R3, R4, GAIN = "R1", "R2", "R3", "R4", "gain"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a night says of a case."""

    kind: str
    sentence: str
    jobs: int  # of the night that were looked at
    rule: str | None = None
    drop: float | None = None  # part of the usual bandwidth or ratio that is lost; < 0: gained
    since: datetime | None = None
    raised: datetime | None = None  # the night that raised the alarm
    rerun_at: datetime | None = None  # a re-run is due, not before this

    @property
    def red(self) -> bool:
        return self.kind in RED


@dataclass(frozen=True, slots=True)
class CommonMode:
    """One alarm in place of many: a whole filesystem is slow."""

    sentence: str
    cases: tuple[str, ...]
    drop: float  # median of theirs
    since: datetime  # the earliest of theirs


def common_mode(
    judgements: Mapping[str, Judgement], night: datetime, settings: Settings = NORMAL
) -> CommonMode | None:
    """The alarm of a filesystem, from the judgements of one night on all its cases.

    Only alarms on the bandwidth itself count: what is slow relative to MPI-IO is its library's.
    """
    oldest = night - timedelta(days=settings.common_nights)
    slow = {
        case: judgement
        for case, judgement in judgements.items()
        if judgement.red
        and judgement.rule in (R1, R4)
        and judgement.raised
        and judgement.raised > oldest
    }
    if len(slow) < max(2, settings.common_share * len(judgements)):
        return None
    drop = median(judgement.drop or 0 for judgement in slow.values())
    since = min(judgement.since or night for judgement in slow.values())
    sentence = (
        f"{len(slow)} of {len(judgements)} cases are slow, by {drop:.0%} (median) since "
        f"{since:%Y-%m-%d}: the filesystem, not one of its I/O paths"
    )
    return CommonMode(sentence, tuple(sorted(slow)), drop, since)
