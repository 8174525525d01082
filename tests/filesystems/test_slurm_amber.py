"""Nights under Slurm of which not all is known: what it says of its queue and its nodes."""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from conftest import Run, finish
from filesystems.centre import Centre
from filesystems.machine import wait_until
from filesystems.slurm import NODES
from filesystems.test_slurm_suite import READ, WRITE, left

ONE_NODE = {"SharedFileWrite": {"backend": ["mpiio"], "local_size": [8], "nodes": [1]}}
MANY = {**WRITE, **READ}
CASE = "cluster:fs2/gnu/SharedFileWrite/backend=mpiio/local_size=8x8x8/ranks=2"

#: tests/checks/test_not_measured.py shows the same with a stand-in for Slurm.
pytestmark = pytest.mark.slow

#: A night's time limit is a clock's, and how long ReFrame takes to come so far is the machine's: a
#: night that came to it too late, or not at all, shows nothing, and the next has more time.
LIMITS_S = (9, 27, 81, 243)


def night_that_ends(centre: Centre, after: Callable[[], object]) -> Run:
    """A night that has long come so far when its time limit ends it."""
    for limit in LIMITS_S:
        begun = time.monotonic()
        night = centre.start([*centre.nightly(), "--time-limit", f"{limit}s"])
        try:
            wait_until(after, "a state of the night", 2 / 3 * limit)
            has_come = time.monotonic() - begun < limit
        except TimeoutError:
            has_come = False
        done = finish(night, limit + 300)
        if has_come:
            return done
    pytest.fail(f"it did not come so far in {limit} s:\n{done.out}\n{done.err}")


def queue(centre: Centre, states: str = "PENDING,RUNNING") -> list[str]:
    """Where our jobs work that are in these states."""
    said = centre.slurm.sh("squeue", "-h", f"--states={states}", "-o", "%j %Z").splitlines()
    return [line.split()[1] for line in said if not line.startswith("busy ")]


@contextmanager
def reserved(centre: Centre, nodes: str, begin: str = "now") -> Iterator[None]:
    """These nodes are in maintenance, from then on."""
    name = f"ReservationName=upkeep_of_{nodes.replace(',', '_')}"
    centre.slurm.sh(
        "scontrol", "create", "reservation", name, f"StartTime={begin}", "Duration=60",
        "Flags=MAINT,IGNORE_JOBS", "Users=root", f"Nodes={nodes}",
    )  # fmt: skip
    try:
        yield
    finally:
        centre.slurm.sh("scontrol", "delete", name)


@pytest.mark.parametrize(
    ("allocation", "waiting", "count"), [("", "job", 1), ("10:00", "the allocation, job", 3)]
)
def test_what_is_queued_at_the_limit_is_not_measured(
    centre: Centre, allocation: str, waiting: str, count: int
) -> None:
    """One job waits for nodes, others for their turn; nothing of them stays in the queue."""
    centre.add("fs2", MANY if allocation else ONE_NODE, amber_nights=99)
    if allocation:
        centre.share_allocation(allocation)
    with centre.slurm.busy():
        done = night_that_ends(centre, lambda: queue(centre, "PENDING"))
        assert queue(centre) == []
    assert done.code == 4, done.out + done.err
    assert done.out.endswith(
        f"\namber: 0 cases measured, {count + 1} not measured, 0 with a red verdict, 0 problems "
        "with the night\n"
    )
    waits = rf"{waiting} \d+,? had no nodes yet \((?:Resources|Priority)\)\n"
    for said, times in (
        ("its job had not ended when the session was ended: ", 1),
        ("its turn had not come when the session was ended: before it, ", count),
    ):
        assert len(re.findall(said + waits, done.out)) == times, done.out


def test_nodes_that_are_reserved_for_maintenance(centre: Centre) -> None:
    """All of the partition's, or else the job finds another one; from before it could end."""
    centre.add("fs2", ONE_NODE)
    said = (
        rf"{CASE}: all nodes of compute are reserved for maintenance from .* to .* UTC "
        r"\(reservation upkeep_of_ALL\)\n"
    )
    with reserved(centre, ",".join(NODES[:3])), reserved(centre, "ALL", begin="now+30minutes"):
        done = centre.run(centre.nightly())
        assert done.code == 0, done.out + done.err
        centre.partitions[-1]["time_limit"] = "35m"
        done = centre.run(centre.nightly())
    assert done.code == 4, done.out + done.err
    assert len(re.findall(said, done.out)) == 1, done.out


