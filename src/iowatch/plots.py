"""The plots of a report: where on the drawing everything stands.

How it looks is in `templates/plots.svg.j2` and the page's style sheet. All places are in units of
the drawing, of which a phone shows one on each of its own points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby, pairwise
from typing import ClassVar

from iowatch.checks import rate_name
from iowatch.files import brief
from iowatch.night.case_night import CaseNight, Trend

Tick = tuple[float, str]  # its place, and what stands there
Point = tuple[float, float]

_LEFT, _RIGHT = 50, 366  # of the axes: seven digits have room before them
_TOP, _ZERO = 18, 128  # of the trend's
_RED = 3  # how far below the axis the middle of the red nights' bars is
_LEAST = 4  # the width of such a bar, which else is not seen among those of a year
_LABEL = 30  # the width of what stands at a change of level
_DATES = 7  # as many have room
_BAR, _BARS = 22, 24  # from one bar of the phases to the next; where the first begins
_THICK = 16  # of a bar
_ENTRY = 52  # from one entry of the key to the next


class _Axes:
    left: ClassVar = _LEFT
    right: ClassVar = _RIGHT
    middle: ClassVar = (_LEFT + _RIGHT) // 2


@dataclass(frozen=True)
class TrendPlot(_Axes):
    """Bandwidth over the nights of one case, which has had a valid run."""

    says: str  # in a sentence
    values: Sequence[Tick]
    dates: Sequence[Tick]
    rate: str  # the line, as a path: with gaps
    alone: Sequence[Point]  # nights without a neighbour that a line could be drawn to
    tonight: Point | None
    spread: tuple[float, float, float] | None  # of tonight's repetitions: x, median, best
    band: tuple[float, float] | None  # of what is usual: its top and its height
    expected: float | None
    bound: float | None  # the least that the reference values allow
    changes: Sequence[tuple[float, float, str]]  # of the level: the line, and its label
    red: str  # bars as one path
    zero: ClassVar = _ZERO


class Trends:
    """The trends of a page: all of them have the same nights."""

    def __init__(self, first: date, last: date) -> None:
        self._first = first
        self._night = (_RIGHT - _LEFT) / ((last - first).days + 1)
        self._dates = [(_tenth(self._at(day)), text) for day, text in dates_of(first, last)]

    def plot(self, row: CaseNight) -> TrendPlot:
        """The plot of one case."""
        trend, expected, best = row.trend, row.expected, row.metrics
        bound = _bound(row)
        rates = [rate for rate in (*trend.rates, bound) if rate]
        if expected:
            rates.append(expected.high or expected.value)
        highest = 1.08 * max(rates)

        def height(rate: float) -> float:
            return _tenth(_ZERO - rate / highest * (_ZERO - _TOP))

        places = [_tenth(self._at(night)) for night in trend.nights]
        points = [
            None if rate is None else (place, height(rate))
            for place, rate in zip(places, trend.rates, strict=True)
        ]
        band = None
        if expected and expected.low and expected.high:
            top = height(expected.high)
            band = (top, _tenth(height(expected.low) - top))
        spread = None
        if best:  # of the repetitions of the best run: from the median to the fastest
            name = rate_name(best)
            usual = best[name.replace("max", "median")]
            spread = (places[-1], height(usual), height(best[name]))
        return TrendPlot(
            says=_in_words(row),
            values=[(height(value), brief(value)) for value in round_values(highest, 4)],
            dates=self._dates,
            rate=_path(points),
            alone=list(_alone(points)),
            tonight=points[-1],
            spread=spread,
            band=band,
            expected=height(expected.value) if expected else None,
            bound=height(bound) if bound else None,
            changes=self._changes(trend),
            red="".join(f"M{a:.1f} {_ZERO + _RED}H{b:.1f}" for a, b in self._red_bars(trend)),
        )

    def _at(self, night: date) -> float:
        """The middle of a night."""
        return _LEFT + ((night - self._first).days + 0.5) * self._night

    def _changes(self, trend: Trend) -> list[tuple[float, float, str]]:
        """Each at the beginning of its night; labels too close to each other are moved apart."""
        places = [self._at(level.night) - self._night / 2 for level in trend.levels]
        labels = _apart(places, _LABEL, _RIGHT)
        texts = [f"{level.after / level.before - 1:+.0%}" for level in trend.levels]
        return [
            (_tenth(place), _tenth(label), text)
            for place, label, text in zip(places, labels, texts, strict=True)
        ]

    def _red_bars(self, trend: Trend) -> Iterator[Point]:
        """Where the bar of each unbroken run of red nights begins and ends."""
        red = set(trend.red)
        for is_red, run in groupby(trend.nights, red.__contains__):
            if is_red:
                nights = list(run)
                begin, end = self._at(nights[0]), self._at(nights[-1])
                half = max(end - begin + self._night, _LEAST) / 2
                yield (begin + end) / 2 - half, (begin + end) / 2 + half


@dataclass(frozen=True)
class PhasePlot(_Axes):
    """Where the time goes, tonight and usually: a bar for each, one phase after the other."""

    says: str  # in a sentence
    key: Sequence[Tick]
    nights: Sequence[Tick]
    seconds: Sequence[Tick]
    bars: Sequence[tuple[str, float, float, float]]  # phase, left end, upper end, width
    axis: int  # below all bars
    thick: ClassVar = _THICK


def phase_plot(row: CaseNight) -> PhasePlot:
    """The plot of one case, which has phases; what is usual may not be known."""
    tonight = [(phase, seconds) for phase, seconds, _ in row.phases]
    usual = [(phase, seconds) for phase, _, seconds in row.phases if seconds is not None]
    nights = [("tonight", tonight)] + [("usual", usual)] * bool(usual)
    longest = 1.01 * max(sum(seconds for _, seconds in phases) for _, phases in nights) or 1.0
    scale = (_RIGHT - _LEFT) / longest
    bars = []
    for number, (_, phases) in enumerate(nights):
        begin = 0.0
        for phase, seconds in phases:
            left, end = (_tenth(_LEFT + scale * second) for second in (begin, begin + seconds))
            bars.append((phase, left, _BARS + _BAR * number, _tenth(end - left)))
            begin += seconds
    said = "; ".join(_longest(*night) for night in nights)
    return PhasePlot(
        says=f"Time of {row.name} in each phase: {said}",
        key=[(_LEFT + _ENTRY * number, phase) for number, (phase, _) in enumerate(tonight)],
        nights=[
            (_BARS + _BAR * number + _THICK / 2, name) for number, (name, _) in enumerate(nights)
        ],
        seconds=[
            (_tenth(_LEFT + scale * value), brief(value)) for value in round_values(longest, 6)
        ],
        bars=bars,
        axis=_BARS + _BAR * len(nights),
    )


def _longest(night: str, phases: Sequence[tuple[str, float]]) -> str:
    """Such as `tonight 1.3 s, of which close 1.1 s`."""
    phase, seconds = max(phases, key=lambda phase: phase[1])
    total = sum(seconds for _, seconds in phases)
    return f"{night} {total:.3g} s, of which {phase} {seconds:.3g} s"


def _in_words(row: CaseNight) -> str:
    """What a trend shows, for who does not see it."""
    trend, expected = row.trend, row.expected
    count, rate = len(trend.nights), trend.rates[-1]
    said = f"Bandwidth of {row.name}, {count} night{'s' * (count > 1)}: tonight "
    said += f"{rate:.0f} MiB/s" if rate else "no valid run"
    if expected:
        said += f", {expected.word} {expected.value:.0f}"
        if expected.low and expected.high:
            said += f" ({expected.low:.0f} to {expected.high:.0f})"
    if bound := _bound(row):
        said += f", at least {bound:.0f} allowed"
    if trend.red:
        said += f"; {len(trend.red)} red"
    for level in trend.levels:
        said += f"; {level.after / level.before - 1:+.0%} from {level.night} on"
    return said


def _bound(row: CaseNight) -> float | None:
    """The least that the reference values allow of the bandwidth that the plot shows."""
    reference = row.references.get(rate_name(row.metrics))
    return reference.lower if reference else None


def _tenth(place: float) -> float:
    """Nobody sees less, and each digit is there ten thousand times."""
    return round(place, 1)


def _path(points: Iterable[Point | None]) -> str:
    """A line through the points, broken where there is none."""
    parts, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
        else:
            parts.append(f"{pen}{point[0]} {point[1]}")
            pen = "L"
    return "".join(parts)


def _alone(points: Sequence[Point | None]) -> Iterator[Point]:
    """Those that no line leads to."""
    around = (None, *points, None)
    for before, point, after in zip(around, points, around[2:], strict=False):
        if point and before is None and after is None:
            yield point


def _apart(places: Sequence[float], least: float, last: float) -> list[float]:
    """These ascending places, moved so that each is so far from the next, and none beyond."""
    moved = list(places)
    for i, j in pairwise(range(len(moved))):
        moved[j] = max(moved[j], moved[i] + least)
    for i in reversed(range(len(moved))):
        last = moved[i] = min(moved[i], last)
        last -= least
    return moved


def round_values(highest: float, most: int) -> list[float]:
    """Round values from 0 on, in so many steps at most."""
    power = 10.0 ** math.floor(math.log10(highest / most))
    fit = (step * power for step in (1, 2, 2.5, 5) if step * power * most >= highest)
    step = next(fit, 10 * power)
    return [step * number for number in range(int(highest / step) + 1)]


def dates_of(first: date, last: date) -> list[tuple[date, str]]:
    """The last night and every so many before it; of more nights the first days of months."""
    nights = (last - first).days + 1
    for step in (1, 2, 4, 7, 14):
        if nights <= step * _DATES:
            days = [last - timedelta(days=ago) for ago in range(0, nights, step)]
            return [(day, f"{day:%b} {day.day}") for day in reversed(days)]
    days = [day for ago in range(nights) if (day := first + timedelta(days=ago)).day == 1]
    every = math.ceil(len(days) / _DATES)
    return [
        (day, f"{day:%Y}" if day.month == 1 else f"{day:%b}")
        for day in days
        if (day.month - 1) % every == 0
    ]
