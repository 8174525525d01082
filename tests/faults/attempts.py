"""Small runs that meet a fault, and what they must show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import BACKENDS, FILES, MPI_IO, OMPIO, RUN_ID, THROUGH_MPIIO, Run, run_directory
from many_runs import Outcome, Plan, result_of

RANKS = 3
SIZE = (64, 64, 48)  # of each rank's block
INTERNAL, IO, VERIFICATION, TIME_LIMIT = 1, 3, 4, 5
STATUS = {IO: "io_error", VERIFICATION: "verification_error"}
KILLED = 137
MARK = "wrong_data.txt"  # beside files that have wrong data and stay


class Way(NamedTuple):
    """A backend and, if it goes through MPI-IO, Open MPI's component below it."""

    backend: str
    component: str = MPI_IO[0]


THROUGH_ROMIO = [Way(backend) for backend in THROUGH_MPIIO]
THROUGH_OMPIO = [Way(backend, OMPIO) for backend in THROUGH_MPIIO]

# For faults that benchio sees before or after MPI-IO.
EVERY_BACKEND = [*THROUGH_ROMIO, *(Way(name) for name in BACKENDS if name not in THROUGH_MPIIO)]
# For those that MPI-IO tells of: its components tell different things.
WAYS = [*dict.fromkeys([*EVERY_BACKEND, *THROUGH_OMPIO])]

# For those where MPI-IO has a part but nothing to tell: a component repeats what the other shows.
other_component_is_slow = pytest.mark.parametrize(
    "ways",
    [
        pytest.param(EVERY_BACKEND, id=MPI_IO[0]),
        pytest.param(THROUGH_OMPIO, id=OMPIO, marks=pytest.mark.slow),
    ][: len(MPI_IO)],
)


def no_rate(done: Run) -> bool:
    return "MiB/s" not in done.out and "MiB/s" not in done.err


def small(backend: str) -> list[object]:
    """The options of a run of a few MiB, which no busy machine takes for a hang."""
    return [
        "--backend", backend, "--local-size", "x".join(map(str, SIZE)), "--warmup", 0,
        "--repeats", 2, "--phase-limit", 20,
    ]  # fmt: skip


def places(directory: Path) -> list[object]:
    """Further options: where the files go, and the result."""
    return ["--run-id", RUN_ID, "--dir", directory, "--json", result_of(directory)]


def file_of(way: Way, directory: Path, name: str = "") -> Path:
    """The file that such a run writes in this directory, or another of its files."""
    return run_directory(directory) / (name or FILES[way.backend])


@dataclass(frozen=True)
class Attempt:
    """A small run, and the fault that it is to meet."""

    way: Way
    options: str = ""
    fault: str = ""  #: of shim.c
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)  #: its FAULT_*
    file: str = ""  #: that is hit, if it is not the way's
    library: str = ""  #: fault of library_shim.c
    env: Mapping[str, object] = field(default_factory=dict, hash=False)
    directory: Path | None = None  #: None: a new one
    run_id: str = RUN_ID
    ranks: int = RANKS
    is_alone: bool = False  #: in a start of its own

    @property
    def plan(self) -> Plan:
        env = {**self.env, **({"LIBRARY_FAULT": self.library} if self.library else {})}
        if self.fault:
            file = "{own}/" + (self.file or FILES[self.way.backend])
            settings = {"FILE": file, **self.settings}
            env |= {"FAULT": self.fault, **{f"FAULT_{name}": settings[name] for name in settings}}
        options = [*small(self.way.backend), *self.options.split()]
        # A library that has failed may not be what it was.
        backend, component = self.way
        return Plan(self.ranks, options, env, component, backend, self.run_id, self.directory, self)


def file_in(outcome: Outcome) -> Path:
    """That is hit, or else the one that is written."""
    attempt = outcome.plan.of
    return outcome.own / (attempt.file or FILES[attempt.way.backend])


def check_left(outcome: Outcome) -> None:
    """A failed run has left nothing but files with wrong data."""
    left = list(outcome.directory.iterdir())
    error = outcome.error if result_of(outcome.directory).exists() else None
    if error is None or "evidence" not in error:
        assert left == [], "a file outlives the run"
        return
    evidence = error["evidence"]
    assert evidence["kept"]
    assert left == [outcome.own]
    assert outcome.error["message"] in (outcome.own / MARK).read_text()
    wrong = {Path(extent["path"]) for extent in evidence["listed"]}
    assert wrong <= set(outcome.own.rglob("*"))
    for other in outcome.own.rglob("*.round*"):
        assert other in wrong, other


def check_failed(outcome: Outcome) -> None:
    """What every run that met a fault must show, whatever it was."""
    done = outcome.done
    assert done.code in (*STATUS, TIME_LIMIT), f"exit code {done.code}\n{done.out}\n{done.err}"
    assert len(done.errors) == 1, done.err
    assert no_rate(done)
    if outcome.plan.directory is None:
        check_left(outcome)
    if not result_of(outcome.directory).exists():  # the watchdog has ended it
        return
    result, error = outcome.result, outcome.error
    assert (result["status"], result["cases"]) == (STATUS[done.code], [])
    assert 0 <= error["rank"] < outcome.plan.ranks
    assert Path(error["path"]).is_relative_to(outcome.directory)
    words = f"rank {error['rank']} on {error['host']}: {error['call']}: {error['path']}: "
    assert outcome.said == words + error["message"]
