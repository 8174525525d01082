"""A server that loses or alters what it has acknowledged, while every client has it still."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FILES, RUN_ID, run_directory
from filesystems.bench import Bench
from filesystems.gluster import Gluster

VERIFICATION = 4
RANKS, BLOCK = 4, "64x64x96"
BACKENDS = ("mpiio", "hdf5", "pnetcdf", "posix")
ZEROS = bytes(2**16)


def check_seen(
    bench: Bench, shim: Path, nodes: int, backend: str, harm: Callable[[Path], None] | None
) -> None:
    """A harm is seen; and a run without one, which stops in its sync as well, is right."""
    file = run_directory(bench.directory) / FILES[backend]
    done = bench.run_with_harm(
        shim, harm or (lambda file: None), file, nodes, RANKS, "--backend", backend,
        "--local-size", BLOCK, "--grid", f"1x1x{RANKS}", "--repeats", 1,
    )  # fmt: skip
    assert done.code == (VERIFICATION if harm else 0), (done.out, done.err)
    if harm is None:
        return
    assert len(done.errors) == 1, done.err
    assert "MiB/s" not in done.out
    result = bench.result()
    assert (result["status"], result["cases"]) == ("verification_error", [])
    assert result["run"]["id"] == RUN_ID
    evidence = (FILES[backend], "wrong_data.txt")
    assert bench.files == sorted(
        f"{run_directory(bench.directory).name}/{name}" for name in evidence
    )


HARM = [("", "mpiio"), ("altered", "mpiio"), *(("lost", backend) for backend in BACKENDS)]


@pytest.mark.parametrize(("harm", "backend"), HARM)
def test_glusterfs_brick(
    on: Callable[[str], Bench], gluster: Gluster, shim: Path, backend: str, harm: str
) -> None:
    """What the server has of the file, in the middle."""

    def damage(file: Path) -> None:
        brick = gluster.brick(file)
        with brick.open("r+b") as below:
            below.seek(brick.stat().st_size // 2)
            below.write(b"altered" if harm == "altered" else ZEROS)

    check_seen(on(gluster.path.name), shim, 2, backend, damage if harm else None)
