"""One cluster for all tests of this folder."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filesystems.bench import Bench, ReadResult
from filesystems.ceph import Ceph
from filesystems.gluster import Gluster
from filesystems.machine import Machine, Unavailable
from filesystems.slurm import FILESYSTEMS, Slurm
from filesystems.suite import Suite


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """Up and idle; whatever becomes of the tests, nothing of it is left."""
    # Not tmp_path: sockets' names must be short, and munged insists on a folder open to all.
    folder = Path(tempfile.mkdtemp(prefix="iowatch-cluster."))
    folder.chmod(0o755)
    machine = None
    try:
        machine = Machine(folder)
        yield Slurm(machine)
    except Unavailable as err:
        pytest.skip(str(err))
    finally:
        if machine:
            machine.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def gluster(slurm: Slurm) -> Gluster:
    try:
        return Gluster(slurm)
    except Unavailable as err:
        pytest.skip(str(err))


@pytest.fixture(scope="session")
def ceph(slurm: Slurm) -> Ceph:
    try:
        return Ceph(slurm)
    except Unavailable as err:
        pytest.skip(str(err))


@pytest.fixture
def suite(slurm: Slurm, benchio: Path, tmp_path: Path) -> Iterator[Suite]:
    yield Suite(slurm, benchio, tmp_path)
    for name in FILESYSTEMS:
        slurm.sh("rm", "-rf", slurm.folder / name / "iowatch")


@pytest.fixture
def on(slurm: Slurm, benchio: Path, read_result: ReadResult) -> Iterator[Callable[[str], Bench]]:
    """on("fs2"): a new directory of this filesystem, which is removed after the test."""
    made = []

    def bench(filesystem: str) -> Bench:
        directory = slurm.folder / filesystem / "benchio"
        slurm.sh("mkdir", "-p", directory)
        made.append(directory)
        return Bench(slurm, benchio, directory, read_result)

    yield bench
    for directory in made:
        slurm.sh("rm", "-r", directory)
    (slurm.folder / "result.json").unlink(missing_ok=True)
