"""The command that certifies a change: compare."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iowatch.base.files import UserError
from iowatch.cli.command import (
    DAY,
    MINUTE,
    AsJson,
    Databases,
    Keys,
    Matching,
    Since,
    System,
    Until,
    app,
    argument,
    databases,
    instant,
    option,
    progress,
    the_system,
    whole_system,
    you,
)
from iowatch.cli.every_night import AMBER

if TYPE_CHECKING:
    from iowatch.evidence.question import Question
    from iowatch.site.declared import Event

_SIDE = timedelta(days=20)  # on either side of an event
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)", re.ASCII)


@app.command("compare")
def compare_command(
    words: list[str] | None = argument(
        "The words in which the case ids of two ways differ, such as two environments or "
        "partitions, or pool=disk and pool=flash.",
        default=None,
        metavar="BEFORE AFTER",
        show_default=False,
    ),
    at: str = option(
        "Compare the 20 days before and after this event, or this day or time (UTC).",
        default="",
        metavar="EVENT",
        show_default=False,
    ),
    before: str = option(
        "The nights before the change.", default="", metavar="DAY..DAY", show_default=False
    ),
    after: str = option(
        "The nights after the change.", default="", metavar="DAY..DAY", show_default=False
    ),
    limit: str = option(
        "The loss that is allowed.", "--no-loss-above", default="5%", metavar="PERCENT"
    ),
    change: str = option(
        "What was changed: the title of the page.",
        default="",
        metavar="TEXT",
        show_default="the event",
    ),
    system: System = "",
    case: Matching = "",
    since: Since = None,
    until: Until = None,
    key: Keys = None,
    output: Path | None = option(
        "Folder to write the certificate and its evidence to, certificate.html and evidence.tar.",
        "-o",
        "--output",
        metavar="FOLDER",
        show_default="none",
    ),
    db: Databases = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a change has cost bandwidth: a maintenance, firmware, library or client.

    With --at, or --before and --after, nights before the change are compared with nights after it.
    A night counts if the other side has a night within 20 days.

    With BEFORE and AFTER, two ways are compared that were measured in turn, in the same nights or
    sessions: two environments, filesystems or pools. --since and --until limit the days. This
    needs far fewer nights.

    Each case, and each group of cases, gets an interval and a verdict: no loss above the limit,
    loss, or cannot tell and how many more nights would. The verdicts hold for all of them together.

    `accept verify` judges the evidence elsewhere, and says whether a byte of it was changed.
    `accept sign` adds a signature.

    For example: iowatch compare --at 'firmware 7.2' -o certificate

    The exit code is 0 if no case has a loss above the limit, 1 if something has lost, 4 if neither
    is sure, and 2 if nothing was compared.
    """
    from iowatch.evidence import accept
    from iowatch.judge.change import Ruling

    name = the_system(system, db)
    whole_system(name)
    if bool(words) + bool(at) + bool(before or after) != 1:
        raise UserError(
            "give one of these: --at EVENT; --before DAY..DAY --after DAY..DAY; or BEFORE AFTER, "
            "two ways that were measured in turn"
        )
    if key and not output:
        raise UserError("--sign: there is no evidence to sign without --output FOLDER")
    asked = {
        "system": name,
        "change": change,
        "limit": _part(limit),
        "case": case,
        "who": you(),
        "asked": datetime.now(UTC).replace(microsecond=0),
    }
    if words:
        question = _in_turn(asked, words, since, until)
    elif since or until:
        raise UserError("--since and --until are for BEFORE and AFTER: give --before DAY..DAY")
    else:
        question = _by_nights(asked, at, before, after)
    with progress("gathering and verifying the raw results"):
        judged, lines = accept.certify(question, databases(db), key or [], output)
    print(judged.document(lines) if as_json else "\n".join(lines))
    codes = {Ruling.NO_LOSS: 0, Ruling.LOSS: 1, Ruling.OPEN: AMBER}
    raise typer.Exit(codes[judged.answer])


def _part(text: str) -> float:
    """Return the part that a text such as 5% says. UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text, re.ASCII)
    if not match or not 0 < float(match[1]) < 100:
        raise UserError(f"--no-loss-above {text}: is no percentage above 0% and below 100%")
    return float(match[1]) / 100


def _in_turn(
    asked: dict[str, object], words: list[str], since: datetime | None, until: datetime | None
) -> Question:
    from iowatch.evidence.question import InTurn

    if len(words) != 2 or words[0] == words[1]:
        raise UserError(f"{' '.join(words)}: name two ways to measure, BEFORE and AFTER")
    before, after = words
    last = datetime.combine(until, time.max, UTC) if until else None
    asked["change"] = asked["change"] or f"{after} in the place of {before}"
    ways = {"before": before, "after": after, "first": instant(since), "last": last}
    return InTurn.read("compare", {**asked, **ways})


def _by_nights(asked: dict[str, object], at: str, before: str, after: str) -> Question:
    from iowatch.base.places import reference_folder
    from iowatch.evidence.question import ByNights
    from iowatch.site.declared import read_events

    events, event = read_events(str(asked["system"]), reference_folder()), ""
    if at:
        moment, event = _moment(at, events)
        end = timedelta(microseconds=1)
        times = [moment - _SIDE, moment - end, moment, moment + _SIDE - end]
    else:
        times = [*_days("--before", before), *_days("--after", after)]
    if not (change := asked["change"] or event):
        raise UserError("--change: say what was changed, such as 'Lustre client 2.15'")
    near = (e for e in events if times[0] <= e.at <= times[-1] and e.event != event)
    others = [*dict.fromkeys(f"{entry.event} ({entry.at:%Y-%m-%d})" for entry in near)]
    names = ("before_first", "before_last", "after_first", "after_last")
    nights = dict(zip(names, times, strict=True))
    return ByNights.read("compare", {**asked, "change": change, "events": others, **nights})


def _moment(text: str, events: list[Event]) -> tuple[datetime, str]:
    """Return when an event was, and the event; UserError."""
    for form in (DAY, MINUTE):
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC), ""
    exact = [entry for entry in events if entry.event == text]
    matching = exact or [entry for entry in events if text in entry.event]
    if len(matching) == 1:
        return matching[0].at, matching[0].event
    known = ", ".join(f"{entry.event!r} of {entry.at:%Y-%m-%d}" for entry in matching or events)
    count = "several events have" if matching else "no event on record has"
    raise UserError(
        f"--at {text}: {count} this in its text{f': there are {known}' if known else ''}; give a "
        "day such as 2026-11-18, or put it on record with `iowatch event`"
    )


def _days(name: str, text: str) -> list[datetime]:
    """Return when the first of these days begins, and when the last one ends; UserError."""
    with suppress(ValueError):
        if match := _DAYS.fullmatch(text):
            first, last = (
                datetime.strptime(day, DAY).replace(tzinfo=UTC) for day in match.groups()
            )
            return [first, datetime.combine(last, time.max, UTC)]
    raise UserError(
        f"{name} {text or 'is missing'}: give the first and the last day, such as "
        "2026-10-18..2026-11-17"
    )
