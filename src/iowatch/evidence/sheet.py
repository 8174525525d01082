"""The certificate of a change: its verdicts in lines, on a page to sign, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import attrs
from markupsafe import Markup

from iowatch.base.documents import document, filled
from iowatch.base.svg import interval_bar
from iowatch.base.text import counted, one_line
from iowatch.cases.case import Case, short_names
from iowatch.cases.run import Run, deciding
from iowatch.evidence.judgement import Judgement, percent
from iowatch.evidence.question import AFTER, BEFORE, Question, Series
from iowatch.judge.change import (
    FEWEST,
    LEVEL,
    Decision,
    RateChange,
    Ruling,
    between,
    of_pairs,
    together,
)
from iowatch.measure.case_ids import table_order

_MOST_NOTES = 5
_FARTHEST = math.log(2)  # of the axis: a half, and twice as fast


@attrs.frozen(kw_only=True)
class CertificateRow:
    """The judgement on a case, or on a group of cases."""

    name: str
    kind: Annotated[str, {"enum": ["group", "case"]}]
    cases: Sequence[Case]
    nights: Annotated[str, "How many there are, in words."]
    verdict: Ruling = Ruling.OPEN
    ratio: Annotated[
        float | None, "The rate after the change over that before; null: not known."
    ] = None
    low: Annotated[float | None, "The interval of the ratio."] = None
    high: float | None = None
    nights_missing: Annotated[
        int | None,
        "About so many more nights would tell; null: no number, or it is told.",
    ] = None
    why: Annotated[str, "Why it cannot be told; empty: it can."]

    @property
    def interval(self) -> str:
        """The change with its interval: `-3.1 % (-5.0 % to -1.2 %)`; empty: it is not known."""
        if self.ratio is None or self.low is None or self.high is None:
            return ""
        return f"{signed(self.ratio)} ({signed(self.low)} to {signed(self.high)})"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case, or a group of cases, before it is judged."""

    name: str
    cases: Sequence[Case]
    filesystem: str = ""  # of a case
    series: Series
    why: str = ""  # why no certificate can be given, whatever the rates are

    @property
    def nights(self) -> str:
        """How many there are, in words."""
        return " and ".join(str(len(side)) for side in self.series)

    @cached_property
    def change(self) -> RateChange | None:
        """The change that the nights show; None: they are too few."""
        return between(*self.series) if len(self.series) > 1 else of_pairs(self.series[0])

    def judged(self, decision: Decision, remedy: str) -> CertificateRow:
        """Judge the row; `remedy` is what to do where no number of nights would tell."""
        kind, known, why = "case" if self.filesystem else "group", dict[str, Any](), self.why
        if change := self.change:
            low, high = decision.bounds(change)
            answer, missing = decision.answer(change), None
            if why and answer is Ruling.NO_LOSS:
                answer = Ruling.OPEN
            if answer is Ruling.OPEN and not why:
                missing = decision.nights_missing(change)
                why = f"about {counted(missing, 'more night')} would tell" if missing else remedy
            known = {"verdict": answer, "ratio": math.exp(change.value), "low": low, "high": high}
            known["nights_missing"] = missing
        elif not why:
            why = f"nights on record: {self.nights}; at least {FEWEST} are needed"
        return filled(CertificateRow, self, kind=kind, why=one_line(why), **known)


def rows_of(
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
        sides = [[deciding(runs).outcome for runs in side.values()] for side in (before, after)]
        then, now = (sum(outcome.is_failed for outcome in side) for side in sides)
        why = ""
        if after and now * len(before) > then * len(after):
            why = (
                f"it failed on {now} of {counted(len(after), 'night')} after the change, and on "
                f"{then} of {len(before)} before"
            )
        rows.append(
            Row(
                name=names[case],
                cases=[case],
                filesystem=run.filesystem or case.partition,
                series=nights,
                why=why,
            )
        )
    return list(_groups(rows)), rows


#: A word that the cases of a group share, by the kind of group.
_GROUPS: Mapping[str, Callable[[Row], str]] = {
    "filesystem": lambda row: row.filesystem,
    "library": lambda row: row.cases[0].backend,
    "direction": lambda row: row.cases[0].operation,
}


def _groups(rows: Sequence[Row]) -> Iterator[Row]:
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
        )


