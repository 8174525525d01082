"""The dossier of an acceptance run as a reader has it."""

import pytest
from agreed import agreed, criterion, session
from cases import case
from pages.looks import NO_SCROLL, contrast, looks, luminance_of

from iowatch.evidence.bundle import Seal
from iowatch.evidence.criteria.criterion import Finding
from iowatch.evidence.dossier import Judged
from iowatch.evidence.exhibits import Evidence, Exhibit
from iowatch.evidence.judgement import write
from iowatch.evidence.terms import Exclusion

CASE = case()
SCRIPT = "<script>alert('no')</script>"
BACKGROUND = {"light": 1.0, "dark": 0.006}  # luminance of the browser's own
PASSED = criterion("peak", "A1 peak", at_least=0.5)
FAILED = criterion("ratio", f"A2 {SCRIPT}", at_least=0.9, backend="hdf5")
PROVENANCE = {"mpi": "x" * 300, "hosts": "node1"}
REFUSED = criterion("bandwidth", "A3", at_least=4000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    run = "runs/2026-11-20T010000/" + "long," * 40
    exhibit = Exhibit(
        case=CASE, nodes=1, session="1", rates={"mpiio": [1.0]}, provenance=PROVENANCE, folder=run
    )
    values = {str(number): 0.55 + number / 100 for number in range(1, 8)}
    findings = {
        PASSED: Finding(
            verdict="pass", measured=0.6, low=0.55, high=0.65, values=values, case=str(CASE),
            chosen="1", exhibits=[exhibit],
        ),
        FAILED: Finding(verdict="fail", measured=0.4, low=0.3, high=0.5, values=values),
        REFUSED: Finding(verdict="not certified", reason=f"failed: {CASE} and 3 more"),
    }  # fmt: skip
    facts = {"peak": 30000, "peak_from": SCRIPT, "servers_memory": 512}
    contract = agreed(*findings, title=f"Storage {SCRIPT}", **facts)
    evidence = Evidence(
        sessions=[
            session(command=f"reframe {SCRIPT}"), session("2", f"excluded by centre: {SCRIPT}"),
        ],
        exhibits=[exhibit],
        failed={("1", CASE): SCRIPT},
        faults=[f"BuiltBenchio: {SCRIPT}"],
    )  # fmt: skip
    exclusion = Exclusion(session="2", by=("centre",), why=SCRIPT)
    judged = Judged(contract=contract, exclusions=[exclusion], evidence=evidence, findings=findings)
    script = f"{run}/rfm_job.sh"
    seal = Seal("f" * 64, {script: "0" * 64}, ["centre, with the ED25519 key SHA256:abc"])
    folder = tmp_path_factory.mktemp("dossier")
    (folder / run).mkdir(parents=True)
    (folder / script).write_text("srun benchio " + "--long " * 50)
    page = judged.page(seal, folder)
    path = folder / "dossier.html"
    write(page, [path])
    return path


def test_dossier_fits_and_says_first_what_matters(path, open_page):
    with open_page(path) as page:
        assert page.locator("h1").inner_text() == f"Storage {SCRIPT}"
        assert page.locator(".verdict").first.inner_text() == "not certified"
        rows = page.locator("tr.first").all_inner_texts()
        verdicts = [row.split("\t")[1].strip() for row in rows]
        assert verdicts == ["pass", "fail", "not certified"]
        first = " ".join(rows[0].split())
        assert first == "A1 peak pass at least 50.0 % 60.0 % 55.0 % to 65.0 % 7 +20 %"
        assert page.get_by_role("img", name="A1 peak: measured against committed").is_visible()
        for said in (
            f"reframe {SCRIPT}",
            f"BuiltBenchio: {SCRIPT}",
            "srun benchio --long",
            "Only centre and supplier together",
        ):
            assert page.get_by_text(said).is_visible()
        for width, scheme in looks(page):
            assert page.evaluate(NO_SCROLL), (width, scheme)
            for word in ("pass", "fail", "not-certified"):
                text = luminance_of(page, f"tr .verdict.{word}", "color")
                assert contrast(text, BACKGROUND[scheme]) > 4.5, (scheme, word)
        page.emulate_media(media="print")
        assert page.locator(".sign div").all_inner_texts() == [
            "for the centre, date",
            "for the supplier, date",
        ]
