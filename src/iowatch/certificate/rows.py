"""The rows of a certificate: what the change has cost each case, and groups of cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iowatch.case import Case, short_names
from iowatch.certificate.question import AFTER, BEFORE, Question, Series
from iowatch.detector.change import (
    FEWEST,
    Decision,
    RateChange,
    Ruling,
    between,
    of_pairs,
    together,
)
from iowatch.files import counted
from iowatch.run import Run, deciding


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case, or a group of cases."""

    name: str
    cases: Sequence[Case]
    change: RateChange | None  # None: it has too few nights
    series: Series
    nights: str  # how many, in words
    failed: str = ""  # why no certificate can be given, whatever the rates are


@dataclass(frozen=True, kw_only=True)
class JudgedRow:
    """The verdict on a row."""

    row: Row
    answer: Ruling
    ratio: float | None  # after over before; None: not known
    low: float | None
    high: float | None
    nights_missing: int | None  # before it can be told; None: no number, or there is no need
    why: str = ""  # there is nothing else to say


def rows_of(
    question: Question,
    series: Mapping[Case, Series],
    units: Mapping[tuple[Case, int], Mapping[str, Sequence[Run]]],
    filesystems: Mapping[Case, str],
) -> tuple[list[Row], list[Row]]:
    """The rows of groups, and those of all cases that were asked about."""
    every = sorted({case for case, _ in units}, key=lambda case: case.order)
    names = short_names(every)
    empty = next(iter(series.values()), ((), ()))
    nothing: Series = tuple(() for _ in empty)
    rows = []
    for case in every:
        nights = series.get(case, nothing)
        rows.append(
            Row(
                name=names[case],
                cases=[case],
                change=_change(nights),
                series=nights,
                nights=question.nights_of(nights),
                failed=_more_failures(units.get((case, BEFORE), {}), units.get((case, AFTER), {})),
            )
        )
    return list(_groups(question, rows, filesystems)), rows


def _change(series: Series) -> RateChange | None:
    """Return the change that nights show; None: they are too few."""
    return between(*series) if len(series) > 1 else of_pairs(series[0])


def _groups(
    question: Question, rows: Sequence[Row], filesystems: Mapping[Case, str]
) -> Iterator[Row]:
    """Yield groups of two cases or more that have enough nights, no two of the same cases."""
    known = [row for row in rows if row.change]
    groups: dict[str, list[Row]] = {"all cases": known}
    for row in known:
        (case,) = row.cases
        groups.setdefault(f"filesystem {filesystems.get(case, case.partition)}", []).append(row)
    for row in known:
        if row.cases[0].backend:
            groups.setdefault(f"library {row.cases[0].backend}", []).append(row)
    for row in known:
        groups.setdefault(f"direction {row.cases[0].operation}", []).append(row)
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
            cases=sorted(cases, key=lambda case: case.order),
            change=_change(series),
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


def verdicts(rows: Iterable[Row], decision: Decision, remedy: str) -> list[JudgedRow]:
    """Judge each of these rows."""
    return [_verdict(row, decision, remedy) for row in rows]


def _verdict(row: Row, decision: Decision, remedy: str) -> JudgedRow:
    if row.change is None:
        why = row.failed or f"{row.nights} nights, and at least {FEWEST} are needed"
        return JudgedRow(
            row=row, answer=Ruling.OPEN, ratio=None, low=None, high=None, nights_missing=None,
            why=why,
        )  # fmt: skip
    low, high = decision.bounds(row.change)
    answer, why = decision.answer(row.change), row.failed
    if why and answer is Ruling.NO_LOSS:
        answer = Ruling.OPEN
    missing = None
    if answer is Ruling.OPEN and not why:
        missing = decision.nights_missing(row.change)
        why = f"about {counted(missing, 'more night')} would tell" if missing else remedy
    return JudgedRow(
        row=row, answer=answer, ratio=math.exp(row.change.value), low=low, high=high,
        nights_missing=missing, why=why,
    )  # fmt: skip
