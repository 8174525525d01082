"""The drawing of a dossier against what was found."""

import math
from xml.etree import ElementTree as ET

import pytest
from agreed import agreed, criterion, sealed
from pages.plotted import SVG, axis, lines, svgs

from iowatch import json_output
from iowatch.acceptance.accept import Judged
from iowatch.acceptance.criteria.criterion import Finding
from iowatch.acceptance.dossier import render
from iowatch.acceptance.exhibits import Evidence

BETTER = criterion("peak", "A1", at_least=0.5)
WORSE = criterion("repeatability", "A2 <$x^2$>", at_most=0.2)
FAR = criterion("bandwidth", "A3 " + "long" * 5, at_least=0.001)
REFUSED = criterion("bandwidth", "A4", at_least=4000)
UNSURE = criterion("peak", "A5", at_least=0.5)
FOUND = {
    BETTER: Finding(verdict="pass", measured=0.6, low=0.55, high=0.65),
    WORSE: Finding(verdict="fail", measured=0.4, low=0.25, high=0.8),
    FAR: Finding(verdict="pass", measured=900.0),
    REFUSED: Finding(verdict="not certified", reason="not measured"),
    UNSURE: Finding(verdict="not conclusive", measured=0.5, low=0.45, high=0.55),
}


def judged(findings, evidence=None, **facts):
    return Judged(
        contract=agreed(*findings, **facts), exclusions=[], evidence=evidence or Evidence(),
        findings=findings,
    )  # fmt: skip


def page(findings, evidence=None, **facts):
    return render(judged(findings, evidence, **facts), sealed(), {})


def test_json_has_the_verdict_on_every_criterion(documented):
    written = documented(json_output.acceptance(judged(FOUND), ["a line"]))["acceptance"]
    assert written["verdict"] == "not certified", "the worst"
    given = {entry["name"]: (entry["verdict"], entry["low"]) for entry in written["criteria"]}
    assert given == {it.name: (finding.verdict, finding.low) for it, finding in FOUND.items()}


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


def test_names_are_text_markers_differ_and_what_was_not_measured_has_no_row(root):
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"A1", "A2 <$x^2$>", "A3 longlonglonglongl…", "A5"} <= texts
    assert "A4" not in texts
    assert "confidence interval" in root.findtext(f"{SVG}title")
    assert svgs(page({REFUSED: FOUND[REFUSED]})) == []
    marks = [path.get("d") for path in root.findall(f".//{SVG}path[@class='measured']")]
    assert marks[0] == marks[2]
    assert len(set(marks)) == 3, "what passed, failed, and is open differ without colours"


def test_ticks_of_a_long_axis_are_few():
    extremes = {
        FAR: FOUND[FAR],
        BETTER: Finding(verdict="fail", measured=0.0, low=0.0, high=0.1),
        WORSE: Finding(verdict="fail", measured=1e9, low=1e8, high=1e10),
    }
    (svg,) = svgs(page(extremes))
    root = ET.fromstring(svg)
    assert [value for _, value in ticks(root)] == [0.0625, 0.25, 1, 4, 16]
    measured = [value for (value,), _ in times(root, "measured")]
    assert measured == pytest.approx([32, 1 / 32, 1 / 32], rel=0.02)
