"""A case's bandwidth night by night, and where its level changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

from iowatch.detector.baseline import change_point
from iowatch.detector.settings import NORMAL
from iowatch.report.past import Past, best

#: A bless refuses only what lasts; a reader wants to see what has just begun, at its right place.
_NEW = replace(NORMAL, change_nights=3, clip=10.0)


@dataclass(frozen=True)
class Level:
    """A change that lasts."""

    night: date  # the first of the new level
    before: float  # median MiB/s of the nights on either side, back or on to the next change
    after: float


@dataclass(frozen=True)
class Trend:
    """The nights of a plot, oldest first."""

    nights: Sequence[date]
    rates: Sequence[float | None]  # MiB/s of the best run; None: no valid run
    red: Sequence[date]
    levels: Sequence[Level]

    @property
    def is_empty(self) -> bool:
        """No night has a valid run."""
        return not any(self.rates)


def trend_of(past: Past, first: date) -> Trend:
    """The nights from `first` on."""
    shown = {day: runs for day, runs in sorted(past.nights.items()) if day >= first}
    fastest = {day: best(runs) for day, runs in shown.items()}
    rates = {day: run.figures["total_max"] if run else None for day, run in fastest.items()}
    return Trend(
        list(rates),
        list(rates.values()),
        [day for day, runs in shown.items() if runs[-1].result not in ("pass", "xfail")],
        list(_levels([(day, rate) for day, rate in rates.items() if rate])),
    )


def _levels(series: Sequence[tuple[date, float]]) -> Iterator[Level]:
    """What the test that guards a bless finds, in the whole and again on both sides."""
    splits = sorted(_splits([math.log(rate) for _, rate in series]))
    for start, split, end in zip([0, *splits], splits, [*splits[1:], len(series)], strict=False):
        before, after = series[start:split], series[split:end]
        yield Level(after[0][0], *(median(rate for _, rate in part) for part in (before, after)))


def _splits(values: Sequence[float]) -> Iterator[int]:
    split = change_point(values, _NEW) if values else None
    if split is not None:
        yield split
        yield from _splits(values[:split])
        yield from (split + later for later in _splits(values[split:]))
