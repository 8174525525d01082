"""Runs of one case, tonight and before, and its blessed baseline."""

from datetime import datetime, timedelta, timezone

from iowatch.bless import Blessed, settings_hash
from iowatch.case import Case
from iowatch.detector.settings import NORMAL
from iowatch.history import Record

CASE = Case("archer", "fs3", "gnu", "write", "shared", "mpiio", 4, 1, (64, 64, 64), 4)
BEGIN = datetime(2026, 3, 1, 22, tzinfo=timezone.utc)  # of tonight
USUAL, SLOW = 1000.0, 400.0


def at(hours):
    return BEGIN + timedelta(hours=hours)


def ran(hours, rate, verdict=None, case=CASE, test="a1"):
    """A run so many hours after tonight's first; without a rate it was invalid."""
    verdict = verdict or {USUAL: "ok", SLOW: "suspect", None: "invalid"}[rate]
    figures = {"total_max": rate} if rate else {}
    return Record(case, at(hours), verdict, f"{case}: said", figures, test, str(hours))


def blessed(case=CASE, **changes):
    first, last = at(-24 * 40).date(), at(-24 * 10).date()
    values = {
        "bandwidth": USUAL, "spread": 0.05, "ratio": None, "ratio_spread": None,
        "finish_fraction": None, "nights": 30, "first": first, "last": last,
        "settings": settings_hash(NORMAL), "blessed": last, "who": "me", "why": "quiet",
    }  # fmt: skip
    return {case: Blessed(**{**values, **changes})}
