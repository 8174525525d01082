"""The cost of a night besides its jobs, after 1, 3 and 10 years of nights: prints a table.

usage: database.py [CASES [YEARS ...]] | --smallest

A night reads its past twice, once as the checks do and once as the driver, judges every case by it,
writes its page, and has its word kept. The table has the first night, which has no cache of the
past (iowatch.past.run_cache) and replays it, for nothing is stored of what the detector made of it;
and the median and range of NIGHTS after so many years. Checks and driver are processes of their
own, timed from after their imports; peak: the most memory that either held. The goals are 5 s and
500 MiB on a quiet core, and a CPU time that does not grow with the years. A second table has the
CPU time of the commands that show nights, over that of a Python which only imports attrs, yaml and
sqlite3; the goal is 3.

ReFrame does not write the database, which would take hours. The tables are those that ReFrame made
for one small run of benchio. A night is that run's session with 200 cases in place of one, inserted
as ReFrame would. Every case has 30 blessed nights, ten months ago. Older years are added to the
same database. Ten take about 18 GB under $TMPDIR while this runs. --smallest is one year of 4
cases, and one night.
"""

import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from checks.conftest import new_site
from conftest import BENCHIO

from iowatch.base.text import counted
from iowatch.cases.run import night_id
from iowatch.judge import bless
from iowatch.judge.baseline import Sample, estimate
from iowatch.measure.case_ids import parse_case
from iowatch.past.reframe_database import rows_with_digests, starts
from iowatch.past.words import GateRecord, Words

SMALLEST = "--smallest" in sys.argv  # shows in seconds that all is still measured
CASES, *YEARS = [4, 1] if SMALLEST else [*map(int, sys.argv[1:])] or [200]
YEARS = YEARS or [1, 3, 10]
DAYS, NIGHTS = 365, 1 if SMALLEST else 5
BLESSED = slice(-330, -300)  # of the nights
COMMANDS = ("status", "nights", "show")
DRIVER_LAPS = ("read", "night", "page")
MIB = 2**20
#: About how much a case takes in the database.
CASE_BYTES = 25_000
#: A healthy HDF5, and how much a metric varies from night to night.
USUAL = {
    "total_max": 7700.0, "total_median": 7100.0, "total_mean": 7000.0, "total_min": 6200.0,
    "stable_max": 7500.0, "stable_median": 6900.0, "data_median": 7600.0, "open_s": 0.02,
    "define_s": 0.01, "write_s": 1.1, "close_s": 0.04, "sync_s": 0.05, "unlink_s": 0.02,
    "overhead_fraction": 0.04, "ratio": 0.95,
}  # fmt: skip
SPREAD = 0.06

CHECKS = """
from iowatch.judge import bless
from iowatch.judge.judge import by_past
from iowatch.past import history
from iowatch.cases.run import LOOK_BACK, by_case

start()
blessed = bless.baselines_of("small", folder)
runs = history.read([database], now - LOOK_BACK, bless.spans(blessed.values()))
cases = by_case(run for run in runs if run.time <= now)
lap("read")
stored = {}
for case, nights in cases.items():
    *_, last = nights.values()
    every = [*nights.values()]
    past = by_past(case.check, every, [], blessed[case], now, last[-1].metrics, {})
    assert past.drift is not None and past.usual
    stored[str(case)] = past.judged.stored(past.verdict)
lap("judge")
end(len(cases), len(runs), stored)
"""
DRIVER = """
import iowatch.pages.plots
from iowatch.base.documents import document
from iowatch.pages import report
from iowatch.night.gate import night_of
from iowatch.night.record import SystemRecord
from iowatch.past.words import GateRecord
from iowatch.site.site import Site

start()
folder = database.parent
site = Site(system="small", filesystems=(), is_whole=True, prefix=folder, stage=folder,
            database=database, promises={})
record = SystemRecord.load(site.system, [site.database], now, site)
lap("read")
night = night_of(record, max(run.night for run in record.runs))
lap("night")
page = report.write_page(night, database.parent)
told = {"colour": night.colour, "why": night.why, "groups": night.groups, "ended": night.ended}
told |= {"time": now, "promised": len(night.cases), "rows": record.rows(night.id)}
record.words.keep(night.id, GateRecord(**told), document(night=night.document))
lap("page")
assert page.stat().st_size > 5_000 * len(night.cases), page.stat().st_size
end(len(night.cases), len(record.runs))
"""
TIMED = r"""
import json, re, sys, time
from datetime import datetime, timezone
from pathlib import Path
database, folder, now = Path(sys.argv[1]), Path(sys.argv[2]), datetime.now(timezone.utc)
laps = {}
def start():
    global clock, used
    clock, used = time.perf_counter(), time.process_time()
def lap(name):
    global clock
    laps[name], clock = time.perf_counter() - clock, time.perf_counter()
def end(cases, runs, stored=None):
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    cpu, mib = time.process_time() - used, int(peak[1]) / 1024
    told = {"cpu": cpu, "peak": mib, "cases": cases, "runs": runs, "stored": stored}
    print(json.dumps({**laps, **told}))
"""


