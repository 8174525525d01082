"""benchio on the cluster's nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import RUN_ID, Run
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
        size = ["--local-size", EXTENT, "--warmup", 0, "--repeats", 2, "--run-id", RUN_ID]
        return self.slurm.srun(nodes, ranks, *srun, *below, *self.options(*size, *options))

    def result(self) -> dict[str, Any]:
        return self.read_result(self.json)
