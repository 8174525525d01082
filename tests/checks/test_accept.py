"""Acceptance as two parties have it: one measures, and the other has a bundle and iowatch alone."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from agreed import contract, key_pair, remade, taken_apart
from checks.replay import rewrite, sessions
from checks.stand_ins import GROMACS, gromacs, ior, mdtest
from conftest import ROOT
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.evidence import accept

CONTRACT = contract(
    "name: A1 bandwidth, kind: bandwidth, at_least: 0.001",
    "name: A2 too much, kind: peak, at_least: 2",
    "name: A3 HDF5, kind: ratio, backend: hdf5, at_least: 1.0e-6",
    "name: A4 nodes, kind: scaling, from_nodes: 1, to_nodes: 2, at_least: 0.5",
    "name: A5 elsewhere, kind: bandwidth, filesystem: fs9, at_least: 0.5",
    title="Acceptance of <small> & others",
    sessions=3,
    reruns="failed",
    may_exclude="[centre, supplier]",
    filesystems={
        "memory": "path: /dev/shm, type: tmpfs, peak: 1000000, peak_from: a data sheet",
        "fs9": "path: /fs9, type: lustre",
    },
)
ONLY_A1 = "\n".join(line for line in CONTRACT.splitlines() if not re.search("A[2-5]", line)) + "\n"
PAGE = ("--output", "dossier.html")  # a PDF takes seconds more
ACCEPTANCE = ("-r", "--mode=acceptance")


@pytest.fixture(scope="module")
def site_of_sessions(module_site):
    """A site after three acceptance sessions of MPI-IO and HDF5, without reference values. What
    somebody tried out after them is none of the suite's cases. One raw result is compressed."""
    site = module_site
    site.faults = {"gnu": "none"}
    site.write["backend"] = ["mpiio", "hdf5"]
    site.references = None
    tried = ("-P", "setting=backend=mpiio/local_size=16x16x16/ranks=2", "-n", "backend=mpiio")
    for more in ((), (), (), tried):
        done = site.reframe(*ACCEPTANCE, *more)
        assert done.returncode == 0, done.stdout
    path = min(site.kept.glob("*/*backend=mpiio,*/result.json"))
    path.with_name("result.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return site


@pytest.fixture(scope="module")
def centre(site_of_sessions, tmp_path_factory):
    """What the centre has after `iowatch accept`: its site, what was printed, the page, the bundle,
    and the line of its key."""
    site = site_of_sessions
    # Evidence is what the runs left themselves, not what ReFrame has copied of it.
    for copy in (site.folder / "run").rglob("output/**/result.json"):
        copy.unlink()
    key, known = key_pair(tmp_path_factory.mktemp("centre"), "centre")
    (*_, last) = sessions(site.database)
    exclusion = f"- {{session: {last}, by: [supplier, centre], why: it was tried out}}\n"
    (site.folder / "excluded.yaml").write_text(exclusion)
    code, printed = judge(site, CONTRACT, "--sign", key, "--exclusions", "excluded.yaml")
    assert code == 1, printed
    bundle = shutil.copy(site.folder / "evidence.tar", site.folder / "signed.tar")
    page = (site.folder / "dossier.html").read_text()
    return SimpleNamespace(site=site, printed=printed, page=page, bundle=bundle, known=known)


@pytest.fixture
def evidence(centre, tmp_path):
    """evidence(): a new folder with what is in the bundle, for a test to forge."""

    def unpacked():
        folder = taken_apart(centre.bundle, tmp_path / "evidence")
        (folder / "exclusions.yaml").unlink()
        return folder

    return unpacked


def judge(site, text, *options, command="judge"):
    """The exit code of `iowatch accept judge` by this contract, and what was printed."""
    (site.folder / "contract.yaml").write_text(text)
    done = site._run("iowatch", "accept", command, "contract.yaml", *options)
    return done.returncode, done.stdout


def judged(folder):
    """Criterion -> (verdict, reason) of the evidence in a folder, and the summary."""
    result = accept.judge(folder)
    verdicts = {one.name[:2]: (f.verdict, f.reason) for one, f in result.findings.items()}
    return verdicts, "\n".join(result.lines)


#: iowatch where there is nothing but what it cannot do without: no ReFrame, and no extra.
ALONE = """
import sys
sys.modules.update(dict.fromkeys(["reframe", "matplotlib", "numpy", "weasyprint", "darshan"]))
from iowatch import cli
cli.app(["accept", *sys.argv[1:]])
"""


def accept_alone(folder, *options):
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


def verify(bundle, contract=None, signers=None):
    """Is it what its maker was told, and what is printed: in this process."""
    _, lines, is_same = accept.verify(bundle, contract, signers, [])
    return is_same, "\n".join(lines)


def rows_of(page):
    """What the rows of a page's tables say of the criteria."""
    return re.findall(r"<strong>A\d.*?</tr>", page, re.DOTALL)


def test_two_parties_come_to_the_same_verdicts_and_both_sign(centre, tmp_path):
    lines = re.findall(r"^.*: A\d.*", centre.printed, re.M)
    assert [line.partition(": ")[0] for line in lines] == [
        "pass", "fail", "pass", "not certified", "not certified",
    ]  # fmt: skip
    assert lines[3].endswith("no case has these numbers of nodes")
    assert lines[4].endswith("no filesystem 'fs9': there are memory")
    lines += re.findall(r"^the evidence is.*", centre.printed, re.M)
    assert len(lines) == 6
    assert "3 of 3 sessions count, of 4 on record" in centre.printed
    assert "excluded by centre and supplier: it was tried out" in centre.printed
    assert (centre.site.folder / "dossier.pdf").read_bytes().startswith(b"%PDF")
    for words in ("Acceptance of &lt;small&gt; &amp; others", "--mode=acceptance"):
        assert words in centre.page
    assert "mpirun" in centre.page, "the job script says what was run"

    supplier = tmp_path / "supplier"
    supplier.mkdir()
    bundle = Path(shutil.copy(centre.bundle, supplier / "evidence.tar"))
    known, agreed = supplier / "known", supplier / "contract.yaml"
    known.write_text(centre.known)
    agreed.write_text(CONTRACT)
    key, line = key_pair(supplier, "key")
    options = ("--contract", "contract.yaml", "--signers", "known", *PAGE)
    code, again = accept_alone(supplier, "verify", bundle.name, *options)
    assert code == 1, again
    assert "signed by centre, with the ED25519 key SHA256:" in again
    code, signed = accept_alone(supplier, "sign", bundle.name, str(key))
    assert (code, signed.count("signed by ")) == (0, 2), signed
    assert "differs" not in again
    assert set(lines) <= set(again.splitlines())
    rows = rows_of(centre.page)
    assert len(rows) == 5
    assert rows_of((supplier / "dossier.html").read_text()) == rows

    # Its contract is the one that was agreed, and its signers are known, or nothing is judged.
    with pytest.raises(UserError, match=r"2.ssh is by nobody whom --signers .*known lists"):
        verify(bundle, agreed, known)
    known.write_text(centre.known + line)
    assert verify(bundle, agreed, known)[0]
    agreed.write_text(CONTRACT.replace("at_least: 0.001", "at_least: 1000"))
    with pytest.raises(UserError, match=r"contract.yaml: line \d+ is .*A1 bandwidth, .* and not "):
        verify(bundle, agreed)

    # Anybody can check it without iowatch.
    taken = supplier / "taken"
    taken.mkdir()
    command = f"tar xf {bundle} && sha256sum --quiet -c seal && sha256sum --quiet -c manifest"
    subprocess.run(["bash", "-c", command], cwd=taken, check=True)
    listed = dict(re.findall(r"<code>([0-9a-f]{64})  (.*?)</code>", centre.page))
    assert len(listed) >= 3 * 2 * 3
    for digest, name in listed.items():
        assert hashlib.sha256((taken / name).read_bytes()).hexdigest() == digest


def changed_record(folder, number, backend="mpiio", **changes):
    """The session's record of a run of a backend, changed."""
    records = [(json.loads(file.read_text()), file) for file in folder.glob("sessions/*.json")]
    records.sort(key=lambda pair: pair[0]["session_info"]["time_start_unix"])
    record, file = records[number]
    for test in record["runs"][-1]["testcases"]:
        if f"backend={backend}/" in (test.get("case_id") or ""):
            test |= changes
    file.write_text(json.dumps(record))
    return record["session_info"]["uuid"]


def test_what_is_in_a_bundle_prints_no_line_of_its_own_and_other_verdicts_are_said(evidence):
    folder = evidence()
    sentence = "no\npass: A1 bandwidth: 9 MiB/s"
    changed_record(folder, 0, state="failed", reason="no_output", sentence=sentence)
    told = folder / "verdicts"
    told.write_text(told.read_text().replace("fail: A2", "pass: A2"))
    is_same, printed = verify(remade(folder))
    assert not is_same
    assert "pass: A1 bandwidth: 9 MiB/s" in printed
    assert not re.search("^pass: A1", printed, re.MULTILINE)
    assert "differs: its maker was told: pass: A2" in printed


def test_all_pass_is_exit_code_0(site_of_sessions):
    code, printed = judge(site_of_sessions, ONLY_A1, *PAGE)
    assert code == 0, printed
    assert "it was asked for 1 of the 3 cases" in printed
    assert "nobody has signed it" in printed
    code, printed = judge(site_of_sessions, ONLY_A1, command="plan")
    assert code == 0, printed
    assert "jobs: 3 sessions of 3, that is 9" in printed


def edited(file, change):
    """The JSON of a file after `change` was called with it."""
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def changed_witness(path):
    edited(path, lambda r: r["cases"][0]["repetitions"][-1]["witness"].update(bytes=8))


def doubled_rates(path):
    """With their times, or they would not be a result at all."""

    def double(result):
        for repetition in result["cases"][0]["repetitions"]:
            repetition["rates"] = {name: 2 * rate for name, rate in repetition["rates"].items()}
            for times in repetition["phases"].values():
                halves = {key: s / 2 for key, s in times.items() if isinstance(s, float)}
                times.update(halves)

    edited(path, double)


def other_nodes(path):
    """As if the site's file were changed when all had run."""

    def change(facts):
        facts["cases"] = {c: n + ("backend=mpiio/" in c) for c, n in facts["cases"].items()}

    edited(path.parents[3] / "site.json", change)


def recorded(**changes):
    return lambda path: changed_record(path.parents[3], 1, **changes)


SPOILED = [
    (changed_witness, "there is 1 repetition of mpiio of which the witness confirmed more or less"),
    (doubled_rates, r"total_max of its results is \S+, and \S+ is on record: changed, or"),
    (
        lambda path: edited(path, lambda r: r["run"].update(directory="/dev/shm/fast/iowatch.a")),
        r"its files were in /dev/shm/fast, and memory is at /dev/shm/iowatch-test\.",
    ),
    (Path.unlink, "result.json is not there, though benchio ended well"),
    (lambda path: shutil.rmtree(path.parent), "its raw results are no longer there"),
    (other_nodes, "it ran on 1 node, and on 2 by the site's file"),
    (recorded(run_id="0123456789abcdef"), "result.json is another job's"),
    (recorded(repeats=2), "it has 2 repetitions, and an acceptance test takes the 10 of"),
    (
        recorded(state="failed", reason="above_ceiling", sentence="above the ceiling"),
        "above the ceiling",
    ),
]


def test_lost_or_changed_evidence_is_not_certified(evidence):
    """Whoever forges a bundle can make its seals fit, and not what the runs have on record."""
    for spoil, reason in SPOILED:
        folder = evidence()
        spoil(sorted(folder.glob("runs/*/*backend=mpiio,*/result.json"))[1])
        verdicts, _ = judged(folder)
        verdict, why = verdicts["A1"]
        assert verdict == "not certified", reason
        assert re.search(f"^failed: .*{reason}", why), why
        assert verdicts["A3"] == ("pass", ""), "of HDF5 nothing was changed"


def test_rate_above_a_peak_that_was_corrected_is_not_certified(evidence):
    folder = evidence()
    edited(folder / "site.json", lambda facts: facts["filesystems"][0].update(peak=1e-6))
    verdict, reason = judged(folder)[0]["A1"]
    assert verdict == "not certified"
    assert reason.endswith("MiB/s is above the peak of memory")


def test_mistake_is_one_line_and_writes_nothing(centre, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(centre.bundle, "evidence.tar")
    wanted = {
        ("judge", "evidence.tar", "--output", "a.doc"): "--output a.doc: is neither .html nor .pdf",
        ("verify", "evidence.tar", "--output", "no/where.html"): "no/where.html: cannot be written",
        ("verify", "evidence.tar", "--output", "only.html", "--output", "no/x.pdf"): "no/x.pdf: ",
        ("sign", "evidence.tar", "no.key"): "no.key: no key that can sign: ",
        ("plan", "no.yaml"): "no.yaml",
    }
    for words, sentence in wanted.items():
        done = CliRunner().invoke(cli.app, ["accept", *words])
        assert done.exit_code == 2, (words, done.output)
        (line,) = done.output.splitlines()
        assert sentence in line, words
        assert [file.name for file in tmp_path.iterdir()] == ["evidence.tar"], "all or none"


def test_a_site_without_acceptance_sessions_or_a_place_for_the_bundle(site_of_sessions, tmp_path):
    nightly = shutil.copy(site_of_sessions.database, tmp_path / "nightly.db")
    for name in sessions(nightly):
        rewrite(nightly, name, lambda test: test.pop("suite", None))
    for options, sentence in (
        (("--db", nightly), "no acceptance session of small is on record: run `iowatch run"),
        (("--bundle", "no/evidence.tar"), "no/evidence.tar: cannot be written"),
    ):
        code, printed = judge(site_of_sessions, CONTRACT, "--output", "other.html", *options)
        assert (code, len(printed.splitlines())) == (2, 1), printed
        assert sentence in printed
        assert not (site_of_sessions.folder / "other.html").exists()


@pytest.mark.parametrize("references", ["[", "SharedFileWrite: {.*: {ratio: [0.9, -0.5]}}"])
def test_an_acceptance_session_does_not_ask_the_reference_values(site, references):
    """Nobody can read them, or they would be red."""
    site.faults = {"slow": "slow hdf5"}
    site.write["backend"] = ["hdf5"]
    site.references = references
    done = site.reframe(*ACCEPTANCE, "-n", "SharedFileWrite")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_what_other_programs_have_left_is_evidence_and_held_to_their_law_again(site, tmp_path):
    """Of IOR and GROMACS beside a stand-in for benchio, and of mdtest beside benchio. A criterion
    on names is about benchio's own job."""
    names = {"items": [30], "files": ["shared"], "nodes": [1]}
    ior(site, "stand-in", "1.0")
    gromacs(site, "stand-in", f'exec {GROMACS} "$@"')
    mdtest(site, "real", "")
    site.faults, site.injected = {"stand-in": "none"}, {"real": ""}
    both = {"IorPeer": site.write, "SharedFileWrite": site.write}
    site.partitions = {
        "memory": {
            "environs": ["stand-in"],
            "suite": {**both, "GromacsTrajectory": {"nodes": [1]}},
        },
        "names": {"environs": ["real"], "suite": {"MdtestPeer": names, "Metadata": names}},
    }
    site.references = None
    for _ in range(2):
        done = site.reframe(*ACCEPTANCE)
        assert done.returncode == 0, done.stdout
    text = contract(
        "kind: bandwidth, at_least: 0.001",
        "kind: ior, at_least: 0.001",
        "kind: metadata, filesystem: names, phase: create, files: shared, at_least: 1",
        filesystems=dict.fromkeys(["memory", "names"], "path: /dev/shm, type: tmpfs"),
    )
    code, printed = judge(site, text, *PAGE)
    assert code == 0, printed
    assert "MdtestPeer" not in (site.folder / "dossier.html").read_text()

    folder = taken_apart(site.folder / "evidence.tar", tmp_path / "evidence")
    (code_of_ior, *_) = sorted(folder.glob("runs/*/*IorPeer*/ior.7.code"))
    code_of_ior.write_text("1\n")
    (output, *_) = sorted(folder.glob("runs/*/*MdtestPeer*/mdtest.3.out"))
    output.write_text(output.read_text().replace("60 files", "59 files"))
    (file, *_) = sorted(folder.glob("runs/*/*Gromacs*/application.2.json"))
    edited(file, lambda data: data["files"][0].update(digest="f" * 64))
    reasons = "\n".join(accept.judge(folder).evidence.failed.values())
    for reason in (
        "IOR: its exit status is 1; see ior.7.out",
        "mdtest: tasks and files: ",
        "water.trr of round 2 has other bytes than that of round 1",
    ):
        assert reason in reasons
    verdicts, printed = judged(folder)
    assert [verdicts[name][0] for name in ("A1", "A2", "A3")] == ["pass", "not certified", "pass"]