class Template:
    """The session of one small run as ReFrame stored it."""

    def __init__(self, database: Path) -> None:
        with closing(sqlite3.connect(database)) as connection:
            ((text,),) = connection.execute("SELECT json_blob FROM sessions")
        self.session: dict[str, Any] = json.loads(text)
        tests = [test for run in self.session["runs"] for test in run["testcases"]]
        (self.test,) = [test for test in tests if test["name"].startswith("SharedFileWrite")]
        start, ranks = self.test["case_id"].rsplit("=", 1)
        self.cases = [f"{start}={int(ranks) + number}" for number in range(CASES)]
        self.speeds = {case: random.Random(case).random() for case in self.cases}

    def night(self, began: datetime) -> dict[str, Any]:
        """The session that ReFrame would have stored of this night."""
        rng, start, night = random.Random(began.timestamp()), began.timestamp(), night_id(began)
        name = str(uuid.UUID(int=rng.getrandbits(128)))
        hosts = sorted(rng.sample(range(4000), 8))
        met = {
            "hosts": " ".join(f"nid{host:05}" for host in hosts),
            "free space": f"{rng.randrange(9000)} GiB",
        }
        tests = [
            {
                **self.test,
                "uuid": f"{name}:0:{number}",
                "session_uuid": name,
                "hashcode": f"{number:08x}",
                "case_id": case,
                "sentence": self.test["sentence"].replace(self.test["case_id"], case),
                "kept": f"/lustre/iowatch/runs/{night}/{case.replace('/', ',')}",
                "promised": CASES,
                "job_completion_time_unix": start + 30 * number,
                "provenance": {**self.test["provenance"], **met},
                "perfvalues": {
                    key: [self.value(rng, case, key.rsplit(":", 1)[-1]), *rest]
                    for key, (_, *rest) in self.test["perfvalues"].items()
                    if key.rsplit(":", 1)[-1] in USUAL
                },
            }
            for number, case in enumerate(self.cases)
        ]
        info = {
            **self.session["session_info"],
            **{"time_start_unix": start, "time_end_unix": start + 30 * CASES},
            **{"uuid": name, "night": night, "num_cases": CASES},
        }
        runs = [{**self.session["runs"][0], "testcases": tests, "num_cases": CASES}]
        return {**self.session, "session_info": info, "runs": runs}

    def value(self, rng: random.Random, case: str, metric: str) -> float:
        speed = 1 + self.speeds[case] if metric.startswith(("total", "stable")) else 1.0
        return USUAL[metric] * speed * rng.lognormvariate(0, SPREAD)


def store(connection: sqlite3.Connection, sessions: Any) -> None:
    """Insert sessions as ReFrame's storage does, all in one transaction."""

    def rows() -> Any:
        for session in sessions:
            info = session["session_info"]
            times = info["time_start_unix"], info["time_end_unix"]
            yield info["uuid"], *times, json.dumps(session), "/lustre/iowatch/reports/run.json"
            tests.extend(
                (
                    *(test[key] for key in ("name", "system", "partition", "environ")),
                    *(test["job_completion_time_unix"], info["uuid"], test["uuid"]),
                )
                for test in session["runs"][0]["testcases"]
            )

    tests: list[tuple[Any, ...]] = []
    with connection:
        connection.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", rows())
        connection.executemany("INSERT INTO testcases VALUES (?, ?, ?, ?, ?, ?, ?)", tests)


def bless_all(template: Template, nights: list[datetime], folder: Path) -> None:
    """A baseline of these nights for every case."""
    samples: dict[str, list[list[Sample]]] = {case: [] for case in template.cases}
    for began in nights:
        for test in template.night(began)["runs"][0]["testcases"]:
            values = {key.rsplit(":", 1)[-1]: entry[0] for key, entry in test["perfvalues"].items()}
            names = ("stable_max", "ratio", "overhead_fraction")
            sample = Sample(began, *(values[name] for name in names))
            samples[test["case_id"]].append([sample])
    ids, last = [night_id(began) for began in nights], nights[-1].date()
    blessed = {
        parse_case(case): bless.Blessed.make(
            estimate(runs), dict(zip(ids, runs, strict=True)), last, "ops", "quiet"
        )
        for case, runs in samples.items()
    }
    bless.path_of("small", folder).parent.mkdir()
    bless.write("small", folder, blessed)


def timed(program: str, database: Path, folder: Path) -> dict[str, Any]:
    code = TIMED + program
    environment = {**os.environ, "RFM_REFERENCE_PREFIX": str(folder)}
    words = [sys.executable, "-c", code, database, folder]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"database.py: exit code {done.returncode}\n{done.stderr}")
    measured: dict[str, Any] = json.loads(done.stdout)
    if measured["cases"] != CASES:
        sys.exit(f"database.py: {CASES} cases were stored, and {measured['cases']} read")
    return measured


