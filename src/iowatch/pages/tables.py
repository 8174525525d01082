"""The texts that commands print: a night and its mail, systems, nights, cases, what was blessed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from iowatch.base.text import brief_rate, counted, one_line
from iowatch.night.document import (
    SILENT,
    CaseDocument,
    CaseEntry,
    NightDocument,
    NightEntry,
    SystemEntry,
    VerdictEntry,
)

#: Columns of the night's table, with how their cells stand.
_HEADINGS: Mapping[str, JustifyMethod] = {
    "case": "left",
    "backend": "left",
    "stripes x MiB": "left",
    "local size": "left",
    "ranks": "right",
    "max MiB/s": "right",
    "ratio": "right",
    "overhead %": "right",
    "verdict": "left",
}
_WIDTH = 80  # of a mail
_PADDING = re.compile(r" +(?=(\x1b\[0m)?$)", re.MULTILINE)  # of the last column of a table


def tell(console: Console, text: str, style: str = "") -> None:
    """Print a text, which others may have written, as one line of any width."""
    console.print(one_line(text), style=style, soft_wrap=True, markup=False)


def tell_rows(
    console: Console, titles: Sequence[str], rows: Iterable[tuple[str, Sequence[object]]]
) -> None:
    """Print rows, each after its style, below titles; a title that begins with > has its cells on
    the right."""
    right = [title.startswith(">") for title in titles]
    lines = [("bold", [title.removeprefix(">") for title in titles])]
    lines += [(style, [*map(str, cells)]) for style, cells in rows]
    widths = [max(map(cell_len, column)) for column in zip(*(c for _, c in lines), strict=True)]
    for style, cells in lines:
        pads = [" " * (wide - cell_len(text)) for wide, text in zip(widths, cells, strict=True)]
        parts = zip(cells, pads, right, strict=True)
        words = [pad + text if is_right else text + pad for text, pad, is_right in parts]
        tell(console, " ".join(words).rstrip(), style)


def show_night(night: NightDocument, console: Console) -> None:
    """Print the verdict table, what is not as it should be, and a line on the night.

    The columns fit the console as far as they can; sentences are one line each.
    """
    console.print()
    for table in _tables(night.cases, console.width):
        with console.capture() as printed:
            console.print(table, crop=False)
        console.out(_PADDING.sub("", printed.get()))
    lines = [*_lines(night)]
    for style, line, more in lines:
        for text in [line, *(f"    {words}" for words in more)]:
            tell(console, text, style)
    if lines:
        console.print()
    red, alarms = night.red, len(night.red_alarms)
    amber = f", {night.amber} not measured" if night.amber else ""
    whole = f", {counted(alarms, 'red alarm')} of several cases" if alarms else ""
    tell(
        console,
        f"{night.colour}{', run by hand' if night.by_hand else ''}: "
        f"{counted(night.measured, 'case')} measured{amber}, {red} with a red verdict{whole}, "
        f"{counted(len(night.problems), 'problem')} with the night",
        STYLES.get(night.colour, night.colour),
    )


#: How a colour of a night looks, where it has another name.
STYLES = {"amber": "yellow"}


def _style(row: VerdictEntry) -> str:
    return "red" if row.red else "yellow" if row.outcome.is_amber else ""


def _tables(cases: Sequence[CaseEntry], width: int) -> Iterator[Table]:
    """Yield a table for each place, in the order of the site's."""
    several = len({row.environ for row in cases}) > 1
    rows = sorted(cases, key=lambda row: row.order)
    widths = _widths([_cells(row) for row in rows], width)

    def place(row: CaseEntry) -> str:
        return f"{row.partition}/{row.environ}" if several else row.partition

    for name, there in groupby(rows, place):
        table = Table(
            title=Text(name), title_justify="left", title_style="bold", header_style="bold"
        )
        table.box, table.padding, table.pad_edge = None, (0, 1, 0, 0), False
        for heading, wide in widths.items():
            table.add_column(heading, justify=_HEADINGS[heading], width=wide)
        for row in there:
            cells = _cells(row)
            table.add_row(*(Text(cells[heading]) for heading in widths), style=_style(row))
        table.width = sum(widths.values()) + len(widths) - 1  # even if the console is narrower
        yield table


