"""One night: run every check of a system and make sure that nothing passed quietly."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from iowatch.base.documents import document
from iowatch.base.files import UserError
from iowatch.base.locks import locked
from iowatch.base.places import PREFIX, reference_values, reframe_program
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.filesystem import NIGHTLY
from iowatch.cases.run import Promise, hand_id, night_id, nights_of
from iowatch.night.aftermath import Aftermath, load_aftermath, tidied
from iowatch.night.announced import watched
from iowatch.night.case_night import CaseNight
from iowatch.night.gate import broken_promises, lost_guards, night_of, problems_of
from iowatch.night.night import Night
from iowatch.night.progress import say
from iowatch.night.record import SystemRecord, readers
from iowatch.night.session import EndedSession, Interrupted, held, ignore_signals, run_session
from iowatch.night.unfinished import (
    KILLED,
    OVER,
    PlannedSession,
    RanSession,
    gathered,
    kept_by_jobs,
    killed_night,
    sessions_of,
    to_resume,
)
from iowatch.night.wanted import Wanted
from iowatch.past.history import PROMISE_KEY
from iowatch.past.reframe_database import NIGHT_KEY, UNFINISHED, clear_empty, starts
from iowatch.past.words import GateRecord
from iowatch.site import references
from iowatch.site.site import Site, read_site

#: Writes the page of a night into a folder, and returns its path; UserError.
Publish = Callable[[Night, Path], Path]


class NothingDue(Exception):
    """There is no re-run to be made; the message says so."""


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A night as it was asked for, under the locks of its system."""

    wanted: Wanted
    site: Site
    publish: Publish
    locks: Sequence[int]
    deadline: float  # by the clock that nobody sets

    @property
    def is_part(self) -> bool:
        return self.wanted.is_part(self.site)

    @property
    def is_new(self) -> bool:
        return not (self.wanted.again or self.wanted.resume or self.is_part)

    @cached_property
    def asked(self) -> set[Case]:
        return self.site.cases(self.wanted.suite)

    @property
    def promise(self) -> Promise:
        return self.site.promises[self.wanted.suite]

    def extras(self, night: str) -> str:
        """Return what the sessions of a night have on record besides."""
        return f"{NIGHT_KEY}={night},{PROMISE_KEY}={self.promise}"


def run(wanted: Wanted, publish: Publish) -> Night:
    """Run the checks, or those that are due again, judge the night, and have its page written.

    UserError, NothingDue and what reading the past raises come before anything
    runs; Interrupted as well. A night that is stopped later is judged by what was measured.
    """
    deadline = time.monotonic() + wanted.time_limit.total_seconds()
    reframe_program()
    site = _site_in_order(wanted)
    with locked(site.system, site.own_folders) as locks:
        drive = Drive(wanted=wanted, site=site, publish=publish, locks=locks, deadline=deadline)
        night, parts = _planned(drive)
        notes = _begin_anew(site.database)
        if drive.is_new:
            notes += _judge_what_is_left(drive)
        stored = starts(site.database) if site.database.is_file() else {}
        ran = _ran(drive, night, parts)
        if drive.is_part and (runs := [run for session in ran for run in session.runs]):
            night = hand_id(runs)
            ran = [replace(session, night=night) for session in ran]
        if wanted.options:
            notes.append(f"ReFrame was also given: {shlex.join(wanted.options)}")
        if not (site.is_whole or wanted.again):
            cases = counted(len(drive.asked), "case")
            notes.append(f"only {wanted.system} was asked for, {cases}")
        after = load_aftermath(wanted, site, night, stored, notes)
        whole = _judged(drive, night, ran, after)
        problems = [*whole.problems, *tidied(site, after.record.now.date())]
        whole = replace(whole, problems=problems, is_by_hand=drive.is_part)
        return _kept(drive, whole, ran, after)


# Before it runs


def _site_in_order(wanted: Wanted) -> Site:
    """Read the site, and every file of it that judging needs: a fault is said before a night runs.
    UserError."""
    site = read_site(wanted.system)
    if wanted.suite == NIGHTLY:  # else each run would be verified, and then fail for want of it
        references.ReferenceFile(reference_values(site.system))
    for read in readers(site.system):
        read()
    wanted.require_in(site)
    return site


def _planned(drive: Drive) -> tuple[str, list[PlannedSession]]:
    """Return the night that is run, begun anew, run again or resumed, and its sessions."""
    wanted = drive.wanted
    if wanted.again:
        return _reruns(wanted, drive.site, drive.asked)
    names = [f"--name={name}" for name in wanted.names]
    whole = [PlannedSession(["--system", wanted.system, *names], drive.asked)]
    if not wanted.resume:
        return night_id(datetime.now(UTC)), whole
    night, left, is_stored = to_resume(drive.site, wanted.suite, drive.asked)
    return night, [*sessions_of(left)] if is_stored else whole


