"""Acceptance as two parties have it: one measures, and the other has a bundle and iowatch alone."""

import gzip
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agreed import key_pair
from conftest import ROOT

from iowatch import history
from iowatch.acceptance.accept import judge
from iowatch.acceptance.bundle import pack, unpack, write_manifest

RULES = """\
system: small
title: Acceptance of <small> & others
confidence: 0.5
rules:
  begins: 2020-01-01
  sessions: 3
  hours_apart: 0
  reruns: invalid
  least_nodes: 1
  times_memory: 0
  machine: shared
  may_exclude: [centre, supplier]
filesystems:
  memory: {path: /dev/shm, type: tmpfs, peak: 1000000, peak_from: "a data sheet"}
  fs9: {path: /fs9, type: lustre}
"""
CONTRACT = f"""\
{RULES}criteria:
  - {{name: A1 bandwidth, kind: bandwidth, filesystem: memory, at_least: 0.001}}
  - {{name: A2 too much, kind: peak, filesystem: memory, at_least: 2}}
  - {{name: A3 HDF5, kind: ratio, filesystem: memory, backend: hdf5, at_least: 1.0e-6}}
  - {{name: A4 nodes, kind: scaling, filesystem: memory, from_nodes: 1, to_nodes: 2, at_least: 0.5}}
  - {{name: A5 elsewhere, kind: bandwidth, filesystem: fs9, at_least: 0.5}}
"""
ONLY_A1 = "\n".join(line for line in CONTRACT.splitlines() if not re.search("A[2-5]", line)) + "\n"
CASE = "small:memory/real/SharedFileWrite/backend={}/local_size=8x8x8/writers=2"
PAGE = ("--output", "dossier.html")  # a PDF takes seconds more
ACCEPTANCE = ("-r", "--mode=acceptance")


@pytest.fixture(scope="module")
def run(module_site):
    """A site after three acceptance sessions of MPI-IO and HDF5, without reference values."""
    module_site.write["backend"] = ["mpiio", "hdf5"]
    module_site.references = None
    for _ in range(3):
        done = module_site.reframe(*ACCEPTANCE)
        assert done.returncode == 0, done.stdout
    return module_site


@pytest.fixture
def accepted(run, tmp_path):
    """The same; what a test does to its raw results, or writes, is undone."""
    kept = run.folder / "run" / "runs"
    shutil.copytree(kept, tmp_path / "runs")
    before = set(run.folder.iterdir())
    yield run
    shutil.rmtree(kept)
    shutil.move(tmp_path / "runs", kept)
    for path in set(run.folder.iterdir()) - before:
        path.unlink()


def accept(site, contract=CONTRACT, *options):
    """The exit code, what was printed, and the page, if there is one."""
    (site.folder / "contract.yaml").write_text(contract)
    done = site._run("iowatch", "accept", "contract.yaml", *options)
    page = site.folder / "dossier.html"
    return done.returncode, done.stdout, page.read_text() if page.exists() else ""


#: iowatch where there is nothing but what it cannot do without: no ReFrame, and no extra.
ALONE = """
import sys
sys.modules.update(dict.fromkeys(["reframe", "matplotlib", "numpy", "weasyprint", "darshan"]))
from iowatch import cli
cli.app(["accept", "--verify", *sys.argv[1:]])
"""


