"""What `--sync` promises, watched from outside with strace."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

from conftest import BACKENDS, FILES, MPI_IO, Run, each

RANKS, ROUNDS = 2, 3
SUPERBLOCK = 512  # HDF5 marks the file as closed there, after any sync


def calls(traces: Path, name: str) -> list[list[tuple[str, int]]]:
    """For each process that touched the file: its system calls on it and what they returned."""
    pattern = re.compile(rf"^(\w+)\(\d+<[^>]*{re.escape(name)}>.* = (\d+)$", re.MULTILINE)
    found = [pattern.findall(trace.read_text()) for trace in sorted(traces.iterdir())]
    return [[(call, int(value)) for call, value in process] for process in found if process]


def test_sync_reaches_the_filesystem(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    strace = need("strace")

    def check(case: tuple[str, str]) -> None:
        component, sync = case
        directory = new_directory()
        traces = directory.parent / "traces"
        traces.mkdir()
        launcher = [
            strace, "-ff", "--seccomp-bpf", "-y", "-e",
            "trace=write,pwrite64,writev,pwritev,fsync,fdatasync", "-o", str(traces / "rank"),
        ]  # fmt: skip
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--local-size", 16, "--sync", sync,
            "--warmup", 1, "--repeats", ROUNDS - 1, "--dir", directory, launcher=launcher,
            env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert done.code == 0, done.err
        for backend in BACKENDS:
            check_calls(calls(traces, FILES[backend]), backend, sync)

    each(itertools.product(MPI_IO, ["data", "none"]), check)


def check_calls(processes: list[list[tuple[str, int]]], backend: str, sync: str) -> None:
    syncs = sum("sync" in call for process in processes for call, _ in process)
    written = sum(n for process in processes for call, n in process if "write" in call)
    assert written >= ROUNDS * RANKS * 16**3 * 8, backend
    if sync == "data":
        assert syncs >= ROUNDS * RANKS, backend
        for process in processes:
            assert not unsynced(process), f"{backend}: {process[-5:]}"
    elif backend != "netcdf":  # nf90_enddef and nf90_close sync, asked or not
        assert syncs == 0, backend


def test_result_file_is_whole_or_absent(
    need: Callable[[str], str], mpirun: Callable[..., Run], tmp_path: Path
) -> None:
    """Written under another name, synced, and only then named."""
    trace = tmp_path / "trace"
    strace = [
        need("strace"), "-y", "-e", "trace=write,fsync,rename,renameat,renameat2", "-o", str(trace),
    ]  # fmt: skip
    done = mpirun(
        1, "--local-size", 8, "--dir", tmp_path, "--json", tmp_path / "result.json",
        launcher=strace,
    )  # fmt: skip
    assert done.code == 0, done.err
    calls = re.findall(r"^(write|fsync|rename)\w*\(.*result\.json.*= \d+$", trace.read_text(), re.M)
    assert calls[0] == "write"
    assert calls[-2:] == ["fsync", "rename"]


def unsynced(process: list[tuple[str, int]]) -> list[int]:
    """Sizes of a process's writes of data after its last sync."""
    sizes: list[int] = []
    for call, value in process:
        if "sync" in call:
            sizes.clear()
        elif value > SUPERBLOCK:
            sizes.append(value)
    return sizes
