"""What fails below benchio must be said, once, and must leave neither a figure nor a file."""

import errno
import itertools

import pytest
from benchio.traces import calls_on, watched
from conftest import each, files_of, injected
from faults.attempts import (
    EVERY_BACKEND,
    IO,
    KILLED,
    RANKS,
    TIME_LIMIT,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    file_in,
    file_of,
    no_rate,
    other_component_is_slow,
    places,
    small,
)
from many_runs import result_of

# What of the fault benchio may see: the error, or that the data are not what they should be.
SEEN = (IO, VERIFICATION)
ALL = {"RANK": "all"}
# Where rows do not take turns in the file, ROMIO locks none of it.
INDEPENDENT = "--collective no --grid 1x1x3 --halo 0"


@other_component_is_slow
def test_damage_after_the_sync(fail, ways):
    """A library's read beyond the end reports success and touches nothing: the size is looked at
    first."""

    def check(outcome, attempt):
        is_short = attempt.fault == "truncate"
        assert outcome.done.code == (IO if is_short else VERIFICATION)
        assert outcome.call == ("stat" if is_short else outcome.error["call"], file_in(outcome))

    steps = {"mpiio": "--steps 3 --variables 2"}
    operations = ["write", "read", "write,read"]
    fail(
        [
            # Whichever rank it is that syncs.
            Attempt(way, f"--operation {timed} {steps.get(way.backend, '')}", fault, ALL)
            for way, timed, fault in itertools.product(ways, operations, ["flip", "truncate"])
        ],
        check,
    )  # fmt: skip


# The rank that aggregates collective writes, another, all.
ONE_CALL = [
    (call, code, INDEPENDENT, rank)
    for call, code in (("write", errno.EIO), ("short", errno.EDQUOT))
    for rank in (0, 1, "all")
]
ONE_CALL += [(call, errno.ENOSPC, "", "all") for call in ("open", "write", "close")]
ONE_CALL += [("short", errno.EDQUOT, "", "all")]


def test_a_call_that_fails(fail):
    """The ranks that have no error must not wait for ever for those that have."""

    def check(outcome, attempt):
        assert outcome.done.code in SEEN or attempt == hangs, outcome.said

    attempts = [
        Attempt(way, options, call, {"ERRNO": code, "RANK": rank})
        for way, (call, code, options, rank) in itertools.product(WAYS, ONE_CALL)
        if (way, call, options) != (Way("netcdf", "ompio"), "write", "")
    ]
    # It keeps ROMIO's lock on the rows of the others: the watchdog ends them.
    waits = "--collective no --grid 3x1x1 --phase-limit 1"
    attempts.append(Attempt(Way("mpiio"), waits, "write", {"ERRNO": errno.EIO}))
    # Of OMPIO's ranks some may wait for ever before any has an error to tell.
    full = {"ERRNO": errno.ENOSPC, "RANK": "all"}
    hangs = Attempt(Way("netcdf", "ompio"), "--phase-limit 2", "write", full, is_alone=True)
    attempts.append(hangs)
    fail(attempts, check)


def test_a_sync_that_fails(fail):
    """On one rank, and on all."""

    def check(outcome, attempt):
        assert outcome.done.code == IO

    settings = [{"ERRNO": errno.EIO, "RANK": 0}, {"ERRNO": errno.ENOSPC, "RANK": "all"}]
    fail([Attempt(way, "", "sync", one) for way in WAYS for one in settings], check)


def test_what_an_io_error_was(fail):
    """MPI-IO, and what is above it, knows an I/O error: what a small write beside the file meets is
    said as well, a quota or nothing at all. OMPIO may report success; then the witness tells."""

    def check(outcome, attempt):
        if outcome.done.code != IO and attempt.way.component == "ompio":
            return
        assert outcome.done.code == IO
        met = "fails: Disk quota exceeded" if attempt.file else "succeeds"
        knows = attempt.way.backend == "posix" and "Disk quota exceeded" in outcome.said
        assert knows or f"; a small write beside it {met}" in outcome.said

    fail(
        [
            Attempt(way, INDEPENDENT, "write", {"ERRNO": errno.EDQUOT, "RANK": "all"}, file)
            for way in WAYS
            for file in ("*", "")
        ],
        check,
    )


def test_one_rank_looks_at_what_an_io_error_was(mpirun, shim, need, directory):
    """The lowest: where all fail, all of them would write much at one time."""
    traces = directory.parent / "traces"
    every = file_of(Way("posix"), directory, "posix.*")
    how = injected(shim, "write", every, ERRNO=errno.EIO, RANK="all", THROUGH=0)
    how["launcher"] += watched(need, traces)
    done = mpirun(RANKS, *small("posix"), *places(directory), "--files", "process", **how)
    assert done.code == IO, done.err
    assert done.errors[0].startswith("rank 0 on "), done.errors
    assert "; a small write beside it succeeds" in done.errors[0], done.errors
    written = [call for rank in range(RANKS) for call in calls_on(traces, f"probe.{rank}")]
    assert {call.process for call in written if call.kind == "open"} == {written[0].process}


