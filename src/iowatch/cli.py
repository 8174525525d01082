"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

import getpass
import io
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from iowatch import __version__, bless, export, history, report, tables
from iowatch.adopt import site_new, spack
from iowatch.detector.backtest import backtest
from iowatch.detector.settings import SETTINGS
from iowatch.files import UserError, counted
from iowatch.importers import database as old_data
from iowatch.night import blame as culprit
from iowatch.night import nightly as nights
from iowatch.night import notices, session
from iowatch.night.gate import Night
from iowatch.paper import published
from iowatch.places import made, prepare, reference_folder, shell_lines
from iowatch.run import Run, by_case, day_of
from iowatch.site import NIGHTLY, results_database

DAY = "%Y-%m-%d"
AMBER = 4  # the exit code of a night of which not all is known


class Output(io.TextIOWrapper):
    """Standard output, whose errors name it: of any other file Python may say no name either."""

    NAME = "<stdout>"

    @classmethod
    def of(cls, stream: Any) -> Output:
        """One that writes where this one does, and as it does."""
        lines, through = stream.line_buffering, stream.write_through
        return cls(stream.buffer, stream.encoding, stream.errors, None, lines, through)

    def write(self, text: str, /) -> int:
        with self._telling():
            return super().write(text)

    def flush(self) -> None:
        with self._telling():
            super().flush()

    @staticmethod
    @contextmanager
    def _telling() -> Iterator[None]:
        try:
            yield
        except OSError as err:
            err.filename = Output.NAME
            raise


class App(typer.Typer):
    """The command: if it cannot print, as on a full disk, that is an error of one line too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if sys.stdout:  # not closed
            sys.stdout = Output.of(sys.stdout)
        try:
            try:
                return super().__call__(*args, **kwargs)
            finally:
                if sys.stdout:
                    sys.stdout.flush()
        except OSError as err:
            if err.filename != Output.NAME:
                raise
            say_not_printed("what there is to say", err.strerror)
            ended = err.__context__
            raise SystemExit(ended.code or 3 if isinstance(ended, SystemExit) else 3) from None


def say_not_printed(what: str, why: str | None) -> None:
    """A line, and nothing more is tried, or Python would at its end."""
    with suppress(OSError):
        typer.echo(f"iowatch: error: {what} cannot be printed: {why}", err=True)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = App(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of every command
    rich_markup_mode="markdown",  # which fills paragraphs
)
EVERY_NIGHT, PAST = "Every night", "The past"
TESTS_AND_PAPER = "Acceptance, and the white paper"
SITES = "Sites"

Databases = Annotated[
    list[Path] | None,
    typer.Option(
        "--db",
        help="Results database of ReFrame to read. May be repeated.",
        show_default="the one in RFM_PREFIX",
    ),
]
ReferenceValues = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Folder that holds the reference values of each system, SYSTEM.yaml.",
        show_default="the site's own",
    ),
]
Matching = Annotated[
    str, typer.Option("--case", help="Take only the cases that match this regular expression.")
]


def say_version(wanted: bool) -> None:
    if wanted:
        print(f"iowatch {__version__}")
        raise typer.Exit


@app.callback()
def iowatch(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=say_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Guard the parallel I/O of an HPC centre: measure it, verify it, judge it and report on it.

    A case is one check with its parameters, such as writing a shared file through HDF5, on one
    filesystem. A sweep is the list of cases that a site measures: one for every night, one for an
    acceptance test. A baseline is what good nights say of a case; to bless nights is to declare
    that they are good.

    To adopt a new site, run iowatch site new, and then iowatch nightly --record for the first
    nights. Once a case has 20 good nights, iowatch bless makes them its baseline.

    Every night, let cron start iowatch nightly, and iowatch nightly --again some hours later. Each
    ends by naming a page to look at. To make the page of an earlier night, run iowatch report.

    For a procurement, run iowatch nightly --sweep acceptance, and then iowatch accept.

    Environment variables: IOWATCH_SITE_DIR names the folder of the site's own site_configs,
    reference_values and results; without it, they are in the checkout, or in the folder iowatch of
    your home. RFM_PREFIX names another folder for results, RFM_REFERENCE_PREFIX another one of
    reference values, and RFM_CONFIG_FILES further files of ReFrame's configuration.

    Every command exits with 0 if all is well, with 1 if something is red or refused, with 2 if what
    it was given is wrong, and with 3 if it cannot print what it has to say. The help of a command
    lists its other exit codes.
    """
    for number in range(3):  # one that is closed would be the next file that is opened
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    with one_line_errors():
        prepare()


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A user's mistake is one line and exit code 2."""
    try:
        yield
    except UserError as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """What the block imports belongs to one of the package's extras."""
    try:
        yield
    except ModuleNotFoundError as err:
        raise UserError(
            f"{err.name} is missing: pip install {err.name}, or iowatch with its extra {extra!r}"
        ) from None


