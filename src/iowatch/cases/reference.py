"""A reference value of a case: a bound on one metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


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
