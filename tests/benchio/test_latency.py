"""`--operation latency`: what it measures, and what it leaves."""

import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import compiled
from many_runs import Plan, run_many

CALLS = {"open", "stat", "create", "write", "read", "list"}
FILE = 4096
#: Files that are there before the first cycle that counts.
STANDING = 32
ONE_SECOND = ["--operation", "latency", "--seconds", 1, "--repeats", 1, "--warmup", 0]


@pytest.fixture
def in_memory():
    made = Path(tempfile.mkdtemp(prefix="iowatch-latency.", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def test_each_call_has_its_quantiles_and_every_byte_is_confirmed(new_directory, in_memory):
    """In memory, the result says that no read was cold."""
    on_disk, memory = run_many(
        [Plan(1, ONE_SECOND), Plan(1, ONE_SECOND, directory=in_memory)], new_directory
    )
    for outcome in (on_disk, memory):
        assert outcome.done.code == 0, outcome.done.err
        assert list(outcome.directory.iterdir()) == []
        result = outcome.result
        assert (result["run"]["seconds"], result["run"]["bytes"]) == (1, FILE)
        (one,) = result["cases"]
        assert (one["operation"], one["backend"], one["cache"]) == ("latency", "posix", None)
        (rep,) = one["repetitions"]
        cycles = rep["phases"]["open"]["operations"]
        assert 1 <= cycles <= 101, "at most a hundred cycles a second"
        assert rep["witness"]["bytes"] == rep["file_bytes"] == FILE * (STANDING + cycles)
        assert set(rep["phases"]) == set(rep["latency"]["calls"]) == CALLS
        assert 0 < rep["latency"]["clock"] < 1e-3
        for name, figures in rep["latency"]["calls"].items():
            phase, (middle, low, high) = rep["phases"][name], figures["p50"]
            assert phase["operations"] == sum(figures["buckets"]) == cycles
            assert low is None or low <= middle
            assert high is None or middle <= high
            assert middle <= figures["p99"][0] <= figures["p999"][0] <= figures["longest"]
            assert figures["p999"][2] is None, "so few calls do not tell"
            assert figures["longest"] <= phase["window"]
            ends = [1e-7 * 10 ** (figures["first_bucket"] / 20 + n / 20) for n in (-1, 0)]
            assert ends[0] < middle or figures["first_bucket"] == 0
    assert memory.result["cases"][0]["repetitions"][0]["latency"]["cold"] is False
    assert memory.result["cases"][0]["repetitions"][0]["witness"]["page_cache_fraction"] == 1


def test_a_delay_is_in_its_own_call(new_directory, tmp_path):
    """A sync that takes long is in no other call's time."""
    shim, delay = compiled("slow_shim.c", tmp_path), 0.02
    env = {"SLOW": "fsync", "SLOW_S": delay}
    (outcome,) = run_many([Plan(1, ONE_SECOND, env)], new_directory, shim)
    assert outcome.done.code == 0, outcome.done.err
    calls = outcome.result["cases"][0]["repetitions"][0]["latency"]["calls"]
    assert calls["write"]["p50"][1] >= delay
    assert max(calls[name]["p50"][0] for name in CALLS - {"write"}) < delay


def test_it_has_one_rank(mpirun):
    done = mpirun(2, *ONE_SECOND)
    assert (done.code, done.errors) == (
        2, ["--operation latency takes one rank, not 2"]
    )  # fmt: skip
