"""The certificate itself: lines for a terminal, and one page to print and sign."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from iowatch.base.svg import interval_bar
from iowatch.base.text import counted, one_line
from iowatch.evidence import dossier
from iowatch.evidence.bundle import Seal
from iowatch.evidence.rows import Judgement, Row
from iowatch.judge.change import LEVEL, Ruling

_MOST_NOTES = 5


def summary(judged: Judgement) -> Iterator[str]:
    """The certificate in lines. Text from the evidence makes no line of its own."""
    return map(one_line, _summary(judged))


def _summary(judged: Judgement) -> Iterator[str]:
    question = judged.question
    before, after = question.sides
    yield f"{question.change}: {question.system}, {after} compared with {before}"
    yield conclusion(judged)
    for row in (*judged.groups, *judged.cases):
        line = f"{in_words(row.answer, question.limit)}: {row.name}"
        if row.ratio is not None:
            line += f": {interval(row)}, {row.nights} nights"
        yield line + (f"; {row.why}" if row.why else "")
    for name, (then, now) in judged.differs.items():
        yield f"changed: {name}: {then} before, {now} after"
    yield from shown_notes(judged)


def shown_notes(judged: Judgement) -> list[str]:
    """The first notes, and how many more there are."""
    notes = list(judged.notes)
    rest = len(notes) - _MOST_NOTES
    return notes[:_MOST_NOTES] + ([f"and {counted(rest, 'more note')}"] if rest > 0 else [])


def conclusion(judged: Judgement) -> str:
    """The sentence that is signed."""
    cases, limit = judged.cases, judged.question.limit
    answer, of_all = judged.answer, counted(len(cases), "case")
    if answer is Ruling.NO_LOSS:
        where = f"any of {of_all}" if len(cases) > 1 else "the only case"
        return (
            f"No loss above {percent(limit)} in {where}. If a case has lost more, this sentence "
            f"has a probability of at most {percent(LEVEL)}."
        )
    lost = [row for row in cases if row.answer is Ruling.LOSS] or [
        row for row in judged.groups if row.answer is Ruling.LOSS
    ]
    if lost:
        worst = min(lost, key=lambda row: row.ratio or 0)
        where = f"in {len(lost)} of {of_all}" if worst in cases else "in a group of cases"
        return f"Loss {where}; the largest is that of {worst.name}, {interval(worst)}."
    well = sum(row.answer is Ruling.NO_LOSS for row in cases)
    rest = [row.nights_missing for row in cases if row.answer is Ruling.OPEN]
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


def interval(row: Row) -> str:
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


# The page

_COLOURS = {Ruling.NO_LOSS: "pass", Ruling.LOSS: "fail", Ruling.OPEN: "open"}
_FARTHEST = math.log(2)  # of the axis: a half, and twice as fast


def render(judged: Judgement, seal: Seal) -> str:
    """The certificate as one self-contained HTML page."""
    every = (*judged.groups, *judged.cases)
    bounds = [abs(math.log(b)) for v in every for b in (v.low, v.high) if b is not None and b > 0]
    reach = min(max([2 * -math.log1p(-judged.question.limit), *bounds]), _FARTHEST)
    return dossier.page(
        "certificate.html.j2",
        judged=judged,
        question=judged.question,
        conclusion=conclusion(judged),
        classes=_COLOURS,
        blocks=[("groups", judged.groups), ("cases", judged.cases)],
        word=lambda row: in_words(row.answer, judged.question.limit),
        interval=interval,
        bar=lambda row: _bar(row, judged.question.limit, reach),
        notes=shown_notes(judged),
        percent=percent,
        level=LEVEL,
        seal=seal,
    )


def _bar(row: Row, limit: float, reach: float) -> Markup:
    """Draw the interval of a row, with the limit and no change."""
    title = f"{row.name}: {interval(row) or 'not known'}"
    logs = [math.log(value) for value in (row.ratio, row.low, row.high) if value]
    return interval_bar(title, logs, reach, math.log1p(-limit), class_=_COLOURS[row.answer])
