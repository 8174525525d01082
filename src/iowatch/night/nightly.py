"""One night: run every check of a system and make sure that nothing passed quietly."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.locks import locked
from iowatch.base.places import PREFIX, reference_folder, reference_values, reframe_program
from iowatch.base.text import counted
from iowatch.cases.case import Case, shown
from iowatch.cases.run import Promise, began, hand_id, night_id, nights_of
from iowatch.cases.suite import NIGHTLY, SUITES
from iowatch.night.case_night import CaseNight
from iowatch.night.gate import (
    RECENT,
    broken_promises,
    idle_entries,
    lost_guards,
    night_of,
    problems_of,
)
from iowatch.night.night import Night
from iowatch.night.progress import Follow, Progress, say, watch
from iowatch.night.record import SystemRecord, readers
from iowatch.night.session import EndedSession, held, ignore_signals, run_session
from iowatch.night.unfinished import (
    OVER,
    PlannedSession,
    RanSession,
    gathered,
    sessions_of,
    to_resume,
)
from iowatch.night.user_cost import idle_outputs
from iowatch.night.wanted import Wanted
from iowatch.past import history, raw_results, renames
from iowatch.past.history import NIGHT_KEY, PROMISE_KEY
from iowatch.past.words import GateRecord
from iowatch.site import references
from iowatch.site.configuration import Site, read_site

#: How long the nights of this time took says how long the next one takes.
OF_LATE = timedelta(days=30)
#: How often a night decodes the whole record anew, and believes no cache.
CHECKED_EVERY = timedelta(days=7)


#: Writes the page of a night into a folder, and returns its path; UserError.
Publish = Callable[[Night, Path], Path]


class NothingDue(Exception):
    """There is no re-run to be made; the message says so."""


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """The record when the sessions of a night have ended, and its problems."""

    record: SystemRecord
    stored: Collection[str]  # the sessions in ReFrame's database
    lost: Sequence[str]  # earlier nights that no night has said to be lost
    problems: Sequence[str]
    notes: Sequence[str]  # that only who ran the night can make
    is_checked: bool  # the record was decoded anew


def run(wanted: Wanted, publish: Publish) -> Night:
    """Run the checks, or those that are due again, judge the night, and have its page written.

    UserError, NothingDue and what reading the past raises come before anything
    runs; Interrupted as well. A night that is stopped later is judged by what was measured.
    """
    deadline = time.monotonic() + wanted.time_limit.total_seconds()
    reframe_program()
    site = read_site(wanted.system)
    if wanted.suite == NIGHTLY:  # else each run would be verified, and then fail for want of it
        references.ReferenceFile(reference_values(site.system))
    for read in readers(site.system):
        read()
    asked, promise = site.cases(wanted.suite), site.promises[wanted.suite]
    wanted.require_in(site)
    with locked(site.system, site.own_folders) as locks:
        if wanted.again:
            night, parts = _reruns(wanted, site, asked)
        else:
            names = [f"--name={name}" for name in wanted.names]
            parts = [PlannedSession(["--system", wanted.system, *names], asked)]
            night = night_id(datetime.now(UTC))
            if wanted.resume:
                night, left, is_stored = to_resume(site, asked)
                parts = [*sessions_of(left)] if is_stored else parts
        notes = _begin_anew(site.database)
        stored = history.starts(site.database) if site.database.is_file() else {}
        ran: list[RanSession] = []
        session, mode, own_night = EndedSession(), [*wanted.mode], ""
        if not wanted.is_part(site):
            extras = f"{NIGHT_KEY}={night},{PROMISE_KEY}={promise}"
            mode, own_night = [*mode, f"--session-extras={extras}"], night
        # What was measured is to be seen; a session notices what has waited.
        with held(), _watched(wanted, site, night, parts) as follow:
            for part in parts:
                if session.stopped:
                    session = replace(session, report=None)  # this part did not run
                else:
                    options = [*part.options, *mode]
                    session = run_session(options, own_night, deadline, follow, locks)
                expected = None if wanted.names else part.expected
                ran.append(RanSession(expected, session, night))
            if own_night:
                ran = gathered(wanted, site, ran, extras, follow, locks)
                session = ran[-1].ended
            ignore_signals()  # also those that have waited
        if not own_night and (runs := [run for session in ran for run in session.runs]):
            night = hand_id(runs)
            ran = [replace(session, night=night) for session in ran]
        if wanted.options:
            notes.append(f"ReFrame was also given: {shlex.join(wanted.options)}")
        if not (site.is_whole or wanted.again):
            notes.append(f"only {wanted.system} was asked for, {counted(len(asked), 'case')}")
        after = _aftermath(wanted, site, night, stored, notes)
        whole = _judged(night, ran, asked, promise, after)
        problems = [*whole.problems, *_tidy(site, after.record.now.date())]
        whole = replace(whole, problems=problems, is_by_hand=wanted.is_part(site))
        return _kept(wanted, whole, ran, promise, after, publish)


# Before it runs


def _begin_anew(database: Path) -> list[str]:
    """Let ReFrame store in a database that is missing or empty, and say so; UserError, also if the
    database is somebody else's: a whole night would be measured in vain."""
    for file in (database, database.with_name(".db.lock")):
        if file.exists() and not os.access(file, os.W_OK):
            raise UserError(
                f"{file}: you may not write it, nothing was run: let its owner give it to the "
                f"group, `chmod g+w {shlex.quote(str(file))}`, or name another folder in {PREFIX}"
            )
    if not database.is_file():
        anew = "was not there"
    elif history.clear_empty(database):
        anew = "was empty, as a full disk leaves it"
    else:
        return []
    return [f"{database} {anew}: history begins anew with this night"]


