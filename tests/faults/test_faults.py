"""What fails below benchio must be said, once, and must leave neither a figure nor a file."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FILES, Run, files_of, injected
from faults.attempts import (
    BYTES,
    IO,
    KILLED,
    RANKS,
    TIME_LIMIT,
    VERIFICATION,
    Attempt,
    few_mib,
    no_rate,
)


def test_flipped_byte(inject: Attempt, directory: Path) -> None:
    failure = inject("flip", directory)
    assert failure.code == VERIFICATION
    assert list(directory.iterdir()) == []


def test_truncated_file(inject: Attempt, directory: Path) -> None:
    """A read beyond the end reports success and touches nothing: the size is looked at first."""
    failure = inject("truncate", directory)
    assert failure.code == IO
    assert list(directory.iterdir()) == []


# What of the fault benchio may see: the error, or that the data are not what they should be.
SEEN = (IO, VERIFICATION)


@pytest.mark.parametrize("call", ["open", "write", "sync", "close"])
def test_filesystem_full_at_a_call(survive: Callable[..., Run], call: str) -> None:
    done = survive(call, ERRNO=errno.ENOSPC, RANK="all")
    assert done.code in SEEN, done.err


def test_open_fails_on_a_rank_that_did_not_create(survive: Callable[..., Run]) -> None:
    """The file is there by then, and must go."""
    done = survive("open", ERRNO=errno.EIO, RANK=1)
    assert done.code == IO, done.err


SLOW = pytest.mark.slow


# The rank that aggregates collective writes, another, all.
@pytest.mark.parametrize(
    "rank", ["0", pytest.param("1", marks=SLOW), pytest.param("all", marks=SLOW)]
)
def test_io_error(survive: Callable[..., Run], rank: str) -> None:
    """One rank has an I/O error: the others must not wait for it for ever."""
    done = survive("write", "--collective", "no", ERRNO=errno.EIO, RANK=rank)
    assert done.code in SEEN, done.err


@pytest.mark.parametrize(
    "rank", [pytest.param("0", marks=SLOW), pytest.param("1", marks=SLOW), "all"]
)
def test_short_write(survive: Callable[..., Run], rank: str) -> None:
    """As at a quota: half a write, then none."""
    done = survive("short", "--collective", "no", ERRNO=errno.EDQUOT, RANK=rank)
    assert done.code in SEEN, done.err


@SLOW
@pytest.mark.parametrize("fault", ["write", "short"])
def test_fault_below_collective_writes(survive: Callable[..., Run], fault: str) -> None:
    """Only the ranks that aggregate have it."""
    done = survive(fault, ERRNO=errno.EDQUOT, RANK="all")
    assert done.code in SEEN, done.err


@SLOW
@pytest.mark.parametrize("rank", ["0", "all"])
def test_io_error_in_the_first_write(survive: Callable[..., Run], rank: str) -> None:
    """Of HDF5 and NetCDF it is their metadata: no rank may ever return to tell the error."""
    done = survive("write", ERRNO=errno.EIO, RANK=rank, THROUGH=0)
    assert done.code in (*SEEN, TIME_LIMIT), done.err


def test_failed_sync(survive: Callable[..., Run]) -> None:
    """On one rank."""
    done = survive("sync", ERRNO=errno.EIO, RANK=0)
    assert done.code == IO, done.err
    assert re.match(r"rank 0: \w+: .*: .+", done.errors[0]), done.errors


@pytest.mark.parametrize("files", ["shared", "process"])
def test_rank_that_never_returns(survive: Callable[..., Run], backend: str, files: str) -> None:
    """Nobody has an error to tell: the watchdog ends it for its time. Whoever waits for that rank
    leaves no file either."""
    name = files_of(backend, RANKS if files == "process" else 1)[0]
    done = survive("sleep", "--files", files, "--phase-limit", 1, file=name, RANK=0)
    assert done.code == TIME_LIMIT, done.err
    assert "--phase-limit" in done.errors[0]


@pytest.mark.parametrize("files", ["process", "gather"])
def test_io_error_in_other_layouts(survive: Callable[..., Run], backend: str, files: str) -> None:
    """On the rank that alone writes the file."""
    rank, names = (1, files_of(backend, RANKS)) if files == "process" else (0, [FILES[backend]])
    done = survive("write", "--files", files, file=names[rank], ERRNO=errno.EIO, RANK=rank)
    assert done.code in SEEN, done.err


def test_killed_rank(
    mpirun: Callable[..., Run], shim: Path, backend: str, directory: Path, tmp_path: Path
) -> None:
    """In the middle of a write: nobody is left to clean up, nor to say a figure."""
    result = tmp_path / "result.json"
    how = injected(shim, "kill", directory / FILES[backend], BYTES)
    done = mpirun(RANKS, *few_mib(backend, directory, result), **how)
    assert done.code == KILLED, done.err
    assert no_rate(done)
    assert not result.exists()
