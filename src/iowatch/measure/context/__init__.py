"""The system context of a run: what else went on, which is shown beside a run that was slow.

A run's job asks each source before and after it measures, and benchio looks at its nodes. No metric
depends on the context. Nothing here may fail, whatever a file has in it. A number that is not known
is absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iowatch.base.text import one_line
from iowatch.cases.run import SystemContext
from iowatch.measure.context import ceph_health, lustre_targets, nodes, slurm
from iowatch.measure.context.nodes import MALFORMED
from iowatch.measure.context.source import (
    AFTER,
    BEFORE,
    FILES,
    UNFINISHED,
    Quantity,
    Reading,
    Source,
)

SOURCES: tuple[Source, ...] = (
    slurm.SOURCE,
    lustre_targets.SOURCE,
    ceph_health.STATUS,
    ceph_health.OSDS,
)

QUANTITIES: Mapping[str, Quantity] = {
    name: quantity for source in SOURCES for name, quantity in source.quantities.items()
} | nodes.QUANTITIES

OF, UNKNOWN = "_of", "unknown"

NIGHTS = 5  # with numbers: with fewer, nobody knows what is usual
MUCH = 1.2  # times the most that is usual
LONGEST = 200  # characters of a name or reason that is shown


def read(folder: Path) -> dict[str, float | str]:
    """Read what is known of the run that has left its raw results in `folder`."""
    answers = [nodes.read(folder), *(_read(source, folder) for source in SOURCES)]
    known: dict[str, float | str] = {}
    for answer in answers:
        known |= answer.numbers
    for answer in answers:
        known |= {f"{name}{OF}": _short(where) for name, where in answer.where.items() if where}
    silent = [why for answer in answers for why in answer.silent]
    return known | ({UNKNOWN: "; ".join(silent)} if silent else {})


def _read(source: Source, folder: Path) -> Reading:
    texts = [_text(folder / f"{FILES}.{when}.{source.name}") for when in (BEFORE, AFTER)]
    answer = Reading()
    try:
        if any(texts):
            source.parse(answer, *texts)
    except MALFORMED:
        answer = Reading(silent=[f"{source.words} gave no answer that can be read"])
    if [*folder.glob(f"{FILES}.*.{source.name}{UNFINISHED}")]:
        answer.silent.append(f"{source.words} failed, or gave no answer in time")
    return answer


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _short(text: str) -> str:
    return one_line(text)[:LONGEST]


@dataclass(frozen=True)
class Compared:
    """The context of a slow run, compared with those of good nights."""

    unusual: Sequence[str]  # a phrase for each number above what is usual, or that has no usual yet
    usual: Sequence[str]  # what is as usual, in words
    unknown: str  # what did not answer


def compare(now: SystemContext, earlier: Sequence[SystemContext]) -> Compared:
    """Compare the context of a run with those of the same case on its good nights."""
    unusual, usual = [], []
    for name, quantity in QUANTITIES.items():
        value = now.get(name)
        if not isinstance(value, int | float):
            continue
        known = [number for other in earlier if isinstance(number := other.get(name), int | float)]
        where = f" ({now[f'{name}{OF}']})" if f"{name}{OF}" in now else ""
        phrase = f"{quantity.words}: {_number(value, quantity)}{where}"
        if len(known) < NIGHTS:
            unusual += [phrase] if value > quantity.trifle else []
            continue
        ordered, tenth = sorted(known), len(known) // 10
        low, high = ordered[tenth], ordered[-1 - tenth]
        if value > max(MUCH * high, high + quantity.trifle):
            unusual.append(f"{phrase}, usually {_range(low, high, quantity)}")
        else:
            usual.append(quantity.words)
    return Compared(unusual, usual, str(now.get(UNKNOWN, "")))


def _number(value: float, quantity: Quantity) -> str:
    return f"{_digits(value, quantity)} {quantity.unit}".rstrip()


def _range(low: float, high: float, quantity: Quantity) -> str:
    first, last = _digits(low, quantity), _number(high, quantity)
    return last if first == _digits(high, quantity) else f"{first} to {last}"


def _digits(value: float, quantity: Quantity) -> str:
    return f"{100 * value if quantity.unit == '%' else value:.3g}"
