"""Tables that are about no night: what was blamed, blessed, planned and measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import median

from rich.console import Console

from iowatch.base.text import brief, counted
from iowatch.cases.case import Case, shown
from iowatch.judge.bless import Blessing
from iowatch.night.finding import BlameDocument
from iowatch.night.on_record import CaseHistory
from iowatch.pages.tables import number_text, rate_text, tell, tell_rows
from iowatch.past.cost import Cost


def show_blame(finding: BlameDocument, console: Console) -> None:
    """Print what each environment came to, and the sentence."""
    rows = list[tuple[str, Sequence[object]]]()
    for number, entry in enumerate(finding.environments):
        fault = f": {entry.fault}" if entry.fault else ""
        value, beside, rate, lost = "-", "-", "-", "-"
        if (loss := entry.worse_by) and number:
            # One round makes the loss: its value, and the good environment's beside it.
            lost, beside = entry.worse_in_words, brief(finding.environments[0].values[loss.round])
            value, rate = brief(entry.values[loss.round]), brief(entry.rates[loss.round])
        elif entry.values:
            value, rate = brief(median(entry.values)), brief(median(entry.rates))
        rows.append(("", (value, beside, rate, lost, f"{entry.environment}{fault}")))
    if rows:
        console.print()
        titles = f">{finding.metric}", ">good", ">MiB/s", "worse by [95 % interval]", "environment"
        tell_rows(console, titles, rows)
    for note in finding.notes:
        tell(console, f"note: {note}")
    if finding.folder:
        tell(console, f"raw results: {finding.folder}")
    console.print()
    tell(console, f"{finding.case}: {finding.conclusion}")


def show_blessing(blessing: Blessing, console: Console) -> None:
    """Print what each case's baseline is now and was before, and who was refused and why."""
    say = partial(tell, console)
    rows = list[tuple[str, Sequence[object]]]()
    for case, now in sorted(blessing.blessed.items(), key=lambda item: str(item[0])):
        before = blessing.before.get(case)
        overhead = number_text(now.overhead_fraction, ".1%").rstrip("%")
        rates = rate_text(now.bandwidth), rate_text(before.bandwidth if before else None)
        ratio = number_text(now.ratio, ".2f")
        rows.append(("", (*rates, f"{now.spread:.2f}", ratio, overhead, now.nights, case)))
    if rows:
        titles = ">MiB/s", ">before", ">spread", ">ratio", ">overhead %", ">nights", "case"
        tell_rows(console, titles, rows)
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
    costs = {**parts, "all": sum(parts.values(), Cost())}
    rows = [
        (name, c.jobs, f"{c.node_hours:.3f}", f"{c.tib_written:.3f}", f"{c.minutes:.1f}")
        for name, c in costs.items()
    ]
    titles = "partition", ">jobs", ">node-hours", ">TiB written", ">minutes"
    tell_rows(console, titles, [("", row) for row in rows])
    if unknown := costs["all"].jobs_without_rate:
        tell(
            console,
            f"note: of {counted(unknown, 'job')} no rate is on record, and half of the ceiling is "
            "assumed: on few nodes it takes more",
        )
    tell(console, "note: hours and minutes are those of measuring, one job after the other")
    if how_long:
        tell(console, how_long)


def show_history(entries: Iterable[CaseHistory], console: Console) -> None:
    """Print a line on each case."""
    rows = [
        (e.nights, e.first, e.last, e.runs, e.by_hand, e.failed, rate_text(e.best), e.case)
        for e in entries
    ]
    titles = ">nights", "first", "last", ">runs", ">by hand", ">failed", ">best MiB/s", "case"
    tell_rows(console, titles, [("", row) for row in rows])
    tell(console, counted(len(rows), "case"))
