"""The speed and memory of benchio itself, as ratios: prints three tables.

usage: speed.py [--smallest] [DIRECTORY [ROUNDS]]

A round runs everything once, in an order that rotates, so that contention meets all alike. A ratio
is taken within its round; a table has the median over the rounds and, in brackets, their range.
data: the rate of the write phase alone, over that of plain pwrite from memory without halo.
peak: the most memory that a rank held, with what MPI and the libraries take; field: its block with
halo. NetCDF packs a block that has one into another of its size.
The second table is of patterns: the rate from opening to closing, over that of the same backend
without a pattern, in contiguous blocks.
The third is of one core: GB/s of making and confirming what a file holds, beside the limits.
--smallest shows in seconds that every figure is still measured; they say nothing of the speed.
"""

import json
import os
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import BACKENDS, BENCHIO, OPEN_MPI, ROOT

from iowatch.cases.parameters import PATTERN

SMALLEST = "--smallest" in sys.argv
RANKS = 4
SIZE = (8, 8, 8) if SMALLEST else (256, 256, 128)  # of a rank's block: 64 MiB
# 4 MiB: rows of all ranks in turn are many calls, and take long
OF_PATTERNS = (8, 8, 8) if SMALLEST else (128, 64, 64)
STRIDED, CONTIGUOUS = (2, 2, 1), (1, 1, 4)  # grids: rows of a block are apart in the file, or not
REPEATS = 3  # in each run; its fastest tells least of others' work
PLAIN = "pwrite"
WAYS = ("fill", "memcpy", "confirm", "memcmp", "pread")  # as content.c numbers them
MIB = 2**20


class ArrayShape(NamedTuple):
    """How the elements are moved."""

    grid: tuple[int, int, int]
    halo: int  # of a block in memory
    pattern: str = ""
    size: tuple[int, int, int] = SIZE


SHAPES = [ArrayShape(CONTIGUOUS, 0), ArrayShape(CONTIGUOUS, 1), ArrayShape(STRIDED, 0)]
#: Each with the backends that have it.
PATTERNS = {
    **dict.fromkeys(["strided", "random", "steps=8", "variables=4"], BACKENDS),
    "deflate=1": ["hdf5", "netcdf"],
    "deflate=1:quantize=4": ["netcdf"],
    "nonblocking": ["pnetcdf"],
}
if SMALLEST:
    SHAPES = SHAPES[1:2]
    PATTERNS = {pattern: backends[:1] for pattern, backends in PATTERNS.items()}
#: Shape of rows, which benchio deals out by a grid of its own.
OF_ROWS = ("strided", "random")
#: The figures of a round by name, program and shape: `data` and `total` in MiB/s, the first of the
#: write phase alone; `peak`, MiB beyond the field of the largest rank.
Round = dict[tuple[str, str, ArrayShape], float]


def run_program(*words: object) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **OPEN_MPI},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{words[0]}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def mpirun(*words: object, ranks: int = RANKS) -> str:
    return run_program("mpirun", "-n", ranks, *words)


def built(name: str, *more: object) -> Path:
    """The program of a source beside this, and of more words of the compiler."""
    program = ROOT / "build/bench" / name
    program.parent.mkdir(exist_ok=True)
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(["mpicc", "-O3", "-o", program, source, *map(str, more)], check=True)
    return program


def of_content(rounds: int, folder: Path) -> dict[str, list[float]]:
    """GB/s of each way on one core: what benchio does, and after each what limits it."""
    lib = ROOT / "src/benchio/lib"
    program = built("content", f"-I{lib}/posix", lib / "verify/content.c", "-lm")
    out = run_program(program, folder / "content", 1 if SMALLEST else 256, rounds)
    ways: dict[str, list[float]] = {name: [] for name in WAYS}
    for line in out.splitlines():
        _round, way, speed = line.split()
        ways[WAYS[int(way)]].append(float(speed))
    return ways


def rate_of_pwrite(program: Path, shape: ArrayShape, folder: Path) -> float:
    out = mpirun(program, folder / "plain", *SIZE, *shape.grid, REPEATS + 1)
    size, _warmup, *seconds = (float(line) for line in out.split())
    return size / MIB / min(seconds)


