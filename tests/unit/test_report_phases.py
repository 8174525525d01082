"""The bars of the phases, read back from the page by their axis' own ticks."""

import re
from xml.etree import ElementTree as ET

import pytest
from browser.plotted import HREF, SVG
from unit.reported_nights import record, red, report

from iowatch.report.pages import html

RATES = dict.fromkeys(("total_max", "total_median", "total_mean", "total_min"), 1000.0)
RATES |= {"close_fraction": 0.1, "finish_fraction": 0.1, "ratio": 1.0}
USUAL = {"open": 0.1, "write": 1.0, "sync": 0.3, "close": 0.2}
TONIGHT = {"open": 0.15, "write": 1.2, "sync": 0.1, "close": 0.9}


def figures(phases):
    return RATES | {f"{phase}_s": seconds for phase, seconds in phases.items()}


def ticks(root):
    """(text, x, y) of each tick."""
    for group in root.iter(f"{SVG}g"):
        use, text = group.find(f"{SVG}g/{SVG}g/{SVG}use"), group.find(f"{SVG}g/{SVG}text")
        if use is not None and text is not None:
            assert use.get(HREF)
            yield text.text, float(use.get("x")), float(use.get("y"))


def bars(page):
    """(night, phase, begin, end) of each bar, in seconds."""
    svg = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[1]
    root = ET.fromstring(svg)
    nights = {y: text for text, _, y in ticks(root) if text in ("tonight", "usual")}
    scale = [(float(text), x) for text, x, _ in ticks(root) if text not in ("tonight", "usual")]
    (low, left), *_, (high, right) = scale
    for group in root.iter(f"{SVG}g"):
        name = group.get("class", "")
        if name.startswith("phase-"):
            path, phase = group.find(f"{SVG}path"), name.removeprefix("phase-")
            assert path.get("style") == f"fill: var(--{phase})"
            places = [tuple(map(float, p)) for p in re.findall(r"[ML] (\S+) (\S+)", path.get("d"))]
            xs, ys = zip(*places, strict=True)
            (night,) = [night for y, night in nights.items() if min(ys) < y < max(ys)]
            seconds = [low + (x - left) * (high - low) / (right - left) for x in (min(xs), max(xs))]
            yield night, phase, *seconds


def stacked(night, phases):
    """The bars that these seconds make, one after the other."""
    end, all_ = 0.0, []
    for phase, seconds in phases.items():
        all_.append((night, phase, end, end + seconds))
        end += seconds
    return all_


def test_bars_are_tonights_and_the_usual_seconds():
    before = [record(ago=ago, figures=figures(USUAL)) for ago in range(1, 6)]
    drawn = sorted(bars(html(report(*before, red(figures=figures(TONIGHT))))))
    wanted = sorted([*stacked("tonight", TONIGHT), *stacked("usual", USUAL)])
    assert [bar[:2] for bar in drawn] == [bar[:2] for bar in wanted]
    assert [bar[2:] for bar in drawn] == [pytest.approx(bar[2:], abs=0.003) for bar in wanted]
