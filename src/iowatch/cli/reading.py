"""The commands that read what is on record: status, nights, show and history."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cli import completion
from iowatch.cli.command import (
    AsJson,
    Databases,
    Matching,
    Since,
    System,
    Systems,
    Until,
    app,
    argument,
    databases,
    flag,
    instant,
    is_within,
    of_system,
    one_database,
    progress,
    screen,
    selected,
    systems_on_record,
    the_system,
    whole_system,
)
from iowatch.cli.every_night import AMBER, print_night, read_night, require_night

if TYPE_CHECKING:
    from iowatch.night.document import CaseDocument, NightEntry, SystemEntry

_NIGHT = re.compile(r"\d{4}-\d\d-\d\d(T\d{6})?", re.ASCII)


@app.command("status")
def status_command(
    system: Systems = None,
    nagios: bool = flag("--nagios", "Print the line of a plugin of Nagios, Icinga or Checkmk."),
    as_json: AsJson = False,
    db: Databases = None,
) -> None:
    """Show the last night of each system: its colour, how old it is, and why it is not green.

    The exit code is 0 if all are green, 1 if one is red, and 4 if one is amber or older than 36
    hours. With --nagios it is 0 (OK) if all are green, 2 (CRITICAL) if one is red, 1 (WARNING) if
    one is amber, and 3 (UNKNOWN) if one that is not red is older than 36 hours, or if nothing can
    be read; the worst of several systems counts, in the order 2, 1, 3, 0.
    """
    from iowatch.base.documents import document
    from iowatch.night import as_judged
    from iowatch.pages import tables

    try:
        file = one_database(db)
        standings = as_judged.standings(file, datetime.now(UTC), system) if file else None
        if standings is None:
            with progress("reading the results database"):
                standings = standings_on_record(system, db)
    except UserError as err:
        if not nagios:
            raise
        print(f"IOWATCH UNKNOWN - {str(err).replace('|', '/')}")
        raise typer.Exit(tables.UNKNOWN) from None
    if nagios:
        code, line = tables.nagios(standings)
        print(line)
        raise typer.Exit(code)
    if as_json:
        print(document(systems=standings))
    else:
        tables.show_status(standings, screen())
    if any(entry.colour == "red" for entry in standings):
        raise typer.Exit(1)
    is_well = all(tables.exit_code(entry) == tables.FINE for entry in standings)
    raise typer.Exit(0 if is_well else AMBER)


def standings_on_record(system: list[str] | None, db: list[Path] | None) -> list[SystemEntry]:
    """Judge the last nights of these systems, or of all. UserError."""
    from iowatch.night.on_record import record_of, standing

    files = databases(db)
    return [standing(record_of(name, files)) for name in systems_on_record(system, db)]


@app.command("nights")
def nights_command(
    system: Systems = None,
    since: Since = None,
    until: Until = None,
    check: bool = flag(
        "--check",
        "List instead what was changed or lost: decode all that is on record, believe no cache, "
        "and compare it with what each night was judged by.",
    ),
    as_json: AsJson = False,
    db: Databases = None,
) -> None:
    """List the nights with their colours, the last first, and the sessions that were run by hand.

    Without --since and --until these are the last 30 of each system. With --check the exit code is
    1 if anything was changed or lost.
    """
    from iowatch.base.documents import document
    from iowatch.pages import tables

    if check:
        if since or until or as_json:
            raise UserError("--check is of all: leave out --since, --until and --json")
        names = system or sorted({run.case.system for run in selected(db, "")})
        faulty = [name for name in names if check_record(name, databases(db))]
        raise typer.Exit(1 if faulty else 0)
    for name in system or []:
        whole_system(name)
    first, last = (day.date() if day else None for day in (since, until))
    file = one_database(db)
    listed = nights_as_judged(file, system, first, last) if file else None
    if listed is None:
        listed = nights_on_record(system, db, first, last)
    if as_json:
        print(document(nights=listed))
    else:
        tables.show_nights(listed, screen())


def nights_as_judged(
    file: Path, system: list[str] | None, first: date | None, last: date | None
) -> list[NightEntry] | None:
    """The nights of these systems, or of all, as they were judged; None: the record is to be read.
    UserError."""
    from iowatch.night import as_judged

    now, every = datetime.now(UTC), []
    for name in system or as_judged.names(file, now) or [""]:
        listed = as_judged.nights(name, file, now, first, last)
        if listed is None:
            return None
        every += listed
    return every


def nights_on_record(
    system: list[str] | None, db: list[Path] | None, first: date | None, last: date | None
) -> list[NightEntry]:
    """Judge the nights of these systems, or of all, and what was run by hand. UserError."""
    from iowatch.night.document import MOST, NightEntry
    from iowatch.night.night import night_entry
    from iowatch.night.on_record import nights, record_of
    from iowatch.past.history import year_before

    begin = datetime.combine(first, time(), UTC) if first else None
    # Those, too, of which there are only hand runs.
    runs = selected(db, "", begin or year_before(datetime.now(UTC)))
    every = list[NightEntry]()
    for name in system or sorted({run.case.system for run in runs}) or systems_on_record(None, db):
        with progress("judging the nights"):
            record = record_of(name, databases(db), begin)
            of_system(name, record.runs)
            some = islice(nights(record, first, last), None if first or last else MOST)
            every += (night_entry(NightEntry, night) for night in some)
    return every


def check_record(system: str, files: list[Path]) -> bool:
    """Print what is on record of a system otherwise than it was; is there anything?"""
    from iowatch.night.on_record import record_of

    with progress("decoding all that is on record"):
        record = record_of(system, files, datetime.fromtimestamp(0, UTC), anew=True)
    faults = [*record.differing, *record.notes]
    for night, damage in record.damaged().items():
        faults += [f"night {night}: {why}" for why in damage]
    for fault in faults:
        print(f"{system}: {fault}")
    nights = counted(len(record.nights), "night")
    print(f"{system}: {nights} checked, {counted(len(faults), 'fault')}")
    return bool(faults)


@app.command("show")
def show_command(
    subject: str = argument(
        "A case, by its id, its name in the last night, or a part of either that no other case "
        "has; or a night, by its id or the day (UTC) on which it began.",
        default="",
        metavar="CASE|NIGHT",
        show_default="the last night",
        autocompletion=completion.cases_and_nights,
    ),
    system: System = "",
    as_json: AsJson = False,
    db: Databases = None,
) -> None:
    """Show a night as iowatch run prints it; or a case: its verdict, its baseline, 30 nights.

    A session that was run by hand has an id as a night has: iowatch nights lists it.
    """
    from iowatch.base.documents import document
    from iowatch.night import as_judged
    from iowatch.pages import tables

    system = the_system(completion.system_in(subject) or system, db)
    whole_system(system)
    file = one_database(db)
    if not subject or _NIGHT.fullmatch(subject):
        require_night(subject)
        kept = as_judged.document(system, file, datetime.now(UTC), subject) if file else None
        night = kept or read_night(system, subject, db).document
        if as_json:
            print(document(night=night))
        elif not print_night(night):
            raise typer.Exit(3)
        return
    case = as_judged.case(system, file, datetime.now(UTC), subject) if file else None
    case = case or case_on_record(system, subject, db)
    if as_json:
        print(document(case=case))
    else:
        tables.show_case(case, screen())


def case_on_record(system: str, text: str, db: list[Path] | None) -> CaseDocument:
    """Judge the last night of a case. UserError."""
    from iowatch.night.on_record import last_of, record_of

    with progress("reading the results database"):
        record = record_of(system, databases(db))
        case = last_of(record, text)
    for note in record.notes:
        typer.echo(f"iowatch: {note}", err=True)
    return case


@app.command("history")
def history_command(
    system: Systems = None,
    case: Matching = "",
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
    db: Databases = None,
) -> None:
    """List every case that was ever measured: its nights, its runs and its best rate."""
    from iowatch.base.documents import document
    from iowatch.night.on_record import histories
    from iowatch.pages import listings

    runs = selected(db, case, instant(since))
    if system:
        runs = [run for name in system for run in of_system(name, runs)]
    runs = [run for run in runs if is_within(run.time.date(), since, until)]
    if as_json:
        print(document(cases=[*histories(runs)]))
    else:
        listings.show_history(histories(runs), screen())
