"""The witness of a run that is well: what it says of itself, and of what never leaves memory. Its
system calls are in test_traces.py; what it sees of a run that is not well is in tests/faults."""

import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import BACKENDS
from many_runs import Plan, run_many

RANKS, EXTENT = 3, 32


def plan(*more, directory=None):
    """Plan a run whose blocks have rows that are parted in the file by the others' rows."""
    backends = ["--backend", ",".join(BACKENDS), "--local-size", EXTENT]
    return Plan(RANKS, [*backends, "--warmup", 0, "--repeats", 2, *more], directory=directory)


def test_what_the_witness_tells_of_itself(new_directory):
    """On a disk nothing is left in memory; chunks are not where one could read them."""
    more = [("write", ""), ("read", ""), ("write,read", "--chunk 16x16x16")]
    plans = [plan("--operation", timed, *chunk.split()) for timed, chunk in more]
    for (timed, chunk), outcome in zip(more, run_many(plans, new_directory), strict=True):
        assert outcome.done.code == 0, outcome.done.err
        result = outcome.result
        cases = result["cases"]
        if result["run"]["filesystem"]["type"] not in ("ext4", "xfs"):
            pytest.skip("the files are on no disk here")
        assert len(cases) == len(BACKENDS) * len(timed.split(","))
        for case in cases:
            in_chunks = bool(chunk) and case["backend"] in ("hdf5", "netcdf")
            method = "through the library" if in_chunks else "pread"
            for repetition in case["repetitions"]:
                witness = repetition["witness"]
                assert (witness["method"], witness["direct"]) == (method, not in_chunks), case
                assert witness["bytes"] == result["run"]["bytes"] == RANKS * EXTENT**3 * 8
                # What of the file the library itself had to look at is small.
                assert witness["page_cache_fraction"] <= (0.05 if in_chunks else 0), case
                assert witness["unsynced_fraction"] == 0, case
                assert witness["other_node_byte_fraction"] == 0


LAYOUTS = ("shared", "process", "gather")


@pytest.fixture(scope="module")
def in_memory():
    """The outcome of a run in each layout whose files never leave memory."""
    folder = Path(tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm"))
    directories = [folder / files / "files" for files in LAYOUTS]
    for directory in directories:
        directory.mkdir(parents=True)
    plans = [
        plan("--operation", "write,read", "--files", files, directory=directory)
        for files, directory in zip(LAYOUTS, directories, strict=True)
    ]
    ran = [(outcome.done, outcome.result["cases"]) for outcome in run_many(plans, Path)]
    assert [file for directory in directories for file in directory.iterdir()] == []
    shutil.rmtree(folder)
    return ran


def test_a_witness_in_memory_tells_so(in_memory):
    """Also where the filesystem takes O_DIRECT and makes nothing of it, as tmpfs does since Linux
    6.6; where it refuses it, nobody reads past the page cache."""
    for done, cases in in_memory:
        for witness in (rep["witness"] for case in cases for rep in case["repetitions"]):
            assert witness["page_cache_fraction"] > 0.99
            assert witness["unsynced_fraction"] is None, "there is no storage below it"
            assert witness["direct"] is False
        assert "past the page cache" not in done.out


def test_a_read_from_memory_is_suspect(in_memory):
    """All of it is resident on the node that reads, and nothing can drop it."""
    for _, cases in in_memory:
        reads = [case for case in cases if case["operation"] == "read"]
        assert [case["backend"] for case in reads] == list(BACKENDS)
        for case in reads:
            assert case["cache"]["suspect"], case["backend"]
            assert case["cache"]["page_cache_fraction"] > 0.99, case["backend"]
            assert case["cache"]["other_node_byte_fraction"] == 0
