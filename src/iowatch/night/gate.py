"""The gate: the verdicts on a night's cases, and everything by which a check could have passed
quietly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch.base.files import UserError
from iowatch.base.places import reference_folder, reference_values
from iowatch.base.text import counted
from iowatch.cases.case import Case, short_names, shown
from iowatch.cases.filesystem import AMBER_NIGHTS, NIGHTLY
from iowatch.cases.metric import DRIFT
from iowatch.cases.run import NOTE, Promise, Run, began, day_of, deciding
from iowatch.judge.bless import settings_hash
from iowatch.judge.settings import NORMAL
from iowatch.measure.case_ids import table_order
from iowatch.night.alarms import Alarm, alarms_of
from iowatch.night.case_night import CaseNight
from iowatch.night.hour_alarms import alarms_of_hours
from iowatch.night.night import Night
from iowatch.night.record import SystemRecord
from iowatch.night.verdicts import SkippedCase
from iowatch.past.hours import CaseHour
from iowatch.past.session_faults import _failed, _lost, _told
from iowatch.site import references
from iowatch.site.expected import (
    ExpectedFailure,
    excuse,
    expected_path,
    maintenance_path,
    read_maintenance,
)
from iowatch.site.formerly import is_meant

RESTORE = "another iowatch is at work: if its changes do not say why, install that of before"
RECENT = 7  # nights of the system: a case that most of them measured is expected tonight


def night_of(record: SystemRecord, night: str, by_hand: Sequence[Run] = ()) -> Night:
    """A night of a system with everything on record of its cases, or a session by hand as if it
    were a night.

    Runs that a wrong clock dates later than now are no past, nor is an acceptance test. The
    verdicts of this night itself count, whatever the time.
    """
    runs, now, past = by_hand or record.of_night.get(night, ()), record.now, record.cases
    tonight: dict[Case, list[Run]] = {}
    for run in runs:
        if not run.outcome.is_skipped:
            tonight.setdefault(run.case, []).append(run)
    names = short_names(tonight)
    cases = [
        _case_night(case, names[case], night, of_case, record) for case, of_case in tonight.items()
    ]
    cases.sort(key=lambda row: table_order(row.case))
    skipped = [run for run in runs if run.outcome.is_skipped]
    ended = max((row.last.time for row in cases), default=began(night))
    hours, unread = _hours(record, ended)
    judged = Night(
        system=record.system,
        id=night,
        cases=cases,
        alarms=[*alarms_of(cases, now), *alarms_of_hours(hours, ended, record.hourly)],
        problems=[
            *_lost_nights(cases, record.archived),
            *_unguarded(cases, record.amber_nights),
            *unread,
        ],
        skipped=[
            SkippedCase(case, why, max((n for n in past.get(case, ()) if n < night), default=""))
            for case, why in {run.case: run.sentence for run in skipped}.items()
            if case not in tonight
        ],
        expected=record.expected,
        events=record.events,
        maintenance=record.maintenance,
        outputs=record.outputs,
        hours=hours,
    )
    notes = [
        *(_reruns(judged, now, record.rerun_command) if record.rerun_command else ()),
        *_insensitive(cases),
        *_baselines(cases),
        *_recorded(cases),
        *_well(cases, record.expected, judged.alarms),
        *_noted(cases),
        *_skipped(skipped),
        *_excess(record.expected, record.system, day_of(night)),
        *_future([run for run in record.future if run.night != night]),
        *record.notes,
    ]
    return replace(judged, notes=notes)


def _noted(cases: Iterable[CaseNight]) -> Iterator[str]:
    """What runs tell besides their verdicts; what several have met, such as a mount, once."""
    names: dict[str, list[str]] = {}
    for row in cases:
        if note := row.last.provenance.get(NOTE):
            names.setdefault(note, []).append(row.name)
    for note, those in names.items():
        yield f"{those[0] if len(those) == 1 else counted(len(those), 'case')}: {note}"


def _hours(record: SystemRecord, until: datetime) -> tuple[list[CaseHour], list[str]]:
    """The hours before a night's end, or the problem that they cannot be read."""
    try:
        return record.hours_until(until), []
    except UserError as err:
        return [], [str(err)]


