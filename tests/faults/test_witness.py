"""What no library can see, for it finds its own bytes where it left them, or in a cache: only a
witness that shares nothing with it."""

import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import ROOT, RUN_ID, THROUGH_MPIIO, Run, each, files_of, injected, run_directory
from faults.attempts import (
    IO,
    RANKS,
    THROUGH_OMPIO,
    THROUGH_ROMIO,
    VERIFICATION,
    WAYS,
    Attempt,
    Way,
    few_mib,
    file_of,
    other_component_is_slow,
    result_of,
)

OPERATIONS = ["write", "write,read"]


def test_blocks_that_are_not_where_they_belong(
    attempt: Attempt, library_shim: Path, new_directory: Callable[[], Path]
) -> None:
    """Nor where the library looks for them: it reads every rank's own block from there. Chunks,
    which the witness has to read through the library, are read as other blocks."""

    def check(case: tuple[Way, str]) -> None:
        way, options = case
        failure = attempt(
            way, new_directory(), *options.split(),
            env={"LIBRARY_FAULT": "mirror"}, launcher=["-x", f"LD_PRELOAD={library_shim}"],
        )  # fmt: skip
        assert failure.code == VERIFICATION
        assert (failure.call, failure.path) == ("witness", file_of(way, failure.directory))
        assert list(failure.directory.iterdir()) == []

    ways = [*THROUGH_ROMIO, *THROUGH_OMPIO]
    in_chunks = [(way, "--chunk 32x32x32") for way in ways if way.backend in ("hdf5", "netcdf")]
    each([*((way, "") for way in ways), *in_chunks], check)


STEPS = "steps=3,variables=2"
LAYERS = [
    *(("exchange", backend, pattern) for backend in ("mpiio", "hdf5", "netcdf")
      for pattern in ("strided", "random", STEPS)),
    *(("lost", backend, STEPS) for backend in THROUGH_MPIIO),
    *(("twice", backend, pattern) for backend in THROUGH_MPIIO[1:]
      for pattern in (STEPS, "variables=2")),
    ("lost", "pnetcdf", f"{STEPS},nonblocking"),
    ("twice", "pnetcdf", f"{STEPS},nonblocking"),
    ("lost", "hdf5", f"{STEPS},deflate=1"),
    ("lost", "netcdf", f"{STEPS},deflate=1,quantize=3"),
    ("exchange", "hdf5", f"{STEPS},deflate=1"),
    ("exchange", "netcdf", f"{STEPS},deflate=1,quantize=3"),
]  # fmt: skip


def test_pattern_that_is_not_in_the_file(
    attempt: Attempt, library_shim: Path, new_directory: Callable[[], Path]
) -> None:
    """Rows of two writers exchanged, a step that was lost, a variable that was written over
    another: no library tells of that, compressed or rounded or as it is."""

    def check(case: tuple[str, str, str]) -> None:
        fault, backend, pattern = case
        way = Way(backend, "romio321")
        failure = attempt(
            way, new_directory(), "--local-size", "16x16x24", "--pattern", pattern,
            env={"LIBRARY_FAULT": fault}, launcher=["-x", f"LD_PRELOAD={library_shim}"],
        )  # fmt: skip
        assert failure.code == VERIFICATION
        assert (failure.call, failure.path) == ("witness", file_of(way, failure.directory))
        assert list(failure.directory.iterdir()) == []

    each(LAYERS, check)


def test_buffers_of_two_aggregators_exchanged(
    inject: Attempt, new_directory: Callable[[], Path]
) -> None:
    def check(way: Way) -> None:
        failure = inject(way, "swap", new_directory(), SWAP=2**20)
        assert failure.code == VERIFICATION
        assert (failure.call, failure.path) == ("witness", file_of(way, failure.directory))
        assert list(failure.directory.iterdir()) == []

    each(WAYS, check)


class Disk(NamedTuple):
    """A filesystem of its own, and the file that is its disk."""

    mounted: Path
    image: Path


@pytest.fixture
def disk(own_mounts: None, tmp_path: Path, need: Callable[[str], str]) -> Iterator[Disk]:
    found = Disk(tmp_path / "mounted", tmp_path / "image")
    found.mounted.mkdir()
    with found.image.open("wb") as image:
        image.truncate(2**26)
    subprocess.run([need("mkfs.ext4"), "-q", found.image], check=True)
    mount = ["mount", "-o", "loop", found.image, found.mounted]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"there is no loop device here: {done.stderr.strip()}")
    yield found
    subprocess.run(["umount", found.mounted], check=True)
    found.image.unlink()


