"""That a client or a server may die, and what was kept before is still there: with real runs."""

import json
import re

import pytest
from agreed import contract

from iowatch.acceptance.accept import judge
from iowatch.acceptance.bundle import unpack
from iowatch.acceptance.dossier import summary

CONTRACT = contract("kind: survival, at_least: 1", sessions=1)
SERVER = ("--death", "memory:server")
PASS = "pass: A1: 1 death, at least 1 death committed"


class Sessions:
    """Acceptance sessions of a site that keep files, each reading those of the one before."""

    def __init__(self, site):
        self.site = site
        site.suite.clear()
        site.suite["ReadBack"] = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
        (site.folder / "contract.yaml").write_text(CONTRACT)

    def measure(self, code, *options):
        """One that ends with this exit code."""
        done = self.site.iowatch("--suite", "acceptance", "--quiet", *options)
        assert done.returncode == code, done.stdout

    def verdict(self):
        """What is said of the only criterion."""
        done = self.site._run(
            "iowatch", "accept", "judge", "contract.yaml", "--output", "dossier.html"
        )
        return re.search("^.*: A1: .*$", done.stdout, re.M)[0]


@pytest.fixture
def sessions(site):
    return Sessions(site)


def test_files_that_are_lost_in_a_death_fail_the_criterion(sessions, tmp_path):
    """Of a server that comes back; and as if it came back without what it had."""
    sessions.measure(0)
    sessions.measure(0, *SERVER)
    sessions.measure(0)
    assert sessions.verdict() == PASS
    page = (sessions.site.folder / "dossier.html").read_text()
    assert page.count("every byte is as it was written") == 2

    folder = tmp_path / "evidence"
    folder.mkdir()
    unpack(sessions.site.folder / "evidence.tar", folder)
    last = max(folder.glob("runs/*/*ReadBack*"))
    (last / "result.json").unlink()
    (last / "read_code").write_text("4\n")
    said = "fail: A1: 0 deaths, at least 1 death committed; small:memory/"
    assert verdict_on(folder).startswith(said)
    max(folder.glob("sessions/*.json"), key=start_of).unlink()
    assert "; no session has read since what was kept before " in verdict_on(folder)


def start_of(file):
    return json.loads(file.read_text())["session_info"]["time_start_unix"]


def verdict_on(folder):
    """What is said of the only criterion, by the evidence in a folder."""
    return next(line for line in summary(judge(folder)) if ": A1: " in line)
