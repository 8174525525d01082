"""What Slurm does to the jobs of a night: nothing that was measured is lost, and its own word is
the reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import finish
from filesystems.centre import Centre
from filesystems.test_slurm_suite import WRITE, left

pytestmark = pytest.mark.slow

GREEN = "green: 3 cases measured, 0 with a red verdict, 0 problems"
#: Two schedulers of ReFrame's ask the same Slurm.
BACKENDS = ("slurm", "squeue")


@pytest.fixture
def directory(centre: Centre) -> Path:
    """Where two cases write, of which the second waits until it may go on."""
    centre.hold()
    made = centre.add("fs2", WRITE, amber_nights=99)
    centre.partitions[-1]["time_limit"] = "10m"
    return made


def go_on(centre: Centre) -> None:
    (centre.folder / "go").touch()


def require_rest(centre: Centre, directory: Path, count: int) -> None:
    """What is left of a night is measured by --resume, which takes back what was said; no job of
    it is left, and no file."""
    assert centre.slurm.sh("squeue", "-h") == ""
    go_on(centre)
    done = centre.run([*centre.nightly(), "--resume"])
    assert done.code == 0, done.out + done.err
    assert f": goes on with {count} case" in done.out
    assert f"green: {count} case" in done.out
    assert "problem: " not in done.out
    assert left(centre, directory) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_running_job_is_requeued(centre: Centre, directory: Path, backend: str) -> None:
    """It runs again some minutes later, and the night waits for it."""
    centre.partitions[-1]["scheduler"] = backend
    night, job = centre.in_mid_night()
    centre.slurm.sh("scontrol", "requeue", job)
    go_on(centre)
    done = finish(night, 400)
    assert done.code == 0, done.out + done.err
    assert GREEN in done.out
    assert left(centre, directory) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("suspend", "job {} was SUSPENDED"),
        ("requeuehold", "job {} was PENDING: job_requeued_in_held_state"),
    ],
)
def test_running_job_is_kept_from_its_end(
    centre: Centre, directory: Path, backend: str, command: str, words: str
) -> None:
    centre.partitions[-1]["scheduler"] = backend
    night, job = centre.in_mid_night("--time-limit", "60s")
    centre.slurm.sh("scontrol", command, job)
    done = finish(night, 300)
    assert done.code == 4, done.out + done.err
    assert f"the session was ended: {words.format(job)}" in done.out, done.out
    assert "amber: 1 case measured, 2 not measured, 0 with a red verdict, 0 prob" in done.out
    require_rest(centre, directory, 2)


@contextmanager
def urgent(centre: Centre) -> Iterator[None]:
    """A job of a partition that comes before ours has all nodes, and ends ours."""
    name = "PartitionName=urgent"
    centre.slurm.sh("scontrol", "create", name, "Nodes=ALL", "PriorityTier=9", "State=UP")
    job = centre.slurm.submit("sleep 2", "--nodes=4", "--job-name=busy", "--partition=urgent")
    try:
        yield
    finally:
        centre.slurm.wait(job)
        centre.slurm.sh("scontrol", "delete", name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_running_job_is_preempted(centre: Centre, directory: Path, backend: str) -> None:
    """ReFrame itself would wait for it for ever."""
    centre.partitions[-1]["scheduler"] = backend
    night, job = centre.in_mid_night()
    with urgent(centre):
        done = finish(night, 300)
    assert done.code == 4, done.out + done.err
    assert f"the scheduler ended its job {job} as PREEMPTED" in done.out
    assert "amber: 2 cases measured, 1 not measured, 0 with a red verdict, 0 prob" in done.out
    require_rest(centre, directory, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_controller_is_away_all_night(centre: Centre, directory: Path, backend: str) -> None:
    """A job that begins a step then cannot, and a job that waits for its turn has none."""
    centre.partitions[-1]["scheduler"] = backend
    night, job = centre.in_mid_night("--time-limit", "60s")
    with centre.slurm.without_control():
        go_on(centre)
        done = finish(night, 300)
    assert done.code == 4, done.out + done.err
    assert "Unable to contact slurm controller" in done.out, done.out
    assert "amber: 1 case measured, 2 not measured, 0 with a red verdict, 0 prob" in done.out
    centre.slurm.wait(job)
    require_rest(centre, directory, 2)