@other_component_is_slow
def test_byte_that_flips_on_the_disk(inject: Attempt, disk: Disk, ways: list[Way]) -> None:
    """After the sync, and below the filesystem: every cache above still has what was written."""
    below = shlex.join(map(str, [sys.executable, ROOT / "tests/faults/below.py", disk.image]))

    def check(case: tuple[int, tuple[Way, str]]) -> None:
        number, (way, operations) = case
        directory = disk.mounted / str(number) / "files"
        directory.mkdir(parents=True)
        failure = inject(
            way, "command", directory, ["--operation", operations], COMMAND=below, RANK="all"
        )
        assert failure.code == VERIFICATION
        assert failure.path == file_of(way, directory)
        assert "1 of " in failure.message
        assert list(directory.iterdir()) == []

    each(enumerate(itertools.product(ways, OPERATIONS)), check)


class Write(NamedTuple):
    """A run, its first or last file and the round that this was written in."""

    run_id: str = "tonight"
    backend: str = "posix"
    files: str = "shared"
    file: int = 0
    round: int = 1

    @property
    def name(self) -> str:
        return files_of(self.backend, RANKS if self.files == "process" else 1)[self.file]

    @property
    def kept(self) -> str:
        """The same where files are kept."""
        count = RANKS if self.files == "process" else 1
        return files_of(self.backend, count, self.round)[self.file]

    def options(self, directory: Path) -> list[object]:
        return [
            *few_mib(self.backend, directory, result_of(directory)), "--run-id", self.run_id,
            "--files", self.files, "--repeats", self.round,
        ]  # fmt: skip


# Another's file, and the file that it is in place of.
STALE = {
    "night": (Write("last-night"), Write()),
    "backend": (Write(), Write(backend="mpiio")),
    "night, by HDF5": (Write("last-night", "hdf5"), Write(backend="hdf5")),
    "file": (Write(files="process", file=0), Write(files="process", file=1)),
    "round": (Write(round=1), Write(round=2)),
}


def replaced(
    mpirun: Callable[..., Run],
    shim: Path,
    new_directory: Callable[[], Path],
    old: Write,
    new: Write,
) -> Run:
    """A run whose file has, once it was synced, what another run has left."""
    before, directory = new_directory(), new_directory()
    done = mpirun(RANKS, *old.options(before), "--operation", "write-keep")
    assert done.code == 0, done.err
    kept = run_directory(before, old.run_id) / old.kept
    how = injected(
        shim, "command", run_directory(directory, new.run_id) / new.name,
        COMMAND=f'cp {shlex.quote(str(kept))} "$FAULT_PATH"', CALL=new.round, RANK="all",
    )  # fmt: skip
    return mpirun(RANKS, *new.options(directory), **how)


@pytest.mark.parametrize("stale", STALE)
def test_data_of_another(
    mpirun: Callable[..., Run], shim: Path, new_directory: Callable[[], Path], stale: str
) -> None:
    """As large, and whole: last night's, another backend's, another file's, the last round's."""
    done = replaced(mpirun, shim, new_directory, *STALE[stale])
    assert done.code == VERIFICATION, done.err
    assert len(done.errors) == 1


def test_data_of_the_same(
    mpirun: Callable[..., Run], shim: Path, new_directory: Callable[[], Path]
) -> None:
    """The other half of the test above: it is their values that tell them."""
    done = replaced(mpirun, shim, new_directory, Write(), Write())
    assert done.code == 0, done.err


LAST_BYTE = (
    'printf x | dd of="$FAULT_PATH" bs=1 seek=$(($(stat -c %s "$FAULT_PATH") - 1)) conv=notrunc '
    "status=none"
)


def test_last_byte_of_a_large_slice(
    mpirun: Callable[..., Run], shim: Path, new_directory: Callable[[], Path]
) -> None:
    """A rank reads a slice of 12 MiB in more than one piece."""
    directory = new_directory()
    file = run_directory(directory) / files_of("posix", 1)[0]
    how = injected(shim, "command", file, COMMAND=LAST_BYTE, RANK="all")
    size = ["--local-size", "128x128x96", "--repeats", 1, "--run-id", RUN_ID]
    done = mpirun(2, "--backend", "posix", *size, "--warmup", 0, "--dir", directory, **how)
    assert done.code == VERIFICATION, done.err
    assert "1 of 1572864 elements differ" in done.errors[0]


