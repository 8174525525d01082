"""The phase that is slow has the blame, and nobody is faster for having begun late."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, Run, compiled, each
from faults.attempts import RANKS, few_mib, result_of

SECOND = {"SLOW_S": "1"}

Timed = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def slow_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fault injector of slow_shim.c."""
    return compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))


@pytest.fixture
def timed(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    slow_shim: Path,
    new_directory: Callable[[], Path],
) -> Timed:
    """timed("hdf5", "H5Fclose", options...): the first repetition of a run where that takes a
    second."""

    def start(backend: str, slow: str, *options: object, **more: str) -> dict[str, Any]:
        directory = new_directory()
        result = result_of(directory)
        done = mpirun(
            RANKS, *few_mib(backend, directory, result), *options, "--repeats", 1,
            env={"SLOW": slow, **SECOND, **more}, launcher=["-x", f"LD_PRELOAD={slow_shim}"],
        )  # fmt: skip
        assert done.code == 0, done.err
        repetition: dict[str, Any] = read_result(result)["cases"][0]["repetitions"][0]
        return repetition

    return start


def test_rank_that_creates_its_file_late(timed: Timed) -> None:
    """It writes when the others have written: no rate is of what was written at one time, but of
    what all wrote from the first that began to the last that ended."""

    def check(backend: str) -> None:
        late = ("--files", "process", "--instances", RANKS)
        repetition = timed(backend, "open", *late, SLOW_RANK="1")
        phases, rates = repetition["phases"], repetition["rates"]
        mib = rates["total"] * phases["total"]["window"]
        assert phases["open"]["slowest_rank"] == 1
        assert phases["open"]["max"] > 0.9 > phases["write"]["max"]
        assert phases["write"]["file_window"] < 0.9 < phases["write"]["window"]
        assert phases["write"]["window"] <= phases["total"]["window"]
        assert rates["data"] == pytest.approx(mib / phases["write"]["window"])
        assert rates["data"] < 2 * rates["total"]
        assert repetition["instances"][1] < min(repetition["instances"][::2]), "it alone is late"

    each(BACKENDS, check, at_once=5)


def test_rank_that_is_late_for_the_start_is_waited_for(timed: Timed) -> None:
    """The clock starts when all are there."""
    phases = timed("posix", "gmtime_r", SLOW_RANK="1")["phases"]
    assert phases["total"]["window"] < 0.9


def test_phase_barrier_gives_the_late_rank_the_blame(timed: Timed) -> None:
    phases = timed("posix", "open", "--files", "process", "--phase-barrier", SLOW_RANK="1")[
        "phases"
    ]
    assert phases["open"]["window"] > 0.9 > phases["write"]["window"]


@pytest.mark.parametrize("slow", ["MPI_File_set_size", "H5Fclose", "metadata"])
def test_close_that_is_slow(timed: Timed, slow: str) -> None:
    """Not the sync, although HDF5 sets the size of its file in its own flush, too."""
    repetition = timed("hdf5", slow)
    phases, rates = repetition["phases"], repetition["rates"]
    mib = rates["total"] * phases["total"]["window"]
    assert phases["close"]["window"] > 0.9 > phases["sync"]["window"]
    seconds = phases["total"]["window"] + phases["sync"]["window"]
    assert rates["stable"] == pytest.approx(mib / seconds)


@pytest.mark.parametrize("slow", ["MPI_File_set_size", "H5Fflush"])
def test_flush_that_was_asked_for_is_slow(timed: Timed, slow: str) -> None:
    """As a phase of its own; the sync takes what the filesystem takes."""
    phases = timed("hdf5", slow, "--flush")["phases"]
    assert phases["flush"]["window"] > 0.9
    assert phases["sync"]["window"] < 0.9
