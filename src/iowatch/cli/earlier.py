"""The commands on earlier nights: bless and backtest."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cli.command import (
    DAY,
    AsJson,
    Databases,
    Matching,
    ReferenceValues,
    Since,
    System,
    Until,
    app,
    argument,
    flag,
    instant,
    of_system,
    option,
    screen,
    selected,
    the_system,
    you,
)

if TYPE_CHECKING:
    from iowatch.cases.case import Case


@app.command("bless")
def bless_command(
    why: str = option("Why these nights are good, for who reviews them.", default=...),
    system: System = "",
    case: Matching = "",
    count: int = option("How many of the last nights to take.", "--nights", default=30, min=1),
    since: Since = None,
    until: Until = None,
    who: str = option("Who says that they are good.", default="", show_default="you"),
    db: Databases = None,
    folder: ReferenceValues = None,
    take_red: bool = flag("--take-red", "Take red nights, too, as after a change to keep."),
    dry_run: bool = flag("--dry-run", "Show what would be blessed, and write nothing."),
) -> None:
    """Declare that past nights were good: from now on each case is judged by them.

    What they say of a case is its baseline. It is written to baselines/SYSTEM.yaml in the folder of
    reference values, a change for somebody to review and commit. A case whose nights cannot serve,
    because they are too few, or its level changes among them, or it was red on some of them, is
    refused with the reason. A case that the site's nightly suite has no more is left out.

    The exit code is 0 if all cases were blessed, 1 if some were refused, and 2 if nothing could be
    done.
    """
    from iowatch.base.places import reference_folder
    from iowatch.cases.case import shown
    from iowatch.cases.run import by_case
    from iowatch.judge import bless
    from iowatch.pages import listings
    from iowatch.past import history

    if not why.strip():
        raise UserError("--why is empty: say why these nights are good")
    system = the_system(system, db)
    # A night of the future, by a wrong clock, would be the last that is blessed: none to come
    # would be judged.
    now = datetime.now(UTC)
    begin = history.year_before(instant(since or until) or now)
    runs = selected(db, case, begin)
    # Of a check without metrics there is nothing to bless.
    mine = (run for run in (of_system(system, runs) if runs else ()) if run.case.metrics)
    on_record = by_case(run for run in mine if not (run.of_contract or run.is_after(now)))
    name = system.partition(":")[0]
    suite = nightly_suite(name)
    cases = {c: nights for c, nights in on_record.items() if suite is None or c in suite}
    if gone := on_record.keys() - cases.keys():
        typer.echo(
            f"left out: {counted(len(gone), 'case')} that the nightly suite of {name} does not "
            f"have: {shown(gone)}",
            err=True,
        )
    if not cases:
        raise UserError(
            f"no case of {system} in the results database matches since {begin:{DAY}}: --until "
            "names older nights"
        )
    days = _day(since), _day(until)
    folder = folder or reference_folder()
    blessing = bless.bless(name, folder, cases, count, *days, who or you(), why, dry_run, take_red)
    listings.show_blessing(blessing, screen())
    raise typer.Exit(1 if blessing.refused else 0)


def nightly_suite(system: str) -> set[Case] | None:
    """Read the cases of a system's nightly suite; None: it is not configured. UserError."""
    from iowatch.cases.filesystem import NIGHTLY
    from iowatch.site.site import UnknownSystem, read_site

    try:
        return read_site(system).cases(NIGHTLY)
    except UnknownSystem:
        return None


def _day(time: datetime | None) -> date | None:
    return time.date() if time else None


@app.command("backtest")
def backtest_command(
    file: Path | None = argument(
        "CSV of nights of another program.", default=None, metavar="FILE", show_default="your past"
    ),
    bless_nights: int = option("How many nights make a baseline.", default=30),
    rules: str = option("Alarms: normal, sensitive or quiet.", default="normal"),
    case: Matching = "",
    db: Databases = None,
    as_json: AsJson = False,
) -> None:
    """Tell what iowatch would have said of past nights: its alarms, and how many they are.

    Nights are replayed, one by one, through the rules that judge a case by its own past, and a
    filesystem by that of its cases. `iowatch docs explanation/detector` has the rules, and
    `iowatch docs howto/old-data` the columns of the table.

    The exit code is 0 if there was no alarm, 1 if there were any, and 2 if the file cannot be used.
    """
    from iowatch.base.documents import document
    from iowatch.judge.backtest import backtest, past_of, past_of_table
    from iowatch.judge.settings import SETTINGS

    if rules not in SETTINGS:
        raise UserError(f"--rules {rules}: there are {', '.join(SETTINGS)}")
    if file and (case or db):
        raise UserError(f"{file}: a table is replayed whole, without --case and --db")
    past = past_of_table(file) if file else past_of(selected(db, case))
    results = [r for r in backtest(past, bless_nights, SETTINGS[rules]) if r.cases]
    if as_json:
        print(document(backtest=[result.document for result in results]))
    for result in [] if as_json else results:
        print(*(row.line for row in result.rows if row.outcome.is_alarm), result.summary, sep="\n")
    raise typer.Exit(1 if any(result.alarms for result in results) else 0)
