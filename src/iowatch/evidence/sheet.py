"""The certificate of a change: its verdicts in lines, on a page to sign, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import attrs
from markupsafe import Markup

from iowatch.base.documents import document, filled
from iowatch.base.svg import interval_bar
from iowatch.base.text import counted
from iowatch.evidence.bundle import Seal
from iowatch.evidence.judgement import Judgement, filled_in
from iowatch.evidence.question import Question
from iowatch.evidence.rows import CertificateRow
from iowatch.judge.change import LEVEL, Ruling

_MOST_NOTES = 5
_COLOURS = {Ruling.NO_LOSS: "pass", Ruling.LOSS: "fail", Ruling.OPEN: "open"}
_FARTHEST = math.log(2)  # of the axis: a half, and twice as fast


@dataclass(frozen=True, kw_only=True)
class ChangeJudged(Judgement):
    """The judgement on a change, by its evidence."""

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
        question = self.question
        before, after = question.sides
        yield f"{question.change}: {question.system}, {after} compared with {before}"
        yield conclusion(self)
        for row in (*self.groups, *self.cases):
            line = f"{in_words(row.verdict, question.limit)}: {row.name}"
            if row.ratio is not None:
                line += f": {interval(row)}, {row.nights} nights"
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

    def page(self, seal: Seal, folder: Path) -> str:
        every, limit = (*self.groups, *self.cases), self.question.limit
        ends = [abs(math.log(b)) for v in every for b in (v.low, v.high) if b is not None and b > 0]
        reach = min(max([2 * -math.log1p(-limit), *ends]), _FARTHEST)
        return filled_in(
            "certificate.html.j2",
            judged=self,
            question=self.question,
            conclusion=conclusion(self),
            classes=_COLOURS,
            blocks=[("groups", self.groups), ("cases", self.cases)],
            word=lambda row: in_words(row.verdict, limit),
            interval=interval,
            bar=lambda row: _bar(row, limit, reach),
            percent=percent,
            level=LEVEL,
            seal=seal,
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


def conclusion(judged: ChangeJudged) -> str:
    """The sentence that is signed."""
    cases, limit = judged.cases, judged.question.limit
    answer, of_all = judged.answer, counted(len(cases), "case")
    if answer is Ruling.NO_LOSS:
        where = f"any of {of_all}" if len(cases) > 1 else "the only case"
        return (
            f"No loss above {percent(limit)} in {where}. If a case has lost more, this sentence "
            f"has a probability of at most {percent(LEVEL)}."
        )
    lost = [row for row in cases if row.verdict is Ruling.LOSS] or [
        row for row in judged.groups if row.verdict is Ruling.LOSS
    ]
    if lost:
        worst = min(lost, key=lambda row: row.ratio or 0)
        where = f"in {len(lost)} of {of_all}" if worst in cases else "in a group of cases"
        return f"Loss {where}; the largest is that of {worst.name}, {interval(worst)}."
    well = sum(row.verdict is Ruling.NO_LOSS for row in cases)
    rest = [row.nights_missing for row in cases if row.verdict is Ruling.OPEN]
    known = [count for count in rest if count]
    more = ""
    if known:
        which = "the others" if len(known) == len(rest) else f"{len(known)} of the others"
        more = f" About {counted(max(known), 'more night')} would tell of {which}."
    return (
        f"Cannot tell: no loss above {percent(limit)} is certain in {well} of {of_all}, and the "
        f"others may have one.{more}"
    )


def in_words(answer: Ruling, limit: float) -> str:
    """An answer, with the limit that it is about."""
    return f"{answer} above {percent(limit)}" if answer is Ruling.NO_LOSS else str(answer)


def percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def interval(row: CertificateRow) -> str:
    """A change with its interval: `-3.1 % (-5.0 % to -1.2 %)`."""
    if row.ratio is None or row.low is None or row.high is None:
        return ""
    low, high = signed(row.low), signed(row.high)
    return f"{signed(row.ratio)} ({low} to {high})"


def signed(ratio: float) -> str:
    """A ratio as what was gained or lost."""
    if not 0.1 <= ratio <= 10:
        return "below -90 %" if ratio < 1 else "above +900 %"
    return f"{100 * (ratio - 1):+z.1f} %"


def _bar(row: CertificateRow, limit: float, reach: float) -> Markup:
    """Draw the interval of a row, with the limit and no change."""
    title = f"{row.name}: {interval(row) or 'not known'}"
    logs = [math.log(value) for value in (row.ratio, row.low, row.high) if value]
    return interval_bar(title, logs, reach, math.log1p(-limit), class_=_COLOURS[row.verdict])
