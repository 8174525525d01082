"""The command itself, and what several of its commands share.

A help and a completion come at once: each command imports what it needs when it runs.
"""

from __future__ import annotations

import errno
import getpass
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from iowatch.base.files import UserError
from iowatch.cli import completion

if TYPE_CHECKING:
    from rich.console import Console

    from iowatch.cases.run import Run

Function = TypeVar("Function", bound=Callable[..., Any])

#: All commands, in the order in which one comes to need them.
COMMANDS = {
    "Every night": "run status nights show ack event report blame pages export",
    "The past": "history bless backtest",
    "Sites": "site suite env docs",
    "Changes and acceptance": "compare accept",
}

DAY, DATE = "%Y-%m-%d", "YYYY-MM-DD"
MINUTE = "%Y-%m-%dT%H:%M"
MOST_WORDS = 1000  # characters of a sentence in a list of commands: all of it
#: The URL of the chat's incoming webhook. Whoever knows the URL can write to the chat.
WEBHOOK = "IOWATCH_WEBHOOK"


def main() -> None:
    """Run the command. A disk that is full, as of standard output, is one line and exit code 3."""
    if completion.is_asked():
        completion.answer(lambda: app(prog_name="iowatch"))
        return
    try:
        try:
            app(prog_name="iowatch")
        finally:
            if sys.stdout:  # not closed
                sys.stdout.flush()
    except OSError as err:
        if err.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        say_not_written(f"no room is left for {err.filename or 'what is printed'}: {err.strerror}")
        ended = err.__context__
        raise SystemExit(ended.code or 3 if isinstance(ended, SystemExit) else 3) from None


def say_not_written(why: str) -> None:
    """Print why in a line, and let nothing more be tried, as Python would at its end."""
    with suppress(OSError):
        typer.echo(f"iowatch: error: {why}", err=True)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _quick(parameters: list[Any]) -> list[Any]:
    """Let typer load pydantic, slowly, for no flag, for nothing that is a text already, and for
    nothing that nobody has given."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.default is None:
            parameter.default = False
        if "process_value" not in vars(parameter):
            parameter.process_value = partial(_processed, parameter, parameter.process_value)
    return parameters


def _processed(parameter: Any, usual: Callable[..., Any], ctx: Any, value: Any) -> Any:
    is_text = isinstance(value, str) and isinstance(parameter.default, str)
    is_left = value is None and not parameter.required
    if parameter.callback or not (is_text or is_left):
        return usual(ctx, value)
    return () if is_left and parameter.multiple else value


class QuickCommand(TyperCommand):
    """A command that begins at once."""

    def get_params(self, ctx: Any) -> Any:
        return _quick(super().get_params(ctx))


class QuickTyper(typer.Typer):
    """A group of such commands."""

    def command(self, *args: Any, **more: Any) -> Callable[[Function], Function]:
        return super().command(*args, cls=QuickCommand, **more)


class QuickGroup(TyperGroup):
    """Commands whose help comes at once."""

    def get_params(self, ctx: Any) -> Any:
        return _quick(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.list_in(formatter, "Commands", self.commands)

    def list_in(self, formatter: Any, title: str, names: Iterable[str]) -> None:
        """List commands below a title, each with its whole first sentence."""
        with formatter.section(title):
            shown = [(name, self.commands[name].get_short_help_str(MOST_WORDS)) for name in names]
            formatter.write_dl(shown)


class Commands(QuickGroup):
    """All commands: a user's mistake in one is a line and exit code 2."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in COMMANDS.items():
            self.list_in(formatter, title, names.split())

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            raise typer.Exit(2) from None