def _judge_what_is_left(drive: Drive) -> list[str]:
    """Judge what jobs have kept of the last night if its driver was killed: that night is then on
    record. Return a note on it."""
    site = drive.site
    night, left = killed_night(site, drive.wanted.suite, drive.asked)
    if not (kept := kept_by_jobs(site.prefix, night, left)):
        return []
    cases = counted(len(kept), "case")
    if not drive.wanted.quiet:
        say(f"Night {night} of {site.system} was killed: judging {cases} that its jobs have kept.")
    drive = replace(drive, wanted=replace(drive.wanted, resume=True))
    dead = RanSession(left, EndedSession(stopped=KILLED), night)
    with held():
        ran = gathered(
            drive.wanted, site, [dead], drive.extras(night), lambda lines: None, drive.locks
        )
    for session in ran:
        if session.ended.signal:
            raise Interrupted(session.ended.signal)
    after = load_aftermath(drive.wanted, site, night, {}, ())
    whole = _kept(drive, _judged(drive, night, ran, after), ran, after)
    return [
        f"the night {night}, whose session was killed, is now {whole.colour}, by {cases} that its "
        "jobs have kept"
    ]


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
    elif clear_empty(database):
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


def _ran(drive: Drive, night: str, parts: Sequence[PlannedSession]) -> list[RanSession]:
    """Run the sessions of a night one after the other, and judge what their jobs have kept."""
    wanted, ran, session = drive.wanted, list[RanSession](), EndedSession()
    own_night = "" if drive.is_part else night
    mode = [*wanted.mode, *([f"--session-extras={drive.extras(night)}"] if own_night else [])]
    # What was measured is to be seen; a session notices what has waited.
    with held(), watched(wanted, drive.site, night, parts) as follow:
        for part in parts:
            if session.stopped:
                session = replace(session, report=None)  # this part did not run
            else:
                options = [*part.options, *mode]
                session = run_session(options, own_night, drive.deadline, follow, drive.locks)
            ran.append(RanSession(None if wanted.names else part.expected, session, night))
        if own_night:
            extras = drive.extras(night)
            ran = gathered(wanted, drive.site, ran, extras, follow, drive.locks)
        ignore_signals()  # also those that have waited
    return ran


# The outcome


def _judged(drive: Drive, night: str, ran: Sequence[RanSession], after: Aftermath) -> Night:
    """The night: its verdicts, and everything that is wrong with it."""
    record = after.record
    broken = broken_promises(drive.promise, drive.asked, night, record.of_system)
    problems = [*after.problems, *broken]
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


def _problems(session: RanSession, stored: Collection[str]) -> Iterator[str]:
    """Problems of a session as such; `stored` are the sessions in ReFrame's results database."""
    runs, ended = session.came_to, session.ended
    # If all that was left was queued then, the cases say so.
    queued = {run.case for run in runs if run.result in UNFINISHED}
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


def _kept(drive: Drive, whole: Night, ran: Sequence[RanSession], after: Aftermath) -> Night:
    """The night with its page, and with all that is on record of it then."""
    record, problems, notes = after.record, [*whole.problems], [*whole.notes]
    own_notes, lost, promised = [*after.notes], [*after.lost], drive.promise.cases
    sessions = {run.session for session in ran for run in session.runs}
    unfinished = [p for session in ran for p in _problems(session, after.stored)]
    if not sessions.issubset(after.stored):  # which is said of it
        lost.append(whole.id)
    if before := record.words.read(whole.id):
        # A re-run takes nothing back. Going on with a night does, what its sessions left undone.
        taken_back = before.unfinished if drive.wanted.resume else ()
        problems = [*(p for p in before.problems if p not in taken_back), *problems]
        notes += before.notes
        own_notes = [*before.notes, *own_notes]
        lost = [*before.lost, *lost]
        promised = max(promised, before.promised)  # to the whole of it
    problems, notes = [*dict.fromkeys(problems)], [*dict.fromkeys(notes)]
    whole = replace(whole, problems=problems, notes=notes)
    if whole.cases:
        try:
            whole = replace(whole, page=drive.publish(whole, record.databases[0].parent))
        except UserError as err:
            whole = replace(whole, problems=[*whole.problems, str(err)])
    if whole.is_by_hand:
        return whole.measured_in(sessions)
    judged = GateRecord(
        time=datetime.now(UTC),
        colour=whole.colour,
        why=whole.why,
        promised=promised,
        measured=whole.measured,
        red=len(whole.red),
        amber=len(whole.amber),
        skipped=len(whole.skipped),
        ended=whole.ended,
        rows=dict.fromkeys(whole.sessions | sessions, "") | record.rows(whole.id),
        problems=whole.problems,
        unfinished=unfinished,
        notes=[*dict.fromkeys(own_notes)],
        lost=[*dict.fromkeys(lost)],
        groups=whole.groups,
        is_checked=after.is_checked,
    )
    shown = document(night=replace(whole, judged=judged).document)
    try:
        judged = record.words.keep(whole.id, judged, shown)
    except UserError as err:
        return replace(whole, problems=[*whole.problems, str(err)]).measured_in(sessions)
    return replace(whole, judged=judged).measured_in(sessions)
