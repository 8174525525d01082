"""`--operation metadata`: what it measures, and what it leaves."""

import shutil
import tempfile
from pathlib import Path

import pytest
from many_runs import Plan, run_many

PHASES = ("mkdir", "create", "stat", "list", "rename", "read", "unlink", "rmdir")
RANKS, ITEMS = 3, 50
#: The file of item i holds 1 to 4 words of 8 bytes.
BYTES = RANKS * sum(8 * (1 + item % 4) for item in range(ITEMS))


@pytest.fixture
def in_memory():
    made = Path(tempfile.mkdtemp(prefix="iowatch-metadata.", dir="/dev/shm"))
    (made / "files").mkdir()
    yield made / "files"
    shutil.rmtree(made)


def test_every_phase_has_the_rate_of_its_operations(read_result, new_directory, in_memory):
    """Rates hold on a disk and in memory, in one directory and in a directory of each rank."""
    options = ["--operation", "metadata", "--items", ITEMS, "--repeats", 3, "--files"]
    plans = [
        Plan(RANKS, [*options, files], directory=place)
        for place in (None, in_memory)
        for files in ("shared", "process")
    ]
    for outcome in run_many(plans, new_directory):
        assert outcome.done.code == 0, outcome.done.err
        assert list(outcome.directory.iterdir()) == []
        result = outcome.result
        assert (result["run"]["items"], result["run"]["bytes"]) == (ITEMS, BYTES)
        (one,) = result["cases"]
        assert (one["operation"], one["backend"], one["cache"]) == ("metadata", "posix", None)
        assert [rep["round"] for rep in one["repetitions"]] == [1, 2, 3, 4]
        # One list is of the node's first rank, of all names; or each rank's, of its partner's.
        wanted = dict.fromkeys(PHASES, RANKS * ITEMS) | {"list": RANKS * 2 * ITEMS}
        for rep in one["repetitions"]:
            phases = rep["phases"]
            assert set(phases) == {*PHASES, "sync"}
            assert {name: phases[name]["operations"] for name in PHASES} == wanted
            for name in PHASES:
                phase = phases[name]
                assert phase["rate"] == pytest.approx(phase["operations"] / phase["window"], 1e-6)
                assert phase["window"] >= phase["max"] > 0
            assert rep["witness"]["names"] == 2 * RANKS * ITEMS
            assert rep["witness"]["bytes"] == BYTES
            assert rep["rates"] == {}
        assert all(f"\n    {name} " in outcome.done.out for name in PHASES)