def _case_night(
    case: Case, name: str, night: str, runs: Sequence[Run], record: SystemRecord
) -> CaseNight:
    day, entry = day_of(night), record.blessed.get(case)
    return CaseNight(
        case=case,
        name=name,
        night=night,
        runs=runs,
        earlier={n: before for n, before in record.cases.get(case, {}).items() if n < night},
        blessed=entry if entry and entry.blessed <= day else None,  # else it was not in force then
        excuse=excuse(record.expected, str(case), day),
    )


# Notes


def _reruns(night: Night, now: datetime, again: str) -> Iterator[str]:
    suspects = {row.case for row in night.cases if row.is_suspect}
    if due := night.reruns:
        first = min(due.values())
        when = "now" if first <= now else f"from {first:%Y-%m-%d %H:%M} UTC"
        suspect = len(suspects & {*due})
        words = [f"{counted(suspect, 'case', 'are')} suspect"] if suspect else []
        if more := len(due) - suspect:  # the case of a slow OST, those that tell of a filesystem
            words.append(
                f"{counted(more, 'other case' if suspect else 'case')} can tell whether a "
                "suspicion lasts"
            )
        yield f"{', '.join(words)}, and re-runs are due {when}: {again}"
    waiting = {case for alarm in night.alarms if alarm.due for case in alarm.held}
    if rest := len(suspects - {*due} - waiting):
        yield f"{counted(rest, 'case', 'are')} suspect, and will not run again tonight"


def _insensitive(cases: Sequence[CaseNight]) -> Iterator[str]:
    if count := sum(case.outcome.is_insensitive for case in cases):
        drop = f"a drop of {NORMAL.wanted_drop:.0%} within {NORMAL.visible_nights} nights"
        yield (
            f"{counted(count, 'case', 'are', total=len(cases))} of low sensitivity, with too much "
            f"variation to show {drop}"
        )


def _baselines(cases: Sequence[CaseNight]) -> Iterator[str]:
    """Baselines that are not what the detector takes them for."""
    in_force = settings_hash(NORMAL)
    stale = sum(row.blessed.settings != in_force for row in cases if row.blessed)
    if stale:
        yield (
            f"{counted(stale, 'case', 'were')} blessed under other thresholds of the detector: see "
            "whether `iowatch bless` still accepts the nights"
        )


def _recorded(cases: Sequence[CaseNight]) -> Iterator[str]:
    """A sentence on the cases that nothing is compared with yet, on every night."""
    rows = [row for row in cases if row.outcome.is_unreferenced]
    measured = [len(row.measured_nights) + bool(row.last_measured) for row in rows]
    enough = sum(count >= NORMAL.min_nights for count in measured)
    few = sorted(count for count in measured if count < NORMAL.min_nights)
    words = []
    if few:
        least = f"{few[0]} to " if few[0] < few[-1] else ""
        words.append(f"{least}{few[-1]} of {NORMAL.min_nights} nights for a baseline")
    if enough:
        words.append(f"{enough} with the nights that `iowatch bless` needs")
    if rows:
        yield (
            f"{counted(len(rows), 'case', 'are', total=len(cases))} unguarded, without a reference "
            f"value or a baseline: {', '.join(words)}"
        )


def _lost_nights(cases: Iterable[CaseNight], archived: Mapping[str, date]) -> Iterator[str]:
    """A sentence on the cases whose blessed nights are not on record, though not archived: later
    ones may be gone, too."""
    lost = [row.case for row in cases if _is_forgotten(row, archived.get(row.case.partition))]
    if lost:
        yield (
            f"the blessed nights of {counted(len(lost), 'case')} are not on record, and slow "
            f"nights since then may be missing too: {shown(lost)}: restore the results database "
            "(RFM_PREFIX says where it is), or set `archived` in the site's file to the last day "
            "that is not in it any more"
        )


def _unguarded(cases: Iterable[CaseNight], limits: Mapping[str, int]) -> Iterator[str]:
    """A sentence on the cases, and on the OSTs of others, that were not measured for too long,
    whatever the reasons."""
    unguarded: dict[tuple[int, str], list[str]] = {}
    for row in cases:
        most = limits.get(row.case.partition, AMBER_NIGHTS)
        if row.unguarded >= most:
            unguarded.setdefault((row.unguarded, "case"), []).append(str(row.case))
            continue
        for ost, nights in row.unguarded_osts.items():
            if nights >= most:
                unguarded.setdefault((nights, "OST"), []).append(f"OST {ost} of {row.case}")
    for (nights, noun), names in sorted(unguarded.items(), reverse=True):
        yield (
            f"nobody guards {counted(len(names), noun)}, not measured on "
            f"{counted(nights, 'night')} in a row: {shown(names)}: find out why, or raise "
            "`amber_nights` in the site's file"
        )


