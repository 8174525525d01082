"""The record: systems, and nights that are shown later, by their runs and by the word of the
gate."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated

import attrs

from iowatch.base.documents import Count
from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case, short_names, shown
from iowatch.cases.run import Run, day_of, night_id, nights_of
from iowatch.measure.case_ids import find_case
from iowatch.night.case_night import CaseNight
from iowatch.night.document import MOST, SILENT, SITE_DAYS, CaseDocument, SystemEntry
from iowatch.night.gate import RECENT, night_of
from iowatch.night.night import Night, case_document, night_summary
from iowatch.night.record import SystemRecord
from iowatch.past import history
from iowatch.past.history import faults
from iowatch.past.words import GateRecord
from iowatch.site.site import read_site

_SESSIONS = 12  # that were run by hand, named at most


def record_of(
    system: str, databases: Sequence[Path], until: datetime | None = None, anew: bool = False
) -> SystemRecord:
    """Read what is on record of a system until then, or until now; with `anew` from no cache.
    UserError."""
    try:
        site = read_site(system)
    except UserError:  # it is not configured here, as that of another host
        site = None
    return SystemRecord.load(system, databases, until, site, anew=anew).for_pages()


def read(system: str, databases: Sequence[Path], night: str = "") -> Night:
    """A night of a system on record, the last one unless its day or id is given; or a session that
    was run by hand, by its id.

    UserError, and what reading the databases and the site's files raises.
    """
    until = datetime.combine(day_of(night), datetime.now(UTC).timetz()) if night else None
    record = record_of(system, databases, until)
    session = next((s for s, name in record.by_hand.items() if name == night), "")
    return hand_session(record, session) if session else night_on_record(record, night)


def systems(databases: Sequence[Path]) -> list[str]:
    """The systems that have had a night within a year; UserError if none has."""
    runs = history.read(databases, history.year_before(datetime.now(UTC)))
    names = sorted({run.case.system for run in runs if run.night})
    if not names:
        raise UserError(
            f"{', '.join(map(str, databases))}: no night of any system is on record since a year "
            "ago: run iowatch run, or name another database with --db"
        )
    return names


def night_on_record(record: SystemRecord, name: str = "") -> Night:
    """The night that begins with `name` (a day, or more of its id), or the last one until now.

    Its problems are those that its gate has said, also if nothing else of it is on record. If it
    has said nothing, a case that was not measured is a problem if the nights before measured it.
    UserError.
    """
    nights, every = _nights(record, name)
    named = [night for night in nights if night.startswith(name)] if name else [max(nights)]
    if not named:
        raise UserError(
            f"no night of {name} is on record for {record.system}: the first is {min(nights)}, "
            f"the last {max(nights)}"
        )
    if len(named) > 1:
        raise UserError(
            f"{len(named)} nights of {record.system} began on {name}: name one of "
            f"{', '.join(named)}"
        )
    (last,) = named
    later = "" if name or max(every) == last else max(every)
    night = replace(night_of(record, last), is_gated=False, later=later)
    damage = [*record.damage(last), *_differing(record, last)]
    if word := record.words.read(last):
        night = _as_judged(night, word, damage, record.word(last) == word)
    elif damage:
        night = replace(night, problems=[*damage, *night.problems])
    else:
        before = {other: nights[other] for other in sorted(nights) if other < last}
        missing = _missing(before, {run.case for run in nights[last]})
        night = replace(night, problems=[*missing, *night.problems])
    night = night if night.is_gated else _with_faults(record, night)
    return replace(night, basis=_basis(record, night, word))


def _basis(record: SystemRecord, night: Night, word: GateRecord | None) -> str:
    """The digest of the rows and the word by which a night is shown, and of its problems."""
    basis = sorted(record.rows(night.id).items()), word.seal if word else "", [*night.problems]
    return hashlib.sha256(repr(basis).encode()).hexdigest()


def _differing(record: SystemRecord, night: str) -> list[str]:
    """Say what a cache has of a night otherwise than the database."""
    differing = list[str]()
    history.read(record.databases, record.since, only=record.rows(night), differing=differing)
    return differing


def _nights(record: SystemRecord, name: str) -> tuple[dict[str, list[Run]], Iterable[str]]:
    """The nights with their runs, and all names. A night dated later than now, by a wrong clock, is
    among the former only if `name` is its own. UserError: there are none."""
    every, now = record.nights, night_id(record.now)
    nights = {night: list[Run]() for night in record.gated_nights if night <= now}
    nights |= record.past_nights
    if name:
        nights |= {night: runs for night, runs in every.items() if night.startswith(name)}
    if nights:
        return nights, every
    if every:
        raise UserError(
            f"every night of {record.system} on record is dated later than now: a clock was "
            f"wrong: name one, the last is {max(every)}"
        )
    if record.of_system:
        raise UserError(
            f"no night of system {record.system} is on record, only what was run by hand: "
            f"name one of {_hand_sessions(record)}"
        )
    names = ", ".join(sorted({run.case.system for run in record.runs})) or "none"
    raise UserError(f"no night of system {record.system} is on record; systems on record: {names}")


def hand_session(record: SystemRecord, session: str) -> Night:
    """A session of ReFrame that was run by hand, as if it were a night. UserError."""
    name = record.by_hand[session]
    runs = [replace(run, night=name) for run in record.of_system if run.session == session]
    night = night_of(record, name, runs)
    return _with_faults(record, replace(night, is_gated=False, is_by_hand=True))


def _hand_sessions(record: SystemRecord) -> str:
    """The last sessions that were run by hand, the newest first."""
    names = sorted(record.by_hand.values(), reverse=True)
    return ", ".join(names[:_SESSIONS] + ["..."] * (len(names) > _SESSIONS))


def _with_faults(record: SystemRecord, night: Night) -> Night:
    """Add what is wrong with a night besides its verdicts, as far as that is on record."""
    problems = [
        fault
        for database in record.databases
        for session in history.sessions(database, night.sessions)
        for fault in faults(session)
    ]
    problems += [record.objection(row.case, row.earlier) for row in night.cases if row.blessed]
    every = dict.fromkeys(filter(None, [*night.problems, *problems]))
    return replace(night, problems=[*every])


def _as_judged(night: Night, word: GateRecord, damage: Sequence[str], holds: bool) -> Night:
    """A night on record as its gate has judged it, if its word holds for what is on record."""
    night = replace(night, notes=[*dict.fromkeys([*night.notes, *word.notes])])
    if holds and not damage:
        # One that the baseline of today raises, nobody was told of.
        alarms = [a for a in night.alarms if word.colour == "red" or not a.is_red]
        night = replace(night, problems=[*word.problems], alarms=alarms)
        night = replace(night, is_gated=True, judged=word)
    elif damage:
        night = replace(night, problems=[*word.problems, *damage], is_gated=True)
    else:  # nobody has judged what came then
        night = replace(night, problems=[*dict.fromkeys([*word.problems, *night.problems])])
    if word.colour == "red" and not (night.problems or night.red or night.red_alarms):
        # Such as an alarm that needs the baseline of then.
        night = replace(night, problems=[f"as it was judged: {word.why}"])
    return night


def _missing(earlier: Mapping[str, Sequence[Run]], tonight: set[Case]) -> Iterator[str]:
    """Tell of the cases that most of the nights before measured, and this one did not."""
    recent = [runs for runs in earlier.values() if runs][-RECENT:]
    measured = Counter(case for runs in recent for case in {run.case for run in runs})
    missing = [c for c, count in measured.items() if c not in tonight and count > len(recent) / 2]
    if missing:
        yield (
            f"{counted(len(missing), 'case', 'were')} not measured, unlike on most nights before: "
            f"{shown(missing)}"
        )


# What is listed


def standing(record: SystemRecord, last: Night | None = None) -> SystemEntry:
    """Tell of the last night of a system, which is read unless it is given; UserError."""
    night = last or night_on_record(record)
    age = max(record.now - night.ended, timedelta())
    return night_summary(SystemEntry, night, age_s=round(age.total_seconds()), late=age > SILENT)


def month(system: str, databases: Sequence[Path]) -> tuple[SystemEntry, list[Night]]:
    """Read the last night of a system, and with it those of the days that an index shows, the
    oldest first; UserError."""
    record = record_of(system, databases)
    last = night_on_record(record)
    first = min(record.now.date() - timedelta(days=SITE_DAYS - 1), last.day)
    names = [name for name in sorted(record.nights) if f"{first}" <= name < last.id]
    return standing(record, last), [*(night_on_record(record, name) for name in names), last]


def nights(
    record: SystemRecord, since: date | None = None, until: date | None = None
) -> Iterator[Night]:
    """Judge the nights and the sessions that were run by hand, the last first; UserError.

    Only those count that began on one of these days, both included.
    """
    past = record.nights
    every = [(name, "") for name in past]
    every += [(name, session) for session, name in record.by_hand.items()]
    for name, session in sorted(every, reverse=True):
        if (since and day_of(name) < since) or (until and day_of(name) > until):
            continue
        yield hand_session(record, session) if session else _listed(record, name, past[name])


def _listed(record: SystemRecord, name: str, runs: Sequence[Run]) -> Night:
    """A night by the word of its gate, which has looked for alarms: that takes its time. Without
    one, or if there are other runs than it judged, the night is judged now."""
    word = record.word(name)
    if not word:
        return night_on_record(record, name)
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        cases.setdefault(run.case, []).append(run)
    rows = [
        CaseNight(case=case, name=str(case), night=name, runs=of_case, earlier={}, blessed=None)
        for case, of_case in cases.items()
    ]
    return Night(system=record.system, id=name, cases=rows, problems=word.problems, judged=word)


def last_of(record: SystemRecord, text: str) -> CaseDocument:
    """The last night of the case with this id or name, or with this in either, and its nights
    before; UserError."""
    past = record.past_nights
    cases = {run.case for runs in past.values() for run in runs}
    last = {run.case for run in past[max(past)]} if past else set[Case]()
    case = find_case(text, cases, short_names(last))
    last_id = max(name for name, runs in past.items() if any(run.case == case for run in runs))
    night = night_of(record, last_id)
    (row,) = (row for row in night.cases if row.case == case)
    every = {**row.earlier, row.night: row.runs}
    return case_document(night, row, dict(islice(sorted(every.items(), reverse=True), MOST)))


@attrs.frozen(kw_only=True)
class CaseHistory:
    """Everything on record of a case, as numbers."""

    case: Case
    nights: Annotated[Count, "Nights that measured it."]
    first: Annotated[date, "The first day."]
    last: Annotated[date, "The last day."]
    runs: Annotated[Count, "All runs."]
    by_hand: Annotated[Count, "Runs of no night."]
    failed: Annotated[Count, "Runs that failed."]
    best: Annotated[float | None, "The best rate."]


def histories(runs: Iterable[Run]) -> Iterator[CaseHistory]:
    """Count the runs of each case, oldest first, that was not always skipped."""
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        if not run.outcome.is_skipped:
            cases.setdefault(run.case, []).append(run)
    for case, of_case in sorted(cases.items(), key=lambda item: str(item[0])):
        past = nights_of(of_case)
        yield CaseHistory(
            case=case,
            nights=len(past),
            first=day_of(min(past)) if past else of_case[0].time.date(),
            last=day_of(max(past)) if past else of_case[-1].time.date(),
            runs=len(of_case),
            by_hand=sum(not run.night for run in of_case),
            failed=sum(run.outcome.is_failed for run in of_case),
            best=max((run.rate or 0 for run in of_case if run.is_measured), default=None),
        )