def commands(cls: type[TyperGroup] = QuickGroup, **more: Any) -> QuickTyper:
    """Make a group of commands, whose help is plain text: to load rich takes as long again."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}  # of all in it
    return QuickTyper(
        cls=cls,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=settings,
        rich_markup_mode=None,
        **more,
    )


app = commands(Commands)

Databases = Annotated[
    list[Path] | None,
    typer.Option(
        "--db",
        metavar="FILE",
        help="Results database of ReFrame to read. May be repeated.",
        show_default="the one in RFM_PREFIX",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--sign",
        metavar="KEY",
        help="Sign the evidence with this file of an SSH key. May be repeated.",
        show_default="nobody signs",
    ),
]
ReferenceValues = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="Folder that holds the reference values of each system, SYSTEM.yaml.",
        show_default="the site's own",
    ),
]
Matching = Annotated[
    str,
    typer.Option(
        "--case", metavar="REGEX", help="Take only the cases that match this regular expression."
    ),
]
System = Annotated[
    str,
    typer.Option(
        "--system",
        metavar="SYSTEM",
        help="System, or where a part is enough one of its partitions, SYSTEM:PARTITION.",
        envvar=completion.SYSTEM,
        show_default="the only one",
        autocompletion=completion.systems,
    ),
]
Systems = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="SYSTEM",
        help="Take only this system. May be repeated.",
        envvar=completion.SYSTEM,
        show_default="all on record",
        autocompletion=completion.systems,
    ),
]


def day(text: str) -> datetime:
    """Read a day that an option names."""
    try:
        return datetime.strptime(text, DAY)
    except ValueError:
        raise typer.BadParameter(f"{text}: no day such as 2026-11-22") from None


Since = Annotated[
    datetime | None,
    typer.Option(
        "--since", metavar=DATE, parser=day, help="The first day (UTC).", show_default=False
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        "--until", metavar=DATE, parser=day, help="The last day (UTC).", show_default=False
    ),
]
Address = Annotated[
    str | None, typer.Option("--mail", metavar="ADDRESS", help="Mail the summary there, too.")
]
Webhook = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar=WEBHOOK,
        help="Post the summary in brief to this incoming webhook of a chat, such as Slack or "
        "Mattermost. The URL is a secret: rather give it in the environment.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, as iowatch.output-1.schema.json of the package says."),
]


def option(words: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Declare an option of a command, by its help; `...` is the default of one that is required."""
    return typer.Option(default, *names, help=words, **more)


def output(words: str, default: Any = None, **more: Any) -> Any:
    """Declare the option that names what is written."""
    return option(words, "-o", "--output", default=default, **more)


