"""Faults of the I/O libraries themselves: one rank's, and one that no return code tells."""

import itertools
import re
from math import prod

from faults.attempts import INTERNAL, IO, RANKS, SIZE, VERIFICATION, Attempt, Way, file_in
from many_runs import Plan, run_many

#: Backend, call that fails on one rank, how benchio names it.
DEFINING = [
    ("hdf5", "H5Pset_alignment", "H5Pset_alignment"),
    ("hdf5", "H5Pcreate", "H5Pcreate"),
    ("hdf5", "H5Dcreate2", "H5Dcreate"),
    ("netcdf", "nc_def_var_fill", "nc_def_var_fill"),
    ("netcdf", "nc_enddef", "nc_enddef"),
    ("netcdf", "nc_var_par_access", "nc_var_par_access"),
    ("pnetcdf", "ncmpi_enddef", "nf90mpi_enddef"),
]


def test_one_rank_fails_to_define(fail):
    """The others are in the next collective call by then, and must not wait there for ever."""
    names = {call: name for _, call, name in DEFINING}

    def check(outcome, attempt):
        assert outcome.done.code == IO
        name = names[attempt.library]
        assert (outcome.error["rank"], *outcome.call) == (1, name, file_in(outcome))

    fail(
        [
            Attempt(Way(backend), f"--collective {collective}", library=call)
            for (backend, call, _), collective in itertools.product(DEFINING, ["yes", "no"])
        ],
        check,
    )


def test_the_first_rank_fails_to_define_for_all(fail):
    """It alone has the file open, and the others must not send it their data."""

    def check(outcome, attempt):
        assert (outcome.done.code, outcome.error["rank"]) == (IO, 0)
        assert outcome.call == ("H5Dcreate", file_in(outcome))

    of_first = {"LIBRARY_RANK": 0}
    fail([Attempt(Way("hdf5"), "--files gather", library="H5Dcreate2", env=of_first)], check)


def test_what_a_library_tells_is_of_each_dataset_and_operation(attempt):
    """One dataset whose place is not known is enough; and a read has a transfer of its own."""
    options = "--operation write,read --variables 2 --repeats 1"
    (outcome,) = attempt([Attempt(Way("hdf5"), options, library="apart")])
    assert outcome.done.code == 0, outcome.done.err
    write, read = outcome.result["cases"]
    assert write["repetitions"][0]["witness"]["method"] == "through the library"
    assert write["collective"]["observed"] == "collective"
    assert read["collective"]["observed"].startswith("independent")


def test_one_file_of_several_has_its_bytes_in_no_run(attempt):
    """Ranks of the others read bytes, those of this one through the library, and none waits."""
    (outcome,) = attempt([Attempt(Way("hdf5"), "--files process", library="H5Dget_offset")])
    assert outcome.done.code == 0, outcome.done.err
    (case,) = outcome.result["cases"]
    assert {repetition["witness"]["method"] for repetition in case["repetitions"]} == {
        "through the library"
    }


def test_one_rank_has_no_memory_to_pack_its_block(attempt):
    """A write and a read end, as one does that only the witness reads through the library."""
    options = ["--halo 1", "--halo 1 --operation read"]
    attempts = [Attempt(Way("netcdf"), more, library="posix_memalign") for more in options]
    for outcome in attempt(attempts):
        assert outcome.done.code == INTERNAL, outcome.done.err
        assert (outcome.error["rank"], outcome.error["call"]) == (1, "posix_memalign")
        assert "no memory for a piece of 1572864 bytes" in outcome.error["message"]


def test_one_rank_has_no_memory_to_pack_what_others_have_kept(new_directory, library_shim):
    """Nothing of the run was packed before that."""
    grid = ["--backend", "netcdf", "--grid", "3x1x1"]
    keep = ["--operation", "write-keep", "--repeats", 1, "--local-size", "x".join(map(str, SIZE))]
    (kept,) = run_many([Plan(RANKS, [*grid, *keep])], new_directory, library_shim)
    assert kept.done.code == 0, kept.done.err
    reads = [*grid, "--operation", "read-existing", "--phase-limit", 20]
    plan = Plan(RANKS, reads, {"LIBRARY_FAULT": "posix_memalign"}, directory=kept.own)
    (outcome,) = run_many([plan], new_directory, library_shim)
    assert outcome.done.code == INTERNAL, outcome.done.err
    assert (outcome.error["rank"], outcome.error["call"]) == (1, "posix_memalign")


def test_a_read_that_reads_nothing(fail):
    """Every rank has just written the values that it is to read, and a single one its own block:
    they must be gone by then. Of chunks the witness, too, reads through the library."""

    def check(outcome, attempt):
        assert outcome.done.code == VERIFICATION

    fail(
        [
            Attempt(Way("hdf5"), options, library="H5Dread", ranks=ranks)
            for options in ("--operation read", "--chunk 32x32x32")
            for ranks in (3, 1)
        ],
        check,
    )


def test_a_transfer_that_is_short(fail):
    """MPI reports one as success, and only its status tells. The data here are whole, and there is
    room for more."""
    elements = prod(SIZE)
    said = f"short transfer: {elements // 2} of {elements} elements"

    def check(outcome, attempt):
        assert (outcome.done.code, outcome.error["rank"]) == (IO, 1)
        assert outcome.error["call"].startswith("MPI_File_write_at")
        assert outcome.error["message"] == f"{said}; a small write beside it succeeds"

    fail(
        [
            Attempt(Way("mpiio"), f"--operation {timed} --collective {collective}", library="short")
            for timed, collective in itertools.product(["write", "read"], ["yes", "no"])
        ],
        check,
    )


def test_no_properties_of_hdf5_are_left(mpirun, library_shim, directory):
    """A file's transfers are asked about after its close, and a run has many files."""
    done = mpirun(
        2, "--backend", "hdf5", "--operation", "write,read", "--local-size", 8, "--repeats", 2,
        "--chunk", 4, "--dir", directory,
        env={"LIBRARY_FAULT": "properties"}, launcher=["-x", f"LD_PRELOAD={library_shim}"],
    )  # fmt: skip
    assert done.code == 0, done.err
    assert re.findall(r"properties left: (-?\d+)", done.err) == ["0", "0"]
