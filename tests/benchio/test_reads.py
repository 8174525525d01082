"""Reads: never from the page cache unnoticed."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, MPI_IO, Run, each, files_of

RANKS = 3


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
            "--local-size", 32, "--repeats", 2, "--dir", directory, "--json", result,
        )  # fmt: skip
        assert done.code == 0, done.err
        cases = read_result(result)["cases"]
        assert [(case["operation"], case["backend"]) for case in cases] == [
            ("read", backend) for backend in BACKENDS
        ]
        for case in cases:
            assert case["cache"]["suspect"], case["backend"]
            assert case["cache"]["resident_fraction"] > 0.99, case["backend"]
            assert case["cache"]["other_node_fraction"] == 0
        assert list(directory.iterdir()) == []

    each(["shared", "process", "gather"], check)


def test_pages_are_dropped_before_a_read(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Of every file, and between its last sync and its first read."""
    strace = need("strace")

    def check(component: str) -> None:
        directory = new_directory()
        traces = directory.parent / "traces"
        traces.mkdir()
        launcher = [
            strace, "-ff", "--seccomp-bpf", "-ttt", "-y", "-e",
            "trace=fadvise64,fsync,read,pread64,readv,preadv", "-o", str(traces / "rank"),
        ]  # fmt: skip
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--local-size", 32,
            "--files", "process", "--warmup", 0, "--repeats", 1, "--dir", directory,
            launcher=launcher, env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert done.code == 0, done.err
        trace = "\n".join(file.read_text() for file in traces.iterdir())
        for backend in BACKENDS:
            for name in files_of(backend, RANKS):
                check_trace(trace, name)

    each(MPI_IO, check)


def check_trace(trace: str, name: str) -> None:
    """The calls on a file."""
    calls = re.findall(rf"^([\d.]+) (\w+)\(\d+<[^>]*/{name}>(.*)$", trace, re.MULTILINE)
    data = [
        (float(time), call)
        for time, call, rest in sorted(calls)
        # not what the libraries read of their own metadata
        if "read" not in call or int(rest.rsplit("=", 1)[1]) > 32**3
    ]
    drops = [time for time, call in data if call == "fadvise64"]
    assert drops, f"{name}: {data}"
    assert all("DONTNEED" in rest for _, call, rest in calls if call == "fadvise64")
    assert max(time for time, call in data if call == "fsync") < max(drops)
    assert max(drops) < max(time for time, call in data if "read" in call)