def selected(db: list[Path] | None, case: str, since: datetime | None = None) -> list[Run]:
    """The history of the cases that match."""
    try:
        matches = re.compile(case).search
    except re.error as err:
        raise UserError(f"--case {case}: no regular expression: {err}") from None
    with Console(stderr=True).status("reading the results database"):
        runs = history.read(db or [results_database()], since)
    return [run for run in runs if matches(str(run.case))]


def is_of(system: str, run: Run) -> bool:
    """Is a run one of a system, or of one of its partitions (`archer:fs3`)?"""
    name, _, partition = system.partition(":")
    return run.case.system == name and partition in ("", run.case.partition)


def of_system(system: str, runs: Sequence[Run]) -> list[Run]:
    """The runs of a system or of one of its partitions.

    UserError if there are none: a name that is misspelt must not look like a system without
    results.
    """
    found = [run for run in runs if is_of(system, run)]
    if not found:
        name = system.partition(":")[0]
        known = [run for run in runs if is_of(name, run)]
        other = {f"{name}:{run.case.partition}" for run in known}
        other |= set() if known else {run.case.system for run in runs}
        only = f", only of {', '.join(sorted(other))}" if other else ""
        raise UserError(f"--system {system}: nothing is on record of it{only}")
    return found


@app.command("nightly", rich_help_panel=EVERY_NIGHT)
def nightly_command(
    system: Annotated[
        str,
        typer.Option(
            help="System to measure, as in site_configs/, or one partition of it, SYSTEM:PARTITION."
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(
            "-n",
            "--name",
            help="Run only the checks that match this, as ReFrame's -n does. May be repeated.",
        ),
    ] = None,
    sweep: Annotated[
        str, typer.Option(help="List of cases to measure: nightly or acceptance.")
    ] = NIGHTLY,
    record: Annotated[
        bool, typer.Option("--record", help="Leave cases green that have no reference value yet.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Run only those suspicious cases of the last night that are due to run again.",
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the last night, if iowatch and ReFrame were killed in it: take up the "
            "jobs that they have left, and run the cases that had none.",
        ),
    ] = False,
    time_limit: Annotated[
        str, typer.Option(help="Time that the whole night may take, such as 90m or 6h.")
    ] = "20h",
    address: Annotated[
        str | None,
        typer.Option("--mail", metavar="ADDRESS", help="Send the summary to this address as well."),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar=notices.WEBHOOK,
            help="Post the summary in brief to this incoming webhook of a chat, such as Slack or "
            "Mattermost. The URL is a secret: rather give it in the environment.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the summary, and nothing while it runs.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Show ReFrame's own output instead of how far the night is."
        ),
    ] = False,
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- OPTIONS]",
            help="Options of ReFrame's for every session, after a `--`, such as "
            "`-- -J reservation=NAME`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run every check that a system's configuration promises, and judge the night.

    The exit code is 0 if the night is green, 1 if it is red, 2 if it did not run (because of a
    mistake in the command or the site's file, or because the last night is still at work), 3 if it
    is not red but the summary could not be printed or sent, 4 if it is amber (nothing is red, but
    some cases were not measured, for a reason that is known), and 130 or 143 if it was interrupted.
    """
    with session.interruptible():
        with one_line_errors():
            wanted = nights.Wanted(
                *(system, sweep, name or [], record, again, read_time_limit(time_limit)),
                quiet=quiet,
                verbose=verbose,
                resume=resume,
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
        said = tables.as_text(night), tables.as_message(night)
        posted = post(channels, notices.Notice(f"{title}: {tables.in_brief(night)}", *said))
        shown = show(night)
    code = 128 + night.signal if night.signal else int(night.is_red)
    code = code or (0 if posted and shown else 3)
    raise typer.Exit(code or (AMBER if night.amber else 0))


def read_time_limit(text: str) -> timedelta:
    try:
        return nights.read_duration(text)
    except ValueError as err:
        raise UserError(f"--time-limit: {err}") from None


def post(channels: Sequence[notices.Channel], notice: notices.Notice) -> bool:
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
        say_not_printed("the summary", why)
        return False
    return True


@app.command("blame", rich_help_panel=EVERY_NIGHT)
def blame_command(
    case: Annotated[
        str,
        typer.Argument(
            help="The case as the night names it, or a part of its name that no other case has."
        ),
    ],
    rounds: Annotated[
        int, typer.Option(help="Number of rounds. In each of them every environment has its turn.")
    ] = culprit.ROUNDS,
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
            with one_line_errors():
                asked = culprit.ask(case, rounds)
                finding = culprit.blame(asked, lambda said: print(said, flush=True))
        except session.Interrupted as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            raise typer.Exit(128 + err.number) from None
    tables.show_blame(finding, Console(highlight=False))
    raise typer.Exit(0 if finding.is_sure else 1)


@app.command("report", rich_help_panel=EVERY_NIGHT)
def report_command(
    system: Annotated[str, typer.Option(help="System to report on.", show_default="none")] = "",
    night: Annotated[
        str,
        typer.Option(
            help="The night: the day (UTC) on which it began, or its id.", show_default="the last"
        ),
    ] = "",
    session: Annotated[
        str,
        typer.Option(
            help="Report on a session that was run by hand instead of on a night: its UUID, which "
            "iowatch history names.",
            show_default="none",
        ),
    ] = "",
    form: Annotated[
        str, typer.Option("--format", help=f"Form of the report: {', '.join(report.FORMATS)}.")
    ] = "html",
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write.",
            show_default="a page next to the database; md and junit are printed",
        ),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead of one report, write the pages of all systems on record into this "
            "folder, with an index.html that shows the last nights of each.",
            show_default="none",
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Report on a night: its verdicts, worst first, and what has changed since all was well.

    html is one page that needs no network; environments that measured the same cases stand on it
    side by side. md is for chat or mail, and junit for a CI dashboard.

    With --site, a web server can show the folder as it is: run this after each night.

    The exit code is 0 if the report was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    progress = Console(stderr=True)
    with one_line_errors():
        if site:
            if system or night or session or output or form != "html":
                raise UserError("--site is of all systems: only --db goes with it")
            with progress.status("writing the pages of all systems"):
                index = report.write_site(db or [results_database()], site)
            print(index)
            return
        if not system:
            raise UserError("name a --system, or a folder for the pages of all of them as --site")
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
            found = report.read(system, databases, night, session)
        if found.later:
            typer.echo(
                f"iowatch: a clock was wrong: night {found.later} is dated later than now: --night "
                "shows it",
                err=True,
            )
        with progress.status(f"writing the report on {counted(len(found.cases), 'case')}"):
            if form == "html" and output is None:
                output = report.write_page(found, databases[0].parent)
            else:
                text = report.FORMATS[form](found)
                if output is None:
                    print(text, end="")
                    return
                report.write(output, text)
    print(output)


def whole_system(system: str) -> None:
    """UserError if that is a partition."""
    name, _, partition = system.partition(":")
    if partition:
        raise UserError(f"--system {system}: a night is the whole system's: give {name}")


@app.command("export", rich_help_panel=EVERY_NIGHT)
def export_command(
    form: Annotated[
        str, typer.Option("--format", help=f"Form of the export: {', '.join(export.FORMATS)}.")
    ] = "prometheus",
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write, whole or not at all, over what is there.",
            show_default="printed",
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(help="System to export. May be repeated.", show_default="all on record"),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=[DAY],
            help="With jsonl: every run from this day (UTC) on, those by hand among them.",
            show_default="the last night",
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Write the last night of each system for the centre's own monitoring.

    prometheus is for the textfile collector of Prometheus' node exporter. jsonl has one JSON
    document for each run on a line of its own, for OpenSearch, Loki and the like. What the names
    mean stands in docs/monitoring.md.

    For example, after each night: iowatch export --to /var/lib/node_exporter/iowatch.prom

    The exit code is 0 if the export was written, whatever the verdicts, and 2 if the command or
    what it names is wrong.
    """
    with one_line_errors():
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
        if to is None:
            print(text, end="")
        else:
            report.write(to, text)


@app.command("history", rich_help_panel=PAST)
def history_command(
    db: Databases = None,
    case: Matching = "",
    csv: Annotated[
        bool, typer.Option("--csv", help="Print instead the table that `iowatch backtest` reads.")
    ] = False,
) -> None:
    """List every case that was ever measured, with its nights."""
    with one_line_errors():
        runs = selected(db, case)
        if not csv:
            tables.show_history(runs, Console(highlight=False))
            return
        text = io.StringIO()
        if not tables.write_table(runs, text):
            raise UserError("no valid run in the results database matches")
    print(text.getvalue(), end="")


@app.command("import", rich_help_panel=PAST)
def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="Performance logs of ReFrame, or outputs of EPCC's benchio."),
    ],
    to: Annotated[
        Path, typer.Option(help="Database to make, which other commands read with --db.")
    ],
    case: Annotated[
        str,
        typer.Option(
            help="Of a log whose lines name no case: the case's id, in which {field} stands for "
            "that field of each line. Of an output of benchio: SYSTEM:PARTITION/ENVIRON."
        ),
    ] = "",
    metric: Annotated[
        str, typer.Option(help="Name of the metric in the log that is the bandwidth.")
    ] = "",
    unit: Annotated[
        str,
        typer.Option(help="Unit of that metric, such as GB/s.", show_default="what the log says"),
    ] = "",
    stripes: Annotated[
        list[str] | None,
        typer.Option(
            help="Stripes of a folder that benchio wrote to, FOLDER=COUNTxMIB, such as "
            "striped=-1x1, or scratch=none for a filesystem without stripes. May be repeated."
        ),
    ] = None,
) -> None:
    """Make a results database of a centre's old data.

    Its runs have the verdict `imported`, because nobody verified them. An output of benchio does
    not say when it was made: the time of the file's last change is taken, which touch -d can set.

    For example: iowatch import 2016/*.out --to old.db --case archer:fs3/cray --stripes
    unstriped=1x1 --stripes striped=-1x1
    """
    with one_line_errors():
        runs = old_data.read(files, case, metric, unit, stripes or [])
        old_data.write(runs, to)
    print(f"{to}: {old_data.summary(runs)}")


