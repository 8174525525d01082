"""The white paper's values: `iowatch references` and `iowatch figures`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iowatch.commands.common import (
    Databases,
    ReferenceValues,
    needs_extra,
    of_system,
    one_line_errors,
    selected,
)
from iowatch.paper import figures as paper
from iowatch.paper.published import PUBLISHED, write_references
from iowatch.past.history import Record


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
        records = of_system(system, selected(db, "")) if system else []
        if table:
            show_table(paper.of_table(table), records, Console(highlight=False))
            return
        with needs_extra("report"):
            from iowatch.paper import plots as paper_plots
        own = {figure: paper.own(figure, records) for figure in paper.FIGURES}
        for path in paper_plots.draw_all(own, output):
            print(path)
        if system:
            numbers = ", ".join(str(figure.number) for figure, series in own.items() if series)
            where = f"on figures {numbers}" if numbers else "on no figure: they show no such cases"
            typer.echo(f"results of {system} are {where}", err=True)


def show_table(figure: paper.Figure, records: Sequence[Record], console: Console) -> None:
    """Print a table of the white paper, MiB/s, with the site's own columns after it.

    Columns have letters, for which a list stands above them; those that do not fit beside the
    others follow below.
    """
    own = paper.own(figure, records)
    (number,) = figure.tables
    console.print(f"Table {number}. {figure.title}; MiB/s", style="bold")
    if own:
        console.print(f"own results: {own[0].shared or 'as follows'}", soft_wrap=True, markup=False)
    elif records:
        console.print("own results: none is of this table's kind")
    named = list(zip(_letters(), [*paper.published(figure), *own], strict=False))
    cells = [
        f"{value:.0f}" for _, one in named for values in one.values.values() for value in values
    ]
    width = max(map(len, [*cells, *figure.statistics]))
    first, each = len("writers"), len(figure.statistics) * (width + 2)  # two blanks between
    fit = max((console.width - first) // each, 1)
    for start in range(0, len(named), fit):
        block = named[start : start + fit]
        console.print()
        for letter, one in block:
            console.print(f"{letter}: {one.label}", soft_wrap=True, markup=False)
        table = _block(figure, block, width)
        table.width = first + len(block) * each  # else a narrower terminal would cut numbers
        console.print(table, crop=False)
    if notes := paper.notes(figure):
        console.print("", *notes, sep="\n", soft_wrap=True, markup=False)


def _letters() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _block(figure: paper.Figure, block: Sequence[tuple[str, paper.Series]], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("writers", justify="right")
    for letter, one in block:
        for statistic in figure.statistics:
            style = "bold" if one.is_own else None
            heading = f"{letter}\n{statistic}"
            table.add_column(heading, justify="right", style=style, width=width)
    for writers in sorted({writers for _, one in block for writers in one.writers}):
        cells = [
            _cell(one, statistic, writers) for _, one in block for statistic in figure.statistics
        ]
        table.add_row(str(writers), *cells)
    return table


def _cell(series: paper.Series, statistic: str, writers: int) -> str:
    if writers not in series.writers:
        return "-"
    value = series.values[statistic][series.writers.index(writers)]
    return "-" if math.isnan(value) else f"{value:.0f}"
