"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch import nightly as nights
from iowatch.case import Case, format_size
from iowatch.onboarding import site
from iowatch.published import PUBLISHED, PublishedError, write_references
from iowatch.site import SiteConfigError
from iowatch.sweep import NIGHTLY, SWEEPS

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


app.add_typer(site, name="site")


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
    if sweep not in SWEEPS:
        typer.echo(f"iowatch: error: --sweep {sweep}: there are {', '.join(SWEEPS)}", err=True)
        raise typer.Exit(2)
    try:
        night = nights.run(system, sweep, name or [], record)
    except (nights.UsageError, SiteConfigError) as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        raise typer.Exit(2) from None
    show(night, Console(width=100, highlight=False))
    raise typer.Exit(1 if night.is_red else 0)


@app.command()
def references(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: Annotated[
        Path, typer.Option(help="Where SYSTEM.yaml is written.", show_default="reference_values")
    ] = PUBLISHED.parent,
) -> None:
    """Write a system's reference values from the published tables."""
    try:
        print(write_references(system, folder))
    except PublishedError as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        raise typer.Exit(2) from None


def show(night: nights.Night, console: Console) -> None:
    """Print the verdict table, under each red verdict its sentence, and a line on the night."""
    console.print(
        f"\n{'partition':<10}{'case':<16}{'backend':<8}{'stripes':<11}{'local size':<12}"
        f"{'writers':>8}{'max MiB/s':>10} {'ratio':>5} {'close %':>7} verdict",
        style="bold",
    )
    for row in night.rows:
        case, figures = row.case, row.figures
        console.print(
            f"{case.partition:<10}{_what(case):<16}{case.backend:<8}{_stripes(case):<11}"
            f"{format_size(case.local_size):<12}{case.writers:>8}"
            f"{_number(figures.get('total_max'), '.0f'):>10}"
            f" {_number(figures.get('ratio'), '.2f'):>5}"
            f" {_number(figures.get('close_fraction'), '.1%').rstrip('%'):>7} {row.kind}",
            style="red" if row.red else None,
            soft_wrap=True,
        )
        if row.red:
            console.print(f"    {row.sentence}", soft_wrap=True, markup=False)
    for problem in night.problems:
        console.print(f"problem: {problem}", style="red", soft_wrap=True, markup=False)
    colour = "red" if night.is_red else "green"
    console.print(
        f"\n{colour}: {len(night.rows)} case(s) measured, {len(night.red_rows)} with a red verdict,"
        f" {len(night.problems)} problem(s) with the night",
        style=colour,
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _what(case: Case) -> str:
    if case.each_ost:
        return "write each OST"
    load = "" if case.instances is None else f" x{case.instances}"
    return f"{case.operation} {case.files}{load}"


def _stripes(case: Case) -> str:
    if case.stripe_count is None:
        return "-"
    count = "all" if case.stripe_count == -1 else case.stripe_count
    return f"{count} x {case.stripe_size} MiB"
