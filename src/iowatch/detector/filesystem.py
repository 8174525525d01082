"""One alarm in place of many: all cases of a filesystem together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from iowatch.detector.rules import R1, R4
from iowatch.detector.settings import NORMAL, Settings
from iowatch.verdict import EXCUSABLE, Verdict


@dataclass(frozen=True, slots=True)
class CommonMode:
    """A whole filesystem is slow."""

    sentence: str
    cases: tuple[str, ...]
    drop: float  # median of theirs
    since: datetime  # the earliest of theirs


def common_mode(
    verdicts: Mapping[str, Verdict], night: datetime, settings: Settings = NORMAL
) -> CommonMode | None:
    """The alarm of a filesystem, from the detector's verdicts of one night on all its cases.

    Only alarms on the bandwidth itself count: what is slow relative to MPI-IO is its library's.
    """
    oldest = night - timedelta(days=settings.common_nights)
    slow = {
        case: verdict
        for case, verdict in verdicts.items()
        if verdict.kind in EXCUSABLE
        and verdict.rule in (R1, R4)
        and verdict.raised
        and verdict.raised > oldest
    }
    if len(slow) < max(2, settings.common_share * len(verdicts)):
        return None
    drop = median(verdict.drop or 0 for verdict in slow.values())
    since = min(verdict.since or night for verdict in slow.values())
    sentence = (
        f"{len(slow)} of {len(verdicts)} cases are slow, by {drop:.0%} (median) since "
        f"{since:%Y-%m-%d}: the filesystem, not one of its I/O paths"
    )
    return CommonMode(sentence, tuple(sorted(slow)), drop, since)
