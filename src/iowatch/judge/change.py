"""The cost of a change: the ratio of a case's rates after it to those before it, with bounds.

Nights are what is independent, or nearly: a night and the next share a part of their noise. The
level of a side is a trimmed mean of ln MiB/s. Its variance is that of the winsorised sample (Yuen),
widened for what nights share. Both sides are compared as Welch does, with fewer degrees of freedom
for the same reason. The differences of pairs, which were measured in turn, are one such side.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import accumulate, takewhile
from statistics import fmean

#: What a night and the next share, as a correlation. Study: the pessimistic model. With 0.3, as in
#: its main model, a real year has 2 to 6 false "no loss" in 100, and with this 0.5 to 2.
NIGHTS_SHARE = 0.6
#: The same of the differences of pairs, in which most of what lasts has gone. Study: main model.
PAIRS_SHARE = 0.3
#: The part of the nights at either end that is trimmed. In the real year, whose nights are 5 % bad,
#: intervals of 20 nights are a third as wide as a mean's.
TRIMMED = 0.2
TRIMMED_FROM = 10  # nights: of fewer, two degrees of freedom are worth more
NEAREST = 1e-3  # days between two nights, at least: none is another's copy
FEWEST = 3  # nights of a side, or pairs
#: The days within which the other side must have a night, or levels have drifted: in the real year,
#: 30 nights on either side, or 20 with 14 days between, have 6 false "no loss" in 100. Half a day
#: more, for nights do not begin to the minute.
MOST_APART = 20.5
#: The probability that anything is said to have lost no more than the limit which has.
LEVEL = 0.025
FARTHEST = math.log(1000)  # of the bounds that are told
MOST_PAIRS = 200  # that may be missing to tell


class Ruling(StrEnum):
    """The verdict on one ratio."""

    NO_LOSS = "no loss"  # above the limit
    LOSS = "loss"
    OPEN = "cannot tell"


@dataclass(frozen=True, slots=True)
class NightValue:
    """The value of one night, or of one pair: ln MiB/s, or the difference of two."""

    day: float  # since any day
    value: float
    name: str = ""  # the same in all cases


@dataclass(frozen=True, slots=True)
class SideLevel:
    """The level of some nights, and how well it is known."""

    value: float
    scatter: float  # variance of one night
    nights: int
    first: float  # day
    last: float
    share: float
    trimmed: float  # the part of the nights at either end
    variance: float  # of `value`
    freedom: float

    def with_nights(self, nights: int) -> SideLevel:
        """Return the same level, known by so many nights at this pace."""
        days = tuple(self.pace * night for night in range(nights))
        variance, freedom = _known(days, self.share, int(self.trimmed * nights))
        return replace(self, nights=nights, variance=variance * self.scatter, freedom=freedom)

    @property
    def pace(self) -> float:
        """Days from a night to the next."""
        return max((self.last - self.first) / (self.nights - 1), NEAREST)


@dataclass(frozen=True, slots=True)
class RateChange:
    """The logarithm of a ratio of rates, and how well it is known."""

    before: SideLevel | None  # None: the nights are of pairs
    after: SideLevel

    @property
    def value(self) -> float:
        return self.after.value - (self.before.value if self.before else 0.0)

    @property
    def error(self) -> float:
        return math.sqrt(sum(level.variance for level in self._levels))

    @property
    def freedom(self) -> float:
        """Welch's degrees of freedom."""
        parts = sum(level.variance**2 / level.freedom for level in self._levels)
        return self.error**4 / parts if parts else min(level.freedom for level in self._levels)

    @property
    def _levels(self) -> list[SideLevel]:
        return [self.before, self.after] if self.before else [self.after]

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """Return the bounds below and above which the logarithm lies with these probabilities."""
        freedom, error = self.freedom, self.error
        return (
            self.value - error * quantile(low, freedom),
            self.value + error * quantile(high, freedom),
        )

    def chance_above(self, value: float) -> float:
        """Return the probability of such nights, or better, if the logarithm were this value."""
        if not self.error:
            return 0.0 if self.value > value else 1.0
        return tail((self.value - value) / self.error, self.freedom)

    def chance_below(self, value: float) -> float:
        """Return the probability of such nights, or worse, if the logarithm were this value."""
        return 1 - self.chance_above(value) if self.error else float(self.value >= value)

    def nights_missing(self, limit: float, low: float, high: float) -> int | None:
        """Count the further nights like these after which there is something to tell; None: so many
        cannot count. `limit` is a logarithm, and the probabilities are those of the bounds."""
        room = MOST_PAIRS
        if self.before:
            room = int((self.before.last + MOST_APART - self.after.last) / self.after.pace)

        def tells(more: int) -> bool:
            after = self.after.with_nights(self.after.nights + more)
            lowest, highest = RateChange(self.before, after).bounds(low, high)
            return lowest > limit or highest < 0

        more = 1 + bisect_left(range(1, room + 1), True, key=tells)
        return more if more <= room else None


