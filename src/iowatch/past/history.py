"""ReFrame's results databases: every run of every case, and what is wrong with sessions.

A session is fetched by iowatch.past.reframe_database, and decoded when the lock is released.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.files import UserError
from iowatch.base.places import results
from iowatch.base.text import counted
from iowatch.cases.case import Case, shown
from iowatch.cases.filesystem import ACCEPTANCE
from iowatch.cases.metric import Reference, shared_reference
from iowatch.cases.run import LOOK_BACK, ByNode, Promise, Run
from iowatch.cases.verdict import JOB_FAILED, Flag, Outcome, Reason, State
from iowatch.measure.case_ids import known_case
from iowatch.measure.causes import known_cause
from iowatch.past.raw_results import Moved
from iowatch.past.reframe_database import (
    UNFINISHED,
    damaged,
    night_id_of,
    row_digest,
    rows,
    starts,
    tests_of,
)
from iowatch.past.run_cache import RunCache
from iowatch.past.words import judged_rows
from iowatch.site.formerly import former_names

#: Likewise: how many cases the site's file promised it, and by what.
PROMISE_KEY = "promise"


_QUEUED = Outcome(State.UNJUDGED, Reason.QUEUED)


def read(
    files: Sequence[Path],
    since: datetime | None = None,
    spans: Sequence[tuple[datetime, datetime]] = (),
    notes: list[str] | None = None,
    differing: list[str] | None = None,
    only: Collection[str] | None = None,
) -> list[Run]:
    """The runs in these databases, oldest first; one that is in several counts once.

    Each has the present name of its case, and the present folder of its raw results. `since` leaves
    out sessions that began before, but for those in one of the `spans`. A session that was changed
    since its night was judged counts for nothing. A sentence on such, and on whatever makes reading
    slow, is added to `notes`. With a list `differing` no cache is believed, and the list has a
    sentence if one did not say what the database does. `only` are the sessions to read. UserError.
    """
    runs, names = dict[Any, Run](), former_names()
    by_name = dict[tuple[str, Case], Case]()
    notes = notes if notes is not None else []
    times = [(first.timestamp(), last.timestamp()) for first, last in spans]
    times += [(since.timestamp() if since else -math.inf, math.inf)]
    judged = judged_rows(files, times)

    def is_wanted(session: str, start: float) -> bool:
        is_then = any(first <= start <= last for first, last in times)
        return is_then and (only is None or session in only)

    with _without_gc():
        for file in files:
            moved, changed = Moved(file.absolute().parent, results()), dict[str, str]()
            for stored in _runs_in(file, is_wanted, notes, differing):
                if stored.row not in judged.get(stored.session, (stored.row,)):
                    changed[stored.session] = stored.night
                    continue
                run = names.run(stored)
                if names.present and run.night:
                    asked = by_name.setdefault((run.night, run.case), stored.case)
                    if asked != stored.case:
                        raise UserError(
                            f"{file}: {asked} and {stored.case} were both measured in the night "
                            f"{run.night}, so they are not the same: remove the former name of "
                            f"{run.case.place} in the site's file"
                        )
                if (folder := moved.folder(run.folder)) != run.folder:
                    run = replace(run, folder=folder)
                runs[run.session, run.case, run.time] = run
            notes += _changed(file, changed)
    return sorted(runs.values(), key=lambda run: (run.time, str(run.case)))


def _changed(file: Path, nights: Mapping[str, str]) -> Iterator[str]:
    """A sentence on sessions that were changed, each of a night."""
    if nights:
        were = counted(len(nights), "session", "were")
        yield (
            f"{file}: {were} changed after the night was judged, which counts for nothing now "
            f"({shown(set(nights.values()))}): restore it from a backup"
        )


def year_before(time: datetime) -> datetime:
    """The time since which nights are looked at; no session is older than the clock of Unix."""
    return max(time, datetime.fromtimestamp(0, UTC) + LOOK_BACK) - LOOK_BACK


def _runs_in(
    file: Path,
    is_wanted: Callable[[str, float], bool],
    notes: list[str],
    differing: list[str] | None,
) -> Iterator[Run]:
    """Yield the runs of the sessions of one database that are wanted, by their ids and begins; of
    those that were read before from the cache, unless it is to be compared."""
    began = {uuid: start for uuid, start in starts(file).items() if is_wanted(uuid, start)}
    brief, unread = RunCache(file), list[str]()
    try:
        for uuid in began:
            runs = brief.read(uuid) if differing is None else None
            if runs is None:
                unread.append(uuid)
            yield from runs or ()
        changed, others = 0, 0
        for uuid, text in rows(file, set(unread)):
            row = row_digest(uuid, began[uuid], text)
            changed += brief.is_other(uuid, row)
            runs = brief.read(uuid, row)
            if runs is None or differing is not None:
                kept, runs = runs, _decoded_runs(file, uuid, row, text)
                others += kept not in (None, runs)
                brief.add(uuid, row, runs)
            yield from runs
        if changed:
            were = counted(changed, "session", "were")
            notes.append(f"{file}: {were} changed since the last reading: restore it from a backup")
        if others and differing is not None:
            differing.append(
                f"{brief.path}: {counted(others, 'session', 'were')} not as in {file}: nights may "
                "have been judged by what never was; it is made anew"
            )
    finally:
        brief.close()
        notes += [brief.trouble] if brief.trouble else []


def _decoded_runs(file: Path, uuid: str, row: str, text: bytes) -> list[Run]:
    session = _decoded(file, uuid, text)
    try:
        return [replace(run, row=row) for run in runs_of(session)]
    except _MALFORMED as err:
        if _is_of_reframe(session):
            raise  # iowatch is broken, and the session is not
        raise damaged(file, uuid, err) from None


def runs_of(session: Mapping[str, Any]) -> Iterator[Run]:
    """The runs of a session, as ReFrame stores or reports it.

    A test of another suite is none, nor one of an older form of case.
    """
    info, tests = session["session_info"], tests_of(session)
    night = night_id_of(session)
    queues = {test["partition"]: test["queued"] for test in tests if test.get("queued")}
    for test in tests:
        case = known_case(str(test.get("case_id")))
        if case is None:
            continue
        if test["result"] not in UNFINISHED:
            yield _run(case, info, night, test, *_verdict(test))
        elif why := _why_unfinished(test, queues.get(test["partition"], "")):
            yield _run(case, info, night, test, _QUEUED, why)


def _why_unfinished(test: Mapping[str, Any], queue: str) -> str:
    """Why a test whose session was stopped was not measured, if its job never began; empty: it did,
    or nobody knows. `queue` is what a job of its partition was waiting for then, if one was."""
    if test.get("queued"):
        return f"its job had not ended when the session was ended: {queue}"
    if queue and not test.get("job_submit_time"):
        return f"its turn had not come when the session was ended: before it, {queue}"
    return ""


def _run(
    case: Case,
    info: Mapping[str, Any],
    night: str,
    test: Mapping[str, Any],
    outcome: Outcome,
    sentence: str,
) -> Run:
    ended = test["job_completion_time_unix"] or info["time_start_unix"]
    # A run that was not measured has no metric, whatever its job has left.
    perfvalues = {} if outcome.is_untried else test.get("perfvalues") or {}
    provenance = test.get("provenance") or {}
    if provenance and (version := test.get("iowatch")):  # of what was not verified, it is alone
        provenance = {"iowatch": version, **provenance}
    return Run(
        case=case,
        time=datetime.fromtimestamp(ended, tz=UTC),
        outcome=outcome,
        sentence=sentence,
        metrics=read_metrics(perfvalues),
        night=night,
        session=info["uuid"],
        test=test["hashcode"],
        result=test["result"],
        filesystem=test.get("filesystem_name") or case.partition,
        folder=test.get("kept") or "",
        provenance=provenance,
        system_context=test.get("system_context") or {},
        slowest=test.get("slowest") or {},
        control=test.get("control") or {},
        by_node=test.get("by_node") or ByNode(),
        detector=test.get("detector") or {},
        references=_references(perfvalues),
        promise=Promise.parse(info.get(PROMISE_KEY) or ""),
        of_contract=test.get("suite") == ACCEPTANCE,
    )


def _verdict(test: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Return what the check said of the run, if ReFrame agrees; else the run has failed."""
    result, sentence = test["result"], test.get("sentence") or ""
    outcome = Outcome.read(test)
    if result == "skip" and outcome and outcome.is_untried:
        return outcome, sentence
    if result == "fail":
        if outcome and outcome.is_red:
            return outcome, sentence or reason(test)
        why = reason(test)
    elif result not in ("pass", "xfail"):
        why = reason(test)
    elif not outcome:
        why = "measured but not judged"
    elif result == "xfail" and outcome.is_regression:
        return outcome.flagged(Flag.KNOWN), sentence
    elif result == "xfail":
        why = f"its failure was expected, and its verdict is {outcome}"
    elif outcome.is_untried:
        why = f"passed, and its verdict is {outcome}"
    elif outcome.is_fault:
        why = f"passed with a red verdict, {outcome}"
    else:
        return outcome, sentence
    return JOB_FAILED, why


