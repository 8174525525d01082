"""The commands of every night: nightly, blame, report, pages and export."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from iowatch import export, report, tables
from iowatch.cli.command import (
    DAY,
    Databases,
    app,
    argument,
    flag,
    of_system,
    option,
    say_not_written,
    selected,
)
from iowatch.files import UserError, counted
from iowatch.night import blame as culprit
from iowatch.night import nightly as nights
from iowatch.night import notices, session
from iowatch.night.night import Night
from iowatch.night.wanted import Wanted, read_duration
from iowatch.run import day_of
from iowatch.site import results_database
from iowatch.suites import NIGHTLY

EVERY_NIGHT = "Every night"
AMBER = 4  # the exit code of a night of which not all is known


@app.command("nightly", hidden=True)  # its name in the crontabs of sites
@app.command("run", rich_help_panel=EVERY_NIGHT)
def run_command(
    system: str = option(
        "System to measure, or one partition of it, SYSTEM:PARTITION.", default=...
    ),
    name: list[str] | None = option(
        "Run only checks that match, as ReFrame's -n does.", "-n", "--name"
    ),
    suite: str = option("List of cases to measure: nightly or acceptance.", default=NIGHTLY),
    record: bool = flag("--record", "Leave cases green that have no reference value yet."),
    again: bool = flag("--again", "Run only what is suspicious and due to run again."),
    resume: bool = flag(
        "--resume",
        "Go on with the last night, if iowatch and ReFrame were killed in it: take up the "
        "jobs that they have left, and run the cases that had none.",
    ),
    away: list[str] | None = option(
        "Put on record, for an acceptance test, that this OST is away. Repeatable.",
        metavar="FILESYSTEM:OST",
    ),
    death: str = option(
        "Put on record, for an acceptance test, that a node with ranks, or a server, is "
        "killed while this runs.",
        default="",
        metavar="FILESYSTEM:client|server",
        show_default="none",
    ),
    time_limit: str = option(
        "Time that the whole night may take, such as 90m or 6h.", default="20h"
    ),
    address: str | None = option("Mail the summary there, too.", "--mail", metavar="ADDRESS"),
    webhook: str | None = option(
        "Post the summary in brief to this incoming webhook of a chat, such as Slack or "
        "Mattermost. The URL is a secret: rather give it in the environment.",
        metavar="URL",
        envvar=notices.WEBHOOK,
    ),
    quiet: bool = flag("--quiet", "Print only the summary, and nothing while it runs."),
    verbose: bool = flag("--verbose", "Show ReFrame's output, not how far the night is."),
    options: list[str] | None = argument(
        "Options of ReFrame's after a `--`, such as `-- -J reservation=NAME`.",
        default=None,
        metavar="[-- OPTIONS]",
        show_default=False,
    ),
) -> None:
    """Run every check that a system's configuration promises, and judge the night.

    The exit code is 0 if the night is green, 1 if it is red, 2 if it did not run (because of a
    mistake in the command or the site's file, or because the last night is still at work), 3 if it
    is not red but the summary could not be printed or sent, 4 if it is amber (nothing is red, but
    some cases were not measured, for a reason that is known), and 130 or 143 if it was interrupted.
    With --again it is that of the whole night.
    """
    with session.interruptible():
        wanted = Wanted(
            system=system,
            suite=suite,
            names=name or [],
            record=record,
            again=again,
            time_limit=read_duration(time_limit),
            quiet=quiet,
            verbose=verbose,
            resume=resume,
            away=away or [],
            death=death,
            options=options or [],
        )
        wanted.check()
        channels = notices.channels(address, webhook)
        title = f"iowatch {system} {datetime.now(UTC):{DAY}}"
        try:
            night = nights.run(wanted)
        except nights.NothingDue as err:
            if not quiet:
                print(err)
            raise typer.Exit(0) from None
        except (UserError, session.Interrupted) as err:
            session.ignore_signals()
            post(channels, notices.Notice(f"{title}: not run", str(err), str(err)))
            typer.echo(f"iowatch: error: {err}", err=True)
            code = 128 + err.number if isinstance(err, session.Interrupted) else 2
            raise typer.Exit(code) from None
        texts = tables.as_text(night), tables.as_message(night)
        posted = post(channels, notices.Notice(f"{title}: {night.brief}", *texts))
        shown = show(night)
    code = 128 + night.signal if night.signal else int(night.is_red)
    code = code or (0 if posted and shown else 3)
    raise typer.Exit(code or (AMBER if night.colour == "amber" else 0))


def post(channels: Sequence[notices.Outbox | notices.Hook], notice: notices.Notice) -> bool:
    """Send a notice wherever it is wanted; False, and a line for each, if that failed."""
    is_sent = True
    for channel in channels:
        try:
            channel.send(notice)
        except notices.NotSent as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            is_sent = False
    return is_sent


def show(night: Night) -> bool:
    """Print the summary; False, and a line, if that failed, as on a full disk."""
    try:
        width = None if sys.stdout and sys.stdout.isatty() else 100  # rich has 80 for files
        tables.show_night(night, Console(width=width, highlight=False))
        if sys.stdout:  # not closed
            sys.stdout.flush()
    except (OSError, SystemExit) as err:  # rich exits when nobody reads it
        why = err.strerror if isinstance(err, OSError) else "nobody reads it"
        say_not_written(f"the summary cannot be printed: {why}")
        return False
    return True


@app.command("blame", rich_help_panel=EVERY_NIGHT)
def blame_command(
    case: str = argument("Its id, or a part of it that no other case has."),
    rounds: int = option(
        "Number of rounds. In each of them every environment has its turn.", default=culprit.ROUNDS
    ),
) -> None:
    """Find the change that made a case slow.

    One job runs the case in turn with the environment of its last good night, with tonight's, and
    with each change between the two alone. Both environments are taken from the job scripts that
    are kept. The job belongs to no night.

    The exit code is 0 if the culprit is certain, 1 if it is not, 2 if nothing was run, and 130 or
    143 if it was interrupted.
    """
    with session.interruptible():
        try:
            asked = culprit.ask(case, rounds)
            finding = culprit.blame(asked, lambda words: print(words, flush=True))
        except session.Interrupted as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            raise typer.Exit(128 + err.number) from None
    tables.show_blame(finding, Console(highlight=False))
    raise typer.Exit(0 if finding.is_sure else 1)


@app.command("report", rich_help_panel=EVERY_NIGHT)
def report_command(
    system: str = option("System to report on.", default=...),
    night: str = option(
        "The day (UTC) of its beginning, or its id.", default="", show_default="the last"
    ),
    session: str = option(
        "Report on a session that was run by hand: its UUID, as iowatch history has it.",
        default="",
        show_default="none",
    ),
    form: str = option(
        f"Form of the report: {', '.join(report.FORMATS)}.", "--format", default="html"
    ),
    output: Path | None = option(
        "File to write.",
        "-o",
        "--output",
        show_default="a page next to the database; md and junit are printed",
    ),
    db: Databases = None,
) -> None:
    """Report on a night: its verdicts, worst first, and what has changed since all was well.

    html is one page that needs no network; environments that measured the same cases stand on it
    side by side. md is for chat or mail, and junit for a CI dashboard.

    The exit code is 0 if the report was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    progress = Console(stderr=True)
    whole_system(system)
    if form not in report.FORMATS:
        raise UserError(f"--format {form}: there are {', '.join(report.FORMATS)}")
    try:
        if night:
            day_of(night)
    except ValueError:
        raise UserError(f"--night {night}: no day such as 2026-11-22, and no id") from None
    if night and session:
        raise UserError("--session is of no night: leave out --night")
    databases = db or [results_database()]
    with progress.status("reading the results database"):
        shown = report.read(system, databases, night, session)
    if shown.later:
        typer.echo(
            f"iowatch: a clock was wrong: night {shown.later} is dated later than now: --night "
            "shows it",
            err=True,
        )
    with progress.status(f"writing the report on {counted(len(shown.cases), 'case')}"):
        if form == "html" and output is None:
            output = report.write_page(shown, databases[0].parent)
        else:
            text = report.FORMATS[form](shown)
            if output is None:
                print(text, end="")
                return
            report.write(output, text)
    print(output)


@app.command("pages", rich_help_panel=EVERY_NIGHT)
def pages_command(
    folder: Path = argument("Folder for a web server.", metavar="DIR"),
    db: Databases = None,
) -> None:
    """Write the pages of all systems on record, with an index.html that shows the last nights of
    each. Run this after each night.
    """
    with Console(stderr=True).status("writing the pages of all systems"):
        index = report.write_site(db or [results_database()], folder)
    print(index)


def whole_system(system: str) -> None:
    name, _, partition = system.partition(":")
    if partition:
        raise UserError(f"--system {system}: a night is the whole system's: give {name}")


@app.command("export", rich_help_panel=EVERY_NIGHT)
def export_command(
    form: str = option(
        f"Form of the export: {', '.join(export.FORMATS)}.", "--format", default="prometheus"
    ),
    output: Path | None = option("File to write.", "-o", "--output", show_default="printed"),
    system: list[str] | None = option(
        "System to export. Repeatable.", show_default="all on record"
    ),
    since: datetime | None = option(
        "With jsonl: every run from this day (UTC) on, those by hand among them.",
        formats=[DAY],
        show_default="the last night",
    ),
    db: Databases = None,
) -> None:
    """Write the last night of each system for the centre's own monitoring.

    prometheus is for the textfile collector of Prometheus' node exporter. jsonl has one JSON
    document for each run on a line of its own, for OpenSearch, Loki and the like. What the names
    mean stands in docs/howto/monitoring.md.

    For example, after each night: iowatch export --output /var/lib/node_exporter/iowatch.prom

    The exit code is 0 if the export was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    if form not in export.FORMATS:
        raise UserError(f"--format {form}: there are {' and '.join(export.FORMATS)}")
    if since and form != "jsonl":
        raise UserError("--since goes with --format jsonl: Prometheus keeps the past itself")
    for name in system or []:
        whole_system(name)
    databases = db or [results_database()]
    if since:
        runs = selected(db, "", since.replace(tzinfo=UTC))
        if system:
            runs = [run for name in system for run in of_system(name, runs)]
        text = export.json_lines(runs)
    else:
        with Console(stderr=True).status("reading the results database"):
            names = system or report.systems(databases)
            text = export.FORMATS[form]([report.read(name, databases) for name in names])
    if output is None:
        print(text, end="")
    else:
        report.write(output, text)
