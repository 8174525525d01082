"""One night: run every check of a system and make sure that nothing passed quietly."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from iowatch import bless, history, references
from iowatch.case import Case
from iowatch.checks import NIGHTLY, SWEEPS
from iowatch.history import HistoryError
from iowatch.night.gate import Known, Night, Tonight, add_notes, gate, tonight
from iowatch.night.session import Session, held, ignore_signals, locked, run_session
from iowatch.site import (
    CHECKS_FOLDER,
    Filesystem,
    UsageError,
    cases,
    filesystems,
    is_stored,
    profiles,
    reference_folder,
    results_database,
)


class NothingDue(Exception):
    """There is no re-run to be made; the message says so."""


@dataclass(frozen=True)
class Wanted:
    """What the night is asked for."""

    system: str
    sweep: str = NIGHTLY
    names: Sequence[str] = ()  # ReFrame's -n; what they leave out makes the night red
    record: bool = False  # accept cases without reference values
    again: bool = False  # only the re-runs that are due
    time_limit: timedelta = history.NIGHT
    quiet: bool = False  # nothing of ReFrame's own output

    def check(self) -> None:
        """UsageError if these do not go together."""
        if self.sweep not in SWEEPS:
            raise UsageError(f"--sweep {self.sweep}: there are {' and '.join(SWEEPS)}")
        if self.again and self.names:
            raise UsageError("--again runs what is due: leave out --name")

    @property
    def rerun_command(self) -> str:
        """The command that runs again what is suspicious."""
        sweep = [] if self.sweep == NIGHTLY else ["--sweep", self.sweep]
        return shlex.join(["iowatch", "nightly", "--system", self.system, *sweep, "--again"])


@dataclass(frozen=True)
class Part:
    """A session of ReFrame and what it must measure."""

    options: list[str]
    expected: set[Case]
    versions: bool = True  # of the libraries, too
    profiles: set[Case] = field(default_factory=set)  # access patterns to look at


def run(wanted: Wanted) -> Night:
    """Run the checks, or those that are due again, and judge the night.

    SiteConfigError, UsageError, NothingDue and what reading the past raises come before anything
    runs; Interrupted as well. A night that is stopped later is judged by what was measured.
    """
    deadline = time.monotonic() + wanted.time_limit.total_seconds()
    if not CHECKS_FOLDER.is_dir():
        raise UsageError(
            f"{CHECKS_FOLDER} is missing: install iowatch from its checkout, with pip -e"
        )
    places = filesystems(wanted.system)
    asked = cases(places, wanted.sweep)
    database = results_database()
    with locked(wanted.system.partition(":")[0], database.parent) as lock:
        if wanted.again:
            parts = _reruns(wanted, places, asked, database)
        else:
            parts = [_all(wanted, asked, profiles(places, wanted.sweep))]
        night, ran = Night(), Session()
        with held():  # what was measured is to be seen; a session notices what has waited
            for part in parts:
                if not ran.stopped:
                    ran = run_session([*part.options, *_mode(wanted)], deadline, wanted.quiet, lock)
                    night.add(_judge(part, ran, wanted.system))
                else:
                    night.add(gate(part.expected, None, part.versions, part.profiles))
            ignore_signals()  # also those that have waited
        night.signal = ran.signal
        if database.is_file():
            try:
                now = datetime.now(timezone.utc)
                known = look_back(wanted.system, places, asked, database, now)
                add_notes(night, known, now, wanted.rerun_command)
            except (HistoryError, bless.BlessError, references.ExpectedError) as err:
                night.problems.append(str(err))
    return night


def _all(wanted: Wanted, asked: set[Case], patterns: set[Case]) -> Part:
    options = ["--system", wanted.system, *(f"--name={n}" for n in wanted.names)]
    return Part(options, asked, profiles=patterns)


def _reruns(
    wanted: Wanted, places: Sequence[Filesystem], asked: set[Case], database: Path
) -> list[Part]:
    """The re-runs that are due, a session for each partition and environment."""
    if not database.is_file():
        raise UsageError(f"--again: nothing is on record yet: there is no {database}")
    now = datetime.now(timezone.utc)
    known = look_back(wanted.system, places, asked, database, now)
    reruns = due(known.cases, now)
    if not reruns:
        times = sorted(night.rerun_at for night in known.cases.values() if night.rerun_at)
        next_ = f": the next from {times[0]:%Y-%m-%d %H:%M} UTC" if times else ""
        raise NothingDue(f"{wanted.system}: no re-run is due{next_}")
    return [Part(rerun.options, rerun.cases, versions=False) for rerun in reruns]


def look_back(
    system: str, places: Sequence[Filesystem], asked: set[Case], database: Path, now: datetime
) -> Known:
    """What is known of the cases that a night asks for. HistoryError, BlessError, ExpectedError."""
    name, folder = system.partition(":")[0], reference_folder()
    records = [record for record in history.read([database]) if record.case in asked]
    blessed = bless.read(name, folder)
    failures = references.read_expected(name, folder)
    future = sum(record.time > now for record in records)
    return Known(places, tonight(records, blessed, now), blessed, failures, database, future)


def _mode(wanted: Wanted) -> list[str]:
    """ReFrame's options for a sweep; a site's mode may add to it, such as longer jobs."""
    mode = [] if wanted.sweep == NIGHTLY else [f"--mode={wanted.sweep}"]
    return [*mode, *(["--setvar=record=1"] if wanted.record else [])]


def _judge(part: Part, session: Session, system: str) -> Night:
    """The verdicts of a session, and what is wrong with the session as such."""
    night = gate(part.expected, session.report, part.versions, part.profiles)
    if session.stopped:
        night.problems.insert(0, session.stopped)
    if session.error:
        night.problems.append(f"reframe: {session.error}")
    if session.report and not is_stored(system, session.report["session_info"]["uuid"]):
        night.problems.append("the session is not in ReFrame's results database")
    if session.status != 0 and not night.is_red:
        night.problems.append(f"reframe ended with exit code {session.status}")
    return night


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


@dataclass(frozen=True)
class Rerun:
    """A selection of ReFrame's; its hashes know neither partition nor environment."""

    partition: str  # system:partition
    environ: str
    tests: Mapping[Case, str]  # the hash of each

    @property
    def cases(self) -> set[Case]:
        return set(self.tests)

    @property
    def options(self) -> list[str]:
        """ReFrame's options that select these cases."""
        names = [f"--name=/{test}" for test in sorted(self.tests.values())]
        # ReFrame's -p searches: gnu would find gnu-debug as well.
        return ["--system", self.partition, "-p", f"^{re.escape(self.environ)}$", *names]


def due(cases: Mapping[Case, Tonight], now: datetime) -> list[Rerun]:
    """The re-runs that are due."""
    groups: dict[tuple[str, str], dict[Case, str]] = {}
    for case, night in cases.items():
        if night.rerun_at and night.rerun_at <= now:
            place = (f"{case.system}:{case.partition}", case.environ)
            groups.setdefault(place, {})[case] = night.valid[-1].test
    return [Rerun(*place, tests) for place, tests in sorted(groups.items())]


def rerun_script(cases: Mapping[Case, Tonight], now: datetime) -> Iterator[str]:
    """The lines of a shell script that runs again what is due; what is not yet, as comments."""
    for night in cases.values():
        if night.rerun_at:
            yield f"# {night.valid[-1].sentence}"
            if night.rerun_at > now:
                yield f"#   due from {night.rerun_at:%H:%M} UTC"
    for rerun in due(cases, now):
        yield shlex.join(["reframe", "-c", str(CHECKS_FOLDER), "-r", *rerun.options])
