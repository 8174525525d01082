"""Sentences on a night as a whole: what is due, missing, unguarded or to be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from iowatch.base.text import counted
from iowatch.cases.case import Case, shown
from iowatch.cases.filesystem import AMBER_NIGHTS
from iowatch.cases.run import NOTE, Run, day_of
from iowatch.judge.bless import settings_hash
from iowatch.judge.settings import NORMAL
from iowatch.night.alarm import Alarm
from iowatch.night.case_night import CaseNight
from iowatch.night.night import Night
from iowatch.night.record import SystemRecord
from iowatch.site.declared import ExpectedFailure


def problems(cases: Sequence[CaseNight], record: SystemRecord) -> list[str]:
    """Return what makes a night red though no verdict of it does."""
    return [*_lost_nights(cases, record.archived), *_unguarded(cases, record.amber_nights)]


def notes(night: Night, skipped: Sequence[Run], record: SystemRecord) -> list[str]:
    """Return what is to be known of a night; `skipped` are its runs that measured nothing."""
    cases, again = night.cases, record.rerun_command
    return [
        *(_reruns(night, record.now, again) if again else ()),
        *_insensitive(cases),
        *_baselines(cases),
        *_recorded(cases),
        *_well(cases, record.expected, night.alarms),
        *_noted(cases),
        *_skipped(skipped),
        *_excess(record.expected, record.system, day_of(night.id)),
        *_future([run for run in record.future if run.night != night.id]),
        *record.notes,
    ]


def _noted(cases: Iterable[CaseNight]) -> Iterator[str]:
    """What runs tell besides their verdicts; what several have met, such as a mount, once."""
    names: dict[str, list[str]] = {}
    for row in cases:
        if note := row.last.provenance.get(NOTE):
            names.setdefault(note, []).append(row.name)
    for note, those in names.items():
        yield f"{those[0] if len(those) == 1 else counted(len(those), 'case')}: {note}"


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
    few = sorted(count for count in measured if count < NORMAL.min_nights)
    words = []
    if few:
        least = f"{few[0]} to " if few[0] < few[-1] else ""
        words.append(f"{least}{few[-1]} of {NORMAL.min_nights} nights for a baseline")
    if enough := len(rows) - len(few):
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
    tried = [row for row in cases if not row.is_amber]
    failed = {row.case for row in tried if row.known or row.outcome.is_unverified} | slow
    for entry in expected:
        names = {row.case for row in tried if entry.excuses(str(row.case), day_of(row.night))}
        if names and not names & failed:
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
