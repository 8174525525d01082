"""One cluster for all tests of this folder, for no longer than they need it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from filesystems.bench import Bench, ReadResult
from filesystems.centre import Centre
from filesystems.ceph import Ceph
from filesystems.gluster import Gluster
from filesystems.gridengine import GridEngine
from filesystems.machine import Machine, Unavailable
from filesystems.slurm import FILESYSTEMS, Slurm

HERE = Path(__file__).parent
#: What the tests of a fixture start takes time and memory: they come in this order.
SERVICES = ("grid_engine", "slurm", "gluster", "ceph")
#: Ends the cluster.
CLUSTER = ExitStack()
#: What directories are told apart by.
DIRECTORIES = count()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each service starts with the first test that needs it: those that need less come before."""
    items.sort(
        key=lambda item: (
            [name in getattr(item, "fixturenames", ()) for name in reversed(SERVICES)]
            if HERE in item.path.parents
            else []
        )
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The cluster ends with the last test of this folder: other tests need the processors."""
    if nextitem is None or HERE not in nextitem.path.parents:
        CLUSTER.close()


@pytest.fixture(scope="module")
def grid_engine() -> Iterator[GridEngine]:
    """Up and idle, on a machine of its own, until the tests of a file have ended."""
    with tempfile.TemporaryDirectory(prefix="iowatch-grid.") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            machine = Machine(folder)
            stack.callback(machine.stop)
            grid = GridEngine(machine)
        except Unavailable as err:
            pytest.skip(str(err))
        yield grid


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """Up and idle; whatever becomes of the tests, nothing of it is left."""
    # Not tmp_path: sockets' names must be short, and munged insists on a folder open to all.
    folder = Path(tempfile.mkdtemp(prefix="iowatch-cluster."))
    CLUSTER.callback(shutil.rmtree, folder)
    folder.chmod(0o755)
    try:
        machine = Machine(folder)
        CLUSTER.callback(machine.stop)
        yield Slurm(machine)
    except Unavailable as err:
        pytest.skip(str(err))
    finally:
        CLUSTER.close()


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
def centre(slurm: Slurm, benchio: Path, tmp_path: Path) -> Iterator[Centre]:
    yield Centre(slurm, benchio, tmp_path)
    for name in FILESYSTEMS:
        slurm.sh("rm", "-rf", slurm.folder / name / "iowatch")


@pytest.fixture
def on(slurm: Slurm, benchio: Path, read_result: ReadResult) -> Iterator[Callable[[str], Bench]]:
    """on("fs2"): a new directory of this filesystem, which is removed after the test. Clients of
    GlusterFS remember a name that had gone: no two tests have the same one."""
    made = []

    def bench(filesystem: str) -> Bench:
        directory = slurm.folder / filesystem / f"benchio-{next(DIRECTORIES)}"
        slurm.sh("mkdir", "-p", directory)
        made.append(directory)
        return Bench(slurm, benchio, directory, read_result)

    yield bench
    for directory in made:
        slurm.sh("rm", "-r", directory)
    (slurm.folder / "result.json").unlink(missing_ok=True)
