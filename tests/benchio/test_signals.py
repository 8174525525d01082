"""A run that has to end early: complete rounds, marked, and nothing left behind."""

import os
import re
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import BACKENDS, Run, each, finish

TIME_LIMIT = 5
ENDLESS = 10_000  # repetitions: benchio has room for the times of all from the start

Launch = Callable[..., subprocess.Popen[str]]
ReadResult = Callable[[Path], dict[str, Any]]
NewDirectory = Callable[[], Path]


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
    return len(rounds[0])


def test_time_limit(
    mpirun: Callable[..., Run], read_result: ReadResult, new_directory: NewDirectory
) -> None:
    limit = 2

    def check_layout(files: str) -> None:
        directory = new_directory()
        file = directory.parent / "result.json"
        done = mpirun(
            3, "--backend", ",".join(BACKENDS), "--files", files, "--local-size", 16,
            "--warmup", 0, "--repeats", ENDLESS, "--time-limit", limit,
            "--operation", "write,read", "--dir", directory, "--json", file,
        )  # fmt: skip
        result = read_result(file)
        rounds = check(done, result, directory, 2 * len(BACKENDS))
        assert 1 <= rounds < ENDLESS
        assert result["run"]["time_limit"] == limit
        seconds = [
            repetition["phases"]["total"]["max"]
            for case in result["cases"]
            for repetition in case["repetitions"][:-1]
        ]
        assert sum(seconds) < limit, "the last round began after it"

    each(["shared", "process", "gather"], check_layout, at_once=3)


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


def wait_for_round(process: subprocess.Popen[str], number: int) -> None:
    """Until a run has said that this round is complete."""
    assert process.stderr is not None
    said = ""
    while f"benchio: round {number}/" not in said:
        ready, _, _ = select.select([process.stderr], [], [], 60)
        # Not through the stream's own buffer, which `finish` does not look into.
        more = os.read(process.stderr.fileno(), 65536).decode() if ready else ""
        assert more, f"round {number} never came\n{said}"
        said += more


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    """The three processes of benchio's that an mpirun has started."""
    done = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    )
    ranks = [int(word) for word in done.stdout.split()]
    assert len(ranks) == 3
    return ranks


def test_warning_signal(launch: Launch, read_result: ReadResult, directory: Path) -> None:
    """SIGUSR1, which mpirun and srun forward to the ranks."""
    result = directory.parent / "result.json"
    process = launch(
        3, "--backend", "mpiio,posix", "--local-size", 32, "--repeats", ENDLESS,
        "--dir", directory, "--json", result,
    )  # fmt: skip
    wait_for_round(process, 2)
    process.send_signal(signal.SIGUSR1)
    done = finish(process, 20)
    assert check(done, read_result(result), directory, 2) > 1


def test_signal_to_one_rank(
    launch: Launch, read_result: ReadResult, new_directory: NewDirectory
) -> None:
    """All ranks must end in the same round, whichever of them knows."""

    def check_signal(sent: signal.Signals) -> None:
        directory = new_directory()
        result = directory.parent / "result.json"
        process = launch(
            3, "--local-size", 32, "--repeats", ENDLESS, "--dir", directory, "--json", result
        )
        wait_for_round(process, 2)
        os.kill(ranks_of(process)[-1], sent)
        assert check(finish(process, 20), read_result(result), directory, 1) > 1

    each([signal.SIGUSR1, signal.SIGTERM], check_signal)


def test_nothing_to_report_yet(
    mpirun: Callable[..., Run], read_result: ReadResult, directory: Path
) -> None:
    """Rounds are complete, but none of them counts."""
    result = directory.parent / "result.json"
    done = mpirun(
        2, "--backend", ",".join(BACKENDS), "--local-size", 8, "--warmup", ENDLESS,
        "--time-limit", 1, "--dir", directory, "--json", result,
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    assert re.search(r"[1-9]\d* of \d+ rounds done$", done.errors[0])
    assert "MiB/s" not in done.out
    assert read_result(result)["status"] == "time_limit"
    assert read_result(result)["cases"] == []
    assert list(directory.iterdir()) == []
