"""The drawing of a dossier against what was found."""

import math
from xml.etree import ElementTree as ET

import pytest
from pages.plotted import SVG, axis, lines, svgs

from iowatch.acceptance.certify import Finding
from iowatch.acceptance.contract import Contract, Criterion
from iowatch.acceptance.dossier import render
from iowatch.acceptance.evidence import Evidence

BETTER = Criterion("A1", "peak", "fs3", at_least=0.5)
WORSE = Criterion("A2 <$x^2$>", "repeatability", "fs3", at_most=0.2)
FAR = Criterion("A3 " + "long" * 5, "bandwidth", "fs3", at_least=0.001)
REFUSED = Criterion("A4", "bandwidth", "fs3", at_least=4000)
UNSURE = Criterion("A5", "peak", "fs3", at_least=0.5)
FOUND = {
    BETTER: Finding("pass", "", 0.6, 0.55, 0.65, 10, 1),
    WORSE: Finding("fail", "", 0.4, 0.25, 0.8, 10, 1),
    FAR: Finding("pass", "", 900.0, None, None, 10, 1),
    REFUSED: Finding("not certified", "not measured"),
    UNSURE: Finding("not conclusive", "", 0.5, 0.45, 0.55, 10, 1),
}


def page(found):
    return render(Contract("archer", "Storage", 0.95, list(found)), found, Evidence(), {})


@pytest.fixture(scope="module")
def root():
    (svg,) = svgs(page(FOUND))
    return ET.fromstring(svg)


def ticks(root):
    texts = root.findall(f"{SVG}g[@class='ticks']/{SVG}text")
    return [(float(text.get("x")), float(text.text)) for text in texts]


def times(root, name):
    """How many times as good, and the row, of each element with this class."""
    power = axis([(x, math.log2(value)) for x, value in ticks(root)])
    for path in root.findall(f".//{SVG}path[@class='{name}']"):
        place = path.get("transform", "").removeprefix("translate(").removesuffix(")")
        ((x, y), *end) = lines(f"M{place}" if place else path.get("d"))[0]
        yield [2 ** power(place) for place in (x, *(x for x, _ in end))], y


def test_every_measured_value_stands_where_it_belongs(root):
    def drawn(name):
        return [pytest.approx(values, rel=0.01) for values, _ in times(root, name)]

    assert drawn("committed") == [[1.0, 1.0]]
    assert drawn("measured") == [[1.2], [0.5], [32.0], [1.0]], "900000 times is drawn at the end"
    assert drawn("interval") == [[1.1, 1.3], [0.8, 0.25], [0.9, 1.1]], "the lower, the better"
    assert [value for _, value in ticks(root)] == [0.25, 0.5, 1, 2, 4, 8, 16, 32]
    rows = [float(text.get("y")) - 3.5 for text in root.findall(f"{SVG}text")[:4]]
    assert [y for _, y in times(root, "measured")] == rows
    assert [y for _, y in times(root, "interval")] == [rows[0], rows[1], rows[3]]


def test_names_are_text_and_what_was_not_measured_has_no_row(root):
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"A1", "A2 <$x^2$>", "A3 longlonglonglongl…", "A5"} <= texts
    assert "A4" not in texts
    assert "confidence interval" in root.findtext(f"{SVG}title")
    assert svgs(page({REFUSED: FOUND[REFUSED]})) == []


def test_markers_differ_without_colours(root):
    better, worse, far, unsure = [
        path.get("d") for path in root.findall(f".//{SVG}path[@class='measured']")
    ]
    assert better == far
    assert len({better, worse, unsure}) == 3, "what passed, what failed, and what is open"


def test_ticks_of_a_long_axis_are_few():
    extremes = {
        FAR: FOUND[FAR],
        BETTER: Finding("fail", "", 0.0, 0.0, 0.1, 10, 1),
        WORSE: Finding("fail", "", 1e9, 1e8, 1e10, 10, 1),
    }
    (svg,) = svgs(page(extremes))
    root = ET.fromstring(svg)
    assert [value for _, value in ticks(root)] == [0.0625, 0.25, 1, 4, 16]
    measured = [value for (value,), _ in times(root, "measured")]
    assert measured == pytest.approx([32, 1 / 32, 1 / 32], rel=0.02)
