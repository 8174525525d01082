"""The cost of an acceptance test, and what it will be able to show, before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import attrs

from iowatch.base.documents import Count, document
from iowatch.base.text import counted
from iowatch.cases.filesystem import ACCEPTANCE
from iowatch.cases.run import Run, by_case
from iowatch.evidence.contract import Contract
from iowatch.past.cost import Cost, costs
from iowatch.site.site import Site


@attrs.frozen(kw_only=True)
class Outlook:
    """What can be said of a criterion before the test."""

    name: str
    decidable: Annotated[bool, "Can it be decided?"]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A test that has not begun."""

    contract: Contract
    cost: Cost  # of one session
    outlooks: Sequence[Outlook]

    @property
    def is_decidable(self) -> bool:
        return all(outlook.decidable for outlook in self.outlooks)

    @property
    def sessions(self) -> int:
        """The number of sessions, with those that have OSTs away."""
        return self.contract.rules.sessions * (1 + len(self._conditions))

    @property
    def _conditions(self) -> list[tuple[tuple[str, int], ...]]:
        return sorted({criterion.condition for criterion in self.contract.criteria} - {()})

    @property
    def lines(self) -> list[str]:
        lines = [self.contract.title, *self._cost()]
        lines += [f"{outlook.name}: {outlook.sentence}" for outlook in self.outlooks]
        if not self.is_decidable:
            lines.append("not all of this can be decided: change the contract, or the site's suite")
        return lines

    def _cost(self) -> Iterator[str]:
        agreed, apart = self.contract.rules.sessions, self.contract.rules.hours_apart
        sessions, cost = self.sessions, self.cost
        yield f"jobs: {sessions} sessions of {cost.jobs}, that is {sessions * cost.jobs}"
        yield f"written: {sessions * cost.tib_written:.3g} TiB, and as much is read by the witness"
        sentence = f"node-hours: about {sessions * cost.node_hours:.2g} of measuring"
        if cost.jobs_without_rate:
            sentence += (
                f"; of {counted(cost.jobs_without_rate, 'case')} no rate is on record, and half of "
                "what the site's file says that nothing can exceed is assumed: on few nodes it "
                "will be more"
            )
        yield sentence
        yield (
            f"nights: {agreed}, which begin {apart:g} h apart or more, so that the last begins "
            f"{apart * (agreed - 1) / 24:.3g} days after the first or later"
        )
        for condition in self._conditions:
            for name, away in condition:
                yield f"and as many sessions without {counted(away, 'OST')} of {name}"


def plan(contract: Contract, site: Site, runs: Iterable[Run]) -> Plan:
    """Plan the test of a contract at a site; `runs` are on record."""
    cases, runs = site.nodes(ACCEPTANCE), [*runs]
    nights = by_case(run for run in runs if run.case in cases and run.is_measured)
    outlooks = []
    for criterion in contract.criteria:
        mine = {p.partition for p in site.filesystems if p.name == criterion.filesystem}
        about = {case: nodes for case, nodes in cases.items() if case.partition in mine}
        sentence, decidable = criterion.outlook(contract, about, nights)
        outlooks.append(Outlook(name=criterion.name, decidable=decidable, sentence=sentence))
    cost = sum(costs(site, ACCEPTANCE, runs).values(), Cost())
    return Plan(contract=contract, cost=cost, outlooks=outlooks)


@attrs.frozen(kw_only=True)
class AcceptancePlan:
    """What an acceptance test will cost and show."""

    title: str
    sessions: Annotated[Count, "Sessions that it takes."]
    session: Cost
    decidable: Annotated[bool, "Can every criterion be decided?"]
    criteria: Sequence[Outlook]


def plan_document(planned: Plan) -> str:
    """Write what an acceptance test will cost and show."""
    return document(
        acceptance_plan=AcceptancePlan(
            title=planned.contract.title,
            sessions=planned.sessions,
            session=planned.cost,
            decidable=planned.is_decidable,
            criteria=planned.outlooks,
        )
    )
