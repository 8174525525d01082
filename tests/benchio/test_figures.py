"""Every figure can be computed again from the times, of writes and of reads, in every layout."""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, Run, each

from iowatch.checks import format_size

RANKS, ROUNDS = 3, 6
# Of a rank's block in each layout. Rank 0 gathers more than the 8 MiB that it moves at a time.
SIZES = {"shared": (32, 32, 32), "process": (32, 32, 32), "gather": (64, 64, 96)}
LAYOUTS = tuple(SIZES)
SLACK = 1 + 1e-6  # of what is said in decimal digits

Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def results(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Results:
    """Of a run in each layout, on this disk."""
    folder = tmp_path_factory.mktemp("figures")

    def start(files: str) -> None:
        directory = folder / files
        directory.mkdir()
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--operation", "write,read", "--files", files,
            "--local-size", format_size(SIZES[files]), "--warmup", 1, "--repeats", ROUNDS - 1,
            "--dir", directory, "--json", folder / f"{files}.json",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert list(directory.iterdir()) == [], "a file outlives the run"

    each(LAYOUTS, start)
    return {files: read_result(folder / f"{files}.json") for files in LAYOUTS}


def seconds_of(repetition: dict[str, Any], *names: str) -> list[float]:
    """The slowest rank's of these phases; 0 of one that this run does not have."""
    return [repetition["phases"].get(name, {"max": 0})["max"] for name in names]


@pytest.mark.parametrize("files", LAYOUTS)
def test_rounds_rotate(results: Results, files: str) -> None:
    cases = results[files]["cases"]
    asked = [(operation, name) for operation in ("write", "read") for name in BACKENDS]
    assert [(case["operation"], case["backend"]) for case in cases] == asked
    places = set()
    for case in cases:
        repetitions = case["repetitions"]
        assert [r["round"] for r in repetitions] == list(range(1, ROUNDS + 1))
        assert [r["warmup"] for r in repetitions] == [True] + [False] * (ROUNDS - 1)
        assert {r["verification"] for r in repetitions} == {"passed"}
        positions = {r["position"] for r in repetitions}
        assert len(positions) == len(BACKENDS), "the order does not rotate"
        places |= {(case["operation"], r["round"], r["position"]) for r in repetitions}
    assert places == {
        (operation, round_, place)
        for operation in ("write", "read")
        for round_ in range(1, ROUNDS + 1)
        for place in range(1, len(BACKENDS) + 1)
    }


@pytest.mark.parametrize("files", LAYOUTS)
def test_rates_follow_from_times(results: Results, files: str) -> None:
    """Gathering is inside the clock of the data rate and apart from the time of the write."""
    result = results[files]
    mebibytes = result["run"]["bytes"] / 2**20
    assert mebibytes == RANKS * prod(SIZES[files]) / 2**17
    for case in result["cases"]:
        moving = ("gather", "pack", case["operation"])
        rates = {"data": moving, "stable": (*moving, "sync")}
        if case["operation"] == "read":
            del rates["stable"]
        for repetition in case["repetitions"]:
            (total,) = seconds_of(repetition, "total")
            assert repetition["rates"]["total"] == pytest.approx(mebibytes / total)
            # The slowest rank of a sum is not slower than the sum of the slowest ranks.
            for rate, phases in rates.items():
                parts = seconds_of(repetition, *phases)
                seconds = mebibytes / repetition["rates"][rate]
                assert max(parts) <= seconds * SLACK
                assert seconds <= sum(parts) * SLACK
            assert (seconds_of(repetition, "gather") > [0]) == (files == "gather")
            means = {name: phase["mean"] for name, phase in repetition["phases"].items()}
            # From the start of open to the end of close.
            assert sum(means.values()) - means["total"] <= means["total"] * SLACK
            for phase in repetition["phases"].values():
                assert phase["min"] <= phase["mean"] * SLACK
                assert phase["mean"] <= phase["max"] * SLACK


@pytest.mark.parametrize("files", LAYOUTS)
def test_summaries_follow_from_repetitions(results: Results, files: str) -> None:
    for case in results[files]["cases"]:
        assert set(case["summary"]) == set(case["repetitions"][0]["rates"])
        for rate, summary in case["summary"].items():
            kept = np.array([r["rates"][rate] for r in case["repetitions"] if not r["warmup"]])
            q1, median, q3 = np.percentile(kept, [25, 50, 75])
            assert summary == pytest.approx(
                {
                    "count": ROUNDS - 1, "min": kept.min(), "q1": q1, "median": median, "q3": q3,
                    "max": kept.max(), "mean": kept.mean(), "cov": kept.std(ddof=1) / kept.mean(),
                }
            )  # fmt: skip


@pytest.mark.parametrize("files", LAYOUTS)
def test_what_is_resident_is_suspect(results: Results, files: str) -> None:
    """Whether this disk's filesystem drops its pages or not: the result says so."""
    # Others may have caches beside the kernel's.
    on_disk = results[files]["run"]["filesystem"]["type"] in ("ext4", "xfs", "btrfs")
    for case in results[files]["cases"]:
        if case["operation"] == "write":
            continue
        cache = case["cache"]
        assert cache["suspect"] == (cache["resident_fraction"] > 0.01 or not on_disk), case
        assert cache["other_node_fraction"] == 0
        assert 0 <= cache["shift"] < RANKS
