"""The result of the rounds of `iowatch blame`: how much worse each environment is, and which change
carries the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, median_low
from typing import Annotated

import attrs

from iowatch.base.documents import filled
from iowatch.base.text import one_line
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.judge.change import interval_rank
from iowatch.measure.checks import METRICS
from iowatch.night.case_night import Change
from iowatch.night.job_script import in_words

CONFIDENCE = 0.95
GOOD, RED = 0, 1  # the environments that are always tried; then each change alone

TRIFLE = 0.2  # a smaller part of what was lost is not worth a sentence
UNSURE = "not certain"


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


@dataclass(frozen=True)
class Loss:
    """The loss of the metric with an environment, compared with the good one in each round."""

    typical: float  # the median of all rounds (of an even number, the lower of two)
    low: float
    high: float
    round: int  # the round that has lost this, from 0: its values are those to show

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
    values: Annotated[Sequence[float], "The metric in each round."]
    rates: Annotated[Sequence[float], "The rate in each round."]
    worse_by: LossEntry | None
    fault: Annotated[str, "Why it could not be run; empty: it was."]


@attrs.frozen(kw_only=True)
class LossEntry:
    """The loss beside the good environment, as a part of its value or, of a metric that is a part,
    as a difference."""

    typical: Annotated[float, "The median of all rounds."]
    low: Annotated[float, "The 95 % confidence interval."]
    high: float


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
        tried = [
            filled(
                TriedEntry,
                entry,
                change=in_words(entry.change) if entry.change else None,
                worse_by=loss and filled(LossEntry, loss),
                fault=one_line(entry.fault),
            )
            for entry in self.tried
            for loss in [self.loss(entry)]
        ]
        return filled(
            BlameDocument,
            self,
            good=self.good.night,
            red=self.red.night,
            certain=self.is_sure,
            conclusion=one_line(self.conclusion),
            environments=tried,
            notes=[*map(one_line, self.notes)],
            folder=str(self.folder or ""),
        )

    @property
    def is_sure(self) -> bool:
        return not self.conclusion.startswith(UNSURE)

    @property
    def conclusion(self) -> str:
        if not self.tried:
            same = f"the job scripts of {self.good.night} and {self.red.night} are the same"
            why = "the cause is the filesystem, or something that is not on record"
            if self.notes:
                why = "what may have caused the loss cannot be brought back"
            return f"{same}, so nothing was run: {why}"
        for tried in self.tried[: RED + 1]:
            if tried.fault:
                night = (self.good if tried is self.tried[GOOD] else self.red).night
                return f"{UNSURE}: the environment of {night} no longer runs: {tried.fault}"
        whole = self.loss(self.tried[RED])
        assert whole  # it has no fault
        is_part = whole.high < self.lost / 2
        if whole.low <= 0 or whole.typical < TRIFLE * self.lost:
            return self._no_change(whole, is_part)
        if not is_part:
            return self._changes(whole)
        lost = f"on {self.red.night} it was {extent(self.metric, self.lost)}"
        return f"{self._changes(whole)}; {lost}, and the rest comes from no environment"

    def _no_change(self, whole: Loss, is_sure: bool) -> str:
        loss = f"{self.metric} is {with_interval(self.metric, whole)} with the environment of"
        if not is_sure:
            return (
                f"{UNSURE}: {loss} {self.red.night} than with that of {self.good.night}, which "
                "may be nothing or all that was lost: try again when the filesystem is quieter, or "
                "with more --rounds"
            )
        nights = f"the environments of {self.good.night} and {self.red.night}"
        now = median(self.tried[GOOD].values)
        still = worse(self.metric, now, self.good.metrics[self.metric]) >= self.lost / 2
        if still:
            speed, why = "slow", "the cause is the filesystem, or something that no script says"
        else:
            speed, why = "fast", "what caused the loss has gone"
        alike = f"{nights} are equally {speed} now ({loss} the latter)"
        return f"no change carries the loss: {alike}: {why}"

    def _changes(self, whole: Loss) -> str:
        alone = self.tried[RED + 1 :]
        if not alone:
            (change,) = (tried.change for tried in self.tried[RED:])
            assert change  # the only one
            return f"{in_words(change)} carries the loss: {self._with(whole)}"
        losses = [(tried, loss) for tried in alone if (loss := self.loss(tried))]
        shares = [
            (tried, loss)
            for tried, loss in losses
            if loss.low > 0 and loss.typical >= TRIFLE * whole.typical
        ]
        main = [(tried, loss) for tried, loss in shares if loss.typical >= whole.typical / 2]
        if len(main) == 1:
            ((tried, loss),) = main
            assert tried.change
            return f"{in_words(tried.change)} carries the loss: {self._with(loss)} alone"
        every = f"{self.metric} is {with_interval(self.metric, whole)} with all changes together"
        if guilty := main or shares:
            losses_alone = ", ".join(
                f"{with_interval(self.metric, loss)} with {in_words(tried.change)} alone"
                for tried, loss in guilty
                if tried.change
            )
            who = "each of several changes carries the loss"
            if not main:
                several = "each of several changes" if len(guilty) > 1 else "one change alone"
                who = f"{several} carries a part of the loss"
            return f"{who}: {self.metric} is {losses_alone}; {every}"
        failed = [t.change.name for t in alone if t.fault and t.change]
        rest = f" ({' and '.join(failed)} cannot be run alone)" if failed else ""
        return f"no change alone carries the loss{rest}: {every}"

    def _with(self, loss: Loss) -> str:
        return f"{self.metric} is {with_interval(self.metric, loss)} with it"
