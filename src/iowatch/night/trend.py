"""The nights of a plot, their lasting changes of bandwidth, and what a run met with otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

from iowatch.cases.run import Nights, day_of, deciding, fastest
from iowatch.judge.baseline import change_point
from iowatch.judge.settings import NORMAL

#: A bless refuses only what lasts; a reader wants to see what has just begun, at its right place.
_NEW = replace(NORMAL, change_nights=3, clip=10.0)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A change of the bandwidth that lasts."""

    place: int  # among the nights, of the first of the new level
    night: date
    before: float  # median MiB/s of the nights on either side, back or on to the next change
    after: float


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The nights of a plot, oldest first; of one day there may be several."""

    nights: Sequence[date]
    rates: Sequence[float | None]  # MiB/s of the best run; None: no valid run
    red: Sequence[bool]
    levels: Sequence[Level]

    @classmethod
    def make(cls, nights: Nights) -> Trend:
        days, best = [day_of(night) for night in nights], map(fastest, nights.values())
        rates = [run.rate if run else None for run in best]
        red = [deciding(runs).is_red for runs in nights.values()]
        return cls(nights=days, rates=rates, red=red, levels=[*_levels(days, rates)])

    @property
    def is_empty(self) -> bool:
        return not any(self.rates)


def _levels(days: Sequence[date], rates: Sequence[float | None]) -> Iterator[Level]:
    """The findings of the test that guards a bless, in the whole and again on both sides."""
    series = [(place, rate) for place, rate in enumerate(rates) if rate]
    splits = sorted(_splits([math.log(rate) for _, rate in series]))
    for start, split, end in zip([0, *splits], splits, [*splits[1:], len(series)], strict=False):
        before, after = series[start:split], series[split:end]
        old, new = (median(rate for _, rate in part) for part in (before, after))
        place = after[0][0]
        yield Level(place=place, night=days[place], before=old, after=new)


def _splits(values: Sequence[float]) -> Iterator[int]:
    split = change_point(values, _NEW) if values else None
    if split is not None:
        yield split
        yield from _splits(values[:split])
        yield from (split + later for later in _splits(values[split:]))


_HOSTS_NAMED = 8


@dataclass(frozen=True)
class Change:
    """A condition that is not what it was; empty: was not there."""

    name: str
    before: str
    now: str


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """The conditions that differ; of hosts, those that are others."""
    return [
        _of_hosts(before.get(name, ""), now.get(name, ""))
        if name == "hosts"
        else Change(name, before.get(name, ""), now.get(name, ""))
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]


def _of_hosts(before: str, now: str) -> Change:
    old, new = before.split(), now.split()
    gone = [host for host in old if host not in new]
    come = [host for host in new if host not in old]
    return Change("hosts", _some(gone), _some(come))


def _some(hosts: Sequence[str]) -> str:
    rest = len(hosts) - _HOSTS_NAMED
    return " ".join(hosts[:_HOSTS_NAMED]) + (f" and {rest} more" if rest > 0 else "")
