"""The cost of an acceptance test, and what it will be able to show, before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import attrs

from iowatch.base.documents import Count
from iowatch.base.text import counted
from iowatch.cases.filesystem import ACCEPTANCE
from iowatch.cases.run import Run, by_case
from iowatch.evidence.contract import Contract
from iowatch.evidence.terms import Rules
from iowatch.past.cost import Cost, costs
from iowatch.site.site import Site


@attrs.frozen(kw_only=True)
class Outlook:
    """What can be said of a criterion before the test."""

    name: str
    decidable: Annotated[bool, "Can it be decided?"]
    sentence: str


@attrs.frozen(kw_only=True)
class AcceptancePlan:
    """What an acceptance test will cost and show."""

    title: str
    sessions: Annotated[Count, "Sessions that it takes, with those that have OSTs away."]
    session: Cost
    decidable: Annotated[bool, "Can every criterion be decided?"]
    criteria: Sequence[Outlook]
    lines: Annotated[Sequence[str], "What is printed without --json."]


def plan(contract: Contract, site: Site, runs: Iterable[Run]) -> AcceptancePlan:
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
    conditions = sorted({criterion.condition for criterion in contract.criteria} - {()})
    sessions = contract.rules.sessions * (1 + len(conditions))
    lines = [contract.title, *_in_words(contract.rules, sessions, cost)]
    for condition in conditions:
        for name, away in condition:
            lines.append(f"and as many sessions without {counted(away, 'OST')} of {name}")
    lines += [f"{outlook.name}: {outlook.sentence}" for outlook in outlooks]
    if not (decidable := all(outlook.decidable for outlook in outlooks)):
        lines.append("not all of this can be decided: change the contract, or the site's suite")
    return AcceptancePlan(
        title=contract.title,
        sessions=sessions,
        session=cost,
        decidable=decidable,
        criteria=outlooks,
        lines=lines,
    )


def _in_words(rules: Rules, sessions: int, cost: Cost) -> Iterator[str]:
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
        f"nights: {rules.sessions}, which begin {rules.hours_apart:g} h apart or more, so that the "
        f"last begins {rules.hours_apart * (rules.sessions - 1) / 24:.3g} days after the first or "
        "later"
    )
