"""What is plotted against the data that were stored, read back from the drawings."""

import re
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve
from conftest import ROOT
from nights import BLESSED, HDF5, NIGHT, night_id, over_osts, ran, recorded, red, tonight
from pages.plotted import SVG, Plot, axis, lines, svgs
from pages.simulated import BROKEN, CLOSE, KNOWN, SLOW, Year
from shown import html

from iowatch.base.svg import apart, dates_of, round_values
from iowatch.cases.metric import Reference
from iowatch.night.trend import Level
from iowatch.past import history

LAST = date(2026, 11, 20)
NIGHTS = 150
CSS = ROOT / "src/iowatch/templates/report.css"


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """The last night of a history, and the runs as they are stored."""
    database = tmp_path_factory.mktemp("year") / "results.db"
    made = Year(NIGHTS, 19, LAST)
    made.store(database)
    runs = history.read([database])
    return made.recorded(runs), runs


def trends(night):
    """The trend of each case, from the page."""
    sections = html(night).split('<details class="case"')[1:]
    plots = [Plot(svgs(section)[0]) for section in sections]
    return {row.case: plot for row, plot in zip(night.worst_first, plots, strict=True)}


@pytest.fixture(scope="module")
def plots(year):
    return trends(year[0])


def row_of(night, of):
    (row,) = [row for row in night.cases if row.case == of]
    return row


def with_trend(row, **changes):
    """A copy of it with another trend, which is else found only when it is asked for."""
    other = replace(row)
    other.__dict__["trend"] = replace(row.trend, **changes)
    return other


def stored(year, of):
    """The best rate of each night; none if no run was valid."""
    _, runs = year
    best = {}
    for run in runs:
        if run.case == of:
            day = run.time.date()
            best[day] = max(best.get(day, 0), run.rate or 0)
    return best


def near(plot, value):
    """To a tenth, of the curve and of the ticks: a thousandth of the plot's height."""
    return pytest.approx(value, abs=1.5 * plot.tenth)


@pytest.mark.parametrize("case", [CLOSE, SLOW, KNOWN])
def test_all_stands_where_it_belongs(year, plots, case):
    plot, rates, row = plots[case], stored(year, case), row_of(year[0], case)
    (line,) = plot.points("rate")
    assert len(line) == len(rates) == NIGHTS
    assert [value for _, value in line] == [near(plot, rate) for rate in rates.values()]
    steps = [b[0] - a[0] for a, b in pairwise(line)]
    assert steps == pytest.approx([316 / NIGHTS] * len(steps), abs=0.11), "a day is a day"

    assert plot.dots("tonight") == [line[-1]]
    (((low_x, low), (_, high)),) = plot.points("spread")
    assert (low_x, low) == (line[-1][0], near(plot, row.metrics["stable_median"]))
    assert high == near(plot, row.metrics["stable_max"])
    assert plot.band() == (near(plot, row.expected.low), near(plot, row.expected.high))
    (expected,) = plot.points("expected")
    assert [value for _, value in expected] == [near(plot, row.expected.value)] * 2

    first = LAST - timedelta(days=NIGHTS - 1)
    marked = {(date(2026, month, 1) - first).days: name for month, name in
              enumerate(("Jul", "Aug", "Sep", "Oct", "Nov"), start=7)}  # fmt: skip
    dates = {x: text for x, _, text in plot.labels("dates")}
    assert dates == {line[place][0]: name for place, name in marked.items()}


def test_fault_of_the_last_nights_is_marked_where_it_began(year, plots):
    plot, row = plots[CLOSE], row_of(year[0], CLOSE)
    (line,), (change,) = plot.points("rate"), plot.points("change")
    assert line[-4][0] < change[0][0] < line[-3][0]
    ((_, _, label),) = plot.labels("change")
    assert -80 < int(label.removesuffix("%")) < -65
    rate, expected = row.rate, row.expected
    assert plot.title == (
        f"Bandwidth of {row.name}, {NIGHTS} nights: tonight {rate:.0f} MiB/s, expected "
        f"{expected.value:.0f} ({expected.low:.0f} to {expected.high:.0f}); {sum(row.trend.red)} "
        f"red; {label} from {LAST - timedelta(days=2)} on"
    )


