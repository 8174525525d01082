"""Files of the real benchio, read by independent readers and compared bit for bit."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import reference_data
from conftest import BACKENDS, FILES, MPI_IO, Run, each


class Array(NamedTuple):
    """A whole array, and how it is written."""

    ranks: int
    size: tuple[int, int, int]
    halo: int
    grid: tuple[int, int, int] | None  # None: automatic
    options: str
    last_round: int  # the files are left from


ARRAYS = [
    Array(1, (1, 1, 1), 0, None, "", 1),
    Array(1, (7, 5, 3), 2, None, "", 1),
    Array(2, (13, 11, 9), 1, (2, 1, 1), "--seed 7", 1),
    Array(2, (1101, 1003, 2), 0, None, "", 1),  # a plane alone exceeds netcdf's slab
    Array(3, (7, 8, 10), 2, (3, 1, 1), "--repeats 3", 3),
    Array(3, (1024, 512, 4), 1, (1, 1, 3), "", 1),  # ranks have different numbers of slabs
    Array(4, (17, 33, 65), 0, (2, 2, 1), "--warmup 1 --repeats 2", 3),
    Array(4, (5, 9, 4), 1, (1, 1, 4), "--seed 2147483646", 1),
    Array(5, (11, 13, 6), 1, (1, 5, 1), "--verify last", 1),
    Array(5, (64, 65, 66), 2, None, "--sync none", 1),
    Array(6, (1, 1, 6), 2, None, "", 1),  # an element a rank
    Array(6, (31, 29, 7), 0, (3, 2, 1), "--warmup 2", 3),
    Array(6, (128, 100, 90), 1, (1, 2, 3), "", 1),  # larger than a collective buffer
]


def words(size: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in size)


def test_files_hold_the_documented_values(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
) -> None:
    def check(case: tuple[Array, str]) -> None:
        (ranks, size, halo, grid, more, last_round), component = case
        directory = new_directory()
        json = directory.parent / "result.json"
        options = f"--warmup 0 --repeats 1 --seed 1 {more}"
        given = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
        shape = ["--grid", words(grid)] if grid else []
        done = mpirun(
            ranks, "--backend", ",".join(BACKENDS), "--global-size", words(size), "--halo", halo,
            *shape, *(word for pair in given.items() for word in pair),
            "--dir", directory, "--json", json, "--keep", env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert (done.code, done.errors) == (0, []), done.err

        for backend in BACKENDS:
            file = directory / FILES[backend]
            reference_data.check(backend, file, size, int(given["--seed"]), last_round)

        result = read_result(json)
        ran = result["run"]
        assert result["status"] == "ok"
        assert result["environment"]["OMPI_MCA_io"] == component
        assert [case["backend"] for case in result["cases"]] == list(BACKENDS)
        assert (ran["writers"], ran["global_size"], ran["halo"]) == (ranks, list(size), halo)
        assert ran["bytes"] == 8 * np.prod(size)
        assert np.prod(ran["grid"]) == ranks
        assert grid is None or ran["grid"] == list(grid)
        assert (ran["sync"], ran["verify"]) == (
            given.get("--sync", "data"),
            given.get("--verify", "all"),
        )

    each(itertools.product(ARRAYS, MPI_IO), check)


def test_local_size_is_what_each_rank_writes(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    options = ["--grid", "3x2x1", "--repeats", 1, "--dir", tmp_path, "--json", json]

    assert mpirun(6, "--local-size", "4x5x7", *options).code == 0
    assert read_result(json)["run"]["file_size"] == [12, 10, 7]
    assert mpirun(6, "--local-size", 3, *options).code == 0
    ran = read_result(json)["run"]
    assert (ran["local_size"], ran["file_size"], ran["bytes"]) == ([3] * 3, [9, 6, 3], 8 * 162)


def test_unverified_run_has_no_rate(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    done = mpirun(
        2, "--backend", ",".join(BACKENDS), "--operation", "write,read", "--local-size", 8,
        "--verify", "none", "--dir", tmp_path, "--json", json,
    )  # fmt: skip
    assert done.code == 0
    assert read_result(json)["status"] == "unverified"  # and the schema then forbids any rate
    for operation in ("write", "read"):
        for backend in BACKENDS:
            row = rf"^{operation} +{backend}( +-){{4}} "
            assert re.search(row, done.out, re.MULTILINE), done.out
