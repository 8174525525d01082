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
CLIENT = ("--death", "memory:client")


@pytest.mark.slow
def test_what_was_kept_survives_a_death_or_is_missed(site):
    site.sweep.clear()
    site.sweep["ReadBack"] = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
    (site.folder / "contract.yaml").write_text(CONTRACT)
    real, killed = site.benchio, site.folder / "killed"
    killed.write_text(KILLED.format(benchio=real))
    killed.chmod(0o755)

    def measure(code, *options, program=real):
        site.benchio = program
        done = site.iowatch("--sweep", "acceptance", "--quiet", *options)
        assert done.returncode == code, done.stdout

    def verdict():
        done = site._run("iowatch", "accept", "contract.yaml", "--output", "dossier.html")
        return re.search("^.*: A1: .*$", done.stdout, re.M)[0]

    assert (
        "there are memory:client, memory:server"
        in site.iowatch("--sweep", "acceptance", "--death", "memory:node").stdout
    )
    measure(0)
    assert verdict() == (
        "not conclusive: A1: 0 deaths, at least 1 death committed; 0 of 1 death were seen and "
        "survived"
    )
    measure(1, *CLIENT, program=killed)
    assert "; no session has read since what was kept before " in verdict()
    measure(0)
    assert verdict() == "pass: A1: 1 death, at least 1 death committed"

    # A server comes back without what it had: a file, then all of the last session's.
    kept = site.scratch / f"kept.{os.getuid()}"
    measure(0, "--death", "memory:server")
    file = max(kept.glob("*/*/*/mpiio.round3.dat"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    measure(1)
    assert re.search(r"^fail: A1: .*: 1 of \d+ elements differ|^fail: A1: .*elements", verdict())
