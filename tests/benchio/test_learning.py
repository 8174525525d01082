"""`--operation samples`, `startup`, `checkpoint`: what they do and measure, and what they leave."""

import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import each
from many_runs import Plan, run_many

from iowatch.measure.kinds.learning import CALLS

RANKS, SAMPLES, FILES = 3, 40, 70
#: As file_set.c has the sizes of a tree's files.
TREE = sum((5 << file.bit_count()) * (16 - file % 8) for file in range(FILES))


@pytest.fixture
def in_memory():
    made = Path(tempfile.mkdtemp(prefix="iowatch-learning.", dir="/dev/shm"))
    places = [made / name / "files" for name in ("samples", "startup")]
    for place in places:
        place.mkdir(parents=True)
    yield places
    shutil.rmtree(made)


def samples(per_file, ranks=RANKS, **more):
    options = ["--operation", "samples", "--items", SAMPLES, "--sample", 1200, "--repeats", 2]
    written = ranks * SAMPLES * 1200
    of = (ranks * SAMPLES, written, written)
    return Plan(ranks, [*options, "--per-file", per_file], of=of, **more)


def tree(ranks=RANKS, **more):
    options = ["--operation", "startup", "--items", FILES, "--repeats", 2]
    of = (ranks * FILES, min(ranks, 2) * TREE, ranks * TREE)
    return Plan(ranks, options, of=of, **more)


def checkpoint(ranks=RANKS, shard=128 * 1024, **more):
    options = ["--operation", "checkpoint", "--items", 2, "--sample", shard, "--repeats", 2]
    return Plan(ranks, options, of=(3 * ranks, 3 * ranks * shard), **more)


def test_a_checkpoint_is_synced_and_read_by_fewer(new_directory, in_memory):
    """Both are timed in each round, and all bytes are confirmed."""

    def check(outcome):
        reads, written = outcome.plan.of
        assert outcome.done.code == 0, outcome.done.err
        assert list(outcome.directory.iterdir()) == []
        assert outcome.result["run"]["operations"] == ["checkpoint", "restart"]
        assert outcome.result["run"]["bytes"] == written
        write, read = outcome.result["cases"]
        assert (write["operation"], write["cache"]) == ("checkpoint", None)
        for one in (write, read):
            assert [rep["round"] for rep in one["repetitions"]] == [1, 2, 3]
            for rep in one["repetitions"]:
                assert (rep["witness"]["bytes"], rep["file_bytes"]) == (written, written)
                rate, phase = ("stable",) * 2 if one is write else ("total", "read")
                mib = rep["rates"][rate] * rep["phases"][phase]["window"]
                assert mib == pytest.approx(written / 2**20, 1e-6)
        for rep in write["repetitions"]:
            phases = {"open", "write", "close", "total", "sync", "stable"}
            assert (set(rep["phases"]), rep["parts"]) == (phases, {})
        for rep in read["repetitions"]:
            assert set(rep["phases"]) == {"read", "total"}
            assert rep["phases"]["read"]["operations"] == reads
            assert set(rep["parts"]) == {"open", "read", "close", "check"}

    plans = [checkpoint(), checkpoint(4, 1200), checkpoint(1)]
    plans += [checkpoint(directory=in_memory[0])]
    each(run_many(plans, new_directory), check, at_once=1)


def test_what_was_written_is_read_once_and_confirmed(new_directory, in_memory):
    """In few files and in many, on a disk and in memory, by one rank and by several."""

    def check(outcome):
        reads, written, moved = outcome.plan.of
        assert outcome.done.code == 0, outcome.done.err
        assert list(outcome.directory.iterdir()) == []
        result = outcome.result
        assert result["run"]["bytes"] == written
        (one,) = result["cases"]
        assert one["backend"] == "posix"
        assert [rep["round"] for rep in one["repetitions"]] == [1, 2, 3]
        for rep in one["repetitions"]:
            phases = rep["phases"]
            assert (set(phases), phases["read"]["operations"]) == ({"read", "total"}, reads)
            assert phases["read"]["rate"] == pytest.approx(reads / phases["read"]["window"], 1e-6)
            mib = rep["rates"]["total"] * phases["total"]["window"]
            assert mib == pytest.approx(moved / 2**20, 1e-6)
            witness = rep["witness"]
            assert (witness["bytes"], rep["file_bytes"]) == (written, written)
            calls = {*CALLS, "check"} - ({"stat"} if "samples" in outcome.plan.options else set())
            assert set(rep["parts"]) == calls
            in_calls = sum(rep["parts"][call]["mean"] for call in calls)
            assert in_calls == pytest.approx(phases["read"]["mean"], rel=0.5, abs=0.01)

    plans = [samples(16), samples(1), tree(), samples(500, 1), tree(1)]
    plans += [samples(16, directory=in_memory[0]), tree(directory=in_memory[1])]
    each(run_many(plans, new_directory), check, at_once=1)


def test_what_was_read_was_not_in_memory(read_result, new_directory):
    """On a disk: the kernel has forgotten the files, whoever wrote them."""
    for outcome in run_many([samples(16), tree(), checkpoint(4)], new_directory):
        *_, one = outcome.result["cases"]
        assert one["cache"]["page_cache_fraction"] == 0.0
        assert one["cache"]["suspect"] is False
