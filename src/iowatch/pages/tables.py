"""The tables that the commands print on a terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from iowatch.base.text import brief, brief_rate, counted, one_line
from iowatch.cases.case import Case, shown
from iowatch.judge.bless import Blessing
from iowatch.night.case_night import CaseNight
from iowatch.night.finding import GOOD, RED, Culprit, with_interval
from iowatch.night.job_script import in_words
from iowatch.night.night import Night
from iowatch.past.cost import Cost

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


def tell(console: Console, text: str, style: str = "") -> None:
    """Print a text, which others may have written, as one line of any width."""
    console.print(one_line(text), style=style, soft_wrap=True, markup=False)


def show_night(night: Night, console: Console) -> None:
    """Print the verdict table, a sentence under what is red or known, and a line on the night.

    The columns fit the console as far as they can; sentences are one line each.
    """
    say = partial(tell, console)
    several = len({row.case.environ for row in night.cases}) > 1
    cells = [_cells(row) for row in night.cases]
    widths = _widths(cells, console.width)
    place = ""
    console.print()
    if night.cases:
        _print_row({heading: heading for heading in widths}, widths, "bold", console)
    for row, row_cells in zip(night.cases, cells, strict=True):
        case = row.case
        # On a line of its own, a name may be as long as it likes.
        before, place = place, f"{case.partition}/{case.environ}" if several else case.partition
        if place != before:
            console.print()
            say(place, "bold")
        colour = "red" if row.is_red else "yellow" if row.is_amber else ""
        _print_row(row_cells, widths, colour, console)
        if case.way:
            say(f"    with {case.way}")
        if (row.is_red or row.known or row.is_amber) and case not in night.merged:
            say(f"    {case}: {row.last.sentence}")
    if night.cases and (night.alarms or night.problems or night.notes or night.page):
        console.print()
    for alarm in night.alarms:
        say(f"{alarm.outcome}: {alarm.sentence}", "red" if alarm.is_red else "")
        for row in alarm.rows:
            say(f"    {row.in_brief}")
    for cost in night.worst_costs:
        say(f"cost to users: {cost.sentence}")
    for problem in night.problems:
        say(f"problem: {problem}", "red")
    for note in night.notes:
        say(f"note: {note}")
    if night.page:
        say(f"report: {night.page}")
    measured = counted(night.measured, "case")
    amber = f", {len(night.amber)} not measured" if night.amber else ""
    alarms = counted(len(night.red_alarms), "red alarm")
    whole = f", {alarms} of several cases" if night.red_alarms else ""
    by_hand = ", run by hand" if night.is_by_hand else ""
    console.print()
    say(
        f"{night.colour}{by_hand}: {measured} measured{amber}, "
        f"{len(night.red)} with a red verdict{whole}, "
        f"{counted(len(night.problems), 'problem')} with the night",
        "yellow" if night.colour == "amber" else night.colour,
    )


def _cells(row: CaseNight) -> dict[str, str]:
    """The row of a case in the night's table, by heading."""
    case, metrics = row.case, row.last.metrics
    cells = [
        case.shape,
        case.backend or "-",
        case.striping.replace(" MiB", ""),
        case.size.removeprefix("local ") or "-",
        str(case.ranks or "-"),
        rate_text(row.last.rate) + ("/s" if row.last.rate and row.unit != "MiB/s" else ""),
        number_text(metrics.get("ratio"), ".2f"),
        number_text(metrics.get("overhead_fraction"), ".1%").rstrip("%"),
        str(row.outcome),
    ]
    return dict(zip(_HEADINGS, cells, strict=True))


def _widths(rows: Sequence[Mapping[str, str]], width: int) -> dict[str, int]:
    """The width of each column of the night's table, by heading; none of what no case has.

    Rows are printed one by one, for sentences stand between them, and rich would make the columns
    of each as wide as that row needs. Columns are as wide as all need. If that is more than
    `width`, the widest are broken between words. Headings are, anyway.
    """
    words: dict[str, int] = {}
    widths: dict[str, int] = {}
    for heading in _HEADINGS:
        cells = [row[heading] for row in rows]
        if set(cells) != {"-"}:
            words[heading] = max(map(cell_len, " ".join([heading, *cells]).split()))
            widths[heading] = max([words[heading], *map(cell_len, cells)])
    while sum(widths.values()) + len(widths) - 1 > width:  # a blank between any two
        loose = [heading for heading in widths if widths[heading] > words[heading]]
        if not loose:
            break
        widths[max(loose, key=lambda heading: widths[heading])] -= 1
    return widths


def _print_row(
    cells: Mapping[str, str], widths: Mapping[str, int], style: str, console: Console
) -> None:
    widths = {**widths, "verdict": min(widths["verdict"], cell_len(cells["verdict"]))}
    row = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for heading, width in widths.items():
        row.add_column(justify=_HEADINGS[heading], width=width)
    row.add_row(*(Text(cells[heading]) for heading in widths), style=style)
    row.width = sum(widths.values()) + len(widths) - 1  # even if the console is narrower
    console.print(row, crop=False)


def as_text(night: Night) -> str:
    """Write the night as plain text, with a table as narrow as mails are read."""
    text = io.StringIO()
    show_night(night, Console(file=text, width=80, highlight=False, color_system=None))
    return text.getvalue().lstrip()


