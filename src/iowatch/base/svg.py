"""Drawings as SVG: axes that say where a value stands, and the elements that stand there.

All places are in units of a drawing, of which a phone shows one on each of its own points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from markupsafe import Markup, escape

Point = tuple[float, float]

WIDTH = 376  # of a drawing
LEFT, RIGHT = 50, 366  # of the axes: seven digits have room before them
_DATES = 7  # as many have room on an axis


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of values, linear or, by its `scale`, logarithmic."""

    low: float  # the values at both ends
    high: float
    begin: float  # the places of both ends
    end: float
    scale: Callable[[float], float] = float

    def place(self, value: float) -> float:
        """Return where a value stands, to a tenth."""
        low, high = self.scale(self.low), self.scale(self.high)
        part = (self.scale(value) - low) / ((high - low) or 1.0)
        return tenth(self.begin + part * (self.end - self.begin))


class Dates:
    """An axis of days. Nights that begin on one day share the width of that day."""

    def __init__(self, first: date, last: date, begin: float, end: float) -> None:
        self._first, self._begin = first, begin
        self._width = (end - begin) / ((last - first).days + 1)
        self.ticks = [(tenth(self._middle(day)), text) for day, text in dates_of(first, last)]

    def places(self, nights: Sequence[date]) -> tuple[list[float], list[float]]:
        """Return the middle of each night, and half of the width of each."""
        of_day, seen, middles, halves = Counter(nights), Counter[date](), list[float](), []
        for night in nights:
            half = self._width / of_day[night] / 2
            middles.append(self._middle(night) - self._width / 2 + half * (2 * seen[night] + 1))
            halves.append(half)
            seen[night] += 1
        return middles, halves

    def _middle(self, day: date) -> float:
        return self._begin + ((day - self._first).days + 0.5) * self._width


def tenth(place: float) -> float:
    """Round a place: nobody sees less, and each digit is there ten thousand times."""
    return round(place, 1)


def round_values(highest: float, most: int, steps: Sequence[float] = (1, 2, 2.5, 5)) -> list[float]:
    """Return round values from 0 up to the highest, in `most` steps at most."""
    power = 10.0 ** math.floor(math.log10(highest / most))
    fit = (step * power for step in steps if step * power * most >= highest)
    step = next(fit, 10 * power)
    return [step * number for number in range(int(highest / step) + 1)]


def dates_of(first: date, last: date) -> list[tuple[date, str]]:
    """Return the last day and every so many before it; of more days the first ones of months."""
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


def apart(places: Sequence[float], least: float, last: float) -> list[float]:
    """Move ascending places so that each is `least` from the next, and none beyond `last`."""
    moved = list(places)
    for i, j in pairwise(range(len(moved))):
        moved[j] = max(moved[j], moved[i] + least)
    for i in reversed(range(len(moved))):
        last = moved[i] = min(moved[i], last)
        last -= least
    return moved


def line(points: Sequence[Point | None]) -> str:
    """Return the path through the points, broken where one is None."""
    parts, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
        else:
            parts.append(f"{pen}{point[0]} {point[1]}")
            pen = "L"
    return "".join(parts)


def alone(points: Sequence[Point | None]) -> Iterator[Point]:
    """Yield the points that no line leads to."""
    around = (None, *points, None)
    for before, point, after in zip(around, points, around[2:], strict=False):
        if point and before is None and after is None:
            yield point


def element(name: str, *inside: str, **attributes: object) -> Markup:
    """Write an element; `class_` is its class, and `text_anchor` is text-anchor."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    content = "".join(map(escape, inside))
    return Markup(f"<{name}{words}>{content}</{name}>" if inside else f"<{name}{words}/>")


def path(d: str, **attributes: object) -> Markup:
    """Write a path."""
    return element("path", d=d, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: object) -> Markup:
    """Write a rectangle."""
    return element("rect", x=x, y=y, width=tenth(width), height=tenth(height), **attributes)


def text(x: float, y: float, words: str, **attributes: object) -> Markup:
    """Write a text."""
    return element("text", words, x=x, y=y, **attributes)


def date_axis(dates: Dates, zero: float) -> Markup:
    """Draw an axis of days at this height."""
    marks = "".join(f"M{x} {zero}v7" for x, _ in dates.ticks)
    texts = (text(x, zero + 18, day) for x, day in dates.ticks)
    return element("g", path(f"M{LEFT} {zero}H{RIGHT}{marks}"), *texts, class_="dates")


def beside(class_: str, places: Sequence[tuple[float, float, str]]) -> Markup:
    """Write texts beside rows or bars: the place of each along and across, and its words."""
    return element("g", *(text(x, y, words, dy=".35em") for x, y, words in places), class_=class_)


def key(entries: Sequence[tuple[str, str]], every: float, top: float) -> Markup:
    """Draw the key: the class of each square, and what stands beside it."""
    shapes = []
    for number, (class_, words) in enumerate(entries):
        x = 8 + every * number
        shapes.append(rect(x, top, 9, 9, class_=class_))
        shapes.append(text(x + 13, top + 8, words))
    return element("g", *shapes, class_="key")


def cell(
    middle: float, half: float, top: float, high: float, title: str, **attributes: object
) -> Markup:
    """Draw a cell of a map, with its title for a pointer to show."""
    left, right = tenth(middle - half), tenth(middle + half)
    corners = f"M{left} {tenth(top)}H{right}v{tenth(high)}H{left}z"
    return element("path", element("title", title), **attributes, d=corners)


def drawing(title: str, width: float, height: float, *shapes: str, **attributes: object) -> Markup:
    """Write a whole drawing; its title is read to whoever does not see it."""
    box = f"0 0 {width} {height}"
    return element("svg", element("title", title), *shapes, role="img", viewBox=box, **attributes)


_BAR_WIDTH, _BAR_HEIGHT = 220, 14


def interval_bar(
    title: str, logs: Sequence[float], reach: float, dashed: float, **look: object
) -> Markup:
    """Draw the logarithm of a ratio and those of the ends of its interval, if it has any, beside a
    bound (dashed) and no change. What lies beyond the axis stands at its end."""
    axis = Axis(low=-reach, high=reach, begin=2, end=_BAR_WIDTH - 2)
    places = [axis.place(max(-reach, min(reach, log))) for log in logs]
    middle, stroke = _BAR_HEIGHT / 2, {"stroke": "currentColor", "fill": "none"}
    shapes = [
        path(f"M{axis.place(log)} 0V{_BAR_HEIGHT}", stroke_width=0.8, stroke_dasharray=dashes)
        for log, dashes in {0.0: "none", dashed: "2 2"}.items()
    ]
    for value in places[:1]:
        shapes.append(path(f"M{value} {middle - 4}v8", class_="value", stroke_width=2.4))
    if ends := places[1:]:
        line = f"M{ends[0]} {middle}H{ends[1]}"
        shapes.append(path(line, class_="interval", stroke_width=2.4))
    return drawing(title, _BAR_WIDTH, _BAR_HEIGHT, *shapes, **stroke, **look)