@app.command("bless", rich_help_panel=PAST)
def bless_command(
    system: Annotated[
        str,
        typer.Option(
            help="System whose cases are blessed, or one partition of it, SYSTEM:PARTITION."
        ),
    ],
    why: Annotated[
        str, typer.Option(help="Why these nights are good, for whoever reviews the baseline.")
    ],
    case: Matching = "",
    count: Annotated[
        int, typer.Option("--nights", min=1, help="How many of the last nights to take.")
    ] = 30,
    first: Annotated[
        datetime | None,
        typer.Option("--from", formats=[DAY], help="First day to take nights from."),
    ] = None,
    last: Annotated[
        datetime | None, typer.Option("--to", formats=[DAY], help="Last day to take nights from.")
    ] = None,
    who: Annotated[str, typer.Option(help="Who says that they are good.", show_default="you")] = "",
    db: Databases = None,
    folder: ReferenceValues = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be blessed, and write nothing.")
    ] = False,
) -> None:
    """Declare that past nights were good: from now on each case is judged by them.

    What they say of a case is its baseline. It is written to baselines/SYSTEM.yaml in the folder of
    reference values, a change for somebody to review and commit. A case whose nights cannot serve,
    because they are too few or because its level changes among them, is refused with the reason.

    The exit code is 0 if all cases were blessed, 1 if some were refused, and 2 if nothing could be
    done.
    """
    with one_line_errors():
        if not why.strip():
            raise UserError("--why is empty: say why these nights are good")
        # A night of the future, by a wrong clock, would be the last that is blessed: none to come
        # would be judged.
        now = datetime.now(UTC)
        since = history.year_before((first or last or now).replace(tzinfo=UTC))
        runs = selected(db, case, since)
        # Of a check without metrics there is nothing to bless.
        cases = by_case(
            run for run in runs if is_of(system, run) and not run.is_after(now) and run.case.metrics
        )
        if not cases:
            raise UserError(
                f"no case of {system} in the results database matches since {since:{DAY}}: --to "
                "names older nights"
            )
        who = who or f"{getpass.getuser()}@{socket.gethostname()}"
        days = _day(first), _day(last)
        name = system.partition(":")[0]
        folder = folder or reference_folder()
        blessing = bless.bless(name, folder, cases, count, *days, who, why, dry_run)
    tables.show_blessing(blessing, Console(highlight=False))
    raise typer.Exit(1 if blessing.refused else 0)


