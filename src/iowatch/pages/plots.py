"""The plots of a report. The page's style sheet gives each class its colours and strokes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from string import ascii_lowercase

from markupsafe import Markup

from iowatch.base.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    Dates,
    Point,
    alone,
    apart,
    beside,
    cell,
    date_axis,
    drawing,
    element,
    key,
    line,
    path,
    rect,
    round_values,
    tenth,
    text,
)
from iowatch.base.text import brief, brief_rate, brief_time, counted
from iowatch.cases.parameters import CONTROL
from iowatch.measure.checks import rate_name
from iowatch.night.case_night import Phase
from iowatch.night.night import OST_DAYS, CasePage
from iowatch.night.summary import CallHours
from iowatch.night.trend import Trend

_TOP, _ZERO = 18, 128  # of the trend's
_RED = 3  # how far below the axis the middle of the red nights' bars is
_LEAST = 4  # the width of such a bar, which else is not seen among those of a year
_LABEL = 30  # the width of what stands at a change of level
_BAR, _BARS = 22, 24  # from one bar to the next; where the first begins
_THICK = 16  # of a bar
_GROUP = 8  # more between the bars of one library and those of the next
_NAMES = 84  # the width of what stands before a bar
_TOTAL = 52  # the width of what stands after the longest
_MAP_TOP = 34  # of the first row of a map: above are what is slowest and the key
_MAP_ENTRY = 62  # from one entry of its key to the next
_OSTS_HIGH = 240  # all OSTs together, if they are not too many or too few
_OST_LEAST, _OST_MOST = 4, 14  # the height of one
_OST_TEXT = 11  # the height of its number
HOUR_DAYS = 28  # that the map of hours shows
_HOUR_HIGH, _HOURS_NAMED = 7, 6
#: The shades of hours, the lightest first: from so many times the median of all hours on.
_HOUR_SHADES = {"even": 0.0, "near": 1.2, "low": 1.6, "lower": 2.5, "half": 4.0}
#: The shades of OSTs: from which part of the peers' median on, and what the key says.
_SHADES: Mapping[str, tuple[float, str]] = {
    "even": (0.95, "0.95 up"),
    "near": (0.85, "0.85 up"),
    "low": (0.7, "0.7 up"),
    "lower": (0.5, "0.5 up"),
    "half": (0.0, "below"),
}
_MISSING = "missing"  # the shade of what was not measured
_ENTRY = 50  # from one entry of the key to the next
_MARK = 9  # the width of the letter of an event
_SPARK_NIGHTS, _SPARK_WIDTH, _SPARK_HIGH = 30, 64, 18

# Texts have their true place, which tests read; dy moves them by part of their height.


def dates_of_nights(nights: Sequence[date]) -> Dates:
    """Return the axis that all trends of a page share."""
    return Dates(min(nights), max(nights), LEFT, RIGHT)


def sparkline(row: CasePage) -> Markup:
    """Draw the rate of a case over its last nights, without axes, and its red nights."""
    trend = row.trend
    rates, red = trend.rates[-_SPARK_NIGHTS:], trend.red[-_SPARK_NIGHTS:]
    usual = row.expected.value if row.expected else 0.0
    highest = max([usual, *(rate for rate in rates if rate)]) or 1.0
    height = Axis(low=0.0, high=1.05 * highest, begin=_SPARK_HIGH - 2, end=2).place
    place = Axis(low=1 - _SPARK_NIGHTS, high=0, begin=3, end=_SPARK_WIDTH - 3).place
    places = [place(number + 1 - len(rates)) for number in range(len(rates))]
    points = [(x, height(rate)) if rate else None for x, rate in zip(places, rates, strict=True)]
    shapes = [path(f"M3 {height(usual)}H{_SPARK_WIDTH - 3}", class_="expected")] if usual else []
    shapes.append(path(line(points), class_="rate"))
    for x, point, is_red in zip(places, points, red, strict=True):
        if is_red:
            y = point[1] if point else height(0.0)
            shapes.append(element("circle", class_="dot", cx=x, cy=y, r=2))
    if (tonight := points[-1]) and not red[-1]:
        shapes.append(element("circle", class_="tonight", cx=tonight[0], cy=tonight[1], r=1.8))
    box = f"0 0 {_SPARK_WIDTH} {_SPARK_HIGH}"
    return element("svg", *shapes, class_="spark", aria_hidden="true", viewBox=box)


def trend_plot(dates: Dates, row: CasePage, events: Sequence[date] = ()) -> Markup:
    """Draw the rate of a case over its nights, one of which must have a valid run, and where events
    stand, which have the letters of the alphabet."""
    trend, expected, best = row.trend, row.expected, row.metrics
    bound = _bound(row)
    rates = [rate for rate in (*trend.rates, bound) if rate]
    if expected:
        rates.append(expected.value)
    highest = 1.08 * max(rates)
    if expected and expected.high:  # of nights that vary much it would leave no room for them
        highest = max(highest, min(1.08 * expected.high, 2 * highest))
    height = Axis(low=0.0, high=highest, begin=_ZERO, end=_TOP).place
    middles, halves = dates.places(trend.nights)
    places = [tenth(place) for place in middles]
    points = [
        None if rate is None else (place, height(rate))
        for place, rate in zip(places, trend.rates, strict=True)
    ]
    shapes = [text(LEFT - 5, 10, row.unit, class_="unit")]
    if expected and expected.low and expected.high:
        top = height(min(expected.high, highest))
        high = height(expected.low) - top
        shapes.append(rect(LEFT, top, RIGHT - LEFT, high, class_="band"))
    values = [(height(value), brief(value)) for value in round_values(highest, 4)]
    grid = path("".join(f"M{LEFT} {y}H{RIGHT}" for y, _ in values))
    texts = (text(LEFT - 5, y, words, dy=".35em") for y, words in values)
    shapes += [element("g", grid, *texts, class_="values"), date_axis(dates, _ZERO)]
    for name, rate in (("expected", expected.value if expected else None), ("bound", bound)):
        if rate is not None:
            shapes.append(path(f"M{LEFT} {height(rate)}H{RIGHT}", class_=name))
    begun = [middles[level.place] - halves[level.place] for level in trend.levels]
    words = [f"{level.after / level.before - 1:+.0%}" for level in trend.levels]
    shapes += _uprights("change", begun, words, 14, 10, _LABEL)
    shapes.append(path(line(points), class_="rate"))
    if best:  # of the repetitions of the best run: from the median to the fastest
        name = rate_name(best)
        usual = best[name.replace("max", "median")]
        spread = f"M{places[-1]} {height(usual)}V{height(best[name])}"
        shapes.append(path(spread, class_="spread"))
    dots = [*(("alone", 1.3, point) for point in alone(points)), ("tonight", 2.5, points[-1])]
    for name, radius, point in dots:
        if point:
            shapes.append(element("circle", class_=name, cx=point[0], cy=point[1], r=radius))
    bars = _red_bars(trend, middles, halves)
    if red := "".join(f"M{begin:.1f} {_ZERO + _RED}H{end:.1f}" for begin, end in bars):
        shapes.append(path(red, class_="red"))
    at = dates.places(events)[0]
    shapes += _uprights("event", at, ascii_lowercase, _TOP, _ZERO + 31, _MARK)
    return drawing(_in_words(row), WIDTH, 164 if events else 152, *shapes)


def _uprights(
    class_: str, places: Sequence[float], words: Iterable[str], top: float, y: float, wide: float
) -> Iterator[Markup]:
    """Draw a stroke at each place from this height down, with labels of this width apart."""
    for place, label, word in zip(places, apart(places, wide, RIGHT), words, strict=False):
        upright = path(f"M{tenth(place)} {top}V{_ZERO}")
        yield element("g", upright, text(tenth(label), y, word), class_=class_)


def _red_bars(trend: Trend, places: Sequence[float], halves: Sequence[float]) -> Iterator[Point]:
    """Yield where the bar of each unbroken run of red nights begins and ends."""
    for is_red, run in groupby(zip(trend.red, places, halves, strict=True), itemgetter(0)):
        if is_red:
            nights = list(run)
            (_, first, before), (_, last, after) = nights[0], nights[-1]
            begin, end = first - before, last + after
            half = max(end - begin, _LEAST) / 2
            yield (begin + end) / 2 - half, (begin + end) / 2 + half


@dataclass(frozen=True)
class _Bar:
    """A bar of parts one after the other, each with its class."""

    name: str
    parts: Sequence[tuple[str, float]]
    total: str  # in words
    below: int = 0  # units further down than the bars before it


def _bars(bars: Sequence[_Bar], top: float, axis: Axis) -> Iterator[Markup]:
    """Draw bars one below the other, with their names and totals beside them."""
    parts, names, totals = list[Markup](), [], []
    for number, bar in enumerate(bars):
        y, done = top + _BAR * number + bar.below, 0.0
        for class_, amount in bar.parts:
            left, right = axis.place(done), axis.place(done + amount)
            parts.append(rect(left, y, right - left, _THICK, class_=class_))
            done += amount
        names.append((_NAMES - 5, y + _THICK / 2, bar.name))
        totals.append((tenth(axis.place(done) + 4), y + _THICK / 2, bar.total))
    yield beside("nights", names)
    yield beside("totals", totals)
    yield element("g", *parts, class_="bars")


def phase_plot(row: CasePage) -> Markup:
    """Draw where the time of a case goes, tonight and usually, and that of MPI-IO in the same jobs:
    a bar for each, one phase after the other. The usual time may not be known."""
    backend = row.case.backend or CONTROL
    bars = [*_of_phases(backend, row.phases, 0), *_of_phases(CONTROL, row.control_phases, _GROUP)]
    longest = max(sum(seconds for _, seconds in bar.parts) for bar in bars) or 1.0
    axis = Axis(low=0.0, high=longest, begin=_NAMES, end=RIGHT - _TOTAL)
    below = _BARS + _BAR * len(bars) + bars[-1].below
    unit, scale = ("s", 1.0) if longest >= 1 else ("ms", 1e3) if longest >= 1e-3 else ("µs", 1e6)
    values = round_values(longest * scale, 6)
    ticks = [(axis.place(value / scale), brief(value)) for value in values]
    marks = "".join(f"M{x} {below}v3" for x, _ in ticks)
    shown = {phase for bar in bars for phase, _ in bar.parts}
    phases = [f"phase-{phase}" for phase in row.case.check.phases]
    return drawing(
        f"Time of {row.name} in each phase: {'; '.join(map(_longest, bars))}",
        WIDTH,
        below + 30,
        key([(name, name.removeprefix("phase-")) for name in phases if name in shown], _ENTRY, 3),
        *_bars(bars, _BARS, axis),
        element(
            "g",
            path(f"M{_NAMES} {below}H{RIGHT}{marks}"),
            *(text(x, below + 13, words) for x, words in ticks),
            text((_NAMES + RIGHT) // 2, below + 26, f"{unit}, median of the repetitions"),
            class_="seconds",
        ),
    )


def _of_phases(backend: str, phases: Sequence[Phase], below: int) -> Iterator[_Bar]:
    """Yield tonight and what is usual, as far as they are known."""
    tonight = [(f"phase-{phase}", seconds) for phase, seconds, _ in phases]
    usual = [(f"phase-{phase}", seconds) for phase, _, seconds in phases if seconds is not None]
    for name, known in (("tonight", tonight), ("usual", usual)):
        if known:
            total = sum(seconds for _, seconds in known)
            yield _Bar(f"{backend} {name}", known, brief_time(total), below)


def _longest(bar: _Bar) -> str:
    """Say which phase is longest, such as `hdf5 tonight 1.3 s, of which close 1.1 s`."""
    phase, seconds = max(bar.parts, key=itemgetter(1))
    return f"{bar.name} {bar.total}, of which {phase.removeprefix('phase-')} {brief_time(seconds)}"


def paper_plot(rates: Mapping[str, float], title: str) -> Markup:
    """Draw bandwidths that were published, MiB/s, for comparison: a bar for each library."""
    axis = Axis(low=0.0, high=max(rates.values()), begin=_NAMES, end=RIGHT - _TOTAL - 20)
    bars = [
        _Bar(library, [("published", rate)], f"{brief_rate(rate)} MiB/s")
        for library, rate in rates.items()
    ]
    return drawing(title, WIDTH, _BAR * len(rates), *_bars(bars, 0, axis))


# Maps: a row for each OST or hour, a column for each day


@dataclass(frozen=True, kw_only=True)
class _Map:
    """What is to be seen on a map, and where."""

    title: str  # for whoever does not see it
    heading: str
    dates: Dates
    days: Sequence[date]
    rows: Mapping[str, Sequence[float | None]]  # of each row its value on each day
    high: float  # of a row
    every: int  # rows from one that is named to the next
    shades: Mapping[str, tuple[float, str]]  # from which value on, and what the key says
    words: Callable[[str, date, str], str]  # for a pointer, by the row, the day and the value
    value: Callable[[float], str]

    def drawn(self) -> Markup:
        columns = [*zip(self.days, *self.dates.places(self.days), strict=True)]
        cells, names, top = list[Markup](), [], float(_MAP_TOP)
        for number, (name, values) in enumerate(self.rows.items()):
            if number % self.every == 0:
                names.append((LEFT - 5, tenth(top + self.high / 2), name))
            for value, (day, middle, half) in zip(values, columns, strict=True):
                words = "not measured" if value is None else self.value(value)
                words, shade = self.words(name, day, words), self._shade(value)
                cells.append(cell(middle, half, top, self.high, words, class_=shade))
            top = _MAP_TOP + self.high * (number + 1)
        shades = [(shade, words) for shade, (_, words) in self.shades.items()]
        return drawing(
            self.title,
            WIDTH,
            tenth(top) + 24,
            text(8, 10, self.heading, class_="slowest"),
            key([*shades, (_MISSING, "none")], _MAP_ENTRY, 17),
            beside("nights", names),
            element("g", *cells, class_="cells"),
            date_axis(self.dates, tenth(top)),
        )

    def _shade(self, value: float | None) -> str:
        if value is None:
            return _MISSING
        return max((least, name) for name, (least, _) in self.shades.items() if value >= least)[1]


def ost_plots(row: CasePage) -> list[Markup]:
    """Draw each OST beside its peers, of writes and of reads, for a case that measures each OST by
    itself. Empty: the case has no OSTs."""
    return [_ost_plot(*item).drawn() for item in row.osts.items() if any(o for _, o in item[1])]


def _ost_plot(operation: str, nights: Sequence[tuple[date, Mapping[str, float]]]) -> _Map:
    osts = sorted({ost for _, parts in nights for ost in parts}, key=int)
    last, tonight = nights[-1]
    high = min(_OST_MOST, max(_OST_LEAST, _OSTS_HIGH / len(osts)))
    slowest = "tonight none was measured"
    if tonight:
        ost = min(tonight, key=lambda ost: tonight[ost])
        slowest = f"slowest tonight: OST {ost}, {tonight[ost]:.2f} of its peers' median"
    return _Map(
        title=f"{operation.capitalize()} rate of {counted(len(osts), 'OST')} beside the median of "
        f"their peers, {counted(len(nights), 'night')}; {slowest}",
        heading=f"{operation}: {slowest}",
        dates=Dates(last - timedelta(days=OST_DAYS - 1), last, LEFT, RIGHT),
        days=[day for day, _ in nights],
        rows={ost: [parts.get(ost) for _, parts in nights] for ost in osts},
        high=high,
        every=math.ceil(_OST_TEXT / high),
        shades=_SHADES,
        words="OST {}, {}: {}".format,
        value="{:.2f}".format,
    )


def hour_map(hours: CallHours) -> Markup:
    """Draw the p99 of a call in each hour of the last days."""
    last = max(hours.values).date()
    first = max(last - timedelta(days=HOUR_DAYS - 1), min(hours.values).date())
    days = [first + timedelta(days=ago) for ago in range((last - first).days + 1)]
    return _Map(
        title=hours.words,
        heading=f"{hours.call}, p99",
        dates=Dates(first, last, LEFT, RIGHT),
        days=days,
        rows={
            f"{hour:%H:%M}": [hours.values.get(datetime.combine(day, hour)) for day in days]
            for hour in (time(hour, tzinfo=UTC) for hour in range(24))
        },
        high=_HOUR_HIGH,
        every=_HOURS_NAMED,
        shades={
            shade: (times * hours.middle, _from(times * hours.middle))
            for shade, times in _HOUR_SHADES.items()
        },
        words="{1} {0}: {2}".format,
        value=brief_time,
    ).drawn()


def _from(seconds: float) -> str:
    return f"≥ {brief_time(float(f'{seconds:.2g}'))}" if seconds else "less"


def _in_words(row: CasePage) -> str:
    """Say what a trend shows, for whoever does not see it."""
    trend, expected = row.trend, row.expected
    count, rate = len(trend.nights), trend.rates[-1]
    rate_word = "Bandwidth" if row.unit == "MiB/s" else "Rate"
    words = f"{rate_word} of {row.name}, {count} night{'s' * (count > 1)}: tonight "
    words += f"{brief_rate(rate)} {row.unit}" if rate else "no valid run"
    if expected:
        words += f", {expected.word} {brief_rate(expected.value)}"
        if expected.low and expected.high:
            words += f" ({brief_rate(expected.low)} to {brief_rate(expected.high)})"
    if bound := _bound(row):
        words += f", at least {brief_rate(bound)} allowed"
    if any(trend.red):
        words += f"; {sum(trend.red)} red"
    for level in trend.levels:
        words += f"; {level.after / level.before - 1:+.0%} from {level.night} on"
    return words


def _bound(row: CasePage) -> float | None:
    """Return the least that the reference values allow of the rate that the plot shows."""
    reference = row.references.get(rate_name(row.metrics))
    return reference.lower if reference else None
