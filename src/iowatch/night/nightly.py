"""One night: run every check of a system and make sure that nothing passed quietly."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from iowatch import history, raw_results, references, renames, report
from iowatch.case import Case
from iowatch.files import UserError, counted
from iowatch.history import NIGHT_KEY, PROMISE_KEY, runs_of
from iowatch.locks import locked
from iowatch.night.case_night import CaseNight
from iowatch.night.gate import (
    RECENT,
    Night,
    broken_promises,
    lost_baselines,
    lost_references,
    night_of,
    problems_of,
    shown,
)
from iowatch.night.progress import Follow, Progress, say, watch
from iowatch.night.record import GateRecord, Known, Records, keep_judged, load, read_judged
from iowatch.night.session import EndedSession, held, ignore_signals, run_session
from iowatch.places import reference_folder, reference_values, reframe_program
from iowatch.run import Run, began, night_id, nights_of
from iowatch.site import Site, read_site
from iowatch.suites import ACCEPTANCE, NIGHTLY, SUITES

#: After the last run of a night: what is run again later says nothing of that night any more.
OVER = timedelta(days=2)
#: How long the nights of this time took says how long the next one takes.
OF_LATE = timedelta(days=30)


class NothingDue(Exception):
    """There is no re-run to be made; the message says so."""


@dataclass(frozen=True)
class Wanted:
    """What the night is asked for."""

    system: str
    suite: str = NIGHTLY
    names: Sequence[str] = ()  # ReFrame's -n; what they leave out makes the night red
    record: bool = False  # accept cases without reference values
    again: bool = False  # only the re-runs that are due
    time_limit: timedelta = timedelta(hours=20)
    quiet: bool = False  # nothing is printed while it runs
    verbose: bool = False  # ReFrame's own output instead of how far it is
    options: Sequence[str] = ()  # of ReFrame's, besides ours
    resume: bool = False  # the last night, whose session was killed
    away: Sequence[str] = ()  # OSTs that are away on purpose, each FILESYSTEM:OST
    death: str = ""  # what is killed on purpose, FILESYSTEM:client or FILESYSTEM:server

    def check(self) -> None:
        """UserError if these do not go together."""
        if self.suite not in SUITES:
            raise UserError(f"--suite {self.suite}: there are {' and '.join(SUITES)}")
        if self.again and self.names:
            raise UserError("--again runs what is due: leave out --name")
        if self.resume and (self.again or self.names):
            raise UserError("--resume ends the whole night: leave out --again and --name")
        for option, value in (("--away", self.away), ("--death", self.death)):
            if value and self.suite != ACCEPTANCE:
                raise UserError(f"{option} is for an acceptance test: add --suite acceptance")
        if self.options and not self.options[0].startswith("-"):
            raise UserError(
                f"{self.options[0]}: no option of iowatch: those of ReFrame follow `--`, such as "
                "`-- -J reservation=NAME`"
            )
        options_of_reframe(self.options)
        if self.quiet and self.verbose:
            raise UserError("--quiet and --verbose exclude each other: leave one of them out")

    @property
    def rerun_command(self) -> str:
        """The command that runs again what is suspicious."""
        suite = [] if self.suite == NIGHTLY else ["--suite", self.suite]
        suite += [word for ost in self.away for word in ("--away", ost)]
        suite += ["--death", self.death] if self.death else []
        options = ["--", *self.options] if self.options else []
        words = ["iowatch", "nightly", "--system", self.system, *suite, "--again", *options]
        return shlex.join(words)


#: Options of ReFrame's that a night may be given, those with a value and those without. Any other
#: could leave out a case, or its verdict, or go by another configuration.
WITH_VALUE = (
    *("-J --job-option", "-S --setvar", "-m --module", "-u --unload-module", "-M --map-module"),
    *("--exec-order", "--exec-policy", "--report-junit"),
)
WITHOUT = ("-v --verbose", "--purge-env", "--keep-stage-files", "--non-default-craype", "--nocolor")
#: The variables of a check that may be set: they say how it is measured, not how it is judged.
MAY_BE_SET = ("repeats", "time_limit", "max_pending_time", "build", "spack_spec")


class _Refusing(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"after `--`: {message}")


def options_of_reframe(options: Sequence[str]) -> None:
    """UserError if one of them could switch judging off."""
    parser = _Refusing(prog="reframe", add_help=False, allow_abbrev=False)
    for action, every in (("append", WITH_VALUE), ("count", WITHOUT)):
        for names in every:
            parser.add_argument(*names.split(), action=action)
    given, others = parser.parse_known_args([*options])
    if others:
        there = ", ".join(names.split()[-1] for names in (*WITH_VALUE, *WITHOUT))
        raise UserError(
            f"{others[0]}: no option of ReFrame's for a night, which promises every case and its "
            f"verdict: there are {there}"
        )
    for pair in given.setvar or ():
        name = pair.partition("=")[0].rpartition(".")[2]
        if name not in MAY_BE_SET:
            raise UserError(
                f"--setvar {pair}: a night may set only {', '.join(MAY_BE_SET)}: the site's file "
                "and iowatch's own options say the rest"
            )


@dataclass(frozen=True)
class PlannedSession:
    """A session of ReFrame and what it must measure."""

    options: list[str]
    expected: set[Case]


@dataclass(frozen=True)
class DatabaseBefore:
    """The results database as the night found it."""

    sessions: Mapping[str, float]  # id -> when it began, in seconds since 1970
    notes: Sequence[str] = ()


def run(wanted: Wanted) -> Night:
    """Run the checks, or those that are due again, and judge the night; its page is written.

    UserError, NothingDue and what reading the past raises come before anything
    runs; Interrupted as well. A night that is stopped later is judged by what was measured.
    """
    deadline = time.monotonic() + wanted.time_limit.total_seconds()
    reframe_program()
    site = read_site(wanted.system)
    if wanted.suite == NIGHTLY:  # else each run would be verified, and then fail for want of it
        references.ReferenceFile(reference_values(site.system))
    asked = site.cases(wanted.suite)
    _require_osts(wanted, site)
    with locked(site.system, site.own_folders) as locks:
        if wanted.again:
            night, parts = _reruns(wanted, site, asked)
        else:
            names = [f"--name={name}" for name in wanted.names]
            parts = [PlannedSession(["--system", wanted.system, *names], asked)]
            night = _killed(site) if wanted.resume else night_id(datetime.now(UTC))
        before = _found(site.database)
        ran: list[tuple[PlannedSession, EndedSession]] = []
        promise = site.promises[wanted.suite]
        extras = f"{NIGHT_KEY}={night},{PROMISE_KEY}={promise}"
        session, mode = EndedSession(), [*_mode(wanted), f"--session-extras={extras}"]
        # What was measured is to be seen; a session notices what has waited.
        with held(), _watched(wanted, site, night, parts) as follow:
            for part in parts:
                if session.stopped:
                    session = replace(session, report=None)  # this part did not run
                else:
                    options = [*part.options, *mode]
                    session = run_session(options, night, deadline, follow, locks)
                ran.append((part, session))
            ignore_signals()  # also those that have waited
        return _judged(wanted, site, night, ran, asked, before)


def _require_osts(wanted: Wanted, site: Site) -> None:
    """UserError if what is said to be away, or to die, is nothing that the site's file knows."""
    mortal = [f"{place.name}:{who}" for place in site.filesystems for who in ("client", "server")]
    if wanted.death and wanted.death not in mortal:
        raise UserError(f"--death {wanted.death}: there are {', '.join(dict.fromkeys(mortal))}")
    known = [f"{place.name}:{ost}" for place in site.filesystems for ost in place.targets.values()]
    if unknown := sorted({*wanted.away} - {*known}):
        there = f"there are {', '.join(dict.fromkeys(known))}" if known else "none is known"
        raise UserError(
            f"--away {unknown[0]}: {site.system} has no such OST as FILESYSTEM:OST: {there}"
        )


