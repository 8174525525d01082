"""The plots of a report: where on the drawing everything stands.

How it looks is in `templates/plots.svg.j2` and the page's style sheet. All places are in units of
the drawing, of which a phone shows one on each of its own points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby, pairwise
from operator import itemgetter
from typing import ClassVar

from iowatch.checks import CONTROL, OST, rate_name
from iowatch.files import brief, brief_rate, counted
from iowatch.metrics import osts_of, phases_among
from iowatch.night.case_night import CaseNight, Phase, Trend
from iowatch.run import Nights, Run, day_of

Tick = tuple[float, str]  # its place, and what stands there
Point = tuple[float, float]

_LEFT, _RIGHT = 50, 366  # of the axes: seven digits have room before them
_TOP, _ZERO = 18, 128  # of the trend's
_RED = 3  # how far below the axis the middle of the red nights' bars is
_LEAST = 4  # the width of such a bar, which else is not seen among those of a year
_LABEL = 30  # the width of what stands at a change of level
_DATES = 7  # as many have room
_BAR, _BARS = 22, 24  # from one bar to the next; where the first begins
_THICK = 16  # of a bar
_GROUP = 8  # more between the bars of one library and those of the next
_NAMES = 84  # the width of what stands before a bar
_TOTAL = 52  # the width of what stands after the longest
_OST_DAYS = 42  # of nights, in the plot of OSTs
_OST_TOP = 34  # of its first row: above are what is slowest and the key
_OSTS_HIGH = 240  # all rows together, if they are not too many or too few
_OST_LEAST, _OST_MOST = 4, 14  # the height of a row
_OST_TEXT = 11  # the height of its number
_OST_ENTRY = 56  # from one entry of its key to the next
#: The shades of its cells: from which part of the peers' median on, and what the key says.
_SHADES: Mapping[str, tuple[float, str]] = {
    "even": (0.95, "0.95 up"),
    "near": (0.85, "0.85 up"),
    "low": (0.7, "0.7 up"),
    "lower": (0.5, "0.5 up"),
    "half": (0.0, "below"),
}
_MISSING = "missing"  # the shade of what was not measured
_ENTRY = 50  # from one entry of the key to the next


class _Axes:
    left: ClassVar = _LEFT
    right: ClassVar = _RIGHT
    middle: ClassVar = (_LEFT + _RIGHT) // 2


@dataclass(frozen=True)
class TrendPlot(_Axes):
    """Bandwidth over the nights of one case, which has had a valid run."""

    says: str  # in a sentence
    unit: str  # of the rate
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
        self.dates = [(_tenth(self._at(day)), text) for day, text in dates_of(first, last)]

    def plot(self, row: CaseNight) -> TrendPlot:
        """The plot of one case."""
        trend, expected, best = row.trend, row.expected, row.metrics
        bound = _bound(row)
        rates = [rate for rate in (*trend.rates, bound) if rate]
        if expected:
            rates.append(expected.value)
        highest = 1.08 * max(rates)
        if expected and expected.high:  # of nights that vary much it would leave no room for them
            highest = max(highest, min(1.08 * expected.high, 2 * highest))

        def height(rate: float) -> float:
            return _tenth(_ZERO - rate / highest * (_ZERO - _TOP))

        middles, half = self.places(trend.nights)
        places = [_tenth(place) for place in middles]
        points = [
            None if rate is None else (place, height(rate))
            for place, rate in zip(places, trend.rates, strict=True)
        ]
        band = None
        if expected and expected.low and expected.high:
            top = height(min(expected.high, highest))
            band = (top, _tenth(height(expected.low) - top))
        spread = None
        if best:  # of the repetitions of the best run: from the median to the fastest
            name = rate_name(best)
            usual = best[name.replace("max", "median")]
            spread = (places[-1], height(usual), height(best[name]))
        return TrendPlot(
            says=_in_words(row),
            unit=row.unit,
            values=[(height(value), brief(value)) for value in round_values(highest, 4)],
            dates=self.dates,
            rate=_path(points),
            alone=list(_alone(points)),
            tonight=points[-1],
            spread=spread,
            band=band,
            expected=height(expected.value) if expected else None,
            bound=height(bound) if bound else None,
            changes=self._changes(trend, middles, half),
            red="".join(
                f"M{a:.1f} {_ZERO + _RED}H{b:.1f}" for a, b in _red_bars(trend, middles, half)
            ),
        )

    def places(self, nights: Sequence[date]) -> tuple[list[float], Sequence[float]]:
        """The middle of each night, and half of its width: those of one day share the day's."""
        of_day, seen, places, halves = Counter(nights), Counter[date](), [], []
        for night in nights:
            width = self._night / of_day[night]
            begin = self._at(night) - self._night / 2 + width * seen[night]
            seen[night] += 1
            places.append(begin + width / 2)
            halves.append(width / 2)
        return places, halves

    def _at(self, night: date) -> float:
        """The middle of a day."""
        return _LEFT + ((night - self._first).days + 0.5) * self._night

    def _changes(
        self, trend: Trend, middles: Sequence[float], half: Sequence[float]
    ) -> list[tuple[float, float, str]]:
        """Each at the beginning of its night; labels too close to each other are moved apart."""
        places = [middles[level.place] - half[level.place] for level in trend.levels]
        labels = _apart(places, _LABEL, _RIGHT)
        texts = [f"{level.after / level.before - 1:+.0%}" for level in trend.levels]
        return [
            (_tenth(place), _tenth(label), text)
            for place, label, text in zip(places, labels, texts, strict=True)
        ]


