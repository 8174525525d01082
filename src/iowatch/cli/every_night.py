"""The commands of every night: run, blame, report, pages and export."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cli import completion
from iowatch.cli.command import (
    DAY,
    Address,
    AsJson,
    Databases,
    Since,
    System,
    Systems,
    Until,
    Webhook,
    app,
    argument,
    databases,
    flag,
    instant,
    interruptible,
    is_within,
    of_system,
    option,
    output,
    progress,
    say_not_written,
    screen,
    selected,
    systems_on_record,
    the_system,
    whole_system,
)

if TYPE_CHECKING:
    from iowatch.night.document import NightDocument
    from iowatch.night.night import Night
    from iowatch.night.notices import Hook, Notice, Outbox
    from iowatch.night.wanted import Wanted

AMBER = 4  # the exit code of a night of which not all is known


@app.command("nightly", hidden=True)  # its name in the crontabs of sites
@app.command("run")
def run_command(
    system: System = "",
    name: list[str] | None = option(
        "Run only checks that match, as ReFrame's -n does.", "-n", "--name"
    ),
    suite: str = option(
        "List of cases to measure: nightly, acceptance or hourly.", default="nightly"
    ),
    record: bool = flag("--record", "Leave cases green that have no reference value yet."),
    plan: bool = flag(
        "--plan", "Run nothing: say how many jobs, node-hours, TiB and minutes it takes."
    ),
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
    address: Address = None,
    webhook: Webhook = None,
    quiet: bool = flag("--quiet", "Print only the summary, and nothing while it runs."),
    verbose: bool = flag("--verbose", "Show ReFrame's output, not how far the night is."),
    as_json: AsJson = False,
    options: list[str] | None = argument(
        "Options of ReFrame's after a `--`, such as `-- -J reservation=NAME`.",
        default=None,
        metavar="-- OPTIONS",
        show_default=False,
    ),
) -> None:
    """Run every check that a system's configuration promises, and judge the night.

    With --plan nothing is run. What it will cost goes by each case's usual rate, and counts the
    time in which data move, one job after the other.

    The exit code is 0 if the night is green, 1 if it is red, 2 if it did not run (because of a
    mistake in the command or the site's file, or because the last night is still at work), 3 if it
    is not red but the summary could not be printed or sent, 4 if it is amber (nothing is red, but
    some cases or hours were not measured, and why is known), and 130 or 143 if it was interrupted.
    With --again it is that of the whole night.

    --suite hourly runs beside a night and beside users' jobs, and belongs to no night. The next
    night judges its hours. The exit code is 0 if every case was measured, and else 1.
    """
    from iowatch.cases.filesystem import HOURLY
    from iowatch.night import nightly, notices, session
    from iowatch.night.wanted import Wanted, read_duration
    from iowatch.pages import report, tables

    system = the_system(system)
    if plan:
        if name or again or resume:
            raise UserError("--plan is of a whole suite: leave out --name, --again and --resume")
        say_plan(system, suite, as_json)
        return
    if as_json:
        raise UserError("--json goes with --plan: iowatch show --json has a night")
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
        if suite == HOURLY:
            run_hour(wanted)
        channels = notices.channels(address, webhook)
        title = f"iowatch {system} {datetime.now(UTC):{DAY}}"
        try:
            night = nightly.run(wanted, report.write_page)
        except nightly.NothingDue as err:
            if not quiet:
                print(err)
            raise typer.Exit(0) from None
        except (UserError, session.Interrupted) as err:
            session.ignore_signals()
            post(channels, notices.Notice(f"{title}: not run", str(err), str(err)))
            typer.echo(f"iowatch: error: {err}", err=True)
            code = 128 + err.number if isinstance(err, session.Interrupted) else 2
            raise typer.Exit(code) from None
        told = night.document
        texts = tables.as_text(told), tables.as_message(told)
        posted = post(channels, notices.Notice(f"{title}: {told.headline.banner}", *texts))
        shown = print_night(told)
    code = 128 + night.signal if night.signal else int(told.colour == "red")
    code = code or (0 if posted and shown else 3)
    raise typer.Exit(code or (AMBER if told.colour == "amber" else 0))


def run_hour(wanted: Wanted) -> NoReturn:
    """Measure one hour, say what came of it, and exit."""
    from iowatch.night import hourly

    with interruptible():
        hour = hourly.run(wanted)
    for line in () if wanted.quiet else hour.lines:
        print(line)
    for problem in hour.problems:
        typer.echo(f"iowatch: error: {problem}", err=True)
    raise typer.Exit(128 + hour.signal if hour.signal else int(bool(hour.problems)))


def say_plan(system: str, suite: str, as_json: bool) -> None:
    """Print what a suite costs, and how long nights like it took. UserError."""
    from iowatch.base.documents import document
    from iowatch.cases.filesystem import ALL_SUITES
    from iowatch.cases.run import night_id
    from iowatch.night.announced import how_long
    from iowatch.pages import listings
    from iowatch.past import history
    from iowatch.past.cost import Cost, RunPlan, costs
    from iowatch.site.site import read_site

    if suite not in ALL_SUITES:
        raise UserError(f"--suite {suite}: there are {', '.join(ALL_SUITES)}")
    site, now = read_site(system), datetime.now(UTC)
    is_begun = site.database.is_file()
    runs = history.read([site.database], history.year_before(now)) if is_begun else []
    parts = costs(site, suite, runs)
    took = how_long(site.database, night_id(now), site.cases(suite))
    if as_json:
        total = sum(parts.values(), Cost())
        plan = RunPlan(system=system, suite=suite, partitions=parts, total=total, how_long=took)
        print(document(plan=plan))
    else:
        listings.show_costs(parts, took, screen())


def post(channels: Sequence[Outbox | Hook], notice: Notice) -> bool:
    """Send a notice wherever it is wanted; False, and a line for each, if that failed."""
    from iowatch.night import notices

    is_sent = True
    for channel in channels:
        try:
            channel.send(notice)
        except notices.NotSent as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            is_sent = False
    return is_sent


def print_night(night: NightDocument) -> bool:
    """Print the summary; False, and a line, if that failed, as on a full disk."""
    from iowatch.pages import tables

    try:
        width = None if sys.stdout and sys.stdout.isatty() else 100  # rich has 80 for files
        tables.show_night(night, screen(width=width))
        if sys.stdout:  # not closed
            sys.stdout.flush()
    except (OSError, SystemExit) as err:  # rich exits when nobody reads it
        why = err.strerror if isinstance(err, OSError) else "nobody reads it"
        say_not_written(f"the summary cannot be printed: {why}")
        return False
    return True


@app.command("blame")
def blame_command(
    case: str = argument(
        "Its id, or a part of it that no other case has.",
        metavar="CASE",
        autocompletion=completion.cases,
    ),
    rounds: int = option(
        "Number of rounds. In each of them every environment has its turn.", default=9
    ),
    as_json: AsJson = False,
) -> None:
    """Find the change that made a case slow.

    One job runs the case in turn with the environment of its last good night, with tonight's, and
    with each change between the two alone. Both environments are taken from the job scripts that
    are kept. The job belongs to no night.

    The exit code is 0 if the culprit is certain, 1 if it is not, 2 if nothing was run, and 130 or
    143 if it was interrupted.
    """
    from iowatch.base.documents import document
    from iowatch.night import blame as culprit
    from iowatch.pages import listings

    with interruptible():
        asked = culprit.ask(case, rounds)
        finding = culprit.blame(asked, lambda words: typer.echo(words, err=as_json))
    if as_json:
        print(document(blame=finding.document))
    else:
        listings.show_blame(finding.document, screen())
    raise typer.Exit(0 if finding.is_sure else 1)


@app.command("report")
def report_command(
    system: System = "",
    night: str = option(
        "The day (UTC) of its beginning, or its id. A run by hand has an id, too.",
        default="",
        show_default="the last",
        autocompletion=completion.nights,
    ),
    form: str = option("Form of the report: html, md, junit or json.", "--format", default="html"),
    public: bool = flag(
        "--public", "Write instead the page for users: no paths, hosts, cases or versions."
    ),
    file: Path | None = output(
        "File to write.", show_default="a page next to the database; other forms are printed"
    ),
    as_json: AsJson = False,
    db: Databases = None,
) -> None:
    """Report on a night: its verdicts, worst first, and what has changed since all was well.

    html is one page that needs no network; environments that measured the same cases stand on it
    side by side. md is for chat or mail, junit for a CI dashboard, and json for scripts.

    --public writes a status page for users: how each filesystem is that has a public_name, since
    when, and what that costs them. Its only texts are those that the site has written for users.

    The exit code is 0 if the report was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    from iowatch.pages import report

    whole_system(system)
    form = "json" if as_json else form
    if public:
        if night or form != "html":
            raise UserError("--public is of now: leave out --night and --format")
        from iowatch.night.public_status import read_status

        with progress("writing the status page"):
            name, files = the_system(system, db), databases(db)
            path = file or files[0].parent / f"status-{name}.html"
            print(report.write_status_page(read_status(name, files), path))
        return
    if form not in report.FORMATS:
        raise UserError(f"--format {form}: there are {', '.join(report.FORMATS)}")
    require_night(night)
    shown = read_night(the_system(system, db), night, db)
    with progress(f"writing the report on {counted(len(shown.cases), 'case')}"):
        if form == "html" and file is None:
            file = report.write_page(shown, databases(db)[0].parent)
        else:
            text = report.FORMATS[form](shown)
            if file is None:
                print(text, end="")
                return
            report.write(file, text)
    print(file)


def require_night(night: str) -> None:
    """UserError unless this is a day, the id of a night, or empty."""
    from iowatch.cases.run import day_of

    try:
        if night:
            day_of(night)
    except ValueError:
        raise UserError(f"{night}: no day such as 2026-11-22, and no id of a night") from None


def read_night(system: str, night: str, db: list[Path] | None) -> Night:
    """Read a night, the last one by default, or a session that was run by hand. UserError."""
    from iowatch.night import on_record

    with progress("reading the results database"):
        shown = on_record.read(system, databases(db), night)
    if shown.later:
        typer.echo(
            f"iowatch: a clock was wrong: night {shown.later} is dated later than now: ask for it "
            "by its id",
            err=True,
        )
    return shown


@app.command("pages")
def pages_command(
    folder: Path = argument("Folder for a web server.", metavar="DIR"),
    db: Databases = None,
) -> None:
    """Write the pages of all systems on record, with an index.html that shows the last nights of
    each. Run this after each night.
    """
    from iowatch.night.on_record import month, systems
    from iowatch.pages import report

    with progress("writing the pages of all systems"):
        files = databases(db)
        print(report.write_site((month(name, files) for name in systems(files)), folder))


@app.command("export")
def export_command(
    form: str = option(
        "Form of the export: prometheus or jsonl.", "--format", default="prometheus"
    ),
    file: Path | None = output("File to write.", show_default="printed"),
    system: Systems = None,
    since: Since = None,
    until: Until = None,
    db: Databases = None,
) -> None:
    """Write the last night of each system for the centre's own monitoring.

    prometheus is for the textfile collector of Prometheus' node exporter. jsonl has one JSON
    document for each run on a line of its own, for OpenSearch, Loki and the like; with --since or
    --until every run of these days, those by hand among them. `iowatch docs howto/monitoring`
    says what the names mean.

    For example, after each night: iowatch export --output /var/lib/node_exporter/iowatch.prom

    The exit code is 0 if the export was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    from iowatch.night import on_record
    from iowatch.pages import export, report

    if form not in export.FORMATS:
        raise UserError(f"--format {form}: there are {' and '.join(export.FORMATS)}")
    if (since or until) and form != "jsonl":
        raise UserError("--since goes with --format jsonl: Prometheus keeps the past itself")
    for name in system or []:
        whole_system(name)
    if since or until:
        every = selected(db, "", instant(since))
        if system:
            every = [run for name in system for run in of_system(name, every)]
        runs = [run for run in every if is_within(run.time.date(), since, until)]
        text = export.json_lines(runs)
    else:
        with progress("reading the results database"):
            names = systems_on_record(system, db)
            text = export.FORMATS[form]([on_record.read(name, databases(db)) for name in names])
    if file is None:
        print(text, end="")
    else:
        report.write(file, text)
