"""The rows of a certificate: what the change has cost each case, and groups of cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import attrs

from iowatch.base.documents import filled
from iowatch.base.text import counted, one_line
from iowatch.cases.case import Case, short_names
from iowatch.cases.run import Run, deciding
from iowatch.evidence.question import AFTER, BEFORE, Series
from iowatch.judge.change import FEWEST, Decision, RateChange, Ruling, between, of_pairs, together
from iowatch.measure.case_ids import table_order


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
        rows.append(
            Row(
                name=names[case],
                cases=[case],
                filesystem=run.filesystem or case.partition,
                series=nights,
                why=_more_failures(before, after),
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


def _more_failures(before: Mapping[str, Sequence[Run]], after: Mapping[str, Sequence[Run]]) -> str:
    """Say on how many nights a case has failed, if that is more of them after the change."""
    failed = [sum(deciding(runs).outcome.is_failed for runs in s.values()) for s in (before, after)]
    if not after or failed[AFTER] * len(before) <= failed[BEFORE] * len(after):
        return ""
    return (
        f"it failed on {failed[AFTER]} of {counted(len(after), 'night')} after the change, and on "
        f"{failed[BEFORE]} of {len(before)} before"
    )
