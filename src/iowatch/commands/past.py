"""`iowatch history`, `import`, `bless` and `backtest`."""

from __future__ import annotations

import getpass
import io
import socket
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch.commands.common import (
    DAY,
    Databases,
    Matching,
    ReferenceValues,
    one_line_errors,
    selected,
)
from iowatch.commands.tables import show_blessing, show_history
from iowatch.detector.backtest import backtest
from iowatch.detector.settings import SETTINGS
from iowatch.paper.published import PUBLISHED
from iowatch.past import baselines, importing
from iowatch.past.history import by_night
from iowatch.past.replay import write_table
from iowatch.reframe_site import UsageError


def history(
    db: Databases = None,
    case: Matching = "",
    csv: Annotated[
        bool, typer.Option("--csv", help="The table that `iowatch backtest` reads, instead.")
    ] = False,
) -> None:
    """List the cases that were ever measured, and their nights."""
    with one_line_errors():
        records = selected(db, case)
        if not csv:
            show_history(records, Console(highlight=False))
            return
        table = io.StringIO()
        if not write_table(records, table):
            raise UsageError("no valid run in the results database matches")
    print(table.getvalue(), end="")


def import_(
    files: Annotated[
        list[Path], typer.Argument(help="Performance logs of ReFrame, outputs of EPCC's benchio.")
    ],
    to: Annotated[Path, typer.Option(help="New results database, for --db of other commands.")],
    case: Annotated[
        str,
        typer.Option(
            help="Case id of another suite's log, with {field} for what differs from line to line;"
            " of benchio's outputs SYSTEM:PARTITION/ENVIRON."
        ),
    ] = "",
    figure: Annotated[str, typer.Option(help="Of such a log, the one that is the bandwidth.")] = "",
    unit: Annotated[str, typer.Option(help="Its unit, whatever the log says.")] = "",
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
        runs = importing.read(files, case, figure, unit, stripes or [])
        importing.write(runs, to)
    print(f"{to}: {importing.summary(runs)}")


def bless(
    system: Annotated[str, typer.Option(help="System whose cases are blessed.")],
    why: Annotated[str, typer.Option(help="Why these nights are good, for readers of the diff.")],
    case: Matching = "",
    count: Annotated[int, typer.Option("--nights", min=1, help="Of the last so many nights.")] = 30,
    first: Annotated[
        datetime | None, typer.Option("--from", formats=[DAY], help="First day.")
    ] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=[DAY], help="Last day.")] = None,
    who: Annotated[str, typer.Option(help="Who says so.", show_default="you")] = "",
    db: Databases = None,
    folder: ReferenceValues = PUBLISHED.parent,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> None:
    """Make good nights the baseline: 0 all cases blessed, 1 some refused, 2 wrong usage."""
    with one_line_errors():
        if not why.strip():
            raise UsageError("--why is empty: say why these nights are good")
        # A night of the future, by a wrong clock, would be the last that is blessed: none to come
        # would be judged.
        now = datetime.now(timezone.utc)
        records = selected(db, case)
        cases = by_night(r for r in records if r.case.system == system and r.time <= now)
        if not cases:
            raise UsageError(f"no case of {system} in the results database matches")
        who = who or f"{getpass.getuser()}@{socket.gethostname()}"
        days = (first and first.date(), last and last.date())
        blessing = baselines.bless(system, folder, cases, count, *days, who, why, dry_run)
    show_blessing(blessing, Console(highlight=False))
    raise typer.Exit(1 if blessing.refused else 0)


def backtest_(
    file: Annotated[Path, typer.Argument(help="CSV of runs or nights; see docs/detector.md.")],
    bless_nights: Annotated[int, typer.Option("--bless-nights", help="Nights of a baseline.")] = 30,
    rules: Annotated[str, typer.Option(help=f"One of {', '.join(SETTINGS)}.")] = "normal",
) -> None:
    """Replay a table of past nights through the detector: 0 no alarm, 1 alarms, 2 wrong usage."""
    with one_line_errors():
        if rules not in SETTINGS:
            raise UsageError(f"--rules {rules}: there are {', '.join(SETTINGS)}")
        result = backtest(file, bless_nights, SETTINGS[rules])
    for row in result.rows:
        print(row.json())
    typer.echo(result.summary, err=True)
    raise typer.Exit(1 if result.alarms else 0)