def level_of(nights: Sequence[NightValue], share: float) -> SideLevel:
    """The level of some nights, of which one and the next share this part of their noise."""
    count = len(nights)
    trimmed = TRIMMED if count >= TRIMMED_FROM else 0.0
    cut = int(trimmed * count)
    days = tuple(sorted(night.day for night in nights))
    values = sorted(night.value for night in nights)
    middle = values[cut : count - cut]
    ends = [middle[0]] * cut + middle + [middle[-1]] * cut
    mean = fmean(ends)
    free = count * (1 - _mean_share(days, share))
    scatter = sum((value - mean) ** 2 for value in ends) / free
    variance, freedom = _known(days, share, cut)
    return SideLevel(
        value=fmean(middle),
        scatter=scatter,
        nights=count,
        first=days[0],
        last=days[-1],
        share=share,
        trimmed=trimmed,
        variance=variance * scatter,
        freedom=freedom,
    )


def near(
    before: Sequence[NightValue], after: Sequence[NightValue]
) -> tuple[list[NightValue], list[NightValue]]:
    """The nights of either side that the other has a night near to; all, if it has none at all."""
    last = max((night.day for night in before), default=math.inf)
    first = min((night.day for night in after), default=-math.inf)
    return (
        [night for night in before if first - night.day <= MOST_APART],
        [night for night in after if night.day - last <= MOST_APART],
    )


def between(before: Sequence[NightValue], after: Sequence[NightValue]) -> RateChange | None:
    """The change from some nights to others; None if they are too few."""
    if min(len(before), len(after)) < FEWEST:
        return None
    return RateChange(level_of(before, NIGHTS_SHARE), level_of(after, NIGHTS_SHARE))


def of_pairs(differences: Sequence[NightValue]) -> RateChange | None:
    """The change that pairs show, each the difference of two runs; None if they are too few."""
    if len(differences) < FEWEST:
        return None
    return RateChange(None, level_of(differences, PAIRS_SHARE))


def together(cases: Sequence[Sequence[NightValue]]) -> list[NightValue]:
    """The nights of several cases as those of one, whose level is the mean of theirs. A case that
    was not measured in a night is at its own level there."""
    nights: dict[str, list[tuple[NightValue, float]]] = {}
    for of_case in cases:
        level = fmean(night.value for night in of_case)
        for night in of_case:
            nights.setdefault(night.name, []).append((night, night.value - level))
    level = fmean(fmean(night.value for night in of_case) for of_case in cases)
    return [
        NightValue(
            fmean(night.day for night, _ in there), level + fmean(rest for _, rest in there), name
        )
        for name, there in nights.items()
    ]


def level_for(chances: Sequence[float], level: float = LEVEL) -> float:
    """The level at which each of these is decided, by Hochberg's step-up.

    It is the level itself if all of them keep it, or a part of it for each that does not. Thus the
    probability that any is claimed wrongly is at most the level, whichever and how many are so.
    """
    ordered = sorted(chances, reverse=True)
    steps = (level / place for place, chance in enumerate(ordered, 1) if chance <= level / place)
    return next(steps, level / max(len(ordered), 1))


