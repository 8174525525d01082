"""Overviews of the record: the standing of each system, its nights, its cases, one case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from iowatch.base.text import brief_rate, counted, one_line
from iowatch.night.document import SILENT, CaseDocument, NightEntry, SystemEntry
from iowatch.night.on_record import CaseHistory
from iowatch.pages.tables import STYLES, number_text, rate_text, tell, tell_rows

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
    style = "red" if row.red else "yellow" if row.outcome.is_amber else ""
    tell(console, f"{row.outcome}, night {row.night}: {row.name}: {row.sentence}", style)
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


def show_history(entries: Iterable[CaseHistory], console: Console) -> None:
    """Print a line on each case."""
    rows = [
        (e.nights, e.first, e.last, e.runs, e.by_hand, e.failed, rate_text(e.best), e.case)
        for e in entries
    ]
    titles = ">nights", "first", "last", ">runs", ">by hand", ">failed", ">best MiB/s", "case"
    tell_rows(console, titles, [("", row) for row in rows])
    tell(console, counted(len(rows), "case"))
