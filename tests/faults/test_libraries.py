"""Faults of the I/O libraries themselves: one rank's, and one that no return code tells."""

import itertools
import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, each
from faults.attempts import IO, RANKS, SIZE, VERIFICATION, few_mib, no_rate, result_of


@pytest.fixture
def spoil(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    library_shim: Path,
    new_directory: Callable[[], Path],
) -> Callable[..., Run]:
    """spoil("nc_enddef", "netcdf", options...): such a run, long before --phase-limit ends it.
    Checked for what it must show."""

    def start(call: str, backend: str, *options: object, ranks: int = RANKS, **env: str) -> Run:
        directory = new_directory()
        result = result_of(directory)
        done = mpirun(
            ranks, *few_mib(backend, directory, result), *options, timeout=30,
            env={"LIBRARY_FAULT": call, **env}, launcher=["-x", f"LD_PRELOAD={library_shim}"],
        )  # fmt: skip
        assert no_rate(done)
        assert len(done.errors) == 1, done.err
        assert read_result(result)["cases"] == []
        assert list(directory.iterdir()) == []
        return done

    return start


# Backend, call that fails on one rank, how benchio names it.
DEFINING = [
    ("hdf5", "H5Dcreate2", "H5Dcreate"),
    ("netcdf", "nc_def_var_fill", "nf90_def_var_fill"),
    ("netcdf", "nc_enddef", "nf90_enddef"),
    ("netcdf", "nc_var_par_access", "nf90_var_par_access"),
    ("pnetcdf", "ncmpi_enddef", "nf90mpi_enddef"),
]


def test_one_rank_fails_to_define(spoil: Callable[..., Run]) -> None:
    """The others are in the next collective call by then, and must not wait there for ever."""

    def check(case: tuple[tuple[str, str, str], str]) -> None:
        (backend, call, named), collective = case
        done = spoil(call, backend, "--collective", collective)
        assert done.code == IO, done.err
        assert re.match(rf"rank 1 on \S+: {named}: /", done.errors[0]), done.errors

    each(itertools.product(DEFINING, ["yes", "no"]), check)


def test_first_rank_fails_to_define_for_all(spoil: Callable[..., Run]) -> None:
    """It alone has the file open, and the others must not send it their data."""
    done = spoil("H5Dcreate2", "hdf5", "--files", "gather", LIBRARY_RANK="0")
    assert done.code == IO, done.err
    assert re.match(r"rank 0 on \S+: H5Dcreate: /", done.errors[0]), done.errors


def test_what_a_library_says_is_of_each_dataset_and_operation(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    library_shim: Path,
    directory: Path,
) -> None:
    """One dataset whose place is not known is enough; and a read has a transfer of its own."""
    options = ["--operation", "write,read", "--pattern", "variables=2", "--repeats", 1]
    done = mpirun(
        RANKS, *few_mib("hdf5", directory, result_of(directory)), *options,
        env={"LIBRARY_FAULT": "apart"}, launcher=["-x", f"LD_PRELOAD={library_shim}"],
    )  # fmt: skip
    assert done.code == 0, done.err
    write, read = read_result(result_of(directory))["cases"]
    assert write["repetitions"][0]["witness"]["method"] == "through the library"
    assert write["collective"]["observed"] == "collective"
    assert read["collective"]["observed"].startswith("independent")


def test_read_that_reads_nothing(spoil: Callable[..., Run]) -> None:
    """Every rank has just written the values that it is to read: they must be gone by then. Of
    chunks the witness, too, reads through the library."""

    def check(options: str) -> None:
        done = spoil("H5Dread", "hdf5", *options.split())
        assert done.code == VERIFICATION, done.err

    each(["--operation read", "--chunk 32x32x32"], check)


def test_read_that_reads_nothing_of_a_single_rank(spoil: Callable[..., Run]) -> None:
    """It reads its own block, and would find it in memory where it was written from."""
    for options in (["--operation", "read"], ["--chunk", "32x32x32"]):
        done = spoil("H5Dread", "hdf5", *options, ranks=1)
        assert done.code == VERIFICATION, done.err


def test_transfer_that_is_short(spoil: Callable[..., Run]) -> None:
    """MPI reports one as success, and only its status tells. The data here are whole, and there is
    room for more."""

    def check(case: tuple[str, str]) -> None:
        operation, collective = case
        done = spoil("short", "mpiio", "--operation", operation, "--collective", collective)
        assert done.code == IO, done.err
        elements = prod(SIZE)
        said = (
            f": short transfer: {elements // 2} of {elements} elements"
            "; a small write beside it succeeds"
        )
        assert re.match(r"rank 1 on \S+: MPI_File_write_at", done.errors[0]), done.errors
        assert done.errors[0].endswith(said), done.errors

    each(itertools.product(["write", "read"], ["yes", "no"]), check)
