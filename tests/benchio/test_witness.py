"""The witness of a run that is well: what it reads, and what it says of itself. What it sees of one
that is not is in tests/faults."""

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchio.traces import Call, calls_on, rounds, watched
from conftest import BACKENDS, FILES, MPI_IO, Run, each

RANKS, EXTENT = 3, 32
BYTES = RANKS * EXTENT**3 * 8
SLICE = BYTES // RANKS
PAGE = 4096  # more than that may be read for the sake of O_DIRECT, at both ends

ReadResult = Callable[[Path], dict[str, Any]]


def options(directory: Path, result: Path, *more: object) -> list[object]:
    """Blocks whose rows are parted in the file by the others' rows."""
    return [
        "--backend", ",".join(BACKENDS), "--local-size", EXTENT, "--grid", f"{RANKS}x1x1",
        "--warmup", 0, "--repeats", 2, "--dir", directory, "--json", result, *more,
    ]  # fmt: skip


def witnesses_of(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The backend and the witness of every repetition."""
    for case in result["cases"]:
        for repetition in case["repetitions"]:
            yield case["backend"], repetition["witness"]


def test_every_rank_reads_one_slice_past_the_page_cache(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Itself, after the sync, when the pages were dropped."""

    def check(component: str) -> None:
        directory = new_directory()
        traces = directory.parent / "traces"
        done = mpirun(
            RANKS, *options(directory, directory.parent / "result.json"),
            launcher=watched(need, traces), env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert done.code == 0, done.err
        for backend in BACKENDS:
            for of_round in rounds(calls_on(traces, FILES[backend])):
                check_round(of_round, backend)

    each(MPI_IO, check)


def check_round(calls: list[Call], backend: str) -> None:
    sync = max(call.time for call in calls if call.kind == "sync")
    drop = max(call.time for call in calls if call.kind == "fadvise")
    assert drop > sync, backend
    direct = {
        (call.process, call.descriptor): call.time for call in calls
        if call.kind == "open" and call.time > sync and "O_DIRECT" in call.words
    }  # fmt: skip
    assert len({process for process, _ in direct}) == RANKS, backend
    slices = []
    for opened, time in direct.items():
        parts = []
        for call in calls:
            if (call.process, call.descriptor) == opened and call.time > time:
                if call.kind == "close":
                    break
                assert call.name == "pread64", f"{backend}: {call}"
                offset = re.search(r", (\d+)$", call.words)
                assert offset, call
                parts.append((int(offset[1]), int(offset[1]) + call.value))
        assert drop < time, backend
        slices.append((min(start for start, _ in parts), max(end for _, end in parts)))
    slices.sort()
    for start, end in slices:
        assert SLICE <= end - start <= SLICE + 2 * PAGE, backend
    for (_, end), (start, _) in itertools.pairwise(slices):
        assert start <= end <= start + 2 * PAGE, backend


def test_what_the_witness_says_of_itself(
    mpirun: Callable[..., Run], read_result: ReadResult, new_directory: Callable[[], Path]
) -> None:
    """On a disk nothing is left in memory; chunks are not where one could read them."""

    def check(case: tuple[str, str]) -> None:
        operations, chunk = case
        directory = new_directory()
        file = directory.parent / "result.json"
        done = mpirun(RANKS, *options(directory, file, "--operation", operations, *chunk.split()))
        assert done.code == 0, done.err
        result = read_result(file)
        if result["run"]["filesystem"]["type"] not in ("ext4", "xfs"):
            pytest.skip("the files are on no disk here")
        found = list(witnesses_of(result))
        assert len(found) == 2 * len(BACKENDS) * len(operations.split(","))
        for backend, witness in found:
            in_chunks = bool(chunk) and backend in ("hdf5", "netcdf")
            method = "through the library" if in_chunks else "pread"
            assert (witness["method"], witness["direct"]) == (method, not in_chunks), backend
            assert witness["bytes"] == result["run"]["bytes"] == BYTES
            # What of the file the library itself had to look at is small.
            assert witness["page_cache_fraction"] <= (0.05 if in_chunks else 0), backend
            assert witness["unsynced_fraction"] == 0, backend
            assert witness["other_node_fraction"] == 0

    each([("write", ""), ("read", ""), ("write,read", "--chunk 16x16x16")], check)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory whose files never leave memory."""
    folder = Path(tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def test_witness_in_memory_says_so(
    mpirun: Callable[..., Run], read_result: ReadResult, memory: Path
) -> None:
    """Also where the filesystem takes O_DIRECT and makes nothing of it, as tmpfs does since Linux
    6.6."""
    done = mpirun(RANKS, *options(memory, memory / "result.json"))
    assert done.code == 0, done.err
    for backend, witness in witnesses_of(read_result(memory / "result.json")):
        assert witness["page_cache_fraction"] > 0.99, backend
        assert witness["unsynced_fraction"] is None, "there is no storage below it"


def test_witness_in_memory_is_not_past_the_page_cache(
    mpirun: Callable[..., Run], read_result: ReadResult, memory: Path
) -> None:
    """There O_DIRECT is refused, or taken in name alone."""
    done = mpirun(RANKS, *options(memory, memory / "result.json"))
    assert done.code == 0, done.err
    for backend, witness in witnesses_of(read_result(memory / "result.json")):
        assert witness["direct"] is False, backend
    assert "past the page cache" not in done.out


LAYOUTS = [
    "--files process --local-size 17",
    "--files 2 --local-size 8",
    "--files gather --global-size 9x5x7",
    "--instances 2 --local-size 8",
    "--global-size 4x1x1",
    "--local-size 64 --transfer 4KiB",
]


def test_files_of_other_layouts(
    mpirun: Callable[..., Run], read_result: ReadResult, new_directory: Callable[[], Path]
) -> None:
    """All of them are read, whoever has written them and however few elements there are."""

    def check(more: str) -> None:
        directory = new_directory()
        file = directory.parent / "result.json"
        done = mpirun(
            4, "--backend", ",".join(BACKENDS), "--warmup", 0, "--repeats", 1, *more.split(),
            "--dir", directory, "--json", file,
        )  # fmt: skip
        assert done.code == 0, done.err
        result = read_result(file)
        (plain,) = (rep for case in result["cases"] for rep in case["repetitions"]
                    if case["backend"] == "posix")  # fmt: skip
        assert plain["file_bytes"] == result["run"]["bytes"], "of all files"
        for backend, witness in witnesses_of(result):
            assert witness["bytes"] == result["run"]["bytes"], backend
            assert witness["method"] == "pread", backend

    each(LAYOUTS, check)
