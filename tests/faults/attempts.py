"""The runs of a few MiB that meet a fault."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import BACKENDS, FILES, RUN_ID, THROUGH_MPIIO, Run, run_directory

RANKS = 3
SIZE = (64, 64, 96)  # of each rank's block
IO, VERIFICATION, TIME_LIMIT = 3, 4, 5
STATUS = {IO: "io_error", VERIFICATION: "verification_error"}
KILLED = 137

Attempt = Callable[..., Any]  # returns a Failure of conftest.py


class Way(NamedTuple):
    """A backend and, if it goes through MPI-IO, Open MPI's component below it."""

    backend: str
    component: str = ""

    def __repr__(self) -> str:
        return "-".join(filter(None, self))

    @property
    def env(self) -> dict[str, str]:
        return {"OMPI_MCA_io": self.component} if self.component else {}


THROUGH_ROMIO = [Way(backend, "romio321") for backend in THROUGH_MPIIO]
THROUGH_OMPIO = [Way(backend, "ompio") for backend in THROUGH_MPIIO]
PLAIN = [Way(backend) for backend in BACKENDS if backend not in THROUGH_MPIIO]

# For faults that MPI-IO tells of: its components tell different things.
WAYS = [*THROUGH_ROMIO, *THROUGH_OMPIO, *PLAIN]
# For those that benchio sees before or after MPI-IO.
EVERY_BACKEND = [*THROUGH_ROMIO, *PLAIN]

# For those where MPI-IO has a part but nothing to tell: a component repeats what the other shows.
other_component_is_slow = pytest.mark.parametrize(
    "ways",
    [
        pytest.param(EVERY_BACKEND, id="romio321"),
        pytest.param(THROUGH_OMPIO, id="ompio", marks=pytest.mark.slow),
    ],
)


def no_rate(done: Run) -> bool:
    return "MiB/s" not in done.out and "MiB/s" not in done.err


def few_mib(backend: str, directory: Path, result: Path) -> list[object]:
    """Options."""
    return [
        "--backend", backend, "--local-size", "x".join(map(str, SIZE)), "--warmup", 0,
        "--repeats", 2, "--run-id", RUN_ID, "--dir", directory, "--json", result,
    ]  # fmt: skip


def file_of(way: Way, directory: Path, name: str = "") -> Path:
    """The file that such a run writes in this directory, or another of its files."""
    return run_directory(directory) / (name or FILES[way.backend])


def result_of(directory: Path) -> Path:
    """Where the result of a run belongs whose files are in this directory."""
    return directory.parent / "result.json"
