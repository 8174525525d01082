"""What fails below benchio must be said, once, and must leave neither a figure nor a file."""

import errno
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from benchio.traces import calls_on, watched
from conftest import FILES, Run, each, files_of, injected
from faults.attempts import (
    IO,
    KILLED,
    RANKS,
    TIME_LIMIT,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    few_mib,
    file_of,
    no_rate,
    other_component_is_slow,
    result_of,
)

# What of the fault benchio may see: the error, or that the data are not what they should be.
SEEN = (IO, VERIFICATION)
# So many runs at a time where some only wait for the watchdog.
WAITING = 4


@other_component_is_slow
@pytest.mark.parametrize(("fault", "code"), [("flip", VERIFICATION), ("truncate", IO)])
def test_damage_after_the_sync(
    inject: Attempt, new_directory: Callable[[], Path], ways: list[Way], fault: str, code: int
) -> None:
    """A library's read beyond the end reports success and touches nothing: the size is looked at
    first."""

    def check(case: tuple[Way, str]) -> None:
        way, operations = case
        # Whichever rank it is that syncs.
        options = ["--operation", operations]
        if way.backend == "mpiio":
            options += ["--pattern", "steps=3,variables=2"]
        failure = inject(way, fault, new_directory(), options, RANK="all")
        assert failure.code == code
        assert fault != "truncate" or failure.call == "stat"
        assert failure.path == file_of(way, failure.directory)
        assert list(failure.directory.iterdir()) == []

    each(itertools.product(ways, ["write", "read", "write,read"]), check)


@pytest.mark.parametrize("call", ["open", "write", "sync", "close"])
def test_filesystem_full_at_a_call(survive: Callable[..., Run], call: str) -> None:
    def check(way: Way) -> None:
        done = survive(way, call, ERRNO=errno.ENOSPC, RANK="all")
        assert done.code in SEEN, done.err

    each(WAYS, check, WAITING)


def test_what_an_io_error_was(survive: Callable[..., Run]) -> None:
    """MPI-IO, and what is above it, knows an I/O error: what a small write beside the file meets is
    said as well, a quota or nothing at all. OMPIO may report success; then the witness tells."""

    def check(case: tuple[Way, str]) -> None:
        way, others = case
        file = others or FILES[way.backend]
        done = survive(
            way, "write", "--collective", "no", file=file, ERRNO=errno.EDQUOT, RANK="all"
        )
        if done.code != IO and way.component == "ompio":
            assert done.code == VERIFICATION
            return
        assert done.code == IO, done.err
        met = "fails: Disk quota exceeded" if others else "succeeds"
        says = way.backend == "posix" and "Disk quota exceeded" in done.errors[0]
        assert says or f"; a small write beside it {met}" in done.errors[0], done.errors

    each(itertools.product(WAYS, ["*", ""]), check, WAITING)


def test_one_rank_looks_at_what_an_io_error_was(
    mpirun: Callable[..., Run],
    shim: Path,
    need: Callable[[str], str],
    new_directory: Callable[[], Path],
) -> None:
    """The lowest: where all fail, all of them would write much at one time."""
    directory = new_directory()
    way, traces = Way("posix"), directory.parent / "traces"
    every = file_of(way, directory, "posix.*")
    how = injected(shim, "write", every, ERRNO=errno.EIO, RANK="all")
    how["launcher"] += watched(need, traces)
    options = few_mib("posix", directory, result_of(directory))
    done = mpirun(RANKS, *options, "--files", "process", **how)
    assert done.code == IO, done.err
    assert done.errors[0].startswith("rank 0 on "), done.errors
    assert "; a small write beside it succeeds" in done.errors[0], done.errors
    written = [call for rank in range(RANKS) for call in calls_on(traces, f"probe.{rank}")]
    assert {call.process for call in written if call.kind == "open"} == {written[0].process}


def test_open_fails_on_a_rank_that_did_not_create(survive: Callable[..., Run]) -> None:
    """The file is there by then, and must go. From OMPIO's MPI_File_open nobody returns to tell the
    error: the watchdog must end it."""

    def check(way: Way) -> None:
        done = survive(way, "open", ERRNO=errno.EIO, RANK=1)
        assert done.code == (TIME_LIMIT if way.component == "ompio" else IO), done.err

    each(WAYS, check, WAITING)


SLOW = pytest.mark.slow