@contextmanager
def _watched(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession]
) -> Iterator[Follow | None]:
    """Say what the night will do; gives what shows how far it is, None: ReFrame's output does."""
    if wanted.quiet:
        yield lambda lines: None
        return
    usual = _usual(site, night, parts) if not (wanted.names or wanted.again) else ""
    say("\n".join(_announced(wanted, site, night, parts, usual)))
    if wanted.verbose:
        yield None
        return
    # ReFrame alone knows which cases a name matches.
    cases = 0 if wanted.names else sum(len(part.expected) for part in parts)
    earlier = raw_results.count(site.prefix, night)  # of a night that is run again
    progress = Progress(
        cases,
        lambda: raw_results.count(site.prefix, night) - earlier,
        lambda: raw_results.waits_for(site.prefix, night),
    )
    with watch(progress) as follow:
        yield follow


def _announced(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession], usual: str
) -> Iterator[str]:
    """What the night will do, how long that takes as far as it is known, and where to see more."""
    names = {place.partition: place.name for place in site.filesystems}
    counts = Counter(names[case.partition] for part in parts for case in part.expected)
    places = ", ".join(f"{count} on {name}" for name, count in sorted(counts.items()))
    cases = counted(counts.total(), "case")
    if wanted.again:
        yield f"Night {night} of {wanted.system}: {cases} will be measured again ({places})."
    elif wanted.resume:
        yield f"Night {night} of {wanted.system}: goes on with {cases} ({places})."
    elif wanted.names:
        yield f"Night {night} of {wanted.system}: those of {cases} ({places}) that --name matches."
    else:
        yield f"Night {night} of {wanted.system}: {cases} will be measured ({places})."
        if usual:
            yield f"The last nights like this one took {usual}."
        else:
            yield "How long it takes is not known: no whole night like this one is on record."
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


