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

from iowatch import __version__, bless, history, report, tables
from iowatch.adopt import site_new, spack
from iowatch.detector.backtest import backtest
from iowatch.detector.settings import SETTINGS
from iowatch.files import UserError
from iowatch.importers import database as old_data
from iowatch.night import blame as culprit
from iowatch.night import mail, session
from iowatch.night import nightly as nights
from iowatch.night.gate import Night
from iowatch.paper import published
from iowatch.places import made, prepare, reference_folder, shell_lines
from iowatch.run import Run, by_case, day_of
from iowatch.site import ACCEPTANCE, NIGHTLY, read_site, results_database

DAY = "%Y-%m-%d"


class App(typer.Typer):
    """The command: if it cannot print, as on a full disk, that is an error of one line too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return super().__call__(*args, **kwargs)
            finally:
                if sys.stdout:  # not closed
                    sys.stdout.flush()
        except OSError as err:
            if err.filename is not None:  # of something else
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
    typer.Option("--db", help="ReFrame's database, may be repeated.", show_default="its own"),
]
ReferenceValues = Annotated[
    Path | None,
    typer.Option("--folder", help="Folder of SYSTEM.yaml.", show_default="the site's own"),
]
Matching = Annotated[
    str, typer.Option("--case", help="Only cases that match this regular expression.")
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
    """Guard the parallel I/O of an HPC centre: measure, verify, judge, report.

    A new site: iowatch site new, then iowatch nightly --record; iowatch bless once a case has 20
    good nights.

    Every night, from cron: iowatch nightly, and some hours later iowatch nightly --again. Each ends
    with the path of a page; iowatch report makes one of an earlier night.

    A procurement: iowatch nightly --sweep acceptance, then iowatch accept.

    Environment: IOWATCH_SITE_DIR names the folder of the site's own site_configs, reference_values
    and results; without it, they are in the checkout, or in the folder iowatch of your home.
    RFM_PREFIX names another folder of results, RFM_REFERENCE_PREFIX another one of reference
    values, and RFM_CONFIG_FILES further files of ReFrame's configuration.

    Exit code: 0 all is well, 1 something is red or refused, 2 a mistake in what was given, 3 what
    there is to say cannot be printed; each command says what else.
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
        str, typer.Option(help="System of site_configs/ to measure, or SYSTEM:PARTITION.")
    ],
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
        bool, typer.Option("--quiet", help="Print only the summary, and nothing while it runs.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Show ReFrame's own output instead of how far the night is."
        ),
    ] = False,
) -> None:
    """Run every check of a system and judge the night.

    Exit code: 0 green, 1 red, 2 not run (usage, site, or the last night is still at work), 3 green
    but the mail or the summary did not get out, 130 or 143 interrupted.
    """
    with session.interruptible():
        with one_line_errors():
            wanted = nights.Wanted(
                *(system, sweep, name or [], record, again, read_time_limit(time_limit)),
                quiet=quiet,
                verbose=verbose,
            )
            wanted.check()
            outbox = mail.outbox(address) if address else None
        title = f"iowatch {system} {datetime.now(UTC):{DAY}}"
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
        posted = post(outbox, f"{title}: {tables.in_brief(night)}", tables.as_text(night))
        shown = show(night)
    code = 128 + night.signal if night.signal else int(night.is_red)
    raise typer.Exit(code or (0 if posted and shown else 3))


def read_time_limit(text: str) -> timedelta:
    try:
        return nights.read_duration(text)
    except ValueError as err:
        raise UserError(f"--time-limit: {err}") from None


