"""Nights under Slurm of which not all is known: what it says of its queue and its nodes."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from conftest import Run, finish
from filesystems.ceph import Ceph
from filesystems.machine import wait_until
from filesystems.slurm import NODES
from filesystems.suite import Suite
from filesystems.test_slurm_suite import READ, WRITE, left

ONE_NODE = {"SharedFileWrite": {"backend": ["mpiio"], "local_size": [8], "nodes": [1]}}
MANY = {**WRITE, **READ}
CASE = "cluster:fs2/gnu/SharedFileWrite/backend=mpiio/local_size=8x8x8/writers=2"

#: Their limits are seconds of a clock, which other tests beside them can use up: what they show of
#: Slurm is shown with a stand-in in tests/checks/test_not_measured.py on every commit.
pytestmark = pytest.mark.slow


@contextmanager
def busy(suite: Suite) -> Iterator[None]:
    """All nodes have something else to do."""
    job = suite.slurm.submit("sleep 600", f"--nodes={len(NODES)}")
    try:
        yield
    finally:
        suite.slurm.sh("scancel", job)
        suite.slurm.wait(job)


@contextmanager
def reserved(suite: Suite, nodes: str) -> Iterator[None]:
    """These nodes are in maintenance."""
    suite.slurm.sh(
        "scontrol", "create", "reservation", "ReservationName=upkeep", "StartTime=now",
        "Duration=60", "Flags=MAINT,IGNORE_JOBS", "Users=root", f"Nodes={nodes}",
    )  # fmt: skip
    try:
        yield
    finally:
        suite.slurm.sh("scontrol", "delete", "ReservationName=upkeep")


def test_what_is_queued_at_the_limit_is_not_measured(suite: Suite) -> None:
    """One job waits for nodes, the other for its turn; nothing of them stays in the queue."""
    suite.add("fs2", ONE_NODE)
    with busy(suite):
        done = suite.run([*suite.nightly(), "--time-limit", "20s"])
        left = suite.slurm.sh("squeue", "-h", "--name=iowatch_fs2")
    assert done.code == 4, done.out + done.err
    assert left == ""
    assert done.out.endswith(
        "\namber: 0 cases measured, 2 not measured, 0 with a red verdict, 0 problems with the "
        "night\n"
    )
    waits = r"job \d+ had no nodes yet \((?:Resources|Priority)\)\n"
    for said in (
        "its job was still queued when the session was ended: ",
        "its turn had not come when the session was ended: before it, ",
    ):
        assert len(re.findall(said + waits, done.out)) == 1, done.out

    # It is on record, and the next night goes on.
    page = suite.run(suite.iowatch("report", "--system", "cluster", "--format", "md"))
    assert "Amber: 2 cases, 2 not measured" in page.out, page.out + page.err
    done = suite.run(suite.nightly())
    assert done.code == 0, done.out + done.err


def test_job_that_hangs_before_benchio_is_no_job_that_waits(suite: Suite) -> None:
    suite.prepare = ["case $PWD in *SharedFileWrite*) sleep 600 ;; esac"]
    suite.add("fs2", ONE_NODE)
    done = suite.run([*suite.nightly(), "--time-limit", "25s"])
    assert done.code == 1, done.out + done.err
    assert f"problem: 1 of 2 cases were not run: {CASE}\n" in done.out
    assert "problem: the time limit was reached\n" in done.out


def test_nodes_that_are_reserved_for_maintenance(suite: Suite) -> None:
    """All of the partition's, or else the job finds another one."""
    suite.add("fs2", ONE_NODE)
    with reserved(suite, "ALL"):
        done = suite.run(suite.nightly())
    assert done.code == 4, done.out + done.err
    said = r"all nodes of compute are reserved for maintenance until .* UTC \(reservation upkeep\)"
    assert len(re.findall(rf"{CASE}: {said}\n", done.out)) == 1, done.out
    with reserved(suite, ",".join(NODES[:3])):
        done = suite.run(suite.nightly())
    assert done.code == 0, done.out + done.err