def _widths(rows: Sequence[Mapping[str, str]], width: int) -> dict[str, int]:
    """Return the width of each column, by heading; of what no case has there is none. If all are
    wider than `width`, the widest are broken between words. rich would break words."""
    words, widths = dict[str, int](), dict[str, int]()
    for heading in _HEADINGS:
        cells = [row[heading] for row in rows]
        if {*cells} != {"-"}:
            words[heading] = max(map(cell_len, " ".join([heading, *cells]).split()))
            widths[heading] = max([words[heading], *map(cell_len, cells)])
    while sum(widths.values()) + len(widths) - 1 > width:  # a blank between any two
        loose = [heading for heading in widths if widths[heading] > words[heading]]
        if not loose:
            break
        widths[max(loose, key=lambda heading: widths[heading])] -= 1
    return widths


def _cells(row: CaseEntry) -> dict[str, str]:
    """The row of a case in the night's table, by heading."""
    metrics = row.metrics
    cells = [
        row.work,
        row.backend or "-",
        row.striping.replace(" MiB", ""),
        row.size.removeprefix("local ") or "-",
        str(row.ranks or "-"),
        rate_text(row.rate) + ("/s" if row.rate and row.unit != "MiB/s" else ""),
        number_text(metrics.get("ratio"), ".2f"),
        number_text(metrics.get("overhead_fraction"), ".1%").rstrip("%"),
        str(row.outcome),
    ]
    return dict(zip(_HEADINGS, cells, strict=True))


def as_text(night: NightDocument) -> str:
    """Write the night as plain text, with a table as narrow as mails are read."""
    text = io.StringIO()
    show_night(night, Console(file=text, width=_WIDTH, highlight=False, color_system=None))
    return text.getvalue().lstrip()


def as_message(night: NightDocument) -> str:
    """Write what is not as it should be, a line each, for a chat; and where the page is."""
    return "\n".join(one_line(line) for _, line, _ in _lines(night))


