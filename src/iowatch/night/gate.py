"""The gate: the verdicts on a night's cases, and everything by which a check could have passed
quietly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case, short_names, shown
from iowatch.cases.metric import DRIFT
from iowatch.cases.run import Promise, Run, began, day_of, deciding
from iowatch.measure.case_ids import table_order
from iowatch.night import remarks
from iowatch.night.alarms import alarms_of
from iowatch.night.case_night import CaseNight
from iowatch.night.document import SkippedCase
from iowatch.night.night import Night
from iowatch.night.part_alarms import alarms_of_hours
from iowatch.night.record import SystemRecord
from iowatch.past.history import failed_tests, lost_tests, told
from iowatch.past.hours import CaseHour
from iowatch.site.declared import excuse

RESTORE = "another iowatch is at work: if its changes do not say why, install that of before"
_RESTORE_REFERENCE = (
    "restore it in reference_values; from the next night on, --record leaves them green"
)
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
    hours, unread = list[CaseHour](), list[str]()
    try:
        hours = record.hours_until(ended)
    except UserError as err:
        unread = [str(err)]
    alarms, groups = alarms_of(cases, now, record.groups)
    judged = Night(
        system=record.system,
        id=night,
        cases=cases,
        alarms=[*alarms, *alarms_of_hours(hours, ended, record.hourly)],
        groups=groups,
        problems=[*remarks.problems(cases, record), *unread],
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
    return replace(judged, notes=remarks.notes(judged, skipped, record))


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


# The gate


def problems_of(
    expected: set[Case] | None, session: Mapping[str, Any] | None, runs: Sequence[Run]
) -> Iterator[str]:
    """Problems of a session of ReFrame (None: it wrote no report) that was to measure these cases,
    besides its verdicts. None: only ReFrame knows which."""
    failed = failed_tests(session) if session else {}
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
        yield f"{were if lost else ''}{told(why, tests)}"
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
        yield from lost_tests(session)


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
    before = [(row, _last_measured(row)) for row in cases]
    baselines = [
        row.case for row, runs in before
        if not row.blessed and any(DRIFT in run.metrics for run in runs)
    ]  # fmt: skip
    references = [
        row.case for row, runs in before
        if row.is_recorded and any(run.references for run in runs)
    ]  # fmt: skip
    for guard, gone, restore in (
        ("baseline", baselines, "restore reference_values/baselines, or bless again"),
        ("reference value", references, _RESTORE_REFERENCE),
    ):
        if gone:
            of_cases = f"the {guard} of {counted(len(gone), 'case')}"
            yield f"{of_cases} is gone since the night before: {shown(gone)}: {restore}"