def _usual(site: Site, night: str, parts: Sequence[PlannedSession]) -> str:
    """How long the last nights took that measured all of this in their first session, in words;
    empty: there was none, or nobody can say."""
    asked = {case for part in parts for case in part.expected}
    took = []
    if not site.database.is_file():
        return ""
    try:
        runs = history.read([site.database], datetime.now(UTC) - OF_LATE)
    except UserError:  # its judging will say so
        return ""
    skipped: dict[str, set[Case]] = {}
    for run in runs:
        if run.outcome.is_skipped:
            skipped.setdefault(run.night, set()).add(run.case)
    for earlier, of_night in nights_of(runs).items():
        first = [run for run in of_night if run.session == of_night[0].session]
        measured = {run.case for run in first if not run.outcome.is_amber}
        measured |= skipped.get(earlier, set())
        if asked <= measured and earlier < night:
            took.append(max(run.time for run in first) - began(earlier))
    minutes = sorted(max(1, round(each / timedelta(minutes=1))) for each in took[-RECENT:])
    return _in_words(minutes[0], minutes[-1]) if minutes else ""


def _in_words(least: int, most: int) -> str:
    """Minutes as people say them; from two hours on, hours."""
    unit = "minute"
    if most >= 120:
        unit, least, most = "hour", round(least / 60), round(most / 60)
    words = f"{most} {unit}{'' if most == 1 else 's'}"
    return f"about {words}" if least == most else f"{least} to {words}"


def _found(database: Path) -> DatabaseBefore:
    """The results database, ready for ReFrame to store in; UserError."""
    anew = ""
    if not database.is_file():
        anew = "was not there"
    elif history.clear_empty(database):
        anew = "was empty, as a full disk leaves it"
    if anew:
        return DatabaseBefore({}, [f"{database} {anew}: history begins anew with this night"])
    return DatabaseBefore(history.starts(database))


def _gone(site: Site, before: DatabaseBefore) -> Iterator[str]:
    """Of what was on record when the night began; a site may archive some meanwhile. UserError."""
    archived = max(site.archived.values(), default=date.min)
    left = history.starts(site.database)
    gone = [
        session
        for session, start in before.sessions.items()
        if session not in left and datetime.fromtimestamp(start, UTC).date() > archived
    ]
    if gone:
        are = counted(len(gone), "session", "are", of=len(before.sessions))
        yield f"{site.database}: {are} gone since the night began: restore it from a backup"


