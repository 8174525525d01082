"""Files of the real benchio, read by independent readers and compared bit for bit."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_data
from conftest import BACKENDS, FILES, Run

# ranks, whole size, halo, grid (None: automatic), further options, round the files are left from
CASES = [
    (1, (1, 1, 1), 0, None, "", 1),
    (1, (7, 5, 3), 2, None, "", 1),
    (2, (13, 11, 9), 1, (2, 1, 1), "--seed 7", 1),
    (2, (1101, 1003, 3), 0, None, "", 1),  # a plane alone exceeds netcdf's slab
    (3, (7, 8, 10), 2, (3, 1, 1), "--repeats 3", 3),
    (3, (1024, 512, 8), 1, (1, 1, 3), "", 1),  # ranks have different numbers of slabs
    (4, (17, 33, 65), 0, (2, 2, 1), "--warmup 1 --repeats 2", 3),
    (4, (5, 9, 4), 1, (1, 1, 4), "--seed 2147483646", 1),
    (5, (11, 13, 6), 1, (1, 5, 1), "--verify last", 1),
    (5, (64, 65, 66), 2, None, "--sync none", 1),
    (6, (1, 1, 6), 2, None, "", 1),  # an element a rank
    (6, (31, 29, 7), 0, (3, 2, 1), "--warmup 2", 3),
    (6, (128, 100, 90), 1, (1, 2, 3), "", 1),  # larger than a collective buffer
]


def words(size: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in size)


@pytest.mark.usefixtures("io_component")
@pytest.mark.parametrize(
    ("ranks", "size", "halo", "grid", "options", "last_round"),
    CASES,
    ids=[f"{ranks}-{words(size)}-halo{halo}" for ranks, size, halo, *_ in CASES],
)
def test_files_hold_the_documented_values(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    ranks: int,
    size: tuple[int, int, int],
    halo: int,
    grid: tuple[int, int, int] | None,
    options: str,
    last_round: int,
) -> None:
    options = f"--warmup 0 --repeats 1 --seed 1 {options}"
    given = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
    shape = ["--grid", words(grid)] if grid else []
    done = mpirun(
        ranks, "--backend", ",".join(BACKENDS), "--global-size", words(size), "--halo", halo,
        *shape, *(word for pair in given.items() for word in pair),
        "--dir", tmp_path, "--json", tmp_path / "result.json", "--keep",
    )  # fmt: skip
    assert (done.code, done.errors) == (0, []), done.err

    for backend in BACKENDS:
        file = tmp_path / FILES[backend]
        reference_data.check(backend, file, size, int(given["--seed"]), last_round)

    result = read_result(tmp_path / "result.json")
    ran = result["run"]
    assert result["status"] == "ok"
    assert [case["backend"] for case in result["cases"]] == list(BACKENDS)
    assert (ran["writers"], ran["global_size"], ran["halo"]) == (ranks, list(size), halo)
    assert ran["bytes"] == 8 * np.prod(size)
    assert np.prod(ran["grid"]) == ranks
    assert grid is None or ran["grid"] == list(grid)
    assert (ran["sync"], ran["verify"]) == (
        given.get("--sync", "data"),
        given.get("--verify", "all"),
    )


def test_local_size_is_what_each_rank_writes(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    options = ["--grid", "3x2x1", "--repeats", 1, "--dir", tmp_path, "--json", json]

    assert mpirun(6, "--local-size", "4x5x7", *options).code == 0
    assert read_result(json)["run"]["file_size"] == [12, 10, 7]
    assert mpirun(6, "--local-size", 3, *options).code == 0
    ran = read_result(json)["run"]
    assert (ran["local_size"], ran["file_size"], ran["bytes"]) == ([3] * 3, [9, 6, 3], 8 * 162)


def test_figures_follow_from_times(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    """Rounds rotate, no file outlives the run, and every figure can be computed again."""
    files, json = tmp_path / "files", tmp_path / "result.json"
    files.mkdir()
    done = mpirun(
        2, "--backend", "netcdf,mpiio,hdf5", "--local-size", 32, "--repeats", 5, "--warmup", 1,
        "--dir", files, "--json", json,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert list(files.iterdir()) == []

    result = read_result(json)
    mebibytes = result["run"]["bytes"] / 2**20
    assert mebibytes == 0.5
    places = set()
    for case in result["cases"]:
        repetitions = case["repetitions"]
        assert [r["round"] for r in repetitions] == [1, 2, 3, 4, 5, 6]
        assert [r["warmup"] for r in repetitions] == [True] + [False] * 5
        assert {r["verification"] for r in repetitions} == {"passed"}
        places |= {(r["round"], r["position"]) for r in repetitions}
        assert len({r["position"] for r in repetitions}) == 3, "the order does not rotate"
        for r in repetitions:
            slowest = {phase: seconds["max"] for phase, seconds in r["phases"].items()}
            assert r["rates"]["total"] == pytest.approx(mebibytes / slowest["total"])
            # the slowest rank of a sum is not slower than the sum of the slowest ranks
            for rate, phases in (
                ("data", ("pack", "write")),
                ("stable", ("pack", "write", "sync")),
            ):
                parts = [slowest.get(phase, 0) for phase in phases]
                seconds = mebibytes / r["rates"][rate]
                assert max(parts) <= seconds * (1 + 1e-6)
                assert seconds <= sum(parts) * (1 + 1e-6)
            means = {phase: seconds["mean"] for phase, seconds in r["phases"].items()}
            total = means.pop("total")  # from the start of open to the end of close
            assert sum(means.values()) <= total * (1 + 1e-6)
            for seconds in r["phases"].values():
                assert seconds["min"] <= seconds["mean"] * (1 + 1e-6)
                assert seconds["mean"] <= seconds["max"] * (1 + 1e-6)
        for rate, summary in case["summary"].items():
            kept = np.array([r["rates"][rate] for r in repetitions if not r["warmup"]])
            q1, median, q3 = np.percentile(kept, [25, 50, 75])
            assert summary == pytest.approx(
                {
                    "count": 5, "min": kept.min(), "q1": q1, "median": median, "q3": q3,
                    "max": kept.max(), "mean": kept.mean(), "cov": kept.std(ddof=1) / kept.mean(),
                }
            )  # fmt: skip
    assert places == {(round_, place) for round_ in range(1, 7) for place in (1, 2, 3)}


def test_unverified_run_has_no_rate(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    done = mpirun(2, "--local-size", 8, "--verify", "none", "--dir", tmp_path, "--json", json)
    assert done.code == 0
    assert read_result(json)["status"] == "unverified"  # and the schema then forbids any rate
    assert re.search(r"^write mpiio( +-){4} ", done.out, re.MULTILINE), done.out