def _lines(night: NightDocument) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield what is not as it should be: a style, a line, and what stands below it in a text."""
    for problem in night.problems:
        yield "red", f"problem: {problem}", ()
    for alarm in night.alarms:
        line = f"{alarm.outcome}: {alarm.sentence}"
        yield "red" if alarm.red else "", line, alarm.in_brief
    alike: dict[tuple[str, str], list[CaseEntry]] = {}  # a maintenance is that of many cases
    for row in night.cases:
        if row.outcome.is_amber:
            alike.setdefault((str(row.outcome), row.last_sentence), []).append(row)
        elif not (row.quiet or row.under or row.is_recorded):  # a note says how many are
            yield _style(row), f"{row.outcome}: {row.name}: {row.sentence}", [str(row.case)]
    for (outcome, sentence), rows in alike.items():
        which = rows[0].name if len(rows) == 1 else counted(len(rows), "case")
        yield _style(rows[0]), f"{outcome}: {which}: {sentence}", ()
    for cost in night.worst_costs:
        yield "", f"cost to users: {cost.sentence}", ()
    for note in night.notes:
        yield "", f"note: {note}", ()
    if night.page:
        yield "", f"report: {night.page}", ()


def number_text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def rate_text(value: float | None) -> str:
    return "-" if value is None else brief_rate(value)


#: Exit codes of plugins of Nagios, the worst first, and their names.
CRITICAL, WARNING, UNKNOWN, FINE = 2, 1, 3, 0
NAGIOS = {CRITICAL: "CRITICAL", WARNING: "WARNING", UNKNOWN: "UNKNOWN", FINE: "OK"}


# Systems


def exit_code(system: SystemEntry) -> int:
    """The exit code of a plugin: what was red stays so, and else nobody knows for long."""
    if system.colour == "red":
        return CRITICAL
    if system.late:
        return UNKNOWN
    return WARNING if system.colour == "amber" else FINE


def _words(system: SystemEntry) -> str:
    """What the page of the night says first, and how old the night is."""
    minutes = system.age_s / 60
    age = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    late = ", and no night since" if system.late else ""
    return f"{system.headline.banner}, {age} ago{late}"


def _performance(system: SystemEntry) -> Iterator[str]:
    """Numbers as a plugin prints them, LABEL=VALUE;WARNING;CRITICAL;LEAST."""
    name = system.system
    yield f"{name}_red={system.red};;0;0"
    yield f"{name}_problems={len(system.problems)};;0;0"
    yield f"{name}_amber={system.amber};0;;0"
    yield f"{name}_measured={system.measured};;;0"
    yield f"{name}_age={system.age_s}s;{SILENT.total_seconds():.0f};;0"


def nagios(systems: Sequence[SystemEntry]) -> tuple[int, str]:
    """The exit code and the line of a plugin."""
    code = min(map(exit_code, systems), key=[*NAGIOS].index)
    text = "; ".join(f"{entry.system}: {_words(entry)}" for entry in systems)
    numbers = " ".join(number for entry in systems for number in _performance(entry))
    return code, f"IOWATCH {NAGIOS[code]} - {one_line(text).replace('|', '/')} | {numbers}"


def show_status(systems: Iterable[SystemEntry], console: Console) -> None:
    """Print a line on each system, and why it is not green."""
    for entry in systems:
        style = STYLES.get(entry.shown_colour, entry.shown_colour)
        tell(console, f"{entry.system}, night {entry.id}: {_words(entry)}", style)
        if entry.colour != "green":
            tell(console, f"    {entry.why}")


# Nights


def show_nights(listed: Iterable[NightEntry], console: Console) -> None:
    """Print a line on each night."""
    rows = list[tuple[str, Sequence[object]]]()
    for night in listed:
        is_told = not (night.by_hand or night.colour == "green")
        colour, why = "by hand" if night.by_hand else night.colour, night.why if is_told else ""
        style = STYLES.get(night.colour, night.colour) if is_told else ""
        cells = night.id, night.system, colour, night.measured + night.amber, night.red, night.amber
        rows.append((style, (*cells, why)))
    tell_rows(console, ("night", "system", "", ">cases", ">red", ">amber", ""), rows)


# Cases


def show_case(row: CaseDocument, console: Console) -> None:
    """Print the verdict on a case, its baseline and its last nights."""
    expected = row.expected
    tell(console, str(row.case), "bold")
    tell(console, f"{row.outcome}, night {row.night}: {row.name}: {row.sentence}", _style(row))
    if row.known:
        tell(console, f"known: {row.known}")
    for cost in row.user_costs:
        tell(console, f"cost to users: {cost.sentence}")
    if expected:
        band = ""
        if expected.low and expected.high:
            band = f", usually {brief_rate(expected.low)} to {brief_rate(expected.high)}"
        rate = f"{brief_rate(expected.value)} {row.unit}"
        tell(console, f"{expected.word}: {rate}{band}; {expected.source}")
    else:
        tell(console, "expected: nothing yet, for no good night is on record")
    if row.folder:
        tell(console, f"raw results: {row.folder}")
    console.print()
    rows = list[tuple[str, Sequence[object]]]()
    for night in row.nights:
        ratio = number_text(night.metrics.get("ratio"), ".2f")
        overhead = number_text(night.metrics.get("overhead_fraction"), ".1%").rstrip("%")
        cells = night.night, rate_text(night.rate), ratio, overhead, night.runs, night.outcome
        rows.append(("red" if night.red else "", cells))
    titles = "night", f">{row.unit}", ">ratio", ">overhead %", ">runs", "verdict"
    tell_rows(console, titles, rows)
