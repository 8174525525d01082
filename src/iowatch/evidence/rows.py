"""The rows of a certificate: what the change has cost each case, and groups of cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from iowatch.base.text import counted
from iowatch.cases.case import Case, short_names
from iowatch.cases.run import Run, deciding
from iowatch.evidence.question import AFTER, BEFORE, Question, Series
from iowatch.judge.change import FEWEST, Decision, RateChange, Ruling, between, of_pairs, together
from iowatch.measure.case_ids import table_order


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case, or a group of cases, and the verdict on it."""

    name: str
    cases: Sequence[Case]
    filesystem: str = ""  # of a case
    series: Series
    nights: str  # how many, in words
    why: str = ""  # why no certificate can be given, whatever the rates are; or what would tell
    answer: Ruling = Ruling.OPEN
    ratio: float | None = None  # after over before; None: not known
    low: float | None = None
    high: float | None = None
    nights_missing: int | None = None  # before it can be told; None: no number, or no need

    @cached_property
    def change(self) -> RateChange | None:
        """The change that the nights show; None: they are too few."""
        return between(*self.series) if len(self.series) > 1 else of_pairs(self.series[0])

    def judged(self, decision: Decision, remedy: str) -> Row:
        """The row with its verdict, and the remedy where no number of nights would tell."""
        if not (change := self.change):
            too_few = f"nights on record: {self.nights}; at least {FEWEST} are needed"
            return replace(self, why=self.why or too_few)
        low, high = decision.bounds(change)
        answer, why, missing = decision.answer(change), self.why, None
        if why and answer is Ruling.NO_LOSS:
            answer = Ruling.OPEN
        if answer is Ruling.OPEN and not why:
            missing = decision.nights_missing(change)
            why = f"about {counted(missing, 'more night')} would tell" if missing else remedy
        return replace(
            self, answer=answer, ratio=math.exp(change.value), low=low, high=high,
            nights_missing=missing, why=why,
        )  # fmt: skip


def rows_of(
    question: Question,
    series: Mapping[Case, Series],
    units: Mapping[tuple[Case, int], Mapping[str, Sequence[Run]]],
) -> tuple[list[Row], list[Row]]:
    """The rows of groups, and those of all cases that were asked about."""
    every = sorted({case for case, _ in units}, key=table_order)
    names = short_names(every)
    nothing: Series = [()] * len(next(iter(series.values())))
    rows = []
    for case in every:
        nights = series.get(case, nothing)
        before, after = (units.get((case, side), {}) for side in (BEFORE, AFTER))
        run = next(run for runs in (before or after).values() for run in runs)
        rows.append(
            Row(
                name=names[case],
                cases=[case],
                filesystem=run.filesystem or case.partition,
                series=nights,
                nights=question.nights_of(nights),
                why=_more_failures(before, after),
            )
        )
    return list(_groups(question, rows)), rows


#: A word that the cases of a group share, by the kind of group.
_GROUPS: Mapping[str, Callable[[Row], str]] = {
    "filesystem": lambda row: row.filesystem,
    "library": lambda row: row.cases[0].backend,
    "direction": lambda row: row.cases[0].operation,
}


def _groups(question: Question, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield groups of two cases or more that have enough nights, no two of the same cases."""
    known = [row for row in rows if row.change]
    groups: dict[str, list[Row]] = {"all cases": known}
    for kind, word_of in _GROUPS.items():
        for row in known:
            if word := word_of(row):
                groups.setdefault(f"{kind} {word}", []).append(row)
    seen = set()
    for name, members in groups.items():
        cases = frozenset(case for row in members for case in row.cases)
        if len(members) < 2 or cases in seen:
            continue
        seen.add(cases)
        sides = range(len(members[0].series))
        series = tuple(together([row.series[side] for row in members]) for side in sides)
        yield Row(
            name=f"{name} ({counted(len(members), 'case')})",
            cases=sorted(cases, key=table_order),
            series=series,
            nights=question.nights_of(series),
        )


def _more_failures(before: Mapping[str, Sequence[Run]], after: Mapping[str, Sequence[Run]]) -> str:
    """Say on how many nights a case has failed, if that is more of them after the change."""
    failed = [sum(deciding(runs).outcome.is_failed for runs in s.values()) for s in (before, after)]
    if not after or failed[AFTER] * len(before) <= failed[BEFORE] * len(after):
        return ""
    return (
        f"it failed on {failed[AFTER]} of {counted(len(after), 'night')} after the change, and on "
        f"{failed[BEFORE]} of {len(before)} before"
    )
