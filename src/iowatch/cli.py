"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch import baselines
from iowatch import history as past
from iowatch import nightly as nights
from iowatch.backtest import BacktestError, backtest
from iowatch.detector_settings import SETTINGS
from iowatch.onboarding import site
from iowatch.published import PUBLISHED, PublishedError, write_references
from iowatch.site import SiteConfigError
from iowatch.suspects import rerun_script
from iowatch.sweep import NIGHTLY, SWEEPS
from iowatch.tables import show_blessing, show_history, show_night

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(site, name="site")

UserErrors = (
    nights.UsageError,
    SiteConfigError,
    PublishedError,
    past.HistoryError,
    baselines.BlessError,
    BacktestError,
)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A user's mistake is one line and exit code 2."""
    try:
        yield
    except UserErrors as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        raise typer.Exit(2) from None


@app.callback()
def iowatch() -> None:
    """Guard the parallel I/O of an HPC centre."""


@app.command()
def nightly(
    system: Annotated[str, typer.Option(help="System of site_configs/ to measure.")],
    name: Annotated[
        list[str] | None,
        typer.Option("-n", "--name", help="Only checks that match (ReFrame's -n)."),
    ] = None,
    sweep: Annotated[str, typer.Option(help="Cases to measure: nightly or acceptance.")] = NIGHTLY,
    record: Annotated[
        bool, typer.Option("--record", help="Accept cases that have no reference values yet.")
    ] = False,
) -> None:
    """Run every check of a system and judge the night: 0 green, 1 red, 2 wrong usage or site."""
    with one_line_errors():
        if sweep not in SWEEPS:
            raise nights.UsageError(f"--sweep {sweep}: there are {' and '.join(SWEEPS)}")
        night = nights.run(system, sweep, name or [], record)
    show_night(night, Console(width=100, highlight=False))
    raise typer.Exit(1 if night.is_red else 0)


DAY = "%Y-%m-%d"
ReferenceValues = Annotated[
    Path, typer.Option("--folder", help="Of SYSTEM.yaml.", show_default="reference_values")
]


@app.command()
def references(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: ReferenceValues = PUBLISHED.parent,
) -> None:
    """Write a system's reference values from the published tables."""
    with one_line_errors():
        print(write_references(system, folder))


Databases = Annotated[
    list[Path] | None,
    typer.Option("--db", help="ReFrame's database, may be repeated.", show_default="its own"),
]
Matching = Annotated[
    str, typer.Option("--case", help="Only cases that match this regular expression.")
]


def selected(db: list[Path] | None, case: str) -> list[past.Record]:
    """The history of the cases that match."""
    try:
        matches = re.compile(case).search
    except re.error as err:
        raise nights.UsageError(f"--case {case}: no regular expression: {err}") from None
    records = past.read(db or [nights.results_database()])
    return [record for record in records if matches(str(record.case))]


@app.command()
def history(db: Databases = None, case: Matching = "") -> None:
    """List the cases that were ever measured, and their nights."""
    with one_line_errors():
        records = selected(db, case)
    show_history(records, Console(highlight=False))


@app.command()
def bless(
    system: Annotated[str, typer.Option(help="System whose cases are blessed.")],
    why: Annotated[str, typer.Option(help="Why these nights are good, for readers of the diff.")],
    case: Matching = "",
    count: Annotated[int, typer.Option("--nights", min=1, help="Of the last so many nights.")] = 30,
    first: Annotated[datetime | None, typer.Option("--from", formats=[DAY], help="Day.")] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=[DAY], help="Day.")] = None,
    who: Annotated[str, typer.Option(help="Who says so.", show_default="you")] = "",
    db: Databases = None,
    folder: ReferenceValues = PUBLISHED.parent,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Make good nights the baseline: 0 all cases blessed, 1 some refused, 2 wrong usage."""
    with one_line_errors():
        cases = past.by_night(r for r in selected(db, case) if r.case.system == system)
        if not cases:
            raise nights.UsageError(f"no case of {system} in the results database matches")
        who = who or f"{getpass.getuser()}@{socket.gethostname()}"
        days = (first and first.date(), last and last.date())
        blessing = baselines.bless(system, folder, cases, count, *days, who, why, dry_run)
    show_blessing(blessing, Console(highlight=False))
    raise typer.Exit(1 if blessing.refused else 0)


@app.command()
def suspects(
    system: Annotated[str, typer.Option(help="System whose cases may be run again.")],
    db: Databases = None,
) -> None:
    """Print a shell script that runs tonight's suspicious cases again: for cron, hours later."""
    with one_line_errors():
        records = [record for record in selected(db, "") if record.case.system == system]
    for line in rerun_script(records, datetime.now(timezone.utc)):
        print(line)


@app.command("backtest")
def backtest_(
    file: Annotated[Path, typer.Argument(help="CSV of runs or nights; see docs/detector.md.")],
    bless_nights: Annotated[int, typer.Option("--bless", help="Nights of a baseline.")] = 30,
    rules: Annotated[str, typer.Option(help=f"One of {', '.join(SETTINGS)}.")] = "normal",
) -> None:
    """Replay a table of past nights through the detector: 0 no alarm, 1 alarms, 2 wrong usage."""
    with one_line_errors():
        if rules not in SETTINGS:
            raise nights.UsageError(f"--rules {rules}: there are {', '.join(SETTINGS)}")
        result = backtest(file, bless_nights, SETTINGS[rules])
    for row in result.rows:
        print(row.json())
    typer.echo(result.summary, err=True)
    raise typer.Exit(1 if result.alarms else 0)
