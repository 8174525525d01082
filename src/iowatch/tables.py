"""The tables that the commands print on a terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, product
from string import ascii_lowercase

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from iowatch.bless import Blessing
from iowatch.case import format_size
from iowatch.checks import shape, stripes
from iowatch.history import Record, by_night
from iowatch.importers.runs import IMPORTED
from iowatch.night.gate import Night
from iowatch.paper import figures as paper


def show_night(night: Night, console: Console) -> None:
    """Print the verdict table, a sentence under what is red or known, and a line on the night."""
    console.print(
        f"\n{'partition':<10}{'case':<16}{'backend':<8}{'stripes':<11}{'local size':<12}"
        f"{'writers':>8}{'max MiB/s':>10} {'ratio':>5} {'close %':>7} verdict",
        style="bold",
    )
    for row in night.rows:
        case, figures = row.case, row.figures
        striping = stripes(case).removeprefix("stripes ") or "-"
        console.print(
            f"{case.partition:<10}{shape(case):<16}{case.backend:<8}{striping:<11}"
            f"{format_size(case.local_size):<12}{case.writers:>8}"
            f"{_number(figures.get('total_max'), '.0f'):>10}"
            f" {_number(figures.get('ratio'), '.2f'):>5}"
            f" {_number(figures.get('close_fraction'), '.1%').rstrip('%'):>7} {row.kind}"
            f"{' (known)' if row.known else ''}",
            style="red" if row.red else None,
            soft_wrap=True,
        )
        if (row.red or row.known) and row.case not in night.merged:
            console.print(f"    {row.sentence}", soft_wrap=True, markup=False)
    for problem in night.problems:
        console.print(f"problem: {problem}", style="red", soft_wrap=True, markup=False)
    for note in night.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    if night.page:
        console.print(f"report: {night.page}", soft_wrap=True, markup=False)
    colour = "red" if night.is_red else "green"
    console.print(
        f"\n{colour}: {len(night.rows)} case(s) measured, {len(night.red_rows)} with a red verdict,"
        f" {len(night.problems)} problem(s) with the night",
        style=colour,
    )


def as_text(night: Night) -> str:
    """The same as plain text."""
    text = io.StringIO()
    show_night(night, Console(file=text, width=100, highlight=False, color_system=None))
    return text.getvalue().lstrip()


def in_brief(night: Night) -> str:
    """A night in a few words, for the subject of a mail."""
    cases, red = len(night.rows), len(night.red_rows)
    words = ["red" if night.is_red else "green"]
    words += ["interrupted"] if night.signal else []
    words += [f"{red} of {cases} cases" if night.is_red else f"{cases} cases"]
    words += [f"{len(night.problems)} problem(s)"] if night.problems else []
    return ", ".join(words)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def show_history(records: Iterable[Record], console: Console) -> None:
    """Print each case with its nights, the days between them without one, and its best rate."""
    cases = by_night(records)
    console.print(
        f"{'nights':>6} {'first':<10} {'last':<10} {'gaps':>4} {'runs':>5} {'invalid':>7}"
        f" {'imported':>8}"
        f" {'best MiB/s':>10}  case",
        style="bold",
    )
    for case, nights in sorted(cases.items(), key=lambda item: str(item[0])):
        runs = [record for night in nights.values() for record in night]
        first, last = min(nights), max(nights)
        gaps = (last - first).days + 1 - len(nights)
        best = max((run.figures.get("total_max", 0.0) for run in runs), default=0.0)
        console.print(
            f"{len(nights):>6} {first} {last} {gaps:>4} {len(runs):>5}"
            f" {sum(not run.figures for run in runs):>7}"
            f" {sum(run.verdict == IMPORTED for run in runs):>8} {best:>10.0f}  {case}",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"{len(cases)} case(s)")


def show_blessing(blessing: Blessing, console: Console) -> None:
    """Print what each case's baseline is now and was before, and who was refused and why."""
    console.print(
        f"{'MiB/s':>8} {'before':>8} {'spread':>6} {'ratio':>5} {'finish %':>8} "
        f"{'nights':>6}  case",
        style="bold",
    )
    for case, now in sorted(blessing.blessed.items(), key=lambda item: str(item[0])):
        before = blessing.before.get(case)
        console.print(
            f"{now.bandwidth:>8.0f} {_number(before.bandwidth if before else None, '.0f'):>8}"
            f" {now.spread:>6.2f} {_number(now.ratio, '.2f'):>5}"
            f" {_number(now.finish_fraction, '.1%').rstrip('%'):>8} {now.nights:>6}  {case}",
            soft_wrap=True,
            markup=False,
        )
    for case, why in sorted(blessing.refused.items(), key=lambda item: str(item[0])):
        console.print(f"refused: {case}: {why}", style="red", soft_wrap=True, markup=False)
    for file in blessing.files:
        console.print(f"written: {file}", soft_wrap=True, markup=False)
    done = "blessed" if blessing.files or not blessing.blessed else "to be blessed, nothing written"
    console.print(f"{len(blessing.blessed)} case(s) {done}, {len(blessing.refused)} refused")


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