def flag(name: str, words: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(False, name, help=words)


def argument(words: str, default: Any = ..., **more: Any) -> Any:
    """Declare an argument of a command, which is required unless it has a default."""
    return typer.Argument(default, help=words, **more)


def say_version(wanted: bool) -> None:
    """Print the version and exit, if that is wanted."""
    if wanted:
        from iowatch import __version__
        from iowatch.base import build

        print(f"iowatch {build.version(__version__)}")
        raise typer.Exit


@app.callback()
def iowatch(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=say_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Guard the parallel I/O of an HPC centre: measure it, verify it, judge it and report on it.

    A case is one check with its parameters, such as writing a shared file through HDF5, on one
    filesystem. A suite is the list of cases that a site measures: one for every night, one for an
    acceptance test. A baseline is what good nights say of a case; to bless nights is to declare
    that they are good.

    To adopt a new site, run iowatch site new, then iowatch site check, and then iowatch run
    --record for the first nights. Once a case has 20 good nights, iowatch bless makes them its
    baseline.

    Every night, let cron start iowatch run, and iowatch run --again some hours later. Each ends by
    naming a page to look at. In the morning, iowatch status has the last night of each system, and
    iowatch show a night or a case.

    For a procurement, run iowatch run --suite acceptance, and then iowatch accept judge.

    Environment variables: IOWATCH_SYSTEM names the system where --system does not. IOWATCH_SITE_DIR
    names the folder of the site's own site_configs, reference_values and results; without it, they
    are in the checkout, or in the folder iowatch of your home. RFM_PREFIX names another folder for
    results, RFM_REFERENCE_PREFIX another one of reference values, and RFM_CONFIG_FILES further
    files of ReFrame's configuration.

    Every command exits with 0 if all is well, with 1 if something is red or refused, with 2 if what
    it was given is wrong, and with 3 if it cannot print what it has to say. The help of a command
    lists its other exit codes.
    """
    from iowatch.base.places import prepared

    for number in range(3):  # one that is closed would be the next file that is opened
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    ctx.with_resource(prepared())


# What several commands do


def screen(as_json: bool = False, width: int | None = None) -> Console:
    """Return where tables are printed, or beside JSON what goes on."""
    from rich.console import Console

    return Console(stderr=as_json, width=width, highlight=False)


@contextmanager
def progress(words: str) -> Iterator[None]:
    """Say on a terminal what takes its time."""
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """End a command at the first signal, with a line and exit code 130 or 143."""
    from iowatch.night import session

    with session.interruptible():
        try:
            yield
        except session.Interrupted as err:
            typer.echo(f"iowatch: error: {err}", err=True)
            raise typer.Exit(128 + err.number) from None


def databases(db: list[Path] | None) -> list[Path]:
    """Return these results databases, or else that of ReFrame's configuration."""
    from iowatch.site.site import results_database

    return db or [results_database()]


def one_database(db: list[Path] | None) -> Path | None:
    """Return the only results database that is meant, as far as ReFrame need not be asked."""
    from iowatch.base.places import usual_database

    files = db or [usual_database()]
    return files[0] if len(files) == 1 and files[0].is_file() else None


def the_system(given: str, db: list[Path] | None = None) -> str:
    """Return the system that is meant: the given one, the only one on record, or else the only one
    that the site has a file of. UserError."""
    from iowatch.base.places import configured_systems
    from iowatch.night import as_judged

    if given:
        return given
    file = one_database(db)
    names: Sequence[str] = (as_judged.names(file, datetime.now(UTC)) if file else None) or ()
    if not names:
        from iowatch.night.on_record import systems

        names = systems(db) if db else ()
        with suppress(UserError):  # nothing is on record yet
            names = names or systems(databases(db))
    names = names or configured_systems()
    if len(names) != 1:
        raise UserError(
            f"name a system by --system or {completion.SYSTEM}: there are {', '.join(names)}"
        )
    return names[0]


def systems_on_record(given: list[str] | None, db: list[Path] | None) -> list[str]:
    """Return these systems, or else all that have had a night within a year. UserError."""
    from iowatch.night.on_record import systems

    for name in given or []:
        whole_system(name)
    return given or systems(databases(db))


def whole_system(system: str) -> None:
    """UserError if this is only a partition."""
    name, _, partition = system.partition(":")
    if partition:
        raise UserError(f"--system {system}: a night is the whole system's: give {name}")


def selected(db: list[Path] | None, case: str, since: datetime | None = None) -> list[Run]:
    """The history of the cases that match."""
    from iowatch.past import history

    try:
        matches = re.compile(case).search
    except re.error as err:
        raise UserError(f"--case {case}: no regular expression: {err}") from None
    notes = list[str]()
    with progress("reading the results database"):
        runs = history.read(databases(db), since, notes=notes)
    for note in notes:
        typer.echo(f"iowatch: {note}", err=True)
    return [run for run in runs if matches(str(run.case))]


def instant(day: datetime | None) -> datetime | None:
    """Return when a day of an option begins."""
    return day.replace(tzinfo=UTC) if day else None


def is_within(day: date, since: datetime | None, until: datetime | None) -> bool:
    """Is a day from `since` to `until`, both included?"""
    return not (since and day < since.date()) and not (until and day > until.date())


def you() -> str:
    """Name whoever runs the command."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def is_of(system: str, run: Run) -> bool:
    """Is a run one of a system, or of one of its partitions (`archer:fs3`)?"""
    name, _, partition = system.partition(":")
    return run.case.system == name and partition in ("", run.case.partition)


def of_system(system: str, runs: Iterable[Run]) -> list[Run]:
    """The runs of a system or of one of its partitions.

    UserError if there are none: a name that is misspelt must not look like a system without
    results.
    """
    runs = [*runs]
    of_this_system = [run for run in runs if is_of(system, run)]
    if not of_this_system:
        name = system.partition(":")[0]
        known = [run for run in runs if is_of(name, run)]
        other = {f"{name}:{run.case.partition}" for run in known}
        other |= set() if known else {run.case.system for run in runs}
        only = f", only of {', '.join(sorted(other))}" if other else ""
        raise UserError(f"--system {system}: nothing is on record of it{only}")
    return of_this_system
