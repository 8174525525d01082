"""Filesystems with faults, and runs that meet them."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, compiled, injected
from faults.attempts import RANKS, STATUS, Attempt, Way, few_mib, file_of, no_rate, result_of


@pytest.fixture(scope="session")
def library_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fault injector of library_shim.c."""
    return compiled("library_shim.c", tmp_path_factory.mktemp("shim"))


class Failure:
    """A run that had to fail, checked for what every failed run must show."""

    def __init__(self, done: Run, result: dict[str, Any], directory: Path) -> None:
        self.code, self.directory = done.code, directory
        assert len(done.errors) == 1, done.err
        found = re.fullmatch(r"rank (\d+) on ([^:]+): (\w+): (/[^:]*): (.+)", done.errors[0])
        assert found, done.errors[0]
        self.rank, self.call, self.path = int(found[1]), found[3], Path(found[4])
        self.message = found[5]
        assert 0 <= self.rank < RANKS
        assert self.path.is_relative_to(directory)
        assert no_rate(done)

        assert result["status"] == STATUS[done.code]
        assert result["cases"] == []
        assert result["error"] == {
            "rank": self.rank,
            "host": found[2],
            "call": self.call,
            "path": str(self.path),
            "message": self.message,
        }


@pytest.fixture
def attempt(mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]]) -> Attempt:
    """attempt(way, directory, options...): a run of a few MiB that must fail, within a minute."""

    def start(
        way: Way, directory: Path, *options: str, env: dict[str, str] | None = None, **how: Any
    ) -> Failure:
        file = result_of(directory)
        env = {**way.env, **(env or {})}
        done = mpirun(RANKS, *few_mib(way.backend, directory, file), *options, env=env, **how)
        assert done.code in STATUS, f"exit code {done.code}\n{done.out}\n{done.err}"
        result = read_result(file)
        assert result["environment"]["OMPI_MCA_io"] == (way.component or "romio321")
        return Failure(done, result, directory)

    return start


@pytest.fixture
def inject(attempt: Attempt, shim: Path) -> Attempt:
    """inject(way, "flip", directory): such a run with a fault."""

    def start(
        way: Way, fault: str, directory: Path, options: Sequence[str] = (), **more: object
    ) -> Failure:
        how = injected(shim, fault, file_of(way, directory), **more)
        return attempt(way, directory, *options, **how)

    return start


@pytest.fixture
def survive(
    mpirun: Callable[..., Run], shim: Path, new_directory: Callable[[], Path]
) -> Callable[..., Run]:
    """survive(way, "write", ERRNO=...): a run that a fault of one rank may hang, until the watchdog
    ends it; there is then no result file. Checked for what such a run must show."""

    def start(way: Way, fault: str, *options: object, file: str = "", **more: object) -> Run:
        directory = new_directory()
        result = result_of(directory)
        how = injected(shim, fault, file_of(way, directory, file), **more)
        how["env"].update(way.env)
        done = mpirun(
            RANKS, *few_mib(way.backend, directory, result), "--phase-limit", 3, *options, **how
        )
        assert no_rate(done)
        assert len(done.errors) == 1, done.err
        assert not result.exists() or json.loads(result.read_text())["cases"] == []
        assert list(directory.iterdir()) == []
        return done

    return start