def as_message(night: Night) -> str:
    """Write what is not as it should be, a line each, for a chat; and where the page is."""
    lines = [f"Problem: {problem}" for problem in night.problems]
    lines += [f"{alarm.outcome}: {alarm.sentence}" for alarm in night.alarms]
    rows = [row for row in night.worst_first if not row.is_quiet and row.case not in night.merged]
    lines += [f"{row.outcome}: {row.sentence}" for row in rows if not row.is_amber]
    reasons: dict[str, list[CaseNight]] = {}  # a maintenance is that of many cases
    for row in night.amber:
        reasons.setdefault(row.last_sentence, []).append(row)
    for reason, rows_alike in reasons.items():
        which = rows_alike[0].name if len(rows_alike) == 1 else counted(len(rows_alike), "case")
        lines.append(f"{rows_alike[0].outcome}: {which}: {reason}")
    lines += [f"Cost to users: {cost.sentence}" for cost in night.worst_costs]
    lines += [f"Note: {note}" for note in night.notes]
    lines += [f"The page: {night.page}"] if night.page else []
    return "\n".join(map(one_line, lines))


def number_text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def rate_text(value: float | None) -> str:
    return "-" if value is None else brief_rate(value)


def show_blame(finding: Culprit, console: Console) -> None:
    """Print what each environment came to, and the sentence."""
    name, say = finding.metric, partial(tell, console)
    if finding.tried:
        title = f"{name:>16} {'good':>7} {'MiB/s':>7}  {'worse by [95 % interval]':<32} environment"
        console.print()
        say(title, "bold")
    nights = [f"{finding.good.night} (good)", finding.red.night]
    for number, tried in enumerate(finding.tried):
        environment = nights[min(number, RED)]
        if number > RED and tried.change:
            environment = f"{nights[GOOD]}, but {in_words(tried.change)}"
        loss = finding.loss(tried)
        lost = beside = "-"
        if loss and number != GOOD:
            # One round makes the loss: its value, and the good environment's beside it.
            lost, beside = with_interval(name, loss), brief(finding.tried[GOOD].values[loss.round])
            value, rate = brief(tried.values[loss.round]), brief(tried.rates[loss.round])
        else:
            every = (tried.values, tried.rates)
            value, rate = (brief(median(values)) if values else "-" for values in every)
        fault = f": {tried.fault}" if tried.fault else ""
        say(f"{value:>16} {beside:>7} {rate:>7}  {lost:<32} {environment}{fault}")
    for note in finding.notes:
        say(f"note: {note}")
    if finding.folder:
        say(f"raw results: {finding.folder}")
    console.print()
    say(f"{finding.case}: {finding.conclusion}")


def show_blessing(blessing: Blessing, console: Console) -> None:
    """Print what each case's baseline is now and was before, and who was refused and why."""
    say = partial(tell, console)
    if blessing.blessed:
        title = f"{'MiB/s':>8} {'before':>8} {'spread':>6} {'ratio':>5} {'overhead %':>10}"
        say(f"{title} {'nights':>6}  case", "bold")
    for case, now in sorted(blessing.blessed.items(), key=lambda item: str(item[0])):
        before = blessing.before.get(case)
        say(
            f"{rate_text(now.bandwidth):>8} {rate_text(before.bandwidth if before else None):>8}"
            f" {now.spread:>6.2f} {number_text(now.ratio, '.2f'):>5}"
            f" {number_text(now.overhead_fraction, '.1%').rstrip('%'):>10} {now.nights:>6}  {case}"
        )
    refused: dict[str, list[Case]] = {}
    for case, why in sorted(blessing.refused.items(), key=lambda item: str(item[0])):
        refused.setdefault(why, []).append(case)
    for why, cases in refused.items():  # of a new site all have too few nights
        sentence = f"{cases[0]}: {why}"
        if len(cases) > 1:
            sentence = f"{counted(len(cases), 'case')}: {why}: {shown(cases)}"
        say(f"refused: {sentence}", "red")
    for case, nights in sorted(blessing.red.items(), key=lambda item: str(item[0])):
        if nights:
            say(f"taken although red: {case}: {', '.join(nights)}", "red")
    if blessing.file:
        say(f"written: {blessing.file}")
    done = "blessed" if blessing.file or not blessing.blessed else "to be blessed, nothing written"
    say(f"{counted(len(blessing.blessed), 'case')} {done}, {len(blessing.refused)} refused")


def show_costs(parts: Mapping[str, Cost], how_long: str, console: Console) -> None:
    """Print what a suite costs on each partition and in all, and how long its nights took; empty:
    it had none."""
    rows = {**parts, "all": sum(parts.values(), Cost())}
    width = max(map(len, ["partition", *rows]))
    title = f"{'partition':<{width}} {'jobs':>6} {'node-hours':>10} {'TiB written':>11}"
    tell(console, f"{title} {'minutes':>8}", "bold")
    for name, cost in rows.items():
        tell(
            console,
            f"{name:<{width}} {cost.jobs:>6} {cost.node_hours:>10.3f} {cost.tib_written:>11.3f}"
            f" {cost.minutes:>8.1f}",
        )
    if unknown := rows["all"].jobs_without_rate:
        tell(
            console,
            f"note: of {counted(unknown, 'job')} no rate is on record, and half of the ceiling is "
            "assumed: on few nodes it takes more",
        )
    tell(console, "note: hours and minutes are those of measuring, one job after the other")
    if how_long:
        tell(console, how_long)
