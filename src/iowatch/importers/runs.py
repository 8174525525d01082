"""A run of long ago, as an old log or output tells of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from iowatch.case import Case
from iowatch.files import UserError

#: What one of these is in MiB/s. Case matters: nobody knows what Mb/s is.
UNITS = {
    f"{prefix}B/s": factor / 2**20
    for prefix, factor in {
        "": 1.0,
        "k": 1e3,
        "K": 1e3,
        "M": 1e6,
        "G": 1e9,
        "T": 1e12,
        "Ki": 2.0**10,
        "Mi": 2.0**20,
        "Gi": 2.0**30,
        "Ti": 2.0**40,
    }.items()
}


@dataclass(frozen=True)
class Run:
    """One run of one case; nobody knows whether what it wrote was verified."""

    case: Case
    time: datetime  # of its end, with its time zone
    metrics: Mapping[str, float]  # in the units of iowatch.metrics; empty if the run failed
    file: Path
    line: int
    remark: str  # what the file says of the run besides

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def mib_per_s(place: str, value: str, unit: str) -> float:
    """A bandwidth in MiB/s; UserError if it is none, or of an unknown unit."""
    factor = UNITS.get(unit)
    if factor is None:
        what = f"{unit} is no unit of bandwidth" if unit else "the metric has no unit"
        raise UserError(f"{place}: {what}: give it with --unit, such as MB/s, GB/s or GiB/s")
    number = as_number(place, value)
    if number <= 0:
        raise UserError(f"{place}: {value} is no bandwidth")
    return number * factor


def as_number(place: str, text: str) -> float:
    """A finite number; else UserError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{place}: {text!r} is no number")
    return number


def case_of(place: str, template: str, fields: Mapping[str, str] | None = None) -> Case:
    """The case id that is left when each {name} is replaced by that field of the run."""

    known = fields or {}

    def field(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise UserError(
                f"{place}: has no {match[0]} for --case: it has {', '.join(sorted(known))}"
            )
        return known[match[1]]

    text = re.sub(r"\{(\w+)\}", field, template)
    try:
        return Case.parse(text)
    except ValueError:
        raise UserError(
            f"{place}: {text!r} is not a case id: SYSTEM:PARTITION/ENVIRON/CHECK/"
            "PARAMETER=VALUE/..."
        ) from None