def verify(folder, *options):
    """The exit code and what was printed where there are only this folder and iowatch."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *options],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


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


def kept_results(site, backend):
    """The raw results of a case, first session first."""
    return sorted(site.folder.glob(f"run/runs/*/*backend={backend},*/result.json"))


def stored(site):
    """The sessions on record, first to last."""
    found = list(history.sessions(site.database))
    return sorted(found, key=lambda session: session["session_info"]["time_start_unix"])


def began(session):
    """When it did, as a contract has it."""
    return datetime.fromtimestamp(session["session_info"]["time_start_unix"], UTC).isoformat()


def test_two_parties_come_to_the_same_verdicts_and_both_sign(accepted, tmp_path):
    # Evidence is what the runs left themselves, not what ReFrame has copied of it.
    for copy in (accepted.folder / "run").rglob("output/**/result.json"):
        copy.unlink()
    centre, known = key_pair(tmp_path, "centre")
    code, printed, page = accept(accepted, CONTRACT, "--sign", str(centre))
    assert code == 1, printed
    assert verdicts(page) == {
        "A1": ("pass", ""),
        "A2": ("fail", ""),
        "A3": ("pass", ""),
        "A4": ("not certified", "no case has these numbers of nodes"),
        "A5": ("not certified", "no filesystem 'fs9': there are memory"),
    }
    assert "3 of 3 sessions count, of " in printed
    assert (accepted.folder / "dossier.pdf").read_bytes().startswith(b"%PDF")
    assert "written: evidence.tar" in printed
    for words in ("Acceptance of &lt;small&gt; &amp; others", "Open MPI", "--mode=acceptance"):
        assert words in page
    assert "mpirun" in page, "the job script says what was run"

    supplier = tmp_path / "supplier"
    supplier.mkdir()
    bundle = shutil.copy(accepted.folder / "evidence.tar", supplier)
    (supplier / "known").write_text(known)
    own, own_line = key_pair(supplier, "key")
    code, again = verify(supplier, bundle, "--signers", "known", *PAGE, "--sign", str(own))
    assert code == 1, again
    assert "signed by centre, with the ED25519 key SHA256:" in again
    assert "differs" not in again
    said = [line for line in printed.splitlines() if re.match(r".*: A\d|the evidence is", line)]
    assert len(said) == 6
    assert set(said) <= set(again.splitlines())
    assert again.count("signed by ") == 2
    # The other one's dossier is the same but for his signature.
    theirs = (supplier / "dossier.html").read_text()
    assert verdicts(theirs) == verdicts(page)

    # Its contract is the one that was agreed, or else nothing is judged.
    own_copy = supplier / "contract.yaml"
    own_copy.write_text(CONTRACT)
    code, again = verify(supplier, bundle, "--contract", "contract.yaml")
    assert (code, "--contract FILE" in again) == (1, False), again
    own_copy.write_text(CONTRACT.replace("at_least: 0.001", "at_least: 1000"))
    code, again = verify(supplier, bundle, "--contract", "contract.yaml")
    assert code == 2
    said = r"its contract is not that of --contract contract.yaml: line \d+ is '- {name: A1 "
    assert re.search(said, again), again

    code, again = verify(supplier, bundle, "--signers", "known")
    assert code == 2
    assert "2.ssh is by nobody whom --signers known lists" in again
    (supplier / "known").write_text(known + own_line)
    assert verify(supplier, bundle, "--signers", "known")[0] == 1

    # Anybody can check it without iowatch.
    (supplier / "taken").mkdir()
    command = f"tar xf {bundle} && sha256sum --quiet -c seal && sha256sum --quiet -c manifest"
    subprocess.run(["bash", "-c", command], cwd=supplier / "taken", check=True)
    listed = dict(re.findall(r"<code>([0-9a-f]{64})  (.*?)</code>", page))
    assert len(listed) >= 3 * 2 * 3
    for digest, name in listed.items():
        assert hashlib.sha256((supplier / "taken" / name).read_bytes()).hexdigest() == digest

    # What somebody has put into a record makes no line of its own.
    record = next(iter((supplier / "taken/sessions").glob("*.json")))
    forged = json.loads(record.read_text())
    for test in forged["runs"][-1]["testcases"]:
        if "backend=mpiio" in (test.get("case_id") or ""):
            test |= {"verdict": "invalid", "sentence": "no\npass: A1 bandwidth: 9 MiB/s"}
    true = record.read_text()
    record.write_text(json.dumps(forged))
    remake(supplier / "taken", supplier / "other.tar")
    assert not re.search("^pass: A1", verify(supplier, "other.tar")[1], re.MULTILINE)
    record.write_text(true)

    # What another iowatch would see otherwise is said.
    told = supplier / "taken" / "verdicts"
    told.write_text(told.read_text().replace("fail: A2", "pass: A2"))
    remake(supplier / "taken", supplier / "other.tar")
    code, again = verify(supplier, "other.tar")
    assert code == 1
    assert "differs: its maker was told: pass: A2" in again


def remake(folder, path):
    """An archive with a manifest and a seal that fit, as whoever forges one would make it."""
    shutil.rmtree(folder / "signatures", ignore_errors=True)
    write_manifest(folder)
    pack(folder, path)


def test_all_pass_is_exit_code_0_and_what_was_compressed_is_read(accepted):
    for path in kept_results(accepted, "mpiio"):
        path.with_name("result.json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    # What somebody tries out besides is none of the sweep's cases.
    tried = accepted.reframe(*ACCEPTANCE, "-P", "local_size=16", "-n", "backend=mpiio")
    assert tried.returncode == 0, tried.stdout
    code, printed, page = accept(accepted, ONLY_A1, *PAGE)
    assert code == 0, printed
    assert "it was asked for 1 of the 3 cases" in printed
    assert verdicts(page) == {"A1": ("pass", "")}
    assert "nobody has signed it" in printed
    assert verify(accepted.folder, "evidence.tar")[0] == 0

    code, printed, _ = accept(accepted, ONLY_A1, "--plan")
    assert code == 0, printed
    assert "jobs: 3 sessions of 3, that is 9" in printed
    assert "A1 bandwidth: 1 case; 3 sessions judge it. If it is 10 % better" in printed


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


def of_another_run(path):
    path.write_text(re.sub(r'"id": "\w+"', '"id": "0123456789abcdef"', path.read_text()))


def of_another_place(path):
    result = json.loads(path.read_text())
    result["run"]["directory"] = "/dev/shm/fast/iowatch.abcdef"
    path.write_text(json.dumps(result))


def failed_at_the_end(path):
    path.with_name("exit_code").write_text("1\n")


def lost_folder(path):
    shutil.rmtree(path.parent)


def other_nodes(file):
    """As if the site's file were changed when all had run."""
    facts = file.parents[3] / "site.json"
    data = json.loads(facts.read_text())
    data["cases"] = {c: n + ("backend=mpiio/" in c) for c, n in data["cases"].items()}
    facts.write_text(json.dumps(data))


