"""Reads: never from the page cache unnoticed."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchio.traces import Call, calls_on, rounds, watched
from conftest import BACKENDS, MPI_IO, Run, each, files_of

RANKS, EXTENT = 3, 32


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory whose files never leave memory."""
    folder = Path(tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def test_read_from_memory_is_suspect(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], memory: Path
) -> None:
    """All of it is resident on the node that reads, and nothing can drop it."""

    def check(files: str) -> None:
        directory, result = memory / files, memory / f"{files}.json"
        directory.mkdir()
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--files", files,
            "--local-size", EXTENT, "--repeats", 2, "--dir", directory, "--json", result,
        )  # fmt: skip
        assert done.code == 0, done.err
        cases = read_result(result)["cases"]
        assert [(case["operation"], case["backend"]) for case in cases] == [
            ("read", backend) for backend in BACKENDS
        ]
        for case in cases:
            assert case["cache"]["suspect"], case["backend"]
            assert case["cache"]["page_cache_fraction"] > 0.99, case["backend"]
            assert case["cache"]["other_node_fraction"] == 0
        assert list(directory.iterdir()) == []

    each(["shared", "process", "gather"], check)


def test_reads_are_of_other_ranks_files_and_from_the_disk(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Their pages are dropped between the sync and the first read, and no rank reads its own."""

    def check(component: str) -> None:
        directory = new_directory()
        traces = directory.parent / "traces"
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--local-size", EXTENT,
            "--files", "process", "--warmup", 0, "--repeats", 1, "--dir", directory,
            launcher=watched(need, traces), env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert done.code == 0, done.err
        for backend in BACKENDS:
            for name in files_of(backend, RANKS):
                (calls,) = rounds(calls_on(traces, name))
                check_calls(calls, name)

    each(MPI_IO, check)


def check_calls(calls: list[Call], name: str) -> None:
    def of(kind: str) -> list[Call]:
        return [call for call in calls if call.kind == kind]

    # Not what the libraries read and write of their own metadata.
    data = [call for call in of("read") + of("write") if call.value > EXTENT**3]
    writes = [call for call in data if call.kind == "write"]
    reads = [call for call in data if call.kind == "read"]
    drops = of("fadvise")
    assert all("DONTNEED" in call.words for call in drops), name
    synced, first_read = of("sync")[-1].time, min(call.time for call in reads)
    assert any(synced < drop.time < first_read for drop in drops), f"{name}: {drops}"
    # Once for the clock, once for the witness.
    assert sum(call.value for call in reads) >= 2 * 8 * EXTENT**3
    assert not {call.process for call in reads} & {call.process for call in writes}, name
