"""A node whose client of a real distributed filesystem is slow: it is named, and no other is."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from filesystems.centre import Centre
from filesystems.gluster import Gluster
from filesystems.slurm import NODES, Slurm
from filesystems.test_slurm_suite import left

from iowatch.past.history import read

SUITE = {"SlowNode": {"local_size": [64], "nodes": [4]}}
SLOW = "regression (slow_node)"
NIGHTS = 7
RUNS_S, STOPS_S = 0.01, 0.06  # of the client

#: Four minutes; tests/iowatch/test_slow_nodes.py has what the nights tell.
pytestmark = pytest.mark.slow


@contextmanager
def slow_client(slurm: Slurm, node: str) -> Iterator[None]:
    """The node's own client of GlusterFS stands still most of the time."""
    (pid,) = slurm.clients(node, "glusterfs")
    is_over = threading.Event()

    def halt() -> None:
        while not is_over.wait(RUNS_S):
            os.kill(pid, signal.SIGSTOP)
            is_over.wait(STOPS_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=halt)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_slow_node_is_named(centre: Centre, gluster: Gluster) -> None:
    """Within seven nights, with an interval below its peers, in the headline of its night."""
    centre.add("pfs", SUITE, on=gluster.path.name, type="fuse", cached_reads=False)
    centre.partitions[-1]["time_limit"] = "10m"
    centre.references = "SlowNode:\n  cluster:.*: {total_max: [1, -0.9999, null, MiB/s]}\n"
    outcomes = []
    with slow_client(centre.slurm, "node3"):
        while len(outcomes) < NIGHTS and SLOW not in outcomes:
            done = centre.run(centre.nightly())
            print(done.out, done.err)
            runs = read([centre.folder / "run/results.db"])
            *_, last = (run for run in runs if run.case.check.by_node)
            print(last.sentence, last.by_node)
            outcomes.append(str(last.outcome))
    assert outcomes[-1] == SLOW, outcomes
    assert len(outcomes) > 1, "one night is not enough"
    assert last.sentence.startswith("node node3 at 0."), last.sentence
    assert last.sentence.count("node node") == 1, last.sentence
    assert done.code == 1
    assert "node node3 of pfs: at 0." in done.out
    kinds = {f"{how} {what}" for how in ("together", "alone") for what in ("write", "read")}
    assert {*last.by_node["ratios"]} == kinds
    assert all(len(ratios) == 4 for ratios in last.by_node["ratios"].values())
    assert last.by_node["switches"] == dict(zip(NODES, ["leaf1"] * 2 + ["leaf2"] * 2, strict=True))
    assert left(centre, gluster.path / "iowatch") == []
