"""Fixtures that run the real benchio under the real mpirun."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[1]
BENCHIO = ROOT / "build/bin/benchio"

FILES = {"mpiio": "benchio.mpiio.dat", "hdf5": "benchio.hdf5.h5", "netcdf": "benchio.netcdf.nc"}
BACKENDS = tuple(FILES)

# For Open MPI on any machine, however small, and as root.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # mpirun otherwise waits two seconds after a rank that failed
    "OMPI_MCA_odls_base_sigkill_timeout": "0",
    "OMPI_MCA_io": "romio321",
}


@dataclass(frozen=True)
class Run:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """What benchio said after `benchio: error: `, an entry a line."""
        return re.findall(r"^benchio: error: (.+)$", self.err, re.MULTILINE)


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes of a session: what mpirun starts has process groups of its own."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == process.pid:
                members.append(int(entry.name))
    return members


def kill_session(process: subprocess.Popen[str]) -> None:
    """Ends a process that leads a session, and all that it started."""
    process.send_signal(signal.SIGTERM)  # lets mpirun end its ranks
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for member in session_of(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def run(
    command: list[str | Path], *, timeout: float = 60, env: Mapping[str, str] | None = None
) -> Run:
    """Runs a command to its end; one that has not ended after `timeout` seconds fails the test."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **OPEN_MPI, **(env or {})},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_session(process)
        out, err = process.communicate()
        pytest.fail(f"{command} still ran after {timeout} s\n{out}\n{err}")
    return Run(process.returncode, out, err)


@pytest.fixture(scope="session")
def benchio() -> Path:
    if not os.access(BENCHIO, os.X_OK):
        pytest.fail(f"there is no {BENCHIO}: run make setup")
    return BENCHIO


@pytest.fixture(scope="session")
def mpirun(benchio: Path) -> Callable[..., Run]:
    """mpirun(ranks, *benchio_options, launcher=[mpirun's options], timeout=..., env=...)"""

    def start(ranks: int, *options: object, launcher: list[str] | None = None, **how: Any) -> Run:
        words = [str(option) for option in options]
        return run(["mpirun", "-n", str(ranks), *(launcher or []), benchio, *words], **how)

    return start


@pytest.fixture(params=["romio321", "ompio"])
def io_component(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Open MPI's two implementations of MPI-IO: a test that asks for this runs with each."""
    monkeypatch.setitem(OPEN_MPI, "OMPI_MCA_io", request.param)
    return request.param


@pytest.fixture(scope="session")
def read_result() -> Callable[[Path], dict[str, Any]]:
    """Reads a result file that must be what the schema says."""
    schema = json.loads((ROOT / "src/iowatch/benchio.result-1.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)

    def read(path: Path) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(path.read_text())
        validator.validate(result)
        return result

    return read


@pytest.fixture(scope="session")
def need() -> Callable[[str], str]:
    """need("strace"): its path; without it the test is skipped."""

    def find(tool: str) -> str:
        path = shutil.which(tool)
        if path is None:
            pytest.skip(f"there is no {tool} here: make setup installs it")
        return path

    return find
