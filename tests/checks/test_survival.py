"""That a server may die, and what was kept before is still there: with real runs."""

import json
import re

from agreed import contract

from iowatch.evidence.accept import judge
from iowatch.evidence.bundle import unpack

CONTRACT = contract("kind: survival, at_least: 1", sessions=1)


def start_of(file):
    return json.loads(file.read_text())["session_info"]["time_start_unix"]


def verdict_on(folder):
    """What is said of the only criterion, by the evidence in a folder."""
    return next(line for line in judge(folder).lines if ": A1: " in line)


def test_files_that_are_lost_in_a_death_fail_the_criterion(site, tmp_path):
    """Of a server that comes back; and as if it came back without what it had."""
    site.suite.clear()
    site.suite["ReadBack"] = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
    (site.folder / "contract.yaml").write_text(CONTRACT)
    for death in (["--death", "memory:server"], []):
        done = site.iowatch("--suite", "acceptance", "--quiet", *death)
        assert done.returncode == 0, done.stdout
    judging = ("accept", "judge", "contract.yaml", "--output", "dossier.html")
    said = site._run("iowatch", *judging).stdout
    passed = "pass: A1: 1 death, at least 1 death committed"
    assert re.search("^.*: A1: .*$", said, re.M)[0] == passed, said
    page = (site.folder / "dossier.html").read_text()
    assert page.count("every byte is as it was written") == 1

    folder = tmp_path / "evidence"
    folder.mkdir()
    unpack(site.folder / "evidence.tar", folder)
    last = max(folder.glob("runs/*/*ReadBack*"))
    (last / "result.json").unlink()
    (last / "read_code").write_text("4\n")
    said = "fail: A1: 0 deaths, at least 1 death committed; small:memory/"
    assert verdict_on(folder).startswith(said)
    max(folder.glob("sessions/*.json"), key=start_of).unlink()
    assert "; no session has read since what was kept before " in verdict_on(folder)
