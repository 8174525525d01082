"""Files of the real benchio, read by independent readers and compared bit for bit."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import reference_data
from conftest import (
    BACKENDS,
    FILES,
    MPI_IO,
    RECORD,
    RUN_ID,
    Run,
    each,
    files_of,
    kept_file,
    run_directory,
)

ReadResult = Callable[[Path], dict[str, Any]]
NewDirectory = Callable[[], Path]


class Array(NamedTuple):
    """A whole array, and how it is written."""

    ranks: int
    size: tuple[int, int, int]
    halo: int
    grid: tuple[int, int, int] | None  # None: automatic
    options: str
    last_round: int  # the files are left from


ARRAYS = [
    Array(1, (1, 1, 1), 0, None, "--transfer 8", 1),
    Array(1, (7, 5, 3), 2, None, "", 1),
    Array(2, (13, 11, 9), 1, (2, 1, 1), "--run-id A-z_09", 1),
    Array(2, (13, 11, 9), 1, (2, 1, 1), "--transfer 16", 1),  # two elements, of rows of six
    Array(2, (1101, 1003, 2), 0, None, "--transfer 1MiB", 1),  # a plane alone exceeds it
    Array(3, (7, 8, 10), 2, (3, 1, 1), "--repeats 3", 3),
    Array(3, (1024, 512, 4), 1, (1, 1, 3), "--transfer 4MiB", 1),  # ranks have one piece or two
    Array(4, (17, 33, 65), 0, (2, 2, 1), "--warmup 1 --repeats 2", 3),
    Array(4, (17, 33, 65), 0, (2, 2, 1), "--transfer 1000", 1),  # 13 rows of 8, 15 of 9: no planes
    Array(4, (5, 9, 4), 1, (1, 1, 4), f"--run-id {'i' * 64}", 1),
    Array(5, (11, 13, 6), 1, (1, 5, 1), "--transfer 10KiB", 1),
    Array(5, (64, 65, 66), 2, None, "", 1),
    Array(6, (1, 1, 6), 2, None, "", 1),  # an element a rank
    Array(6, (31, 29, 7), 0, (3, 2, 1), "--warmup 2", 3),
    Array(6, (128, 100, 90), 1, (1, 2, 3), "", 1),  # larger than a collective buffer
]


def words(size: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in size)


def test_files_hold_the_documented_values(
    mpirun: Callable[..., Run], read_result: ReadResult, new_directory: NewDirectory
) -> None:
    def check(case: tuple[Array, str]) -> None:
        (ranks, size, halo, grid, more, last_round), component = case
        directory = new_directory()
        json = directory.parent / "result.json"
        options = f"--warmup 0 --repeats 1 --run-id {RUN_ID} {more}"
        given = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
        shape = ["--grid", words(grid)] if grid else []
        done = mpirun(
            ranks, "--backend", ",".join(BACKENDS), "--global-size", words(size), "--halo", halo,
            *shape, *(word for pair in given.items() for word in pair),
            "--dir", directory, "--json", json, "--operation", "write-keep",
            env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert (done.code, done.errors) == (0, []), done.err

        run_id = given["--run-id"]
        assert list(directory.iterdir()) == [run_directory(directory, run_id)]
        kept = {file.name for file in run_directory(directory, run_id).iterdir()}
        first = int(given["--warmup"]) + 1
        assert kept - {RECORD} == {
            kept_file(backend, n) for backend in BACKENDS for n in range(first, last_round + 1)
        }
        for backend in BACKENDS:
            file = run_directory(directory, run_id) / kept_file(backend, last_round)
            reference_data.check(backend, file, size, run_id, last_round)

        result = read_result(json)
        ran = result["run"]
        assert result["status"] == "ok"
        assert result["environment"]["OMPI_MCA_io"] == component
        assert [case["backend"] for case in result["cases"]] == list(BACKENDS)
        assert (ran["writers"], ran["global_size"], ran["halo"]) == (ranks, list(size), halo)
        assert ran["bytes"] == 8 * np.prod(size)
        assert np.prod(ran["grid"]) == ranks
        assert grid is None or ran["grid"] == list(grid)
        assert ran["id"] == run_id

    each(itertools.product(ARRAYS, MPI_IO), check)


def test_local_size_is_what_each_rank_writes(
    mpirun: Callable[..., Run], read_result: ReadResult, tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    options = ["--grid", "3x2x1", "--repeats", 1, "--dir", tmp_path, "--json", json]

    assert mpirun(6, "--local-size", "4x5x7", *options).code == 0
    assert read_result(json)["run"]["file_size"] == [12, 10, 7]
    assert mpirun(6, "--local-size", 3, *options).code == 0
    ran = read_result(json)["run"]
    assert (ran["local_size"], ran["file_size"], ran["bytes"]) == ([3] * 3, [9, 6, 3], 8 * 162)


def test_no_two_files_have_a_value_in_common(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path
) -> None:
    """At one place: whoever reads a file of another round, backend or run for this one sees it.
    The runs meet in one directory, and each has one of its own in it."""
    size, files = (8, 8, 8), 2
    json = directory.parent / "result.json"
    arrays = {}
    named = [(["--run-id", "first"], 1), (["--run-id", "second"], 2)]
    for given, rounds in [*named, ([], 1), ([], 1)]:
        done = mpirun(
            2, "--backend", ",".join(BACKENDS), "--local-size", words(size), "--files", files,
            "--warmup", 0, "--repeats", rounds, "--operation", "write-keep", *given,
            "--dir", directory, "--json", json,
        )  # fmt: skip
        assert done.code == 0, done.err
        run_id = read_result(json)["run"]["id"]
        if given:
            assert run_id == given[-1]
        else:
            assert len(run_id) == 16
            assert set(run_id) <= set("0123456789abcdef")
        for backend in BACKENDS:
            for file, name in enumerate(files_of(backend, files, rounds)):
                path = run_directory(directory, run_id) / name
                reference_data.check(backend, path, size, run_id, rounds, file)
                arrays[run_id, backend, file] = reference_data.READERS[backend](path, size)
    assert len(arrays) == 4 * len(BACKENDS) * files, "two runs have the same random id"
    # The round is in it, too.
    arrays["second", "mpiio", -1] = reference_data.array(
        size, reference_data.key_of("second", "mpiio", 0, 1)
    )
    for one, other in itertools.combinations(arrays, 2):
        assert not np.any(arrays[one] == arrays[other]), (one, other)


def test_run_id_is_taken_once(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path
) -> None:
    """The second run neither touches nor takes for its own what the first has left; and what is
    beside it is nobody's business."""
    json = directory.parent / "result.json"
    other = directory / FILES["mpiio"]
    other.write_text("somebody's")
    options = [
        "--backend", ",".join(BACKENDS), "--local-size", 4, "--warmup", 0, "--repeats", 2,
        "--run-id", RUN_ID, "--dir", directory, "--json", json,
    ]  # fmt: skip
    of_run = run_directory(directory)
    assert mpirun(2, *options, "--operation", "write-keep").code == 0
    before = {file: file.read_bytes() for file in of_run.iterdir()}
    assert {file.name for file in before} == {RECORD} | {
        kept_file(backend, n) for backend in BACKENDS for n in (1, 2)
    }
    for more in ([], ["--operation", "write-keep"]):
        done = mpirun(2, *options, *more)
        assert done.code == 3, done.err
        assert len(done.errors) == 1, done.err
        assert f"mkdir: {of_run}: exists already" in done.errors[0]
        assert "round" not in done.err
        assert read_result(json)["status"] == "io_error"
        assert {file: file.read_bytes() for file in of_run.iterdir()} == before
    for file in before:
        file.unlink()
    of_run.rmdir()
    assert mpirun(2, *options).code == 0
    assert list(directory.iterdir()) == [other]
    assert other.read_text() == "somebody's"
