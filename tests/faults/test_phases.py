"""The phase that is slow has the blame, and nobody is faster for having begun late."""

from math import prod

import pytest
from conftest import BACKENDS, compiled, each
from faults.attempts import RANKS, SIZE, places, small
from many_runs import result_of

DELAY = 2  # seconds: a busy machine takes less for what is not slow

SHIMS = ("slow", "library")

#: What is slow, by that much: backend, what slow_shim.c knows it by, options, the rank.
LATE = "--files process --instances 3"
CASES = {
    **{f"late {backend}": (backend, "open", LATE, "1") for backend in BACKENDS},
    # It is not the first rank of its instance.
    "late second": ("posix", "open", "--files process --instances 2", "1"),
    "asking": ("hdf5", "asking", "", None),
    "start": ("posix", "gmtime_r", "", "1"),
    "phase barrier": ("posix", "open", "--files process --phase-barrier", "1"),
    "reopen": ("posix", "reopen", "", "0"),
    "barrier": ("posix", "barrier", "--files process", "1"),
    # Each rank is on a node of its own.
    "nodes": ("posix", "barrier", "--files process", "1"),
    "sync on nodes": ("mpiio", "fsync", "", "1"),
    **{f"close {slow}": ("hdf5", slow, "", None)
       for slow in ("MPI_File_set_size", "H5Fclose", "metadata")},
    **{f"flush {slow}": ("hdf5", slow, "--flush", None)
       for slow in ("MPI_File_set_size", "H5Fflush")},
}  # fmt: skip


@pytest.fixture(scope="module")
def repetitions(mpirun, read_result, tmp_path_factory):
    """Of a run of each case: they only wait, all at one time."""
    shims = [compiled(f"{name}_shim.c", tmp_path_factory.mktemp("shim")) for name in SHIMS]
    repetitions = {}

    def start(name):
        backend, slow, options, rank = CASES[name]
        directory = tmp_path_factory.mktemp("slow") / "files"
        directory.mkdir()
        delay = DELAY / 2 if slow == "metadata" else DELAY  # of which there are several pieces
        env = {"SLOW": slow, "SLOW_S": str(delay), **({"SLOW_RANK": rank} if rank else {})}
        if name.endswith("nodes"):
            env["LIBRARY_FAULT"] = "nodes"
        done = mpirun(
            4 if name == "late second" else RANKS,
            *small(backend), *places(directory), *options.split(), "--repeats", 1, env=env,
            launcher=["-x", f"LD_PRELOAD={':'.join(map(str, shims))}"],
        )  # fmt: skip
        assert done.code == 0, done.err
        (case,) = read_result(result_of(directory))["cases"]
        (repetitions[name],) = case["repetitions"]

    each(CASES, start, at_once=len(CASES))
    return repetitions


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_creates_its_file_late(repetitions, backend):
    """It writes when the others have written: no rate is of what was written at one time, but of
    what all wrote from the first that began to the last that ended."""
    repetition = repetitions[f"late {backend}"]
    phases, rates = repetition["phases"], repetition["rates"]
    mib = rates["total"] * phases["total"]["window"]
    assert phases["open"]["slowest_rank"] == 1
    assert phases["open"]["max"] > 0.9 * DELAY > phases["write"]["max"]
    assert phases["write"]["file_window"] < 0.9 * DELAY < phases["write"]["window"]
    assert phases["write"]["window"] <= phases["total"]["window"]
    assert rates["data"] == pytest.approx(mib / phases["write"]["window"])
    assert rates["data"] < 2 * rates["total"]
    assert repetition["instances"][1] < min(repetition["instances"][::2]), "it alone is late"


def test_an_instance_takes_as_long_as_its_slowest_rank(repetitions):
    slow, quick = repetitions["late second"]["instances"]
    mib = 2 * prod(SIZE) * 8 / 2**20  # of each
    whole = repetitions["late second"]["phases"]["total"]["by_ranks"]
    assert whole > 0.9 * DELAY
    assert slow == pytest.approx(mib / whole, rel=0.1)
    assert quick > 2 * slow


def test_a_rank_that_is_late_for_the_start_is_waited_for(repetitions):
    """The clock starts when all are there."""
    assert repetitions["start"]["phases"]["total"]["window"] < 0.9 * DELAY