def _day(time: datetime | None) -> date | None:
    return time.date() if time else None


@app.command("backtest", rich_help_panel=PAST)
def backtest_command(
    file: Annotated[
        Path, typer.Argument(help="CSV of runs or nights, as `iowatch history --csv` prints it.")
    ],
    bless_nights: Annotated[
        int, typer.Option("--bless-nights", help="How many nights make a baseline.")
    ] = 30,
    rules: Annotated[
        str, typer.Option(help=f"How readily there is an alarm: {', '.join(SETTINGS)}.")
    ] = "normal",
) -> None:
    """Tell what iowatch would have said of past nights.

    The table is replayed, night by night, through the rules that judge a case by its own past, and
    a filesystem by that of its cases; docs/detector.md has the rules and the table's columns.

    The exit code is 0 if there was no alarm, 1 if there were any, and 2 if the file cannot be used.
    """
    with one_line_errors():
        if rules not in SETTINGS:
            raise UserError(f"--rules {rules}: there are {', '.join(SETTINGS)}")
        results = [r for r in backtest(file, bless_nights, SETTINGS[rules]) if r.cases]
    for result in results:
        for row in result.rows:
            print(row.json())
        typer.echo(result.summary, err=True)
    raise typer.Exit(1 if any(result.alarms for result in results) else 0)


