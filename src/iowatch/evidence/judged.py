"""An acceptance test that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iowatch.evidence.contract import Contract
from iowatch.evidence.criteria.criterion import WORST_FIRST, Criterion, Finding
from iowatch.evidence.exhibits import Evidence
from iowatch.evidence.terms import Exclusion


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
        return min((finding.verdict for finding in self.findings.values()), key=WORST_FIRST.index)
