"""A run that has to end early: complete rounds, marked, and nothing left behind."""

import os
import re
import select
import signal
import subprocess

from conftest import BACKENDS, each, finish

TIME_LIMIT = 5
ENDLESS = 10_000  # repetitions: benchio has room for the times of all from the start


def check(done, result, directory, cases):
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


def test_time_limit(mpirun, read_result, new_directory):
    limit = 2

    def check_layout(files):
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


def wait_for_round(process, number):
    """Until a run has said that this round is complete."""
    assert process.stderr is not None
    said = ""
    while f"benchio: round {number}/" not in said:
        ready, _, _ = select.select([process.stderr], [], [], 60)
        # Not through the stream's own buffer, which `finish` does not look into.
        more = os.read(process.stderr.fileno(), 65536).decode() if ready else ""
        assert more, f"round {number} never came\n{said}"
        said += more


def ranks_of(process):
    """The three processes of benchio's that an mpirun has started."""
    done = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    )
    ranks = [int(word) for word in done.stdout.split()]
    assert len(ranks) == 3
    return ranks


def test_warning_signal(launch, read_result, directory):
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


def test_signal_to_one_rank(launch, read_result, new_directory):
    """All ranks must end in the same round, whichever of them knows."""

    def check_signal(sent):
        directory = new_directory()
        result = directory.parent / "result.json"
        process = launch(
            3, "--local-size", 32, "--repeats", ENDLESS, "--dir", directory, "--json", result
        )
        wait_for_round(process, 2)
        os.kill(ranks_of(process)[-1], sent)
        assert check(finish(process, 20), read_result(result), directory, 1) > 1

    each([signal.SIGUSR1, signal.SIGTERM], check_signal)


def test_nothing_to_report_yet(mpirun, read_result, directory):
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
