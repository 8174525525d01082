"""Promises of benchio on its system calls, watched from outside with strace."""

import itertools
import re
from collections import Counter
from math import prod

import pytest
import reference_data
from benchio.traces import all_calls, calls_on, rounds, watched
from conftest import (
    BACKENDS,
    FILES,
    MPI_IO,
    OMPIO,
    ONE_MPI_IO,
    RECORD,
    RUN_ID,
    THROUGH_MPIIO,
    compiled,
    files_of,
    kept_file,
    run_directory,
)

from iowatch.cases.parameters import format_size

RANKS, ROUNDS, EXTENT = 3, 2, 32
BYTES = RANKS * EXTENT**3 * 8
PAGE = 4096  # more than that may be read for the sake of O_DIRECT, at both ends


@pytest.fixture(scope="module")
def traced(need, mpirun, tmp_path_factory):
    """traced(ranks, options..., VARIABLE=...): the traces of a run that was well, and its
    directory."""

    def start(ranks, *options, component=MPI_IO[0], **env):
        folder = tmp_path_factory.mktemp("traced").resolve()
        directory, traces = folder / "files", folder / "traces"
        directory.mkdir()
        done = mpirun(
            ranks, *options, "--run-id", RUN_ID, "--dir", directory,
            "--json", folder / "result.json",
            launcher=watched(need, traces, **env), env={"OMPI_MCA_io": component},
        )  # fmt: skip
        if "refuses O_DIRECT" in done.err:
            pytest.skip("this filesystem refuses O_DIRECT")
        assert done.code == 0, done.err
        return traces, directory

    return start


# Component, and options that leave the witness what it is.
WRITES = [(MPI_IO[0], ""), (OMPIO, ""), (MPI_IO[0], "--flush --collective no")]


@pytest.fixture(scope="module", params=WRITES, ids=[MPI_IO[0], OMPIO, "flush"])
def writes(request, traced):
    """The options of a run of all backends, and its traces. Its blocks have rows that are parted in
    the file by the others' rows."""
    component, options = request.param
    traces, _ = traced(
        RANKS, "--backend", ",".join(BACKENDS), "--local-size", EXTENT, "--grid", f"{RANKS}x1x1",
        "--warmup", 0, "--repeats", ROUNDS, *options.split(), component=component,
    )  # fmt: skip
    calls = {backend: rounds(calls_on(traces, FILES[backend])) for backend in BACKENDS}
    assert {len(of_backend) for of_backend in calls.values()} == {ROUNDS}
    return component, options, calls


def test_one_rank_syncs_what_every_library_has_closed(writes):
    """Each file is synced once on the only node; with --flush a library syncs before its close."""
    _, options, calls = writes
    for backend, of_rounds in calls.items():
        for of_round in of_rounds:
            check_sync(of_round, backend, "--flush" in options)


def check_sync(calls, backend, flush):
    writes = [call for call in calls if call.kind == "write"]
    assert sum(call.value for call in writes) >= BYTES, backend
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
    elif backend != "netcdf":  # nc_enddef and nc_close sync, asked or not
        assert before == 0, backend


def test_every_rank_reads_one_slice_past_the_page_cache(writes):
    """Itself, after the sync, when the pages were dropped."""
    *_, calls = writes
    for backend, of_rounds in calls.items():
        for of_round in of_rounds:
            check_slices(of_round, backend)


