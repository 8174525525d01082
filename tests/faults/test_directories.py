"""Where files and results cannot go: said once, with neither a figure nor a file left."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import BACKENDS, FILES, Run, each, finish, run_directory
from faults.attempts import (
    EVERY_BACKEND,
    IO,
    RANKS,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    few_mib,
    file_of,
    no_rate,
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


def test_path_that_leaves_no_room_for_names(
    attempt: Attempt, mpirun: Callable[..., Run], new_directory: NewDirectory
) -> None:
    """Longer ones than Linux takes would be cut off, by benchio and by libraries."""

    def long(length: int) -> Path:
        path = str(new_directory())
        while len(path) < length:
            path += "/" + "x" * min(length - len(path) - 1, 200)
        Path(path).mkdir(parents=True)
        return Path(path)

    failure = attempt(Way("posix"), long(3841))
    assert (failure.code, failure.call) == (IO, "realpath")
    assert failure.message == (
        "the path has 3841 characters, and more than 3840 leave no room for the names of files"
    )
    assert list(failure.directory.iterdir()) == []
    last = long(3840)
    for options in (
        ["--backend", ",".join(BACKENDS), "--local-size", 8],
        ["--operation", "metadata"],
    ):
        done = mpirun(2, *options, "--repeats", 1, "--dir", last)
        assert done.code == 0, done.err


def test_read_only_filesystem(attempt: Attempt, tmpfs: Callable[[str], Path]) -> None:
    """Before any backend has its turn."""
    failure = attempt(Way("posix"), tmpfs("ro"))
    assert failure.code == IO
    assert (failure.call, failure.path) == ("mkdir", run_directory(failure.directory))
    assert "Read-only file system" in failure.message
    assert list(failure.directory.iterdir()) == []


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
    """As when others fill it meanwhile. OMPIO reports success: size or verification must tell.
    Where a library says no more than that it met an I/O error, benchio finds out which."""

    def check(way: Way) -> None:
        failure = inject(way, "space", tmpfs("size=4m"))
        silent = way.component != "romio321"
        assert failure.code == IO or (failure.code == VERIFICATION and silent)
        assert failure.path == file_of(way, failure.directory), "not even tried"
        if failure.code == IO:
            assert "No space left on device" in failure.message, failure.message
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
    (said,) = done.errors
    assert re.fullmatch(rf"rank 0 on \S+: unlink: {old}: Device or resource busy", said)
    assert "round" not in done.err
    assert list(directory.iterdir()) == []


def test_two_runs_in_one_directory(
    launch: Callable[..., subprocess.Popen[str]],
    read_result: Callable[[Path], dict[str, Any]],
    directory: Path,
) -> None:
    """Neither writes, reads or removes the other's files: each has a run id of its own, which
    nobody gave it."""
    results = [directory.parent / f"{name}.json" for name in ("one", "other")]
    started = [
        launch(
            RANKS, "--backend", ",".join(BACKENDS), "--local-size", 64, "--repeats", 3,
            "--dir", directory, "--json", result,
        )
        for result in results
    ]  # fmt: skip
    done = [finish(process) for process in started]
    assert [run.code for run in done] == [0, 0], done
    one, other = (read_result(result)["run"]["id"] for result in results)
    assert one != other
    assert list(directory.iterdir()) == []


def somebodys_directory(path: Path) -> None:
    path.mkdir()
    (path / FILES["posix"]).write_text("somebody's")


def somebodys_file(path: Path) -> None:
    path.write_text("somebody's")


def link_to_nothing(path: Path) -> None:
    """A user's own, to a place that comes later."""
    path.symlink_to("later")


def test_run_directory_that_exists_is_left_alone(
    attempt: Attempt, new_directory: NewDirectory
) -> None:
    """As that of another run with the same id."""

    def state(path: Path) -> list[tuple[str, str]]:
        if path.is_symlink():
            return [("", str(path.readlink()))]
        files = [path] if path.is_file() else list(path.iterdir())
        return [(file.name, file.read_text()) for file in files]

    def check(make: Callable[[Path], None]) -> None:
        directory = new_directory()
        theirs = run_directory(directory)
        make(theirs)
        before = state(theirs)
        failure = attempt(Way("posix"), directory)
        assert failure.code == IO
        assert (failure.call, failure.path) == ("mkdir", theirs)
        assert "exists" in failure.message
        assert state(theirs) == before
        assert list(directory.iterdir()) == [theirs]

    each([somebodys_directory, somebodys_file, link_to_nothing], check)


def test_other_files_in_the_directory_are_nobodys_business(
    mpirun: Callable[..., Run], directory: Path
) -> None:
    theirs = directory / FILES["posix"]
    theirs.write_text("somebody's")
    done = mpirun(RANKS, *few_mib("posix", directory, directory.parent / "result.json"))
    assert done.code == 0, done.err
    assert [file.read_text() for file in directory.iterdir()] == ["somebody's"]


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