def test_labels_of_changes_do_not_cover_each_other(year):
    places = [55.0, 63.0, 200.0, 350.0, 358.0]
    assert apart(places, 30, 366) == [55, 85, 200, 336, 366], "and none is beyond the axis"
    row = row_of(year[0], SLOW)
    nights = (2, 6, 75, -8, -4)
    days = row.trend.nights
    levels = [Level(place=n, night=days[n], before=4.0, after=5.0) for n in nights]
    plot = trends(replace(year[0], cases=[with_trend(row, levels=levels)]))[SLOW]
    (line,) = plot.points("rate")
    begin = [change[0][0] for change in plot.points("change")]
    assert begin == pytest.approx([line[n][0] - 316 / NIGHTS / 2 for n in nights], 0.01)


def test_least_that_is_allowed_is_drawn_where_it_counts(year):
    _, runs = year
    allowed = {"stable_max": Reference(20000.0, -0.25, None)}  # far above: it is drawn all the same
    bound = [replace(run, references=allowed) for run in runs if run.case == SLOW]
    page = html(recorded(*bound))
    plot = Plot(svgs(page)[0])
    (line,) = plot.points("bound")
    assert [value for _, value in line] == [near(plot, 15000.0)] * 2
    assert min(float(y) for y in re.findall(r"M50 ([\d.]+)H", svgs(page)[0])) > 14, "on the plot"
    assert "<dd>stable_max at least 15000 MiB/s</dd>" in page
    of_total = [replace(run, references={"total_max": allowed["stable_max"]}) for run in bound]
    assert 'class="bound"' not in html(recorded(*of_total)), "the plot is of another rate"
    assert 'class="bound"' not in html(year[0])


def test_night_without_a_valid_run_is_a_gap_and_red(year, plots):
    plot = plots[BROKEN]
    assert stored(year, BROKEN)[LAST] == 0
    (line,) = plot.points("rate")
    assert len(line) == NIGHTS - 1
    assert plot.dots("tonight") == [] == plot.points("spread")
    assert len(plot.points("red")) == 1
    assert "tonight no valid run" in plot.title
    assert plots[SLOW].all("red") == [], "suspect is not red"

    night, _ = year
    row = row_of(night, CLOSE)
    rates = list(row.trend.rates)
    rates[0] = rates[-2] = rates[-4] = None
    plot = trends(replace(night, cases=[with_trend(row, rates=rates)]))[CLOSE]
    assert [len(part) for part in plot.points("rate")] == [NIGHTS - 5, 1, 1]
    alone = [near(plot, rates[-3]), near(plot, rates[-1])]
    assert [value for _, value in plot.dots("alone")] == alone


def red_bars(nights, *ago):
    """(begin, end) of the red bars, and the places of these nights on the line."""
    runs = [(red if n in ago else ran)(ago=n) for n in range(nights - 1, -1, -1)]
    plot = Plot(svgs(html(tonight(*runs)))[0])
    (line,) = plot.points("rate")
    bars = [(begin, end) for (begin, _), (end, _) in plot.points("red")]
    return bars, [line[-1 - n][0] for n in sorted(ago, reverse=True)]


def test_bars_of_red_nights_are_as_wide_as_they_are_and_seen_among_those_of_a_year():
    bars, places = red_bars(365, 200, 0)
    assert [end - begin for begin, end in bars] == pytest.approx([4, 4], abs=0.11)
    assert [(begin + end) / 2 for begin, end in bars] == pytest.approx(places, abs=0.11)
    (one, two), (fifth, second, first) = red_bars(10, 5, 2, 1)
    half = (first - second) / 2
    assert one == pytest.approx((fifth - half, fifth + half), abs=0.11)
    assert two == pytest.approx((second - half, first + half), abs=0.11)


