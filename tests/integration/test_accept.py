"""The dossier of an acceptance run: from ReFrame's session and the files that its jobs left."""

import hashlib
import html
import json
import re
from pathlib import Path

import pytest

from iowatch import history

CONTRACT = """\
system: small
title: Acceptance of <small> & others
criteria:
  - {name: A1 bandwidth, kind: bandwidth, filesystem: memory, at_least: 0.001}
  - {name: A2 too much, kind: peak, filesystem: memory, at_least: 2}
  - {name: A3 HDF5, kind: ratio, filesystem: memory, backend: hdf5, at_least: 1.0e-6}
  - {name: A4 nodes, kind: scaling, filesystem: memory, from_nodes: 1, to_nodes: 2, at_least: 0.5}
  - {name: A5 elsewhere, kind: peak, filesystem: fs9, at_least: 0.5}
"""
CASE = "small:memory/real/write/shared/{}/count=none/size=none/local=8x8x8/writers=2"


@pytest.fixture(scope="module")
def run(module_site):
    """A site after an acceptance run of MPI-IO and HDF5."""
    module_site.write["backend"] = ["mpiio", "hdf5"]
    done = module_site.reframe("-r", "--mode=acceptance", "-Srecord=1")
    assert done.returncode == 0, done.stdout
    return module_site


@pytest.fixture
def accepted(run):
    """The same; what a test does to its results, or writes, is undone."""
    results = {path: path.read_text() for path in (run.folder / "run").rglob("output/**/*.json")}
    yield run
    for path, text in results.items():
        path.write_text(text)
    for name in ("dossier.html", "dossier.pdf", "only.html"):
        (run.folder / name).unlink(missing_ok=True)


def accept(site, contract=CONTRACT, *options):
    """The exit code, what was printed, and the page, if there is one."""
    (site.folder / "contract.yaml").write_text(contract)
    done = site._run("iowatch", "accept", "contract.yaml", *options)
    page = site.folder / "dossier.html"
    return done.returncode, done.stdout, page.read_text() if page.exists() else ""


def verdicts(page):
    """Criterion -> (verdict, reason)."""
    rows = re.findall(
        r"<strong>(\w+)(?:(?!<strong>).)*?<span class=\"verdict [\w-]+\">(.*?)</span></td>"
        r"(?:(?!</tr>).)*?</tr>"
        r"\s*<tr>(?:(?!</tr>).)*?(?:<span class=\"reason\">(.*?)</span>)?</td></tr>",
        page,
        re.DOTALL,
    )
    return {name: (verdict, html.unescape(reason)) for name, verdict, reason in rows}


def test_dossier_holds_verdicts_conditions_and_checksums(accepted):
    (build,) = (accepted.folder / "run").glob("output/*/small/memory/real/BuiltBenchio_*")
    (build / "spack.lock").write_text("{}")
    code, printed, page = accept(accepted)
    assert code == 1, printed
    found = verdicts(page)
    assert found["A1"] == ("pass", "")
    assert found["A2"] == ("fail", "")
    assert found["A3"] == ("pass", "")
    assert found["A4"] == ("not certified", "no case has these numbers of nodes")
    assert found["A5"] == ("not certified", "no filesystem 'fs9': there are memory")
    assert "10 in 1 job" in page
    assert "Acceptance of &lt;small&gt; &amp; others" in page
    assert "Open MPI" in page
    assert "--mode=acceptance" in page
    evidence = re.findall(r"<code>([0-9a-f]{64})  (.*?)</code>", page)
    names = sorted(path.rpartition("/")[2] for _, path in evidence)
    assert names == ["result.json", "result.json", "rfm_job.sh", "rfm_job.sh", "spack.lock"]
    for checksum, path in evidence:
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == checksum
    assert (accepted.folder / "dossier.pdf").read_bytes().startswith(b"%PDF")
    assert "written: dossier.pdf" in printed


def test_all_criteria_pass_with_exit_code_0(accepted):
    contract = "\n".join(CONTRACT.splitlines()[:4]) + "\n"
    assert accept(accepted, contract, "--output", "only.html")[0] == 0
    assert [path.name for path in accepted.folder.glob("*.pdf")] == []


def test_lost_or_changed_evidence_is_not_certified(accepted):
    results = {
        path.parent: path for path in (accepted.folder / "run").rglob("output/**/result.json")
    }
    (path,) = [path for path in results.values() if '"hdf5"' not in _backends(path)]
    text = path.read_text()
    path.write_text(text.replace('"passed"', '"skipped"', 2))
    verdict, reason = verdicts(accept(accepted)[2])["A1"]
    assert verdict == "not certified"
    assert reason.startswith("invalid: ")
    assert "unverified repetitions" in accept(accepted)[2]
    path.unlink()
    assert "0 result files, where 1 were written" in accept(accepted)[2]


