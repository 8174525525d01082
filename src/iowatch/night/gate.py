"""A night of a system: the verdicts on its cases, and everything by which a check could have passed
quietly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from iowatch.bless import settings_hash
from iowatch.case import Case, short_names
from iowatch.check import DRIFT
from iowatch.detector.settings import NORMAL
from iowatch.files import UserError, counted
from iowatch.history import reason, runs_of, tests_of
from iowatch.night.alarms import Alarm, alarms_of
from iowatch.night.case_night import CaseNight
from iowatch.night.record import GateRecord, Known, Records
from iowatch.references import ExpectedFailure, excuse
from iowatch.run import (
    NOTE,
    Promise,
    Run,
    began,
    by_case,
    day_of,
    deciding,
    fastest,
    night_id,
    nights_of,
)
from iowatch.site import AMBER_NIGHTS
from iowatch.verdict import Outcome

NAMED = 12  # cases that a sentence names at most
RESTORE = "another iowatch is at work: if its changes do not say why, install that of before"
RECENT = 7  # nights of the system: a case that most of them measured is expected tonight


@dataclass(frozen=True)
class Night:
    """All verdicts of a night, and what is wrong with the night as a whole."""

    system: str
    id: str
    cases: Sequence[CaseNight] = ()
    problems: Sequence[str] = ()  # with the night as a whole: they make it red
    notes: Sequence[str] = ()  # to be known, but not wrong
    alarms: Sequence[Alarm] = ()  # on what is slow as a whole, the worst first
    is_gated: bool = True  # whoever ran the night has said its problems; else the record speaks
    signal: int = 0  # that ended it early
    page: Path | None = None  # its report
    is_by_hand: bool = False  # no night at all, but a session that somebody asks about
    later: str = ""  # the last night on record, dated later than now, that was not asked for
    judged: GateRecord | None = None  # what the gate has said of the whole night; it holds
    skipped: int = 0  # cases that need what has never been there

    @property
    def day(self) -> date:
        """The day, in UTC, on which it began."""
        return day_of(self.id)

    @cached_property
    def runs(self) -> list[Run]:
        """All of them, in the order of time."""
        return sorted((run for row in self.cases for run in row.runs), key=lambda run: run.time)

    @property
    def ended(self) -> datetime:
        """When its last run did; if nothing ran, when it began."""
        return self.runs[-1].time if self.runs else began(self.id)

    @property
    def sessions(self) -> set[str]:
        """Those of ReFrame in which it was measured."""
        return {run.session for run in self.runs}

    @property
    def red(self) -> list[CaseNight]:
        """The red cases."""
        return [case for case in self.cases if case.is_red]

    @property
    def amber(self) -> list[CaseNight]:
        """The cases of which nobody knows how they are."""
        return [case for case in self.cases if case.is_amber]

    @property
    def is_red(self) -> bool:
        return self.colour == "red"

    @property
    def red_alarms(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if alarm.is_red]

    @property
    def merged(self) -> Mapping[Case, Alarm]:
        """The red cases of which an alarm says why."""
        return {case: alarm for alarm in self.red_alarms for case in alarm.merged}

    @property
    def slow(self) -> str:
        """What is slow as a whole, in a few words; empty: nothing is."""
        lasting = [alarm.what for alarm in self.red_alarms]
        names = lasting or [alarm.what for alarm in self.alarms if alarm.outcome.is_suspect]
        if not names:
            return ""
        verb = "is" if len(names) == 1 else "are"
        return f"{' and '.join(names)} {verb} slow{'' if lasting else ' tonight'}"

    @property
    def reruns(self) -> Mapping[Case, datetime]:
        """When cases are to be run again."""
        held = {case for alarm in self.alarms for case in alarm.held}
        alone = {r.case: r.rerun_at for r in self.cases if r.rerun_at and r.case not in held}
        return {case: at for alarm in self.alarms for case, at in alarm.due.items()} | alone

    @property
    def colour(self) -> str:
        """Red if something is wrong, amber if not all is known, else green.

        What the gate has said holds, whatever has become of the site's files since.
        """
        if self.judged:
            return self.judged.colour
        is_red = self.problems or self.red or self.red_alarms
        return "red" if is_red else "amber" if self.amber else "green"

    @property
    def worst_first(self) -> list[CaseNight]:
        return sorted(self.cases, key=lambda case: case.severity)

    @property
    def brief(self) -> str:
        """The night in a few words: its colour, and of how many cases."""
        red, every = len(self.red), counted(len(self.cases), "case")
        words = ["interrupted"] if self.signal else []
        words += [self.slow] if self.slow else []
        words += [f"{red} of {every}" if red else every]
        words += [f"{len(self.amber)} not measured"] if self.amber else []
        problems = counted(len(self.problems), "problem")
        words += [f"{problems} with the night"] if self.problems else []
        is_sure = self.is_gated or self.colour != "green"
        colour = self.colour.capitalize() + ("" if is_sure else ", as far as it is on record")
        return f"{colour}: {', '.join(words)}"

    @property
    def why(self) -> str:
        """The sentence that comes first."""
        rows = self.worst_first
        worst = [row.sentence for row in rows if row.outcome.is_corrupt]
        worst += [alarm.sentence for alarm in self.red_alarms]
        worst += [*(row.sentence for row in rows if row.is_red), *self.problems]
        loud = [f"{alarm.outcome}: {alarm.sentence}" for alarm in self.alarms]
        loud += [f"{row.outcome}: {row.sentence}" for row in rows if not row.is_quiet]
        measured = [row for row in self.cases if row.case.metrics]
        well = "Every case is" if self.is_gated else "Every case on record is"
        well += " as it should be"
        if rest := sum(not row.blessed for row in measured):
            well = (
                f"No past judges {rest} of {counted(len(measured), 'case')} yet: bless good nights"
            )
        well += "." if self.is_gated else "; what never ran is not on record."
        return [*worst, *loud, well][0]

    @property
    def counts(self) -> list[tuple[Outcome, int]]:
        """How many cases have each outcome, worst first."""
        return list(Counter(row.outcome for row in self.worst_first).items())

    def measured_in(self, sessions: Collection[str]) -> Night:
        """The part of the night that ran in these sessions; its colour is that of the whole."""
        cases = [c for c in self.cases if any(run.session in sessions for run in c.runs)]
        part = replace(self, cases=cases)
        if replace(part, judged=None).colour == self.colour:
            return part
        note = f"the night as a whole is {self.colour}: {self.why}"
        return replace(part, notes=[*self.notes, note])


def night_of(system: str, night: str, runs: Iterable[Run], known: Known, now: datetime) -> Night:
    """A night of a system with everything on record of its cases.

    What a wrong clock has dated later than now is no past, nor is an acceptance test. Of this night
    itself it counts: whatever the time, these are its verdicts.
    """
    runs = [run for run in runs if run.case.system == system]
    past = by_case(
        run
        for run in runs
        if run.night == night or not (run.of_contract or run.night > night or run.is_after(now))
    )
    tonight = {case: nights for case, nights in past.items() if night in nights}
    names = short_names(tonight)
    cases = [
        _case_night(case, names[case], night, nights, known) for case, nights in tonight.items()
    ]
    cases.sort(key=lambda row: row.case.order)
    judged = Night(system, night, cases, alarms=alarms_of(cases, known.expected, now))
    notes = [
        *(_reruns(judged, now, known.rerun_command) if known.rerun_command else ()),
        *_insensitive(cases),
        *_baselines(cases),
        *_recorded(cases),
        *_well(cases, known.expected, judged.alarms),
        *_own_notes(cases),
        *_skipped(run for run in runs if run.night == night),
        *_excess(known.expected, system, day_of(night)),
        *_future((run for run in runs if run.night != night), now),
        *known.notes,
    ]
    problems = [*_lost_nights(cases, known.archived), *_unguarded(cases, known.amber_nights)]
    skipped = {run.case for run in runs if run.night == night and run.outcome.is_skipped}
    return replace(judged, problems=problems, notes=notes, skipped=len(skipped - {*tonight}))


def _case_night(
    case: Case, name: str, night: str, nights: Mapping[str, Sequence[Run]], known: Known
) -> CaseNight:
    runs = nights[night]
    entry = known.blessed.get(case)
    if entry and entry.blessed > day_of(night):  # it was not in force then
        entry = None
    is_known = deciding(runs).outcome.is_known
    why = excuse(known.expected, str(case), day_of(night)) if is_known else None
    return CaseNight(
        case=case,
        name=name,
        night=night,
        runs=runs,
        earlier={other: runs for other, runs in nights.items() if other != night},
        blessed=entry,
        known=str(why or "expected") if is_known else "",
    )


def on_record(
    system: str,
    night: str,
    runs: Sequence[Run],
    known: Known,
    now: datetime,
    judged: Records = Records(),  # noqa: B008 it is frozen
) -> Night:
    """The night that begins with `night` (a day, or more of its id), or the last one until now.

    What is wrong with it is what its gate has said, also of a night of which nothing is on record
    besides. If it has said nothing, a case that was not measured is a problem if the nights before
    measured it. UserError.
    """
    of_system = [run for run in runs if run.case.system == system]
    empty = {name: list[Run]() for name in judged.nights}
    every = {**empty, **nights_of(of_system)}
    nights = {name: runs for name, runs in empty.items() if name <= night_id(now)}
    nights |= nights_of(run for run in of_system if not run.is_after(now))
    if night:  # a clock was wrong then, or is now
        nights |= {name: in_night for name, in_night in every.items() if name.startswith(night)}
    if every and not nights:
        raise UserError(
            f"every night of {system} on record is dated later than now: a clock was wrong: name "
            f"one, the last is {max(every)}"
        )
    if not nights:
        if of_system:
            raise UserError(
                f"no night of system {system} is on record, only what was run by hand: --session "
                f"shows one of {_hand_sessions(of_system)}"
            )
        names = ", ".join(sorted({run.case.system for run in runs})) or "none"
        raise UserError(f"no night of system {system} is on record; systems on record: {names}")
    named = [name for name in nights if name.startswith(night)] if night else [max(nights)]
    if not named:
        raise UserError(
            f"no night of {night} is on record for {system}: the first is {min(nights)}, the last "
            f"{max(nights)}"
        )
    if len(named) > 1:
        raise UserError(
            f"{len(named)} nights of {system} began on {night}: name one of {', '.join(named)}"
        )
    (last,) = named
    later = "" if night or max(every) == last else max(every)
    of_record = replace(night_of(system, last, runs, known, now), is_gated=False, later=later)
    if record := judged.of(last):
        return _as_judged(of_record, record)
    before = {name: nights[name] for name in sorted(nights) if name < last and nights[name]}
    missing = _missing(before, {run.case for run in nights[last]})
    return replace(of_record, problems=[*missing, *of_record.problems])


def _as_judged(night: Night, judged: GateRecord) -> Night:
    """A night on record as its gate has judged it, if that was by the runs that are on record."""
    notes = [*dict.fromkeys([*night.notes, *judged.notes])]
    if len(night.runs) == judged.runs:
        # One that the baseline of today raises, nobody was told of.
        told = [a for a in night.alarms if judged.colour == "red" or not a.is_red]
        night = replace(night, problems=judged.problems, notes=notes, alarms=told)
        night = replace(night, is_gated=True, judged=judged)
    elif len(night.runs) < judged.runs:
        gone = (
            f"{counted(judged.runs - len(night.runs), 'run', 'are', of=judged.runs)} not on record "
            "any more by which the night was judged: restore the results database from a backup"
        )
        night = replace(night, problems=[*judged.problems, gone], notes=notes, is_gated=True)
    else:  # nobody has judged what came then
        problems = dict.fromkeys([*judged.problems, *night.problems])
        night = replace(night, problems=[*problems], notes=notes)
    if judged.colour == "red" and not (night.problems or night.red or night.red_alarms):
        # Such as an alarm that needs the baseline of then.
        night = replace(night, problems=[f"as it was judged: {judged.why}"])
    return night


def by_hand(system: str, session: str, runs: Sequence[Run], known: Known, now: datetime) -> Night:
    """A session of ReFrame that was run by hand, as if it were a night. UserError."""
    every = [run for run in runs if run.case.system == system]
    of_session = [run for run in every if run.session == session]
    if not of_session:
        raise UserError(
            f"--session {session}: nothing of system {system} is on record of it: there are "
            f"{_hand_sessions(every) or 'no sessions that were run by hand'}"
        )
    if night := of_session[0].night:
        raise UserError(f"--session {session}: is of the night {night}: --night shows it")
    name = night_id(of_session[0].time)
    runs = [replace(run, night=name) if run.session == session else run for run in runs]
    return replace(night_of(system, name, runs, known, now), is_gated=False, is_by_hand=True)


def _hand_sessions(runs: Iterable[Run]) -> str:
    """The last sessions that were run by hand, the newest first."""
    last = {
        run.session: run.time for run in sorted(runs, key=lambda run: run.time) if not run.night
    }
    names = [f"{session} of {time:%Y-%m-%d %H:%M} UTC" for session, time in last.items()]
    return ", ".join(names[::-1][:NAMED] + ["..."] * (len(names) > NAMED))


def _missing(earlier: Mapping[str, Sequence[Run]], tonight: set[Case]) -> Iterator[str]:
    """A sentence on the cases that most of the nights before measured, and this one did not."""
    recent = list(earlier)[-RECENT:]
    measured = Counter(case for night in recent for case in {run.case for run in earlier[night]})
    missing = [c for c, count in measured.items() if c not in tonight and count > len(recent) / 2]
    if missing:
        yield (
            f"{counted(len(missing), 'case', 'were')} not measured, unlike on most nights before: "
            f"{shown(missing)}"
        )


def shown(cases: Iterable[Case | str]) -> str:
    """The first of these cases, or of the patterns of some, by name."""
    names = sorted(map(str, cases))
    return ", ".join(names[:NAMED] + ["..."] * (len(names) > NAMED))


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
            f"{counted(count, 'case', 'are', of=len(cases))} of low sensitivity, with too much "
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
    measured = [sum(map(bool, map(fastest, [row.runs, *row.earlier.values()]))) for row in rows]
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
            f"{counted(len(rows), 'case', 'are', of=len(cases))} unguarded, without a reference "
            f"value or a baseline: {', '.join(words)}"
        )


def _lost_nights(cases: Iterable[CaseNight], archived: Mapping[str, date]) -> Iterator[str]:
    """A sentence on the cases whose blessed nights are not on record, though the site did not say
    that they were archived: what came after them may be gone as well."""
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
    for (nights, what), names in sorted(unguarded.items(), reverse=True):
        yield (
            f"nobody guards {counted(len(names), what)}, not measured on "
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
    measured = [n for n, runs in row.earlier.items() if entry.covers(n) and fastest(runs)]
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
        if what := entry.excess(system, today):
            yield (
                f"{entry.case.pattern}: excuses {what}: give its entry in expected_failures/ a day "
                "within a year, and a case that names a filesystem, environment, check or backend"
            )


def _future(runs: Iterable[Run], now: datetime) -> Iterator[str]:
    if future := sum(run.is_after(now) for run in runs):
        yield (
            f"{counted(future, 'run', 'are')} on record with a time later than now: a clock was "
            "wrong, and what it dated does not count"
        )


def _skipped(runs: Iterable[Run]) -> Iterator[str]:
    """A sentence on the cases that need what has never been there, for each reason."""
    by_reason: dict[str, set[Case]] = {}
    for run in runs:
        if run.outcome.is_skipped:
            why = run.sentence.removeprefix(f"{run.case}: ")
            by_reason.setdefault(why, set()).add(run.case)
    for why, cases in by_reason.items():
        checks = ", ".join(sorted({case.check.name for case in cases}))
        yield f"{counted(len(cases), 'case', 'are')} skipped ({checks}): {why}"


# The gate


def problems_of(
    expected: set[Case], session: Mapping[str, Any] | None, runs: Sequence[Run]
) -> Iterator[str]:
    """What is wrong with a session of ReFrame (None: it wrote no report) that was to measure these
    cases, and has these runs, besides its verdicts."""
    if session:
        yield from _failed(session)
    if not expected:
        yield "the site's configuration asks for no case: nothing was measured"
    measured = {run.case for run in runs}
    if unrun := expected - measured:
        yield (f"{counted(len(unrun), 'case', 'were', of=len(expected))} not run: {shown(unrun)}")
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
    """What is wrong with the cases that a night asks for: the site's file, counted by itself,
    promises others, or the last night on record that went by the same file had more."""
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


def _own_notes(cases: Iterable[CaseNight]) -> Iterator[str]:
    """What is to be known of a case, whatever its verdict."""
    for row in cases:
        if note := row.last.provenance.get(NOTE):
            yield f"{row.name}: {note}"


def faults(session: Mapping[str, Any]) -> list[str]:
    """What is wrong with a session whatever it was asked for, besides the verdicts on its cases."""
    return [*_failed(session), *_lost(session)]


def _failed(session: Mapping[str, Any]) -> list[str]:
    """Of tests that have no case: a fixture, or a check before it had one."""
    return [
        f"{test['display_name']}: {reason(test)}"
        for test in tests_of(session)
        if not test.get("case_id") and test["result"] in ("fail", "xpass")
    ]


def _lost(session: Mapping[str, Any]) -> list[str]:
    """But what was not measured for a reason that is known, where ReFrame has counted it."""
    run = session["runs"][-1]
    lost = run.get("num_skipped", 0) + run.get("num_aborted", 0)
    lost -= sum(
        run.outcome.is_untried and run.result in ("skip", "abort") for run in runs_of(session)
    )
    return [f"{counted(lost, 'check', 'were')} skipped or aborted"] if lost else []


def _last_measured(row: CaseNight) -> Sequence[Run]:
    """The runs of the last night before on which it was measured; none: it never was."""
    nights = (row.earlier[night] for night in sorted(row.earlier, reverse=True))
    return next((runs for runs in nights if not deciding(runs).outcome.is_amber), ())


def lost_references(cases: Iterable[CaseNight]) -> Iterator[str]:
    """A sentence on the cases that are only recorded, and on their last night were judged."""
    lost = [
        row.case
        for row in cases
        if row.outcome.is_unreferenced
        and not row.is_red
        and any(run.references for run in _last_measured(row))
    ]
    if lost:
        yield (
            f"the reference value of {counted(len(lost), 'case')} is gone since the night before: "
            f"{shown(lost)}: restore it in reference_values; from the next night on, --record "
            "leaves them green"
        )


def lost_baselines(cases: Iterable[CaseNight]) -> Iterator[str]:
    """A sentence on the cases that had a baseline on their last night, and now have none."""
    lost = [
        row.case
        for row in cases
        if not row.blessed
        and row.earlier
        and any(DRIFT in run.metrics for run in _last_measured(row))
    ]
    if lost:
        yield (
            f"the baseline of {counted(len(lost), 'case')} is gone since the night before: "
            f"{shown(lost)}: restore reference_values/baselines, or bless again"
        )
