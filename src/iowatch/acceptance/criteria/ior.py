"""The criterion `ior`: the bandwidth of IOR, which takes turns with benchio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.array import OnNodes
from iowatch.acceptance.exhibits import Exhibit
from iowatch.check import Check
from iowatch.files import brief
from iowatch.kinds.ior import EASY, HARD, IO500, BesideIor
from iowatch.parameters import BACKENDS, CONTROL
from iowatch.records import choice, key

#: How many files IO500's patterns have; the backend is posix.
_FILES: Mapping[str, str] = MappingProxyType({EASY: "process", HARD: "shared"})
_POSIX = "posix"


@attrs.frozen(kw_only=True)
class Ior(OnNodes):
    """MiB/s of IOR, which moves the same bytes as benchio; io500 is one of IO500's patterns."""

    kind: ClassVar[str] = "ior"
    unit: ClassVar[str] = "MiB/s of IOR, beside benchio on the same pattern"
    varies_like: ClassVar[Sequence[str]] = ("ior_median",)

    io500: str | None = key(choice(EASY, HARD), default=None)
    files: str = key(
        choice("shared", "process"),
        default=attrs.Factory(lambda self: _FILES.get(self.io500, "shared"), takes_self=True),
    )
    backend: str = key(
        choice(*BACKENDS),
        default=attrs.Factory(lambda self: _POSIX if self.io500 else CONTROL, takes_self=True),
    )

    def contradiction(self) -> str:
        if self.io500 and (self.files, self.backend) != (_FILES[self.io500], _POSIX):
            return f"io500 {self.io500} has files {_FILES[self.io500]} and backend {_POSIX}"
        return ""

    @property
    def ways(self) -> Sequence[tuple[str, str]]:
        return [(IO500.name, self.io500)] if self.io500 else []

    def suits(self, check: Check) -> bool:
        return isinstance(check, BesideIor)

    def rate(self, run: Exhibit) -> float:
        return median(run.ior)

    def details(self) -> list[str]:
        return super().details() + ([IO500.in_words(self.io500)] if self.io500 else [])

    def amount(self, value: float) -> str:
        return f"{brief(value)} MiB/s"
