"""What a session left that did not come to its end: results that nobody has judged, and cases that
have none. Another session of ReFrame judges them, as it takes jobs up that were left."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.cases.case import Case
from iowatch.cases.run import Run, began
from iowatch.night.progress import Follow
from iowatch.night.record import SystemRecord
from iowatch.night.session import EndedSession, run_session
from iowatch.night.wanted import Wanted
from iowatch.past import history, raw_results
from iowatch.past.history import runs_of
from iowatch.past.reframe_database import UNFINISHED
from iowatch.site.site import Site

#: After the last run of a night: what is run again later says nothing of that night any more.
OVER = timedelta(days=2)
#: Of a session that has left no word.
KILLED = "its session was killed"
#: Longer than judging takes: no job runs.
GATHER_S = 900.0


@dataclass(frozen=True)
class PlannedSession:
    """The options of ReFrame that choose what a session runs, and the cases that they choose."""

    options: list[str]
    expected: set[Case]


@dataclass(frozen=True)
class RanSession:
    """A session that has ended, and its runs."""

    expected: set[Case] | None  # None: only ReFrame knows which cases a name matches
    ended: EndedSession
    night: str
    gathered: Sequence[Run] = ()  # of its cases, that sessions after it have judged

    @cached_property
    def runs(self) -> list[Run]:
        """The runs are of the night even if the session was cut off before it said so."""
        reported = runs_of(self.ended.report) if self.ended.report else ()
        return [replace(run, night=self.night) for run in reported]

    @property
    def came_to(self) -> list[Run]:
        """The runs, but with the later verdicts on what the session itself has not judged."""
        cases = {run.case for run in self.gathered}
        return [*(run for run in self.runs if run.case not in cases), *self.gathered]


def sessions_of(cases: Iterable[Case]) -> Iterator[PlannedSession]:
    """Sessions of these cases alone, one for each partition and environment."""
    places: dict[tuple[str, str, str], set[Case]] = {}
    for case in cases:
        places.setdefault((case.system, case.partition, case.environ), set()).add(case)
    for (system, partition, environ), here in sorted(places.items()):
        # ReFrame's -p searches: gnu would find gnu-debug as well.
        place = ["--system", f"{system}:{partition}", "-p", f"^{re.escape(environ)}$"]
        names = sorted(f"--name=^{re.escape(_name(case))}$" for case in here)
        yield PlannedSession([*place, *names], here)


def _name(case: Case) -> str:
    """The name that ReFrame displays of the test of a case, without spaces."""
    _, _, check, *tail = str(case).split("/", 3)
    return f"{check}%setting={tail[0]}" if tail else check


def kept_by_jobs(prefix: Path, night: str, cases: Collection[Case]) -> set[Case]:
    """The cases of which a job of this night has kept what it came to."""
    ended = {
        file.parent.name.partition("+")[0]
        for file in (prefix / raw_results.FOLDER / night).glob("*/exit_code")
    }
    return {case for case in cases if str(case).replace("/", ",") in ended}


def gathered(
    wanted: Wanted,
    site: Site,
    ran: Sequence[RanSession],
    extras: str,
    follow: Follow | None,
    locks: Sequence[int],
) -> list[RanSession]:
    """The sessions of a night, with those that judge what jobs have kept of which no session has
    said what it is: its ReFrame was killed, or gave up."""
    night = ran[0].night
    asked = {case for session in ran for case in session.expected or ()}
    judged = {run.case for session in ran for run in session.runs if run.result not in UNFINISHED}
    mode = [*replace(wanted, resume=True).mode, f"--session-extras={extras}"]
    more = []
    for part in sessions_of(kept_by_jobs(site.prefix, night, asked - judged)):
        until = time.monotonic() + GATHER_S
        ended = run_session([*part.options, *mode], night, until, follow, locks)
        more.append(RanSession(part.expected, ended, night))
    late = [run for session in more for run in session.runs]
    first = [
        replace(session, gathered=[run for run in late if run.case in (session.expected or ())])
        for session in ran
    ]
    # Who ended the night is asked of the last.
    return [*more, *first]


def killed_night(site: Site, suite: str, asked: set[Case]) -> tuple[str, set[Case]]:
    """The last night of a suite, and its cases that no session has judged; none if the night is
    over, or has ended: it then has a word of its own, and --resume goes on with it."""
    night = raw_results.last_night(site.prefix, site.system, suite)
    record = SystemRecord(system=site.system, databases=[site.database])
    if not night or datetime.now(UTC) - began(night) > OVER or record.words.read(night):
        return night, set()
    runs = history.read([site.database]) if site.database.is_file() else []
    return night, asked - {run.case for run in runs if run.night == night}


def to_resume(site: Site, suite: str, asked: set[Case]) -> tuple[str, set[Case], bool]:
    """The last night of a suite, its cases that were not measured, and whether a session of it is
    on record; UserError if there is nothing to go on with."""
    night = raw_results.last_night(site.prefix, site.system, suite)
    if not night:
        raise UserError(f"--resume: there is no night of {site.system} in {site.prefix}")
    runs = history.read([site.database]) if site.database.is_file() else []
    tonight = [run for run in runs if run.night == night and run.case.system == site.system]
    left = asked - {run.case for run in tonight if not run.outcome.is_untried}
    if not left:
        raise UserError(f"--resume: the last night, {night}, is on record: nothing of it was lost")
    if datetime.now(UTC) - began(night) > OVER:
        raise UserError(
            f"--resume: the last night, {night}, was not measured to its end, and is over: it "
            f"began more than {OVER.days} days ago"
        )
    return night, left, bool(tonight)
