"""What several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch.errors import UserError
from iowatch.past import history
from iowatch.reframe_site import ROOT, UsageError, results_database

DAY = "%Y-%m-%d"
Databases = Annotated[
    list[Path] | None,
    typer.Option("--db", help="ReFrame's database, may be repeated.", show_default="its own"),
]
ReferenceValues = Annotated[
    Path, typer.Option("--folder", help="Folder of SYSTEM.yaml.", show_default="reference_values")
]
Matching = Annotated[
    str, typer.Option("--case", help="Only cases that match this regular expression.")
]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A user's mistake is one line and exit code 2."""
    try:
        yield
    except UserError as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """What the block imports belongs to one of the package's extras."""
    try:
        yield
    except ModuleNotFoundError as err:
        raise UserError(f"{err.name} is missing: pip install -e '{ROOT}[{extra}]'") from None


def selected(db: list[Path] | None, case: str) -> list[history.Record]:
    """The history of the cases that match."""
    try:
        matches = re.compile(case).search
    except re.error as err:
        raise UsageError(f"--case {case}: no regular expression: {err}") from None
    with Console(stderr=True).status("reading the results database"):
        records = history.read(db or [results_database()])
    return [record for record in records if matches(str(record.case))]


def of_system(system: str, records: Sequence[history.Record]) -> list[history.Record]:
    """The records of a system or of one of its partitions (`archer:fs3`).

    UsageError if there are none: a name that is misspelt must not look like a system without
    results.
    """
    name, _, partition = system.partition(":")
    known = [record for record in records if record.case.system == name]
    found = [record for record in known if partition in ("", record.case.partition)]
    if not found:
        other = {f"{name}:{record.case.partition}" for record in known}
        other |= set() if known else {record.case.system for record in records}
        only = f", only of {', '.join(sorted(other))}" if other else ""
        raise UsageError(f"--system {system}: nothing is on record of it{only}")
    return found
