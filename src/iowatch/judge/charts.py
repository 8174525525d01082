"""The CUSUM chart of one metric: a night adds by how many spreads it is worse than usual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from iowatch.judge.settings import Settings

_KEPT = 30  # nights: enough for the size of a change, however long nobody blesses it


@dataclass(frozen=True, slots=True)
class Cusum:
    """The level of a one-sided CUSUM, and the values since it was 0."""

    level: float = 0.0
    values: tuple[float, ...] = ()
    since: datetime | None = None

    @property
    def drop(self) -> float:
        """The part of the baseline that is lost; less than 0: gained."""
        return 1 - math.exp(median(self.values))

    def plus(self, score: float, value: float, time: datetime) -> Cusum:
        level = self.level + score
        if level <= 0:
            return REST
        return Cusum(level, (*self.values[1 - _KEPT :], value), self.since or time)


REST = Cusum()


class Chart:
    """The rules for one metric. Values are logarithms relative to the baseline's median."""

    def __init__(self, centre: float, spread: float, settings: Settings) -> None:
        self.centre = centre
        self.spread = spread
        self.settings = settings
        self.warn = settings.warn_line(spread, again=False)
        self._warn_again = settings.warn_line(spread, again=True)

    def value(self, metric: float) -> float:
        return math.log(metric) - self.centre

    def is_low(self, value: float, cusum: Cusum) -> bool:
        """Return whether a re-run is due."""
        return value < (self._warn_again if cusum.level else self.warn)

    def floor(self, part: float) -> float:
        """Below this part of the baseline, and out of its reach, one night says enough."""
        return min(math.log(part), -self.settings.floor_spreads * self.spread)

    def fell(self, cusum: Cusum, value: float, reruns: int, time: datetime) -> Cusum:
        """The CUSUM of decreases after a night whose best run has this value."""
        limits = self.settings
        score = -value / self.spread
        if score < limits.reset:
            return REST
        confirmed = reruns / limits.max_reruns
        clip = limits.clip_unconfirmed + (limits.clip - limits.clip_unconfirmed) * confirmed
        score = min(score + limits.rerun_bonus * reruns, clip)
        return cusum.plus(score - limits.slack, value, time)

    def rose(self, cusum: Cusum, value: float, time: datetime) -> Cusum:
        """The CUSUM of increases. The chart stays near its limit, so that it falls when the gain
        ends."""
        limits = self.settings
        score = min(value / self.spread, limits.clip) - limits.slack
        if score <= 0 and not cusum.level:
            return REST
        return cusum.plus(min(score, limits.better_limit + 2 - cusum.level), value, time)