SPOILED = {
    changed_witness: r"there is 1 repetition of mpiio of which the witness confirmed more or less",
    doubled_rates: r"total_max of its results is \S+, and \S+ is on record: changed, or",
    of_another_run: r"result.json is another job's",
    of_another_place: r"its files were in /dev/shm/fast, and memory is at /dev/shm/iowatch-test\.",
    failed_at_the_end: r"benchio reported success but failed",
    Path.unlink: r"0 result files, where 1 was written",
    other_nodes: r"it ran on 1 node, and on 2 by the site's file",
    lost_folder: r"its raw results are no longer there",
}


def test_lost_or_changed_evidence_is_not_certified(accepted, tmp_path):
    """Whoever forges a bundle can make its seals fit, and not what the runs have on record."""
    assert accept(accepted, CONTRACT, *PAGE)[0] == 1
    for spoil, reason in SPOILED.items():
        folder = tmp_path / "evidence"
        folder.mkdir()
        unpack(accepted.folder / "evidence.tar", folder)
        spoil(sorted(folder.glob("runs/*/*backend=mpiio,*/result.json"))[1])
        found = {one.name: found for one, found in judge(folder).findings.items()}
        verdict, why = found["A1 bandwidth"].verdict, found["A1 bandwidth"].reason
        assert verdict == "not certified", spoil
        assert re.search(f"^invalid: .*{reason}", why), why
        assert found["A3 HDF5"].verdict == "pass", "of HDF5 nothing was changed"
        shutil.rmtree(folder)


