"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch import history as past
from iowatch import nightly as nights
from iowatch.onboarding import site
from iowatch.published import PUBLISHED, PublishedError, write_references
from iowatch.site import SiteConfigError
from iowatch.sweep import NIGHTLY, SWEEPS
from iowatch.tables import show_history, show_night

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(site, name="site")

UserErrors = (nights.UsageError, SiteConfigError, PublishedError, past.HistoryError)


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


@app.command()
def references(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: Annotated[
        Path, typer.Option(help="Where SYSTEM.yaml is written.", show_default="reference_values")
    ] = PUBLISHED.parent,
) -> None:
    """Write a system's reference values from the published tables."""
    with one_line_errors():
        print(write_references(system, folder))


@app.command()
def history(
    db: Annotated[
        list[Path] | None,
        typer.Option(help="ReFrame's results database, may be repeated.", show_default="its own"),
    ] = None,
    case: Annotated[str, typer.Option(help="Only cases that match this regular expression.")] = "",
) -> None:
    """List the cases that were ever measured, and their nights."""
    with one_line_errors():
        try:
            matches = re.compile(case).search
        except re.error as err:
            raise nights.UsageError(f"--case {case}: no regular expression: {err}") from None
        records = past.read(db or [nights.results_database()])
    show_history((r for r in records if matches(str(r.case))), Console(highlight=False))
