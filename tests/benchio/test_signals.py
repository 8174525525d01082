"""A run that has to end early: complete rounds, marked, and nothing left behind."""

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import (
    BACKENDS,
    BENCHIO,
    RUN_ID,
    compiled,
    each,
    files_of,
    finish,
    injected,
    run_directory,
)

TIME_LIMIT = 5
INTERNAL, NOT_BUILT_IN = 1, 6
#: Seconds from the end of a run's time until a phase is cut off, and until rank 0 has then ended.
GRACE, ENDED = 5, 5 + 3
SLACK = 40  # of a busy machine; without a bound there is no end at all
#: Signals by which schedulers, limits and people end a job.
ENDING = [
    *(signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2, signal.SIGXCPU, signal.SIGPWR),
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT),
]
ENDLESS = 10_000  # repetitions: benchio has room for the times of all from the start


def check(done, result, directory, cases):
    """Check what every run that ended early must show, and return the number of its rounds."""
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


def ranks_of(process, number=3):
    """The processes of benchio's that an mpirun has started."""
    done = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    )
    ranks = [int(word) for word in done.stdout.split()]
    assert len(ranks) == number
    return ranks


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

        assert read_result(result)["error"]["call"] == sent.name

    each(ENDING, check_signal)


@pytest.mark.parametrize("is_taken", [False, True])
def test_what_was_ignored_from_the_start_stays_ignored(launch, read_result, directory, is_taken):
    """As under nohup, even if a library takes that signal."""
    file = directory.parent / "result.json"
    shim = compiled("signal_shim.c", directory.parent) if is_taken else ""
    process = launch(
        2, "-c", 'trap "" HUP; exec "$0" "$@"', BENCHIO, "--local-size", 32, "--repeats", 50,
        "--dir", directory, "--json", file, program="bash", launcher=["-x", f"LD_PRELOAD={shim}"],
    )  # fmt: skip
    wait_for_round(process, 1)
    for rank in ranks_of(process, 2):
        os.kill(rank, signal.SIGHUP)
    assert finish(process).code == 0
    assert read_result(file)["status"] == "ok"


def test_a_limit_on_files_is_named(launch, read_result, new_directory):
    """Whoever waits for the rank that cannot write would wait for ever."""

    def check_limit(backend):
        directory = new_directory()
        file = directory.parent / "result.json"
        process = launch(
            # Open MPI 5 itself writes a file of 16 MiB, and benchio one of 32.
            2, "-c", 'ulimit -f 20000; exec "$0" "$@"', BENCHIO, "--backend", backend,
            "--local-size", 128, "--dir", directory, "--json", file, program="bash",
        )  # fmt: skip
        done = finish(process)
        assert done.code == 3, done.err
        assert "SIGXFSZ: " in done.errors[0]
        assert "the limit on the size of files (ulimit -f) is 20480000 bytes" in done.errors[0]
        assert read_result(file)["error"]["call"] == "SIGXFSZ"
        assert list(directory.iterdir()) == []

    each(BACKENDS, check_limit)


def test_a_process_that_was_stopped_does_not_hang(launch, read_result, directory):
    """For longer than a phase may take, as a scheduler suspends a job. The round says so."""
    file = directory.parent / "result.json"
    process = launch(
        2, "--local-size", 64, "--repeats", 50, "--phase-limit", 2, "--dir", directory,
        "--json", file,
    )  # fmt: skip
    wait_for_round(process, 2)
    ranks = ranks_of(process, 2)
    for sent, seconds in ((signal.SIGSTOP, 4), (signal.SIGCONT, 0)):
        for rank in ranks:
            os.kill(rank, sent)
        time.sleep(seconds)
    done = finish(process)
    assert done.code == 0, done.err
    reps = read_result(file)["cases"][0]["repetitions"]
    (stopped,) = [rep for rep in reps if "suspended" in rep]
    assert 3 < stopped["suspended"] < 4 + SLACK
    assert f"round {stopped['round']}/" in done.err or stopped["round"] <= 2
    assert "  suspended for " in done.err


def test_a_launcher_that_is_killed(launch, read_result, directory):
    """Nobody reads what ranks say any more, and the result is a file."""
    file = directory.parent / "result.json"
    process = launch(
        2, "--local-size", 32, "--warmup", 0, "--repeats", ENDLESS, "--dir", directory,
        "--json", file,
    )  # fmt: skip
    wait_for_round(process, 2)
    ranks = ranks_of(process, 2)
    process.kill()
    process.wait()
    limit = time.monotonic() + SLACK
    while any(is_running(rank) for rank in ranks) and time.monotonic() < limit:
        time.sleep(0.1)
    result = read_result(file)
    assert result["status"] in ("library_error", "time_limit")
    assert len(result["cases"][0]["repetitions"]) >= 2
    assert list(directory.iterdir()) == []


