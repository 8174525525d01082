"""What no library can see, for it finds its own bytes where it left them, or in a cache: only a
witness that shares nothing with it."""

import itertools
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, THROUGH_MPIIO, files_of
from faults.attempts import (
    EVERY_BACKEND,
    IO,
    RANKS,
    THROUGH_OMPIO,
    THROUGH_ROMIO,
    VERIFICATION,
    Attempt,
    Way,
    check_left,
    file_in,
    other_component_is_slow,
)


def check_seen(outcome, attempt=None):
    """By the witness, and of the file."""
    assert outcome.done.code == VERIFICATION
    assert outcome.call == ("witness", file_in(outcome))


def check_seen_by_any(outcome, attempt=None):
    """By the witness, or by the reading before it."""
    assert outcome.done.code == VERIFICATION
    assert outcome.call[1] == file_in(outcome)


def test_blocks_that_are_not_where_they_belong(fail):
    """Nor where the library looks for them: it reads every rank's own block from there. Chunks,
    which the witness has to read through the library, are read as other blocks."""
    ways = [*THROUGH_ROMIO, *THROUGH_OMPIO]
    in_chunks = [way for way in ways if way.backend in ("hdf5", "netcdf")]
    attempts = [Attempt(way, library="mirror") for way in ways]
    attempts += [Attempt(way, "--chunk 32x32x32", library="mirror") for way in in_chunks]
    fail(attempts, check_seen)


STEPS = "--steps 3 --variables 2"
LAYERS = [
    *(("exchange", backend, pattern) for backend in ("mpiio", "hdf5", "netcdf")
      for pattern in ("--order strided", "--order random", STEPS)),
    *(("lost", backend, STEPS) for backend in THROUGH_MPIIO),
    *(("twice", backend, pattern) for backend in THROUGH_MPIIO[1:]
      for pattern in (STEPS, "--variables 2")),
    ("lost", "pnetcdf", f"{STEPS} --nonblocking"),
    ("twice", "pnetcdf", f"{STEPS} --nonblocking"),
    ("lost", "hdf5", f"{STEPS} --deflate 1"),
    ("lost", "netcdf", f"{STEPS} --deflate 1 --quantize 3"),
    ("exchange", "hdf5", f"{STEPS} --deflate 1"),
    ("exchange", "netcdf", f"{STEPS} --deflate 1 --quantize 3"),
]  # fmt: skip


def test_a_pattern_that_is_not_in_the_file(fail):
    """Rows of two ranks exchanged, a step that was lost, a variable that was written over
    another: no library tells of that, compressed or rounded or as it is."""
    fail(
        [
            Attempt(Way(backend), f"--local-size 16x16x24 {pattern}", library=fault)
            for fault, backend, pattern in LAYERS
        ],
        check_seen,
    )


# What becomes of the file after the sync, without another size.
MIDDLE = 'at=$(($(stat -c %s "$FAULT_PATH") / 2 / 8 * 8)); '
ZEROS = MIDDLE + (
    'dd if=/dev/zero of="$FAULT_PATH" oflag=seek_bytes seek=$at bs=512 count=1 conv=notrunc '
    "status=none"
)
SHIFT = MIDDLE + (
    'tail -c +$((at + 9)) "$FAULT_PATH" | head -c 65536 > "$FAULT_PATH.x" && '
    'dd if="$FAULT_PATH.x" of="$FAULT_PATH" oflag=seek_bytes seek=$at conv=notrunc status=none && '
    'rm "$FAULT_PATH.x"'
)
BLOCK = 'dd if="$FAULT_PATH.x" of="$FAULT_PATH" bs=64K count=1 conv=notrunc status=none '
EXCHANGE = (
    f'cp "$FAULT_PATH" "$FAULT_PATH.x" && {BLOCK} skip=2 seek=3 && {BLOCK} skip=3 seek=2 && '
    'rm "$FAULT_PATH.x"'
)


def test_zeros_a_shift_and_two_buffers_exchanged(fail):
    fail(
        [
            Attempt(way, f"--operation {timed}", "command", {"COMMAND": command, "RANK": "all"})
            for way, command, timed in itertools.product(
                EVERY_BACKEND, [ZEROS, SHIFT, EXCHANGE], ["write", "write,read"]
            )
        ],
        check_seen_by_any,
    )


