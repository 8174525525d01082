"""`iowatch nightly` and `iowatch suspects`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated

import typer
from rich.console import Console

from iowatch.commands.common import (
    DAY,
    Databases,
    needs_extra,
    of_system,
    one_line_errors,
    selected,
)
from iowatch.commands.tables import as_text, in_brief, show_night
from iowatch.errors import UserError
from iowatch.night import mail, session
from iowatch.night import nightly as nights
from iowatch.night.gate import Night
from iowatch.night.suspects import rerun_script
from iowatch.night.tonight import tonight
from iowatch.past import baselines
from iowatch.reframe_site import UsageError, reference_folder, results_database
from iowatch.sweep import NIGHTLY


def nightly(
    system: Annotated[str, typer.Option(help="System of site_configs/ to measure.")],
    name: Annotated[
        list[str] | None,
        typer.Option("-n", "--name", help="Only checks that match (ReFrame's -n)."),
    ] = None,
    sweep: Annotated[str, typer.Option(help="Cases to measure: nightly or acceptance.")] = NIGHTLY,
    record: Annotated[
        bool, typer.Option("--record", help="Accept cases that have no reference values yet.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Only tonight's suspicious cases that are due again.")
    ] = False,
    time_limit: Annotated[
        str, typer.Option(help="For the whole night, such as 90m or 6h.")
    ] = "20h",
    address: Annotated[
        str | None, typer.Option("--mail", metavar="ADDRESS", help="Send the summary there, too.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Only the summary, nothing of ReFrame's output.")
    ] = False,
) -> None:
    """Run every check of a system and judge the night.

    Exit code: 0 green, 1 red, 2 not run (usage, site, or the last night is still at work), 3 green
    but the mail failed, 130 or 143 interrupted.
    """
    with session.interruptible():
        with one_line_errors():
            wanted = nights.Wanted(
                system, sweep, name or [], record, again, read_time_limit(time_limit), quiet
            )
            wanted.check()
            outbox = mail.outbox(address) if address else None
        began = datetime.now(timezone.utc)
        title = f"iowatch {system} {began:{DAY}}"
        try:
            night = nights.run(wanted)
        except nights.NothingDue as err:
            if not quiet:
                print(err)
            raise typer.Exit(0) from None
        except (UserError, session.Interrupted) as err:
            session.ignore_signals()
            post(outbox, f"{title}: not run", str(err))
            typer.echo(f"iowatch: error: {err}", err=True)
            code = 128 + err.number if isinstance(err, session.Interrupted) else 2
            raise typer.Exit(code) from None
        write_report(system, night, began)
        show_night(night, Console(width=100, highlight=False))
        posted = post(outbox, f"{title}: {in_brief(night)}", as_text(night))
    code = 128 + night.signal if night.signal else int(night.is_red)
    raise typer.Exit(code or (0 if posted else 3))


def write_report(system: str, night: Night, began: datetime) -> None:
    """Write the page of the night; none if nothing is on record."""
    try:
        database = results_database()
        if not database.is_file():
            return
        with needs_extra("report"):
            from iowatch.report.write import page_of_tonight

            name = system.partition(":")[0]
            night.page = page_of_tonight(name, database, night.problems, began)
    except UserError as err:
        typer.echo(f"iowatch: error: {err}", err=True)


def read_time_limit(text: str) -> timedelta:
    try:
        return nights.read_duration(text)
    except ValueError as err:
        raise UsageError(f"--time-limit: {err}") from None


def post(outbox: mail.Outbox | None, subject: str, text: str) -> bool:
    """Send a mail if one is wanted; False, and a line, if that failed."""
    try:
        if outbox:
            outbox.send(subject, text)
    except mail.MailError as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        return False
    return True


def suspects(
    system: Annotated[str, typer.Option(help="System, or SYSTEM:PARTITION, to run again.")],
    db: Databases = None,
) -> None:
    """Print a shell script that runs tonight's suspicious cases again."""
    now = datetime.now(timezone.utc)
    with one_line_errors():
        records = of_system(system, selected(db, ""))
        name = system.partition(":")[0]
        cases = tonight(records, baselines.read(name, reference_folder()), now)
    for line in rerun_script(cases, now):
        print(line)
