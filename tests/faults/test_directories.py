"""Where files and results cannot go: said once, with neither a figure nor a file left."""

import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, FILES, Run, each, finish
from faults.attempts import (
    EVERY_BACKEND,
    IO,
    RANKS,
    TIME_LIMIT,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    few_mib,
    no_rate,
    other_component_is_slow,
)

NewDirectory = Callable[[], Path]


def test_missing_directory(attempt: Attempt, new_directory: NewDirectory) -> None:
    def check(way: Way) -> None:
        failure = attempt(way, new_directory() / "nosuch")
        assert failure.code == IO
        assert "No such file or directory" in failure.message
        assert not failure.directory.exists()

    each(EVERY_BACKEND, check)


def test_file_instead_of_a_directory(attempt: Attempt, new_directory: NewDirectory) -> None:
    """Not one that another process holds."""

    def check(way: Way) -> None:
        file = new_directory() / "file"
        file.write_text("somebody's")
        failure = attempt(way, file)
        assert failure.code == IO
        assert "Not a directory" in failure.message
        assert file.read_text() == "somebody's"

    each(EVERY_BACKEND, check)


def test_read_only_filesystem(attempt: Attempt, tmpfs: Callable[[str], Path]) -> None:
    def check(way: Way) -> None:
        failure = attempt(way, tmpfs("ro"))
        assert failure.code == IO
        assert failure.path == failure.directory / FILES[way.backend]
        assert list(failure.directory.iterdir()) == []
        # NetCDF has only the latter for whatever MPI_File_open says
        assert re.search("(?i)read.only|permission denied", failure.message), failure.message

    each(WAYS, check)


def test_too_little_space_is_seen_before_the_first_write(
    attempt: Attempt, tmpfs: Callable[[str], Path]
) -> None:
    def check(way: Way) -> None:
        failure = attempt(way, tmpfs("size=4m"))
        assert failure.code == IO
        assert failure.path == failure.directory
        assert re.search(r"(?i)free", failure.message), failure.message

    each(EVERY_BACKEND, check)


def test_full_filesystem(inject: Attempt, tmpfs: Callable[[str], Path]) -> None:
    """As when others fill it meanwhile. OMPIO reports success: size or verification must tell."""

    def check(way: Way) -> None:
        failure = inject(way, "space", tmpfs("size=4m"))
        silent = way.component != "romio321"
        assert failure.code == IO or (failure.code == VERIFICATION and silent)
        assert failure.path == failure.directory / FILES[way.backend], "not even tried"
        assert list(failure.directory.iterdir()) == []

    each(WAYS, check)


def test_result_on_a_read_only_filesystem(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], directory: Path
) -> None:
    """Found before the first write, not after hours of it."""
    results = tmpfs("ro")
    done = mpirun(RANKS, *few_mib(",".join(BACKENDS), directory, results / "result.json"))
    assert done.code == IO, done.err
    assert len(done.errors) == 1
    assert "Read-only file system" in done.errors[0]
    assert "round" not in done.err
    assert list(directory.iterdir()) == []


def test_result_on_a_full_filesystem(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], new_directory: NewDirectory
) -> None:
    """There is never half a result file, and no figure that the result file does not have."""

    def check(way: Way) -> None:
        results, directory = tmpfs("size=4k"), new_directory()
        done = mpirun(
            RANKS, "--backend", way.backend, "--local-size", 8, "--repeats", 20,
            "--dir", directory, "--json", results / "result.json",
        )  # fmt: skip
        assert done.code == IO, done.err
        assert len(done.errors) == 1
        assert "No space left on device" in done.errors[0]
        assert no_rate(done)
        assert list(results.iterdir()) == list(directory.iterdir()) == []

    each(EVERY_BACKEND, check)


def test_old_result_that_cannot_be_replaced(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], directory: Path
) -> None:
    """As another user's in a directory like /tmp: said before the first write, and not taken for
    this run's."""
    old = tmpfs("size=1m") / "result.json"
    old.write_text("yesterday's")
    subprocess.run(["mount", "--bind", old, old], check=True)
    done = mpirun(RANKS, *few_mib("mpiio", directory, old))
    assert done.code == IO, done.err
    assert done.errors == [f"rank 0: unlink: {old}: Device or resource busy"]
    assert "round" not in done.err
    assert list(directory.iterdir()) == []


