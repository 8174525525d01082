"""`iowatch report`: a night for people to look at, or for a dashboard."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch.commands.common import DAY, Databases, needs_extra, one_line_errors
from iowatch.reframe_site import UsageError, results_database
from iowatch.report.pages import FORMATS
from iowatch.report.write import read, write, write_page


def report(
    system: Annotated[str, typer.Option(help="System to report on.")],
    night: Annotated[
        datetime | None,
        typer.Option(formats=[DAY], help="Day on which it began, UTC.", show_default="the last"),
    ] = None,
    form: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "html",
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write.", show_default="html next to the database, others printed"
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Report on a night: verdicts, worst first, and what has changed since all was well.

    html: one page that needs no network. md: for chat or mail. junit: for a CI dashboard. Exit
    code: 0 written, whatever the verdicts; 2 wrong usage.
    """
    progress = Console(stderr=True)
    with one_line_errors(), needs_extra("report"):
        if form not in FORMATS:
            raise UsageError(f"--format {form}: there are {', '.join(FORMATS)}")
        databases = db or [results_database()]
        with progress.status("reading the results database"):
            found = read(system, databases, night.date() if night else None)
        with progress.status(f"writing the report on {len(found.rows)} case(s)"):
            if form == "html" and output is None:
                output = write_page(found, databases[0].parent)
            else:
                text = FORMATS[form](found)
                if output is None:
                    print(text, end="")
                    return
                write(output, text)
    print(output)