Cached = Callable[..., dict[str, Any]]


@pytest.fixture
def cached(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    shim: Path,
    new_directory: Callable[[], Path],
) -> Cached:
    """cached("cached", CALL=...): the case of two rounds of reads whose file's pages do that."""

    def start(fault: str, **more: object) -> dict[str, Any]:
        directory = new_directory()
        file = run_directory(directory) / files_of("posix", 1)[0]
        options = [*few_mib("posix", directory, result_of(directory)), "--operation", "read"]
        done = mpirun(RANKS, *options, **injected(shim, fault, file, **more))
        assert done.code == 0, done.err
        result = read_result(result_of(directory))
        if result["run"]["filesystem"]["type"] not in ("ext4", "xfs"):
            pytest.skip("the files are on no disk here")
        (case,) = result["cases"]
        found: dict[str, Any] = case
        return found

    return start


def test_pages_that_stay_in_one_round_of_two(cached: Cached) -> None:
    """What was read is suspect for one round's sake; and the witness, whom O_DIRECT was refused
    when it was late, does not say that it read past them."""
    case = cached("cached")  # until it is synced again
    assert case["cache"]["page_cache_fraction"] > 0.3, "of the rank that syncs, and mostly of all"
    assert case["cache"]["suspect"]
    first, second = (repetition["witness"] for repetition in case["repetitions"])
    assert first["page_cache_fraction"] > 0.3
    assert second["page_cache_fraction"] == 0
    assert not first["direct"]
    assert not second["direct"]
    unsynced = [first["unsynced_fraction"], second["unsynced_fraction"]]
    # None: before Linux 6.5 nobody counts what is dirty.
    assert unsynced in ([None, 0], [0, 0]), "what stays for ever was not left to be written"


def test_pages_that_no_sync_writes(cached: Cached) -> None:
    """The bytes are on the disk when the witness reads them, past the page cache: that a sync had
    not brought them there, the pages alone tell."""
    case = cached("unsynced")
    witnesses = [repetition["witness"] for repetition in case["repetitions"]]
    assert all(w["direct"] for w in witnesses)
    assert max(w["unsynced_fraction"] for w in witnesses) > 0.01


@pytest.fixture
def volatile(own_mounts: None, tmp_path: Path) -> Iterator[Path]:
    """A filesystem that is told not to sync, as `podman run --rm` mounts one."""
    folders = [tmp_path / name for name in ("lower", "upper", "work", "mounted")]
    for folder in folders:
        folder.mkdir()
    lower, upper, work, mounted = folders
    options = f"lowerdir={lower},upperdir={upper},workdir={work},volatile"
    mount = ["mount", "-t", "overlay", "-o", options, "overlay", mounted]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"there is no volatile overlay here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


def test_filesystem_that_does_not_sync(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    volatile: Path,
    tmp_path: Path,
) -> None:
    """What it has written by itself until the pages are looked at is none of them."""
    file = tmp_path / "result.json"
    done = mpirun(RANKS, *few_mib("mpiio,posix", volatile, file), "--local-size", "128x128x96")
    assert done.code == 0, done.err
    for case in read_result(file)["cases"]:
        witnesses = [repetition["witness"] for repetition in case["repetitions"]]
        assert max(w["unsynced_fraction"] for w in witnesses) > 0.01, case["backend"]
    assert done.out.count(" % of it in the page cache, to be written later") == 2


def test_read_of_the_witness_that_fails(inject: Attempt, new_directory: Callable[[], Path]) -> None:
    """What it could not read it has not confirmed. All the same on which rank; and what stands in
    for system calls is on record."""
    way = Way("posix")
    failure = inject(way, "read", new_directory(), RANK=1)
    assert (failure.code, failure.call, failure.rank) == (IO, "pread", 1)
    result = json.loads(result_of(failure.directory).read_text())
    assert result["environment"]["LD_PRELOAD"].endswith("/shim.so")


def test_pages_of_which_one_rank_does_not_know(cached: Cached) -> None:
    case = cached("unknown", RANK=1, CALL=9)
    assert (case["cache"]["page_cache_fraction"], case["cache"]["suspect"]) == (None, True)
