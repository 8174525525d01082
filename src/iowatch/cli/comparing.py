"""The command that certifies a change: compare."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iowatch.cli.command import (
    DAY,
    MINUTE,
    AsJson,
    Databases,
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
from iowatch.files import UserError

if TYPE_CHECKING:
    from iowatch.certificate.question import Question
    from iowatch.events import Event

_SIDE = timedelta(days=20)  # on either side of an event: of more nights, levels drift
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)", re.ASCII)


@app.command("compare")
def compare_command(
    words: list[str] | None = argument(
        "Words of case ids that name what was measured in turn, such as two environments or "
        "partitions, or pool=disk and pool=flash.",
        default=None,
        metavar="BEFORE AFTER",
        show_default=False,
    ),
    at: str = option(
        "Compare the nights of the 20 days before and after this event, or this day or time (UTC).",
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
        "What may be lost. A smaller loss is none above it.",
        "--no-loss-above",
        default="5%",
        metavar="PERCENT",
    ),
    change: str = option(
        "What was changed, for whoever reads the page.",
        default="",
        metavar="TEXT",
        show_default="the event",
    ),
    system: System = "",
    case: Matching = "",
    since: Since = None,
    until: Until = None,
    key: list[str] | None = option(
        "Sign the evidence with this file of an SSH key. May be repeated.",
        "--sign",
        metavar="KEY",
        show_default="nobody signs",
    ),
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

    With BEFORE and AFTER, two ways are compared that were measured in turn, in the same nights or
    sessions: two environments, filesystems or pools. --since and --until limit the days. Else
    nights before a change are compared with nights after it. Pairs need far fewer nights.

    Each case, and each group of cases, gets an interval and a verdict: no loss above the limit,
    loss, or cannot tell and how many more nights would. The verdicts hold for all of them together.

    Whoever has the evidence and iowatch comes to the same verdicts with `accept verify`, and sees
    whether a byte of it was changed. `accept sign` adds a signature.

    For example: iowatch compare --at 'firmware 7.2' -o certificate

    The exit code is 0 if no case has a loss above the limit, 1 if something has lost, 4 if neither
    is sure, and 2 if nothing was compared.
    """
    from iowatch import json_output
    from iowatch.certificate import certify
    from iowatch.detector.change import Ruling

    name = the_system(system, db)
    whole_system(name)
    asked = {
        "system": name,
        "limit": _part(limit),
        "case": case,
        "who": you(),
        "asked": datetime.now(UTC).replace(microsecond=0),
    }
    ways = [bool(words), bool(at), bool(before or after)]
    if sum(ways) != 1:
        raise UserError(
            "give either BEFORE and AFTER, which were measured in turn, or --at, or --before and "
            "--after"
        )
    if key and not output:
        raise UserError("--sign: there is no evidence to sign without --output FOLDER")
    if ways[0]:
        question = _in_turn(asked, change, words or [], since, until)
    else:
        if since or until:
            raise UserError("--since and --until are for BEFORE and AFTER: give --before DAY..DAY")
        question = _by_nights(asked, change, at, before, after)
    with progress("gathering and verifying the raw results"):
        judged, lines = certify.certify(question, databases(db), key or [], output)
    if output:
        lines += [f"written: {output / name}" for name in (certify.PAGE, certify.SEALED)]
    print(json_output.certificate(judged, lines) if as_json else "\n".join(lines))
    codes = {Ruling.NO_LOSS: 0, Ruling.LOSS: 1, Ruling.OPEN: AMBER}
    raise typer.Exit(codes[judged.answer])


def _part(text: str) -> float:
    """Return the part that a text such as 5% says. UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text, re.ASCII)
    if not match or not 0 < float(match[1]) < 100:
        raise UserError(f"--no-loss-above {text}: is no percentage above 0% and below 100%")
    return float(match[1]) / 100


def _in_turn(
    asked: dict[str, object],
    change: str,
    given: list[str],
    since: datetime | None,
    until: datetime | None,
) -> Question:
    from iowatch.certificate.question import InTurn

    if len(given) != 2 or given[0] == given[1]:
        raise UserError(f"{' '.join(given)}: name two ways to measure, BEFORE and AFTER")
    first, second = given
    last = datetime.combine(until, time.max, UTC) if until else None
    words = {"before": first, "after": second, "first": instant(since), "last": last}
    change = change or f"{second} in the place of {first}"
    return InTurn.read("compare", {**asked, "change": change, **words})


def _by_nights(asked: dict[str, object], change: str, at: str, before: str, after: str) -> Question:
    from iowatch.certificate.question import ByNights
    from iowatch.events import read_events
    from iowatch.places import reference_folder

    events = read_events(str(asked["system"]), reference_folder())
    if at:
        moment, event = _moment(at, events)
        change = change or event
        last = moment - timedelta(microseconds=1)
        times = [moment - _SIDE, last, moment, moment + _SIDE]
    else:
        event = ""
        times = [*_days("--before", before), *_days("--after", after)]
    if not change:
        raise UserError("--change: say what was changed, such as 'Lustre client 2.15'")
    others = [
        f"{entry.event} ({entry.at:%Y-%m-%d})"
        for entry in events
        if times[0] <= entry.at <= times[-1] and entry.event != event
    ]
    names = ("before_first", "before_last", "after_first", "after_last")
    nights = dict(zip(names, times, strict=True))
    return ByNights.read("compare", {**asked, "change": change, "events": others, **nights})


def _moment(text: str, events: list[Event]) -> tuple[datetime, str]:
    """Return when an event was, and the event; UserError."""
    for form in (DAY, MINUTE):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC), ""
        except ValueError:
            continue
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
    try:
        first, last = re.fullmatch(_DAYS, text).groups()  # type: ignore[union-attr]
        days = [datetime.strptime(day, DAY).replace(tzinfo=UTC) for day in (first, last)]
    except (AttributeError, ValueError):
        raise UserError(
            f"{name} {text}: give the first and the last day, such as 2026-10-18..2026-11-17"
        ) from None
    return [days[0], datetime.combine(days[1], time.max, UTC)]
