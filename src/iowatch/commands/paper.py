"""The white paper's values: `iowatch references` and `iowatch figures`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from iowatch.commands.common import (
    Databases,
    ReferenceValues,
    needs_extra,
    one_line_errors,
    selected,
)
from iowatch.paper import figures as paper
from iowatch.paper.published import PUBLISHED, write_references
from iowatch.past.history import Record
from iowatch.reframe_site import UsageError


def references(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: ReferenceValues = PUBLISHED.parent,
) -> None:
    """Write a system's reference values from the published tables."""
    with one_line_errors():
        print(write_references(system, folder))


def figures(
    system: Annotated[
        str, typer.Option(help="Overlay this system's own results.", show_default="none")
    ] = "",
    table: Annotated[
        str, typer.Option(help="Print this table, 1 to 21, and draw nothing.", show_default="none")
    ] = "",
    output: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("figures"),
    db: Databases = None,
) -> None:
    """Draw Figures 4 to 21 of the white paper as SVG and PNG, or print one of its tables."""
    with one_line_errors():
        records = []
        if system:
            records = [record for record in selected(db, "") if record.case.system == system]
        if table:
            show_table(paper.of_table(table), records, Console(highlight=False))
            return
        with needs_extra("report"):
            from iowatch.paper import plots as paper_plots

            try:
                for path in paper_plots.draw_all(records, output):
                    print(path)
            except OSError as err:
                raise UsageError(f"--output {output}: {err.filename}: {err.strerror}") from None


def show_table(figure: paper.Figure, records: list[Record], console: Console) -> None:
    """Print a table of the white paper, MiB/s, with the site's own columns after it."""
    series = [*paper.published(figure), *paper.own(figure, records)]
    (number,) = figure.tables
    table = Table()
    table.add_column("writers", justify="right")
    for one in series:
        for statistic in figure.statistics:
            style = "bold" if one.is_own else None
            table.add_column(f"{one.label}\n{statistic}", justify="right", style=style)
    for writers in sorted({writers for one in series for writers in one.writers}):
        cells = [
            _cell(one, statistic, writers) for one in series for statistic in figure.statistics
        ]
        table.add_row(str(writers), *cells)
    console.print(f"Table {number}. {figure.title}; MiB/s", style="bold")
    console.print(table)
    for note in paper.notes(figure):
        console.print(note, soft_wrap=True, markup=False)


def _cell(series: paper.Series, statistic: str, writers: int) -> str:
    if writers not in series.writers:
        return "-"
    value = series.values[statistic][series.writers.index(writers)]
    return "-" if math.isnan(value) else f"{value:.0f}"
