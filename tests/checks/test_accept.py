"""The dossier of an acceptance run: from ReFrame's session and the raw results of its runs."""

import gzip
import hashlib
import html
import json
import re
import shutil
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
CASE = "small:memory/real/SharedFileWrite/backend={}/local_size=8x8x8/writers=2"
MADE = ("contract.yaml", "dossier.html", "dossier.pdf", "only.html")
PAGE = ("--output", "dossier.html")  # a PDF takes seconds more
ACCEPTANCE = ("-r", "--mode=acceptance", "-Srecord=1")


@pytest.fixture(scope="module")
def run(module_site):
    """A site after an acceptance run of MPI-IO and HDF5."""
    module_site.write["backend"] = ["mpiio", "hdf5"]
    done = module_site.reframe(*ACCEPTANCE)
    assert done.returncode == 0, done.stdout
    return module_site


@pytest.fixture
def accepted(run, tmp_path):
    """The same; what a test does to its raw results, or writes, is undone."""
    kept = run.folder / "run" / "runs"
    shutil.copytree(kept, tmp_path / "runs")
    yield run
    shutil.rmtree(kept)
    shutil.move(tmp_path / "runs", kept)
    for name in MADE:
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


def kept_result(site, backend):
    """The raw result of a case."""
    (path,) = site.folder.glob(f"run/runs/*/*backend={backend},*/result.json")
    return path


def test_dossier_holds_verdicts_conditions_and_checksums(accepted):
    (build,) = (accepted.folder / "run").glob("output/*/small/memory/real/BuiltBenchio_*")
    (build / "spack.lock").write_text("{}")
    # Evidence is what the runs left themselves, not what ReFrame has copied of it.
    for copy in (accepted.folder / "run").rglob("output/**/result.json"):
        copy.unlink()
    code, printed, page = accept(accepted)
    assert code == 1, printed
    assert verdicts(page) == {
        "A1": ("pass", ""),
        "A2": ("fail", ""),
        "A3": ("pass", ""),
        "A4": ("not certified", "no case has these numbers of nodes"),
        "A5": ("not certified", "no filesystem 'fs9': there are memory"),
    }
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

    (accepted.folder / "dossier.pdf").unlink()
    contract = "\n".join(CONTRACT.splitlines()[:4]) + "\n"
    assert accept(accepted, contract, "--output", "only.html")[0] == 0, "all criteria pass"
    assert [path.name for path in accepted.folder.glob("*.pdf")] == []


def changed_witness(path):
    result = json.loads(path.read_text())
    result["cases"][0]["repetitions"][-1]["witness"]["bytes"] -= 8
    path.write_text(json.dumps(result))


def doubled_rates(path):
    """With their times, or they would not be a result at all."""
    result = json.loads(path.read_text())
    for repetition in result["cases"][0]["repetitions"]:
        repetition["rates"] = {name: 2 * rate for name, rate in repetition["rates"].items()}
        for times in repetition["phases"].values():
            times.update(window=times["window"] / 2, file_window=times["file_window"] / 2)
    path.write_text(json.dumps(result))


def written_by_another(path):
    path.write_text(re.sub(r'"started": "\d{4}', '"started": "2020', path.read_text()))


def lost_folder(path):
    shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            changed_witness,
            r"there is 1 repetition of mpiio of which the witness confirmed more or less",
        ),
        (doubled_rates, r"total_max of its results is \S+, and \S+ is on record: changed, or"),
        (written_by_another, r"another session wrote it"),
        (Path.unlink, r"0 result files, where 1 were written"),
        (lost_folder, r"its raw results are no longer there"),
    ],
)
def test_lost_or_changed_evidence_is_not_certified(accepted, spoil, reason):
    spoil(kept_result(accepted, "mpiio"))
    code, printed, page = accept(accepted, CONTRACT, *PAGE)
    assert code == 1, printed
    found = verdicts(page)
    assert found["A1"][0] == "not certified"
    assert found["A1"][1].startswith("invalid: ")
    assert re.search(reason, found["A1"][1]), found
    assert found["A3"] == ("pass", ""), "of HDF5 nothing was changed"


def test_evidence_that_was_compressed_is_read(accepted):
    path = kept_result(accepted, "mpiio")
    path.with_name("result.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    page = accept(accepted, CONTRACT, *PAGE)[2]
    assert verdicts(page)["A1"] == ("pass", "")
    assert "result.json.gz</code>" in page


def test_rate_above_a_peak_that_was_corrected_is_not_certified(accepted):
    peak = accepted.extras["peak"]
    accepted.extras["peak"] = 1e-6
    verdict, reason = verdicts(accept(accepted, CONTRACT, *PAGE)[2])["A1"]
    accepted.extras["peak"] = peak
    assert verdict == "not certified"
    assert reason.endswith("MiB/s is above the peak of memory")


def test_mistake_is_one_line_and_writes_nothing(accepted):
    said = {
        ("--session", "1"): "no acceptance session 1 of small is on record: there are ",
        ("--output", "dossier.doc"): "--output dossier.doc: is neither .html nor .pdf",
        ("--output", "no/where.html"): "no/where.html: cannot be written: No such file",
        ("--output", "only.html", "--output", "no/x.pdf"): "no/x.pdf: cannot be written",
        ("--db", "nowhere.db"): "nowhere.db: there is no such results database",
    }
    for options, sentence in said.items():
        code, printed, page = accept(accepted, CONTRACT, *options)
        assert (code, page) == (2, ""), options
        assert sentence in printed.splitlines()[-1], options
        assert "Traceback" not in printed
        assert not (accepted.folder / "only.html").exists(), "all or none"


def test_what_was_not_measured_or_was_too_fast_is_not_certified(site):
    assert site.reframe("-r", "--mode=record").returncode == 0
    code, printed, page = accept(site)
    assert (code, page) == (2, ""), "a nightly run is no acceptance"
    assert "no acceptance session of small is on record: run `iowatch nightly" in printed

    site.write["backend"] = ["mpiio", "hdf5"]
    assert site.reframe(*ACCEPTANCE, "-n", "backend=mpiio").returncode == 0
    found = verdicts(accept(site, CONTRACT, *PAGE)[2])
    assert found["A1"] == ("pass", "")
    assert found["A3"] == ("not certified", f"not measured: {CASE.format('hdf5')}")

    site.extras["peak"] = 1e-6
    assert site.reframe(*ACCEPTANCE, "-n", "backend=mpiio").returncode == 1
    assert verdicts(accept(site, CONTRACT, *PAGE)[2])["A1"][0] == "not certified"


def test_sessions_add_up_and_one_that_is_left_out_is_named(site):
    for _ in range(2):
        assert site.reframe(*ACCEPTANCE).returncode == 0
    # Of one without the mode's --timestamp, too: each run has a folder of its own.
    assert site.reframe("-r", "-Srecord=1", "-Ssweep=acceptance").returncode == 0
    stored = list(history.sessions(site.folder / "run" / "results.db"))
    stored.sort(key=lambda session: session["session_info"]["time_start_unix"])
    names = [session["session_info"]["uuid"] for session in stored]
    every = [word for name in names for word in ("--session", name)]
    page = accept(site, CONTRACT, *PAGE, *every)[2]
    assert verdicts(page)["A1"][0] == "pass"
    assert "30 in 3 jobs" in page
    assert "not used here: none." in page
    page = accept(site, CONTRACT, *PAGE, *every[2:])[2]
    assert "20 in 2 jobs" in page
    assert re.search(rf"not used here: \S+ <code>{names[0]}</code>\.", page)