def _is_forgotten(row: CaseNight, archived: date | None) -> bool:
    entry = row.blessed
    if entry is None or not entry.is_before(row.night):
        return False
    since = f"{archived + timedelta(days=1)}" if archived else ""
    if since > entry.last:
        return False
    measured = [night for night in row.measured_nights if entry.covers(night)]
    if since > entry.first:  # nobody knows how many of them were later
        return not any(night >= since for night in measured)
    return len(measured) < entry.nights


def _well(
    cases: Sequence[CaseNight], expected: Iterable[ExpectedFailure], alarms: Iterable[Alarm]
) -> Iterator[str]:
    """Failures that were expected and did not come, nor as an alarm of several cases."""
    slow = {row.case for alarm in alarms if alarm.known for row in alarm.rows}
    for entry in expected:
        rows = [row for row in cases if entry.excuses(str(row.case), day_of(row.night))]
        tried = [row for row in rows if not row.is_amber]
        if tried and not any(
            row.known or row.case in slow or row.outcome.is_unverified for row in tried
        ):
            yield (
                f"{entry.case.pattern}: it does not fail, although it is {entry}: remove the entry "
                "if the fault is mended"
            )


def _excess(expected: Iterable[ExpectedFailure], system: str, today: date) -> Iterator[str]:
    """Failures that are expected of more than their entry should say."""
    for entry in expected:
        if excess := entry.excess(system, today):
            yield (
                f"{entry.case.pattern}: excuses {excess}: give its entry in expected_failures/ a "
                "day within a year, and a case that names a filesystem, environment, check or "
                "backend"
            )


def _future(runs: Sequence[Run]) -> Iterator[str]:
    if runs:
        yield (
            f"{counted(len(runs), 'run', 'are')} on record with a time later than now: a clock was "
            "wrong, and what it dated does not count"
        )


def _skipped(runs: Iterable[Run]) -> Iterator[str]:
    """A sentence on the cases that need what has never been there, for each reason."""
    by_reason: dict[str, set[Case]] = {}
    for run in runs:
        by_reason.setdefault(run.sentence, set()).add(run.case)
    for why, cases in by_reason.items():
        checks = ", ".join(sorted({case.check.name for case in cases}))
        yield f"{counted(len(cases), 'case', 'are')} skipped ({checks}): {why}"


# The gate


def problems_of(
    expected: set[Case] | None, session: Mapping[str, Any] | None, runs: Sequence[Run]
) -> Iterator[str]:
    """Problems of a session of ReFrame (None: it wrote no report) that was to measure these cases,
    besides its verdicts. None: only ReFrame knows which."""
    failed = _failed(session) if session else {}
    measured = {run.case for run in runs}
    if expected is None:
        expected = measured
    elif not expected:
        yield "the site's configuration asks for no case: nothing was measured"
    unrun = expected - measured
    for why, tests in failed.items():  # one cause, one problem
        places = {(test["partition"], test["environ"]) for test in tests if test.get("fixture")}
        lost = {case for case in unrun if (case.partition, case.environ) in places}
        unrun -= lost
        were = counted(len(lost), "case", "were", total=len(expected)) + " not run: "
        yield f"{were if lost else ''}{_told(why, tests)}"
    if unrun:
        were = counted(len(unrun), "case", "were", total=len(expected))
        yield f"{were} not run: {shown(unrun)}"
    if surplus := measured - expected:
        yield f"{counted(len(surplus), 'case')} ran that nobody asked for: {shown(surplus)}"
    if len(runs) > len(measured):
        yield "a case ran more than once"
    for run in runs:
        missing = [name for name in run.case.metrics if name not in run.metrics]
        if missing and run.outcome.counts:
            yield f"{run.case}: its verdict is {run.outcome}, and it has no {', '.join(missing)}"
    if session:
        yield from _lost(session)


