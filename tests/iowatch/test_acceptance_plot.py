"""The drawing of a dossier against what was found."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from agreed import agreed, criterion, sealed, session
from attrs import evolve
from cases import PLACE, case, changed
from pages.plotted import SVG, axis, lines, svgs

from iowatch.evidence.criteria.criterion import Finding
from iowatch.evidence.dossier import Judged
from iowatch.evidence.exhibits import Evidence, Exhibit

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
    return judged(findings, evidence, **facts).page(sealed(), Path())


def test_json_has_the_verdict_on_every_criterion(documented):
    written = documented(judged(FOUND).document(["a line"]))["acceptance"]
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


def curve(text):
    """A chart's title, its points and the last point of each line, in its own units."""
    root = ET.fromstring(text)
    of_y, of_x = [], []
    for one in root.findall(f"{SVG}text"):
        if one.get("text-anchor") == "end" and float(one.get("x")) < 62:
            of_y.append((float(one.get("y")) - 3.5, float(one.text.removesuffix(" %"))))
        elif one.get("text-anchor") == "middle":
            of_x.append((float(one.get("x")), float(one.text)))
    x, y = axis(of_x), axis(of_y)
    dots = root.findall(f"{SVG}circle")
    points = [(round(x(float(c.get("cx"))), 1), y(float(c.get("cy")))) for c in dots]
    ends = [
        y(lines(path.get("d"))[0][-1][1]) for path in root.findall(f"{SVG}path[@class='level']")
    ]
    names = [one.text for one in root.findall(f"{SVG}text") if not one.get("text-anchor")]
    return root.findtext(f"{SVG}title"), points, dict(zip(names, ends, strict=True))


def test_curves_show_each_session_and_each_number_of_nodes_against_commitment_and_peak():
    mpiio = case(place="archer:fs3/cray", backend="mpiio", ranks=24)
    rates = {1: 250.0, 2: 450.0, 4: 700.0}
    exhibits = [
        Exhibit(
            case=changed(mpiio, ranks=24 * nodes),
            nodes=nodes,
            session=name,
            rates={"mpiio": [rate * day]},
        )
        for nodes, rate in rates.items()
        for name, day in (("1", 1.0), ("2", 0.9), ("3", 1.1))
    ]
    place = evolve(PLACE, partition="fs3", name="fs3")
    evidence = Evidence(
        sessions=[session("1"), session("2"), session("3")], exhibits=exhibits, places=[place],
        cases={one.case: one.nodes for one in exhibits},
    )  # fmt: skip
    scaling = criterion("scaling", "S", at_least=0.6, from_nodes=1, to_nodes=4)
    findings = {
        scaling: Finding(verdict="pass", measured=0.71, values={"2": 0.7, "3": 0.72}),
        BETTER: Finding(verdict="pass", measured=0.6, values={"1": 0.55, "2": 0.65}),
    }
    drawn = svgs(page(findings, evidence, peak=2000, peak_from="data sheet"))[len(findings) :]
    title, points, levels = curve(drawn[0])
    assert title == "S: each session that judges"
    assert points == [(1, pytest.approx(70, rel=0.02)), (2, pytest.approx(72, rel=0.02))]
    assert levels == {"committed": pytest.approx(60, rel=0.02)}
    title, points, levels = curve(drawn[1])
    assert title == "S: MiB/s over the number of nodes"
    assert points == [(nodes, pytest.approx(rate, rel=0.03)) for nodes, rate in rates.items()]
    assert levels == {
        "peak": pytest.approx(2000, rel=0.02),
        "linear": pytest.approx(1000, rel=0.03),
        "committed": pytest.approx(600, rel=0.03),
    }
    title, points, levels = curve(drawn[2])
    assert title == "A1: each session that judges"
    assert levels["peak"] == pytest.approx(100, rel=0.02)
