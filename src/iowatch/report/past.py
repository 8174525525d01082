"""A case's night beside those before it: what was usual, and what has changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median

from iowatch.detector.baseline import Baseline, BaselineRefused, estimate
from iowatch.detector.judgement import NOISY, OK, TRANSIENT
from iowatch.detector.settings import NORMAL
from iowatch.figures import OST
from iowatch.past.baselines import Blessed, jobs_of
from iowatch.past.drift import usual as usual_of_blessed
from iowatch.past.history import Record
from iowatch.verdict import IMPROVEMENT, NO_BASELINE

GOOD = frozenset({OK, NOISY, TRANSIENT, IMPROVEMENT, NO_BASELINE})
COMPARED = 30  # good nights that stand in for a baseline
NAMED = 8  # hosts that are named at most

Nights = Mapping[date, Sequence[Record]]


@dataclass(frozen=True)
class Expected:
    """The bandwidth that a case should reach."""

    value: float  # MiB/s
    low: float | None  # of what is usual; None: too few nights to say
    high: float | None
    source: str  # where it comes from
    word: str  # expected (blessed), or only usual


@dataclass(frozen=True)
class Change:
    """A condition that is not what it was; empty: was not there."""

    what: str
    before: str
    now: str


@dataclass(frozen=True)
class Past:
    """One case: its last night, which the report is of, and those before."""

    nights: Nights
    blessed: Blessed | None
    tonight: Sequence[Record]
    best: Record | None  # tonight's fastest run, as for the detector; None: the last was invalid
    usual: Mapping[str, float]  # median of each figure
    expected: Expected | None
    good: Sequence[date]  # nights before tonight
    last_good: date | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_good", self.good[-1] if self.good else None)

    @classmethod
    def of(cls, nights: Nights, blessed: Blessed | None) -> Past:
        last = max(nights)
        earlier = {day: runs for day, runs in sorted(nights.items()) if day != last}
        good = [day for day, runs in earlier.items() if runs[-1].verdict in GOOD and best(runs)]
        compared = {day: earlier[day] for day in good[-COMPARED:]}
        usual = usual_of_blessed(earlier, blessed) if blessed else {}
        return cls(
            nights,
            blessed,
            nights[last],
            best(nights[last]) if nights[last][-1].figures else None,
            usual or _medians(compared),
            _expected(compared, blessed),
            good,
        )

    @property
    def figures(self) -> Mapping[str, float]:
        return self.best.figures if self.best else {}

    @property
    def osts(self) -> list[tuple[str, float, float]]:
        """Each OST's number, rate and part of the median of all, slowest first."""
        rates = {
            name.removeprefix(OST): rate
            for name, rate in self.figures.items()
            if name.removeprefix(OST).isdigit()
        }
        middle = median(rates.values()) if rates else 0
        ordered = sorted(rates.items(), key=lambda item: item[1])
        return [(ost, rate, rate / middle) for ost, rate in ordered]

    @property
    def changes(self) -> list[Change] | None:
        """The conditions that are not those of the last good night; None: not on record."""
        now = dict(self.tonight[-1].conditions)
        good = best(self.nights[self.last_good]) if self.last_good else None
        before = dict(good.conditions) if good else {}
        if not (now and before):
            return None
        return [
            _change(what, before.get(what, ""), now.get(what, ""))
            for what in {**now, **before}
            if before.get(what) != now.get(what)
        ]


def best(runs: Sequence[Record]) -> Record | None:
    """The fastest valid run of a night."""
    valid = [run for run in runs if run.figures.get("total_max")]
    return max(valid, key=lambda run: run.figures["total_max"], default=None)


def control_rate(figures: Mapping[str, float]) -> float | None:
    """MPI-IO's best in the same job, MiB/s; None: the case is MPI-IO's, or has no control."""
    ratio = figures.get("ratio")
    return figures["total_max"] / ratio if ratio else None


def _medians(nights: Nights) -> dict[str, float]:
    runs = [run.figures for runs in nights.values() if (run := best(runs))]
    names = {name for run in runs for name in run}
    return {name: median(run[name] for run in runs if name in run) for name in names}


def _expected(compared: Nights, blessed: Blessed | None) -> Expected | None:
    """From the baseline; without one from the good nights before."""
    if blessed:
        source = f"baseline of {blessed.first} to {blessed.last}: {blessed.why} ({blessed.who})"
        return _with_band(blessed.baseline, source, "expected")
    jobs = [jobs_of(runs) for runs in compared.values()]
    source = f"median of {len(jobs)} good night(s), not blessed"
    try:
        return _with_band(estimate(jobs), source, "usual")
    except BaselineRefused:
        rates = [night[0].best for night in jobs]
        return Expected(median(rates), None, None, source, "usual") if rates else None


def _with_band(baseline: Baseline, source: str, word: str) -> Expected:
    """Between the warn line and as far above."""
    line = NORMAL.warn_line(baseline.s, again=False)
    low, middle, high = (math.exp(baseline.m + offset) for offset in (line, 0, -line))
    return Expected(middle, low, high, source, word)


def _change(what: str, before: str, now: str) -> Change:
    if what != "hosts":
        return Change(what, before, now)
    old, new = before.split(), now.split()
    return Change(
        "hosts",
        _some([host for host in old if host not in new]),
        _some([host for host in new if host not in old]),
    )


def _some(hosts: Sequence[str]) -> str:
    rest = len(hosts) - NAMED
    return " ".join(hosts[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