def is_running(process):
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_nothing_to_report_yet(mpirun, read_result, directory):
    """Rounds are complete, but none of them counts."""
    result = directory.parent / "result.json"
    done = mpirun(
        2, "--backend", ",".join(BACKENDS), "--local-size", 8, "--warmup", ENDLESS,
        "--time-limit", 1, "--dir", directory, "--json", result,
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    assert re.search(r"[1-9]\d* of \d+ rounds done(, the next was left in .+)?$", done.errors[0])
    assert "MiB/s" not in done.out
    assert read_result(result)["status"] == "time_limit"
    assert read_result(result)["cases"] == []
    assert list(directory.iterdir()) == []


@pytest.fixture
def hanging(shim):
    """hanging(directory, rank): options of a run of which a write of this rank never returns, after
    two rounds, and how it is started."""

    def make(directory, rank):
        size = 64 * 64 * 48 * 8  # bytes of a rank in a round
        file = run_directory(directory) / files_of("posix", 1)[0]
        how = injected(shim, "sleep", file, RANK=rank, THROUGH=int(2.5 * size))
        options = (
            "--backend", "posix", "--local-size", "64x64x48", "--warmup", 0, "--repeats", 9,
            "--run-id", RUN_ID, "--dir", directory, "--json", directory.parent / "result.json",
        )  # fmt: skip
        return options, how

    return make


def test_time_limit_cuts_off_a_phase_that_does_not_end(mpirun, read_result, new_directory, hanging):
    """Whoever hangs: the rounds before are whole, and no file outlives the run."""

    def check_rank(rank):
        directory = new_directory()
        options, how = hanging(directory, rank)
        start = time.monotonic()
        done = mpirun(3, *options, "--time-limit", 3, **how)
        assert time.monotonic() - start < 3 + ENDED + SLACK
        result = read_result(directory.parent / "result.json")
        assert check(done, result, directory, 1) == 2
        assert result["error"]["call"] == "time limit"
        assert "2 of 9 rounds done, the next was left in" in done.errors[0]
        assert "write posix" in done.out, "the table of the rounds before"
        assert all(one["load"] is None for one in result["run"]["nodes"]), "nobody could be asked"

    each([0, 1], check_rank)


def test_sigterm_leaves_nothing_within_its_grace(launch, read_result, directory, hanging):
    """A scheduler sends it to all ranks, and kills them half a minute later."""
    options, how = hanging(directory, 0)
    process = launch(3, *options, **how)
    wait_for_round(process, 2)
    time.sleep(3)  # until it hangs
    for rank in ranks_of(process):
        os.kill(rank, signal.SIGTERM)
    start = time.monotonic()
    done = finish(process, 60)
    assert GRACE - 1 < time.monotonic() - start < ENDED + SLACK
    result = read_result(directory.parent / "result.json")
    assert check(done, result, directory, 1) == 2
    assert result["error"]["call"] == "SIGTERM"


def test_a_round_is_left_at_the_end_of_a_phase(launch, read_result, directory, tmp_path):
    """However many are still to come. Of files that are kept those of the rounds before stay."""
    file = directory.parent / "result.json"
    slow = compiled("slow_shim.c", tmp_path)
    process = launch(
        2, "--backend", ",".join(BACKENDS), "--operation", "write-keep", "--local-size", 8,
        "--warmup", 0, "--repeats", 3, "--run-id", RUN_ID, "--dir", directory, "--json", file,
        env={"SLOW": "open", "SLOW_S": "2"}, launcher=["-x", f"LD_PRELOAD={slow}"],
    )  # fmt: skip
    wait_for_round(process, 1)
    time.sleep(3)  # so that a file of the next round is complete
    for rank in ranks_of(process, 2):
        os.kill(rank, signal.SIGTERM)
    done = finish(process)
    assert done.code == TIME_LIMIT, done.err
    result = read_result(file)
    rounds = [[rep["round"] for rep in case["repetitions"]] for case in result["cases"]]
    assert rounds == [[1]] * len(BACKENDS)
    left = "SIGTERM: .+: 1 of 3 rounds done, the next was left in (?!a phase that did not end)"
    assert re.search(left, done.errors[0]), done.err
    kept = {name for backend in BACKENDS for name in files_of(backend, 1, kept=1)}
    assert {path.name for path in run_directory(directory).iterdir()} == {*kept, "kept.nml"}


def test_no_watchdog_no_run(mpirun, shim, directory):
    """Nothing would end a hang: of a thread that cannot be made, or that MPI does not allow."""
    for fault, code, said in (
        ("thread", INTERNAL, "pthread_create: Resource temporarily unavailable"),
        ("single", NOT_BUILT_IN, "MPI_THREAD_SINGLE"),
    ):
        how = injected(shim, fault, directory, RANK=1)
        done = mpirun(2, "--local-size", 8, "--repeats", 1, "--dir", directory, **how)
        assert done.code == code, done.err
        assert len(done.errors) == 1, done.err
        assert said in done.errors[0]
        assert "round 1" not in done.err
