"""One hour: a session of the hourly suite, which is part of no night and disturbs none.

It has a lock, folders, a log and a record of its own. Users' jobs and those of a night go on beside
it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.locks import exclusive
from iowatch.base.text import brief_time
from iowatch.cases.case import Case
from iowatch.cases.filesystem import HOURLY
from iowatch.cases.run import Run
from iowatch.measure.kinds.latency import CALLS
from iowatch.measure.result import InvalidResult
from iowatch.night.gate import problems_of
from iowatch.night.session import EndedSession, held, run_session
from iowatch.night.wanted import Wanted
from iowatch.past import hours
from iowatch.past.history import runs_of
from iowatch.site.site import Site, read_site


@dataclass(frozen=True, kw_only=True)
class EndedHour:
    """What came of an hour."""

    measured: Sequence[hours.CaseHour]
    problems: Sequence[str]
    signal: int = 0  # that ended it

    @property
    def lines(self) -> list[str]:
        """A line for each case that was measured, with its p99 of each call."""
        return [
            f"{hour.filesystem}: p99 of "
            + ", ".join(f"{call} {brief_time(hour.quantile(call, 'p99'))}" for call in CALLS)
            for hour in self.measured
        ]


def run(wanted: Wanted) -> EndedHour:
    """Measure the hourly suite of a system, and put it on record. UserError: nothing was run."""
    deadline = time.monotonic() + wanted.time_limit.total_seconds()
    site = read_site(wanted.system)
    asked = site.cases(HOURLY)
    if not asked:
        raise UserError(
            f"{wanted.system}: no filesystem has the suite '{HOURLY}': add it to 'suites' in the "
            "site's file, as docs/howto/latency.md shows"
        )
    folder = site.database.parent
    names = [f"--name={name}" for name in wanted.names]
    options = ["--system", wanted.system, *names, *wanted.mode]
    busy = f"{site.system}: the hour before is still at work"
    with exclusive(folder / f"{HOURLY}.{site.system}.lock", busy) as lock, held():
        follow = None if wanted.verbose else lambda lines: None
        ended = run_session(options, "", deadline, follow, [lock], is_stored=False)
        return _judged(site, None if wanted.names else asked, ended, folder)


def _judged(site: Site, asked: set[Case] | None, ended: EndedSession, folder: Path) -> EndedHour:
    runs: list[Run] = []
    if ended.report:
        ended.report["session_info"].setdefault("uuid", "")  # of what is stored alone
        runs = [*runs_of(ended.report)]
    problems = [ended.stopped] if ended.stopped else []
    problems += problems_of(
        {run.case for run in runs} if asked is None else asked, ended.report, runs
    )
    problems += [f"reframe: {ended.error}"] if ended.error else []
    problems += [
        f"{run.case}: {run.outcome}: {run.sentence}" for run in runs if not run.is_measured
    ]
    measured = []
    for run in runs:
        if run.is_measured:
            try:
                measured.append(hours.of_run(run))
            except InvalidResult as err:
                problems.append(f"{run.case}: {err}")
    problems += hours.append(folder, measured)
    return EndedHour(measured=measured, problems=problems, signal=ended.signal)
