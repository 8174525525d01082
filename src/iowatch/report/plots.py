"""The plots of a report.

Only `iowatch report` may import this module: it needs matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any

import matplotlib
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from iowatch.report.row import Row, Trend
from iowatch.svg import STYLE, TEXT, as_svg

#: Stand-ins, like `svg.TEXT`.
LINE, BAND, MARK = "#000002", "#000003", "#000004"
PHASES = {
    "open": "#000011",
    "define": "#000016",
    "write": "#000012",
    "read": "#000013",
    "sync": "#000014",
    "close": "#000015",
}
_NAMES = {LINE: "var(--line)", BAND: "var(--band)", MARK: "var(--mark)"}
_NAMES |= {colour: f"var(--{phase})" for phase, colour in PHASES.items()}

_WIDTH = 5.2  # inches: in a wider figure a phone shows the text too small
_PLACE = (0.11, 0.87)  # of the axes in that width
_STRIP = 0.04  # of the height: where red nights stand, below the line
_LEAST = 4.0  # points: a red night's bar, which else is not seen among those of a year


class TrendPlot:
    """Bandwidth over so many nights: drawn for one case after the other, which is much faster than
    a figure for each."""

    def __init__(self, first: date, last: date) -> None:
        with matplotlib.rc_context(STYLE):
            self._figure = Figure(figsize=(_WIDTH, 2.1))
            self._axes = self._figure.add_axes((_PLACE[0], 0.12, _PLACE[1], 0.77))
            axes, half = self._axes, timedelta(hours=12)
            begin, end = (datetime(day.year, day.month, day.day) for day in (first, last))
            axes.set_xlim(date2num(begin - half), date2num(end + half))
            axes.set_xticks(*_dates(begin, end))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.set_title("MiB/s", loc="left", fontsize=10)
            self._line = axes.plot([], [], color=LINE, lw=1.2, gid="rate", clip_on=False)[0]
            self._dots = axes.plot([], [], ".", ms=5, color=LINE, gid="alone", clip_on=False)[0]
            self._tonight = axes.plot([], [], "o", ms=5, color=LINE, gid="tonight", clip_on=False)[
                0
            ]

    def svg(self, row: Row) -> str:
        """The plot of one case, which has had a valid run."""
        trend, tonight = row.trend, row.figures
        days = date2num(trend.nights)
        rates = [math.nan if rate is None else rate for rate in trend.rates]
        self._line.set_data(days, rates)
        alone = [i for i in range(len(days)) if _is_alone(trend.rates, i)]
        self._dots.set_data([days[i] for i in alone], [rates[i] for i in alone])
        self._tonight.set_data(days[-1:], rates[-1:])
        highest = [rate for rate in trend.rates if rate]
        if row.expected:
            highest.append(row.expected.high or row.expected.value)
        if bound := _bound(row):
            highest.append(bound)
        top = 1.08 * max(highest)
        self._axes.set_ylim(-_STRIP * top, top)
        with matplotlib.rc_context(STYLE):
            extra = list(self._extra(row, top))
            if tonight:  # the repetitions of the best run
                low, high = tonight["total_min"], tonight["total_max"]
                extra.append(
                    self._axes.vlines(days[-1], low, high, color=LINE, lw=1.2, gid="spread")
                )
            svg = as_svg(self._figure, str(row.case), _NAMES)
        for artist in extra:
            artist.remove()
        return svg

    def _extra(self, row: Row, top: float) -> Any:
        """What differs in number from case to case."""
        axes, trend, expected = self._axes, row.trend, row.expected
        if expected and expected.low and expected.high:
            yield axes.axhspan(expected.low, expected.high, color=BAND, lw=0, gid="band")
        if expected:
            yield axes.axhline(expected.value, color=TEXT, lw=0.8, ls="--", gid="expected")
        if bound := _bound(row):
            yield axes.axhline(bound, color=MARK, lw=0.8, ls="-.", gid="bound")
        for level in trend.levels:
            day = _number(level.night)
            yield axes.axvline(day - 0.5, color=TEXT, lw=0.8, ls=":", gid="change")
            text = f"{level.after / level.before - 1:+.0%}"
            yield axes.text(day - 0.5, top, text, ha="center", va="bottom", fontsize=9)
        if trend.red:  # one line with gaps: a bar for each is ten times as long
            first, last = axes.get_xlim()
            least = _LEAST / (72 * _WIDTH * _PLACE[1]) * (last - first)
            days = [day for span in _spans(trend, least) for day in (*span, math.nan)]
            heights = [-_STRIP / 2 * top] * len(days)
            bars = axes.plot(days, heights, color=MARK, lw=4, gid="red", clip_on=False)[0]
            bars.set_solid_capstyle("butt")
            yield bars


def phase_plot(row: Row) -> str:
    """Where the time goes, tonight and usually: two bars."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, 1.35))
        axes = figure.add_axes((_PLACE[0], 0.3, _PLACE[1], 0.42))
        nights, left = ["usual", "tonight"], [0.0, 0.0]
        for phase, seconds, usual in row.phases:
            widths, colour = [usual or 0.0, seconds], PHASES[phase]
            for bar in axes.barh(nights, widths, 0.7, left, color=colour, label=phase):
                bar.set_gid(f"phase-{phase}")
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, 1.01 * max(left))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("s, median of the repetitions", fontsize=9, labelpad=1)
        figure.legend(
            loc="upper left", ncols=5, frameon=False, fontsize=9, bbox_to_anchor=(0.07, 1.04)
        )
        return as_svg(figure, f"phases {row.case}", _NAMES)


def _bound(row: Row) -> float | None:
    """The least bandwidth that the reference values allow."""
    reference = row.references.get("total_max")
    return reference.lower if reference else None


def _dates(begin: datetime, end: datetime) -> tuple[list[float], list[str]]:
    """Where on the axis which dates stand."""
    if end - begin < timedelta(days=7):
        days = [begin + timedelta(days=day) for day in range((end - begin).days + 1)]
        return [float(date2num(day)) for day in days], [f"{day:%b %d}" for day in days]
    locator = AutoDateLocator(maxticks=7)
    numbers = (float(tick) for tick in locator.tick_values(begin, end))
    ticks = [tick for tick in numbers if date2num(begin) <= tick <= date2num(end)]
    return ticks, ConciseDateFormatter(locator).format_ticks(ticks)


def _number(day: date) -> float:
    return float(date2num(day))


def _is_alone(rates: Sequence[float | None], index: int) -> bool:
    """Is there no neighbour that a line could be drawn to?"""
    around = rates[max(index - 1, 0) : index + 2]
    return rates[index] is not None and sum(rate is not None for rate in around) == 1


def _spans(trend: Trend, least: float) -> list[tuple[float, float]]:
    """Where the bar of each unbroken run of red nights begins and ends; so many days at least."""
    red = set(trend.red)
    runs = [list(days) for is_red, days in groupby(trend.nights, red.__contains__) if is_red]
    spans = []
    for days in runs:
        begin, end = _number(days[0]) - 0.5, _number(days[-1]) + 0.5
        wider = max(least - (end - begin), 0) / 2
        spans.append((begin - wider, end + wider))
    return spans
