"""The alarms of the hours before a night: slow for nearly a day, or none for hours."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from iowatch.cases.case import Case
from iowatch.cases.verdict import Outcome, Reason, State
from iowatch.judge.by_hour import HourValue, SlowHours, slow_hours, together
from iowatch.measure.kinds.latency import CALLS
from iowatch.night.alarm import Alarm
from iowatch.past.hours import CaseHour, by_case

#: The quantile that is judged.
JUDGED = "p99"
#: Pooled, they show a loss that is lost in the noise of each.
TOGETHER = "all calls together"
#: After so long without an hour somebody has to look.
SILENT = timedelta(hours=6)


def alarms_of_hours(
    hours: Sequence[CaseHour], now: datetime, asked: Collection[Case] | None = None
) -> Iterator[Alarm]:
    """Yield an alarm for each case of which a call has been slow for nearly a day, and one if hours
    do not come any more.

    `asked` are the cases of the hourly suite; None: nobody knows here.
    """
    cases = by_case(hours)
    for of_case in cases.values():
        values = {
            call: [HourValue(hour.time, hour.quantile(call, JUDGED)) for hour in of_case]
            for call in CALLS
        }
        values[TOGETHER] = together(values.values())
        changes = {name: slow_hours(hours_of, now) for name, hours_of in values.items()}
        if slow := {name: change for name, change in changes.items() if change}:
            place = of_case[-1].filesystem
            outcome = Outcome(State.SUSPECT, Reason.SLOW_HOURS)
            since = min(change.since for change in slow.values())
            yield Alarm(f"access to {place}", outcome, _words(slow), (), since=since)
    last_hours = [of_case[-1] for case, of_case in cases.items() if asked is None or case in asked]
    if silent := [hour for hour in last_hours if now - hour.time > SILENT]:
        yield _silent(silent)


def _words(slow: dict[str, SlowHours]) -> str:
    """Say by how much the worst call is slow, in how many hours and since when; name the others."""
    calls = [call for call in slow if call != TOGETHER]
    worst = max(calls, key=lambda call: slow[call].factor, default=TOGETHER)
    change = slow[worst]
    others = [call for call in calls if call != worst]
    so = f"; likewise {', '.join(others)}" if others else ""
    return (
        f"the p99 of {worst} is {change.factor:.1f} times what is usual at that hour of the day, "
        f"in {change.slow} of {change.judged} hours, since {change.since:%Y-%m-%d %H:%M} UTC{so}"
    )


def _silent(last_hours: Sequence[CaseHour]) -> Alarm:
    """Name the filesystems that have no new hours."""
    places = ", ".join(dict.fromkeys(hour.filesystem for hour in last_hours))
    last = max(hour.time for hour in last_hours)
    command = f"iowatch run --system {last_hours[0].case.system} --suite hourly"
    words = (
        f"none is on record since {last:%Y-%m-%d %H:%M} UTC: see what cron mails of `{command}`, "
        "or take the suite `hourly` out of the site's file"
    )
    outcome = Outcome(State.UNJUDGED, Reason.NO_HOURS)
    return Alarm(
        *(f"hours of {places}", outcome, words, ()), since=last, extent="none", command=command
    )