def _reruns(wanted: Wanted, site: Site, asked: set[Case]) -> tuple[str, list[PlannedSession]]:
    """The night on record that is not over, and the re-runs that are due, a session for each
    partition and environment: ReFrame's hashes know neither."""
    if not site.database.is_file():
        raise UserError(f"--again: nothing is on record yet: there is no {site.database}")
    record = SystemRecord.load(site.system, [site.database], site=site)
    now = record.now
    nights = nights_of(run for run in record.past if run.case in asked)
    night = max(nights, default="")
    if night and now - (last := max(run.time for run in nights[night])) > OVER:
        raise NothingDue(
            f"{wanted.system}: no re-run is due: the last night, {night}, ended on "
            f"{last:%Y-%m-%d %H:%M} UTC, more than {OVER.days} days ago"
        )
    last_night = night_of(record, night) if night else Night(system=site.system, id=night)
    times = {case: at for case, at in last_night.reruns.items() if case in asked}
    due = [row for row in last_night.cases if row.case in times and times[row.case] <= now]
    if not due:
        next_ = f": the next from {min(times.values()):%Y-%m-%d %H:%M} UTC" if times else ""
        raise NothingDue(f"{wanted.system}: no re-run is due{next_}")
    return night, list(_again(due))


def _again(due: Sequence[CaseNight]) -> Iterator[PlannedSession]:
    places = sorted({(row.case.partition, row.case.environ) for row in due})
    for partition, environ in places:
        rows = [r for r in due if (r.case.partition, r.case.environ) == (partition, environ)]
        names = sorted(f"--name=/{row.last_measured.test}" for row in rows if row.last_measured)
        system = f"{rows[0].case.system}:{partition}"
        # ReFrame's -p searches: gnu would find gnu-debug as well.
        place = ["--system", system, "-p", f"^{re.escape(environ)}$"]
        yield PlannedSession([*place, *names], {row.case for row in rows})


# While it runs


@contextmanager
def _watched(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession]
) -> Iterator[Follow | None]:
    """Announce the night, and give what shows how far it is; None: ReFrame's output does."""
    if wanted.quiet:
        yield lambda lines: None
        return
    say("\n".join(_announced(wanted, site, night, parts)))
    if wanted.verbose:
        yield None
        return
    # ReFrame alone knows which cases a name matches.
    cases = 0 if wanted.names else sum(len(part.expected) for part in parts)
    count = raw_results.count_by_hand if wanted.is_part(site) else raw_results.count
    earlier = count(site.prefix, night)  # of a night that is run again
    progress = Progress(
        cases,
        lambda: count(site.prefix, night) - earlier,
        lambda: raw_results.waits_for(site.prefix, night),
    )
    with watch(progress) as follow:
        yield follow


def _announced(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession]
) -> Iterator[str]:
    """The work of the night, how long it takes as far as known, and where to see more."""
    names = {place.partition: place.name for place in site.filesystems}
    asked = {case for part in parts for case in part.expected}
    counts = Counter(names[case.partition] for case in asked)
    places = ", ".join(f"{count} on {name}" for name, count in sorted(counts.items()))
    cases = counted(len(asked), "case")
    does = f"{cases} will be measured{' again' if wanted.again else ''} ({places})."
    if wanted.resume:
        does = f"goes on with {cases} ({places})."
    elif wanted.names:
        does = f"those of {cases} ({places}) that --name matches."
    is_part = wanted.is_part(site)
    subject = f"Run by hand on {wanted.system}" if is_part else f"Night {night} of {wanted.system}"
    yield f"{subject}: {does}"
    if not (wanted.again or wanted.resume or is_part):
        yield how_long(site.database, night, asked)
    if wanted.away:
        yield (
            f"On record as away: {', '.join(wanted.away)}. SlowOst has to find that it "
            "cannot write there, and can everywhere else."
        )
    if wanted.death:
        name, _, who = wanted.death.rpartition(":")
        yield (
            f"On record: a {who} of {name} is killed while this runs. So kill one, and measure "
            "afterwards without --death: ReadBack then reads what was kept."
        )
    if not wanted.verbose and site.logs:
        yield f"ReFrame's own log is {', '.join(site.logs)}; with --verbose its output is shown."


