"""The baseline that a site blesses: a case's nights while all was well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

from iowatch.base.text import brief, counted
from iowatch.judge.settings import NORMAL, Settings

_MAD = 1.4826  # times the median absolute deviation: the standard deviation of a normal sample


class BaselineRefused(Exception):
    """Nights are no baseline; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one run of a case."""

    time: datetime
    best: float  # MiB/s, the fastest repetition
    #: `best` over MPI-IO's in the same job; None: it is MPI-IO, or has no control.
    ratio: float | None = None
    #: The part of the median repetition's time that finishes the file; None: not known.
    overhead_fraction: float | None = None
    finish_s: float = math.inf  # the same in seconds; not known: enough to be noticed
    #: The median repetition over MPI-IO's; 0: not known.
    ratio_median: float = 0.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """Medians and spreads (standard deviations of logarithms) of the blessed nights' first runs."""

    m: float  # median of ln MiB/s
    s: float
    m_r: float | None  # the same of ln ratio; None: no control
    s_r: float | None
    overhead_fraction: float | None  # median
    nights: int


def baseline_of(nights: Sequence[Sequence[Sample]], settings: Settings = NORMAL) -> Baseline:
    """The baseline of these nights; BaselineRefused if they must not be blessed."""
    baseline = estimate(nights, settings)
    values = [math.log(night[0].best) for night in nights]
    bad = sum(value < baseline.m + math.log(settings.bad_night) for value in values)
    if bad > settings.max_bad_nights * len(values):
        raise BaselineRefused(
            f"{bad} of {len(values)} nights are below {settings.bad_night:.0%} of their median"
        )
    widest = max(baseline.s, baseline.s_r or 0)
    if widest > largest_spread(settings):
        raise BaselineRefused(
            f"the spread of the nights is {brief(widest)}, and at most "
            f"{brief(largest_spread(settings))} is that of usual nights"
        )
    series = {"MiB/s": values}
    if baseline.m_r is not None:
        series["the ratio to MPI-IO"] = [math.log(n[0].ratio) for n in nights if n[0].ratio]
    for name, values in series.items():
        split = change_point(values, settings)
        if split is not None:
            before, after = (math.exp(median(part)) for part in (values[:split], values[split:]))
            raise BaselineRefused(
                f"{name} changes from {brief(before)} to {brief(after)} (medians) at night "
                f"{split + 1} of {len(values)}: bless nights from one side of it only"
            )
    return baseline


def estimate(nights: Sequence[Sequence[Sample]], settings: Settings = NORMAL) -> Baseline:
    """The study's formulae, refusing too few nights only.

    The spread of bandwidth is wider where contention lasts for nights: a few weeks say less then.
    """
    if len(nights) < settings.min_nights:
        raise BaselineRefused(
            f"{counted(len(nights), 'night')}, and a baseline needs at least {settings.min_nights}"
        )
    first = [night[0] for night in nights]
    values = [math.log(sample.best) for sample in first]
    m, s = _middle(values, settings)
    lasting = max(0.0, _autocorrelation(values, m, s, settings) - settings.lasting)
    s *= 1 + settings.lasting_widens * lasting
    # A few lost controls do not matter; a baseline of a few nights would.
    ratios = [math.log(sample.ratio) for sample in first if sample.ratio is not None]
    m_r, s_r = _middle(ratios, settings) if len(ratios) >= settings.min_nights else (None, None)
    finishes = [s.overhead_fraction for s in first if s.overhead_fraction is not None]
    return Baseline(
        m=m,
        s=s,
        m_r=m_r,
        s_r=s_r,
        overhead_fraction=median(finishes) if len(finishes) >= settings.min_nights else None,
        nights=len(nights),
    )


def largest_spread(settings: Settings = NORMAL) -> float:
    """Return the largest spread of a baseline: half of its nights are no bad nights, and contention
    has widened that as far as it can."""
    return (
        -_MAD
        * math.log(settings.bad_night)
        * (1 + settings.lasting_widens * (1 - settings.lasting))
    )


def _middle(values: Sequence[float], settings: Settings) -> tuple[float, float]:
    centre = median(values)
    spread = _MAD * median(abs(value - centre) for value in values)
    return centre, max(spread, settings.min_spread)


def _winsorised(
    values: Sequence[float], centre: float, spread: float, settings: Settings
) -> list[float]:
    return [max(-settings.clip, min(settings.clip, (v - centre) / spread)) for v in values]


def _autocorrelation(
    values: Sequence[float], centre: float, spread: float, settings: Settings
) -> float:
    """Correlate each night with the next."""
    scores = _winsorised(values, centre, spread, settings)
    mean = sum(scores) / len(scores)
    scores = [score - mean for score in scores]
    squares = sum(score * score for score in scores)
    return sum(a * b for a, b in pairwise(scores)) / squares if squares else 0.0


def change_point(values: Sequence[float], settings: Settings = NORMAL) -> int | None:
    """Return the index of the first value after the level of a series changes, if it does.

    Student's t between the two sides of the best split, of winsorised values. (ruptures' KernelCPD
    finds no more at the same rate of false refusals.)
    """
    n, side = len(values), settings.change_nights
    centre, spread = _middle(values, settings)
    scores = _winsorised(values, centre, spread, settings)
    total, squares = sum(scores), sum(score * score for score in scores)
    before = sum(scores[: side - 1])
    best, change = settings.change_t, None
    for split in range(side, n - side + 1):
        before += scores[split - 1]
        after = total - before
        within = squares - before**2 / split - after**2 / (n - split)
        variance = max(within, 1e-9) / (n - 2) * (1 / split + 1 / (n - split))
        t = abs(before / split - after / (n - split)) / math.sqrt(variance)
        if t > best:  # medians take long, and few splits get here
            step = abs(median(values[split:]) - median(values[:split]))
            if step > -math.log(1 - settings.warn_drop):
                best, change = t, split
    return change


def visible_drops(baseline: Baseline, settings: Settings = NORMAL) -> list[float]:
    """The smallest drops that show within `visible_nights`: of bandwidth, and of the ratio."""
    spreads = [baseline.s] if baseline.s_r is None else [baseline.s, baseline.s_r]
    return [1 - math.exp(-settings.visible * spread) for spread in spreads]


def what_shows(baseline: Baseline, settings: Settings = NORMAL) -> str:
    """Say in words which drops show."""
    bandwidth, *ratio = visible_drops(baseline, settings)
    against = "".join(f" ({drop:.0%} against MPI-IO)" for drop in ratio)
    nights = settings.visible_nights
    return f"drops of less than {bandwidth:.0%}{against} cannot be seen within {nights} nights"