def test_running_job_that_somebody_cancels(centre: Centre) -> None:
    """It says nothing of the storage, and the other cases count."""
    centre.hold()
    centre.add("fs2", WRITE)
    centre.partitions[-1]["time_limit"] = "10m"
    night, job = centre.in_mid_night()
    centre.slurm.sh("scancel", job)
    done = finish(night, 300)
    assert done.code == 4, done.out + done.err
    assert f"the scheduler ended its job {job} as CANCELLED by root" in done.out
    assert "amber: 2 cases measured, 1 not measured, 0 with a red verdict" in done.out


def test_job_that_is_held_until_the_night_ends(centre: Centre) -> None:
    centre.add("fs2", ONE_NODE, amber_nights=99)
    centre.partitions[-1]["access"] = ["--hold"]
    done = night_that_ends(centre, lambda: queue(centre, "PENDING"))
    assert done.code == 4, done.out + done.err
    assert re.search(r"had no nodes yet \(JobHeldUser\)", done.out), done.out
    assert queue(centre) == []


def test_night_whose_login_node_went_down_is_resumed(centre: Centre) -> None:
    """iowatch and ReFrame are killed with one case measured, one that runs, and the rest to come:
    no case has two jobs."""
    go = centre.hold()
    directory = centre.add("fs2", MANY)
    centre.partitions[-1]["time_limit"] = "10m"
    begin = datetime.now().astimezone()
    night, _ = centre.in_mid_night()
    kill(centre, night)
    assert queue(centre, "RUNNING"), "its job goes on"

    resumed = centre.start([*centre.nightly(), "--resume"])
    wait_until(
        lambda: resumed.poll() is not None or any_waits(centre), "who waits for that job", 300
    )
    go.touch()
    done = finish(resumed, 300)
    assert done.code == 0, done.out + done.err
    (name,) = (folder.name for folder in (centre.folder / "run/runs").iterdir())
    assert done.out.startswith(f"Night {name} of cluster: goes on with 4 cases (4 on fs2).\n")
    assert "green: 4 cases measured, 0 with a red verdict, 0 problems" in done.out
    assert len(centre.slurm.accounting("iowatch_fs2", begin, 3)) == 3
    assert left(centre, directory) == []
    again = centre.run([*centre.nightly(), "--resume"])
    said = f"--resume: the last night, {name}, is on record: nothing of it was lost\n"
    assert (again.code, again.err) == (2, f"iowatch: error: {said}")


def kill(centre: Centre, night: subprocess.Popen[str]) -> None:
    """As if its login node went down."""
    for pid, words in centre.slurm.machine.processes().items():
        is_job = "rfm_job.sh" in words and "slurm_script" not in words
        if is_job or "iowatch nightly" in words or "reframe -c" in words:
            os.kill(pid, signal.SIGKILL)
    finish(night)


def any_waits(centre: Centre) -> bool:
    """Does a job script of a session that was resumed run on the login node?"""
    words = centre.slurm.machine.processes().values()
    return any("rfm_job.sh" in each and "slurm_script" not in each for each in words)


@pytest.mark.parametrize("allocation", ["", "10:00"])
def test_night_that_is_a_job_itself(centre: Centre, allocation: str) -> None:
    """As scrontab starts it: what Slurm has told that job is not for its jobs."""
    centre.add("fs2", MANY, **({"allocation": allocation} if allocation else {}))
    if allocation:
        centre.share_allocation(allocation)
    command = centre.nightly()
    inside = shlex.join(command[command.index("env") :])
    said = centre.folder / "said"
    options = (
        "--nodelist=node4", "--ntasks=3", "--ntasks-per-node=3", "--mem-per-cpu=7",
        "--job-name=busy", f"--output={said}",
    )  # fmt: skip
    job = centre.slurm.submit(f"env | grep ^SLURM; {inside}; echo ended with $?", *options)
    centre.slurm.wait(job, 300)
    print(said.read_text())
    assert said.read_text().endswith("ended with 0\n"), said.read_text()