def how_long(database: Path, night: str, asked: set[Case]) -> str:
    """Say how long the last nights took that measured all of this in their first session."""
    try:
        runs = history.read([database], datetime.now(UTC) - OF_LATE)
    except UserError:  # its judging will say so
        runs = []
    took = []
    for earlier, of_night in nights_of(runs).items():
        first = [run for run in of_night if run.session == of_night[0].session]
        measured = {run.case for run in first if not run.outcome.is_amber}
        measured |= {run.case for run in runs if run.night == earlier and run.outcome.is_skipped}
        if asked <= measured and earlier < night:
            took.append(max(run.time for run in first) - began(earlier))
    minutes = sorted(max(1, round(span / timedelta(minutes=1))) for span in took[-RECENT:])
    if not minutes:
        return "How long it takes is not known: no whole night like this one is on record."
    return f"The last nights like this one took {_in_words(minutes[0], minutes[-1])}."


def _in_words(least: int, most: int) -> str:
    """Minutes as people say them; from two hours on, hours."""
    unit = "minute"
    if most >= 120:
        unit, least, most = "hour", round(least / 60), round(most / 60)
    words = f"{most} {unit}{'' if most == 1 else 's'}"
    return f"about {words}" if least == most else f"{least} to {words}"


# The outcome


def _aftermath(
    wanted: Wanted, site: Site, night: str, before: Mapping[str, float], notes: Sequence[str]
) -> Aftermath:
    """Load the record; `before` are the sessions that were stored as the night began."""
    record = SystemRecord(system=site.system, databases=[site.database])
    problems, own_notes, lost, is_checked = list[str](), [*notes], list[str](), False
    archived = max(site.archived.values(), default=date.min)
    stored: Collection[str] = ()
    if site.database.is_file():
        try:
            stored = history.starts(site.database)
            problems += _gone(site.database, archived, before, stored)
            again = "" if wanted.is_part(site) else wanted.rerun_command
            anew = not wanted.is_part(site) and _is_check_due(record, night)
            record = SystemRecord.load(site.system, [site.database], None, site, again, anew)
            problems += record.differing
            is_checked = anew
            if not wanted.is_part(site):
                lost = _lost(site.prefix, archived, night, record)
                problems += [_told_lost(site.prefix, earlier) for earlier in lost]
                told = record.words.told_lost.union(lost)
                damaged = {n: why for n, why in record.damaged(night).items() if n not in told}
                problems += _told_damaged(damaged)
                lost += damaged
            record = record.for_pages()
            if site.is_whole:
                suites = {suite: site.cases(suite) for suite in SUITES}
                own_notes += idle_entries(suites, {p.name for p in site.filesystems}, record)
                own_notes += [*idle_outputs(site, record.outputs), *site.doubts]
        except UserError as err:
            problems.append(str(err))
    return Aftermath(
        record=record,
        stored=stored,
        lost=lost,
        problems=problems,
        notes=own_notes,
        is_checked=is_checked,
    )


def _is_check_due(record: SystemRecord, night: str) -> bool:
    """Return whether no night of the week before has decoded the whole record anew."""
    last = record.words.last_checked(night)
    return not last or began(night) - began(last) >= CHECKED_EVERY


