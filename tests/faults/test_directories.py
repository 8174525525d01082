"""Where files and results cannot go: told once, with neither a figure nor a file left."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import BACKENDS, FILES, OMPIO, each, finish, run_directory
from faults.attempts import (
    IO,
    RANKS,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    file_in,
    no_rate,
    places,
    small,
)

ALL = Way(",".join(BACKENDS))


def deep(directory, length):
    """A directory below it whose path has so many characters."""
    path = str(directory)
    while len(path) < length:
        path += "/" + "x" * min(length - len(path) - 1, 200)
    Path(path).mkdir(parents=True)
    return Path(path)


def test_directories_that_take_no_files(fail, new_directory, tmpfs):
    """Before any backend has its turn: it is not there, a file, read-only, too small, or another
    filesystem; or its path leaves no room for names, which benchio and libraries would cut off."""
    no_directory = new_directory() / "file"
    no_directory.write_text("somebody's")
    reasons = {
        new_directory() / "nosuch": "No such file or directory",
        no_directory: "Not a directory",
        tmpfs("ro"): "Read-only file system",
        tmpfs("size=4m"): "free",
        new_directory(): "not lustre,gpfs",
        deep(new_directory(), 3841): "the path has 3841 characters, and more than 3840 leave no",
    }

    def check(outcome, attempt):
        assert outcome.done.code == IO
        assert reasons[outcome.directory] in outcome.error["message"]

    options = {"not lustre,gpfs": "--fs-type lustre,gpfs"}
    fail(
        [Attempt(ALL, options.get(why, ""), directory=where) for where, why in reasons.items()],
        check,
    )
    assert no_directory.read_text() == "somebody's"
    for directory in reasons:
        assert not directory.is_dir() or list(directory.iterdir()) == []


def test_directories_that_do(mpirun, tmpfs, new_directory):
    """The other half: a filesystem that is right, and the longest path; what is beside the run's
    own directory is nobody's business."""
    place = tmpfs("size=64m")
    theirs = place / FILES["posix"]
    theirs.write_text("somebody's")
    longest = deep(new_directory(), 3840)

    def check(options):
        done = mpirun(2, *options, "--repeats", 1)
        assert done.code == 0, done.err

    arrays = ["--backend", ",".join(BACKENDS), "--local-size", 8]
    each(
        [
            [*arrays, "--dir", place, "--fs-type", "lustre,tmpfs"],
            [*arrays, "--dir", longest],
            ["--operation", "metadata", "--items", 3, "--dir", longest],
        ],
        check,
    )
    assert [file.read_text() for file in place.iterdir()] == ["somebody's"]


def test_a_full_filesystem(fail, tmpfs):
    """As when others fill it meanwhile. OMPIO reports success: size or verification must tell.
    Where a library knows no more than that it met an I/O error, benchio finds out which."""

    def check(outcome, attempt):
        silent = attempt.way.component == OMPIO
        assert outcome.done.code == IO or (outcome.done.code == VERIFICATION and silent)
        assert outcome.call[1] == file_in(outcome), "not even tried"
        if outcome.done.code == IO:
            assert "No space left on device" in outcome.error["message"]
            assert list(outcome.directory.iterdir()) == []

    fail([Attempt(way, fault="space", directory=tmpfs("size=2m")) for way in WAYS], check)


def test_a_result_on_a_full_filesystem(mpirun, tmpfs, directory):
    """There is never half a result file, and no figure that the result file does not have."""
    results = tmpfs("size=4k")
    done = mpirun(
        RANKS, "--backend", ",".join(BACKENDS), "--local-size", 8, "--repeats", 5,
        "--dir", directory, "--json", results / "result.json",
    )  # fmt: skip
    assert done.code == IO, done.err
    (said,) = done.errors
    assert "No space left on device" in said
    assert no_rate(done)
    assert list(results.iterdir()) == list(directory.iterdir()) == []


@pytest.mark.parametrize("old", [False, True])
def test_a_result_that_cannot_be_written(mpirun, tmpfs, directory, old):
    """Told before the first write, not after hours of it. An old one that cannot be replaced, as
    another user's in a directory like /tmp, is not taken for this run's."""
    results = tmpfs("size=1m" if old else "ro")
    file = results / "result.json"
    if old:
        file.write_text("yesterday's")
        subprocess.run(["mount", "--bind", file, file], check=True)
    done = mpirun(RANKS, *small("mpiio"), *places(directory), "--json", file)
    assert done.code == IO, done.err
    (said,) = done.errors
    reason = f"unlink: {file}: Device or resource busy" if old else "Read-only file system"
    assert reason in said
    assert "round" not in done.err
    assert list(directory.iterdir()) == []


def test_two_runs_in_one_directory(launch, read_result, directory):
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
    assert re.fullmatch("[0-9a-f]{16}", one)
    assert one != other
    assert list(directory.iterdir()) == []


def somebodys_directory(path):
    path.mkdir()
    (path / FILES["posix"]).write_text("somebody's")


def somebodys_file(path):
    path.write_text("somebody's")


def link_to_nothing(path):
    """A user's own, to a place that comes later."""
    path.symlink_to("later")


def test_a_run_directory_that_exists_is_left_alone(fail, new_directory):
    """As that of another run with the same id, which may have kept its files."""

    def state(path):
        if path.is_symlink():
            return [("", str(path.readlink()))]
        files = [path] if path.is_file() else list(path.iterdir())
        return [(file.name, file.read_text()) for file in files]

    before = {}
    for make in (somebodys_directory, somebodys_file, link_to_nothing):
        directory = new_directory()
        theirs = run_directory(directory)
        make(theirs)
        before[directory] = state(theirs)

    def check(outcome, attempt):
        theirs = run_directory(outcome.directory)
        assert outcome.done.code == IO
        assert outcome.call == ("mkdir", theirs)
        assert outcome.error["message"].startswith("exists already")
        assert state(theirs) == before[outcome.directory]
        assert list(outcome.directory.iterdir()) == [theirs]

    kept = [Attempt(Way("posix"), directory=directory) for directory in before]
    fail(
        [*kept, Attempt(Way("posix"), "--operation write-keep", directory=next(iter(before)))],
        check,
    )
