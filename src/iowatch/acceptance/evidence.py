"""The evidence of an acceptance test: read from its folder, and held to the law and to the rules of
the contract.

Whoever judges it elsewhere has that folder and no more: no site, no database, no network.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from iowatch import __version__
from iowatch.acceptance.contract import Contract, Exclusion, Rules
from iowatch.acceptance.exhibits import Condition, Evidence, Exhibit, ReadBackRun, Session
from iowatch.case import Case, known_case
from iowatch.files import UserError, brief, counted
from iowatch.filesystem import Filesystem
from iowatch.history import read_metrics, tests_of
from iowatch.kinds import physical_rate
from iowatch.kinds.slow_ost import osts_away
from iowatch.law import Job, require_end
from iowatch.night.gate import faults
from iowatch.raw_results import FOLDER, JOB_RECORD, names_before
from iowatch.result import InvalidResult
from iowatch.run import NOTE
from iowatch.storage.striped import numbers_in_words
from iowatch.suites import ACCEPTANCE
from iowatch.verdict import JOB_FAILED, Outcome

Stored = dict[str, Any]  # a session as ReFrame stores it
#: In the folder of the evidence:
CONTRACT, EXCLUSIONS, SITE, SESSIONS = "contract.yaml", "exclusions.yaml", "site.json", "sessions"
SKEW_S = 300.0  # between the clocks of login and compute nodes

#: Names of the provenance on record that no result file has.
_RECORDED = ("modules", "spack", "program", NOTE)
#: A name that may stand in the evidence.
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:=,+-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One run, as its session has it on record."""

    entry: Mapping[str, Any]
    case: Case | None
    name: str  # of the folder of its raw results, in the evidence; empty: it was given no job
    outcome: Outcome  # a job that did not end has failed
    #: When its job was made, and what it was given. Empty: it left no record, or a power cut
    #: emptied the record.
    jobs: Sequence[tuple[datetime, Mapping[str, Any]]]

    @classmethod
    def read(cls, folder: Path, entry: Mapping[str, Any]) -> Self:
        """Read what the evidence in a folder has of a test of ReFrame's."""
        name = place_of(Path(entry.get("kept") or ""))
        file = folder / name / JOB_RECORD
        texts = [file.read_text("utf-8")] if file.is_file() else []
        records = [json.loads(text) for text in texts if text]
        return cls(
            entry=entry,
            case=known_case(entry.get("case_id") or ""),
            name=name,
            outcome=Outcome.read(entry) or JOB_FAILED,
            jobs=[(datetime.fromisoformat(record["made"]), record) for record in records],
        )

    @property
    def provenance(self) -> Mapping[str, str]:
        """The provenance of the run, as on record."""
        return self.entry.get("provenance") or {}

    def job(
        self,
        folder: Path,
        case: Case,
        place: Filesystem,
        made: datetime,
        away: Sequence[int] | None = None,
    ) -> Job:
        """The job of the run, whose results the law is asked about."""
        return Job(
            folder=folder / self.name,
            case=case,
            filesystem=place,
            run_id=self.entry["run_id"],
            made=made,
            nodes=self.entry["nodes"],
            spec=self.provenance.get("spack", ""),
            away=away,
        )


def collect(
    folder: Path, contract: Contract, exclusions: Sequence[Exclusion], now: datetime
) -> Evidence:
    """Read the evidence in a folder, by the rules of the contract; UserError if it is none."""
    try:
        facts = json.loads((folder / SITE).read_text("utf-8"))
        evidence = Evidence(
            places=[Filesystem(**_as_it_was(entry), suites={}) for entry in facts["filesystems"]],
            cases={Case.parse(text): nodes for text, nodes in facts["cases"].items()},
            lost=list(facts["lost"]),
            excused={exclusion.session for exclusion in exclusions},
        )
        gathered = min(now, datetime.fromisoformat(facts["gathered"]))
        files = sorted((folder / SESSIONS).glob("*.json"))
        stored = [json.loads(file.read_text("utf-8")) for file in files]
        stored.sort(key=lambda session: (start_of(session), session["session_info"]["uuid"]))
        known = [session["session_info"]["uuid"] for session in stored]
        known += sorted({run.partition("/")[0] for run in [*evidence.lost, *facts["cut"]]})
        if unknown := evidence.excused.difference(known):
            there = f": there are {', '.join(known)}" if known else ""
            raise UserError(
                f"{EXCLUSIONS}: no acceptance session {min(unknown)} is on record{there}"
            )
        _Reader(folder, contract, exclusions, evidence).read(stored, facts["cut"], gathered)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as err:
        raise UserError(
            f"{folder}: is no evidence that this iowatch, {__version__}, can read: {err!r}"
        ) from None
    return evidence