@dataclass(frozen=True)
class Decision:
    """The verdicts on all changes together, and the levels of the bounds that decide."""

    limit: float  # the part that may be lost
    low: float
    high: float

    @classmethod
    def make(cls, changes: Collection[RateChange | None], limit: float) -> Decision:
        """Decide on all of these changes; what has too few nights can claim nothing."""
        known = [change for change in changes if change]
        least = math.log1p(-limit)
        return cls(
            limit,
            level_for([change.chance_above(least) for change in known]),
            level_for([change.chance_below(0.0) for change in known]),
        )

    def bounds(self, change: RateChange) -> tuple[float, float]:
        """Return the interval of a ratio, from a thousandth to a thousand times at most."""
        low, high = change.bounds(self.low, self.high)
        return math.exp(max(low, -FARTHEST)), math.exp(min(high, FARTHEST))

    def answer(self, change: RateChange | None) -> Ruling:
        """Say what a change comes to. A loss that is surely below the limit is none above it."""
        if change is None:
            return Ruling.OPEN
        if change.chance_above(math.log1p(-self.limit)) <= self.low:
            return Ruling.NO_LOSS
        return Ruling.LOSS if change.chance_below(0.0) <= self.high else Ruling.OPEN

    def nights_missing(self, change: RateChange) -> int | None:
        """Count the further nights after which this is told; None: there are too many."""
        return change.nights_missing(math.log1p(-self.limit), self.low, self.high)


# What nights share


@cache
def _known(days: tuple[float, ...], share: float, cut: int) -> tuple[float, float]:
    """Return the variance of the level of nights on these days, as a part of that of one night, and
    its degrees of freedom. The noise of two nights has this correlation to the power of the days
    between them, and `cut` of them are trimmed at either end."""
    count = len(days)
    kept = count - 2 * cut
    mean_share = _mean_share(days, share)
    rows, squares = _sums(days, share)
    # Traces of the centred correlation matrix and of its square: Satterthwaite's approximation.
    first = count * (1 - mean_share)
    second = squares - 2 * sum(row * row for row in rows) / count + (count * mean_share) ** 2
    freedom = first**2 / second * (kept - 1) / (count - 1)
    trimmed = count * (count - 1) / (kept * (kept - 1))
    return mean_share * trimmed, freedom


def _mean_share(days: tuple[float, ...], share: float) -> float:
    """Return the mean correlation of any two of these nights, or of one with itself."""
    return sum(_sums(days, share)[0]) / len(days) ** 2


@cache
def _sums(days: tuple[float, ...], share: float) -> tuple[list[float], float]:
    """Return the sum of each row of the correlation matrix, and the sum of all of its squares."""
    matrix = [
        [1.0 if day is other else share ** max(abs(day - other), NEAREST) for other in days]
        for day in days
    ]
    return [sum(row) for row in matrix], sum(common**2 for row in matrix for common in row)


# Student's t


@cache
def quantile(chance: float, freedom: float) -> float:
    """Return what Student's t exceeds with this probability, below one half."""
    low, high = 0.0, 1.0
    while tail(high, freedom) > chance:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > chance else (low, middle)
    return high


def tail(t: float, freedom: float) -> float:
    """Return the probability that Student's t exceeds this value."""
    both = _beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return both / 2 if t >= 0 else 1 - both / 2


def _beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function."""
    if not 0 < x < 1:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    # Lentz's continued fraction.
    fraction, c, d = 1.0, 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 1000):
        odd, even = (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        )
        for term in (odd, even):
            d, c = 1 / (1 + term * d), 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction


@cache
def interval_rank(count: int, confidence: float) -> int:
    """The value, counted from either end, that ends the interval of the median of so many values;
    0: they are too few.

    The median lies below the k-th smallest of n values with the probability that fewer than k of n
    coins show heads.
    """
    left = (1 - confidence) / 2 * (1 + 1e-12)
    below = accumulate(math.comb(count, rank) for rank in range(count))
    return sum(1 for _ in takewhile(lambda coins: coins / 2**count <= left, below))