def reason(test: Mapping[str, Any]) -> str:
    """One line on why a test did not pass."""
    if test["result"] == "xpass":
        return "passed, and ReFrame expects it to fail"
    text = test.get("fail_reason") or test["result"]
    cause = known_cause(text) if "\n" in text else None  # what a command has printed
    return cause.sentence if cause else " ".join(text.split())


def read_metrics(perfvalues: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """The metrics of a test, from {"system:partition:name": [value, reference, ...]}; what no
    metric can come to is none."""
    return {
        _name(key): float(entry[0])
        for key, entry in perfvalues.items()
        if entry[0] is not None and math.isfinite(entry[0]) and entry[0] >= 0
    }


def _references(perfvalues: Mapping[str, Sequence[Any]]) -> dict[str, Reference]:
    """Where there is a bound, from [value, reference, lower threshold, upper threshold, ...]."""
    return {
        _name(key): shared_reference(*entry[1:4])
        for key, entry in perfvalues.items()
        if any(threshold is not None for threshold in entry[2:4])
    }


@cache  # one text for the metrics of all runs
def _name(key: str) -> str:
    return key.rsplit(":", 1)[-1]


# Sessions


def sessions(file: Path, wanted: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield what ReFrame has stored of each session, or of these, as in its reports. UserError."""
    for uuid, text in rows(file, wanted):
        yield _decoded(file, uuid, text)


def _decoded(file: Path, session: str, text: bytes) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = decoded(text)
        info = stored["session_info"]
        info["uuid"], _, _ = session, info["time_start_unix"], tests_of(stored)
    except _MALFORMED as err:
        raise damaged(file, session, err) from None
    return stored


#: Exceptions of a session that is no JSON, or has other things in it than ReFrame stores.
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def _is_of_reframe(session: Mapping[str, Any]) -> bool:
    import jsonschema  # a session is seldom damaged

    schema = resources.files("reframe").joinpath("schemas/runreport.json").read_text("utf-8")
    return jsonschema.Draft7Validator(json.loads(schema)).is_valid(session)


@contextmanager
def _without_gc() -> Iterator[None]:
    """No search for cycles: decoded JSON has none, and it would take a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def faults(session: Mapping[str, Any]) -> list[str]:
    """Problems of a session whatever it was asked for, besides the verdicts on its cases."""
    return [*itertools.starmap(told, failed_tests(session).items()), *lost_tests(session)]


def failed_tests(session: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Tests that have failed and have no case, by the reason: a fixture, or a check before it had
    one."""
    failed = dict[str, list[Mapping[str, Any]]]()
    for test in tests_of(session):
        if not test.get("case_id") and test["result"] in ("fail", "xpass"):
            failed.setdefault(reason(test), []).append(test)
    return failed


def lost_tests(session: Mapping[str, Any]) -> list[str]:
    """But what was not measured for a reason that is known, where ReFrame has counted it."""
    run = session["runs"][-1]
    lost = run.get("num_skipped", 0) + run.get("num_aborted", 0)
    lost -= sum(
        run.outcome.is_untried and run.result in ("skip", "abort") for run in runs_of(session)
    )
    # A fixture that they rest on has failed, and is a problem itself.
    lost -= sum(test["result"] == "fail_deps" for test in tests_of(session))
    return [f"{counted(lost, 'check', 'were')} skipped or aborted"] if lost else []


def told(why: str, tests: Iterable[Mapping[str, Any]]) -> str:
    return f"{shown(test['display_name'] for test in tests)}: {why}"
