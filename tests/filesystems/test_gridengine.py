"""Nights under a real Grid Engine: no measured case is lost, and its own word is the reason."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import finish
from filesystems.centre import Centre
from filesystems.gridengine import GridEngine
from filesystems.machine import wait_until

TWO = {"SharedFileWrite": {"backend": ["mpiio", "hdf5"], "local_size": [8], "nodes": [1]}}
GREEN = "green: 3 cases measured, 0 with a red verdict, 0 problems"


@pytest.fixture
def grid(grid_engine: GridEngine, benchio: Path, tmp_path: Path) -> Iterator[Centre]:
    """The system `cluster` with one filesystem; its queue is empty before and after."""
    made = Centre(grid_engine, benchio, tmp_path)  # type: ignore[arg-type]
    directory = made.add("fs2", TWO)
    made.partitions[-1] |= {
        "scheduler": "sge",
        "launcher": "mpirun",
        "time_limit": "5m",
        "access": ["-q all.q", "-pe mpi 2"],
        "env_vars": [
            [*pair] for pair in grid_engine.variables.items()
        ],  # a job has nothing of the login node's
    }
    yield made
    if jobs := grid_engine.jobs():
        grid_engine.sh("qdel", *jobs)
        wait_until(lambda: not grid_engine.jobs(), "an empty queue")
    grid_engine.sh("rm", "-rf", directory)


def test_night(grid: Centre) -> None:
    """Though a warning comes before the number of each job."""
    grid.partitions[-1]["access"] += ["-w w", "-l arch=lx-amd64"]
    done = grid.run(grid.nightly())
    assert done.code == 0, done.out + done.err
    assert GREEN in done.out


@pytest.mark.slow
def test_master_is_away_for_ten_seconds(grid: Centre, grid_engine: GridEngine) -> None:
    go = grid.hold()
    night, _ = grid.in_mid_night()
    with grid_engine.without_master():
        time.sleep(10)
    go.touch()
    done = finish(night, 200)
    assert done.code == 0, done.out + done.err
    assert GREEN in done.out
    assert grid_engine.jobs() == []


def test_what_was_granted_is_not_what_the_case_needs(grid: Centre) -> None:
    grid.partitions[-1]["access"] = ["-q all.q"]
    done = grid.run(grid.nightly())
    assert done.code == 1, done.out + done.err
    said = "Grid Engine granted its job 1 of 2 slots: name a parallel environment in 'access'"
    assert done.out.count(said) == 2, done.out
    assert done.out.count("failed (configuration): ") == 2, done.out


@pytest.mark.slow
def test_queued_jobs_that_somebody_deletes(grid: Centre, grid_engine: GridEngine) -> None:
    grid.partitions[-1]["access"] += ["-h"]
    grid.partitions[-1]["max_jobs"] = 3
    night = grid.start(grid.nightly())
    wait_until(lambda: night.poll() is not None or len(grid_engine.jobs()) == 3, "3 jobs", 200)
    grid_engine.sh("qdel", *grid_engine.jobs())
    done = finish(night, 200)
    assert done.code == 4, done.out + done.err
    assert done.out.count("was deleted in the queue, and has never run") >= 1
    assert "amber: 0 cases measured, 3 not measured, 0 with a red verdict" in done.out


@pytest.mark.slow
def test_running_job_that_somebody_deletes(grid: Centre) -> None:
    go = grid.hold()
    night, job = grid.in_mid_night()
    grid.slurm.sh("qdel", job)
    go.touch()
    done = finish(night, 200)
    said = "job {job} was deleted, or killed by its node: assumedly after job, exit status 137"
    assert done.code == 4, done.out + done.err
    assert said.format(job=job) in done.out
    assert "amber: 2 cases measured, 1 not measured, 0 with a red verdict" in done.out


@pytest.mark.slow
def test_job_over_its_limit(grid: Centre) -> None:
    grid.hold()
    grid.partitions[-1]["time_limit"] = "40s"
    done = grid.run(grid.nightly())
    assert done.code == 1, done.out + done.err
    assert "its job was ended at its time limit of 0:00:40" in done.out
    assert "failed (time_limit)" in done.out


@pytest.mark.slow
def test_job_in_error(grid: Centre) -> None:
    """As where its folder is not seen on a node: nobody waits for it until morning."""
    grid.partitions[-1]["access"] += ["-wd /nonexistent"]
    grid.partitions[-1]["max_jobs"] = 3
    done = grid.run(grid.nightly())
    assert done.code == 4, done.out + done.err
    assert "is in the state ERROR (can't chdir to /nonexistent: No such file or" in done.out
    assert grid.slurm.jobs() == []  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("--time-limit=60s", "had no nodes yet ("),
        ("-- -S max_pending_time=15s", "its job was still queued after 0:00:15: "),
    ],
)
def test_queue_is_disabled_all_night(
    grid: Centre, grid_engine: GridEngine, limit: str, why: str
) -> None:
    grid.partitions[-1]["extras"]["amber_nights"] = 99
    grid_engine.sh("qmod", "-d", "all.q")
    try:
        done = grid.run([*grid.nightly(), *limit.split()])
    finally:
        grid_engine.sh("qmod", "-e", "all.q")
    assert done.code == 4, done.out + done.err
    assert why in done.out
    assert 'queue instance "all.q@login" dropped because it is' in done.out
    assert "amber: 0 cases measured, 3 not measured, 0 with a red verdict, 0 problems" in done.out
    assert grid_engine.jobs() == []


@pytest.mark.parametrize("is_up", [True, False])
def test_no_site_is_drafted_for_its_login_node(
    grid: Centre, grid_engine: GridEngine, is_up: bool
) -> None:
    """Though its master is away."""
    new = grid.iowatch("site", "new", "here", "--path", grid.folder)
    with nullcontext() if is_up else grid_engine.without_master():
        done = grid.run(new)
    assert done.code == 2, done.out + done.err
    assert "qconf is of a scheduler that site new does not know, Grid Engine" in done.err


@pytest.mark.slow
def test_master_is_away_all_night(grid: Centre, grid_engine: GridEngine) -> None:
    """What was measured counts, and what had no turn is amber, for one cause."""
    grid.hold()
    night, _ = grid.in_mid_night("--time-limit", "150s")
    with grid_engine.without_master():
        done = finish(night, 300)
    assert done.code == 4, done.out + done.err
    assert "the scheduler does not answer: " in done.out
    assert "amber: 1 case measured, 2 not measured, 0 with a red verdict" in done.out