def test_windows_end_where_blocks_do(traced):
    """HDF5's header is no block of the disk: a window that began behind it would take a second read
    past the page cache for its last bytes."""
    traces, _ = traced(
        1, "--backend", "hdf5", "--local-size", "256x256x64", "--warmup", 0, "--repeats", 1,
    )  # fmt: skip
    calls = calls_on(traces, FILES["hdf5"])
    synced = max(call.time for call in calls if call.kind == "sync")
    window = 8 * 2**20
    reads = [call for call in calls if call.kind == "read" and call.time > synced]
    data = [call.value for call in reads if call.value > window // 2]
    assert len(data) == 256 * 256 * 64 * 8 // window
    assert len([call for call in reads if call.value == PAGE]) <= 1, "the end of the slice"


def check_slices(calls, backend):
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
            is_of_it = (call.process, call.descriptor) == opened and call.time > time
            if is_of_it and "stat" not in call.name:
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
        assert BYTES // RANKS <= end - start <= BYTES // RANKS + 2 * PAGE, backend
    for (_, end), (start, _) in itertools.pairwise(slices):
        assert start <= end <= start + 2 * PAGE, backend


def test_collective_writes_are_not_every_ranks_own(writes):
    """Whatever a library tells of itself: where the ranks' rows alternate in the file, ROMIO has
    one process of a node write what all have; independent transfers are each rank's own."""
    component, options, calls = writes
    if component == OMPIO:
        return
    for backend in THROUGH_MPIIO:
        for of_round in calls[backend]:
            moved = Counter()
            for call in of_round:
                if call.kind == "write":
                    moved[call.process] += call.value
            # Another one may write what is the library's own.
            ranks = [process for process, count in moved.items() if count >= 8 * EXTENT**3]
            assert (len(ranks) == RANKS) == ("--collective no" in options), (backend, moved)


@pytest.mark.parametrize("component", ONE_MPI_IO)
def test_reads_are_of_other_ranks_files_and_from_the_disk(traced, component):
    """Their pages are dropped between the sync and the first read, and no rank reads its own."""
    traces, _ = traced(
        RANKS, "--backend", ",".join(BACKENDS), "--operation", "read", "--local-size", EXTENT,
        "--files", "process", "--warmup", 0, "--repeats", 1, component=component,
    )  # fmt: skip
    for name in itertools.chain(*(files_of(backend, RANKS) for backend in BACKENDS)):
        (calls,) = rounds(calls_on(traces, name))
        # Not what the libraries read and write of their own metadata.
        data = [call for call in calls if call.value > EXTENT**3]
        written = [call for call in data if call.kind == "write"]
        reads = [call for call in data if call.kind == "read"]
        drops = [call for call in calls if call.kind == "fadvise"]
        assert all("DONTNEED" in call.words for call in drops), name
        synced = max(call.time for call in calls if call.kind == "sync")
        first_read = min(call.time for call in reads)
        assert any(synced < drop.time < first_read for drop in drops), f"{name}: {drops}"
        # Once for the clock, once for the witness.
        assert sum(call.value for call in reads) >= 2 * 8 * EXTENT**3
        assert not {call.process for call in reads} & {call.process for call in written}, name


def test_readers_drop_pages_after_the_ranks_node_has_counted(traced, tmp_path):
    """A page that another process is just dropping looks as one that a sync has left."""
    shims = [str(compiled(f"{name}_shim.c", tmp_path)) for name in ("slow", "library")]
    faults = {"SLOW": "fadvise", "SLOW_S": "1", "SLOW_RANK": "1", "LIBRARY_FAULT": "nodes"}
    traces, _ = traced(
        2, "--backend", "posix", "--files", "process", "--local-size", 8, "--warmup", 0,
        "--repeats", 1, **faults, LD_PRELOAD=":".join(shims),
    )  # fmt: skip
    for name in files_of("posix", 2):
        calls = calls_on(traces, name)
        (writer,) = {call.process for call in calls if call.kind == "write"}
        drops = [call.process for call in calls if call.kind == "fadvise"]
        assert drops[0] == writer, name
        assert len(set(drops)) == 2, "the reader drops, too"


def test_random_rows_are_in_another_order(traced):
    """But in the same one in every round, or two would not compare."""
    in_order = [96 * row for row in range(40)]
    for order in ("strided", "random"):
        traces, _ = traced(
            1, "--backend", "posix", "--order", order, "--local-size", "12x40x1", "--halo", 0,
            "--repeats", 2, "--warmup", 0,
        )  # fmt: skip
        first, second = (
            [int(call.words.split(",")[-1]) for call in calls if call.kind == "write"]
            for calls in rounds(calls_on(traces, FILES["posix"]))
        )
        assert first == second
        assert sorted(first) == in_order
        assert (first == in_order) == (order == "strided")
        if order == "random":
            steps = {other - one for one, other in itertools.pairwise(first)}
            assert len(steps) > 20, "an order that reading ahead would see"


def test_direct_is_past_the_page_cache(traced, read_result):
    """Whatever moves data, of every rank; the copy to aligned memory is said. Halo and several
    pieces; planes along z, each of whole pages."""
    size = (512, 5, 7)
    traces, directory = traced(
        3, "--backend", "posix", "--global-size", format_size(size), "--grid", "1x1x3",
        "--halo", 2, "--direct", "--transfer", 20000, "--warmup", 0, "--repeats", 1,
        "--operation", "write-keep,read",
    )  # fmt: skip
    file = run_directory(directory) / kept_file("posix", 1)
    reference_data.check("posix", file, size, RUN_ID, 1)
    result = read_result(directory.parent / "result.json")
    assert result["run"]["direct"]
    for case in result["cases"]:
        assert set(case["repetitions"][0]["parts"]) == {"pack"}

    moved = {"write": 0, "read": 0}
    by_flags = {}  # of what is open
    for call in calls_on(traces, file.name):
        if call.kind == "open":
            by_flags[call.process, call.descriptor] = call.words
        elif call.kind in moved:
            assert "O_DIRECT" in by_flags[call.process, call.descriptor], call
            moved[call.kind] += call.value
    assert moved["write"] == 8 * prod(size)
    assert moved["read"] >= 2 * moved["write"], "the timed reading and the witness"


def test_a_record_outlives_a_power_cut(traced):
    """The names of the files and of their folder are synced, then the record, then its name."""
    traces, directory = traced(
        1, "--operation", "write-keep", "--warmup", 0, "--repeats", 1, "--backend", "posix",
        "--local-size", 8,
    )  # fmt: skip
    kept = run_directory(directory)
    record = re.escape(str(kept / RECORD))
    temporary = rf"{record}\.\d+\.tmp"
    folder, parent = (rf"\d+<{re.escape(str(path))}>" for path in (kept, directory))
    last = [
        call.words for call in all_calls(traces)
        if call.kind in ("sync", "rename") and str(directory) in call.words
    ][-5:]  # fmt: skip
    wanted = [folder, parent, rf"\d+<{temporary}>", rf'"{temporary}", "{record}"', folder]
    for words, pattern in zip(last, wanted, strict=True):
        assert re.fullmatch(pattern, words), last


def test_a_result_file_is_whole_or_absent(traced):
    """Written under another name, synced, and only then named."""
    traces, _ = traced(1, "--local-size", 8)
    kinds = [
        call.kind for call in all_calls(traces)
        if "/result.json" in call.words and call.kind in ("write", "sync", "rename")
    ]  # fmt: skip
    assert kinds[0] == "write"
    assert kinds[-2:] == ["sync", "rename"]


def test_who_looks_at_a_name_has_not_made_it(traced):
    """Nor has it renamed it. Names and contents were synced before, and differ in each round."""
    traces, _ = traced(2, "--operation", "metadata", "--items", 3, "--repeats", 2, "--warmup", 0)
    calls = [call for call in all_calls(traces) if "/metadata.round" in call.words]
    makers = {
        re.search(r"/f00000(\d)\.", call.words)[1]: call.process
        for call in calls
        if call.name.startswith("open") and "O_EXCL" in call.words
    }
    assert sorted(makers) == ["0", "1"]
    for rank, other in (("0", "1"), ("1", "0")):
        own = [call for call in calls if call.process == makers[rank]]
        first = [call for call in own if "/metadata.round1" in call.words]
        contents = {call.words.partition(">, ")[2] for call in own if call.name == "write"}
        assert len(contents) == 6, "3 items in 2 rounds"

        def of(call, name, calls=first):
            return [one for one in calls if one.name.startswith(call) and name in one.words]

        assert len(of("mkdir", f"/d00000{rank}.")) == len(of("rmdir", f"/d00000{rank}.")) == 3
        assert len(of("rename", f"/f00000{rank}.")) == len(of("unlink", f"/g00000{rank}.")) == 3
        created = [call for call in of("open", f"/f00000{rank}.") if "O_EXCL" in call.words]
        opened = [call for call in of("open", f"/g00000{other}.") if "O_RDONLY" in call.words]
        assert len(created) == len(opened) == 3
        assert not of("open", f"/g00000{rank}.")
        looked = [call for call in first if "stat" in call.name]
        assert sum(f"/f00000{other}." in call.words for call in looked) == 6  # there, then gone
        assert not any(f"/f00000{rank}." in call.words for call in looked)
        removed = max(call.time for call in of("rmdir", f"/d00000{rank}."))
        after = [call for call in looked if call.time > removed]
        assert sum(f"/d00000{other}." in call.words for call in after) == 3
        if rank == "0":
            (synced,) = of("syncfs", "")
            assert max(call.time for call in created) < synced.time < opened[0].time
            assert first[first.index(synced) + 1].name == "fsync", "and then the names"