class Disk(NamedTuple):
    """A filesystem of its own, and the file that is its disk."""

    mounted: Path
    image: Path


@pytest.fixture
def disk(own_mounts, tmp_path, need) -> Iterator[Disk]:
    disk = Disk(tmp_path / "mounted", tmp_path / "image")
    disk.mounted.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(2**26)
    subprocess.run([need("mkfs.ext4"), "-q", disk.image], check=True)
    mount = ["mount", "-o", "loop", disk.image, disk.mounted]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"there is no loop device here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk.mounted], check=True)
    disk.image.unlink()


@other_component_is_slow
def test_a_byte_that_flips_on_the_disk(fail, disk, ways):
    """After the sync, and below the filesystem: every cache above still has what was written."""
    below = shlex.join(map(str, [sys.executable, ROOT / "tests/faults/below.py", disk.image]))

    def check(outcome, attempt):
        check_seen_by_any(outcome)
        assert "1 of " in outcome.said
        check_left(outcome)

    attempts = []
    for way, timed in itertools.product(ways, ["write", "write,read"]):
        directory = disk.mounted / str(len(attempts)) / "files"
        directory.mkdir(parents=True)
        settings = {"COMMAND": below, "RANK": "all"}
        attempts.append(
            Attempt(way, f"--operation {timed}", "command", settings, directory=directory)
        )
    fail(attempts, check)


class Write(NamedTuple):
    """A run, its first or last file and the round that this was written in."""

    backend: str
    run_id: str = "test"
    files: str = "shared"
    file: int = 0
    round: int = 1

    def attempt(self, command: str) -> Attempt:
        """With a command after the sync of the file."""
        options = f"--files {self.files} --repeats {self.round}"
        name = files_of(self.backend, RANKS if self.files == "process" else 1)[self.file]
        return Attempt(
            Way(self.backend), options, "command",
            {"COMMAND": command, "CALL": self.round, "RANK": "all"}, name, run_id=self.run_id,
        )  # fmt: skip


# Another's file, and the file that it is in place of.
STALE = {
    "the same": [(Write("posix"), Write("posix"))],
    "night": [(Write(backend, "last-night"), Write(backend)) for backend, _ in EVERY_BACKEND],
    "backend": [(Write("posix"), Write("mpiio")), (Write("netcdf"), Write("hdf5"))],
    "file": [
        (Write(backend, files="process", file=0), Write(backend, files="process", file=1))
        for backend, _ in EVERY_BACKEND
    ],
    "round": [(Write(backend, round=1), Write(backend, round=2)) for backend, _ in EVERY_BACKEND],
}


@pytest.mark.parametrize("stale", STALE)
def test_data_of_another(attempt, tmp_path, stale):
    """As large, and whole: last night's, another backend's, another file's, the last round's. Of
    the same run they are right: it is their values that tell them."""
    olds, news = zip(*STALE[stale], strict=True)
    copies = [tmp_path / str(number) for number in range(len(olds))]
    for copied in attempt(
        [old.attempt(f'cp "$FAULT_PATH" {copy}') for old, copy in zip(olds, copies, strict=True)]
    ):
        assert copied.done.code == 0, copied.done.err
    for replaced in attempt(
        [new.attempt(f'cp {copy} "$FAULT_PATH"') for new, copy in zip(news, copies, strict=True)]
    ):
        assert replaced.done.code == (0 if stale == "the same" else VERIFICATION), replaced.done.err
        assert len(replaced.done.errors) == (stale != "the same")


LAST_BYTE = (
    'printf x | dd of="$FAULT_PATH" bs=1 seek=$(($(stat -c %s "$FAULT_PATH") - 1)) conv=notrunc '
    "status=none"
)


def test_the_last_byte_of_a_large_slice(fail):
    """A rank reads a slice of 12 MiB in more than one piece."""

    def check(outcome, attempt):
        check_seen(outcome)
        assert outcome.error["message"].startswith("1 of 1572864 elements differ")

    options = "--local-size 128x128x96 --repeats 1"
    fail([Attempt(Way("posix"), options, "command", {"COMMAND": LAST_BYTE}, ranks=1)], check)


