"""Filesystems with faults, and runs that meet them.

Every fault meets every backend, and on both MPI-IO components those that go through it: they
report different things.
"""

import ctypes
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import FILES, OPEN_MPI, THROUGH_MPIIO, Run, injected
from faults.attempts import BYTES, RANKS, STATUS, Attempt, few_mib, no_rate

CLONE_NEWNS = 0x20000


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """Moves this process to a mount namespace of its own: whatever happens to it, nobody else sees
    its mounts, and none outlives it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"mounting needs root: unshare: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def tmpfs(own_mounts: None, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """tmpfs("size=4m"): a directory of its own filesystem, mounted with these options."""
    directory = tmp_path / "mounted"

    def mount(options: str) -> Path:
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
        return directory

    yield mount
    if directory.is_mount():
        subprocess.run(["umount", "--lazy", directory], check=True)


class Failure:
    """A run that had to fail, checked for what every failed run must show."""

    def __init__(self, done: Run, result: dict[str, Any], directory: Path) -> None:
        self.code, self.directory = done.code, directory
        assert done.code in STATUS, f"exit code {done.code}\n{done.out}\n{done.err}"
        assert len(done.errors) == 1, done.err
        found = re.fullmatch(r"rank (\d+): (\w+): (/[^:]*): (.+)", done.errors[0])
        assert found, done.errors[0]
        self.rank, self.call, self.path = int(found[1]), found[2], Path(found[3])
        self.message = found[4]
        assert 0 <= self.rank < RANKS
        assert self.path.is_relative_to(directory)
        assert no_rate(done)

        assert result["status"] == STATUS[done.code]
        assert result["cases"] == []
        assert result["error"] == {
            "rank": self.rank,
            "call": self.call,
            "path": str(self.path),
            "message": self.message,
        }


WAYS = [(name, component) for name in THROUGH_MPIIO for component in ("romio321", "ompio")]
WAYS.remove(("pnetcdf", "ompio"))
# What OMPIO does not say, it does not say to PnetCDF either.
SELDOM = pytest.param(("pnetcdf", "ompio"), marks=pytest.mark.slow)


@pytest.fixture(params=[*WAYS, SELDOM, ("stream", "")], ids=lambda way: "-".join(filter(None, way)))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A backend and the MPI-IO component below it."""
    if request.param[1]:
        monkeypatch.setitem(OPEN_MPI, "OMPI_MCA_io", request.param[1])
    return request.param


@pytest.fixture
def backend(way: tuple[str, str]) -> str:
    return way[0]


@pytest.fixture
def io_component(way: tuple[str, str]) -> str:
    return way[1]


@pytest.fixture
def attempt(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    backend: str,
) -> Attempt:
    """attempt(directory, options...): a run of a few MiB that must fail, within a minute."""

    def start(directory: Path, *options: str, **how: Any) -> Failure:
        file = tmp_path / "result.json"
        done = mpirun(RANKS, *few_mib(backend, directory, file), *options, **how)
        return Failure(done, read_result(file), directory)

    return start


@pytest.fixture
def inject(attempt: Attempt, backend: str, shim: Path) -> Attempt:
    """inject("flip", directory): such a run with a fault."""

    def start(fault: str, directory: Path, options: Sequence[str] = (), **more: object) -> Failure:
        how = injected(shim, fault, directory / FILES[backend], BYTES, **more)
        return attempt(directory, *options, **how)

    return start


@pytest.fixture
def survive(
    mpirun: Callable[..., Run], shim: Path, backend: str, directory: Path, tmp_path: Path
) -> Callable[..., Run]:
    """survive("write", ERRNO=...): a run that a fault of one rank may hang, until the watchdog ends
    it; there is then no result file. Checked for what such a run must show."""

    def start(fault: str, *options: object, file: str = FILES[backend], **more: object) -> Run:
        result = tmp_path / "result.json"
        done = mpirun(
            RANKS, *few_mib(backend, directory, result), "--phase-limit", 3, *options,
            **injected(shim, fault, directory / file, BYTES, **more),
        )  # fmt: skip
        assert no_rate(done)
        assert len(done.errors) == 1, done.err
        assert not result.exists() or json.loads(result.read_text())["cases"] == []
        assert list(directory.iterdir()) == []
        return done

    return start