def test_what_only_the_result_wants_to_know_is_asked_after_the_clock(repetitions):
    assert repetitions["asking"]["phases"]["stable"]["window"] < 0.9 * DELAY


@pytest.mark.parametrize("case", ["barrier", "nodes"])
def test_a_rank_that_leaves_the_start_late(repetitions, case):
    """No window is shorter for that. On a node all ranks have one clock; between nodes that of rank
    0 shows it, and the result says that they differ."""
    repetition = repetitions[case]
    total, mib = repetition["phases"]["total"], RANKS * prod(SIZE) * 8 / 2**20
    assert total["window"] > 0.9 * DELAY
    assert repetition["rates"]["total"] == pytest.approx(mib / total["window"])
    assert (total["by_ranks"] < 0.9 * DELAY) == (case == "nodes")
    assert total["by_rank_0"] > 0.9 * DELAY
    assert repetition["clocks_agree"] == (case == "barrier")


def test_a_node_that_syncs_late_shows_among_the_nodes(repetitions):
    """What it takes, and what it had to write: the others had as much. They wait for it in no
    phase but their agreement."""
    nodes = repetitions["sync on nodes"]["nodes"]
    assert set(nodes) == {"mib", "write", "sync"}
    assert {figure["nodes"] for figure in nodes.values()} == {RANKS}
    assert nodes["mib"]["each"] == [pytest.approx(prod(SIZE) * 8 / 2**20)] * RANKS
    assert [seconds > 0.9 * DELAY for seconds in nodes["sync"]["each"]] == [False, True, False]
    assert nodes["sync"]["quantiles"][4] == nodes["sync"]["each"][1]
    assert nodes["sync"]["quantiles"][2] < 0.9 * DELAY


def test_what_lies_between_close_and_sync_counts(repetitions):
    """Nobody's phase is slow, and a user waits all the same."""
    phases, rates = repetitions["reopen"]["phases"], repetitions["reopen"]["rates"]
    mib = rates["total"] * phases["total"]["window"]
    assert max(phases["total"]["window"], phases["sync"]["window"]) < 0.9 * DELAY
    assert phases["stable"]["between"] > 0.9 * DELAY > phases["total"]["between"]
    assert rates["stable"] == pytest.approx(mib / phases["stable"]["window"])
    assert rates["stable"] < mib / DELAY


def test_a_phase_barrier_gives_the_late_rank_the_blame(repetitions):
    phases = repetitions["phase barrier"]["phases"]
    assert phases["open"]["window"] > 0.9 * DELAY > phases["write"]["window"]


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("close")])
def test_a_close_that_is_slow(repetitions, case):
    """Not the sync, although HDF5 sets the size of its file in its own flush, too."""
    phases = repetitions[case]["phases"]
    assert phases["close"]["window"] > 0.9 * DELAY > phases["sync"]["window"]


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("flush")])
def test_a_flush_that_was_asked_for_is_slow(repetitions, case):
    """As a phase of its own; the sync takes what the filesystem takes."""
    phases = repetitions[case]["phases"]
    assert phases["flush"]["window"] > 0.9 * DELAY > phases["sync"]["window"]


def test_a_rank_sends_what_is_gathered_once_it_is_asked_to(
    mpirun, read_result, directory, tmp_path
):
    """While rank 0 writes, MPI would keep there all that others have sent: their whole array."""
    at_once = {"eager_limit": 2400000, "max_send_size": 2400000}  # bytes: a part has 2 MiB
    shim = compiled("slow_shim.c", tmp_path)
    done = mpirun(
        4, "--files", "gather", "--local-size", "64x128x512", "--grid", "4x1x1", "--halo", 0,
        "--warmup", 0, "--repeats", 1, *places(directory), launcher=["-x", f"LD_PRELOAD={shim}"],
        env={
            "SLOW": "MPI_File_write_at_all", "SLOW_S": "0.02", "OMPI_MCA_btl": "self,tcp",
            **{f"OMPI_MCA_btl_tcp_{name}": str(value) for name, value in at_once.items()},
        },
    )  # fmt: skip
    assert done.code == 0, done.err
    memory = read_result(result_of(directory))["memory"]
    assert memory["field_mib"] == 32
    assert memory["peak_rss_mib"] - 32 < 3 * 32, "what three others have; MPI takes 50 MiB"