def run_benchio(backend: str, shape: ArrayShape, folder: Path) -> dict[str, Any]:
    """The result of a run of its own, since the memory's high-water mark is a process's."""
    file = folder / "result.json"
    grid = [] if shape.pattern in OF_ROWS else ["--grid", words(shape.grid)]
    pattern = PATTERN.option(shape.pattern).split()
    mpirun(
        BENCHIO, "--backend", backend, "--local-size", words(shape.size), *grid, *pattern,
        "--halo", shape.halo, "--warmup", 1, "--repeats", REPEATS, "--dir", folder, "--json", file,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def best_of(result: dict[str, Any], rate: str) -> float:
    repetitions = result["cases"][0]["repetitions"]
    return max(rep["rates"][rate] for rep in repetitions if not rep["warmup"])


def with_pattern(pattern: str) -> ArrayShape:
    """Small contiguous blocks without a halo, in this pattern; empty: in none."""
    return ArrayShape(CONTIGUOUS, 0, pattern, OF_PATTERNS)


def words(extents: tuple[int, int, int]) -> str:
    return "x".join(map(str, extents))


def measure(count: int, folder: Path) -> list[Round]:
    program = built("pwrite")
    runs = [(name, shape) for shape in SHAPES for name in (PLAIN, *BACKENDS)]
    patterns = {"": sorted({*chain.from_iterable(PATTERNS.values())}), **PATTERNS}
    runs += [(name, with_pattern(pattern)) for pattern, names in patterns.items() for name in names]
    rounds: list[Round] = [{} for _ in range(count)]
    for number, figures in enumerate(rounds):
        for name, shape in runs[number:] + runs[:number]:
            if name == PLAIN:
                figures["data", name, shape] = rate_of_pwrite(program, shape, folder)
            else:
                result = run_benchio(name, shape, folder)
                memory = result["memory"]
                figures["data", name, shape] = best_of(result, "data")
                figures["total", name, shape] = best_of(result, "total")
                figures["peak", name, shape] = memory["peak_rss_mib"] - memory["field_mib"]
        print(f"bench: round {number + 1} of {count}", file=sys.stderr)
    return rounds


def brief(values: list[float]) -> str:
    assert values, "nothing was measured"
    assert min(values) > 0, values
    return f"{median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def row(name: str, rounds: list[Round]) -> list[str]:
    """The ratio to pwrite and the memory beyond the field, for each shape."""
    cells = [name]
    for shape in SHAPES:
        ratios = [done["data", name, shape] / done["data", PLAIN, shape] for done in rounds]
        memory = median(done["peak", name, shape] for done in rounds)
        cells += [brief(ratios), f"{memory:.0f}"]
    return cells


def row_of_pattern(pattern: str, rounds: list[Round]) -> list[str]:
    """The ratio to the same backend's write without a pattern, for each backend."""
    shape, plain = with_pattern(pattern), with_pattern("")
    cells = [pattern]
    for name in BACKENDS:
        is_there = name in PATTERNS[pattern]
        totals = [
            (done["total", name, shape], done["total", name, plain]) for done in rounds if is_there
        ]
        cells.append(brief([total / of_plain for total, of_plain in totals]) if is_there else "")
    return cells


def main(directory: str = "/dev/shm", rounds: str = "1" if SMALLEST else "5") -> None:
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.", dir=directory) as folder:
        ways = of_content(int(rounds), Path(folder))
        measured = measure(int(rounds), Path(folder))
    title = f"{RANKS} ranks of {{}} elements in {directory}"
    table = Table(title=title.format(words(SIZE)))
    table.add_column("backend")
    for shape in SHAPES:
        label = f"{words(shape.grid)}, halo {shape.halo}"
        table.add_column(f"data / pwrite\n{label}", justify="right")
        table.add_column("peak - field\nMiB", justify="right")
    for name in BACKENDS:
        table.add_row(*row(name, measured))
    patterns = Table(title=title.format(words(OF_PATTERNS)))
    patterns.add_column("pattern", no_wrap=True)
    for name in BACKENDS:
        patterns.add_column(f"{name}\ntotal / plain", justify="right")
    for pattern in PATTERNS:
        patterns.add_row(*row_of_pattern(pattern, measured))
    content = Table(title="one core: what a file holds, and the limits; GB/s")
    for name in WAYS:
        content.add_column(name, justify="right")
    content.add_row(*map(brief, ways.values()))
    for limited, limit in (("fill", "memcpy"), ("confirm", "memcmp")):
        ratios = [a / b for a, b in zip(ways[limited], ways[limit], strict=True)]
        content.caption = f"{content.caption or ''}{limited} / {limit} {brief(ratios)}  "
    Console(width=120).print(table, patterns, content)


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "--smallest"))
