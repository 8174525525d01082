"""The criterion `scaling`: bandwidth on many nodes against that on few."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median
from typing import ClassVar

import attrs

from iowatch.acceptance.criteria.array import OfArray
from iowatch.acceptance.criteria.base import Curve
from iowatch.acceptance.exhibits import Evidence, Exhibit
from iowatch.acceptance.terms import Storage
from iowatch.records import COUNT, key


@attrs.frozen(kw_only=True)
class Scaling(OfArray):
    """The ratio of two bandwidths, divided by the ratio of their numbers of nodes."""

    kind: ClassVar[str] = "scaling"
    unit: ClassVar[str] = "of linear scaling between the two numbers of nodes"

    from_nodes: int = key(COUNT)
    to_nodes: int = key(COUNT)

    def contradiction(self) -> str:
        if self.to_nodes > self.from_nodes:
            return ""
        return f"to_nodes is {self.to_nodes}, and from_nodes {self.from_nodes}: it must be more"

    @property
    def sizes(self) -> Sequence[int | None]:
        return (self.from_nodes, self.to_nodes)

    @property
    def no_case(self) -> str:
        return "no case has these numbers of nodes"

    @property
    def scope(self) -> str:
        return f"{self.from_nodes} to {self.to_nodes} nodes"

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        few, many = runs
        return self.rate(many) / self.rate(few) / (many.nodes / few.nodes)

    def curve(self, evidence: Evidence, sessions: Collection[str]) -> Curve:
        """For each number of nodes the median over these sessions of the case that the first
        session finds best."""
        suite = evidence.suite(self.filesystem)
        runs = [one for one in evidence.exhibits if one.case in suite and self.concerns(one.case)]
        first = [one for one in runs if one.session == evidence.counting[0].uuid]
        points = []
        for nodes in sorted({one.nodes for one in first}):
            best = max((one for one in first if one.nodes == nodes), key=self.rate).case
            rates = [self.rate(one) for one in runs if one.case == best and one.session in sessions]
            if rates:
                points.append((float(nodes), median(rates)))
        by_node = dict(points)[self.from_nodes] / self.from_nodes
        ends = points[0][0], points[-1][0]
        lines = {
            name: (part * by_node * ends[0], part * by_node * ends[1])
            for name, part in (("linear", 1.0), ("committed", self.committed))
        }
        return Curve(points=points, lines=lines)
