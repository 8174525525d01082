"""The drawing of a dossier against what was found."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from agreed import agreed, criterion, sealed
from pages.plotted import SVG, lines, svgs

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
    return render(judged(findings, evidence, **facts), sealed(), Path())


def test_json_has_the_verdict_on_every_criterion(documented):
    written = documented(json_output.acceptance(judged(FOUND), ["a line"]))["acceptance"]
    assert written["verdict"] == "not certified", "the worst"
    given = {entry["name"]: (entry["verdict"], entry["low"]) for entry in written["criteria"]}
    assert given == {it.name: (finding.verdict, finding.low) for it, finding in FOUND.items()}


def drawn(findings):
    """The places of the measured value and of the interval's ends, for each bar by its name."""
    bars = {}
    for text in svgs(page(findings)):
        root = ET.fromstring(text)
        paths = {part.get("class"): lines(part.get("d"))[0] for part in root.findall(f"{SVG}path")}
        x = [paths["value"][0][0], *(x for x, _ in paths.get("interval", ()))]
        bars[root.findtext(f"{SVG}title").partition(":")[0]] = x
        assert paths[None][0][0] == 110, "committed is in the middle"
    return bars


def test_every_measured_value_stands_where_it_belongs():
    bars = drawn(FOUND)
    assert [*bars] == [it.name for it in (BETTER, WORSE, FAR, UNSURE)], "what was measured"
    times = {name: [32 ** ((x - 110) / 108) for x in places] for name, places in bars.items()}
    assert [pytest.approx(values, rel=0.01) for values in times.values()] == [
        [1.2, 1.1, 1.3], [0.5, 0.8, 0.25], [32], [1, 0.9, 1.1],
    ]  # fmt: skip
    extremes = {
        BETTER: Finding(verdict="fail", measured=0.0, low=0.0, high=0.1),
        WORSE: Finding(verdict="fail", measured=1e9, low=1e8, high=1e10),
    }
    assert [places[0] for places in drawn(extremes).values()] == [2, 2], "as far as it goes"