def test_quota_of_a_directory(suite: Suite, ceph: Ceph) -> None:
    """A real CephFS: nothing is written where the quota has no room for it."""
    directory = suite.add("ceph", ONE_NODE, on=ceph.path.name, type="fuse", cached_reads=False)
    suite.slurm.sh("mkdir", "-m", "1777", directory)

    def night(quota: int) -> Run:
        suite.slurm.sh("setfattr", "-n", "ceph.quota.max_bytes", "-v", quota, directory)
        return suite.run(suite.nightly())

    done = night(4096)
    assert done.code == 4, done.out + done.err
    said = rf"no quota is left: \d+ KiB will be written, and that of {directory} has room for 4 KiB"
    assert re.search(said, done.out), done.out
    done = night(2**24)
    assert done.code == 0, done.out + done.err
    suite.slurm.sh("rm", "-r", directory)


def add_allocation(suite: Suite, time: str) -> Path:
    """fs2, all of whose cases share one allocation of this time."""
    directory = suite.add("fs2", MANY, allocation=time)
    suite.partitions[-1].update(scheduler="local", launcher="srun")
    return directory


def test_one_allocation_for_all_cases(suite: Suite) -> None:
    """Each case has its own limit and verdict; what no time is left for is not measured."""
    directory = add_allocation(suite, "10:00")
    begin = datetime.now().astimezone()
    done = suite.run(suite.nightly())
    assert done.code == 0, done.out + done.err
    assert "green: 4 cases measured, 0 with a red verdict, 0 problems" in done.out
    assert len(suite.slurm.accounting("iowatch_fs2", begin, 1)) == 1
    assert suite.slurm.sh("squeue", "-h") == ""
    assert left(suite, directory) == []

    # Between two cases of 25 s less than a minute remains, which one may take.
    suite.prepare.append("case $PWD in *SharedFile*) sleep 25 ;; esac")
    suite.partitions[-1]["extras"]["allocation"] = "1:20"
    done = suite.run(suite.nightly(), timeout=200)
    assert done.code == 4, done.out + done.err
    said = (
        r"the allocation of its filesystem, job \d+, had (0:\d\d|\d:\d\d) left at its turn, and it "
    )
    assert re.search(rf"{said}may take 1 minute\n", done.out), done.out
    assert re.search(r"\namber: [123] cases? measured, [123] not measured, 0 with a red", done.out)


def test_allocation_that_is_queued_at_the_limit(suite: Suite) -> None:
    add_allocation(suite, "10:00")
    with busy(suite):
        done = suite.run([*suite.nightly(), "--time-limit", "20s"])
        queued = suite.slurm.sh("squeue", "-h", "--name=iowatch_fs2")
    assert done.code == 4, done.out + done.err
    assert queued == ""
    waits = r"the allocation, job \d+, had no nodes yet \((?:Resources|Priority)\)\n"
    for said, count in (
        ("its job was still queued when the session was ended: ", 1),
        ("its turn had not come when the session was ended: before it, ", 3),
    ):
        assert len(re.findall(said + waits, done.out)) == count, done.out


def test_night_whose_login_node_went_down_is_resumed(suite: Suite) -> None:
    """iowatch and ReFrame are killed with one case measured, one that runs, and the rest to come:
    no case has two jobs."""
    suite.prepare = ["case $PWD in *SharedFile*) sleep 15 ;; esac"]
    directory = suite.add("fs2", MANY)
    begin = datetime.now().astimezone()
    night = suite.start(suite.nightly())
    runs = suite.folder / "run" / "runs"

    def has_second() -> bool:
        begun = len(list(runs.glob("*/*SharedFile*/job.json"))) == 2
        running = begun and suite.slurm.sh("squeue", "-h", "-t", "R", "--name=iowatch_fs2")
        return night.poll() is not None or bool(running)

    wait_until(has_second, "the second job", 100)
    for pid, words in suite.slurm.machine.processes().items():
        if "iowatch nightly" in words or "reframe -c" in words:
            os.kill(pid, signal.SIGKILL)
    finish(night)
    assert suite.slurm.sh("squeue", "-h", "--name=iowatch_fs2"), "its job goes on"

    done = suite.run([*suite.nightly(), "--resume"])
    assert done.code == 0, done.out + done.err
    (name,) = (folder.name for folder in runs.iterdir())
    assert done.out.startswith(f"Night {name} of cluster: goes on with 4 cases (4 on fs2).\n")
    assert "green: 4 cases measured, 0 with a red verdict, 0 problems" in done.out
    assert len(suite.slurm.accounting("iowatch_fs2", begin, 3)) == 3
    assert left(suite, directory) == []
    again = suite.run([*suite.nightly(), "--resume"])
    said = f"--resume: the last night, {name}, is on record: nothing of it was lost\n"
    assert (again.code, again.err) == (2, f"iowatch: error: {said}")