def test_rates_that_are_not_those_on_record_are_not_certified(accepted):
    results = (accepted.folder / "run").rglob("output/**/result.json")
    (path,) = [path for path in results if '"hdf5"' not in _backends(path)]
    result = json.loads(path.read_text())
    for repetition in result["cases"][0]["repetitions"]:
        repetition["rates"]["total"] *= 2
    path.write_text(json.dumps(result))
    verdict, reason = verdicts(accept(accepted)[2])["A1"]
    assert verdict == "not certified"
    assert re.search(r"total_max of its results is \S+, and \S+ is on record: changed, or", reason)


def test_rate_above_a_peak_that_was_corrected_is_not_certified(accepted):
    peak = accepted.extras["peak"]
    accepted.extras["peak"] = 1e-6
    verdict, reason = verdicts(accept(accepted)[2])["A1"]
    accepted.extras["peak"] = peak
    assert verdict == "not certified"
    assert reason.endswith("MiB/s is above the peak of memory")


def _backends(path):
    return re.search(r'"cases".*', path.read_text(), re.DOTALL)[0]


def test_case_that_was_not_measured_is_not_certified(site):
    site.write["backend"] = ["mpiio", "hdf5"]
    names = ["-n", "backend=mpiio"]
    assert site.reframe("-r", "--mode=acceptance", "-Srecord=1", *names).returncode == 0
    found = verdicts(accept(site)[2])
    assert found["A1"] == ("pass", "")
    assert found["A3"] == ("not certified", f"not measured: {CASE.format('hdf5')}")


def test_result_that_a_later_session_wrote_over_is_not_certified(accepted):
    database = accepted.folder / "run" / "results.db"
    kept = database.read_bytes()
    (result, *_) = (accepted.folder / "run").rglob("output/**/result.json")
    text = result.read_text()
    result.write_text(re.sub(r'"started": "\d{4}', '"started": "2020', text))
    assert kept == database.read_bytes()
    assert "another session wrote it" in accept(accepted)[2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--session", "1"], "results.db: no acceptance session 1 of small is on record"),
        (["--output", "dossier.doc"], "--output dossier.doc: is neither .html nor .pdf"),
        (["--output", "no/where.html"], "no/where.html: cannot be written: No such file"),
        (["--output", "only.html", "--output", "no/x.pdf"], "no/x.pdf: cannot be written"),
        (["--db", "nowhere.db"], "nowhere.db: there is no such results database"),
    ],
)
def test_mistake_is_one_line(accepted, options, sentence):
    code, printed, _ = accept(accepted, CONTRACT, *options)
    assert code == 2
    assert f"iowatch: error: {sentence}" in printed or sentence in printed.splitlines()[-1]
    assert "Traceback" not in printed
    assert not (accepted.folder / "only.html").exists(), "all or none"


def test_nightly_run_is_no_acceptance(site):
    assert site.reframe("-r", "--mode=record").returncode == 0
    code, printed, page = accept(site)
    assert (code, page) == (2, "")
    assert "no acceptance session of small is on record: run `iowatch nightly" in printed


def run_twice(site, *options):
    """Two acceptance sessions with these options of ReFrame; those of `accept` that name both."""
    for _ in range(2):
        assert site.reframe("-r", "-Srecord=1", *options).returncode == 0
    stored = history.sessions(site.folder / "run" / "results.db")
    names = [session["session_info"]["uuid"] for session in stored]
    assert len(names) == 2
    return [word for name in names for word in ("--session", name)]


def test_sessions_add_up_and_one_that_is_left_out_is_named(site):
    both = run_twice(site, "--mode=acceptance")
    page = accept(site, CONTRACT, *both)[2]
    assert verdicts(page)["A1"][0] == "pass"
    assert "20 in 2 jobs" in page
    assert "not used here: none." in page
    page = accept(site, CONTRACT, *both[2:])[2]
    assert "10 in 1 job" in page
    assert re.search(rf"not used here: \S+ <code>{both[1]}</code>\.", page)


def test_one_result_of_two_sessions_is_not_certified(site):
    both = run_twice(site, "-Ssweep=acceptance")  # without the mode's --timestamp
    page = accept(site, CONTRACT, *both)[2]
    assert verdicts(page)["A1"][0] == "not certified"
    assert "is on record: changed, or a later session wrote over them" in page


def test_run_above_the_ceiling_is_not_certified(site):
    site.extras["peak"] = 1e-6
    assert site.reframe("-r", "--mode=acceptance", "-Srecord=1").returncode == 1
    assert verdicts(accept(site)[2])["A1"][0] == "not certified"