def a_night(template: Template, database: Path, folder: Path, began: datetime) -> list[float]:
    """What it costs: the past as the checks read it, its verdicts, the past as the driver reads it,
    its alarms, its page; all of that; its CPU time; its peak."""
    checks = timed(CHECKS, database, folder)
    night = template.night(began)
    for test in night["runs"][0]["testcases"]:
        test["detector"] = checks["stored"][test["case_id"]]
    with closing(sqlite3.connect(database)) as connection:
        store(connection, [night])
    driver = timed(DRIVER, database, folder)
    if driver["runs"] != checks["runs"] + CASES:
        sys.exit(f"database.py: {checks['runs']} runs, and {driver['runs']} one night later")
    laps = [*(checks[lap] for lap in ("read", "judge")), *(driver[lap] for lap in DRIVER_LAPS)]
    cpu, peak = checks["cpu"] + driver["cpu"], max(checks["peak"], driver["peak"])
    return [*laps, sum(laps), cpu, peak]


def brief(values: list[float]) -> str:
    assert min(values) > 0, values
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return f"{median(values):.2f}" + (f" [{low}-{high}]" if len(values) > 1 else "")


def add(template: Template, database: Path, nights: list[datetime]) -> None:
    """Store nights, each with its word, which tells nothing of what cases share."""
    words = Words("small", [database.parent])
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript("PRAGMA synchronous=OFF;")
        store(connection, map(template.night, nights))
    sessions = {night_id(datetime.fromtimestamp(s, UTC)): u for u, s in starts(database).items()}
    for began in nights:
        session = sessions[night_id(began)]
        rows = {uuid: row for uuid, row, _ in rows_with_digests(database, [session])}
        told = {"time": began, "ended": began, "colour": "green", "why": "well", "rows": rows}
        words.keep(night_id(began), GateRecord(promised=CASES, **told))


def commands(database: Path, folder: Path) -> list[str]:
    """The CPU times of commands that show nights, over that of a bare Python, in turn with it."""
    environment = {**os.environ, "RFM_SQLITE_DB_FILE": str(database)}
    environment |= {"RFM_REFERENCE_PREFIX": str(folder)}
    ratios: list[list[float]] = [[] for _ in COMMANDS]
    for _ in range(NIGHTS):
        bare = cpu_of([sys.executable, "-c", "import attrs, yaml, sqlite3"], environment)
        for of_command, command in zip(ratios, COMMANDS, strict=True):
            words = [sys.executable, "-m", "iowatch", command, "--system", "small"]
            of_command.append(cpu_of(words, environment) / bare)
    return [*map(brief, ratios)]


def cpu_of(words: list[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"database.py: {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    count = max(YEARS) * DAYS
    shown = Table("", *COMMANDS, title="CPU of commands, of a bare Python's")
    table = Table(title=f"a night of {CASES} cases")
    for heading in (
        *("", "database,\nMiB", "in brief,\nMiB", "words,\nMiB", "checks:\nread, s", "judge, s"),
        *("driver:\nread, s", "night, s", "page, s", "all, s", "CPU, s", "peak, MiB"),
    ):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory(prefix="iowatch-bench.") as name:
        folder = Path(name)
        needed, free = count * CASES * CASE_BYTES, shutil.disk_usage(folder).free
        if free < 1.2 * needed:
            sys.exit(f"{name}: {needed / MIB:.0f} MiB are needed, {free / MIB:.0f} are free")
        with new_site(folder, BENCHIO) as site:
            site.write["backend"] = ["hdf5"]
            done = site.reframe("-r", "--mode=record")
        if done.returncode != 0:
            sys.exit(f"reframe: exit code {done.returncode}\n{done.stdout}")
        database = folder / "run" / "results.db"
        template = Template(database)
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript("DELETE FROM sessions; DELETE FROM testcases;")
        end = datetime.now(UTC) - timedelta(days=len(YEARS) * NIGHTS + 2)
        nights = [end - timedelta(days=ago) for ago in range(count - 1, -1, -1)]
        bless_all(template, nights[BLESSED], folder)
        # A night later, each; none is later than now.
        later = (end + timedelta(days=number + 1) for number in range(len(YEARS) * NIGHTS + 1))
        for years in sorted(YEARS):
            added = slice(max(0, count - years * DAYS), None)
            add(template, database, nights[added])
            del nights[added]
            if years == min(YEARS):
                row = a_night(template, database, folder, next(later))
                table.add_row("first night", *sizes(database), *(brief([value]) for value in row))
            rows = [a_night(template, database, folder, next(later)) for _ in range(NIGHTS)]
            figures = (brief(list(values)) for values in zip(*rows, strict=True))
            table.add_row(f"after {counted(years, 'year')}", *sizes(database), *figures)
            shown.add_row(f"after {counted(years, 'year')}", *commands(database, folder))
    Console(width=160).print(table, shown)


def sizes(database: Path) -> list[str]:
    """The MiB of a database, of its cache and of all words."""
    words = sum(file.stat().st_size for file in (database.parent / "nights").iterdir())
    files = database, database.with_name(f"{database.name}.runs")
    return [f"{size / MIB:.1f}" for size in (*(f.stat().st_size for f in files), words)]


if __name__ == "__main__":
    main()