def broken_promises(
    promise: Promise, asked: Set[Case], night: str, runs: Iterable[Run]
) -> Iterator[str]:
    """Problems of the cases that a night asks for: the site's file, counted by itself, promises
    others, or the last night by the same file had more."""
    if len(asked) != promise.cases:
        yield (
            f"the site's file promises {counted(promise.cases, 'case')}, and {len(asked)} are "
            f"asked for: {RESTORE}"
        )
    before = [run for run in runs if run.night < night and run.promise]
    same = [run for run in before if run.promise and run.promise.source == promise.source]
    if not same:
        return
    last = max(run.night for run in same)
    gone = {run.case for run in same if run.night == last} - asked
    promised = max(run.promise.cases for run in same if run.night == last and run.promise)
    if gone or promised > len(asked):
        named = f" {shown(gone)}:" if gone else ""
        yield (
            f"the site's file is as it was in the night {last}, which promised "
            f"{counted(promised, 'case')}, and not all are asked for now:{named} {RESTORE}"
        )


def _last_measured(row: CaseNight) -> Sequence[Run]:
    """The runs of the last night before on which it was measured; none: it never was."""
    nights = (row.earlier[night] for night in sorted(row.earlier, reverse=True))
    return next((runs for runs in nights if not deciding(runs).outcome.is_amber), ())


def lost_guards(cases: Sequence[CaseNight]) -> Iterator[str]:
    """Sentences on the cases that had a baseline, or a reference value, on their last night, and
    are judged by none now."""
    baselines = [
        row.case
        for row in cases
        if not row.blessed and any(DRIFT in run.metrics for run in _last_measured(row))
    ]
    if baselines:
        yield (
            f"the baseline of {counted(len(baselines), 'case')} is gone since the night before: "
            f"{shown(baselines)}: restore reference_values/baselines, or bless again"
        )
    references = [
        row.case
        for row in cases
        if row.outcome.is_unreferenced
        and not row.is_red
        and any(run.references for run in _last_measured(row))
    ]
    if references:
        yield (
            f"the reference value of {counted(len(references), 'case')} is gone since the night "
            f"before: {shown(references)}: restore it in reference_values; from the next night on, "
            "--record leaves them green"
        )


# The files of the site


def idle_entries(
    suites: Mapping[str, Set[Case]], filesystems: Set[str], record: SystemRecord
) -> Iterator[str]:
    """Entries in the site's files that are of none of its cases: somebody took them for a bound.

    `filesystems` are their names. UserError.
    """
    every = {case for cases in suites.values() for case in cases}
    system, folder = record.system, reference_folder()
    values = reference_values(system)
    file = references.ReferenceFile(values) if values.is_file() else None
    yield from _dropped(suites[NIGHTLY], record.blessed, values, file.retired if file else {})
    expected = [
        entry.case.pattern
        for entry in record.expected
        if not any(is_meant(entry.case, str(case)) for case in every)
    ]
    announced = read_maintenance(system, folder)
    unknown = sorted({name for entry in announced for name in entry.filesystems} - filesystems)
    if unknown:
        yield (
            f"{maintenance_path(system, folder)}: names no filesystem of the site: "
            f"{', '.join(unknown)}: write their names as `filesystem` has them in the site's file"
        )
    for path, entries in (
        (values, file.idle(every) if file else []),
        (expected_path(system, folder), expected),
    ):
        if entries:
            yield (
                f"{path}: {len(entries)} of its entries match no case of the site and count for "
                f"nothing: {shown(entries)}: mend or remove them; a place that has a new name "
                "names the old one under `formerly` in the site's file"
            )


def _dropped(
    nightly: Set[Case],
    blessed: Iterable[Case],
    values: Path,
    retired: Mapping[re.Pattern[str], str],
) -> Iterator[str]:
    """Blessed cases that have left the nightly suite, until somebody has said why."""
    # An entry for cases that are measured would hide the next case that is dropped.
    broad = [key for key in retired if any(is_meant(key, str(case)) for case in nightly)]
    if broad:
        yield (
            f"{values}: `{references.RETIRED}` names cases of the nightly suite and counts for "
            f"nothing: {shown(key.pattern for key in broad)}: name only what is not measured"
        )
    explained = [key for key in retired if key not in broad]
    dropped = [
        case
        for case in blessed
        if case not in nightly and not any(is_meant(key, str(case)) for key in explained)
    ]
    if dropped:
        yield (
            f"nobody guards {counted(len(dropped), 'blessed case')}, not in the nightly suite any "
            f"more: {shown(dropped)}: put it back, or say why under `{references.RETIRED}` in "
            f"{values}"
        )