def _as_it_was(value: Any) -> Any:
    """Make tuples of lists: JSON knows no tuples."""
    if isinstance(value, dict):
        return {name: _as_it_was(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


class _Reader:
    """Take what counts of stored sessions, in the order of time."""

    def __init__(
        self,
        folder: Path,
        contract: Contract,
        exclusions: Sequence[Exclusion],
        evidence: Evidence,
    ) -> None:
        self._folder, self._contract, self._evidence = folder, contract, evidence
        self._excluded = {exclusion.session: exclusion for exclusion in exclusions}

    def read(self, stored: Sequence[Stored], cut: Sequence[str], gathered: datetime) -> None:
        """Take what counts of these sessions; `cut` are runs that were cut off with theirs."""
        rules, evidence = self._contract.rules, self._evidence
        last: dict[Condition, Session] = {}
        resumed: set[str] = set()
        for entry in stored:
            runs = [
                _Run.read(self._folder, test)
                for test in tests_of(entry)
                if is_acceptance(test, self._contract.system)
            ]
            session = _session(entry, runs)
            exclusion = self._excluded.get(session.uuid)
            cut_off = _resumed(runs, cut)
            resumed.update(name for names in cut_off.values() for name in names)
            why = _differing(runs) or _switched_off(session.command) or self._apart(session)
            is_late = session.began > gathered + timedelta(seconds=SKEW_S)
            if not why and is_late:
                why = (
                    f"it began on {session.began:%Y-%m-%d %H:%M} UTC, and its evidence was "
                    f"gathered or judged on {gathered:%Y-%m-%d %H:%M} UTC: a clock is wrong"
                )
            may_replace = rules.replaces_failed and not why
            if session.began >= rules.begins and not exclusion and not is_late:
                evidence.read_back += self._read_backs(runs, session)
            counting = evidence.counting_with(session.condition)
            why = why or _why_not(session, rules, exclusion, counting)
            session = replace(session, why_not=why)
            before = last.get(session.condition)
            if session.counts:
                last[session.condition] = session
                evidence.faults += faults(entry)
                self._take(entry["session_info"], runs, session, cut_off)
            elif before and before.away == session.away and may_replace and not exclusion:
                so_far = len(evidence.replaced)
                self._take(entry["session_info"], runs, before, cut_off)
                if count := len(evidence.replaced) - so_far:
                    why += f"; it is a re-run of {before.uuid}, and replaces {count} of its runs"
                    session = replace(session, why_not=why)
            evidence.sessions.append(session)
        evidence.lost = sorted({*evidence.lost, *cut} - resumed)

    def _apart(self, session: Session) -> str:
        """Say on what purpose a session was not like the others; empty if it was, or if a criterion
        needs that."""
        needed = {criterion.condition for criterion in self._contract.criteria}
        if session.away and session.condition not in needed:
            return f"{away_in_words(session.away)}, and no criterion is about that"
        if session.death:
            name, _, who = session.death.rpartition(":")
            return f"a {who} of {name} was to die in it, and only survival is about that"
        return ""

    def _take(
        self,
        info: Mapping[str, Any],
        runs: Sequence[_Run],
        session: Session,
        cut_off: Mapping[Case, Sequence[str]],
    ) -> None:
        """Take the runs of a stored session as those of a session that counts, for which it may be
        a re-run. The first verified run of a case counts, and a second never does, even if the raw
        results of the first are gone. Else whoever does not like a run would only have to lose
        them. A run that was cut off with a session, and made anew as that was resumed, is a first
        run that has failed."""
        rules, evidence = self._contract.rules, self._evidence
        has = {exhibit.case for exhibit in evidence.exhibits if exhibit.session == session.uuid}
        is_rerun = info["uuid"] != session.uuid
        seen = set()
        for run in runs:
            case = run.case
            if case is None or not case.metrics or case in has:  # nothing is judged without a rate
                continue
            if run.outcome.is_untried:  # as if nobody had asked for it
                continue
            key, again = (session.uuid, case), is_rerun or case in seen or case in cut_off
            seen.add(case)
            if case in cut_off and not is_rerun:
                names = " and ".join(cut_off[case])
                evidence.failed.setdefault(key, f"its session was killed and cut off {names}")
            if again and (not rules.replaces_failed or key in evidence.spoilt):
                continue
            if is_rerun and case not in evidence.cases:  # tried out, and none of the suite's
                continue
            nodes = run.entry["nodes"]
            evidence.cases.setdefault(case, nodes)
            try:
                if (promised := evidence.cases[case]) != nodes:
                    raise InvalidResult(
                        f"it ran on {counted(nodes, 'node')}, and on {promised} by the site's file"
                    )
                exhibit = self._exhibit(run, case, info, session)
            except InvalidResult as err:
                evidence.failed.setdefault(key, str(err))
                if not run.outcome.is_failed:
                    evidence.spoilt.add(key)
                continue
            has.add(case)
            evidence.exhibits.append(exhibit)
            if again:
                why = evidence.failed.pop(key, "not measured")
                evidence.replaced.append(
                    f"{case} of session {session.uuid} ({why}) by {info['uuid']}"
                )

    def _exhibit(self, run: _Run, case: Case, info: Mapping[str, Any], session: Session) -> Exhibit:
        """Read the raw results of a run; InvalidResult if they are no evidence."""
        test, name = run.entry, run.name
        place = self._evidence.place_of(case)
        if place is None:
            raise InvalidResult("the site's configuration no longer has its partition")
        if run.outcome.is_failed:
            raise InvalidResult(test["sentence"] or f"the job did not end: {test['fail_reason']}")
        if test["repeats"] != case.check.repeats:
            raise InvalidResult(
                f"it has {test['repeats']} repetitions, and an acceptance test takes the "
                f"{case.check.repeats} of {case.check.name}"
            )
        if not name or not (self._folder / name).is_dir():
            raise InvalidResult(f"{test['kept']}: its raw results are no longer there")
        if name in {exhibit.folder for exhibit in self._evidence.exhibits}:
            raise InvalidResult(f"{name}: another session has it too")
        began = datetime.fromtimestamp(info["time_start_unix"], UTC)
        made = min([began, *(made for made, _ in run.jobs)])
        job = run.job(self._folder, case, place, made, session.away.get(place.name, ()))
        measured = case.check.read(job, test["repeats"])
        require_end(job)
        for result in measured.results:
            there = str(Path(result.run["directory"]).parent)
            # Where everybody may write, each user has a place apart, with his number.
            if not re.fullmatch(rf"{re.escape(str(Path(place.path)))}(\.[0-9]+)?", there):
                raise InvalidResult(
                    f"{name}: its files were in {there}, and {place.name} is at {place.path}"
                )
            ended = began + timedelta(seconds=info["time_elapsed"])
            skew = timedelta(seconds=SKEW_S)
            if not made - skew < result.started < ended + skew:
                raise InvalidResult(f"{name}: another session wrote it, at {result.started}")
        _compare(measured.metrics, read_metrics(test.get("perfvalues") or {}), place, name)
        recorded = {key: run.provenance[key] for key in _RECORDED if key in run.provenance}
        return Exhibit(
            case=case,
            nodes=test["nodes"],
            session=session.uuid,
            rates=measured.rates,
            osts=measured.osts,
            ior=measured.ior,
            provenance={**measured.provenance, **recorded},
            folder=name,
        )

    def _read_backs(self, runs: Iterable[_Run], session: Session) -> Iterator[ReadBackRun]:
        """Yield the runs of a session that read what an earlier one has kept."""
        for run in runs:
            place = self._evidence.place_of(run.case) if run.case else None
            if run.case is None or place is None or not run.name:
                continue
            job = run.job(self._folder, run.case, place, session.began)
            if kept := run.case.check.kept_files(job):
                self._evidence.cases.setdefault(run.case, run.entry["nodes"])
                yield ReadBackRun(
                    case=run.case,
                    session=session,
                    night=run.name.split("/")[1],
                    folder=run.name,
                    id=job.run_id,
                    **vars(kept),
                )


def _resumed(runs: Iterable[_Run], cut: Sequence[str]) -> dict[Case, list[str]]:
    """The runs that were cut off with their session, and that this one of the same night has made
    anew, by case."""
    resumed = {}
    for run in runs if cut else ():
        night, _, name = run.name.removeprefix(f"{FOLDER}/").partition("/")
        before = {f"{night}/{earlier}" for earlier in names_before(name)}
        if run.case and (names := before.intersection(cut)):
            resumed[run.case] = sorted(names)
    return resumed


def _session(stored: Stored, runs: Sequence[_Run]) -> Session:
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


def away_in_words(away: Mapping[str, Sequence[int]]) -> str:
    """Say that a session was declared to be without some OSTs, such as 7 and 9 of fs3."""
    osts_by_place = (f"{numbers_in_words('OST', osts)} of {name}" for name, osts in away.items())
    return f"it was declared to be without {' and '.join(osts_by_place)}"


def _differing(runs: Iterable[_Run]) -> str:
    """Say that not all runs of a session were told the same on what is away or dies; empty if they
    were."""
    tests = [run.entry for run in runs]
    declared = {f"{test.get('away') or ''} {test.get('death') or ''}" for test in tests}
    differ = f"its runs differ in what is away or dies: {sorted(declared)}"
    return differ if len(declared) > 1 else ""


#: Options of ReFrame's, also as it lets one abbreviate them, that leave out a part of a check.
_SWITCHES = re.compile(r"(?:^|\s)'?(--(?:disa|skip-)[^\s']*)")


def _switched_off(command: str) -> str:
    """Say that a session's command has left out a part of each check; empty if it has not."""
    switch = _SWITCHES.search(command)
    return f"{switch[1]} in its command leaves out a part of each check" if switch else ""


def _why_not(
    session: Session, rules: Rules, exclusion: Exclusion | None, counting: Sequence[Session]
) -> str:
    """Why a session does not count; empty if it does. The clock and the contract say so, nobody
    who has seen its results."""
    if exclusion:
        return f"excluded by {' and '.join(exclusion.by)}: {exclusion.why}"
    if session.began < rules.begins:
        return f"it began before the test, on {rules.begins:%Y-%m-%d %H:%M} UTC"
    if not session.promised or session.ran < session.promised:
        promised = f" of the {session.promised}" if session.promised else ""
        return f"it was asked for {session.ran}{promised} cases, and only the whole suite counts"
    if len(counting) == rules.sessions:
        return f"it came after the {rules.sessions} that count"
    for other in reversed(counting):
        apart = by_clock = abs((session.began - other.began).total_seconds())
        which = "the one before that counts"
        up_s = abs(session.up_s - other.up_s)
        if session.boot and session.boot == other.boot and abs(by_clock - up_s) > SKEW_S:
            apart = up_s
            which = f"session {other.uuid} by how long their node was up (its clock was set)"
        if apart < 3600 * rules.hours_apart:
            return (
                f"it began {brief(apart / 3600)} h after {which}, and {rules.hours_apart:g} h were "
                "agreed"
            )
    return ""


def _compare(
    metrics: Mapping[str, float], stored: Mapping[str, float], place: Filesystem, name: str
) -> None:
    """InvalidResult if the result files do not say what the session has on record."""
    for metric, value in metrics.items():
        on_record = stored.get(metric, math.nan)
        if not math.isclose(value, on_record, rel_tol=1e-9):
            raise InvalidResult(
                f"{name}: {metric} of its results is {brief(value)}, and {brief(on_record)} is on "
                "record: changed, or a later session wrote over them"
            )
    if (best := physical_rate(metrics)) > place.peak:
        raise InvalidResult(f"{name}: {brief(best)} MiB/s is above the peak of {place.name}")


# What is on record


def start_of(session: Stored) -> datetime:
    return datetime.fromtimestamp(session["session_info"]["time_start_unix"], UTC)


def is_acceptance(test: Mapping[str, Any], system: str) -> bool:
    """Did the acceptance suite of this system ask for it? Not for a fixture, which has no case."""
    of_case = "case_id" in test and test["system"] == system
    return of_case and test.get("suite") == ACCEPTANCE


def place_of(kept: Path) -> str:
    """The folder of a run in the evidence; empty if it has none, for it was never given a job."""
    names = kept.parts[-2:]
    is_ours = len(names) == 2 and all(PLAIN.fullmatch(name) for name in names)
    return "/".join((FOLDER, *names)) if is_ours else ""