def post(outbox: mail.Outbox | None, subject: str, text: str) -> bool:
    """Send a mail if one is wanted; False, and a line, if that failed."""
    try:
        if outbox:
            outbox.send(subject, text)
    except mail.MailError as err:
        typer.echo(f"iowatch: error: {err}", err=True)
        return False
    return True


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
        str, typer.Argument(help="Case as the night names it, or a part that no other has.")
    ],
    rounds: Annotated[
        int, typer.Option(help="Rounds, in each of which every environment has its turn.")
    ] = culprit.ROUNDS,
) -> None:
    """Find the change that made a case slow: run it in one job with the environment of its last
    good night and with tonight's, in turn, and with each change alone.

    Both environments are those of the job scripts that are kept. It is no part of any night. Exit
    code: 0 it is certain, 1 it is not, 2 not run, 130 or 143 interrupted.
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
    system: Annotated[str, typer.Option(help="System to report on.")],
    night: Annotated[
        str,
        typer.Option(help="Day on which it began, UTC, or its id.", show_default="the last"),
    ] = "",
    session: Annotated[
        str,
        typer.Option(
            help="Instead of a night: UUID of a session that was run by hand, as `reframe "
            "--list-stored-sessions` has it.",
            show_default="none",
        ),
    ] = "",
    form: Annotated[
        str, typer.Option("--format", help=f"One of {', '.join(report.FORMATS)}.")
    ] = "html",
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write.", show_default="html next to the database, others printed"
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Report on a night: verdicts, worst first, and what has changed since all was well.

    html: one page that needs no network, environments that measured the same side by side. md: for
    chat or mail. junit: for a CI dashboard. Exit code: 0 written, whatever the verdicts; 2 wrong
    usage.
    """
    progress = Console(stderr=True)
    with one_line_errors():
        name, _, partition = system.partition(":")
        if partition:
            raise UserError(f"--system {system}: a night is the whole system's: give {name}")
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
        with progress.status(f"writing the report on {len(found.cases)} case(s)"):
            if form == "html" and output is None:
                output = report.write_page(found, databases[0].parent)
            else:
                text = report.FORMATS[form](found)
                if output is None:
                    print(text, end="")
                    return
                report.write(output, text)
    print(output)


@app.command("history", rich_help_panel=PAST)
def history_command(
    db: Databases = None,
    case: Matching = "",
    csv: Annotated[
        bool, typer.Option("--csv", help="The table that `iowatch backtest` reads, instead.")
    ] = False,
) -> None:
    """List the cases that were ever measured, and their nights."""
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
        list[Path], typer.Argument(help="Performance logs of ReFrame, outputs of EPCC's benchio.")
    ],
    to: Annotated[Path, typer.Option(help="Database to make: for --db of other commands.")],
    case: Annotated[
        str,
        typer.Option(
            help="Case id of a log that names none, {field} standing for that field of each line; "
            "SYSTEM:PARTITION/ENVIRON of an output."
        ),
    ] = "",
    metric: Annotated[str, typer.Option(help="The log's metric that is the bandwidth.")] = "",
    unit: Annotated[
        str, typer.Option(help="Its unit, such as GB/s.", show_default="the log's")
    ] = "",
    stripes: Annotated[
        list[str] | None,
        typer.Option(help="How benchio's folder is striped: unstriped=1x1 (MiB), scratch=none."),
    ] = None,
) -> None:
    """Make a results database of a centre's old data. Its runs have the verdict `imported`.

    An output of benchio does not say when it was made: it is the time of the file's last change,
    which touch -d sets. For example: iowatch import 2016/*.out --to old.db --case archer:fs3/cray
    --stripes unstriped=1x1 --stripes striped=-1x1
    """
    with one_line_errors():
        runs = old_data.read(files, case, metric, unit, stripes or [])
        old_data.write(runs, to)
    print(f"{to}: {old_data.summary(runs)}")