# The rank that aggregates collective writes, another, all.
@pytest.mark.parametrize(
    "rank", ["0", pytest.param("1", marks=SLOW), pytest.param("all", marks=SLOW)]
)
def test_io_error(survive: Callable[..., Run], rank: str) -> None:
    """One rank has an I/O error: the others must not wait for it for ever."""

    def check(way: Way) -> None:
        done = survive(way, "write", "--collective", "no", ERRNO=errno.EIO, RANK=rank)
        assert done.code in SEEN, done.err

    each(WAYS, check, WAITING)


@pytest.mark.parametrize(
    "rank", [pytest.param("0", marks=SLOW), pytest.param("1", marks=SLOW), "all"]
)
def test_short_write(survive: Callable[..., Run], rank: str) -> None:
    """As at a quota: half a write, then none."""

    def check(way: Way) -> None:
        done = survive(way, "short", "--collective", "no", ERRNO=errno.EDQUOT, RANK=rank)
        assert done.code in SEEN, done.err

    each(WAYS, check, WAITING)


@SLOW
@pytest.mark.parametrize("fault", ["write", "short"])
def test_fault_below_collective_writes(survive: Callable[..., Run], fault: str) -> None:
    """Only the ranks that aggregate have it."""

    def check(way: Way) -> None:
        done = survive(way, fault, ERRNO=errno.EDQUOT, RANK="all")
        assert done.code in SEEN, done.err

    each(WAYS, check, WAITING)


@SLOW
@pytest.mark.parametrize("rank", ["0", "all"])
def test_io_error_in_the_first_write(survive: Callable[..., Run], rank: str) -> None:
    """Of HDF5 and NetCDF it is their metadata: no rank may ever return to tell the error."""

    def check(way: Way) -> None:
        done = survive(way, "write", ERRNO=errno.EIO, RANK=rank, THROUGH=0)
        assert done.code in (*SEEN, TIME_LIMIT), done.err

    each(WAYS, check, WAITING)


def test_failed_sync(survive: Callable[..., Run]) -> None:
    """On one rank."""

    def check(way: Way) -> None:
        done = survive(way, "sync", ERRNO=errno.EIO, RANK=0)
        assert done.code == IO, done.err
        assert re.match(r"rank 0 on \S+: \w+: .*: .+", done.errors[0]), done.errors

    each(WAYS, check, WAITING)


@other_component_is_slow
def test_rank_that_never_returns(survive: Callable[..., Run], ways: list[Way]) -> None:
    """Nobody has an error to tell: the watchdog ends it for its time, and says that the
    filesystem is well. Whoever waits for that rank leaves no file either, nor does anybody where
    all hang."""

    def check(case: tuple[Way, str, str, object]) -> None:
        way, files, fault, rank = case
        file = files_of(way.backend, RANKS if files == "process" else 1)[0]
        if rank == "all":
            file = file.replace(".000000", "*")
        done = survive(way, fault, "--files", files, "--phase-limit", 1, file=file, RANK=rank)
        assert done.code == TIME_LIMIT, done.err
        assert re.fullmatch(
            r"rank 0: .+ \(--phase-limit\); a small write beside it succeeds", done.errors[0]
        ), done.errors

    cases = [(way, files, "sleep", 0) for way in ways for files in ("shared", "process")]
    one = ways[0]
    more = [(one, "shared", "sleep-in-sync", 0), (one, "process", "sleep", "all")]
    each([*cases, *more], check, at_once=6)


@other_component_is_slow
def test_io_error_in_other_layouts(survive: Callable[..., Run], ways: list[Way]) -> None:
    """On the rank that alone writes the file."""

    def check(case: tuple[Way, str]) -> None:
        (way, files), rank, file = case, 0, ""
        if files == "process":
            rank, file = 1, files_of(way.backend, RANKS)[1]
        done = survive(way, "write", "--files", files, file=file, ERRNO=errno.EIO, RANK=rank)
        assert done.code in SEEN, done.err

    each(itertools.product(ways, ["process", "gather"]), check)


@other_component_is_slow
def test_killed_rank(
    mpirun: Callable[..., Run], shim: Path, new_directory: Callable[[], Path], ways: list[Way]
) -> None:
    """In the middle of a write: nobody is left to clean up, nor to say a figure."""

    def check(way: Way) -> None:
        directory = new_directory()
        how = injected(shim, "kill", file_of(way, directory))
        how["env"].update(way.env)
        done = mpirun(RANKS, *few_mib(way.backend, directory, result_of(directory)), **how)
        assert done.code == KILLED, done.err
        assert no_rate(done)
        assert not result_of(directory).exists()

    each(ways, check)