def test_rate_above_a_peak_that_was_corrected_is_not_certified(accepted):
    peak = accepted.extras["peak"]
    accepted.extras["peak"] = 1e-6
    verdict, reason = verdicts(accept(accepted, CONTRACT, *PAGE)[2])["A1"]
    accepted.extras["peak"] = peak
    assert verdict == "not certified"
    assert reason.endswith("MiB/s is above the peak of memory")


def test_mistake_is_one_line_and_writes_nothing(accepted):
    excluded = accepted.folder / "excluded.yaml"
    excluded.write_text("- {session: '1', by: [supplier, centre], why: power failed}\n")
    said = {
        ("--exclusions", "excluded.yaml"): (
            "exclusions.yaml: no acceptance session 1 is on record: there are "
        ),
        ("--output", "dossier.doc"): "--output dossier.doc: is neither .html nor .pdf",
        ("--output", "no/where.html"): "no/where.html: cannot be written: No such file",
        ("--output", "only.html", "--output", "no/x.pdf"): "no/x.pdf: cannot be written",
        ("--bundle", "no/evidence.tar", *PAGE): "no/evidence.tar: cannot be written",
        ("--sign", "no.key", *PAGE): "--sign no.key: it cannot sign: ",
        ("--db", "nowhere.db"): "nowhere.db: there is no such results database",
        ("--plan", "--verify"): "--plan and --verify exclude each other",
        ("--contract", "contract.yaml"): "--contract goes with --verify: leave it out",
        ("--signers", "known"): "--signers goes with --verify: leave it out",
        ("--verify", "--exclusions", "excluded.yaml"): "--exclusions does not go with --verify: a ",
        ("--verify", "--db", "other.db"): "--db does not go with --verify: a bundle is judged by",
        ("--verify", "--bundle", "b.tar"): "--bundle does not go with --verify: a bundle is judged",
        ("--plan", "--sign", "key"): "--sign does not go with --plan: nothing is judged",
    }
    for options, sentence in said.items():
        code, printed, page = accept(accepted, CONTRACT, *options)
        assert (code, page) == (2, ""), (options, printed)
        assert sentence in printed.splitlines()[-1], options
        assert "Traceback" not in printed
        assert not (accepted.folder / "only.html").exists(), "all or none"


def test_what_was_not_measured_or_was_too_fast_is_not_certified(site):
    assert site.reframe("-r", "--mode=record").returncode == 0
    code, printed, page = accept(site)
    assert (code, page) == (2, ""), "a nightly run is no acceptance"
    assert "no acceptance session of small is on record: run `iowatch nightly" in printed

    assert site.reframe(*ACCEPTANCE, "-S", "repeats=2").returncode == 0
    found = verdicts(accept(site, ONLY_A1, *PAGE)[2])
    assert "it has 2 repetitions, and an acceptance test takes the 10 of" in found["A1"][1]

    site.extras["peak"] = 1e-6
    assert site.reframe(*ACCEPTANCE).returncode == 1
    again = ONLY_A1.replace("begins: 2020-01-01", f"begins: {began(stored(site)[-1])}")
    assert "above the physical ceiling" in verdicts(accept(site, again, *PAGE)[2])["A1"][1]


def test_the_contract_alone_judges_whatever_the_reference_values_say(site):
    """There are none, nobody can read them, or they would be red."""
    site.faults = {"slow": "slow hdf5"}
    site.write["backend"] = ["mpiio", "hdf5"]
    for references in (None, "[", "SharedFileWrite: {.*: {ratio: [0.9, -0.5]}}"):
        site.references = references
        done = site.reframe(*ACCEPTANCE)
        assert done.returncode == 0, done.stdout
    page = accept(site, CONTRACT.replace("1.0e-6", "0.9"), *PAGE)[2]
    assert verdicts(page)["A3"] == ("fail", "")


