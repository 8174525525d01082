"""The tables of the papers printed, MiB/s, with a site's own results beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from string import ascii_lowercase

import exercise
import figures as paper
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iowatch.base.text import brief_rate
from iowatch.cases.run import Run
from iowatch.pages.tables import tell


def show_table(figure: paper.Figure, records: Sequence[Run], console: Console) -> None:
    """Print a table of the white paper, MiB/s, with the site's own columns after it.

    Columns have letters, for which a list stands above them; those that do not fit beside the
    others follow below.
    """
    of_site = paper.site_series(figure, records)
    (number,) = figure.tables
    console.print(f"Table {number}. {figure.title}; MiB/s", style="bold")
    if of_site:
        tell(console, f"own results: {of_site[0].shared or 'as follows'}")
    elif records:
        console.print("own results: none is of this table's kind")
    named = list(zip(_letters(), [*paper.published(figure), *of_site], strict=False))
    rates = [rate for _, series in named for rates in series.values.values() for rate in rates]
    width = max(map(len, [*map(brief_rate, rates), *figure.statistics]))
    first = len("ranks")
    columns = len(figure.statistics) * (width + 2)  # of a series; two blanks between any two
    fit = max((console.width - first) // columns, 1)
    for start in range(0, len(named), fit):
        block = named[start : start + fit]
        console.print()
        for letter, series in block:
            tell(console, f"{letter}: {series.label}")
        table = _block(figure, block, width)
        table.width = first + len(block) * columns  # else a narrower terminal would cut numbers
        console.print(table, crop=False)
    if notes := paper.notes(figure):
        console.print("", *notes, sep="\n", soft_wrap=True, markup=False)


#: Characters in which any row of a table has room.
WIDEST = 400


def show_exercise(records: Sequence[Run], console: Console) -> None:
    """Print the report's table of IOR, MiB/s, and the site's own rows after it."""
    of_site = exercise.site_rows(records)
    console.print(f"Table {exercise.TABLE}. IOR on each filesystem; MiB/s", style="bold")
    if records and not of_site:
        console.print("own results: none is of IorPeer or IorPeerRead")
    console.print()
    table = _grid()
    for name in ("filesystem", "files", "API", "processes", "local size", "stripes"):
        table.add_column(name, no_wrap=True, justify="right" if name == "processes" else "left")
    cells = list(product(exercise.PROGRAMS, exercise.OPERATIONS))
    for program, operation in cells:
        table.add_column(f"{program}\n{operation}", justify="right", no_wrap=True)
    for row in [*exercise.published(), *of_site]:
        rates = (brief_rate(row.rates[cell]) if cell in row.rates else "-" for cell in cells)
        labels = (row.place, row.files, row.api, str(row.ranks), row.size, row.stripes)
        table.add_row(*labels, *rates, style="bold" if row.is_own else None)
    # Else a narrower terminal would cut numbers.
    table.width = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.print(table, crop=False)


def _letters() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _grid() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))


def _block(figure: paper.Figure, block: Sequence[tuple[str, paper.Series]], width: int) -> Table:
    table = _grid()
    table.add_column("ranks", justify="right")
    columns = [(letter, series, name) for letter, series in block for name in figure.statistics]
    for letter, series, name in columns:
        style = "bold" if series.is_own else None
        table.add_column(f"{letter}\n{name}", justify="right", style=style, width=width)
    for ranks in sorted({ranks for _, series in block for ranks in series.ranks}):
        table.add_row(str(ranks), *(_cell(series, name, ranks) for _, series, name in columns))
    return table


def _cell(series: paper.Series, statistic: str, ranks: int) -> str:
    if ranks not in series.ranks:
        return "-"
    value = series.values[statistic][series.ranks.index(ranks)]
    return "-" if math.isnan(value) else brief_rate(value)
