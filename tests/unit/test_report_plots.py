"""The plotted series against the data that were stored."""

import re
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest
from browser.plotted import Plot
from browser.simulated import BROKEN, CLOSE, KNOWN, SLOW, SYSTEM, Year
from unit import reported_nights

from iowatch import history
from iowatch.report.model import report_of
from iowatch.report.pages import html
from iowatch.verdict import Reference

LAST = date(2026, 11, 20)
NIGHTS = 150  # matplotlib would leave points out of longer lines, if it was let


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """The report on a history, and the records as they are stored."""
    database = tmp_path_factory.mktemp("year") / "results.db"
    made = Year(NIGHTS, 19, LAST)
    made.store(database)
    records = history.read([database])
    return report_of(records, SYSTEM, made.blessed, []), records


@pytest.fixture(scope="module")
def plots(year):
    """The trend of each case, from the page."""
    report, _ = year
    page = html(report)
    sections = page.split('<details class="case"')[1:]
    trends = [re.search(r"<svg.*?</svg>", section, re.DOTALL)[0] for section in sections]
    return {row.case: Plot(svg) for row, svg in zip(report.rows, trends, strict=True)}


def stored(year, case):
    """The best rate of each night; none if no run was valid."""
    _, records = year
    best = {}
    for record in records:
        if record.case == case:
            day = record.time.date()
            best[day] = max(best.get(day, 0), record.figures.get("total_max", 0))
    return best


def near(plot, value):
    """To a tenth of a point, of the curve and of the ticks: a thousandth of the plot's height."""
    return pytest.approx(value, abs=0.15 * abs(plot.slope))


@pytest.mark.parametrize("case", [CLOSE, SLOW, KNOWN])
def test_every_night_is_plotted_where_it_belongs(year, plots, case):
    plot, rates = plots[case], stored(year, case)
    (line,) = plot.points("rate")
    assert len(line) == len(rates) == NIGHTS
    assert [value for _, value in line] == [near(plot, rate) for rate in rates.values()]
    steps = [b[0] - a[0] for a, b in pairwise(line)]
    assert steps == pytest.approx([steps[0]] * len(steps), abs=0.11), "a day is a day"


def test_tonight_and_its_repetitions(year, plots):
    report, _ = year
    (row,) = [row for row in report.rows if row.case == CLOSE]
    plot = plots[CLOSE]
    ((_, tonight),) = plot.markers("tonight")
    assert tonight == near(plot, row.figures["total_max"])
    ((low, high),) = plot.points("spread")
    assert (low[1], high[1]) == (
        near(plot, row.figures["total_min"]), near(plot, row.figures["total_max"])
    )  # fmt: skip


def test_band_and_expected_bandwidth_are_the_baselines(year, plots):
    report, _ = year
    (row,) = [row for row in report.rows if row.case == CLOSE]
    plot = plots[CLOSE]
    band = {value for part in plot.points("band") for _, value in part}
    assert sorted((min(band), max(band))) == [
        near(plot, row.expected.low), near(plot, row.expected.high)
    ]  # fmt: skip
    (line,) = plot.points("expected")
    assert [value for _, value in line] == [near(plot, row.expected.value)] * 2


def test_least_that_is_allowed_is_drawn_where_it_counts(year):
    report, records = year
    allowed = {"total_max": Reference(20000.0, -0.25, None)}  # far above: it is drawn all the same
    bound = [replace(r, references=allowed) for r in records if r.case == SLOW]
    page = html(report_of(bound, SYSTEM, {}, []))
    plot = Plot(re.search(r"<svg.*?</svg>", page, re.DOTALL)[0])
    (line,) = plot.points("bound")
    assert [value for _, value in line] == [near(plot, 15000.0)] * 2
    assert "<dd>total_max at least 15000 MiB/s</dd>" in page
    assert 'class="bound"' not in html(report)


def test_change_is_marked_where_the_fault_began(plots):
    plot = plots[CLOSE]
    (line,), (change,) = plot.points("rate"), plot.points("change")
    third_last = line[-3][0]
    assert line[-4][0] < change[0][0] < third_last
    (label,) = [text for text in plot.texts if re.fullmatch(r"-\d\d%", text)]
    assert -80 < int(label[:-1]) < -65


def test_night_without_a_valid_run_is_a_gap_and_red(year, plots):
    plot = plots[BROKEN]
    assert stored(year, BROKEN)[LAST] == 0
    (line,) = plot.points("rate")
    assert len(line) == NIGHTS - 1
    assert plot.markers("tonight") == [] == plot.points("spread")
    assert len(plot.group("red")) == 1
    assert plots[SLOW].group("red") == [], "suspect is not red"


def test_gap_and_single_nights_are_seen(year):
    report, records = year
    days = [LAST - timedelta(days=n) for n in (1, 2)]
    kept = [r for r in records if r.case == CLOSE]
    spoiled = [
        replace_figures(r) if r.time.date() in (days[0], LAST - timedelta(days=3)) else r
        for r in kept
    ]
    report = report_of(spoiled, SYSTEM, {}, [])
    plot = Plot(re.search(r"<svg.*?</svg>", html(report), re.DOTALL)[0])
    ((_, alone), (_, tonight)) = plot.markers("alone")
    assert alone == near(plot, stored(year, CLOSE)[days[1]])
    assert tonight == near(plot, stored(year, CLOSE)[LAST])


def red_bars(nights, *ago):
    """(begin, end) of the red bars, and the places of these nights on the line."""
    good, red = reported_nights.record, reported_nights.red
    runs = [(red if n in ago else good)(ago=n) for n in range(nights - 1, -1, -1)]
    plot = Plot(re.search(r"<svg.*?</svg>", html(report_of(runs, SYSTEM, {}, [])), re.DOTALL)[0])
    (line,) = plot.points("rate")
    (path,) = plot.group("red")[0]
    assert path.get("clip-path") is None, "that of tonight is half beyond the axis"
    bars = [(begin, end) for (begin, _), (end, _) in plot.points("red")]
    return bars, [line[-1 - n][0] for n in sorted(ago, reverse=True)]


def test_bar_of_one_red_night_is_seen_among_those_of_a_year():
    bars, places = red_bars(365, 200, 0)
    assert [end - begin for begin, end in bars] == pytest.approx([4, 4], abs=0.11)
    assert [(begin + end) / 2 for begin, end in bars] == pytest.approx(places, abs=0.11)


def test_bars_of_a_few_nights_are_as_wide_as_they_are():
    (one, two), (fifth, second, first) = red_bars(10, 5, 2, 1)
    half = (first - second) / 2
    assert one == pytest.approx((fifth - half, fifth + half), abs=0.11)
    assert two == pytest.approx((second - half, first + half), abs=0.11)


def replace_figures(record):
    """The same run, without a figure."""
    return replace(record, figures={}, verdict="invalid", result="fail")


def test_plots_are_the_same_every_time(year):
    report, _ = year
    assert html(report) == html(report)


def test_every_colour_is_the_style_sheets(year):
    report, _ = year
    plots = re.findall(r"<svg.*?</svg>", html(report), re.DOTALL)
    colours = {colour for svg in plots for colour in re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)}
    assert {"none", "currentColor", "var(--line)", "var(--mark)", "var(--close)"} <= colours
    assert {c for c in colours if not c.startswith("var(--")} == {"none", "currentColor"}