def test_an_open_fails_on_a_rank_that_did_not_create(fail):
    """The file is there by then, and must go."""

    def check(outcome, attempt):
        assert outcome.done.code == IO

    ways = [way for way in WAYS if way.component != "ompio"]
    fail([Attempt(way, "", "open", {"ERRNO": errno.EIO, "RANK": 1}) for way in ways], check)


@other_component_is_slow
def test_an_io_error_in_other_layouts(fail, ways):
    """On the rank that alone writes the file."""

    def check(outcome, attempt):
        assert outcome.done.code in SEEN, outcome.said

    attempts = []
    for way in ways:
        of_one = files_of(way.backend, RANKS)[1]
        attempts += [
            Attempt(way, "--files gather", "write", {"ERRNO": errno.EIO}),
            Attempt(way, "--files process", "write", {"ERRNO": errno.EIO, "RANK": 1}, of_one),
        ]
    fail(attempts, check)


def end(mpirun, shim, directory, way, fault, file="", options=(), **settings):
    """A run that a fault ends, in a start of its own; it has no result."""
    how = injected(shim, fault, file_of(way, directory, file), **settings)
    how["env"]["OMPI_MCA_io"] = way.component
    done = mpirun(RANKS, *small(way.backend), *places(directory), *options, **how)
    assert no_rate(done)
    assert not result_of(directory).exists()
    return done


def test_a_rank_that_keeps_what_others_wait_for(mpirun, shim, directory, read_result):
    """ROMIO's lock on the rows of all, after an error: long before the limit of a phase rank 0 is
    told, reports the error, and clears up."""
    way = Way("mpiio")
    options = [*small(way.backend), "--collective", "no", "--grid", "3x1x1", "--phase-limit", 600]
    how = injected(shim, "write", file_of(way, directory), ERRNO=errno.EIO, RANK=1)
    done = mpirun(RANKS, *options, *places(directory), **how)
    (said,) = done.errors
    assert "Input/output error" in said or "a small write beside it succeeds" in said
    assert done.code == IO
    result = read_result(result_of(directory))
    assert (result["status"], result["error"]["rank"]) == ("io_error", 1)
    assert result["error"]["call"] == "MPI_File_write_at"
    assert list(directory.iterdir()) == []


# Way, files, fault, rank. The last: from OMPIO's MPI_File_open nobody returns to tell the error.
HANGS = [
    *((way, "process" if index % 2 else "shared", "sleep", 0)
      for index, way in enumerate(EVERY_BACKEND)),
    (Way("mpiio"), "shared", "sleep-in-sync", 0),
    (Way("mpiio"), "process", "sleep", "all"),
    (Way("mpiio", "ompio"), "shared", "open", 1),
]  # fmt: skip


def test_a_rank_that_never_returns(mpirun, shim, new_directory):
    """Nobody has an error to tell: the watchdog ends it for its time, and knows that the filesystem
    is well. Whoever waits for that rank leaves no file either, nor does anybody where all hang."""

    def check(case):
        way, files, fault, rank = case
        directory = new_directory()
        file = files_of(way.backend, RANKS if files == "process" else 1)[0]
        if rank == "all":
            file = file.replace(".000000", "*")
        options = ["--files", files, "--phase-limit", 1]
        done = end(mpirun, shim, directory, way, fault, file, options, RANK=rank, ERRNO=errno.EIO)
        assert done.code == TIME_LIMIT, done.err
        (said,) = done.errors
        assert fault == "open" or said.endswith("(--phase-limit); a small write beside it succeeds")
        assert list(directory.iterdir()) == []

    each(HANGS, check, at_once=8)


@pytest.mark.parametrize("ways", [WAYS[:2], pytest.param(WAYS[2:], marks=pytest.mark.slow)])
def test_a_killed_rank(mpirun, shim, new_directory, ways):
    """In the middle of a write: nobody is left to clean up, nor to tell a figure."""

    def check(way):
        done = end(mpirun, shim, new_directory(), way, "kill")
        assert done.code == KILLED, done.err

    each(ways, check)


def test_direct_that_cannot_be_is_refused(fail):
    """By the sizes of the run, or by the filesystem."""

    def check(outcome, attempt):
        assert outcome.done.code == IO
        why = "the filesystem refuses O_DIRECT" if attempt.fault else "takes multiples of"
        assert why in outcome.error["message"]
        assert "leave --direct out" in outcome.error["message"]

    options = "--direct --grid 1x1x3 --halo 2 --transfer 20000 --local-size"
    refuses = {"ERRNO": errno.EINVAL, "RANK": "all"}
    fail(
        [
            Attempt(Way("posix"), f"{options} 500x5x7"),
            Attempt(Way("posix"), f"{options} 512x5x7", "direct", refuses),
        ],
        check,
    )