def _reruns(wanted: Wanted, site: Site, asked: set[Case]) -> tuple[str, list[PlannedSession]]:
    """The night on record that is not over, and the re-runs that are due, a session for each
    partition and environment: ReFrame's hashes know neither."""
    if not site.database.is_file():
        raise UserError(f"--again: nothing is on record yet: there is no {site.database}")
    now = datetime.now(UTC)
    known, runs = load(site.system, [site.database], now, site)
    nights = nights_of(run for run in runs if run.case in asked and not run.is_after(now))
    night = max(nights, default="")
    if night and now - (last := max(run.time for run in nights[night])) > OVER:
        raise NothingDue(
            f"{wanted.system}: no re-run is due: the last night, {night}, ended on "
            f"{last:%Y-%m-%d %H:%M} UTC, more than {OVER.days} days ago"
        )
    last_night = (
        night_of(site.system, night, runs, known, now) if night else Night(site.system, night)
    )
    times = {case: at for case, at in last_night.reruns.items() if case in asked}
    due = [row for row in last_night.cases if row.case in times and times[row.case] <= now]
    if not due:
        next_ = f": the next from {min(times.values()):%Y-%m-%d %H:%M} UTC" if times else ""
        raise NothingDue(f"{wanted.system}: no re-run is due{next_}")
    return night, list(_again(due))


def _killed(site: Site) -> str:
    """The last night, of which nothing is on record: its session was killed. UserError."""
    night = raw_results.last_night(site.prefix, site.system)
    if not night:
        raise UserError(f"--resume: there is no night of {site.system} in {site.prefix}")
    runs = history.read([site.database]) if site.database.is_file() else []
    if any(run.night == night and run.case.system == site.system for run in runs):
        raise UserError(f"--resume: the last night, {night}, is on record: nothing of it was lost")
    if datetime.now(UTC) - began(night) > OVER:
        raise UserError(
            f"--resume: the last night, {night}, was not stored, and is over: it began more than "
            f"{OVER.days} days ago"
        )
    return night


def _again(due: Sequence[CaseNight]) -> Iterator[PlannedSession]:
    places = sorted({(row.case.partition, row.case.environ) for row in due})
    for partition, environ in places:
        rows = [r for r in due if (r.case.partition, r.case.environ) == (partition, environ)]
        names = sorted(f"--name=/{row.last_measured.test}" for row in rows if row.last_measured)
        system = f"{rows[0].case.system}:{partition}"
        # ReFrame's -p searches: gnu would find gnu-debug as well.
        place = ["--system", system, "-p", f"^{re.escape(environ)}$"]
        yield PlannedSession([*place, *names], {row.case for row in rows})


def _judged(
    wanted: Wanted,
    site: Site,
    night: str,
    ran: Sequence[tuple[PlannedSession, EndedSession]],
    asked: set[Case],
    before: DatabaseBefore,
) -> Night:
    """The night: its verdicts, and everything that is wrong with it."""
    now = datetime.now(UTC)
    known, runs, problems, idle = Known(), list[Run](), list[str](), list[str]()
    lost: list[str] = []
    stored: Collection[str] = ()
    if site.database.is_file():
        try:
            stored = history.starts(site.database)
            problems += _gone(site, before)
            known, runs = load(site.system, [site.database], now, site, wanted.rerun_command)
            lost = _lost(site, night, runs, now)
            idle += _idle(site, known)
        except UserError as err:
            problems.append(str(err))
    problems += [_said_lost(site, earlier) for earlier in lost]
    problems += broken_promises(site.promises[wanted.suite], asked, night, runs)
    tonight: list[Run] = []
    for part, session in ran:
        of_session = list(_own(session, night))
        problems += _problems(part, session, of_session, stored)
        tonight += of_session
    sessions = {run.session for run in tonight}
    # What has just run has the last word, whatever a clock that was set back says, and is of this
    # night even if its session was stored before it said so.
    runs = [run for run in runs if run.session not in sessions] + tonight
    whole = night_of(site.system, night, runs, known, now)
    problems += [*whole.problems, *lost_baselines(whole.cases), *lost_references(whole.cases)]
    problems += _tidy(site, now.date())
    own_notes = [*before.notes, *idle]
    if wanted.options:
        own_notes.append(f"ReFrame was also given: {shlex.join(wanted.options)}")
    if not (site.is_whole or wanted.again):
        own_notes.append(f"only {wanted.system} was asked for, {counted(len(asked), 'case')}")
    whole = replace(
        whole,
        problems=list(dict.fromkeys(problems)),
        notes=[*whole.notes, *own_notes],
        signal=ran[-1][1].signal,
    )
    promised = site.promises[wanted.suite].cases
    if not sessions.issubset(stored):  # which is said of it
        lost = [*lost, night]
    return _kept(whole, site, promised, own_notes, lost).measured_in(sessions)


