"""The heat map of latencies: a row for each hour of the day, a column for each day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median

from markupsafe import Markup

from iowatch.base.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Dates,
    beside,
    cell,
    date_axis,
    drawing,
    element,
    key,
    tenth,
    text,
)
from iowatch.base.text import brief_time, counted
from iowatch.judge.by_hour import HourValue, usual_hours
from iowatch.measure.kinds.latency import CALLS
from iowatch.past.hours import CaseHour, by_case

DAYS = 28  # that are shown
_TOP, _ROW, _HOURS = 34, 7, 24
_NAMED = 6  # hours from one name of a row to the next
_ENTRY = 62  # from one entry of the key to the next
#: The shades of cells, the lightest first: from so many times the median of all hours on.
_SHADES: Mapping[str, float] = {"even": 0.0, "near": 1.2, "low": 1.6, "lower": 2.5, "half": 4.0}


@dataclass(frozen=True)
class HeatMap:
    """A call of a case over its hours."""

    case: str
    place: str
    call: str
    words: str  # of what is to be seen, with the interval of the last hour
    drawing: Markup


def heat_maps(hours: Sequence[CaseHour]) -> list[HeatMap]:
    """Draw each call of each case; empty: no hour is on record."""
    return [
        HeatMap(str(case), of_case[-1].filesystem, call, _in_words(of_case, call), shown)
        for case, of_case in by_case(hours).items()
        for call in CALLS
        if (shown := _drawn(of_case, call))
    ]


def _in_words(hours: Sequence[CaseHour], call: str) -> str:
    """Say what the map shows, for whoever does not see it."""
    last = hours[-1]
    value, low, high = last.calls[call]["p99"]
    least = brief_time(low or 0.0)
    known = f"within {least} to {brief_time(high)}" if high else f"at least {least}"
    worst = max(hours, key=lambda hour: hour.quantile(call, "p99"))
    middle = median(hour.quantile(call, "p99") for hour in hours)
    words = (
        f"p99 of {call} on {last.filesystem}: {brief_time(value)} in the last hour (95 % "
        f"{known}), median of {counted(len(hours), 'hour')} {brief_time(middle)}, "
        f"worst {brief_time(worst.quantile(call, 'p99'))} on {worst.time:%Y-%m-%d at %H:00} UTC"
    )
    values = [HourValue(hour.time, hour.quantile(call, "p99")) for hour in hours]
    if usual := usual_hours(values):
        slow = max(range(_HOURS), key=lambda hour: usual[hour].median)
        words += f"; usually slowest at {slow:02}:00, {brief_time(usual[slow].median)}"
    return words


def _drawn(hours: Sequence[CaseHour], call: str) -> Markup:
    last = hours[-1].time.date()
    first = max(last - timedelta(days=DAYS - 1), hours[0].time.date())
    values: dict[tuple[date, int], float] = {}
    for hour in hours:  # of two runs in an hour the later one
        values[hour.time.date(), hour.time.hour] = hour.quantile(call, "p99")
    middle = median(values.values())
    dates = Dates(first, last, LEFT, RIGHT)
    zero = _TOP + _ROW * _HOURS
    names = [
        (LEFT - 5, tenth(_TOP + _ROW * (hour + 0.5)), f"{hour:02}:00")
        for hour in range(0, _HOURS, _NAMED)
    ]
    shades = [
        (shade, f"≥ {brief_time(float(f'{times * middle:.2g}'))}" if times else "less")
        for shade, times in _SHADES.items()
    ]
    return drawing(
        _in_words(hours, call),
        WIDTH,
        zero + 24,
        text(8, 10, f"{call}, p99", class_="slowest"),
        key([*shades, ("missing", "none")], _ENTRY, 17),
        beside("nights", names),
        element("g", *_cells(values, middle, dates, first, last), class_="cells"),
        date_axis(dates, zero),
    )


def _cells(
    values: Mapping[tuple[date, int], float],
    middle: float,
    dates: Dates,
    first: date,
    last: date,
) -> Iterator[Markup]:
    """Yield a cell for each hour."""
    shown = [first + timedelta(days=day) for day in range((last - first).days + 1)]
    for day, place, half in zip(shown, *dates.places(shown), strict=True):
        for hour in range(_HOURS):
            value = values.get((day, hour))
            words = "not measured" if value is None else brief_time(value)
            title, top = f"{day} {hour:02}:00: {words}", _TOP + _ROW * hour
            yield cell(place, half, top, _ROW, title, class_=_shade(value, middle))


def _shade(value: float | None, middle: float) -> str:
    if value is None:
        return "missing"
    return [shade for shade, times in _SHADES.items() if value >= times * middle][-1]