def test_values_of_an_axis_are_round_and_few():
    highest = 1e-6
    while highest < 1e9:
        for most in (4, 6):
            zero, *values = round_values(highest, most)
            assert zero == 0
            assert most / 2.6 - 1 < len(values) <= most
            assert highest - values[0] * 1.000001 < values[-1] <= highest
            assert f"{values[0]:e}".split("e")[0].rstrip("0") in ("1.", "2.", "2.5", "5.")
        highest *= 1.013
    assert round_values(5000, 4) == [0, 2000, 4000]
    assert round_values(1.0, 4) == [0, 0.25, 0.5, 0.75, 1.0]


def test_dates_of_an_axis_are_few_whatever_the_nights():
    for nights in range(1, 366):
        for last in (LAST, date(2027, 1, 1), date(2028, 2, 29)):
            first = last - timedelta(days=nights - 1)
            days, texts = zip(*dates_of(first, last), strict=True)
            assert min(nights, 3) <= len(days) <= 7
            assert first <= min(days)
            assert max(days) <= last
            assert list(days) == sorted(set(days))
            assert len(set(texts)) == len(texts)
    year = [text for _, text in dates_of(LAST - timedelta(days=364), LAST)]
    assert year == ["2026", "Mar", "May", "Jul", "Sep", "Nov"]
    week = [text for _, text in dates_of(LAST - timedelta(days=8), LAST)]
    assert week == ["Nov 12", "Nov 14", "Nov 16", "Nov 18", "Nov 20"]


def test_drawings_are_short_and_their_looks_are_the_style_sheets(year):
    night, _ = year
    page = html(night)
    assert page == html(night), "the same every time"
    drawn = svgs(page)
    for svg in drawn:
        shapes = re.sub(r">[^<]*<", "><", svg.split("</title>", 1)[1])
        assert not re.search(r'\d\.\d\d|(?<=[ "ML])-|style=|fill=|stroke', shapes)
    names = {name for svg in drawn for name in re.findall(r'class="([^"]+)"', svg)}
    assert {"rate", "band", "expected", "tonight", "spread", "change", "red"} <= names
    rules = set(re.findall(r"\.([a-z-]+)", CSS.read_text()))
    assert names - rules <= {"dates", "bars", "seconds"}, "groups that look like any other"


# OSTs


def test_every_ost_and_night_has_a_cell_with_its_number():
    def part(ost, operation, ago):
        """One is slower to write every night, one to read; one was away, and two are tonight."""
        if (ost == 5 and 8 < ago < 16) or (ost in (0, 1) and not ago):
            return 0.0
        return {(2, "write"): 0.6, (3, "read"): 0.3, (4, "write"): 2.0}.get((ost, operation), 1.0)

    page = html(over_osts(1, part))
    (section,) = re.findall(r'<section class="osts".*?</section>', page, re.DOTALL)
    assert '<a href="#case-1">mpiio on fs3</a>' in section
    for svg, operation, slowest, usual in zip(
        svgs(section), ("write", "read"), ("2", "3"), (0.6, 0.3), strict=True
    ):
        root = ET.fromstring(svg)
        (cells,) = root.findall(f"{SVG}g[@class='cells']")
        said = {}
        for cell in cells:
            ost, day, text = re.fullmatch(r"OST (\d), (\S+): (.*)", cell[0].text).groups()
            (corners,) = lines(cell.get("d").removesuffix("z"))
            said[ost, NIGHT - date.fromisoformat(day)] = text, cell.get("class"), corners[0]
        days = [timedelta(days=ago) for ago in range(41, -1, -1)]
        assert [*said] == [(f"{ost}", day) for ost in range(6) for day in days]
        missing = {at for at, (text, *_) in said.items() if text == "not measured"}
        assert missing == {("5", timedelta(days=ago)) for ago in range(9, 16)} | {
            (ost, timedelta(0)) for ost in "01"
        }
        assert missing == {at for at, (_, shade, _) in said.items() if shade == "missing"}
        shades = {"even": 0.95, "near": 0.85, "low": 0.7, "lower": 0.5, "half": 0}
        for at in said.keys() - missing:
            least = next(s for s, least in shades.items() if float(said[at][0]) >= least - 0.005)
            most = next(s for s, least in shades.items() if float(said[at][0]) >= least + 0.005)
            assert said[at][1] in (least, most)
        assert {at[0] for at in said if said[at][1] in ("lower", "half")} == {slowest}
        number = said[slowest, timedelta(0)][0]
        assert float(number) == pytest.approx(usual, rel=0.2)
        words = f"slowest tonight: OST {slowest}, {number} of its peers' median"
        assert root.findtext(f"{SVG}text") == f"{operation}: {words}"
        assert root.findtext(f"{SVG}title") == (
            f"{operation.capitalize()} rate of 6 OSTs beside the median of their peers, 42 nights; "
            f"{words}"
        )
        left = [said["0", day][2][0] for day in days]
        assert left == sorted(left)
        assert (left[0], len({*left})) == (50, 42)
        names = [text.text for text in root.find(f"{SVG}g[@class='nights']")]
        assert names == [*"012345"]
    every = html(over_osts(1, lambda ost, operation, ago: bool(ago)))
    assert "write: tonight none was measured" in every, "void"
    assert 'class="osts"' not in html(tonight(ran()))


