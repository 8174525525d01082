"""What the documents print does what they say."""

import io
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve
from cases import case, outcome_of
from nights import BLESSED
from reported import HDF5, reported, session, store
from rich.console import Console

from iowatch.cases.run import Run, night_id
from iowatch.cases.verdict import OK, Reason
from iowatch.judge.bless import Blessing
from iowatch.measure.case_ids import parse_case
from iowatch.night.gate import night_of
from iowatch.night.record import SystemRecord
from iowatch.pages import listings, tables

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
    page = " ".join((ROOT / "docs/howto/old-data.md").read_text().split())
    (command,) = re.findall(r"`(iowatch backtest)`", page)
    last, database = datetime.now(UTC), tmp_path / "results.db"
    begun = [last - timedelta(hours=7 * ago) for ago in range(40, 0, -1)]
    store(database, *(
        session(reported(HDF5, time, 500.0), uuid=f"{time}", began=time, night=night_id(time))
        for time in begun
    ))  # fmt: skip
    said = run(command, tmp_path, RFM_SQLITE_DB_FILE=str(database))
    assert f"1 case, {len(begun[30:])} nights judged" in said


def test_pages_that_iowatch_names_exist():
    """By the command that opens them: an installed iowatch has no other."""
    texts = {
        path: path.read_text()
        for path in (ROOT / "src/iowatch").rglob("*")
        if path.suffix in (".py", ".j2") and "docs/html" not in str(path)
    }
    named = {
        name for text in texts.values() for name in re.findall(r"`iowatch docs ([^`]+)`", text)
    }
    assert named
    assert [name for name in named if not (ROOT / "docs" / f"{name}.md").is_file()] == []


# The tutorials, from nothing to a baseline: their figures, printed by this iowatch

TUTORIALS = "".join(
    (ROOT / f"docs/tutorials/{name}.md").read_text() for name in ("first-night", "baseline")
)
PLACE = "hydra:scratch/gnu"
BEGAN = datetime(2026, 11, 22, 9, 50, 53, tzinfo=UTC)
HOME = "/home/me/iowatch"
CHECKS = {"write": "SharedFileWrite", "read": "SharedFileRead"}


def of(check, backend, ranks):
    return case(CHECKS[check], PLACE, backend=backend, ranks=int(ranks))


def figures(rate, ratio, finish):
    """Metrics, as they stand in a table."""
    metrics = {"total_max": float(rate), "overhead_fraction": float(finish) / 100}
    return metrics if ratio == "-" else {**metrics, "ratio": float(ratio)}


def printed_night(documented, verdict, began, *notes):
    """A night with the figures that the page has."""
    night, measured = night_id(began), {}
    row = r"^(\w+) shared +(\w+) +64x64x64 +(\d+) +(\d+) +(\S+) +(\S+) \S.*$"
    for *what, rate, ratio, finish in re.findall(row, documented, re.MULTILINE):
        measured[of(*what)] = figures(rate, ratio, finish)
    assert len(measured) == 6
    outcome = outcome_of(verdict)
    runs = [Run(one, began, outcome, "", own, night, "1") for one, own in measured.items()]
    runs.append(Run(case("LibraryVersions", PLACE), began, OK, "", {}, night, "1"))
    record = SystemRecord(system="hydra", runs=runs, now=began + timedelta(1))
    shown = night_of(record, night)
    page = Path(f"{HOME}/results/report-hydra-{night}.html")
    whole = replace(shown, notes=[*shown.notes, *notes], page=page)
    return printed(tables.show_night, whole.document)


def printed(show, what):
    text = io.StringIO()
    show(what, Console(file=text, width=100, highlight=False))
    return text.getvalue().strip("\n")


def transcript(command):
    """What the page prints under the first such command, or under the next one, and so on."""
    found = re.findall(
        rf"^    \$ {re.escape(command)}\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))*)", TUTORIALS, re.M
    )
    return [textwrap.dedent(block).strip("\n") for block in found]


def agrees(documented, real):
    """A text is what is printed, but for blanks at the end of a line."""
    assert documented.splitlines() == [line.rstrip() for line in real.splitlines()]


def test_nights_of_a_new_site_are_printed_as_its_tutorial_shows_them():
    anew = f"{HOME}/results/results.db was not there: history begins anew with this night"
    (first,) = transcript("iowatch run --system hydra --record --quiet")
    agrees(first, printed_night(first, "unjudged (no_reference)", BEGAN, anew))


def test_bless_is_printed_as_its_tutorial_shows_it():
    (done,) = transcript('iowatch bless --system hydra --why "quiet weeks after the upgrade"')
    row = r"^ +(\d+) +- +(\S+) +(\S+) +(\S+) +21 +(hydra:\S+)$"
    blessed = {}
    for rate, spread, ratio, finish, name in re.findall(row, done, re.MULTILINE):
        metrics = figures(rate, ratio, finish)
        blessed[parse_case(name)] = evolve(
            BLESSED, bandwidth=metrics["total_max"], ratio=metrics.get("ratio"), nights=21,
            overhead_fraction=metrics["overhead_fraction"], spread=float(spread),
        )  # fmt: skip
    assert len(blessed) == 6
    file = Path(f"{HOME}/reference_values/baselines/hydra.yaml")
    agrees(
        done,
        printed(
            listings.show_blessing,
            Blessing(before={}, blessed=blessed, refused={}, red={}, file=file),
        ),
    )


def test_every_reason_has_its_place_in_the_runbook():
    page = (ROOT / "docs/howto/runbook.md").read_text()
    assert sorted(re.findall(r"^## `(\w+)`$", page, re.M)) == sorted(Reason)


def anchors(page):
    """What its headings can be linked by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    # Not from git: the copies in which mutants are tried have none.
    sorted(
        str(page.relative_to(ROOT))
        for page in (*ROOT.glob("*.md"), *ROOT.glob("[!.]*/**/*.md"))
        if (ROOT / "build") not in page.parents
    ),
)
def test_links_lead_to_a_file_and_a_heading(page):
    text = (ROOT / page).read_text()
    broken = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    assert broken == []
