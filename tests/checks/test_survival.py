"""That a client or a server may die, and what was kept before is still there: with real runs."""

import os
import re

import pytest

CONTRACT = """
system: small
title: Nothing is lost
rules:
  begins: 2020-01-01
  sessions: 1
  hours_apart: 0
  reruns: none
  least_nodes: 1
  times_memory: 0
  machine: shared
  may_exclude: []
filesystems:
  memory: {path: /dev/shm, type: tmpfs}
criteria:
  - {name: A1, kind: survival, filesystem: memory, at_least: 1}
"""
#: A node with writers dies in the midst of a write whose files are to be kept.
KILLED = """\
#!/bin/sh
case "$*" in
*write-keep*) exec timeout -s KILL 3 {benchio} "$@" --repeats 50 --settle 1 ;;
esac
exec {benchio} "$@"
"""
SERVER = ("--death", "memory:server")
PASS = "pass: A1: 1 death, at least 1 death committed"


class Sessions:
    """Acceptance sessions of a site that keep files, each reading those of the one before."""

    def __init__(self, site):
        self.site = site
        site.sweep.clear()
        site.sweep["ReadBack"] = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
        (site.folder / "contract.yaml").write_text(CONTRACT)

    def measure(self, code, *options):
        """One that ends with this exit code."""
        done = self.site.iowatch("--sweep", "acceptance", "--quiet", *options)
        assert done.returncode == code, done.stdout

    def verdict(self):
        """What is said of the only criterion."""
        done = self.site._run("iowatch", "accept", "contract.yaml", "--output", "dossier.html")
        return re.search("^.*: A1: .*$", done.stdout, re.M)[0]

    def kept(self, round_):
        """The file of a round that the last session has kept."""
        folder = self.site.scratch / f"kept.{os.getuid()}"
        return max(folder.glob(f"*/*/*/mpiio.round{round_}.dat"))


@pytest.fixture
def sessions(site):
    return Sessions(site)


def test_a_byte_that_is_lost_in_a_death_fails_the_criterion(sessions):
    """Of a server that comes back without what it had; what was read before that stays counted."""
    sessions.measure(0)
    assert sessions.verdict() == (
        "not conclusive: A1: 0 deaths, at least 1 death committed; 0 of 1 death were seen and "
        "survived"
    )
    sessions.measure(0, *SERVER)
    assert "; no session has read since what was kept before " in sessions.verdict()
    sessions.measure(0, *SERVER)
    assert sessions.verdict() == PASS
    page = (sessions.site.folder / "dossier.html").read_text()
    assert page.count("every byte is as it was written") == 2
    file = sessions.kept(3)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    sessions.measure(1)
    said = sessions.verdict()
    assert said.startswith("fail: A1: 1 death, at least 1 death committed; small:memory/")
    assert re.search(rf" of session \S+: .* {file}: 1 of \d+ elements differ from what", said)


@pytest.mark.slow
def test_a_client_that_dies_as_it_writes_costs_nothing(sessions, site):
    real, killed = site.benchio, site.folder / "killed"
    killed.write_text(KILLED.format(benchio=real))
    killed.chmod(0o755)
    assert (
        "there are memory:client, memory:server"
        in site.iowatch("--sweep", "acceptance", "--death", "memory:node").stdout
    )
    sessions.measure(0)
    site.benchio = killed
    sessions.measure(1, "--death", "memory:client")
    assert "; no session has read since what was kept before " in sessions.verdict()
    site.benchio = real
    sessions.measure(0)
    assert sessions.verdict() == PASS
