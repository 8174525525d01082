"""Metrics: the numbers that are recorded of a verified run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from iowatch.cases.parameters import CONTROL


@dataclass(frozen=True)
class Metric:
    """A number that is recorded of a verified run; none is below 0."""

    unit: str  # MiB/s, 1/s (operations), s, or 1: a part or a ratio
    lower_is_better: bool = False
    largest: float = math.inf
    words: str = ""  # the unit behind a number, if that is another
    title: str = ""  # on the page; empty: the page has the metric elsewhere, or not at all
    about: str = ""  # a sentence for the reference


Metrics = Mapping[str, Metric]

RATE, SECONDS, RATIO = Metric("MiB/s"), Metric("s", lower_is_better=True), Metric("1")
PART = Metric("1", lower_is_better=True, largest=1)
TO_CONTROL = replace(RATIO, about="The best rate over that of MPI-IO in the same rounds.")


def phase_seconds(*phases: str) -> Metrics:
    """Declare the times of these phases."""
    return {
        f"{phase}_s": replace(SECONDS, about=f"The median time of the phase `{phase}`.")
        for phase in phases
    }


DRIFT = "drift"  # how near the nights so far are to an alarm: 1. Judged already: has no reference.
_STATISTICS = {"max": "best", "median": "median", "mean": "mean", "min": "slowest"}
#: From opening to closing.
TOTALS: Metrics = MappingProxyType(
    {
        f"total_{key}": Metric(
            "MiB/s",
            title=f"total, {word}",
            about=f"The {word} rate of all rounds, from opening the file to closing it.",
        )
        for key, word in _STATISTICS.items()
    }
)
#: From opening to having synced what was written.
STABLE: Metrics = MappingProxyType(
    {
        f"stable_{key}": Metric(
            "MiB/s",
            title=f"stable, {word}",
            about=f"The {word} rate of all rounds, from opening the file to the end of the sync.",
        )
        for key, word in [*_STATISTICS.items()][:2]
    }
)
#: A bound of reference values on any machine: something moved.
RATE_BOUND: Mapping[str, Any] = MappingProxyType({"total_max": [1, 0, None, "MiB/s"]})

#: Parts of the time of a run, in order; an application reports output alone.
PHASES = ("open", "define", "write", "read", "output", "flush", "close", "sync")
#: Phases that make a file of the data.
ENDS = ("open", "define", "flush", "close")
PLAIN = (CONTROL, "posix")  # whose file is the array, and nothing else


@dataclass(frozen=True)
class Reference:
    """A reference value, and thresholds that are fractions of it, or absolute where it is 0."""

    value: float
    lower_threshold: float | None  # <= 0
    upper_threshold: float | None  # >= 0
    #: The reference knows neither machine nor size of the case, and makes nothing red alone.
    is_general: bool = False

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


#: Makes a reference; runs share one, for it is the same every night.
shared_reference = cache(Reference)