# Phases

NAMES = ("total_max", "total_median", "total_mean", "total_min", "stable_max", "stable_median")
RATES = dict.fromkeys(NAMES, 1000.0)
RATES |= {"overhead_fraction": 0.1, "ratio": 1.0}
USUAL = {"open": 0.1, "write": 1.0, "close": 0.2, "sync": 0.3}
TONIGHT = {"open": 0.15, "write": 1.2, "close": 1.3, "sync": 0.1}
EVERY = {"open": 0.15, "define": 0.5, "write": 1.2, "read": 0.4, "close": 0.9, "sync": 0.1}


def metrics(phases):
    return RATES | {f"{phase}_s": seconds for phase, seconds in phases.items()}


def bars(page):
    """What the drawing says, and (bar, phase, begin, end) of each part of a bar, in seconds."""
    root = ET.fromstring(svgs(page)[1])

    def group(name, element):
        return root.findall(f"{SVG}g[@class='{name}']/{SVG}{element}")

    nights = {float(text.get("y")): text.text for text in group("nights", "text")}
    *ticks, unit = group("seconds", "text")
    assert unit.text == "s, median of the repetitions"
    second = axis([(float(text.get("x")), float(text.text)) for text in ticks])
    drawn = []
    for bar in group("bars", "rect"):
        x, y, width, height = (float(bar.get(name)) for name in ("x", "y", "width", "height"))
        (night,) = [night for middle, night in nights.items() if middle == y + height / 2]
        phase = bar.get("class").removeprefix("phase-")
        drawn.append((night, phase, second(x), second(x + width)))
    squares = [square.get("class") for square in group("key", "rect")]
    assert squares == [f"phase-{text.text}" for text in group("key", "text")]
    assert set(squares) == {f"phase-{phase}" for _, phase, *_ in drawn}
    ends = {nights[float(text.get("y"))]: text for text in group("totals", "text")}
    for night, *_, end in drawn:  # the last part of each bar
        total = ends.pop(night, None) if end == max(e for n, *_, e in drawn if n == night) else None
        if total is not None:
            assert float(total.text.removesuffix(" s")) == pytest.approx(end, abs=0.01)
            assert second(float(total.get("x")) - 4) == pytest.approx(end, abs=0.01)
    assert ends == {}, "a total at each bar"
    return root.findtext(f"{SVG}title"), drawn


def stacked(night, phases):
    """The bars that these seconds make, one after the other."""
    end, all_ = 0.0, []
    for phase, seconds in phases.items():
        all_.append((night, phase, *(pytest.approx(s, abs=0.003) for s in (end, end + seconds))))
        end += seconds
    return all_


