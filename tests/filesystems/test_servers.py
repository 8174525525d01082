"""A server that loses or alters what it has acknowledged, while every client has it still."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import FILES, RUN_ID, Run, run_directory
from filesystems.bench import Bench
from filesystems.gluster import Gluster
from filesystems.machine import wait_until

VERIFICATION = 4
RANKS, BLOCK = 4, "64x64x96"
BACKENDS = ("mpiio", "hdf5", "pnetcdf", "posix")
ZEROS = bytes(2**16)


def run_with(
    bench: Bench, shim: Path, nodes: int, backend: str, harm: Callable[[Path], None]
) -> Run:
    """A run whose file is harmed, by its path, after its sync. The rank that stops for that stops
    long enough for the other node's sync."""
    file = run_directory(bench.directory) / FILES[backend]
    synced, harmed = (bench.slurm.folder / name for name in ("synced", "harmed"))
    hold = f"sleep 0.5; touch {synced}; until [ -e {harmed} ]; do sleep 0.02; done"
    fault = {"": "command", "_FILE": file, "_RANK": "0", "_COMMAND": hold}
    below = ["env", *(f"FAULT{name}={value}" for name, value in fault.items())]
    with ThreadPoolExecutor() as pool:
        run = pool.submit(
            bench.run, nodes, RANKS, "--backend", backend, "--local-size", BLOCK,
            "--grid", f"1x1x{RANKS}", "--repeats", 1,
            below=[*below, f"LD_PRELOAD={shim}"],
        )  # fmt: skip
        try:
            wait_until(lambda: synced.exists() or run.done(), "the sync")
            assert not run.done(), run.result()
            harm(file)
        finally:
            harmed.touch()
            done = run.result()
            synced.unlink(missing_ok=True)
            harmed.unlink()
    return done


def check_seen(
    bench: Bench, shim: Path, nodes: int, backend: str, harm: Callable[[Path], None] | None
) -> None:
    """A harm is seen; and a run without one, which stops in its sync as well, is right."""
    done = run_with(bench, shim, nodes, backend, harm or (lambda file: None))
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
