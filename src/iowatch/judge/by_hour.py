"""A change that lasts for a day, told by what each hour of the day is like at a site.

Users load a filesystem by the hour of the day, and a few of them by much. So an hour is compared
with the same hour, and its neighbours, of the days before. It is slow if it is above the limit of
its hour: above what most of those days had, and well above their median. One slow hour says
nothing, for a user's job may last for hours. A series is suspect if nearly all hours of the last
day are slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import geometric_mean, median


@dataclass(frozen=True, kw_only=True)
class HourSettings:
    """The thresholds, as `bench/hour_trials.py` has tuned them."""

    #: Days before the last one that tell what is usual.
    days: int = 28
    #: So many of them at least.
    least_days: int = 14
    #: The hours that are judged together, and how many of them must have been measured.
    judged: int = 24
    least_hours: int = 18
    #: The part of these that is slow if the series is suspect.
    slow_part: float = 0.85
    #: An hour is slow above so many times its median, and above this part of the days.
    factor: float = 1.35
    quantile: float = 0.8
    #: Hours of the day, on either side, that count as the same.
    around: int = 1


USUAL = HourSettings()


@dataclass(frozen=True, slots=True)
class HourValue:
    """A figure of one hour, the higher the worse."""

    time: datetime  # UTC
    value: float


@dataclass(frozen=True, kw_only=True)
class SlowHours:
    """What has been slow for nearly a day."""

    factor: float  # the median of the judged hours, each by the median of its own hour
    slow: int  # hours
    judged: int  # hours
    since: datetime  # the first slow hour of those


@dataclass(frozen=True)
class UsualHour:
    """What an hour of the day is like."""

    median: float
    limit: float


def together(calls: Iterable[Sequence[HourValue]]) -> list[HourValue]:
    """Pool the calls of each hour: what slows all of them stands out of the noise of each."""
    return [
        HourValue(hour[0].time, geometric_mean(call.value for call in hour))
        for hour in zip(*calls, strict=True)
    ]


def usual_hours(past: Iterable[HourValue], settings: HourSettings = USUAL) -> list[UsualHour]:
    """What each hour of the day is like, by these days; none: they are too few."""
    by_hour: list[list[float]] = [[] for _ in range(24)]
    days = set()
    for hour in past:
        days.add(hour.time.date())
        by_hour[hour.time.hour].append(hour.value)
    if len(days) < settings.least_days:
        return []
    usual = []
    for middle_hour in range(24):
        near = range(middle_hour - settings.around, middle_hour + settings.around + 1)
        values = sorted(value for other in near for value in by_hour[other % 24])
        if len(values) < settings.least_days:
            return []
        middle = median(values)
        high = values[min(len(values) - 1, int(settings.quantile * len(values)))]
        usual.append(UsualHour(middle, max(settings.factor * middle, high)))
    return usual


def slow_hours(
    hours: Sequence[HourValue], now: datetime, settings: HourSettings = USUAL
) -> SlowHours | None:
    """What has been slow for nearly a day, until now; None: nothing is, or the past is too short.

    Hours are in the order of time; those after `now` do not count.
    """
    begins = now - timedelta(hours=settings.judged)
    first = begins - timedelta(days=settings.days)
    judged = [hour for hour in hours if begins < hour.time <= now]
    if len(judged) < settings.least_hours:
        return None
    usual = usual_hours((hour for hour in hours if first < hour.time <= begins), settings)
    if not usual:
        return None
    slow = [hour for hour in judged if hour.value > usual[hour.time.hour].limit]
    if len(slow) < settings.slow_part * len(judged):
        return None
    factors = [hour.value / usual[hour.time.hour].median for hour in judged]
    return SlowHours(factor=median(factors), slow=len(slow), judged=len(judged), since=slow[0].time)