def test_the_clock_and_the_contract_say_which_sessions_count(site):
    """A part of the sweep, one that both sides exclude, and those that come too late do not; a
    re-run replaces what is invalid, and nothing else."""
    site.write["backend"] = ["mpiio", "hdf5"]
    assert site.reframe(*ACCEPTANCE, "-n", "backend=mpiio").returncode == 0
    for prepare in ([], ["! grep -q 'mpiio,hdf[5]' $0 || exit 1"], [], []):
        site.partition["prepare_cmds"] = prepare
        assert site.reframe(*ACCEPTANCE).returncode == bool(prepare)
    part, _, second, third, late = (one["session_info"]["uuid"] for one in stored(site))

    _, printed, page = accept(site, CONTRACT, *PAGE)
    assert verdicts(page)["A1"][0] == "pass"
    assert "3 of 3 sessions count, of 5 on record" in printed
    assert re.search(
        rf"session {part} of .* does not count: it was asked for 1 of the 3 cases, and only",
        printed,
    )
    assert re.search(rf"{late} of .*: it came after the 3 that count", printed)
    assert verdicts(page)["A3"][1].startswith("invalid: ")
    assert second in verdicts(page)["A3"][1], "which the re-run came too late for"

    exclusion = f"- {{session: {third}, by: [supplier, centre], why: the power failed}}\n"
    (site.folder / "excluded.yaml").write_text(exclusion)
    options = ("--exclusions", "excluded.yaml", *PAGE)
    _, printed, page = accept(site, CONTRACT.replace("sessions: 3", "sessions: 2"), *options)
    assert re.search(rf"{third} of .*: excluded by centre and supplier: the power failed", printed)
    assert verdicts(page)["A3"] == ("pass", ""), verdicts(page)
    assert re.search(
        rf"{late} of .*: it came .*a re-run of {second}, and replaces 1 of its", printed
    )
    assert "the power failed" in page
    assert "1 run was replaced by re-runs; the dossier names them" in printed
    assert "1 run that had failed was replaced by a later one" in page
    never = CONTRACT.replace("sessions: 3", "sessions: 2").replace(
        "reruns: invalid", "reruns: none"
    )
    assert verdicts(accept(site, never, *options)[2])["A3"][0] == "not certified"
    # Fewer than agreed are no verdict, and half an hour was not enough.
    apart = CONTRACT.replace("hours_apart: 0", "hours_apart: 0.5")
    _, printed, page = accept(site, apart, *PAGE)
    assert verdicts(page)["A1"] == ("not conclusive", "1 of the 3 sessions were measured")
    assert " h after the one before that counts, and 0.5 h were agreed" in printed
    # A session that was killed, or deleted, has left its runs: only both sides can excuse that.
    lost = ["reframe", f"--delete-stored-sessions={third}"]
    assert site._run(*lost).returncode == 0
    page = accept(site, CONTRACT, *PAGE)[2]
    assert "of which no session is on record" in page
    verdict, why = verdicts(page)["A1"]
    assert verdict == "not certified"
    night = re.match(r"of the run (\S+?)/\S+ no session is on record: it was killed", why)[1]
    (site.folder / "excluded.yaml").write_text(exclusion.replace(third, night))
    assert verdicts(accept(site, CONTRACT, *options)[2])["A1"] == ("pass", "")
    # Nor does it help to lose what a valid run has left: no later run takes its place.
    kept_results(site, "mpiio")[1].unlink()
    found = verdicts(accept(site, CONTRACT.replace("sessions: 3", "sessions: 2"), *options)[2])
    assert found["A3"][0] == "pass"
    assert re.match("invalid: .*0 result files, where 1 was written", found["A1"][1]), found["A1"]