def _lost(site: Site, night: str, runs: Sequence[Run], now: datetime) -> list[str]:
    """Earlier nights that nobody has on record but by their raw results, and of which no night has
    said so yet."""
    after = max(site.archived.values(), default=date.min)
    since = max((now - OF_LATE).date(), after + timedelta(days=1))
    stored = {run.night for run in runs if run.case.system == site.system}
    began_earlier = raw_results.nights(site.prefix, site.system, since)
    lost = [each for each in began_earlier if each < night and each not in stored]
    told = Records(site.system, [site.database]).told_lost if lost else set()
    return [each for each in lost if each not in told]


def _said_lost(site: Site, night: str) -> str:
    return (
        f"the night {night} is not in the results database: its session was killed, or taken out: "
        f"look at its raw results, {site.prefix / raw_results.FOLDER / night}, or restore the "
        "database from a backup"
    )


def _kept(
    whole: Night, site: Site, promised: int, own_notes: Sequence[str], lost: Sequence[str]
) -> Night:
    """The night with its page, and with all that is on record of it then."""
    before = read_judged(site.database, site.system, whole.id)
    problems, notes = [*whole.problems], [*whole.notes]
    if before:  # a re-run takes nothing back
        problems = [*dict.fromkeys([*before.problems, *problems])]
        notes = [*dict.fromkeys([*notes, *before.notes])]
        own_notes = [*dict.fromkeys([*before.notes, *own_notes])]
        lost = [*before.lost, *lost]
        promised = max(promised, before.promised)  # to the whole of it
    whole = replace(whole, problems=problems, notes=notes)
    if whole.cases:
        try:
            whole = replace(whole, page=report.write_page(whole, site.database.parent))
        except UserError as err:
            whole = replace(whole, problems=[*whole.problems, str(err)])
    judged = GateRecord(
        time=datetime.now(UTC).isoformat(),
        colour=whole.colour,
        why=whole.why,
        promised=promised,
        runs=len(whole.runs),
        problems=whole.problems,
        notes=own_notes,
        lost=lost,
    )
    try:
        keep_judged(site.database, site.system, whole.id, judged)
    except UserError as err:
        return replace(whole, problems=[*whole.problems, str(err)])
    return replace(whole, judged=judged)


def _idle(site: Site, known: Known) -> Iterator[str]:
    """What stands in the site's files and is of none of its cases: somebody took it for a bound.

    UserError.
    """
    if not site.is_whole:
        return
    cases = {case for suite in SUITES for case in site.cases(suite)}
    folder = reference_folder()
    values = reference_values(site.system)
    file = references.ReferenceFile(values) if values.is_file() else None
    yield from _dropped(site, known, values, file.retired if file else {})
    expected = [
        entry.case.pattern
        for entry in known.expected
        if not any(entry.case.fullmatch(str(case)) for case in cases)
    ]
    announced = references.read_maintenance(site.system, folder)
    names = {place.name for place in site.filesystems}
    unknown = sorted({name for entry in announced for name in entry.filesystems} - names)
    if unknown:
        yield (
            f"{references.maintenance_path(site.system, folder)}: names no filesystem of the site: "
            f"{', '.join(unknown)}: write their names as `filesystem` has them in the site's file"
        )
    for path, entries in (
        (values, file.idle(cases) if file else []),
        (references.expected_path(site.system, folder), expected),
    ):
        if entries:
            yield (
                f"{path}: {len(entries)} of its entries match no case of the site and count for "
                f"nothing: {shown(entries)}: `iowatch rename` gives them the new name of a place; "
                "mend or remove others"
            )


