"""The result of the rounds of `iowatch blame`: how much worse each environment is, and which change
carries the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median, median_low
from typing import Annotated

import attrs

from iowatch.base.documents import Count, filled
from iowatch.base.text import one_line
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.judge.change import interval_rank
from iowatch.measure.checks import METRICS
from iowatch.night.job_script import in_words
from iowatch.night.trend import Change

CONFIDENCE = 0.95
GOOD, RED = 0, 1  # the environments that are always tried; then each change alone

TRIFLE = 0.2  # a smaller part of what was lost is not worth a sentence
UNSURE = "not certain"

_SAME = "the job scripts of {good} and {red} are the same, so nothing was run: "
_ALIKE = (
    "no change carries the loss: the environments of {good} and {red} are equally %s now ({metric} "
    "is {loss} with the environment of the latter): %s"
)
#: The conclusions that name no change.
_CONCLUSIONS = {
    "the same": _SAME + "the cause is the filesystem, or something that is not on record",
    "not stored": _SAME + "what may have caused the loss cannot be brought back",
    "noisy": f"{UNSURE}: {{metric}} is {{loss}} with the environment of {{red}} than with that of "
    "{good}, which may be nothing or all that was lost: try again when the filesystem is quieter, "
    "or with more --rounds",
    "slow": _ALIKE % ("slow", "the cause is the filesystem, or something that no script says"),
    "fast": _ALIKE % ("fast", "what caused the loss has gone"),
}


def worse(name: str, now: float, then: float) -> float:
    """By what part of `then` a metric is worse now, or, if it is a part itself, by how much;
    negative: it is better."""
    if _is_part(name):
        return now - then
    if then == 0:
        return math.inf if now else 0.0
    return now / then - 1 if METRICS[name].lower_is_better else 1 - now / then


def _is_part(name: str) -> bool:
    return METRICS[name].largest == 1


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where their median is with 95 % confidence or more, whatever they are spread like. Six values
    at least."""
    ordered, rank = sorted(values), interval_rank(len(values), CONFIDENCE)
    return ordered[rank - 1], ordered[-rank]


@attrs.frozen
class Loss:
    """The loss beside the good environment, as a part of its value or, of a metric that is a part,
    as a difference."""

    typical: Annotated[float, "The median of all rounds (of an even number, the lower of two)."]
    low: Annotated[float, "The 95 % confidence interval."]
    high: float
    round: Annotated[Count, "The round that has lost this, from 0."]

    @classmethod
    def compare(cls, name: str, values: Sequence[float], good: Sequence[float]) -> Loss:
        lost = [worse(name, now, then) for now, then in zip(values, good, strict=True)]
        typical = median_low(lost)
        return cls(typical, *interval(lost), lost.index(typical))


@dataclass(frozen=True)
class Tried:
    """An environment and what came of it."""

    change: Change | None  # that it takes from the red night; None: nothing, or all
    values: Sequence[float] = ()  # of the metric, one of each round
    rates: Sequence[float] = ()  # MiB/s
    fault: str = ""  # why there are none


def extent(name: str, lost: float) -> str:
    """Say how much worse a metric is: `71 % lower`, `0.67 higher`."""
    amount, unit = _amount(name, lost)
    return f"{amount}{unit} {'higher' if METRICS[name].lower_is_better else 'lower'}"


def with_interval(name: str, loss: Loss) -> str:
    """`71 % lower [65 to 77 %]`, `0.67 higher [0.6 to 0.7]`."""
    low, high = (_amount(name, end) for end in (loss.low, loss.high))
    return f"{extent(name, loss.typical)} [{low[0]} to {''.join(high)}]"


def _amount(name: str, lost: float) -> tuple[str, str]:
    number, unit = (f"{lost:.2f}", "") if _is_part(name) else (f"{100 * lost:.0f}", " %")
    return number.removeprefix("-") if float(number) == 0 else number, unit


@attrs.frozen(kw_only=True)
class BlameDocument:
    """What each environment came to, and which change is guilty."""

    case: Case
    metric: Annotated[str, "The metric that was worse."]
    good: Annotated[str, "The last good night."]
    red: Annotated[str, "The night that is compared with it."]
    certain: Annotated[bool, "Is the conclusion certain?"]
    conclusion: str
    environments: Annotated[
        Sequence[TriedEntry],
        "The good one, the red one, then the good one with each change alone.",
    ]
    notes: Sequence[str]
    folder: Annotated[str, "Where the raw results are; empty: nothing was run."]


