"""Reads: verified like writes, and never from the page cache unnoticed."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, FILES, Run, files_of, injected

RANKS = 3
BYTES = RANKS * 32**3 * 8
IO, VERIFICATION, TIME_LIMIT = 3, 4, 5

ReadResult = Callable[[Path], dict[str, Any]]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory whose files never leave memory."""
    folder = Path(tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def read_cases(result: dict[str, Any]) -> list[dict[str, Any]]:
    cases = [case for case in result["cases"] if case["operation"] == "read"]
    assert [case["backend"] for case in cases] == list(BACKENDS)
    return cases


@pytest.mark.parametrize("files", ["shared", "process", "gather"])
def test_read_from_memory_is_suspect(
    mpirun: Callable[..., Run], read_result: ReadResult, memory: Path, files: str
) -> None:
    """All of it is resident on the node that reads, and nothing can drop it."""
    result = memory / "result.json"
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--files", files,
        "--local-size", 32, "--repeats", 2, "--dir", memory, "--json", result,
    )  # fmt: skip
    assert done.code == 0, done.err
    for case in read_cases(read_result(result)):
        assert case["cache"]["suspect"], case["backend"]
        assert case["cache"]["resident_fraction"] > 0.99, case["backend"]
        assert case["cache"]["other_node_fraction"] == 0
    assert list(memory.iterdir()) == [result]


@pytest.mark.parametrize("files", ["shared", "process", "gather"])
def test_what_is_resident_is_suspect(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path, files: str
) -> None:
    """Whether this disk's filesystem drops its pages or not: the result says so."""
    result = directory.parent / "result.json"
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--operation", "write,read", "--files", files,
        "--local-size", 64, "--repeats", 2, "--dir", directory, "--json", result,
    )  # fmt: skip
    assert done.code == 0, done.err
    # others may have caches beside the kernel's
    on_disk = read_result(result)["run"]["filesystem"]["type"] in ("ext4", "xfs", "btrfs")
    for case in read_cases(read_result(result)):
        cache = case["cache"]
        assert cache["suspect"] == (cache["resident_fraction"] > 0.01 or not on_disk), case
        assert cache["other_node_fraction"] == 0
        assert 0 <= cache["shift"] < RANKS
    assert list(directory.iterdir()) == []


@pytest.mark.usefixtures("io_component")
def test_pages_are_dropped_before_a_read(
    need: Callable[[str], str], mpirun: Callable[..., Run], directory: Path
) -> None:
    """Of every file, and between its last sync and its first read."""
    traces = directory.parent / "traces"
    traces.mkdir()
    strace = [
        need("strace"), "-ff", "--seccomp-bpf", "-ttt", "-y", "-e",
        "trace=fadvise64,fsync,read,pread64,readv,preadv", "-o", str(traces / "rank"),
    ]  # fmt: skip
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--local-size", 32,
        "--files", "process", "--warmup", 0, "--repeats", 1, "--dir", directory, launcher=strace,
    )  # fmt: skip
    assert done.code == 0, done.err

    trace = "\n".join(file.read_text() for file in traces.iterdir())
    for backend in BACKENDS:
        for name in files_of(backend, RANKS):
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


def test_figures_of_reads_follow_from_times(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path
) -> None:
    result = directory.parent / "result.json"
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--local-size", 32,
        "--repeats", 3, "--dir", directory, "--json", result,
    )  # fmt: skip
    assert done.code == 0, done.err
    data = read_result(result)
    mebibytes = data["run"]["bytes"] / 2**20
    assert [case["operation"] for case in data["cases"]] == ["read"] * len(BACKENDS)
    for case in data["cases"]:
        for repetition in case["repetitions"]:
            phases = {name: phase["max"] for name, phase in repetition["phases"].items()}
            moved = [phases.get("pack", 0), phases["read"]]
            seconds = mebibytes / repetition["rates"]["data"]
            assert max(moved) <= seconds * (1 + 1e-6)
            assert seconds <= sum(moved) * (1 + 1e-6)
            assert repetition["rates"]["total"] == pytest.approx(mebibytes / phases["total"])
            assert repetition["verification"] == "passed"


@pytest.mark.parametrize("operations", ["read", "write,read"])
@pytest.mark.parametrize(("fault", "code"), [("flip", VERIFICATION), ("truncate", IO)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_damage_between_write_and_read(
    mpirun: Callable[..., Run],
    read_result: ReadResult,
    shim: Path,
    directory: Path,
    backend: str,
    operations: str,
    fault: str,
    code: int,
) -> None:
    result = directory.parent / "result.json"
    done = mpirun(
        RANKS, "--backend", backend, "--operation", operations, "--local-size", 32,
        "--dir", directory, "--json", result,
        **injected(shim, fault, directory / FILES[backend], BYTES, RANK="all"),
    )  # fmt: skip
    assert done.code == code, done.err
    assert len(done.errors) == 1, done.err
    assert FILES[backend] in done.errors[0]
    assert "MiB/s" not in done.out
    assert read_result(result)["cases"] == []
    assert list(directory.iterdir()) == []


def test_hang_while_pages_are_dropped(
    mpirun: Callable[..., Run], shim: Path, directory: Path
) -> None:
    """Outside the clock, but not outside the watchdog's time."""
    done = mpirun(
        RANKS, "--operation", "read", "--sync", "none", "--local-size", 32, "--phase-limit", 1,
        "--dir", directory, timeout=20,
        **injected(shim, "sleep-in-sync", directory / FILES["mpiio"], BYTES, RANK="all"),
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    assert "MiB/s" not in done.out
    assert list(directory.iterdir()) == []
