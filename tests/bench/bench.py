"""The speed and memory of benchio itself, as ratios: prints a table, asserts nothing.

usage: bench.py [DIRECTORY [ROUNDS]]

A round runs everything once, in an order that rotates, so that contention meets all alike. A ratio
is taken within its round; the table has the median over the rounds and, in brackets, their range.
data: the rate of the write phase alone, over that of plain pwrite from memory without halo.
peak: the most memory that a rank held, with what MPI and the libraries take; field: its block with
halo. NetCDF packs a block that has one into another of its size.
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
STRIDED, CONTIGUOUS = (2, 2, 1), (1, 1, 4)  # grids: rows of a block are apart in the file, or not
#: Each grid with the halo of a block in memory.
SHAPES = [(CONTIGUOUS, 0), (CONTIGUOUS, 1), (STRIDED, 0)]
REPEATS = 3  # in each run; its fastest tells least of others' work
PLAIN = "pwrite"
MIB = 2**20

Shape = tuple[tuple[int, int, int], int]
Run = tuple[str, Shape]


@dataclass
class Round:
    """What every run of a round came to."""

    rate: dict[Run, float] = field(default_factory=dict)  # MiB/s, of data only
    peak: dict[Run, float] = field(
        default_factory=dict
    )  # MiB beyond its field, of the largest rank


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


def rate_of_pwrite(program: Path, shape: Shape, folder: Path) -> float:
    grid, _halo = shape
    out = mpirun(program, folder / "plain", *SIZE, *grid, REPEATS + 1)
    size, _warmup, *seconds = (float(line) for line in out.split())
    return size / MIB / min(seconds)


def run_benchio(backend: str, shape: Shape, folder: Path) -> dict[str, Any]:
    """The result of a run of its own, since the memory's high-water mark is a process's."""
    file = folder / "result.json"
    grid, halo = shape
    mpirun(
        BENCHIO, "--backend", backend, "--local-size", words(SIZE),
        "--grid", words(grid), "--halo", halo, "--warmup", 1, "--repeats", REPEATS,
        "--dir", folder, "--json", file,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def best_of(result: dict[str, Any]) -> float:
    repetitions = result["cases"][0]["repetitions"]
    return max(rep["rates"]["data"] for rep in repetitions if not rep["warmup"])


def words(extents: tuple[int, int, int]) -> str:
    return "x".join(map(str, extents))


def measure(count: int, folder: Path) -> list[Round]:
    program = build_pwrite()
    runs = [(name, shape) for shape in SHAPES for name in (PLAIN, *BACKENDS)]
    rounds = [Round() for _ in range(count)]
    for number, this in enumerate(rounds):
        for name, shape in runs[number:] + runs[:number]:
            if name == PLAIN:
                this.rate[name, shape] = rate_of_pwrite(program, shape, folder)
            else:
                result = run_benchio(name, shape, folder)
                memory = result["memory"]
                this.rate[name, shape] = best_of(result)
                this.peak[name, shape] = memory["peak_rss_mib"] - memory["field_mib"]
        print(f"bench: round {number + 1} of {count}", file=sys.stderr)
    return rounds


def brief(values: list[float]) -> str:
    return f"{median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def row(name: str, rounds: list[Round]) -> list[str]:
    """Of each shape the ratio to pwrite and the memory beyond the field."""
    cells = [name]
    for shape in SHAPES:
        cells += [
            brief([of.rate[name, shape] / of.rate[PLAIN, shape] for of in rounds]),
            f"{median(of.peak[name, shape] for of in rounds):.0f}",
        ]
    return cells


def main(directory: str = "/dev/shm", rounds: str = "5") -> None:
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.", dir=directory) as folder:
        measured = measure(int(rounds), Path(folder))
    table = Table(title=f"{RANKS} ranks of {words(SIZE)} elements in {directory}")
    table.add_column("backend")
    for grid, halo in SHAPES:
        table.add_column(f"data / pwrite\n{words(grid)}, halo {halo}", justify="right")
        table.add_column("peak - field\nMiB", justify="right")
    for name in BACKENDS:
        table.add_row(*row(name, measured))
    Console(width=110).print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