@attrs.frozen(kw_only=True)
class TriedEntry:
    """An environment and what came of it."""

    change: Annotated[str | None, "The change that was tried; null: none alone."]
    environment: Annotated[str, "What it is, in words."]
    values: Annotated[Sequence[float], "The metric in each round."]
    rates: Annotated[Sequence[float], "The rate in each round."]
    worse_by: Loss | None
    worse_in_words: Annotated[str, "The loss with its interval; empty: not known."]
    fault: Annotated[str, "Why it could not be run; empty: it was."]


@dataclass(frozen=True)
class Culprit:
    case: Case
    metric: str
    good: Run
    red: Run
    tried: Sequence[Tried] = ()  # the good environment, the red one, each change alone
    notes: Sequence[str] = ()
    folder: Path | None = None  # of the raw results

    @property
    def lost(self) -> float:
        return worse(self.metric, self.red.metrics[self.metric], self.good.metrics[self.metric])

    def loss(self, tried: Tried) -> Loss | None:
        """Compare it with the good environment; None: one of the two could not be run."""
        if tried.fault or self.tried[GOOD].fault:
            return None
        return Loss.compare(self.metric, tried.values, self.tried[GOOD].values)

    @property
    def document(self) -> BlameDocument:
        nights = [f"{self.good.night} (good)", self.red.night]

        def entry(number: int, tried: Tried) -> TriedEntry:
            loss, change = self.loss(tried), in_words(tried.change) if tried.change else None
            alone = f"{nights[GOOD]}, but {change}" if number > RED and change else ""
            return filled(
                TriedEntry,
                tried,
                change=change,
                environment=alone or nights[min(number, RED)],
                worse_by=loss,
                worse_in_words=with_interval(self.metric, loss) if loss else "",
                fault=one_line(tried.fault),
            )

        return filled(
            BlameDocument,
            self,
            good=self.good.night,
            red=self.red.night,
            certain=self.is_sure,
            conclusion=one_line(self.conclusion),
            environments=[*map(entry, count(), self.tried)],
            notes=[*map(one_line, self.notes)],
            folder=str(self.folder or ""),
        )

    @property
    def is_sure(self) -> bool:
        return not self.conclusion.startswith(UNSURE)

    @property
    def conclusion(self) -> str:
        told = {"good": self.good.night, "red": self.red.night, "metric": self.metric}
        if not self.tried:
            return _CONCLUSIONS["not stored" if self.notes else "the same"].format(**told)
        for tried, night in zip(self.tried, (self.good.night, self.red.night), strict=False):
            if tried.fault:
                return f"{UNSURE}: the environment of {night} no longer runs: {tried.fault}"
        whole = self.loss(self.tried[RED])
        assert whole  # it has no fault
        told["loss"] = with_interval(self.metric, whole)
        is_part = whole.high < self.lost / 2
        if whole.low <= 0 or whole.typical < TRIFLE * self.lost:
            now = median(self.tried[GOOD].values)
            is_still = worse(self.metric, now, self.good.metrics[self.metric]) >= self.lost / 2
            why = ("slow" if is_still else "fast") if is_part else "noisy"
            return _CONCLUSIONS[why].format(**told)
        if not is_part:
            return self._guilty(whole)
        lost = f"on {self.red.night} it was {extent(self.metric, self.lost)}"
        return f"{self._guilty(whole)}; {lost}, and the rest comes from no environment"

    def _guilty(self, whole: Loss) -> str:
        """The changes that carry this loss of all of them together."""
        if not (alone := self.tried[RED + 1 :]):
            return self._alone(self.tried[RED].change, whole, "with it")
        losses = [(trial.change, loss) for trial in alone if (loss := self.loss(trial))]
        least = TRIFLE * whole.typical
        shares = [entry for entry in losses if entry[1].low > 0 and entry[1].typical >= least]
        main = [entry for entry in shares if entry[1].typical >= whole.typical / 2]
        if len(main) == 1:
            return self._alone(*main[0], "with it alone")
        every = f"{self.metric} is {with_interval(self.metric, whole)} with all changes together"
        if guilty := main or shares:
            carries = "carries the loss" if main else "carries a part of the loss"
            who = "each of several changes" if len(guilty) > 1 else "one change alone"
            losses_alone = ", ".join(
                f"{with_interval(self.metric, loss)} with {in_words(change)} alone"
                for change, loss in guilty
                if change
            )
            return f"{who} {carries}: {self.metric} is {losses_alone}; {every}"
        failed = [trial.change.name for trial in alone if trial.fault and trial.change]
        rest = f" ({' and '.join(failed)} cannot be run alone)" if failed else ""
        return f"no change alone carries the loss{rest}: {every}"

    def _alone(self, change: Change | None, loss: Loss, how: str) -> str:
        assert change  # of the good environment alone there is none
        is_worse = f"{self.metric} is {with_interval(self.metric, loss)} {how}"
        return f"{in_words(change)} carries the loss: {is_worse}"
