"""The commands that put on record what people know: ack, event and rename."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cli import completion
from iowatch.cli.command import (
    DATE,
    DAY,
    MINUTE,
    System,
    app,
    argument,
    day,
    option,
    the_system,
    you,
)

if TYPE_CHECKING:
    from iowatch.cases.case import Case
    from iowatch.site.site import Site


@app.command("ack")
def ack_command(
    case: str = argument(
        "Its name in the last night, its id, or a pattern of several ids.",
        metavar="CASE",
        autocompletion=completion.cases,
    ),
    until: datetime = option("The last day, within a year.", default=..., metavar=DATE, parser=day),
    why: str = option("What is wrong, for whoever reads the page.", default=...),
    owner: str = option("Who looks after it.", default="", show_default="you"),
    ticket: str = option("Its ticket.", default="", show_default="none"),
    system: System = "",
) -> None:
    """Acknowledge a fault: until a day its cases leave the night green, and marked.

    What is not verified stays red, and so does what is too fast. No baseline changes. For an alarm
    on a whole filesystem, name all of its cases: iowatch ack archer:fs3/ --until ...

    The entry is written to expected_failures/SYSTEM.yaml in the folder of reference values, a
    change for somebody to review and commit. To end it earlier, remove it there.
    """
    from iowatch.base.places import reference_folder
    from iowatch.cases.case import shown
    from iowatch.cases.filesystem import NIGHTLY
    from iowatch.site.declared import ExpectedFailure, acknowledge, pattern_of

    if not why.strip():
        raise UserError("--why is empty: say what is wrong")
    now = datetime.now(UTC)
    site, names = _asked(the_system(completion.system_in(case) or system), now)
    cases = site.cases(NIGHTLY)  # others are a contract's, which excuses nothing
    entry = ExpectedFailure(
        case=re.compile(pattern_of(case, cases, names)),
        until=until.date(),
        why=" ".join(why.split()),
        owner=owner.strip() or you(),
        ticket=ticket.strip(),
        when=now.date(),
    )
    file = acknowledge(site.system, reference_folder(), entry, now.date())
    matching = [case for case in cases if entry.excuses(str(case), now.date())]
    print(f"{counted(len(matching), 'case')} {entry}: {shown(matching)}")
    print(f"written: {file}")


@app.command("event")
def event_command(
    event: str = argument("What has happened, such as 'firmware 7.2'.", metavar="EVENT"),
    at: datetime | None = option(
        "When, in UTC.", metavar=f"{DATE}[THH:MM]", formats=[DAY, MINUTE], show_default="now"
    ),
    who: str = option("Who says so.", default="", show_default="you"),
    system: System = "",
) -> None:
    """Mark an event, such as an upgrade, on the trends of every page.

    Blesses, acknowledgements, maintenance and new versions of libraries are marked without it.

    The event is appended to events/SYSTEM.yaml in the folder of reference values, a change for
    somebody to review and commit. To take it back, remove it there.
    """
    from iowatch.base.places import reference_folder
    from iowatch.site.declared import Event, add_event
    from iowatch.site.site import read_site

    if not event.strip():
        raise UserError("the event is empty: say what has happened")
    time = at.replace(tzinfo=UTC) if at else datetime.now(UTC).replace(microsecond=0)
    name = read_site(the_system(system)).system
    entry = Event(at=time, event=" ".join(event.split()), who=who.strip() or you())
    file = add_event(name, reference_folder(), entry)
    print(f"{name}, {time:%Y-%m-%d %H:%M} UTC: {entry.event} ({entry.who})")
    print(f"written: {file}")


def _asked(system: str, now: datetime) -> tuple[Site, dict[Case, str]]:
    """A site, and the names that its last night has for its cases. UserError."""
    from iowatch.cases.case import short_names
    from iowatch.cases.run import nights_of
    from iowatch.past import history
    from iowatch.site.site import read_site

    site = read_site(system)
    if not site.database.is_file():
        return site, {}
    runs = history.read([site.database], history.year_before(now))
    nights = nights_of(run for run in runs if run.case.system == site.system)
    last = nights[max(nights)] if nights else []
    return site, short_names({run.case for run in last})
