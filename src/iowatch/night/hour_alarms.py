"""The alarms of the hours before a night: calls that were slow for nearly a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from iowatch.detector.by_hour import HourValue, SlowHours, slow_hours
from iowatch.hours import CaseHour, by_case
from iowatch.kinds.latency import CALLS
from iowatch.night.alarms import Alarm
from iowatch.verdict import Outcome, Reason, State

#: The quantile that is judged.
JUDGED = "p99"
#: After so long without an hour somebody has to look.
SILENT = timedelta(hours=6)


def alarms_of_hours(hours: Sequence[CaseHour], now: datetime) -> list[Alarm]:
    """An alarm for each case of which a call has been slow for nearly a day."""
    alarms = []
    for of_case in by_case(hours).values():
        slow = {}
        for call in CALLS:
            values = [HourValue(hour.time, hour.quantile(call, JUDGED)) for hour in of_case]
            if change := slow_hours(values, now):
                slow[call] = change
        if slow:
            place = of_case[-1].filesystem
            outcome = Outcome(State.SUSPECT, Reason.SLOW_HOURS)
            since = min(change.since for change in slow.values())
            alarms.append(Alarm(f"access to {place}", outcome, _words(slow), (), since=since))
    return alarms


def _words(slow: dict[str, SlowHours]) -> str:
    """Say by how much the worst call is slow, in how many hours and since when; name the others."""
    worst = max(slow, key=lambda call: slow[call].factor)
    change = slow[worst]
    others = [call for call in slow if call != worst]
    so = f"; likewise {', '.join(others)}" if others else ""
    return (
        f"the p99 of {worst} is {change.factor:.1f} times what is usual at that hour of the day, "
        f"in {change.slow} of {change.judged} hours, since {change.since:%Y-%m-%d %H:%M} UTC{so}"
    )


def silent(hours: Sequence[CaseHour], now: datetime) -> Iterator[str]:
    """A sentence on each case whose hours have come to an end."""
    for case, of_case in by_case(hours).items():
        last = of_case[-1].time
        if now - last > SILENT:
            yield (
                f"{case}: no hour is on record since {last:%Y-%m-%d %H:%M} UTC: see whether cron "
                "still runs `iowatch run --suite hourly`"
            )
