"""The question of a certificate: which runs were made before a change, and which after it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import ClassVar

import attrs

from iowatch.base.bounded import json_of
from iowatch.base.records import CASES, INSTANT, NAME, TEXT, Record, key, list_of, number, optional
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.run import Run, began
from iowatch.evidence.gather import write
from iowatch.judge.change import MOST_PAIRS, NightValue, near
from iowatch.measure.case_ids import known_case

QUESTION = "question.json"  # in the folder of the evidence
BEFORE, AFTER = 0, 1
DAY_S = 86400.0
LONGEST_S = 2 * DAY_S  # of a session, and from a night to the last of its re-runs
_EVER = (datetime(1970, 1, 3, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))

#: The nights of a case: before and after a change; or the differences of pairs alone.
Series = Sequence[Sequence[NightValue]]


@dataclass(frozen=True)
class Chosen:
    """A run that is asked about."""

    run: Run
    case: Case  # that the run is one of; of runs in turn, the one before
    side: int
    unit: str  # its night; of a run by hand its session


@attrs.frozen(kw_only=True)
class Question(Record):
    """A question, who asks it and when."""

    kind: ClassVar[str]
    remedy: ClassVar[str]  # where no number of further nights would tell

    system: str = key(NAME)
    change: str = key(TEXT)  # in words
    limit: float = key(number("a number above 0 and below 1", 1e-6, 1 - 1e-6))
    case: re.Pattern[str] = key(CASES, default=re.compile(""))  # of the cases that are compared
    who: str = key(TEXT)
    asked: datetime = key(INSTANT)
    #: On record of the same time.
    events: Sequence[str] = key(list_of(TEXT, "a list of texts", may_be_empty=True), default=())

    def write(self, folder: Path) -> None:
        """Put the question into the folder of the evidence."""
        entry = attrs.asdict(self) | {"kind": self.kind, "case": self.case.pattern}
        times = {k: v.isoformat() for k, v in entry.items() if isinstance(v, datetime)}
        write(folder / QUESTION, entry | times)

    def chosen(self, runs: Iterable[Run]) -> list[Chosen]:
        """The measured runs that count, in the order of time."""
        asked = (run for run in self._asked(runs) if run.run.is_measured)
        return sorted(asked, key=lambda chosen: chosen.run.time)

    def units(self, runs: Iterable[Run]) -> dict[tuple[Case, int], dict[str, list[Run]]]:
        """The runs of each case and side by their night, those that failed among them."""
        units: dict[tuple[Case, int], dict[str, list[Run]]] = {}
        for item in self._asked(runs):
            units.setdefault((item.case, item.side), {}).setdefault(item.unit, []).append(item.run)
        return units

    def _asked(self, runs: Iterable[Run]) -> Iterable[Chosen]:
        return self._placed(
            [
                run
                for run in runs
                if run.case.system == self.system
                and run.case.metrics
                and not (run.of_contract or run.outcome.is_untried)
                and self.case.search(str(run.case))
            ]
        )

    @property
    @abstractmethod
    def span(self) -> tuple[datetime, datetime]:
        """The time in which runs are asked about."""

    @abstractmethod
    def _placed(self, runs: Sequence[Run]) -> Iterable[Chosen]:
        """Say of these runs to which case and side they belong, if to any."""

    @abstractmethod
    def series(self, values: Mapping[Chosen, float]) -> dict[Case, Series]:
        """The nights of each case, by the logarithms of the rates of its runs."""

    def notes(self, values: Iterable[Chosen], series: Mapping[Case, Series]) -> Iterator[str]:
        """Say what else is to be known of the runs that count."""
        for event in self.events:
            yield f"also in these days: {event}"

    @property
    @abstractmethod
    def sides(self) -> tuple[str, str]:
        """Both sides in words."""


@attrs.frozen(kw_only=True)
class ByNights(Question):
    """Nights before a change, and nights after it. The first run of each that is measured counts:
    whether there are more depends on it."""

    kind: ClassVar[str] = "nights"
    remedy: ClassVar[str] = (
        "20 days after the change would not tell: measure both in turn, or allow more loss"
    )

    before_first: datetime = key(INSTANT)
    before_last: datetime = key(INSTANT)
    after_first: datetime = key(INSTANT)
    after_last: datetime = key(INSTANT)

    def contradiction(self) -> str:
        if self.before_first <= self.before_last < self.after_first <= self.after_last:
            return ""
        return (
            f"the nights before are {' to '.join(self._days[:2])}, and those after "
            f"{' to '.join(self._days[2:])}: each must end after it begins, and the first "
            "must end before the second begins"
        )

    @property
    def span(self) -> tuple[datetime, datetime]:
        return self.before_first, self.after_last

    def _placed(self, runs: Sequence[Run]) -> Iterable[Chosen]:
        for run in runs:
            if not run.night:
                continue
            night = began(run.night)
            is_over = run.time < self.after_first  # before the change
            if self.before_first <= night <= self.before_last and is_over:
                yield Chosen(run, run.case, BEFORE, run.night)
            if self.after_first <= night <= self.after_last:
                yield Chosen(run, run.case, AFTER, run.night)

    def chosen(self, runs: Iterable[Run]) -> list[Chosen]:
        first: dict[tuple[Case, str], Chosen] = {}
        for item in super().chosen(runs):
            first.setdefault((item.case, item.unit), item)
        return list(first.values())

    def series(self, values: Mapping[Chosen, float]) -> dict[Case, Series]:
        series: dict[Case, tuple[list[NightValue], list[NightValue]]] = {}
        for item, value in values.items():
            day = began(item.unit).timestamp() / DAY_S
            series.setdefault(item.case, ([], []))[item.side].append(
                NightValue(day, value, item.unit)
            )
        return {case: near(*nights) for case, nights in series.items()}

    def notes(self, values: Iterable[Chosen], series: Mapping[Case, Series]) -> Iterator[str]:
        near_to = {night.name for nights in series.values() for side in nights for night in side}
        if far := {item.unit for item in values} - near_to:
            yield (
                f"{counted(len(far), 'night')} left out, because levels drift: a night counts if "
                "the other side has a night within 20 days"
            )
        yield from super().notes(values, series)

    @property
    def _days(self) -> list[str]:
        times = (self.before_first, self.before_last, self.after_first, self.after_last)
        return [f"{time:%Y-%m-%d}" for time in times]

    @property
    def sides(self) -> tuple[str, str]:
        first, second, third, fourth = self._days
        return f"nights from {first} to {second}", f"nights from {third} to {fourth}"


@attrs.frozen(kw_only=True)
class InTurn(Question):
    """Two ways to measure the same, in turn: two environments, filesystems, pools. Each pair is a
    run with these words in its case's id, and a run of the same session with the other words."""

    kind: ClassVar[str] = "in_turn"
    remedy: ClassVar[str] = (
        f"{MOST_PAIRS} more nights would not tell: measure on other days, or allow more loss"
    )

    before: str = key(NAME)
    after: str = key(NAME)
    first: datetime | None = key(optional(INSTANT), default=None)
    last: datetime | None = key(optional(INSTANT), default=None)

    @property
    def span(self) -> tuple[datetime, datetime]:
        return self.first or _EVER[0], self.last or _EVER[1]

    def _placed(self, runs: Sequence[Run]) -> Iterable[Chosen]:
        first, last = self.span
        here = [run for run in runs if first <= run.time <= last]
        partner = {case: self._after(case) for case in {run.case for run in here}}
        before = {after: case for case, after in partner.items() if after}
        for run in here:
            unit = run.night or run.session
            if partner[run.case]:  # also without runs of the other
                yield Chosen(run, run.case, BEFORE, unit)
            elif run.case in before:
                yield Chosen(run, before[run.case], AFTER, unit)

    def _after(self, case: Case) -> Case | None:
        """The case with the words of the other side in the place of these; None: it has none."""
        words = rf"(?<![^:/]){re.escape(self.before)}(?![^:/])"
        text, count = re.subn(words, lambda _: self.after, str(case))
        return known_case(text) if count else None

    def series(self, values: Mapping[Chosen, float]) -> dict[Case, Series]:
        pairs: dict[Case, dict[str, tuple[list[Chosen], list[Chosen]]]] = {}
        for item in values:
            units = pairs.setdefault(item.case, {})
            units.setdefault(item.unit, ([], []))[item.side].append(item)
        series: dict[Case, Series] = {}
        for case, units in pairs.items():
            nights = []
            for unit, (before, after) in units.items():
                both = list(zip(before, after, strict=False))
                if both:
                    times = [item.run.time.timestamp() for pair in both for item in pair]
                    value = fmean(values[last] - values[first] for first, last in both)
                    nights.append(NightValue(fmean(times) / DAY_S, value, unit))
            series[case] = (nights,)
        return series

    def notes(self, values: Iterable[Chosen], series: Mapping[Case, Series]) -> Iterator[str]:
        order: dict[tuple[Case, str], list[Chosen]] = {}
        for item in sorted(values, key=lambda item: item.run.time):
            order.setdefault((item.case, item.unit), []).append(item)
        firsts = {runs[0].side for runs in order.values()}
        if len(firsts) == 1 and len({unit for _, unit in order}) > 1:
            first = self.sides[firsts.pop()]
            yield f"{first} was always measured first: let the other begin every second time"
        yield from super().notes(values, series)

    @property
    def sides(self) -> tuple[str, str]:
        return self.before, self.after


KINDS: Mapping[str, type[Question]] = {kind.kind: kind for kind in (ByNights, InTurn)}


def read_question(folder: Path) -> Question:
    """Read the question that the evidence in a folder answers."""
    entry = json_of(folder / QUESTION)
    return KINDS[entry.pop("kind")].read(str(folder / QUESTION), entry)
