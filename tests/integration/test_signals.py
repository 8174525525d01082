"""A run that has to end early: complete rounds, marked, and nothing left behind."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, Run, finish

TIME_LIMIT = 5
ENDLESS = 100_000  # repetitions

Launch = Callable[..., subprocess.Popen[str]]
ReadResult = Callable[[Path], dict[str, Any]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    return files


def check(done: Run, result: dict[str, Any], directory: Path, cases: int) -> int:
    """What every run that ended early must show; the rounds that it has."""
    assert done.code == TIME_LIMIT, done.err
    assert len(done.errors) == 1, done.err
    assert result["status"] == "time_limit"
    assert result["error"]["message"] in done.errors[0]
    assert list(directory.iterdir()) == []
    assert len(result["cases"]) == cases
    rounds = [[rep["round"] for rep in case["repetitions"]] for case in result["cases"]]
    assert rounds == [list(range(1, len(rounds[0]) + 1))] * cases, "not only complete rounds"
    for case in result["cases"]:
        measured = sum(not rep["warmup"] for rep in case["repetitions"])
        assert {summary["count"] for summary in case["summary"].values()} == {measured}
    return len(rounds[0])


@pytest.mark.parametrize("files", ["shared", "process", "gather"])
def test_time_limit(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path, files: str
) -> None:
    result, begin = directory.parent / "result.json", time.monotonic()
    done = mpirun(
        3, "--backend", ",".join(BACKENDS), "--files", files, "--local-size", 16,
        "--repeats", ENDLESS, "--time-limit", 2, "--operation", "write,read",
        "--dir", directory, "--json", result,
    )  # fmt: skip
    assert time.monotonic() - begin < 15
    assert check(done, read_result(result), directory, 2 * len(BACKENDS)) > 1


def test_time_limit_that_is_not_reached(
    mpirun: Callable[..., Run], read_result: ReadResult, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    done = mpirun(
        2, "--local-size", 8, "--repeats", 3, "--time-limit", 60, "--dir", tmp_path,
        "--json", result,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert read_result(result)["status"] == "ok"
    assert read_result(result)["run"]["time_limit"] == 60


def wait_for(file: Path) -> None:
    """Until the run is in its rounds."""
    for _ in range(1000):
        if file.exists():
            return
        time.sleep(0.01)
    pytest.fail(f"{file} never came")


def test_warning_signal(launch: Launch, read_result: ReadResult, directory: Path) -> None:
    """SIGUSR1, which mpirun and srun forward to the ranks."""
    result = directory.parent / "result.json"
    process = launch(
        3, "--backend", "mpiio,stream", "--local-size", 32, "--repeats", ENDLESS,
        "--dir", directory, "--json", result,
    )  # fmt: skip
    wait_for(directory / "benchio.mpiio.dat")
    time.sleep(1)
    process.send_signal(signal.SIGUSR1)
    done = finish(process, 20)
    assert check(done, read_result(result), directory, 2) > 1


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM"])
def test_signal_to_one_rank(
    launch: Launch, read_result: ReadResult, directory: Path, name: str
) -> None:
    """All ranks must end in the same round, whichever of them knows."""
    result = directory.parent / "result.json"
    process = launch(
        3, "--local-size", 32, "--repeats", ENDLESS, "--dir", directory, "--json", result
    )
    wait_for(directory / "benchio.mpiio.dat")
    time.sleep(0.5)
    ranks = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(ranks) == 3
    subprocess.run(["kill", "-s", name.removeprefix("SIG"), ranks[-1]], check=True)
    assert check(finish(process, 20), read_result(result), directory, 1) > 1


def test_time_limit_in_the_warm_up(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path
) -> None:
    """Those rounds are complete too, but no figure follows from them."""
    result = directory.parent / "result.json"
    done = mpirun(
        2, "--local-size", 8, "--warmup", ENDLESS, "--time-limit", 1, "--dir", directory,
        "--json", result,
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    assert read_result(result)["status"] == "time_limit"
    for case in read_result(result)["cases"]:
        assert case["summary"] is None
        assert all(repetition["warmup"] for repetition in case["repetitions"])
    assert not re.search(r"nan|infinity", done.out, re.IGNORECASE)
    assert list(directory.iterdir()) == []


def test_last_verified_only(mpirun: Callable[..., Run], directory: Path) -> None:
    """The round that would have been verified never came, so there is nothing to report."""
    result = directory.parent / "result.json"
    done = mpirun(
        2, "--local-size", 8, "--repeats", ENDLESS, "--time-limit", 1, "--verify", "last",
        "--dir", directory, "--json", result,
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    assert "MiB/s" not in done.out
    assert json.loads(result.read_text())["cases"] == []
    assert list(directory.iterdir()) == []
