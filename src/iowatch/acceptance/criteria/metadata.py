"""The criterion `metadata`: operations a second on names."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.by_session import BySession
from iowatch.acceptance.exhibits import Exhibit
from iowatch.case import Case
from iowatch.files import brief, counted
from iowatch.kinds.metadata import NAME_PHASES, Names
from iowatch.records import COUNT, choice, key


@attrs.frozen(kw_only=True)
class Metadata(BySession):
    """Operations a second of all nodes in one phase; `items` are files that go through all."""

    kind: ClassVar[str] = "metadata"
    unit: ClassVar[str] = "operations a second of all nodes, of one phase or of all together"
    varies_like: ClassVar[Sequence[str]] = ("items_median",)
    outgrows_memory: ClassVar[bool] = False  # nobody reads names back from the servers' memory

    files: str = key(choice("shared", "process"), default="shared")  # directories, in fact
    phase: str = key(choice(*NAME_PHASES, "items"))
    nodes: int | None = key(COUNT, default=None)

    @property
    def sizes(self) -> Sequence[int | None]:
        return (self.nodes,)

    def concerns(self, case: Case) -> bool:
        is_ours = type(case.check) is Names  # beside mdtest, which verifies no name, is another
        return is_ours and case.files == self.files and not case.ways and bool(case.metrics)

    def rate(self, run: Exhibit) -> float:
        return median(run.rates[self.phase])

    def details(self) -> list[str]:
        place = "one directory" if self.files == "shared" else "a directory of each process"
        nodes = counted(self.nodes, "node") if self.nodes else "best of all cases"
        return [self.phase, place, self.filesystem, nodes]

    def amount(self, value: float) -> str:
        return f"{brief(value)} operations/s"
