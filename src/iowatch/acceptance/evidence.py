"""The evidence of an acceptance test: read from the folder in which it was gathered, and held to
the law and to the rules of the contract.

Whoever judges it elsewhere has that folder and no more: no site, no database, no network.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch import __version__
from iowatch.acceptance.contract import Contract
from iowatch.acceptance.exhibits import (
    Condition,
    Evidence,
    Exhibit,
    ReadBack,
    Session,
)
from iowatch.acceptance.terms import Exclusion, Rules
from iowatch.case import Case, known_case
from iowatch.files import UserError, brief, counted
from iowatch.history import read_metrics, tests_of
from iowatch.kinds import physical_rate
from iowatch.kinds.each_ost import osts_away
from iowatch.kinds.readback import KeptFiles, look_back
from iowatch.law import Job, require_end
from iowatch.night.gate import faults
from iowatch.raw_results import (
    FOLDER,
    JOB_RECORD,
    names_before,
)
from iowatch.result import InvalidResult
from iowatch.run import NOTE
from iowatch.site import Filesystem
from iowatch.storage.striped import numbers_in_words
from iowatch.suites import ACCEPTANCE
from iowatch.verdict import JOB_FAILED, Outcome

Stored = dict[str, Any]  # a session as ReFrame stores it
#: In the folder of the evidence:
CONTRACT, EXCLUSIONS, SITE, SESSIONS = "contract.yaml", "exclusions.yaml", "site.json", "sessions"
SKEW_S = 300.0  # between the clocks of login and compute nodes

#: Of the provenance on record, those that no result file has.
_RECORDED = ("modules", "spack", "program", NOTE)
#: A name that may stand in the evidence.
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:=,+-]*", re.ASCII)


def collect(
    folder: Path, contract: Contract, exclusions: Sequence[Exclusion], now: datetime
) -> Evidence:
    """The evidence in a folder, by the rules of the contract; UserError if it is none."""
    try:
        facts = json.loads((folder / SITE).read_text("utf-8"))
        places = [_filesystem(entry) for entry in facts["filesystems"]]
        evidence = Evidence(
            places=places,
            cases={Case.parse(text): nodes for text, nodes in facts["cases"].items()},
            lost=list(facts["lost"]),
        )
        gathered = min(now, datetime.fromisoformat(facts["gathered"]))
        stored = [
            json.loads(file.read_text("utf-8"))
            for file in sorted((folder / SESSIONS).glob("*.json"))
        ]
        stored.sort(key=lambda session: (start_of(session), session["session_info"]["uuid"]))
        _read(folder, contract, exclusions, stored, evidence, facts["cut"], gathered)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as err:
        raise UserError(
            f"{folder}: is no evidence that this iowatch, {__version__}, can read: {err!r}"
        ) from None
    return evidence


def _filesystem(entry: Mapping[str, Any]) -> Filesystem:
    values: dict[str, Any] = {name: _as_it_was(value) for name, value in entry.items()}
    return Filesystem(**values, suites={})


def _as_it_was(value: Any) -> Any:
    """What JSON has made a list of: it knows no tuples."""
    if isinstance(value, dict):
        return {name: _as_it_was(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _read(
    folder: Path,
    contract: Contract,
    exclusions: Sequence[Exclusion],
    stored: Sequence[Stored],
    evidence: Evidence,
    cut: Sequence[str],
    gathered: datetime,
) -> None:
    """Take what counts of the stored sessions; `cut` are runs that were cut off with theirs."""
    rules = contract.rules
    excluded = {one.session: one for one in exclusions}
    known = [session["session_info"]["uuid"] for session in stored]
    known += sorted({run.partition("/")[0] for run in [*evidence.lost, *cut]})
    evidence.excused = set(excluded)
    conditions = {one.condition for one in contract.criteria}
    if unknown := set(excluded).difference(known):
        there = f": there are {', '.join(known)}" if known else ""
        raise UserError(f"{EXCLUSIONS}: no acceptance session {min(unknown)} is on record{there}")
    last: dict[Condition, Session] = {}
    resumed: set[str] = set()
    for one in stored:
        tests = [test for test in tests_of(one) if is_acceptance(test, contract.system)]
        session = _session(folder, one, tests)
        cut_off = _resumed(tests, cut)
        resumed.update(run for runs in cut_off.values() for run in runs)
        why = _differing(tests) or _switched_off(session.command)
        if not why and session.away and session.condition not in conditions:
            why = f"{away_in_words(session.away)}, and no criterion is about that"
        if not why and session.death:
            name, _, who = session.death.rpartition(":")
            why = f"a {who} of {name} was to die in it, and only survival is about that"
        is_late = session.began > gathered + timedelta(seconds=SKEW_S)
        if not why and is_late:
            why = (
                f"it began on {session.began:%Y-%m-%d %H:%M} UTC, and its evidence was gathered or "
                f"judged on {gathered:%Y-%m-%d %H:%M} UTC: a clock is wrong"
            )
        may_replace = rules.replaces_failed and not why
        if session.began >= rules.begins and session.uuid not in excluded and not is_late:
            evidence.read_back += _read_backs(folder, tests, session, evidence)
        counting = evidence.counting_with(session.condition)
        why = why or _why_not(session, rules, excluded.get(session.uuid), counting)
        session = replace(session, why_not=why)
        before = last.get(session.condition)
        if session.counts:
            last[session.condition] = session
            evidence.faults += faults(one)
            _take(folder, one, tests, session, rules, evidence, cut_off)
        elif (
            before and before.away == session.away and may_replace and session.uuid not in excluded
        ):
            so_far = len(evidence.replaced)
            _take(folder, one, tests, before, rules, evidence, cut_off)
            if count := len(evidence.replaced) - so_far:
                why = f"{why}; it is a re-run of {before.uuid}, and replaces {count} of its runs"
                session = replace(session, why_not=why)
        evidence.sessions.append(session)
    evidence.lost = sorted({*evidence.lost, *cut} - resumed)


def _resumed(tests: Iterable[Mapping[str, Any]], cut: Sequence[str]) -> dict[Case, list[str]]:
    """The runs that were cut off with their session, and that this one of the same night has made
    anew, by case."""
    resumed = {}
    for test in tests if cut else ():
        place = place_of(Path(test.get("kept") or ""))
        night, _, name = place.removeprefix(f"{FOLDER}/").partition("/")
        before = {f"{night}/{earlier}" for earlier in names_before(name)}
        case = known_case(test.get("case_id") or "")
        if case and (runs := before.intersection(cut)):
            resumed[case] = sorted(runs)
    return resumed


def _session(folder: Path, stored: Stored, tests: Sequence[Mapping[str, Any]]) -> Session:
    info = stored["session_info"]
    records = [(made, record) for test in tests for made, record in _job_record(folder, test)]
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
            test["filesystem_name"]
            for test in tests
            if _outcome(test).is_unverified and test.get("filesystem_name")
        ),
        boot=start.get("boot", ""),
        up_s=start.get("up_s", 0.0),
    )


def _job_record(
    folder: Path, test: Mapping[str, Any]
) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    """When a job was made, and what it was given; nothing if it has left no record of that, or one
    that a power cut has emptied."""
    file = folder / place_of(Path(test.get("kept") or "")) / JOB_RECORD
    if file.is_file() and (text := file.read_text("utf-8")):
        record = json.loads(text)
        yield datetime.fromisoformat(record["made"]), record


def away_in_words(away: Mapping[str, Sequence[int]]) -> str:
    """It was declared to be without OSTs 7 and 9 of fs3."""
    each = (f"{numbers_in_words('OST', osts)} of {name}" for name, osts in away.items())
    return f"it was declared to be without {' and '.join(each)}"


def _differing(tests: Iterable[Mapping[str, Any]]) -> str:
    """That not all runs of a session were told the same on what is away or dies; empty if so."""
    declared = {f"{test.get('away') or ''} {test.get('death') or ''}" for test in tests}
    return (
        f"its runs differ in what is away or dies: {sorted(declared)}" if len(declared) > 1 else ""
    )


#: Options of ReFrame's, also as it lets one abbreviate them, that leave out a part of a check.
_SWITCHES = re.compile(r"(?:^|\s)'?(--(?:disa|skip-)[^\s']*)")


def _switched_off(command: str) -> str:
    """That a part of each check was left out by the command of a session; empty if none was."""
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
        of = f" of the {session.promised}" if session.promised else ""
        return f"it was asked for {session.ran}{of} cases, and only the whole suite counts"
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


def _take(
    folder: Path,
    stored: Stored,
    tests: Iterable[Mapping[str, Any]],
    session: Session,
    rules: Rules,
    evidence: Evidence,
    cut_off: Mapping[Case, Sequence[str]],
) -> None:
    """Take the runs of a stored session as those of a session that counts, for which it may be a
    re-run. Of a case the first verified run counts, and a second never does, whatever has become
    of the raw results of the first: else whoever does not like a run would only have to lose them.
    What was cut off with a session that was killed, and made anew as that was resumed, is a first
    run that has failed.
    """
    filesystems = {(place.system, place.partition): place for place in evidence.places}
    has = {one.case for one in evidence.exhibits if one.session == session.uuid}
    claimed = {one.folder for one in evidence.exhibits}
    is_rerun = stored["session_info"]["uuid"] != session.uuid
    seen = set()
    for test in tests:
        case = known_case(test.get("case_id") or "")
        if case is None or not case.metrics or case in has:  # of what has no rate nothing is judged
            continue
        if _outcome(test).is_untried:  # as if nobody had asked for it
            continue
        key, again = (session.uuid, case), is_rerun or case in seen or case in cut_off
        seen.add(case)
        if case in cut_off and not is_rerun:
            runs = " and ".join(cut_off[case])
            evidence.failed.setdefault(key, f"its session was killed and cut off {runs}")
        if again and (not rules.replaces_failed or key in evidence.spoilt):
            continue
        if is_rerun and case not in evidence.cases:  # tried out, and none of the suite's
            continue
        evidence.cases.setdefault(case, test["nodes"])
        try:
            if (promised := evidence.cases[case]) != test["nodes"]:
                raise InvalidResult(
                    f"it ran on {counted(test['nodes'], 'node')}, and on {promised} by the site's "
                    "file"
                )
            place = filesystems.get((case.system, case.partition))
            if place is None:
                raise InvalidResult("the site's configuration no longer has its partition")
            away = session.away.get(place.name, ())
            exhibit = _exhibit(folder, test, case, place, stored["session_info"], away)
            if exhibit.folder in claimed:
                raise InvalidResult(f"{exhibit.folder}: another session has it too")
        except InvalidResult as err:
            evidence.failed.setdefault(key, str(err))
            if not _outcome(test).is_failed:
                evidence.spoilt.add(key)
            continue
        has.add(case)
        claimed.add(exhibit.folder)
        evidence.exhibits.append(replace(exhibit, session=session.uuid))
        if again:
            why = evidence.failed.pop(key, "not measured")
            by = stored["session_info"]["uuid"]
            evidence.replaced.append(f"{case} of session {session.uuid} ({why}) by {by}")


def _outcome(test: Mapping[str, Any]) -> Outcome:
    """What a session has on record of a run; a job that did not end has failed."""
    return Outcome.read(test) or JOB_FAILED


def _exhibit(
    evidence: Path,
    test: Mapping[str, Any],
    case: Case,
    place: Filesystem,
    session: Mapping[str, Any],
    away: Sequence[int],
) -> Exhibit:
    if _outcome(test).is_failed:
        raise InvalidResult(test["sentence"] or f"the job did not end: {test['fail_reason']}")
    if test["repeats"] != case.check.repeats:
        raise InvalidResult(
            f"it has {test['repeats']} repetitions, and an acceptance test takes the "
            f"{case.check.repeats} of {case.check.name}"
        )
    name = place_of(Path(test["kept"] or ""))
    folder = evidence / name
    if not name or not folder.is_dir():
        raise InvalidResult(f"{test['kept']}: its raw results are no longer there")
    recorded = test.get("provenance") or {}
    began = datetime.fromtimestamp(session["time_start_unix"], UTC)
    made = min([began, *(made for made, _ in _job_record(evidence, test))])
    spec = recorded.get("spack", "")
    job = Job(
        folder=folder, case=case, filesystem=place, run_id=test["run_id"], made=made,
        nodes=test["nodes"], spec=spec, away=away,
    )  # fmt: skip
    measured = case.check.read(job, test["repeats"])
    require_end(job)
    for result in measured.results:
        there = str(Path(result.run["directory"]).parent)
        # Where everybody may write, each user has a place apart, with his number.
        if not re.fullmatch(rf"{re.escape(str(Path(place.path)))}(\.[0-9]+)?", there):
            raise InvalidResult(
                f"{name}: its files were in {there}, and {place.name} is at {place.path}"
            )
        ended = began + timedelta(seconds=session["time_elapsed"])
        skew = timedelta(seconds=SKEW_S)
        if not made - skew < result.started < ended + skew:
            raise InvalidResult(f"{name}: another session wrote it, at {result.started}")
    _compare(measured.metrics, read_metrics(test.get("perfvalues") or {}), place, name)
    return Exhibit(
        case=case,
        nodes=test["nodes"],
        session=session["uuid"],
        rates=measured.rates,
        osts=measured.osts,
        ior=measured.ior,
        provenance={
            **measured.provenance,
            **{key: recorded[key] for key in _RECORDED if key in recorded},
        },
        folder=name,
    )


def _read_backs(
    folder: Path, tests: Iterable[Mapping[str, Any]], session: Session, evidence: Evidence
) -> Iterator[ReadBack]:
    """The runs of a session that read what an earlier one has kept."""
    places = {(place.system, place.partition): place for place in evidence.places}
    for test in tests:
        case = known_case(test.get("case_id") or "")
        place = places.get((case.system, case.partition)) if case else None
        name = place_of(Path(test.get("kept") or ""))
        if case is None or place is None or not name or not isinstance(case.check, KeptFiles):
            continue
        evidence.cases.setdefault(case, test["nodes"])
        spec = (test.get("provenance") or {}).get("spack", "")
        job = Job(
            folder=folder / name, case=case, filesystem=place, run_id=test["run_id"],
            made=session.began, nodes=test["nodes"], spec=spec,
        )  # fmt: skip
        yield ReadBack(
            case=case,
            session=session,
            night=name.split("/")[1],
            folder=name,
            id=job.run_id,
            **vars(look_back(job)),
        )


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
