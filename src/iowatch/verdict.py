"""The verdict of one night on one case: its figures against the reference values in force."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iowatch.case import Case
from iowatch.detector.judgement import R1, R2, R3, R4, SEVERE, Judgement
from iowatch.files import brief
from iowatch.metrics import FIGURES, figure_names

OK = "ok"
NO_BASELINE = "no_baseline"
REGRESSION = "regression"
DEFECT = "defect"
IMPROVEMENT = "improvement"
TOO_FAST = "too_fast"
INVALID = "invalid"
RED = frozenset({REGRESSION, DEFECT, SEVERE, TOO_FAST, INVALID})  # no_baseline: unless recording

#: The figure that a rule of the detector judges.
_FIGURE = {R1: "total_max", R2: "ratio", R3: "finish_fraction", R4: "total_max"}

_LOWER_IS_BETTER = {name for name, unit in FIGURES.items() if unit == "s"}
_LOWER_IS_BETTER |= {"close_fraction", "finish_fraction"}


class BadReference(Exception):
    """A reference file's entry has no meaning; the message says which and why."""


@dataclass(frozen=True)
class Verdict:
    """What the night says of a case."""

    kind: str
    sentence: str
    red: bool
    failed: tuple[str, ...] = ()  # the figures that made it red


@dataclass(frozen=True)
class Reference:
    """A reference value with its thresholds: fractions of it, or absolute where it is 0."""

    value: float
    lower_threshold: float | None  # <= 0
    upper_threshold: float | None  # >= 0

    @property
    def is_absolute(self) -> bool:
        return self.value == 0

    @property
    def lower(self) -> float | None:
        return self._bound(self.lower_threshold)

    @property
    def upper(self) -> float | None:
        return self._bound(self.upper_threshold)

    def _bound(self, threshold: float | None) -> float | None:
        if threshold is None:
            return None
        return threshold if self.is_absolute else self.value * (1 + threshold)


def read_references(case: Case, entries: Mapping[str, Sequence[Any]]) -> dict[str, Reference]:
    """The references of a case, from ReFrame's form [value, lower, upper, unit].

    BadReference if one names no figure of the case, bounds nothing or has a wrong threshold or
    unit: such a reference would never fail.
    """
    references = {}
    for name, entry in entries.items():
        if name not in figure_names(case):
            raise BadReference(f"{name}: {case} has no such figure")
        if len(entry) not in (3, 4):  # ReFrame's `$xfail` is a pair
            raise BadReference(
                f"{name}: is no [value, lower threshold, upper threshold, unit]; a failure that is "
                "expected stands in expected_failures/"
            )
        value, lower, upper, *unit = entry
        if unit not in ([], [FIGURES[name]]):
            raise BadReference(f"{name}: its unit is {FIGURES[name]!r}, not {unit[0]!r}")
        if not _is_number(value) or value < 0:
            raise BadReference(f"{name}: {value!r} is not a reference value")
        if lower is None and upper is None:
            raise BadReference(f"{name}: has no bound")
        if lower is not None and not (_is_number(lower) and (-1 <= lower <= 0 or value == 0)):
            raise BadReference(f"{name}: {lower!r} is not a lower threshold between -1 and 0")
        if upper is not None and not (_is_number(upper) and upper >= 0):
            raise BadReference(f"{name}: {upper!r} is not an upper threshold of 0 or more")
        references[name] = Reference(value, lower, upper)
    return references


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def judge(
    case: Case,
    figures: Mapping[str, float],
    references: Mapping[str, Reference],
    source: str,
    ceiling: float,
    record: bool,
) -> Verdict:
    """The verdict on these figures.

    `references` stand in the file `source`; `ceiling` is the filesystem's physical limit in MiB/s;
    in `record` mode a case without references is not an error.
    """
    if figures["total_max"] > ceiling:
        sentence = (
            f"{case}: total_max is {figures['total_max']:.0f} MiB/s, above the physical ceiling of "
            f"{ceiling:.0f} MiB/s in the site's configuration: a cache or a bug was measured"
        )
        return Verdict(TOO_FAST, sentence, True, ("total_max",))
    if not references:
        return Verdict(NO_BASELINE, f"{case}: no reference value in {source}", not record)

    worse: dict[str, str] = {}
    better: list[str] = []
    for name, reference in references.items():
        figure = figures[name]
        if reference.lower is not None and figure < reference.lower:
            excess = _excess(name, figure, "below", reference.lower, source)
            is_worse = name not in _LOWER_IS_BETTER
        elif reference.upper is not None and figure > reference.upper:
            excess = _excess(name, figure, "above", reference.upper, source)
            is_worse = name in _LOWER_IS_BETTER
        else:
            continue
        if is_worse:
            worse[name] = excess
        else:
            better.append(excess)

    if worse:
        # An absolute bound needs no history: the fault may have been there from the first day.
        absolute = all(references[name].is_absolute for name in worse)
        kind = DEFECT if absolute else REGRESSION
        return Verdict(kind, f"{case}: {'; '.join(worse.values())}", True, tuple(worse))
    if better:
        return Verdict(IMPROVEMENT, f"{case}: {'; '.join(better)}", False)
    return Verdict(OK, f"{case}: {len(references)} figure(s) within {source}", False)


def in_force(
    references: Mapping[str, Reference], judged: Collection[str] = ()
) -> dict[str, Reference]:
    """The references that count for a case whose baseline knows these figures.

    The baseline knows which nights of the case are noise: it takes the place of their bounds.
    """
    return {name: entry for name, entry in references.items() if name not in judged}


def with_past(case: Case, present: Verdict, past: Judgement, blessed: bool) -> Verdict:
    """The verdict that `judge` came to by the references in force, with what the detector says.

    Without a baseline the detector only adds a fault that needs no history.
    """
    if present.kind == TOO_FAST or not (blessed or past.red):
        return present
    if not present.red or present.kind == NO_BASELINE:
        failed = (_FIGURE[past.rule],) if past.red and past.rule else ()
        return Verdict(past.kind, f"{case}: {past.sentence}", past.red, failed)
    sentence = f"{present.sentence}; {past.sentence}" if past.red else present.sentence
    return Verdict(present.kind, sentence, True, present.failed)


def _excess(name: str, figure: float, side: str, bound: float, source: str) -> str:
    unit = FIGURES[name].removeprefix("1")
    measured = f"{name} is {brief(figure)} {unit}".rstrip()
    return f"{measured}, {side} its bound {brief(bound)} in {source}"
