"""The criterion `survival`: deaths of a client or a server that cost no kept file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import attrs

from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.evidence.criteria.criterion import (
    Certified,
    Criterion,
    Finding,
    Nights,
    Suite,
    refused,
)
from iowatch.evidence.exhibits import Evidence, ReadBackRun, Session
from iowatch.evidence.terms import Terms
from iowatch.measure.law import others_in_place


@attrs.frozen(kw_only=True)
class SurvivalCriterion(Criterion):
    """The number of deaths that have cost nothing.

    The next session reads back, byte by byte, what was kept last before the death, or in the same
    session if it came to that. If it did, the session itself has read what was kept before.
    """

    kind: ClassVar[str] = "survival"
    unit: ClassVar[str] = (
        "deaths of a client or a server, after which all that was kept is read back"
    )
    evidence_of: ClassVar[str] = "kept files"
    has_interval: ClassVar[bool] = False

    def decide(self, terms: Terms, evidence: Evidence, suite: Suite) -> Finding:
        cases = sorted(
            (case for case in suite if case.check.evidence_of == self.evidence_of), key=str
        )
        if not cases:
            return refused("the suite has no ReadBack, which would read what was kept")
        if lost := evidence.lost_of(cases):
            return refused(f"of the run {lost} no session is on record")
        sessions = {run.session.uuid: run.session for run in evidence.read_back}
        deaths = [
            session
            for session in sessions.values()
            if session.death.rpartition(":")[0] == self.filesystem
        ]
        survived, waiting = 0, ""
        exhibits: list[ReadBackRun] = []
        for death in deaths:
            if death.death.endswith(":client") and self.filesystem not in death.has_failed:
                return refused(f"no run has failed in session {death.uuid}: nothing died in it")
            is_read = True
            for case in cases:
                runs = [run for run in evidence.read_back if run.case == case]
                finding, readers = _look_at(death, case, runs)
                exhibits += [run for run in readers if run not in exhibits]
                if finding:
                    if finding.verdict == Certified.FAIL:
                        finding = replace(finding, measured=survived, exhibits=exhibits)
                    return finding
                if not _later(death, runs):
                    waiting = f"; no session has read since what was kept before {death.uuid}"
                    is_read = False
                    break
            survived += is_read
        finding = Finding(verdict=Certified.PASS, measured=survived, exhibits=exhibits)
        if self.is_kept(survived):
            return finding
        seen = counted(survived, "death", "were", math.ceil(self.committed))
        return replace(finding, verdict=Certified.OPEN, reason=f"{seen} seen and survived{waiting}")

    def outlook(self, terms: Terms, suite: Suite, nights: Nights) -> tuple[str, bool]:
        deaths = counted(math.ceil(self.committed), "session")
        return f"{deaths} with --death, and one after each", True

    def amount(self, value: float) -> str:
        return counted(round(value), "death")


def _later(death: Session, runs: Sequence[ReadBackRun]) -> list[ReadBackRun]:
    """The runs after a death that looked for what was kept."""
    return [run for run in runs if run.session.began > death.began and run.read is not None]


def _look_at(
    death: Session, case: Case, runs: Sequence[ReadBackRun]
) -> tuple[Finding | None, list[ReadBackRun]]:
    """The verdict on a case whose files a death has cost, or that cannot be judged, None if all
    were read back; and the runs that read."""
    kept = [run for run in runs if run.session.began <= death.began and run.has_kept]
    if not kept:
        why = f"nothing was kept before session {death.uuid}"
        return refused(f"{case}: {why}: measure one without --death first"), []
    before = [run for run in kept if run.session.began < death.began]
    # Nobody reads again what the session of the death replaces by its files.
    replacing = [run for run in runs if run.session.uuid == death.uuid and run.has_kept]
    readers = [(run, before[-1]) for run in replacing if before]
    readers += [(run, kept[-1]) for run in _later(death, runs)[:1]]
    exhibits = []
    for run, wanted in readers:
        exhibits.append(run)
        where = f"{case} of session {run.session.uuid}"
        if run.why_not and not run.is_lost:
            return refused(f"failed: {where}: {run.why_not}"), exhibits
        why = run.why_not
        if not why and run.read != wanted.night:
            why = f"what {wanted.night} kept is gone"
        elif not why and run.read_id != wanted.id:
            why = others_in_place(wanted.night, run.read_id)
        if why:
            return Finding(verdict=Certified.FAIL, reason=f"{where}: {why}"), exhibits
    return None, exhibits
