"""The cost of an acceptance test, and what it will be able to show, before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from iowatch.base.text import counted, document
from iowatch.cases.filesystem import ACCEPTANCE
from iowatch.cases.run import Run, by_case
from iowatch.evidence.contract import Contract
from iowatch.past.cost import Cost, cost_entry, costs
from iowatch.site.site import Site


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A test that has not begun."""

    contract: Contract
    cost: Cost  # of one session
    outlooks: Mapping[str, tuple[str, bool]]  # of each criterion: a sentence; can it be decided?

    @property
    def is_decidable(self) -> bool:
        return all(is_enough for _, is_enough in self.outlooks.values())

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
        lines += [f"{name}: {sentence}" for name, (sentence, _) in self.outlooks.items()]
        if not self.is_decidable:
            lines.append("not all of this can be decided: change the contract, or the site's suite")
        return lines

    def _cost(self) -> Iterator[str]:
        agreed, apart = self.contract.rules.sessions, self.contract.rules.hours_apart
        sessions, cost = self.sessions, self.cost
        yield f"jobs: {sessions} sessions of {cost.jobs}, that is {sessions * cost.jobs}"
        yield f"written: {sessions * cost.tib:.3g} TiB, and as much is read by the witness"
        sentence = f"node-hours: about {sessions * cost.node_hours:.2g} of measuring"
        if cost.unknown:
            sentence += (
                f"; of {counted(cost.unknown, 'case')} no rate is on record, and half of what the "
                "site's file says that nothing can exceed is assumed: on few nodes it will be more"
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
    outlooks = {}
    for criterion in contract.criteria:
        mine = {p.partition for p in site.filesystems if p.name == criterion.filesystem}
        about = {case: nodes for case, nodes in cases.items() if case.partition in mine}
        outlooks[criterion.name] = criterion.outlook(contract, about, nights)
    cost = sum(costs(site, ACCEPTANCE, runs).values(), Cost())
    return Plan(contract=contract, cost=cost, outlooks=outlooks)


def plan_document(planned: Plan) -> str:
    """Write what an acceptance test will cost and show."""
    return document(
        acceptance_plan={
            "title": planned.contract.title,
            "sessions": planned.sessions,
            "session": cost_entry(planned.cost),
            "decidable": planned.is_decidable,
            "criteria": [
                {"name": name, "decidable": is_enough, "sentence": sentence}
                for name, (sentence, is_enough) in planned.outlooks.items()
            ],
        }
    )