def _dropped(
    site: Site, known: Known, values: Path, retired: Mapping[re.Pattern[str], str]
) -> Iterator[str]:
    """Blessed cases that have left the nightly suite, until somebody has said why."""
    nightly = site.cases(NIGHTLY)
    # What speaks of cases that are measured would hide the next one that is dropped.
    broad = [key for key in retired if any(key.fullmatch(str(case)) for case in nightly)]
    if broad:
        yield (
            f"{values}: `{references.RETIRED}` names cases of the nightly suite and counts for "
            f"nothing: {shown(key.pattern for key in broad)}: name only what is not measured"
        )
    explained = [key for key in retired if key not in broad]
    dropped = [
        case
        for case in known.blessed
        if case not in nightly and not any(key.fullmatch(str(case)) for key in explained)
    ]
    if dropped:
        yield (
            f"nobody guards {counted(len(dropped), 'blessed case')}, not in the nightly suite any "
            f"more: {shown(dropped)}: put it back, or say why under `{references.RETIRED}` in "
            f"{values}"
        )


def _problems(
    part: PlannedSession, session: EndedSession, runs: Sequence[Run], stored: Collection[str]
) -> Iterator[str]:
    """What is wrong with a session as such; `stored` are those in ReFrame's results database."""
    # If all that was left was queued then, the cases say so.
    queued = {run.case for run in runs if run.result in history.UNFINISHED}
    is_explained = queued and part.expected <= {run.case for run in runs}
    if session.stopped and not (session.is_out_of_time and is_explained):
        yield session.stopped
    problems = list(problems_of(part.expected, session.report, runs))
    yield from problems
    if session.error:
        yield f"reframe: {session.error}"
    if any(run.session not in stored for run in runs):
        yield "the session is not in ReFrame's results database"
    if session.status != 0 and not (session.stopped or problems or any(run.is_red for run in runs)):
        yield f"reframe ended with exit code {session.status}"


def _tidy(site: Site, today: date) -> Iterator[str]:
    keep = {(place.system, place.partition): place.keep_days for place in site.filesystems}
    try:
        keep = renames.read(reference_folder()).with_old_names(keep)
        raw_results.tidy(site.prefix, keep, today)
    except UserError as err:
        yield str(err)


def _own(session: EndedSession, night: str) -> Iterator[Run]:
    """The runs that a session reported, of this night even if it was cut off before it said so."""
    for run in runs_of(session.report) if session.report else ():
        yield replace(run, night=night)


def _mode(wanted: Wanted) -> list[str]:
    """ReFrame's options for a suite; a site's mode may add to it, such as longer jobs.

    Stage and output are in a folder of the nights, as they are in one of each acceptance session:
    ReFrame empties a test's folders as it begins, and somebody may start it by hand meanwhile.
    """
    # A "timestamp" that is a name: it goes below whatever folders a site has chosen.
    mode = [f"--timestamp={NIGHTLY}" if wanted.suite == NIGHTLY else f"--mode={wanted.suite}"]
    if wanted.resume:  # in a folder of its own: the jobs that were left still use theirs
        mode += ["--timestamp=resumed_%FT%H%M%S", "--setvar=resumes=1"]
    if wanted.away:
        mode += [f"--setvar=away={','.join(wanted.away)}"]
    if wanted.death:
        mode += [f"--setvar=death={wanted.death}"]
    return [*mode, *(["--setvar=record=1"] if wanted.record else []), *wanted.options]


def read_duration(text: str) -> timedelta:
    """A time such as 90m, 6h or 1d12h, in ReFrame's form; ValueError if it is none."""
    match = re.fullmatch(
        r"(?:(\d{1,4})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", text, re.ASCII
    )
    days, hours, minutes, seconds = (int(n or 0) for n in match.groups()) if match else (0,) * 4
    duration = timedelta(days, seconds, 0, 0, minutes, hours)
    if not duration:
        raise ValueError(f"not a time such as 90m, 6h or 1d12h: {text!r}")
    return duration
