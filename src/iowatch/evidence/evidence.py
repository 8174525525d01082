"""The evidence of an acceptance test: read from its folder, and held to the law and to the rules of
the contract.

Whoever judges it elsewhere has that folder and no more: no site, no database, no network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch.base.bounded import json_of
from iowatch.base.files import UserError
from iowatch.base.text import brief, counted
from iowatch.cases.case import Case
from iowatch.cases.filesystem import ACCEPTANCE
from iowatch.cases.run import NOTE
from iowatch.evidence.contract import Contract
from iowatch.evidence.exhibits import Condition, Evidence, Exhibit, ReadBackRun, Session
from iowatch.evidence.stored_run import (
    SESSIONS,
    SITE,
    SKEW_S,
    Stored,
    StoredRun,
    filesystems_in,
    reading,
)
from iowatch.evidence.terms import Exclusion, Rules
from iowatch.measure.case_ids import parse_case
from iowatch.measure.checks import kind_of
from iowatch.measure.kinds.slow_ost import osts_away
from iowatch.measure.result import InvalidResult
from iowatch.past.history import faults
from iowatch.past.raw_results import FOLDER, names_before

#: In the folder of the evidence:
CONTRACT, EXCLUSIONS = "contract.yaml", "exclusions.yaml"

#: Names of the provenance on record that no result file has.
_RECORDED = ("launcher", "modules", "spack", "program", NOTE)


def collect(
    folder: Path, contract: Contract, exclusions: Sequence[Exclusion], now: datetime
) -> Evidence:
    """Read the evidence in a folder, by the rules of the contract; UserError if it is none."""
    excluded = {exclusion.session: exclusion for exclusion in exclusions}
    with reading(folder):
        facts = json_of(folder / SITE)
        evidence = Evidence(
            places=filesystems_in(facts),
            cases={parse_case(text): nodes for text, nodes in facts["cases"].items()},
            lost=list(facts["lost"]),
            excused={*excluded},
        )
        gathered = min(now, datetime.fromisoformat(facts["gathered"]))
        files = sorted((folder / SESSIONS).glob("*.json"))
        stored = [json_of(file) for file in files]
        stored.sort(key=lambda session: (start_of(session), session["session_info"]["uuid"]))
        known = [session["session_info"]["uuid"] for session in stored]
        known += sorted({run.partition("/")[0] for run in [*evidence.lost, *facts["cut"]]})
        if unknown := evidence.excused.difference(known):
            there = f": there are {', '.join(known)}" if known else ""
            raise UserError(
                f"{EXCLUSIONS}: no acceptance session {min(unknown)} is on record{there}"
            )
        _Reader(folder, contract, excluded, evidence).take_all(stored, facts["cut"], gathered)
    return evidence


@dataclass
class _Reader:
    """Take what counts of stored sessions, in the order of time."""

    _folder: Path
    _contract: Contract
    _excluded: Mapping[str, Exclusion]
    _evidence: Evidence

    def take_all(self, stored: Sequence[Stored], cut: Sequence[str], gathered: datetime) -> None:
        """Take what counts of these sessions; `cut` are runs that were cut off with theirs."""
        rules, evidence = self._contract.rules, self._evidence
        needed = {criterion.condition for criterion in self._contract.criteria}
        last: dict[Condition, Session] = {}
        resumed: set[str] = set()
        for entry in stored:
            runs = [
                run
                for run in StoredRun.read_all(self._folder, entry)
                if is_acceptance(run.entry, self._contract.system)
            ]
            session = _session(entry, runs)
            exclusion = self._excluded.get(session.uuid)
            cut_off = _resumed(runs, cut)
            resumed.update(name for names in cut_off.values() for name in names)
            is_late = session.began > gathered + timedelta(seconds=SKEW_S)
            why = next(_unlike_others(session, runs, needed), "")
            if not why and is_late:
                why = (
                    f"it began on {session.began:%Y-%m-%d %H:%M} UTC, and its evidence was "
                    f"gathered or judged on {gathered:%Y-%m-%d %H:%M} UTC: a clock is wrong"
                )
            may_replace = rules.replaces_failed and not why
            if session.began >= rules.begins and not exclusion and not is_late:
                evidence.read_back += self._read_backs(runs, session)
            counting = evidence.counting_with(session.condition)
            why = why or next(_why_not(session, rules, exclusion, counting), "")
            session = replace(session, why_not=why)
            before = last.get(session.condition)
            if session.counts:
                last[session.condition] = session
                evidence.faults += faults(entry)
                self._take(runs, session, cut_off)
            elif before and before.away == session.away and may_replace and not exclusion:
                so_far = len(evidence.replaced)
                self._take(runs, before, cut_off)
                if count := len(evidence.replaced) - so_far:
                    why += f"; it is a re-run of {before.uuid}, and replaces {count} of its runs"
                    session = replace(session, why_not=why)
            evidence.sessions.append(session)
        evidence.lost = sorted({*evidence.lost, *cut} - resumed)

    def _take(
        self,
        runs: Sequence[StoredRun],
        session: Session,
        cut_off: Mapping[Case, Sequence[str]],
    ) -> None:
        """Take the runs of a stored session as those of a session that counts, for which it may be
        a re-run. The first verified run of a case counts, and a second never does, even if the raw
        results of the first are gone. Else whoever does not like a run would only have to lose
        them. A run that was cut off with a session, and made anew as that was resumed, is a first
        run that has failed."""
        rules, evidence = self._contract.rules, self._evidence
        is_rerun = any(run.info["uuid"] != session.uuid for run in runs)
        tried: dict[Case, list[StoredRun]] = {}
        for run in runs:  # nothing is judged without a rate; untried: as if nobody had asked for it
            if run.case and run.case.metrics and not run.outcome.is_untried:
                tried.setdefault(run.case, []).append(run)
        for exhibit in evidence.exhibits:
            if exhibit.session == session.uuid:
                tried.pop(exhibit.case, None)
        for case, of_case in tried.items():
            key, again = (session.uuid, case), is_rerun or case in cut_off
            if case in cut_off and not is_rerun:
                names = " and ".join(cut_off[case])
                evidence.failed.setdefault(key, f"its session was killed and cut off {names}")
            for run in of_case:
                if again and (not rules.replaces_failed or key in evidence.spoilt):
                    break
                if is_rerun and case not in evidence.cases:  # tried out, and none of the suite's
                    break
                evidence.cases.setdefault(case, run.entry["nodes"])
                try:
                    exhibit = self._exhibit(run, case, session)
                except InvalidResult as err:
                    evidence.failed.setdefault(key, str(err))
                    if not run.outcome.is_failed:
                        evidence.spoilt.add(key)
                    again = True
                    continue
                evidence.exhibits.append(exhibit)
                if again:
                    why = evidence.failed.pop(key, "not measured")
                    evidence.replaced.append(
                        f"{case} of session {session.uuid} ({why}) by {run.info['uuid']}"
                    )
                break

    def _exhibit(self, run: StoredRun, case: Case, session: Session) -> Exhibit:
        """Read the raw results of a run; InvalidResult if they are no evidence."""
        evidence, test, name = self._evidence, run.entry, run.name
        nodes, place = test["nodes"], evidence.place_of(case)
        if (promised := evidence.cases[case]) != nodes:
            raise InvalidResult(
                f"it ran on {counted(nodes, 'node')}, and on {promised} by the site's file"
            )
        if not run.outcome.is_failed and test["repeats"] != case.check.repeats:
            raise InvalidResult(
                f"it has {test['repeats']} repetitions, and an acceptance test takes the "
                f"{case.check.repeats} of {case.check.name}"
            )
        measured = run.measured(case, place, session.away)
        if name in {exhibit.folder for exhibit in evidence.exhibits}:
            raise InvalidResult(f"{name}: another session has it too")
        recorded = {key: run.provenance[key] for key in _RECORDED if key in run.provenance}
        return Exhibit(
            case=case,
            nodes=nodes,
            session=session.uuid,
            rates=measured.rates,
            osts=measured.osts,
            ior=measured.ior,
            provenance={**measured.provenance, **recorded},
            folder=name,
        )

    def _read_backs(self, runs: Iterable[StoredRun], session: Session) -> Iterator[ReadBackRun]:
        """Yield the runs of a session that read what an earlier one has kept."""
        for run in runs:
            place = self._evidence.place_of(run.case) if run.case else None
            if run.case is None or place is None or not run.name:
                continue
            job = run.job(run.case, place, session.began)
            if kept := kind_of(run.case).kept_files(job):
                self._evidence.cases.setdefault(run.case, run.entry["nodes"])
                yield ReadBackRun(
                    case=run.case,
                    session=session,
                    night=run.name.split("/")[1],
                    folder=run.name,
                    id=job.run_id,
                    **vars(kept),
                )


def _resumed(runs: Iterable[StoredRun], cut: Sequence[str]) -> dict[Case, list[str]]:
    """The runs that were cut off with their session, and that this one of the same night has made
    anew, by case."""
    resumed = {}
    for run in runs if cut else ():
        night, _, name = run.name.removeprefix(f"{FOLDER}/").partition("/")
        before = {f"{night}/{earlier}" for earlier in names_before(name)}
        if run.case and (names := before.intersection(cut)):
            resumed[run.case] = sorted(names)
    return resumed


def _session(stored: Stored, runs: Sequence[StoredRun]) -> Session:
    info, tests = stored["session_info"], [run.entry for run in runs]
    records = [job for run in runs for job in run.jobs]
    began = start_of(stored)
    start = next((record for made, record in records if made >= began), {})
    return Session(
        uuid=info["uuid"],
        began=min([began, *(made for made, _ in records)]),  # of jobs that a session resumes
        by=f"{info.get('user')}@{info.get('hostname')}, ReFrame {info.get('version')}",
        command=str(info.get("cmdline")),
        ran=len({(test["hashcode"], test["partition"], test["environ"]) for test in tests}),
        promised=max(test.get("promised") or 0 for test in tests),
        away=osts_away(next((test["away"] for test in tests if test.get("away")), "")),
        death=next((test["death"] for test in tests if test.get("death")), ""),
        has_failed=frozenset(
            run.entry["filesystem_name"]
            for run in runs
            if run.outcome.is_unverified and run.entry.get("filesystem_name")
        ),
        boot=start.get("boot", ""),
        up_s=start.get("up_s", 0.0),
    )


#: Options of ReFrame's, also as it lets one abbreviate them, that leave out a part of a check.
_SWITCHES = re.compile(r"(?:^|\s)'?(--(?:disa|skip-)[^\s']*)")


def _unlike_others(
    session: Session, runs: Sequence[StoredRun], needed: Collection[Condition]
) -> Iterator[str]:
    """Say on what purpose a session was not like the others. `needed` are the conditions that some
    criterion is about."""
    tests = [run.entry for run in runs]
    declared = {f"{test.get('away') or ''} {test.get('death') or ''}" for test in tests}
    if len(declared) > 1:
        yield f"its runs differ in what is away or dies: {sorted(declared)}"
    if switch := _SWITCHES.search(session.command):
        yield f"{switch[1]} in its command leaves out a part of each check"
    if session.away and session.condition not in needed:
        yield f"{session.without}, and no criterion is about that"
    if session.death:
        name, _, who = session.death.rpartition(":")
        yield f"a {who} of {name} was to die in it, and only survival is about that"


def _why_not(
    session: Session, rules: Rules, exclusion: Exclusion | None, counting: Sequence[Session]
) -> Iterator[str]:
    """Say why a session does not count. The clock and the contract say so, nobody who has seen its
    results."""
    if exclusion:
        yield f"excluded by {' and '.join(exclusion.by)}: {exclusion.why}"
    if session.began < rules.begins:
        yield f"it began before the test, on {rules.begins:%Y-%m-%d %H:%M} UTC"
    if not session.promised or session.ran < session.promised:
        promised = f" of the {session.promised}" if session.promised else ""
        yield f"it was asked for {session.ran}{promised} cases, and only the whole suite counts"
    if len(counting) == rules.sessions:
        yield f"it came after the {rules.sessions} that count"
    for other in reversed(counting):
        apart = by_clock = abs((session.began - other.began).total_seconds())
        which = "the one before that counts"
        up_s = abs(session.up_s - other.up_s)
        if session.boot and session.boot == other.boot and abs(by_clock - up_s) > SKEW_S:
            apart = up_s
            which = f"session {other.uuid} by how long their node was up (its clock was set)"
        if apart < 3600 * rules.hours_apart:
            yield (
                f"it began {brief(apart / 3600)} h after {which}, and {rules.hours_apart:g} h were "
                "agreed"
            )


# What is on record


def start_of(session: Stored) -> datetime:
    return datetime.fromtimestamp(session["session_info"]["time_start_unix"], UTC)


def is_acceptance(test: Mapping[str, Any], system: str) -> bool:
    """Did the acceptance suite of this system ask for it? Not for a fixture, which has no case."""
    of_case = "case_id" in test and test["system"] == system
    return of_case and test.get("suite") == ACCEPTANCE