def test_bars_are_tonights_and_the_usual_seconds():
    before = [ran(ago=ago, metrics=metrics(USUAL)) for ago in range(1, 6)]
    title, drawn = bars(html(tonight(*before, red(metrics=metrics(TONIGHT)))))
    assert drawn == [*stacked("hdf5 tonight", TONIGHT), *stacked("hdf5 usual", USUAL)]
    assert title.endswith(
        " in each phase: hdf5 tonight 2.75 s, of which close 1.3 s; "
        "hdf5 usual 1.6 s, of which write 1 s"
    )


def test_bars_of_mpiio_in_the_same_jobs_are_beside_them():
    """Of tonight, and the median of the nights compared with: blessed ones, else the good."""
    control, usual = {"open": 0.1, "write": 1.5, "close": 0.1}, {"open": 0.1, "write": 1.4}
    before = [
        replace(ran(ago=ago, metrics=metrics(USUAL)), control={"open": 0.1, "write": write})
        for ago, write in ((5, 9.0), (4, 9.0), (3, 1.3), (2, 1.5))
    ]
    last = replace(red(metrics=metrics(TONIGHT)), control=control)
    of_two = {HDF5: evolve(BLESSED, first=night_id(3), last=night_id(2))}
    for runs, blessed in (([*before, last], of_two), ([*before[2:], last], {})):
        night = tonight(*runs, blessed=blessed)
        title, drawn = bars(html(night))
        assert drawn == [
            *stacked("hdf5 tonight", TONIGHT),
            *stacked("hdf5 usual", USUAL),
            *stacked("mpiio tonight", control),
            *stacked("mpiio usual", usual),
        ]
        assert "; mpiio tonight 1.7 s, of which write 1.5 s; mpiio usual " in title


def test_what_is_not_known_has_no_bar():
    title, drawn = bars(html(tonight(red(metrics=metrics(EVERY)))))
    assert drawn == stacked("hdf5 tonight", EVERY)
    assert title.endswith(" in each phase: hdf5 tonight 3.25 s, of which write 1.2 s")
    _, drawn = bars(html(tonight(red(metrics=metrics(dict.fromkeys(USUAL, 0.0))))))
    assert drawn == stacked("hdf5 tonight", dict.fromkeys(USUAL, 0.0)), "of a clock too coarse"


def test_band_of_nights_that_vary_much_leaves_room_for_them():
    when = {"first": night_id(9), "last": night_id(1)}
    runs = [ran(ago=ago, rate=rate) for ago, rate in enumerate((900.0, 1000.0, 1200.0))]
    wide = evolve(BLESSED, bandwidth=1000.0, spread=1.5, **when)
    night = tonight(*runs, blessed={HDF5: wide})
    plot = Plot(svgs(html(night))[0])
    assert night.cases[0].expected.high > 10_000
    assert plot.band()[1] == near(plot, 2 * 1.08 * 1200)
    (line,) = plot.points("rate")
    assert [value for _, value in line] == [near(plot, rate) for rate in (1200, 1000, 900)]


def test_nights_of_one_day_stand_side_by_side():
    """As when somebody runs `make nightly` twice, or the demo's twenty."""
    rates = [7000.0, 6900.0, 7100.0, 1020.0, 1010.0, 1000.0]
    nights = [
        (red if rate == 1000 else ran)(night=f"2026-11-20T00{25 + n}00", rate=rate)
        for n, rate in enumerate(rates)
    ]
    plot = Plot(svgs(html(tonight(*nights)))[0])
    (line,) = plot.points("rate")
    assert [value for _, value in line] == [near(plot, rate) for rate in rates]
    assert [b[0] - a[0] for a, b in pairwise(line)] == pytest.approx([316 / 6] * 5, abs=0.2)
    ((begin, end),) = [(a[0], b[0]) for a, b in plot.points("red")]
    assert (begin, end) == pytest.approx((366 - 316 / 6, 366), abs=0.11), "only one of them"
    (change,) = plot.points("change")
    assert change[0][0] == pytest.approx((50 + 366) / 2, abs=0.11), "not with the day"
