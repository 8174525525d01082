"""What the documents print does what they say."""

import io
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cases import case
from nights import BLESSED
from reported import HDF5, reported, session, store
from rich.console import Console

from iowatch import tables
from iowatch.bless import Blessing
from iowatch.detector.baseline import BaselineRefused, Sample, baseline_of
from iowatch.night.gate import Known, night_of
from iowatch.run import Run, night_id
from iowatch.verdict import Kind

ROOT = Path(__file__).parents[2]


def run(commands, folder, **environment):
    """Commands as a reader types them, with this iowatch; what they print."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_what_iowatch_would_have_said_of_past_nights(tmp_path):
    """Also if several of them began on one day."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    commands = re.search(
        r"`(iowatch history [^`]*)` and `(iowatch backtest [^`]*)`", readme
    ).groups()
    last, database = datetime.now(UTC), tmp_path / "results.db"
    begun = [last - timedelta(hours=7 * ago) for ago in range(40, 0, -1)]
    store(database, *(
        session(reported(HDF5, time, 500.0), uuid=f"{time}", began=time, night=night_id(time))
        for time in begun
    ))  # fmt: skip
    said = run("\n".join(commands), tmp_path, RFM_SQLITE_DB_FILE=str(database))
    assert [json.loads(line)["night"] for line in said.splitlines()] == [
        night_id(time) for time in begun[30:]
    ]


# site_configs/README.md, from nothing to a baseline

SITE_PAGE = (ROOT / "site_configs/README.md").read_text()
PLACE = "hydra:scratch/gnu"
BEGAN = datetime(2026, 11, 22, 9, 50, 53, tzinfo=UTC)
HOME = "/home/me/iowatch"
#: What was measured: check, backend, writers, MiB/s, ratio, finish %.
FIRST = [
    ("SharedFileWrite", "hdf5", 4, 381, 1.22, 0.0),
    ("SharedFileWrite", "mpiio", 4, 405, None, 1.5),
    ("SharedFileWrite", "hdf5", 8, 183, 0.54, 0.0),
    ("SharedFileWrite", "mpiio", 8, 258, None, 3.4),
    ("SharedFileRead", "hdf5", 8, 459, 0.62, 0.0),
    ("SharedFileRead", "mpiio", 8, 351, None, 1.8),
]
LATER = [
    ("SharedFileWrite", "hdf5", 4, 544, 0.82, 10.6),
    ("SharedFileWrite", "mpiio", 4, 705, None, 1.7),
    *FIRST[2:],
]
BLESSINGS = [  # and the spread
    ("SharedFileRead", "hdf5", 8, 181, 0.64, 0.0, 0.66),
    ("SharedFileRead", "mpiio", 8, 229, None, 6.1, 0.60),
    ("SharedFileWrite", "hdf5", 4, 207, 0.80, 0.0, 0.78),
    ("SharedFileWrite", "hdf5", 8, 127, 0.59, 5.1, 0.82),
    ("SharedFileWrite", "mpiio", 4, 214, None, 1.2, 0.45),
    ("SharedFileWrite", "mpiio", 8, 173, None, 7.3, 0.45),
]


def of(check, backend, writers):
    return case(check, PLACE, backend=backend, writers=writers)


def printed_night(measured, kind, began, notes=()):
    """A night that came to this, as it is printed."""
    night = night_id(began)
    runs = [
        Run(
            of(*what), began, Kind(kind), "", night=night, session="1",
            metrics={"total_max": rate, "finish_fraction": finish / 100}
            | ({"ratio": ratio} if ratio else {}),
        )
        for *what, rate, ratio, finish in measured
    ]  # fmt: skip
    versions = case("LibraryVersions", PLACE)
    runs.append(Run(versions, began, Kind.OK, "", {}, night, "1"))
    shown = night_of("hydra", night, runs, Known(), began + timedelta(1))
    page = Path(f"{HOME}/results/report-hydra-{night}.html")
    return printed(tables.show_night, replace(shown, notes=[*shown.notes, *notes], page=page))


def printed(show, what):
    text = io.StringIO()
    show(what, Console(file=text, width=100, highlight=False))
    return text.getvalue().strip("\n")


def transcript(command):
    """What the page prints under the first such command, or under the next one, and so on."""
    found = re.findall(
        rf"^    \$ {re.escape(command)}\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))*)", SITE_PAGE, re.M
    )
    return [textwrap.dedent(block).strip("\n") for block in found]


def agrees(documented, real):
    """Is a text what is printed, but for lines where `...` stands?"""
    lines = [re.escape(line.rstrip()) for line in documented.splitlines()]
    rest = re.escape("...")
    pattern = "\n".join(lines)
    pattern = re.sub(rf"(?m)^{re.escape(rest)}\n", r"(?:.*\\n)*?", pattern).replace(rest, ".*")
    assert re.fullmatch(pattern, "\n".join(line.rstrip() for line in real.splitlines())), real


def test_nights_of_a_new_site_are_printed_as_its_page_shows_them():
    anew = f"{HOME}/results/results.db was not there: history begins anew with this night"
    (first,) = transcript("iowatch nightly --system hydra --record --quiet")
    agrees(first, printed_night(FIRST, "no_baseline", BEGAN, [anew]))
    (later,) = transcript("iowatch nightly --system hydra --quiet")
    agrees(later, printed_night(LATER, "noisy", BEGAN + timedelta(minutes=22, seconds=26)))


def test_bless_is_printed_as_the_page_of_sites_shows_it():
    early, done = transcript('iowatch bless --system hydra --why "quiet weeks after the upgrade"')
    few = {of(*what): str(few_nights(2)) for *what, _, _, _ in FIRST}
    agrees(early, printed(tables.show_blessing, Blessing({}, {}, few, {}, None)))
    blessed = {
        of(*what): replace(
            BLESSED, bandwidth=rate, ratio=ratio, finish_fraction=finish / 100, spread=spread,
            nights=21,
        )
        for *what, rate, ratio, finish, spread in BLESSINGS
    }  # fmt: skip
    file = Path(f"{HOME}/reference_values/baselines/hydra.yaml")
    agrees(done, printed(tables.show_blessing, Blessing({}, blessed, {}, {}, file)))


def few_nights(count):
    """Why so few nights make no baseline."""
    with pytest.raises(BaselineRefused) as refused:
        baseline_of([[Sample(BEGAN, 1.0)]] * count)
    return refused.value
