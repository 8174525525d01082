"""How long a year of nights takes to load: prints a table, asserts nothing.

usage: database.py [RUNS]

The database is as ReFrame's own storage leaves it after 365 sessions of 200 cases with 12 figures
each, made from one small run of benchio. Every run is a process of its own; the table has the
median over the runs and, in brackets, their range. CPU: what others' work on the machine tells on
least; peak: the most memory that the process held.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import BENCHIO, ROOT
from integration.conftest import new_site

NIGHTS, CASES, FIGURES = 365, 200, 12
MIB = 2**20

LOAD = """
import json, re, sys, time
from pathlib import Path
from iowatch.past.history import by_night, read
start, used = time.perf_counter(), time.process_time()
records = read([Path(sys.argv[1])])
loaded = time.perf_counter()
cases = by_night(records)
grouped, used = time.perf_counter(), time.process_time() - used
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
nights = {len(nights) for nights in cases.values()}
figures = {len(record.figures) for record in records}
shape = [len(cases), *nights, *figures]
print(json.dumps([shape, loaded - start, grouped - loaded, used, int(peak[1])]))
"""


def python(*words: object) -> str:
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words[0]}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def store_year(folder: Path) -> Path:
    with new_site(folder, BENCHIO) as site:
        site.write["backend"] = ["hdf5"]
        done = site.reframe("-r", "--mode=record")
    if done.returncode != 0:
        sys.exit(f"reframe: exit code {done.returncode}\n{done.stdout}")
    database = folder / "year.db"
    template = folder / "run" / "results.db"
    python(ROOT / "tests/integration/year.py", template, database, NIGHTS, CASES)
    return database


def brief(values: list[float]) -> str:
    return f"{median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def main(runs: str = "7") -> None:
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.") as folder:
        database = store_year(Path(folder))
        size = database.stat().st_size
        measured = [json.loads(python("-c", LOAD, database)) for _ in range(int(runs))]
    for shape, *_ in measured:
        if shape != [CASES, NIGHTS, FIGURES]:
            sys.exit(f"a year of another shape was read (cases, nights, figures): {shape}")
    _, load, group, cpu, peak = map(list, zip(*measured, strict=True))
    table = Table(
        title=f"{NIGHTS} sessions of {CASES} cases, {FIGURES} figures each: {size / MIB:.0f} MiB"
    )
    for heading in ("load, s", "group by night, s", "both, s", "CPU of both, s", "peak, MiB"):
        table.add_column(heading, justify="right")
    both = [a + b for a, b in zip(load, group, strict=True)]
    mebibytes = [kib / 1024 for kib in peak]
    table.add_row(*(brief(values) for values in (load, group, both, cpu, mebibytes)))
    Console(width=110).print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
