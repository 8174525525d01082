"""The dossier of an acceptance run as a reader has it."""

from pathlib import Path

import pytest
from cases import case
from pages.colours import contrast, luminance_of

from iowatch.acceptance.certify import Finding
from iowatch.acceptance.contract import Contract, Criterion
from iowatch.acceptance.dossier import render, write
from iowatch.acceptance.evidence import Evidence, Exhibit

CASE = case()
SCRIPT = "<script>alert('no')</script>"
NO_SCROLL = "document.documentElement.scrollWidth <= window.innerWidth"
BACKGROUND = {"light": 1.0, "dark": 0.006}  # luminance of the browser's own
PASSED = Criterion("A1 peak", "peak", "fs3", at_least=0.5)
FAILED = Criterion(f"A2 {SCRIPT}", "ratio", "fs3", at_least=0.9, backend="hdf5")
REFUSED = Criterion("A3", "bandwidth", "fs3", at_least=4000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    exhibit = Exhibit(
        case=CASE,
        nodes=1,
        session="1",
        rates={"mpiio": [1.0]},
        osts={},
        conditions={"mpi": "x" * 300, "hosts": "node1"},
        files={Path("/results/output/" + "long/" * 40 + "result.json"): "0" * 64},
    )
    session = {
        "time_start": "2026-11-20T01:00:00+0000", "user": "io", "hostname": "login1",
        "version": "4.10.4", "cmdline": f"reframe {SCRIPT}", "uuid": "1",
    }  # fmt: skip
    findings = {
        PASSED: Finding("pass", "", 0.6, 0.55, 0.65, 10, 1),
        FAILED: Finding("fail", "", 0.4, 0.3, 0.5, 10, 1),
        REFUSED: Finding("not certified", f"invalid: {CASE} and 3 more"),
    }
    contract = Contract("archer", f"Storage {SCRIPT}", 0.95, list(findings))
    evidence = Evidence([exhibit], {CASE: SCRIPT}, [session], faults=[f"BuiltBenchio: {SCRIPT}"])
    page = render(contract, findings, evidence, {"fs3": 30000})
    path = tmp_path_factory.mktemp("dossier") / "dossier.html"
    write(page, [path, path.with_suffix(".pdf")])
    return path


def test_dossier_fits_and_says_first_what_matters(path, open_page):
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            with open_page(path, width, color_scheme=scheme) as page:
                assert page.locator("h1").inner_text() == f"Storage {SCRIPT}"
                assert page.locator(".verdict").first.inner_text() == "not certified"
                assert page.evaluate(NO_SCROLL), (width, scheme)
                rows = page.locator("tr.first").all_inner_texts()
                verdicts = [row.split("\t")[1].strip() for row in rows]
                assert verdicts == ["pass", "fail", "not certified"]
                first = " ".join(rows[0].split())
                assert first == (
                    "A1 peak pass at least 50.0 % 60.0 % 55.0 % to 65.0 % 10 in 1 job +20 %"
                )
                assert page.get_by_text(f"reframe {SCRIPT}").is_visible()
                assert page.get_by_text(f"BuiltBenchio: {SCRIPT}").is_visible()
                for word in ("pass", "fail", "not-certified"):
                    text = luminance_of(page, f"tr .verdict.{word}", "color")
                    assert contrast(text, BACKGROUND[scheme]) > 4.5, (scheme, word)


def test_drawing_can_be_read_and_on_paper_there_is_room_for_signatures(path, open_page):
    with open_page(path, 400, color_scheme="dark") as page:
        svg = page.get_by_role("img", name="Each measured value against the committed one")
        assert svg.locator("text").first.text_content() == PASSED.name
        seen = svg.locator("text").evaluate_all(
            "all => all.map((text) => text.getBoundingClientRect()).every("
            "(box) => box.left >= 0 && box.right <= window.innerWidth && box.height > 8)"
        )
        assert seen
        fill = svg.locator("text").first.evaluate("text => getComputedStyle(text).fill")
        assert fill == "rgb(255, 255, 255)", "as the page's own texts"
    with open_page(path) as page:
        page.emulate_media(media="print")
        assert page.locator(".sign div").all_inner_texts() == [
            "for the centre, date",
            "for the supplier, date",
        ]