def _told_damaged(damaged: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence on the earlier nights that are not on record as they were."""
    for first, *_ in [*damaged.values()][:1]:
        are = counted(len(damaged), "earlier night", "are")
        yield f"{are} not on record as judged, {shown(damaged)}: {first}"


def _judged(
    night: str, ran: Sequence[RanSession], asked: set[Case], promise: Promise, after: Aftermath
) -> Night:
    """The night: its verdicts, and everything that is wrong with it."""
    record = after.record
    problems = [*after.problems, *broken_promises(promise, asked, night, record.of_system)]
    for session in ran:
        problems += _problems(session, after.stored)
    tonight = [run for session in ran for run in session.runs]
    sessions = {run.session for run in tonight}
    # The latest run has the last word, whatever a clock that was set back says.
    runs = [run for run in record.runs if run.session not in sessions] + tonight
    whole = night_of(replace(record, runs=runs), night)
    problems += [*whole.problems, *lost_guards(whole.cases)]
    notes = [*whole.notes, *after.notes]
    return replace(whole, problems=problems, notes=notes, signal=ran[-1].ended.signal)


def _gone(
    database: Path, archived: date, before: Mapping[str, float], stored: Collection[str]
) -> Iterator[str]:
    """Tell of sessions that were stored when the night began, and are not now; a site may archive
    some meanwhile."""
    gone = [
        session
        for session, start in before.items()
        if session not in stored and datetime.fromtimestamp(start, UTC).date() > archived
    ]
    if gone:
        are = counted(len(gone), "session", "are", total=len(before))
        yield f"{database}: {are} gone since the night began: restore it from a backup"


def _lost(prefix: Path, archived: date, night: str, record: SystemRecord) -> list[str]:
    """Earlier nights that nobody has on record but by their raw results, and of which no night has
    said so yet."""
    since = max((record.now - OF_LATE).date(), archived + timedelta(days=1))
    # Of a night that was ended before it had measured anything, its own word says so.
    stored = {*(run.night for run in record.of_system), *record.words.nights}
    nights = raw_results.nights(prefix, record.system, since)
    lost = [earlier for earlier in nights if earlier < night and earlier not in stored]
    told = record.words.told_lost if lost else set()
    return [earlier for earlier in lost if earlier not in told]


def _told_lost(prefix: Path, night: str) -> str:
    return (
        f"the night {night} is not in the results database: its session was killed, or taken out: "
        f"look at its raw results, {prefix / raw_results.FOLDER / night}, or restore the "
        "database from a backup"
    )


def _problems(session: RanSession, stored: Collection[str]) -> Iterator[str]:
    """Problems of a session as such; `stored` are the sessions in ReFrame's results database."""
    runs, ended = session.came_to, session.ended
    # If all that was left was queued then, the cases say so.
    queued = {run.case for run in runs if run.result in history.UNFINISHED}
    ran = {run.case for run in runs}
    expected = ran if session.expected is None else session.expected
    is_explained = queued and expected <= ran
    if ended.stopped and not (ended.is_out_of_time and is_explained):
        yield ended.stopped
    problems = list(problems_of(session.expected, ended.report, runs))
    if session.expected is None and not (ran or problems or ended.stopped or ended.error):
        yield "--name matches none of the cases"
        return
    yield from problems
    why = f"reframe: {ended.error}" if ended.error else ""
    if any(run.session not in stored for run in runs):
        yield ": ".join(filter(None, ["the session is not in ReFrame's results database", why]))
    elif why:
        yield why
    if ended.status != 0 and not (ended.stopped or problems or any(run.is_red for run in runs)):
        yield f"reframe ended with exit code {ended.status}"


def _tidy(site: Site, today: date) -> Iterator[str]:
    keep = {(place.system, place.partition): place.keep_days for place in site.filesystems}
    try:
        keep = renames.read(reference_folder()).with_old_names(keep)
        raw_results.tidy(site.prefix, keep, today)
    except UserError as err:
        yield str(err)


def _kept(
    wanted: Wanted,
    whole: Night,
    ran: Sequence[RanSession],
    promise: Promise,
    after: Aftermath,
    publish: Publish,
) -> Night:
    """The night with its page, and with all that is on record of it then."""
    record, problems, notes = after.record, [*whole.problems], [*whole.notes]
    own_notes, lost, promised = [*after.notes], [*after.lost], promise.cases
    sessions = {run.session for session in ran for run in session.runs}
    unfinished = [p for session in ran for p in _problems(session, after.stored)]
    if not sessions.issubset(after.stored):  # which is said of it
        lost.append(whole.id)
    if before := record.words.read(whole.id):
        # A re-run takes nothing back. Going on with a night does, what its sessions left undone.
        taken_back = before.unfinished if wanted.resume else ()
        problems = [*(p for p in before.problems if p not in taken_back), *problems]
        notes += before.notes
        own_notes = [*before.notes, *own_notes]
        lost = [*before.lost, *lost]
        promised = max(promised, before.promised)  # to the whole of it
    problems, notes = [*dict.fromkeys(problems)], [*dict.fromkeys(notes)]
    whole = replace(whole, problems=problems, notes=notes)
    if whole.cases:
        try:
            whole = replace(whole, page=publish(whole, record.databases[0].parent))
        except UserError as err:
            whole = replace(whole, problems=[*whole.problems, str(err)])
    if whole.is_by_hand:
        return whole.measured_in(sessions)
    judged = GateRecord(
        time=datetime.now(UTC),
        colour=whole.colour,
        why=whole.why,
        promised=promised,
        rows=dict.fromkeys(whole.sessions | sessions, "") | record.rows(whole.id),
        problems=whole.problems,
        unfinished=unfinished,
        notes=[*dict.fromkeys(own_notes)],
        lost=[*dict.fromkeys(lost)],
        is_checked=after.is_checked,
    )
    try:
        judged = record.words.keep(whole.id, judged)
    except UserError as err:
        return replace(whole, problems=[*whole.problems, str(err)]).measured_in(sessions)
    return replace(whole, judged=judged).measured_in(sessions)
