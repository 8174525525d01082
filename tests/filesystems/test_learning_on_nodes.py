"""Programs that learn, on nodes with a client of CephFS each: cold reads, and faults of files."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import RUN_ID, run_directory
from faults.attempts import IO, VERIFICATION
from filesystems.bench import Bench
from filesystems.ceph import Ceph

pytestmark = pytest.mark.slow

ONCE = ("--repeats", 1)
SAMPLES = ("--operation", "samples", "--items", 40, "--sample", "110KiB", "--per-file", 16, *ONCE)
STARTUP = ("--operation", "startup", "--items", 100, *ONCE)
CHECKPOINT = ("--operation", "checkpoint", "--items", 2, "--sample", "1MiB", *ONCE)


@pytest.fixture
def bench(on: Callable[[str], Bench], ceph: Ceph) -> Bench:
    made = on(ceph.path.name)
    made.shape = ()
    return made


@pytest.mark.parametrize(
    ("options", "nodes", "ranks"),
    [(SAMPLES, 2, 4), (STARTUP, 2, 4), (CHECKPOINT, 4, 8), (CHECKPOINT, 2, 6), (CHECKPOINT, 2, 2)],
)
def test_reads_come_from_the_servers(
    bench: Bench, ceph: Ceph, options: tuple[object, ...], nodes: int, ranks: int
) -> None:
    """Every byte at least once: the OSDs count what they give to clients."""
    before = ceph.bytes_read()
    done = bench.run(nodes, ranks, *options)
    assert done.code == 0, done.err
    result = bench.result()
    assert ceph.bytes_read() - before >= result["run"]["bytes"]
    *_, case = result["cases"]
    assert (case["cache"]["other_node_byte_fraction"], case["cache"]["suspect"]) == (1, False)
    (repetition,) = case["repetitions"]
    assert repetition["witness"]["bytes"] == result["run"]["bytes"]
    assert repetition["witness"]["other_node_byte_fraction"] == 1
    assert bench.files == []


def test_reads_of_one_node_are_suspect(bench: Bench, ceph: Ceph) -> None:
    """Its client still has what it has written, and the OSDs are hardly asked."""
    before = ceph.bytes_read()
    done = bench.run(1, 4, *CHECKPOINT)
    assert done.code == 0, done.err
    result = bench.result()
    assert ceph.bytes_read() - before < result["run"]["bytes"] / 2
    assert result["cases"][1]["cache"]["suspect"]


def altered(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(1000)
        byte = opened.read(1)[0]
        opened.seek(1000)
        opened.write(bytes([byte ^ 1]))


def without_a_file(tree: Path) -> None:
    (tree / "d0/d0/d2/f0000033").unlink()


@pytest.mark.parametrize(
    ("options", "file", "rank", "harm", "said"),
    [
        (SAMPLES, "s0000000", 0, altered, "its first wrong byte is 1000"),
        (CHECKPOINT, "s0000001", 1, altered, "its first wrong byte is 1000"),
        (STARTUP, "", 0, without_a_file, "it is missing"),
    ],
)
def test_what_another_client_has_done_to_a_file_is_seen(
    bench: Bench, shim: Path, options: tuple[object, ...], file: str,
    rank: int, harm: Callable[[Path], None], said: str,
) -> None:  # fmt: skip
    """Between the sync and the read."""
    directory = run_directory(bench.directory) / f"{options[1]}.round1.0"
    done = bench.run_with_harm(
        shim, lambda path: harm(bench.slurm.machine.seen(path)), directory / file, 2, 4,
        *options, rank=rank,
    )  # fmt: skip
    assert done.code == VERIFICATION, done.err
    (error,) = done.errors
    assert str(directory / file) in error
    assert said in error
    result = bench.result()
    assert (result["status"], result["cases"]) == ("verification_error", [])
    assert f"benchio.{RUN_ID}/wrong_data.txt" in bench.files


def test_no_room(bench: Bench) -> None:
    """By a quota, of which statfs knows nothing: said once, and nothing is left."""
    place = bench.slurm.machine.seen(bench.directory)
    os.setxattr(place, "ceph.quota.max_bytes", b"500000")
    done = bench.run(2, 4, *CHECKPOINT)
    assert done.code == IO, done.err
    (error,) = done.errors
    assert error.endswith(os.strerror(errno.EDQUOT))
    assert bench.files == []
