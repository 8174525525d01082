"""The speed and memory of benchio itself, as ratios: prints a table, asserts nothing.

usage: bench.py [DIRECTORY [ROUNDS]]

A round runs everything once, in an order that rotates, so that contention meets all alike. A ratio
is taken within its round; the table has the median over the rounds and, in brackets, their range.
peak: the most memory that a rank held; field: its block with halo.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import BACKENDS, BENCHIO, OPEN_MPI, ROOT

RANKS = 4
SIZE = (256, 256, 128)  # of a rank's block: 64 MiB
GRIDS = {"strided": (2, 2, 1), "contiguous": (1, 1, 4)}
REPEATS = 3  # in each run; its fastest tells least of others' work
PLAIN = "pwrite"
MIB = 2**20

Run = tuple[str, str]  # a program and the name of its grid


@dataclass
class Round:
    """What every run of a round came to."""

    rate: dict[Run, float] = field(default_factory=dict)  # MiB/s, of data only
    peak: dict[Run, float] = field(default_factory=dict)  # MiB of the rank that had most
    block: float = 0  # MiB of a rank's block with its halo


def mpirun(*words: object) -> str:
    done = subprocess.run(
        ["mpirun", "-n", str(RANKS), *(str(word) for word in words)],
        env={**os.environ, **OPEN_MPI},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{words[0]}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def build_pwrite() -> Path:
    program = ROOT / "build/bench/pwrite"
    program.parent.mkdir(exist_ok=True)
    source = Path(__file__).with_name("pwrite.c")
    subprocess.run(["mpicc", "-O2", "-o", program, source], check=True)
    return program


def rate_of_pwrite(program: Path, grid: str, folder: Path) -> float:
    out = mpirun(program, folder / "plain", *SIZE, *GRIDS[grid], REPEATS + 1)
    size, _warmup, *seconds = (float(line) for line in out.split())
    return size / MIB / min(seconds)


def run_benchio(backend: str, grid: str, folder: Path) -> dict[str, Any]:
    """The result of a run of its own, since the memory's high-water mark is a process's."""
    file = folder / "result.json"
    mpirun(
        BENCHIO, "--backend", backend, "--local-size", "x".join(map(str, SIZE)),
        "--grid", "x".join(map(str, GRIDS[grid])), "--warmup", 1, "--repeats", REPEATS,
        "--dir", folder, "--json", file,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def measure(count: int, folder: Path) -> list[Round]:
    program = build_pwrite()
    runs = [(name, grid) for grid in GRIDS for name in (PLAIN, *BACKENDS)]
    rounds = [Round() for _ in range(count)]
    for number, this in enumerate(rounds):
        for name, grid in runs[number:] + runs[:number]:
            if name == PLAIN:
                this.rate[name, grid] = rate_of_pwrite(program, grid, folder)
            else:
                result = run_benchio(name, grid, folder)
                this.rate[name, grid] = result["cases"][0]["summary"]["data"]["max"]
                this.peak[name, grid] = result["memory"]["peak_rss_mib"]
                this.block = result["memory"]["field_mib"]
        print(f"bench: round {number + 1} of {count}", file=sys.stderr)
    return rounds


def brief(values: list[float]) -> str:
    return f"{median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def row(name: str, rounds: list[Round]) -> list[str]:
    growth = brief([of.rate[name, "contiguous"] / of.rate[name, "strided"] for of in rounds])
    if name == PLAIN:
        return [name, "", "", "", "", growth]
    peaks = [(max(of.peak[name, grid] for grid in GRIDS), of.block) for of in rounds]
    return [
        name,
        brief([peak / block for peak, block in peaks]),
        f"{median(peak - block for peak, block in peaks):.0f}",
        *(brief([of.rate[name, grid] / of.rate[PLAIN, grid] for of in rounds]) for grid in GRIDS),
        growth,
    ]


def main(directory: str = "/dev/shm", rounds: str = "5") -> None:
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.", dir=directory) as folder:
        measured = measure(int(rounds), Path(folder))
    table = Table(title=f"{RANKS} ranks of {'x'.join(map(str, SIZE))} elements in {directory}")
    table.add_column("backend")
    for heading in (
        "peak / field",
        "peak - field\nMiB",
        *(f"data / pwrite\n{'x'.join(map(str, shape))}" for shape in GRIDS.values()),
        "1x1x4 / 2x2x1",
    ):
        table.add_column(heading, justify="right")
    for name in (PLAIN, *BACKENDS):
        table.add_row(*row(name, measured))
    Console(width=110).print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