@app.command("bless", rich_help_panel=PAST)
def bless_command(
    system: Annotated[
        str, typer.Option(help="System whose cases are blessed, or SYSTEM:PARTITION.")
    ],
    why: Annotated[str, typer.Option(help="Why these nights are good, for readers of the diff.")],
    case: Matching = "",
    count: Annotated[int, typer.Option("--nights", min=1, help="Of the last so many nights.")] = 30,
    first: Annotated[
        datetime | None, typer.Option("--from", formats=[DAY], help="First day.")
    ] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=[DAY], help="Last day.")] = None,
    who: Annotated[str, typer.Option(help="Who says so.", show_default="you")] = "",
    db: Databases = None,
    folder: ReferenceValues = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Make good nights the baseline: 0 all cases blessed, 1 some refused, 2 wrong usage."""
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
    file: Annotated[Path, typer.Argument(help="CSV of runs or nights; see docs/detector.md.")],
    bless_nights: Annotated[int, typer.Option("--bless-nights", help="Nights of a baseline.")] = 30,
    rules: Annotated[str, typer.Option(help=f"One of {', '.join(SETTINGS)}.")] = "normal",
) -> None:
    """Replay a table of past nights through the detector: 0 no alarm, 1 alarms, 2 wrong usage."""
    with one_line_errors():
        if rules not in SETTINGS:
            raise UserError(f"--rules {rules}: there are {', '.join(SETTINGS)}")
        result = backtest(file, bless_nights, SETTINGS[rules])
    for row in result.rows:
        print(row.json())
    typer.echo(result.summary, err=True)
    raise typer.Exit(1 if result.alarms else 0)


@app.command("accept", rich_help_panel=TESTS_AND_PAPER)
def accept_command(
    file: Annotated[
        Path, typer.Argument(metavar="CONTRACT", help="YAML of the contractual criteria.")
    ],
    session: Annotated[
        list[str] | None,
        typer.Option(
            help="UUID of an acceptance session (`reframe --list-stored-sessions`), may be "
            "repeated: their repetitions add up.",
            show_default="the last one",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(help=".html or .pdf, may be repeated.", show_default="dossier.html, .pdf"),
    ] = None,
    db: Databases = None,
) -> None:
    """Judge an acceptance run by a contract, and write the dossier.

    Exit code: 0 all criteria pass, 1 not all, 2 no dossier was written.
    """
    outputs = output or [Path("dossier.html"), Path("dossier.pdf")]
    with one_line_errors(), needs_extra("report"):
        from iowatch.acceptance import certify, contract, dossier, evidence

        if wrong := [path for path in outputs if path.suffix not in dossier.FORMATS]:
            raise UserError(f"--output {wrong[0]}: is neither .html nor .pdf")
        agreed = contract.read(file)
        site = read_site(agreed.system)
        databases = db or [site.database]
        used, unused = evidence.acceptance_sessions(databases, agreed.system, session or [])
        found = evidence.collect(used, site.filesystems, unused)
        findings = certify.certify(agreed, found, site.cases(ACCEPTANCE), site.filesystems)
        for line in dossier.summary(agreed, findings):
            print(line)
        peaks = {place.name: place.peak for place in site.filesystems}
        dossier.write(dossier.render(agreed, findings, found, peaks), outputs)
        for path in outputs:
            print(f"written: {path}")
    raise typer.Exit(0 if dossier.overall(findings) == certify.PASS else 1)


@app.command("figures", rich_help_panel=TESTS_AND_PAPER)
def figures_command(
    system: Annotated[
        str,
        typer.Option(
            help="Overlay the own results of this system, or SYSTEM:PARTITION.", show_default="none"
        ),
    ] = "",
    table: Annotated[
        str, typer.Option(help="Print this table, 1 to 21, and draw nothing.", show_default="none")
    ] = "",
    output: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("figures"),
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
    """Adopt a site."""


@site_app.command("new")
def site_new_command(
    name: Annotated[str, typer.Argument(help="The new system, such as archer.")],
    path: Annotated[
        list[Path] | None,
        typer.Option(help="Directory to measure, may be repeated.", show_default="what is found"),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the file is written.", show_default="the site's own"),
    ] = None,
) -> None:
    """Look at this machine, a centre's login node, and write site_configs/NAME.py."""
    with one_line_errors():
        adopted = site_new.new_site(name, path or [], folder)
    site_new.show(adopted, Console(width=100, highlight=False))


@site_app.command("environs")
def site_environs_command(
    environment: Annotated[
        str, typer.Option("--from-spack", metavar="ENV", help="Spack environment, name or folder.")
    ],
    system: Annotated[str, typer.Option(help="System of site_configs/ that is to run them.")],
) -> None:
    """Print an environment of ReFrame for each benchio that Spack has installed in ENV.

    They belong into `environments` of site_configs/SYSTEM.py, and their names into `environs` of
    each partition that is to compare them. They need no Spack to run.
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
