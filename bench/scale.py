"""The cost of benchio as ranks grow in number: prints two tables.

usage: scale.py [--smallest] [DIRECTORY]

The first table is of ranks that are not there, by src/benchio/test/plan_scale.f90: seconds, and MiB
added to the memory of one rank, of planning its block, of the list of nodes that rank 0 has, of
finding the partners of a thousand ranks, and of the record of kept files, written and read. A node
has 128 ranks, which are neighbours (blocks) or dealt out in turn (turns).
The second table is of real runs in DIRECTORY (/dev/shm), all on this machine: MiB of the largest
rank beyond its field, seconds that benchio itself adds between phases, and those of the whole job
with MPI's start, which takes most of them.
--smallest shows in seconds that every figure is still measured.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from speed import mpirun, run_program

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import BENCHIO, ROOT

SMALLEST = "--smallest" in sys.argv
PLAN_SCALE = ROOT / "build/benchio/test/plan_scale"
MADE_UP = [10**3] if SMALLEST else [10**3, 10**4, 10**5, 10**6]
REAL = [2] if SMALLEST else [4, 16, 64, 192]
ON_NODE = 128
PARTS = ("block", "nodes", "partners", "record")


def made_up_ranks() -> Table:
    table = Table("ranks", "node's ranks", title="a rank's cost, without the other ranks")
    for part in PARTS:
        table.add_column(f"{part}\ns", justify="right")
        table.add_column("MiB", justify="right")
    for ranks in MADE_UP:
        for order in ("blocks", "turns"):
            lines = run_program(PLAN_SCALE, ranks, ON_NODE, order).splitlines()
            figures = {words[0]: words[1:] for words in map(str.split, lines)}
            assert tuple(figures) == PARTS, lines
            cells = []
            for seconds, mib, number in figures.values():
                assert float(seconds) > 0, lines
                assert float(mib) >= 0, lines
                assert int(number) >= 0, lines
                cells += [f"{float(seconds):.6f}", f"{float(mib):.1f}"]
            table.add_row(f"{ranks}", order, *cells)
    return table


def real_ranks(folder: Path) -> Table:
    table = Table("ranks", title=f"runs of mpiio in {folder.parent}, 8x8x8 elements a rank")
    for name in ("peak - field\nMiB", "between phases\ns", "job\ns"):
        table.add_column(name, justify="right")
    file = folder / "result.json"
    for ranks in REAL:
        start = time.monotonic()
        mpirun(
            BENCHIO, "--local-size", 8, "--warmup", 0, "--repeats", 1, "--dir", folder,
            "--json", file, ranks=ranks,
        )  # fmt: skip
        seconds = time.monotonic() - start
        result = json.loads(file.read_text())
        memory, (case,) = result["memory"], result["cases"]
        (repetition,) = case["repetitions"]
        beyond = memory["peak_rss_mib"] - memory["field_mib"]
        assert result["run"]["ranks"] == ranks
        assert beyond > 0, memory
        between = repetition["phases"]["stable"]["between"]
        table.add_row(f"{ranks}", f"{beyond:.0f}", f"{between:.4f}", f"{seconds:.1f}")
    return table


def main(directory: str = "/dev/shm") -> None:
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.", dir=directory) as folder:
        tables = made_up_ranks(), real_ranks(Path(folder))
    Console(width=120).print(*tables)


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "--smallest"))
