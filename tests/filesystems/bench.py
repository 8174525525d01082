"""benchio on the cluster's nodes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import RUN_ID, Run
from filesystems.machine import wait_until
from filesystems.slurm import Slurm

EXTENT = 12  # of a rank's cube

ReadResult = Callable[[Path], dict[str, Any]]


@dataclass
class Bench:
    """benchio in a directory of its own on one of the cluster's filesystems."""

    slurm: Slurm
    benchio: Path
    directory: Path
    read_result: ReadResult
    shape: Sequence[object] = ("--local-size", EXTENT)  # of the array of each rank; none without

    @property
    def json(self) -> Path:
        """On the disk, whatever the filesystem."""
        return self.slurm.folder / "result.json"

    @property
    def files(self) -> list[str]:
        """Of this run, or of all in this directory."""
        top = self.slurm.machine.seen(self.directory)
        return sorted(str(file.relative_to(top)) for file in top.rglob("*") if file.is_file())

    def options(self, *options: object) -> list[object]:
        return [self.benchio, "--dir", self.directory, "--json", self.json, *options]

    def run(
        self, nodes: int, ranks: int, *options: object, srun: Sequence[object] = (),
        below: Sequence[object] = (),
    ) -> Run:  # fmt: skip
        """Two rounds; `srun` are its options, `below` is a command that starts each rank."""
        usual = [*self.shape, "--warmup", 0, "--repeats", 2, "--run-id", RUN_ID]
        return self.slurm.srun(nodes, ranks, *srun, *below, *self.options(*usual, *options))

    def run_with_harm(
        self, shim: Path, harm: Callable[[Path], None], file: Path, nodes: int, ranks: int,
        *options: object, rank: int = 0,
    ) -> Run:  # fmt: skip
        """A run whose file is harmed, by its path, after this rank's sync of it. The rank stops for
        that long enough for the other node's sync."""
        synced, harmed = (self.slurm.folder / name for name in ("synced", "harmed"))
        hold = f"sleep 0.5; touch {synced}; until [ -e {harmed} ]; do sleep 0.02; done"
        fault = {"": "command", "_FILE": file, "_RANK": rank, "_COMMAND": hold}
        below = ["env", *(f"FAULT{name}={value}" for name, value in fault.items())]
        below.append(f"LD_PRELOAD={shim}")
        with ThreadPoolExecutor() as pool:
            run = pool.submit(self.run, nodes, ranks, *options, below=below)
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

    def result(self) -> dict[str, Any]:
        return self.read_result(self.json)