@pytest.fixture
def cached(attempt):
    """cached(attempts): the cases of runs on a disk whose file's pages do what the fault is."""

    def start(attempts):
        outcomes = attempt(attempts)
        assert [outcome.done.code for outcome in outcomes] == [0] * len(attempts), outcomes
        if outcomes[0].result["run"]["filesystem"]["type"] not in ("ext4", "xfs"):
            pytest.skip("the files are on no disk here")
        return [outcome.result["cases"][0] for outcome in outcomes]

    return start


def test_pages_that_stay_in_one_round_of_two(cached):
    """What was read is suspect for one round's sake; and the witness, whom O_DIRECT was refused
    when it was late, does not claim that it read past them."""
    (case,) = cached([Attempt(Way("posix"), "--operation read", "cached")])  # until the next sync
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


def test_a_filesystem_that_takes_o_direct_and_ignores_it(cached):
    """What the witness reads is in the page cache afterwards: so it was not read past it."""
    (case,) = cached([Attempt(Way("posix"), "--operation write", "ignored")])
    for repetition in case["repetitions"]:
        assert not repetition["witness"]["direct"]
        assert repetition["witness"]["page_cache_fraction"] == 0, "it was dropped before"


def test_pages_that_no_sync_writes(cached):
    """The bytes are on the disk when the witness reads them, past the page cache: that a sync had
    not brought them there, the pages alone tell."""
    options = "--operation write"
    cases = cached([Attempt(way, options, "unsynced") for way in EVERY_BACKEND])
    for case in cases:
        witnesses = [repetition["witness"] for repetition in case["repetitions"]]
        assert all(w["direct"] for w in witnesses), case["backend"]
        assert max(w["unsynced_fraction"] for w in witnesses) > 0.01, case["backend"]


def test_pages_of_the_second_of_several_files_that_no_sync_writes(cached):
    options, second = "--operation write --files process", files_of("posix", RANKS)[1]
    (case,) = cached([Attempt(Way("posix"), options, "unsynced", {"RANK": "all"}, file=second)])
    fractions = [repetition["witness"]["unsynced_fraction"] for repetition in case["repetitions"]]
    assert max(fractions) == pytest.approx(1 / RANKS, rel=0.1), "all of that file"


def test_pages_of_which_one_node_does_not_know(cached):
    """Rank 0 looks for its node and does not know; rank 2 looks for another, and finds pages."""
    settings, nodes = {"RANK": 0, "CALL": 9}, {"LIBRARY_NODES": "0,0,1"}
    way, options = Way("posix"), "--operation read"
    (case,) = cached([Attempt(way, options, "unknown", settings, library="nodes", env=nodes)])
    assert (case["cache"]["page_cache_fraction"], case["cache"]["suspect"]) == (None, True)


@pytest.fixture
def volatile(own_mounts, tmp_path) -> Iterator[Path]:
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


def test_a_filesystem_that_does_not_sync(attempt, volatile):
    """What it has written by itself until the pages are looked at is none of them."""
    (outcome,) = attempt(
        [Attempt(Way("mpiio,posix"), "--local-size 128x128x96 --repeats 4", directory=volatile)]
    )
    assert outcome.done.code == 0, outcome.done.err
    for case in outcome.result["cases"]:
        witnesses = [repetition["witness"] for repetition in case["repetitions"]]
        unsynced = [w["unsynced_fraction"] or 0 for w in witnesses]  # None: only some pages stayed
        assert max(unsynced) > 0.01, case["backend"]
    assert outcome.done.out.count(" % of it in the page cache, to be written later") == 2


def test_a_read_of_the_witness_that_fails(fail):
    """What it could not read it has not confirmed. All the same on which rank; and what stands in
    for system calls is on record."""

    def check(outcome, attempt):
        assert (outcome.done.code, outcome.error["rank"]) == (IO, 1)
        assert outcome.call == ("pread", file_in(outcome))
        assert "/shim.so" in outcome.result["environment"]["variables"]["LD_PRELOAD"]

    fail([Attempt(Way("posix"), fault="read", settings={"RANK": 1})], check)