def _red_bars(trend: Trend, places: Sequence[float], halves: Sequence[float]) -> Iterator[Point]:
    """Where the bar of each unbroken run of red nights begins and ends."""
    for is_red, run in groupby(zip(trend.red, places, halves, strict=True), itemgetter(0)):
        if is_red:
            nights = list(run)
            (_, first, before), (_, last, after) = nights[0], nights[-1]
            begin, end = first - before, last + after
            half = max(end - begin, _LEAST) / 2
            yield (begin + end) / 2 - half, (begin + end) / 2 + half


class _Bars:
    """Bars that begin at one line, with their names before them."""

    left: ClassVar = _NAMES
    right: ClassVar = _RIGHT
    middle: ClassVar = (_NAMES + _RIGHT) // 2
    thick: ClassVar = _THICK


@dataclass(frozen=True)
class PhasePlot(_Bars):
    """Where the time goes, tonight and usually, and that of MPI-IO in the same jobs: a bar for
    each, one phase after the other."""

    says: str  # in a sentence
    key: Sequence[Tick]
    names: Sequence[Tick]  # of the bars
    totals: Sequence[tuple[float, float, str]]  # where a bar ends, its middle, and its seconds
    seconds: Sequence[Tick]
    bars: Sequence[tuple[str, float, float, float]]  # phase, left end, upper end, width
    axis: int  # below all bars


def phase_plot(row: CaseNight) -> PhasePlot:
    """The plot of one case, which has phases; what is usual may not be known."""
    backend = row.case.backend or CONTROL
    nights = [*_nights(backend, row.phases, 0), *_nights(CONTROL, row.control_phases, _GROUP)]
    phases = {phase for night in nights for phase, _ in night.phases}
    longest = max(night.total for night in nights) or 1.0
    scale = (_RIGHT - _TOTAL - _NAMES) / longest
    bars, names, totals = list[tuple[str, float, float, float]](), list[Tick](), []
    for number, night in enumerate(nights):
        top, begin = _BARS + _BAR * number + night.below, 0.0
        for phase, seconds in night.phases:
            left, end = (_tenth(_NAMES + scale * second) for second in (begin, begin + seconds))
            bars.append((phase, left, top, _tenth(end - left)))
            begin += seconds
        middle = top + _THICK / 2
        names.append((middle, night.name))
        totals.append((_tenth(_NAMES + scale * begin + 4), middle, f"{night.total:.3g} s"))
    axis = _BARS + _BAR * len(nights) + nights[-1].below
    return PhasePlot(
        says=f"Time of {row.name} in each phase: {'; '.join(map(_longest, nights))}",
        key=[(8 + _ENTRY * n, phase) for n, phase in enumerate(phases_among(phases))],
        names=names,
        totals=totals,
        seconds=[
            (_tenth(_NAMES + scale * value), brief(value)) for value in round_values(longest, 6)
        ],
        bars=bars,
        axis=axis,
    )


@dataclass(frozen=True)
class _Night:
    name: str
    phases: Sequence[tuple[str, float]]
    below: int  # units further down than the bars before it

    @property
    def total(self) -> float:
        return sum(seconds for _, seconds in self.phases)


def _nights(backend: str, phases: Sequence[Phase], below: int) -> Iterator[_Night]:
    """Tonight and what is usual, as far as they are known."""
    tonight = [(phase, seconds) for phase, seconds, _ in phases]
    usual = [(phase, seconds) for phase, _, seconds in phases if seconds is not None]
    for name, found in (("tonight", tonight), ("usual", usual)):
        if found:
            yield _Night(f"{backend} {name}", found, below)


def _longest(night: _Night) -> str:
    """Such as `hdf5 tonight 1.3 s, of which close 1.1 s`."""
    phase, seconds = max(night.phases, key=itemgetter(1))
    return f"{night.name} {night.total:.3g} s, of which {phase} {seconds:.3g} s"


@dataclass(frozen=True)
class PaperPlot(_Bars):
    """Bandwidths that were published, for comparison: a bar for each library."""

    says: str  # in a sentence
    names: Sequence[Tick]
    totals: Sequence[tuple[float, float, str]]
    bars: Sequence[tuple[float, float]]  # upper end, width
    height: int


