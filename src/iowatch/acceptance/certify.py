"""The verdict on each criterion of a contract, from the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iowatch.acceptance.contract import Contract
from iowatch.acceptance.criteria.base import (
    FAIL,
    OPEN,
    PASS,
    REFUSED,
    Criterion,
    Finding,
    refused,
)
from iowatch.acceptance.exhibits import Evidence
from iowatch.acceptance.terms import Exclusion

WORST_FIRST = (REFUSED, FAIL, OPEN, PASS)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An acceptance test, as far as its evidence says."""

    contract: Contract
    exclusions: Sequence[Exclusion]
    evidence: Evidence
    findings: Mapping[Criterion, Finding]

    @property
    def overall(self) -> str:
        """The verdict on the contract: the worst of any criterion."""
        return min((one.verdict for one in self.findings.values()), key=WORST_FIRST.index)


def certify(contract: Contract, evidence: Evidence) -> dict[Criterion, Finding]:
    """The verdict on each criterion; `not certified` if what it is about was not all measured."""
    return {criterion: _certify(contract, criterion, evidence) for criterion in contract.criteria}


def _certify(contract: Contract, criterion: Criterion, evidence: Evidence) -> Finding:
    places = [place for place in evidence.places if place.name == criterion.filesystem]
    if not places:
        names = ", ".join(sorted({place.name for place in evidence.places}))
        return refused(f"no filesystem {criterion.filesystem!r}: there are {names}")
    for place in places:
        if why := criterion.misfit(contract, place):
            return refused(why)
    return criterion.judge(contract, evidence, evidence.suite(criterion.filesystem))
