"""The drawing of a dossier against what was found."""

import math
import re
from xml.etree import ElementTree as ET

import pytest
from browser.plotted import HREF, SVG

from iowatch.acceptance.certify import Finding
from iowatch.acceptance.contract import Criterion
from iowatch.acceptance.dossier import drawing

BETTER = Criterion("A1", "peak", "fs3", at_least=0.5)
WORSE = Criterion("A2 <$x^2$>", "repeatability", "fs3", at_most=0.2)
FAR = Criterion("A3", "bandwidth", "fs3", at_least=0.001)
REFUSED = Criterion("A4", "bandwidth", "fs3", at_least=4000)
FOUND = {
    BETTER: Finding("pass", "", 0.6, 0.55, 0.65, 10, 1),
    WORSE: Finding("fail", "", 0.4, 0.25, 0.8, 10, 1),
    FAR: Finding("pass", "", 900.0, None, None, 10, 1),
    REFUSED: Finding("not certified", "not measured"),
}


@pytest.fixture(scope="module")
def root():
    return ET.fromstring(drawing(FOUND))


def test_every_measured_value_stands_where_it_belongs(root):
    def times(name):
        """On the axis, of each element in the groups of this class."""
        places = [
            [float(x) for x in re.findall(r"[ML] (\S+) \S+", path.get("d"))]
            if (path := group.find(f"{SVG}path")) is not None
            else [float(use.get("x")) for use in group.iter(f"{SVG}use")]
            for group in root.iter(f"{SVG}g")
            if group.get("class") == name
        ]
        return [pytest.approx([2 ** axis(x) for x in xs], rel=0.02) for xs in places if xs]

    axis = axis_of(root)
    assert times("committed") == [[1.0, 1.0]]
    assert times("measured") == [[1.2], [0.5], [32.0]], "900000 times is drawn at the end"
    assert times("interval") == [[1.1, 1.3], [0.8, 0.25]], "the lower, the better"


def axis_of(root):
    """The power of two at a place, from the axis's own ticks."""
    ticks = {}
    for tick in root.iter(f"{SVG}g"):
        use, text = tick.find(f"{SVG}g/{SVG}g/{SVG}use"), tick.find(f"{SVG}g/{SVG}text")
        if use is not None and text is not None and re.fullmatch(r"[\d.]+", text.text):
            ticks[math.log2(float(text.text))] = float(use.get("x"))
    low, high = min(ticks), max(ticks)
    return lambda x: low + (high - low) * (x - ticks[low]) / (ticks[high] - ticks[low])


def test_names_are_text_and_what_was_not_measured_has_no_row(root):
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"A1", "A2 <$x^2$>", "A3"} <= texts
    assert "A4" not in texts
    assert drawing({REFUSED: FOUND[REFUSED]}) == ""


def test_markers_differ_without_colours(root):
    used = {use.get(HREF) for g in root.iter(f"{SVG}g") if g.get("class") == "measured"
            for use in g.iter(f"{SVG}use")}  # fmt: skip
    assert len(used) == 2, "of what passed and what failed"
