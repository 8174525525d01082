"""What one run keeps, others read: by other ranks, in other blocks, as often as they like; and what
has been done to it meanwhile is seen."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import (
    BACKENDS,
    RECORD,
    RUN_ID,
    Run,
    each,
    files_of,
    injected,
    kept_file,
    run_directory,
)

IO, VERIFICATION, USAGE = 3, 4, 2
ALL = ",".join(BACKENDS)
KEEP = ["--operation", "write-keep", "--warmup", 1, "--repeats", 2]

ReadResult = Callable[[Path], dict[str, Any]]
NewDirectory = Callable[[], Path]


def contents(kept: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in kept.iterdir()}


#: How four ranks write, and who reads it: so many ranks, and their grid.
READERS = [
    (["--files", "shared", "--local-size", "7x5x6"], [(1, ""), (2, "1x1x2"), (6, "3x2x1")]),
    (["--files", "shared", "--local-size", "6x5x7", "--chunk", "5x4x3"], [(3, "")]),
    (["--files", "process", "--global-size", "9x8x30"], [(4, ""), (7, "")]),
    (["--files", "2", "--global-size", "9x8x31"], [(2, "1x1x1"), (5, "")]),
    (["--files", "node", "--local-size", "8"], [(3, "")]),
    (["--files", "gather", "--local-size", "8"], [(3, "1x3x1")]),
    (["--instances", "2", "--local-size", "8"], [(2, "")]),
]


def test_any_ranks_read_what_others_have_kept(
    mpirun: Callable[..., Run], read_result: ReadResult, new_directory: NewDirectory
) -> None:
    def check(case: tuple[list[str], list[tuple[int, str]]]) -> None:
        written, readers = case
        directory = new_directory()
        json = directory.parent / "result.json"
        done = mpirun(
            4, "--backend", ALL, *written, *KEEP, "--run-id", RUN_ID, "--dir", directory,
            "--json", json,
        )  # fmt: skip
        assert done.code == 0, done.err
        wrote = read_result(json)
        assert wrote["run"]["operations"] == ["write-keep"]
        assert wrote["run"]["existing"] is None
        for one in wrote["cases"]:
            unlinks = ["unlink" in rep["phases"] for rep in one["repetitions"]]
            assert unlinks == [True, False, False], "what warms up is not kept"
        kept = run_directory(directory)
        before = contents(kept)
        count = wrote["run"]["file_count"]
        names = [files_of(backend, count, n) for backend in BACKENDS for n in (2, 3)]
        assert set(before) == {RECORD}.union(*names)

        for ranks, grid in readers:
            done = mpirun(
                ranks, "--backend", ALL, *(["--grid", grid] if grid else []),
                "--operation", "read-existing", "--dir", kept, "--json", json,
            )  # fmt: skip
            assert done.code == 0, done.err
            result = read_result(json)
            ran = result["run"]
            assert ran["operations"] == ["read-existing"]
            assert (ran["repeats"], ran["warmup"], ran["writers"]) == (2, 0, ranks)
            assert ran["existing"] == {
                "id": RUN_ID, "started": wrote["started"], "writers": 4,
                "hosts": wrote["run"]["hosts"],
            }  # fmt: skip
            same = ("files", "file_count", "file_size", "local_size", "global_size", "bytes")
            assert {key: ran[key] for key in same} == {key: wrote["run"][key] for key in same}
            assert [one["operation"] for one in result["cases"]] == ["read"] * len(BACKENDS)
            for one in result["cases"]:
                assert one["cache"]["other_node_fraction"] == 0, "this host has written it"
                assert [rep["witness"]["bytes"] for rep in one["repetitions"]] == [ran["bytes"]] * 2
            assert contents(kept) == before, "nothing is changed"

    each(READERS, check)


def test_what_was_done_to_kept_files_is_named(
    mpirun: Callable[..., Run], new_directory: NewDirectory
) -> None:
    """A bit, a truncated file, one that is missing, two that were swapped, one of another night, of
    every library; the message says which file, and of which run it was."""
    size = ["--local-size", "16x16x8"]
    directory = new_directory()
    for run_id in (RUN_ID, "other"):
        done = mpirun(2, "--backend", ALL, *size, *KEEP, "--run-id", run_id, "--dir", directory)
        assert done.code == 0, done.err

    def flip(kept: Path, file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def truncate(kept: Path, file: Path) -> None:
        file.write_bytes(file.read_bytes()[:-2000])

    def remove(kept: Path, file: Path) -> None:
        file.unlink()

    def swap(kept: Path, file: Path) -> None:
        other = kept / file.name.replace("round3", "round2")
        other.rename(kept / "third")
        file.rename(other)
        (kept / "third").rename(file)

    def replace(kept: Path, file: Path) -> None:
        shutil.copy(run_directory(directory, "other") / file.name, file)

    ways = [(flip, VERIFICATION), (truncate, IO), (remove, IO), (swap, VERIFICATION),
            (replace, VERIFICATION)]  # fmt: skip

    def check(case: tuple[Callable[[Path, Path], None], int, str]) -> None:
        way, code, backend = case
        kept = new_directory() / "kept"
        shutil.copytree(run_directory(directory), kept)
        way(kept, kept / kept_file(backend, 3))
        before = contents(kept)
        json = kept.parent / "result.json"
        done = mpirun(
            3, "--backend", ALL, "--operation", "read-existing", "--dir", kept, "--json", json
        )
        assert done.code == code, (way.__name__, done.err)
        assert len(done.errors) == 1, done.err
        named = kept_file(backend, 2 if way is swap else 3)
        assert str(kept / named) in done.errors[0]
        assert f"written, and confirmed, by run {RUN_ID} of 20" in done.errors[0]
        assert contents(kept) == before, "it is evidence"

    each([(way, code, backend) for way, code in ways for backend in BACKENDS], check)


def test_a_record_that_cannot_be_believed(
    mpirun: Callable[..., Run], new_directory: NewDirectory
) -> None:
    directory = new_directory()
    done = mpirun(2, *KEEP, "--local-size", 8, "--run-id", RUN_ID, "--dir", directory)
    assert done.code == 0, done.err
    record = (run_directory(directory) / RECORD).read_text()
    assert RUN_ID in record
    changed = record.replace(RUN_ID, "night")
    records = [
        (None, "it cannot be opened"),
        ("", "it was cut off"),
        (record[:-40], "it was cut off"),
        (record[:-2], "it was changed or cut off"),
        (changed, "it was changed or cut off"),
        ("&kept run_id = 'mine' /\n", "it was cut off"),
    ]

    def check(case: tuple[str | None, str]) -> None:
        text, said = case
        kept = new_directory()
        shutil.copytree(run_directory(directory), kept, dirs_exist_ok=True)
        (kept / RECORD).unlink()
        if text is not None:
            (kept / RECORD).write_text(text)
        done = mpirun(2, "--operation", "read-existing", "--dir", kept)
        assert done.code == IO, done.err
        assert len(done.errors) == 1, done.err
        assert f"{kept / RECORD}: {said}" in done.errors[0]

    each(records, check)
    done = mpirun(
        2, "--operation", "read-existing", "--backend", "hdf5", "--dir", run_directory(directory)
    )
    assert done.code == USAGE
    assert "no files of hdf5 were kept; there are files of mpiio" in done.errors[0]


def test_a_run_that_fails_keeps_nothing(
    mpirun: Callable[..., Run], shim: Path, directory: Path
) -> None:
    """Not even the rounds that were well, nor what of the last was: a record comes after that."""
    options = ["--operation", "write-keep", "--warmup", 0, "--repeats", 3, "--run-id", RUN_ID]
    file = run_directory(directory) / kept_file("hdf5", 3)  # mpiio's is there by then
    done = mpirun(
        2, "--backend", "mpiio,hdf5", "--local-size", 64, *options, "--dir", directory,
        **injected(shim, "write", file, ERRNO=errno.ENOSPC, RANK="all"),
    )  # fmt: skip
    assert done.code == IO, done.err
    assert str(file) in done.errors[0]
    assert list(directory.iterdir()) == []


def test_a_record_outlives_a_power_cut(
    mpirun: Callable[..., Run], need: Callable[[str], str], directory: Path, tmp_path: Path
) -> None:
    """The names of the files and of their folder are synced, then the record, then its name."""
    trace = tmp_path / "trace"
    wrapper = tmp_path / "traced"
    wrapper.write_text(
        f'#!/bin/sh\nexec {need("strace")} -qq -y -e trace=fsync,rename -o {trace} "$@"\n'
    )
    wrapper.chmod(0o755)
    done = mpirun(
        1, *KEEP, "--backend", "posix", "--local-size", 8, "--run-id", RUN_ID, "--dir", directory,
        launcher=[wrapper],
    )  # fmt: skip
    assert done.code == 0, done.err
    kept = run_directory(directory.resolve())
    record = re.escape(str(kept / RECORD))
    last = [line.rpartition(" = ")[0].rstrip() for line in trace.read_text().splitlines()][-5:]
    names = [rf"fsync\(\d+<{re.escape(str(folder))}>\)" for folder in (kept, kept.parent)]
    temporary = rf"{record}\.\d+\.tmp"
    written = [rf"fsync\(\d+<{temporary}>\)", rf'rename\("{temporary}", "{record}"\)']
    for line, wanted in zip(last, [*names, *written, names[0]], strict=True):
        assert re.fullmatch(wanted, line), last


def test_a_record_that_cannot_be_written(
    mpirun: Callable[..., Run], shim: Path, new_directory: NewDirectory
) -> None:
    """Fails the run, even one that its time limit has ended: nothing was kept."""

    def check(options: list[object]) -> None:
        directory = new_directory()
        record = run_directory(directory) / f"{RECORD}.*.tmp"
        done = mpirun(
            2, "--local-size", 8, "--operation", "write-keep", "--warmup", 0, *options,
            "--run-id", RUN_ID, "--dir", directory,
            **injected(shim, "write", record, ERRNO=errno.ENOSPC, THROUGH=0),
        )  # fmt: skip
        assert done.code == IO, done.err
        assert f"{RECORD}: {os.strerror(errno.ENOSPC)}" in done.errors[0]
        assert "MiB/s" not in done.out
        assert list(directory.iterdir()) == []

    each([["--repeats", 2], ["--repeats", 10_000, "--time-limit", 1]], check)


def test_too_few_readers(mpirun: Callable[..., Run], directory: Path) -> None:
    options = ["--files", "process", "--local-size", 8, "--run-id", RUN_ID, "--dir", directory]
    assert mpirun(3, *KEEP, *options).code == 0
    done = mpirun(2, "--operation", "read-existing", "--dir", run_directory(directory))
    assert done.code == USAGE
    assert "3 files were kept, and 2 ranks are too few to read them" in done.errors[0]
