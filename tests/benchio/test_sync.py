"""What the sync phase promises, watched from outside with strace."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

from benchio.traces import Call, calls_on, rounds, watched
from conftest import BACKENDS, FILES, MPI_IO, Run, each

RANKS, ROUNDS, EXTENT = 2, 3, 16


def test_one_rank_syncs_what_every_library_has_closed(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Once a file, on the one node that there is; with --flush every library before its close,
    too."""

    def check(case: tuple[str, str]) -> None:
        component, flush = case
        directory = new_directory()
        traces = directory.parent / "traces"
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--local-size", EXTENT, *flush.split(),
            "--warmup", 1, "--repeats", ROUNDS - 1, "--dir", directory,
            launcher=watched(need, traces), env={"OMPI_MCA_io": component},
        )  # fmt: skip
        assert done.code == 0, done.err
        for backend in BACKENDS:
            calls = rounds(calls_on(traces, FILES[backend]))
            assert len(calls) == ROUNDS, backend
            for of_round in calls:
                check_round(of_round, backend, bool(flush))

    each(itertools.product(MPI_IO, ["", "--flush"]), check)


def check_round(calls: list[Call], backend: str, flush: bool) -> None:
    writes = [call for call in calls if call.kind == "write"]
    assert sum(call.value for call in writes) >= RANKS * EXTENT**3 * 8, backend
    syncs = [call for call in calls if call.kind == "sync"]
    written = {(call.process, call.descriptor) for call in writes}
    closes = [
        call.time for call in calls
        if call.kind == "close" and (call.process, call.descriptor) in written
        and call.time < syncs[-1].time
    ]  # fmt: skip
    assert len(closes) >= len(written), f"{backend}: the last sync is before a writer's close"
    assert max(call.time for call in writes) < min(max(closes), syncs[-1].time), backend
    after = [call for call in syncs if call.time > max(closes)]
    assert len(after) == 1, backend
    before = len(syncs) - len(after)
    if flush:
        assert before > 0, backend
    elif backend != "netcdf":  # nf90_enddef and nf90_close sync, asked or not
        assert before == 0, backend


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