@dataclass(frozen=True, kw_only=True)
class ChangeJudged(Judgement):
    """The judgement on a change, by its evidence."""

    template: ClassVar[str] = "certificate.html.j2"
    classes: ClassVar[Mapping[Ruling, str]] = MappingProxyType(
        {Ruling.NO_LOSS: "pass", Ruling.LOSS: "fail", Ruling.OPEN: "open"}
    )
    level: ClassVar[float] = LEVEL

    question: Question
    groups: Sequence[CertificateRow]
    cases: Sequence[CertificateRow]
    differs: Mapping[str, tuple[str, str]]  # provenance that differs after the change
    notes: Sequence[str] = ()

    @property
    def answer(self) -> Ruling:
        """The answer on the change: a loss if anything has lost, and none if no case has."""
        answers = {row.verdict for row in self.cases}
        if Ruling.LOSS in answers | {row.verdict for row in self.groups}:
            return Ruling.LOSS
        return Ruling.NO_LOSS if answers == {Ruling.NO_LOSS} else Ruling.OPEN

    @property
    def passes(self) -> bool:
        return self.answer is Ruling.NO_LOSS

    def sentences(self) -> Iterator[str]:
        """Yield the question, the answer, and the verdict on every group and case."""
        before, after = self.question.sides
        yield f"{self.question.change}: {self.question.system}, {after} compared with {before}"
        yield self.conclusion
        for row in (*self.groups, *self.cases):
            line = f"{self.word(row)}: {row.name}"
            if row.interval:
                line += f": {row.interval}, {row.nights} nights"
            yield line + (f"; {row.why}" if row.why else "")
        for name, (then, now) in self.differs.items():
            yield f"changed: {name}: {then} before, {now} after"
        yield from self.shown_notes

    @property
    def shown_notes(self) -> list[str]:
        """The first notes, and how many more there are."""
        rest = len(self.notes) - _MOST_NOTES
        more = [f"and {counted(rest, 'more note')}"] if rest > 0 else []
        return [*self.notes[:_MOST_NOTES], *more]

    @property
    def limit(self) -> float:
        return self.question.limit

    def word(self, row: CertificateRow) -> str:
        """A verdict, with the limit that it is about."""
        is_none = row.verdict is Ruling.NO_LOSS
        return f"{row.verdict} above {percent(self.limit)}" if is_none else str(row.verdict)

    def bar(self, row: CertificateRow) -> Markup:
        """Draw the interval of a row, with the limit and no change."""
        every, lost = (*self.groups, *self.cases), math.log1p(-self.limit)
        ends = [abs(math.log(end)) for row in every for end in (row.low, row.high) if end]
        reach = min(max([-2 * lost, *ends]), _FARTHEST)
        logs = [math.log(value) for value in (row.ratio, row.low, row.high) if value]
        title, class_ = f"{row.name}: {row.interval or 'not known'}", self.classes[row.verdict]
        return interval_bar(title, logs, reach, lost, class_=class_)

    @property
    def conclusion(self) -> str:
        """The sentence that is signed."""
        cases, limit = self.cases, self.limit
        answer, of_all = self.answer, counted(len(cases), "case")
        if answer is Ruling.NO_LOSS:
            where = f"any of {of_all}" if len(cases) > 1 else "the only case"
            return (
                f"No loss above {percent(limit)} in {where}. If a case has lost more, this "
                f"sentence has a probability of at most {percent(LEVEL)}."
            )
        lost = [row for row in cases if row.verdict is Ruling.LOSS] or [
            row for row in self.groups if row.verdict is Ruling.LOSS
        ]
        if lost:
            worst = min(lost, key=lambda row: row.ratio or 0)
            where = f"in {len(lost)} of {of_all}" if worst in cases else "in a group of cases"
            return f"Loss {where}; the largest is that of {worst.name}, {worst.interval}."
        well = sum(row.verdict is Ruling.NO_LOSS for row in cases)
        rest = [row.nights_missing for row in cases if row.verdict is Ruling.OPEN]
        known = [count for count in rest if count]
        more = ""
        if known:
            which = "the others" if len(known) == len(rest) else f"{len(known)} of the others"
            more = f" About {counted(max(known), 'more night')} would tell of {which}."
        return (
            f"Cannot tell: no loss above {percent(limit)} is certain in {well} of {of_all}, and "
            f"the others may have one.{more}"
        )

    def document(self, lines: Sequence[str], is_same: bool = True) -> str:
        before, after = self.question.sides
        return document(
            certificate=filled(
                Certificate,
                self.question,
                before=before,
                after=after,
                verdict=self.answer,
                as_told=is_same,
                rows=[*self.groups, *self.cases],
                lines=lines,
            )
        )


@attrs.frozen(kw_only=True)
class Certificate:
    """The judgement on a change."""

    change: Annotated[str, "What was changed."]
    system: str
    before: Annotated[str, "The runs before the change."]
    after: str
    limit: Annotated[float, "The part that may be lost."]
    verdict: Ruling
    as_told: Annotated[bool, "Are the verdicts those that the maker of the evidence was told?"]
    rows: Sequence[CertificateRow]
    lines: Annotated[Sequence[str], "What is printed without --json."]


def signed(ratio: float) -> str:
    """A ratio as what was gained or lost."""
    if not 0.1 <= ratio <= 10:
        return "below -90 %" if ratio < 1 else "above +900 %"
    return f"{100 * (ratio - 1):+z.1f} %"