@other_component_is_slow
@pytest.mark.parametrize("files", ["shared", pytest.param("process", marks=pytest.mark.slow)])
def test_two_runs_in_one_directory(
    launch: Callable[..., subprocess.Popen[str]],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: NewDirectory,
    ways: list[Way],
    files: str,
) -> None:
    """Neither writes, reads or removes the other's file. Both would run for ever: one gives up
    because they meet, and only then is the other told to end."""

    def outcome(process: subprocess.Popen[str], result: Path) -> tuple[Run, dict[str, Any]]:
        return finish(process), read_result(result)

    def check(way: Way) -> None:
        directory = new_directory()
        results = [directory.parent / f"{name}.json" for name in ("one", "other")]
        started = [
            launch(
                RANKS, "--backend", way.backend, "--files", files, "--local-size", 64,
                "--warmup", 0, "--repeats", 100_000, "--dir", directory, "--json", result,
                env=way.env,
            )
            for result in results
        ]  # fmt: skip
        with ThreadPoolExecutor() as pool:
            outcomes = as_completed(map(partial(pool.submit, outcome), started, results))
            refused, without_cases = next(outcomes).result()
            for process in started:
                process.send_signal(signal.SIGUSR1)
            other, with_cases = next(outcomes).result()
        assert refused.code == IO, refused.err
        assert without_cases["cases"] == []
        assert no_rate(refused)
        assert other.code == TIME_LIMIT, other.err
        (case,) = with_cases["cases"]
        assert {repetition["verification"] for repetition in case["repetitions"]} == {"passed"}
        assert list(directory.iterdir()) == []

    each(ways, check, at_once=1)


def test_wrong_filesystem(attempt: Attempt, new_directory: NewDirectory) -> None:
    def check(way: Way) -> None:
        failure = attempt(way, new_directory(), "--fs-type", "lustre,gpfs")
        assert failure.code == IO
        assert "lustre" in failure.message
        assert list(failure.directory.iterdir()) == []

    each(EVERY_BACKEND, check)


def test_right_filesystem(mpirun: Callable[..., Run], tmpfs: Callable[[str], Path]) -> None:
    """The other half of the test above: a name that is right is not refused."""
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--local-size", 8, "--fs-type", "lustre,tmpfs",
        "--dir", tmpfs("size=64m"),
    )  # fmt: skip
    assert done.code == 0, done.err


def test_existing_file_is_left_alone(attempt: Attempt, new_directory: NewDirectory) -> None:
    def check(way: Way) -> None:
        directory = new_directory()
        precious = directory / FILES[way.backend]
        precious.write_text("somebody's")
        failure = attempt(way, directory)
        assert failure.code == IO
        assert failure.path == precious
        assert "exists" in failure.message
        assert precious.read_text() == "somebody's"
        assert list(directory.iterdir()) == [precious]

    each(EVERY_BACKEND, check)


def test_link_to_nothing_is_left_alone(attempt: Attempt, new_directory: NewDirectory) -> None:
    """A user's own, to a place that comes later."""

    def check(way: Way) -> None:
        directory = new_directory()
        link = directory / FILES[way.backend]
        link.symlink_to("later")
        failure = attempt(way, directory)
        assert failure.code == IO
        assert failure.path == link
        assert "exists" in failure.message
        assert list(directory.iterdir()) == [link]
        assert link.readlink() == Path("later")

    each(EVERY_BACKEND, check)


def test_file_that_appears_meanwhile_is_left_alone(
    inject: Attempt, new_directory: NewDirectory
) -> None:
    """Not there when benchio looks first, but when it is this backend's turn."""

    def check(way: Way) -> None:
        other = next(name for name in BACKENDS if name != way.backend)
        options = ["--backend", f"{other},{way.backend}"]
        failure = inject(way, "appear", new_directory(), options)
        assert failure.code == IO
        assert failure.path == failure.directory / FILES[way.backend]
        assert [file.read_text() for file in failure.directory.iterdir()] == ["somebody's"]

    each(EVERY_BACKEND, check)
