"""A suite: the settings of each check that a site asks for on one filesystem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iowatch.cases.case import Check
from iowatch.cases.parameters import NODES, RANKS, RANKS_PER_NODE

NIGHTLY, ACCEPTANCE, HOURLY = "nightly", "acceptance", "hourly"
#: Those that every filesystem has.
SUITES = (NIGHTLY, ACCEPTANCE)
#: The last one is no night, and a filesystem may have none.
ALL_SUITES = (*SUITES, HOURLY)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a check in a suite: the parameters of a case, and how its ranks are spread."""

    check: Check
    nodes: int
    ranks_per_node: int
    parameters: tuple[tuple[str, Any], ...]  # as a case has them

    @classmethod
    def make(cls, check: Check, values: Mapping[str, Any]) -> Setting:
        """Make a setting of a value for each parameter, None where there is none; nodes stand for
        ranks."""
        nodes = values.get(NODES.name) or check.fixed.get(NODES.name, 1)
        ranks_per_node = values.get(RANKS_PER_NODE.name) or 1
        values = {**values, RANKS.name: nodes * ranks_per_node}
        given = [(p.name, values.get(p.name)) for p in check.parameters]
        given = [(name, value) for name, value in given if value is not None]
        ways = ((way.name, values.get(way.name, way.default), way.default) for way in check.ways)
        given += [(name, value) for name, value, default in ways if value != default]
        return cls(check=check, nodes=nodes, ranks_per_node=ranks_per_node, parameters=tuple(given))

    @property
    def text(self) -> str:
        """The tail of a case id."""
        return self.check.text_of(self.parameters)


Suite = Mapping[str, tuple[Setting, ...]]  # of each check that runs, by its name