@app.command("accept", rich_help_panel=TESTS_AND_PAPER)
def accept_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CONTRACT",
            help="YAML file of what was agreed; docs/acceptance.md has its form. With --verify, "
            "the bundle of an acceptance test.",
        ),
    ],
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Say what the test will cost, and what it will be able to show. Nothing is run.",
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Judge a bundle again, by what is in it alone: no site, database or network.",
        ),
    ] = False,
    exclusions: Annotated[
        Path | None,
        typer.Option(help="YAML file of sessions that both sides exclude.", show_default="none"),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--sign",
            metavar="KEY",
            help="Sign the evidence with this file of an SSH key, or with gpg:NAME. May be "
            "repeated; with --verify, a signature is added.",
            show_default="nobody signs",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            help="With --verify: file of the keys that are known, as in ssh-keygen's ALLOWED "
            "SIGNERS. Whoever has signed must be in it.",
            show_default="any key may sign",
        ),
    ] = None,
    bundle: Annotated[
        Path, typer.Option(help="File to write the evidence to, one archive.")
    ] = Path("evidence.tar"),
    output: Annotated[
        list[Path] | None,
        typer.Option(
            help="File to write the dossier to, .html or .pdf. May be repeated.",
            show_default="dossier.html and dossier.pdf; none with --verify",
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Judge an acceptance test by its contract: write the evidence and the dossier.

    Which sessions count is a matter of the contract's rules. The evidence is one archive with
    everything that the verdicts rest on. Whoever has it and iowatch comes to the same verdicts with
    --verify, and sees whether a byte of it was changed.

    The exit code is 0 if all criteria pass, 1 if not all of them do or if the verdicts on a bundle
    are not those that its maker was told, and 2 if nothing was judged, such as a bundle that was
    changed. With --plan it is 0 if the test can decide every criterion, and else 1.
    """
    from iowatch.acceptance import accept, certify, dossier

    default = [] if verify else [Path("dossier.html"), Path("dossier.pdf")]
    outputs = output or default
    with one_line_errors():
        if plan and verify:
            raise UserError("--plan and --verify exclude each other: leave one of them out")
        if plan:
            raise typer.Exit(0 if accept.plan(file, db or [], print) else 1)
        if wrong := [path for path in outputs if path.suffix not in dossier.FORMATS]:
            raise UserError(f"--output {wrong[0]}: is neither .html nor .pdf")
        if verify:
            judged, is_same = accept.verify(file, signers, key or [], outputs, print)
        else:
            judged = accept.accept(file, exclusions, db or [], key or [], bundle, outputs, print)
            is_same = True
        for path in [*outputs, *([] if verify and not key else [file if verify else bundle])]:
            print(f"written: {path}")
    raise typer.Exit(0 if is_same and judged.overall == certify.PASS else 1)


@app.command("figures", rich_help_panel=TESTS_AND_PAPER)
def figures_command(
    system: Annotated[
        str,
        typer.Option(
            help="Draw the results of this system, or of SYSTEM:PARTITION, on the figures as well.",
            show_default="none",
        ),
    ] = "",
    table: Annotated[
        str,
        typer.Option(
            help="Print this table of the paper, 1 to 21, and draw nothing.", show_default="none"
        ),
    ] = "",
    output: Annotated[Path, typer.Option(help="Folder that the figures are written to.")] = Path(
        "figures"
    ),
    db: Databases = None,
) -> None:
    """Draw Figures 4 to 21 of the white paper as SVG and PNG, or print one of its tables."""
    from iowatch.paper import figures

    with one_line_errors():
        runs = of_system(system, selected(db, "")) if system else []
        if table:
            tables.show_table(figures.of_table(table), runs, Console(highlight=False))
            return
        with needs_extra("report"):
            from iowatch.paper import drawings
        own = {figure: figures.own(figure, runs) for figure in figures.FIGURES}
        for path in drawings.draw_all(own, output):
            print(path)
        if system:
            numbers = ", ".join(str(figure.number) for figure, series in own.items() if series)
            where = f"on figures {numbers}" if numbers else "on no figure: they show no such cases"
            typer.echo(f"results of {system} are {where}", err=True)


@app.command("references", rich_help_panel=TESTS_AND_PAPER)
def references_command(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: ReferenceValues = None,
) -> None:
    """Write a system's reference values from the published tables."""
    with one_line_errors():
        print(published.write_references(system, folder or made(reference_folder())))


site_app = typer.Typer(no_args_is_help=True)


@site_app.callback()
def site_commands() -> None:
    """Adopt a site: make a configuration for it."""


@site_app.command("new")
def site_new_command(
    name: Annotated[str, typer.Argument(help="Name of the new system, such as archer.")],
    path: Annotated[
        list[Path] | None,
        typer.Option(
            help="Directory to measure in. May be repeated.", show_default="what is found"
        ),
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            metavar="GBIT/S",
            help="What the links of a compute node carry together, in Gbit/s. A result above it "
            "came from a cache.",
            show_default="what this machine's carry",
        ),
    ] = None,
) -> None:
    """Look around on this machine, a centre's login node, and write a configuration for the site.

    It is site_configs/NAME.py in the site's own folder, which IOWATCH_SITE_DIR names: a draft that
    says, for each partition and filesystem that was found, what is to be measured. Read it through
    before the first night.
    """
    with one_line_errors():
        adopted = site_new.new_site(name, path or [], link)
    site_new.show(adopted, Console(width=100, highlight=False))


@site_app.command("environs")
def site_environs_command(
    environment: Annotated[
        str,
        typer.Option(
            "--from-spack", metavar="ENV", help="Name or folder of the Spack environment."
        ),
    ],
    system: Annotated[str, typer.Option(help="System of site_configs/ that is to run it.")],
) -> None:
    """Print an environment for ReFrame for each benchio that Spack has installed in ENV.

    Paste what is printed into `environments` of site_configs/SYSTEM.py, and the names into
    `environs` of each partition that is to compare them. Running them needs no Spack.
    """
    with one_line_errors():
        print(spack.environs(environment, system))


app.add_typer(site_app, name="site", rich_help_panel=SITES)


@app.command("env", rich_help_panel=SITES)
def env_command() -> None:
    """Print what a shell needs to use ReFrame itself: eval "$(iowatch env)".

    Then reframe -c "$IOWATCH_CHECKS" -l --system local lists the checks of a system. In a checkout,
    source env.sh does the same.
    """
    print(shell_lines())