def paper_plot(rates: Mapping[str, float], says: str) -> PaperPlot:
    """The plot of these bandwidths of libraries, MiB/s."""
    scale = (_RIGHT - _TOTAL - _NAMES - 20) / max(rates.values())
    widths = [_tenth(scale * rate) for rate in rates.values()]
    middles = [_BAR * number + _THICK / 2 for number in range(len(rates))]
    return PaperPlot(
        says=says,
        names=list(zip(middles, rates, strict=True)),
        totals=[
            (_tenth(_NAMES + width + 4), middle, f"{brief_rate(rate)} MiB/s")
            for width, middle, rate in zip(widths, middles, rates.values(), strict=True)
        ],
        bars=[(_BAR * number, width) for number, width in enumerate(widths)],
        height=_BAR * len(rates),
    )


@dataclass(frozen=True)
class OstPlot(_Axes):
    """Every OST beside its peers on each of the last nights: a row for an OST, a column for a
    night, in a stronger colour the slower it was."""

    says: str  # in a sentence
    slowest: str  # tonight, in a few words
    key: Sequence[tuple[float, str, str]]  # its place, shade and text
    names: Sequence[Tick]  # of the rows, or of some if they are too many
    dates: Sequence[Tick]
    cells: Sequence[tuple[str, float, float, float, str]]  # shade, left, upper end, right, text
    thick: float  # of a cell
    zero: float  # below all rows


def ost_plots(row: CaseNight) -> list[OstPlot]:
    """Of writes and of reads, for a case that measures each OST by itself; else none."""
    first = day_of(row.night) - timedelta(days=_OST_DAYS - 1)
    shown = {n: runs for n, runs in row.earlier.items() if day_of(n) >= first}
    shown[row.night] = row.runs
    plots = [_ost_plot(operation, shown, first) for operation in OST]
    return [plot for plot in plots if plot]


def _ost_plot(operation: str, shown: Nights, first: date) -> OstPlot | None:
    nights = [(day_of(night), _to_peers(runs, operation)) for night, runs in shown.items()]
    osts = sorted({ost for _, found in nights for ost in found}, key=int)
    if not osts:
        return None
    last, tonight = nights[-1]
    at = Trends(first, last)
    middles, halves = at.places([day for day, _ in nights])
    high = min(_OST_MOST, max(_OST_LEAST, _OSTS_HIGH / len(osts)))
    cells = [
        (
            _shade(found.get(ost)),
            _tenth(middle - half),
            _tenth(_OST_TOP + high * number),
            _tenth(middle + half),
            f"OST {ost}, {day}: {f'{found[ost]:.2f}' if ost in found else 'not measured'}",
        )
        for number, ost in enumerate(osts)
        for (day, found), middle, half in zip(nights, middles, halves, strict=True)
    ]
    every = math.ceil(_OST_TEXT / high)
    slowest = "tonight none was measured"
    if tonight:
        ost = min(tonight, key=lambda ost: tonight[ost])
        slowest = f"slowest tonight: OST {ost}, {tonight[ost]:.2f} of its peers' median"
    key = [*((shade, text) for shade, (_, text) in _SHADES.items()), (_MISSING, "not measured")]
    return OstPlot(
        says=f"{operation.capitalize()} rate of {counted(len(osts), 'OST')} beside the median of "
        f"their peers, {counted(len(nights), 'night')}; {slowest}",
        slowest=f"{operation}: {slowest}",
        key=[(8 + _OST_ENTRY * n, shade, text) for n, (shade, text) in enumerate(key)],
        names=[
            (_tenth(_OST_TOP + high * (number + 0.5)), ost)
            for number, ost in enumerate(osts) if number % every == 0
        ],
        dates=at.dates,
        cells=cells,
        thick=_tenth(high),
        zero=_tenth(_OST_TOP + high * len(osts)),
    )  # fmt: skip


def _to_peers(runs: Sequence[Run], operation: str) -> dict[str, float]:
    """Each OST's rate over the median of its peers, the best of a night's runs."""
    best: dict[str, float] = {}
    for run in runs:
        for ost in osts_of(run.metrics, operation) if run.is_measured else ():
            best[ost.name] = max(best.get(ost.name, 0.0), ost.to_peers)
    return best


def _shade(part: float | None) -> str:
    if part is None:
        return _MISSING
    return next(shade for shade, (least, _) in _SHADES.items() if part >= least)


def _in_words(row: CaseNight) -> str:
    """What a trend shows, for who does not see it."""
    trend, expected = row.trend, row.expected
    count, rate = len(trend.nights), trend.rates[-1]
    what = "Bandwidth" if row.unit == "MiB/s" else "Rate"
    said = f"{what} of {row.name}, {count} night{'s' * (count > 1)}: tonight "
    said += f"{brief_rate(rate)} {row.unit}" if rate else "no valid run"
    if expected:
        said += f", {expected.word} {brief_rate(expected.value)}"
        if expected.low and expected.high:
            said += f" ({brief_rate(expected.low)} to {brief_rate(expected.high)})"
    if bound := _bound(row):
        said += f", at least {brief_rate(bound)} allowed"
    if any(trend.red):
        said += f"; {sum(trend.red)} red"
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
