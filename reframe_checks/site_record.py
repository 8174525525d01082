"""The site and its earlier nights, as this session knows them: read once, when first needed."""

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import reframe.core.runtime as rt

from iowatch.base.files import UserError
from iowatch.base.places import reference_folder, reference_values
from iowatch.cases.run import by_case, night_id
from iowatch.cases.verdict import State
from iowatch.measure.mounted import known_by_runs
from iowatch.night.record import SystemRecord
from iowatch.past.reframe_database import UNFINISHED
from iowatch.site import declared, references
from iowatch.site.site import NIGHT

from .suite_cases import SYSTEM

#: The night that this session belongs to; empty: nobody gave it one.
TONIGHT = os.environ.get(NIGHT, "")

#: The name under which the raw results of this session are kept.
KEPT_AS = TONIGHT or night_id(datetime.now(UTC))


@cache
def reference_file():
    """Return the reference values of the system; UserError."""
    return references.ReferenceFile(reference_values(SYSTEM.name))


def baseline_of(case):
    """Return the baseline of a case; None: it has none. UserError: the record contradicts it."""
    if why := _record().objection(case, _nights().get(case, {})):
        raise UserError(why)
    return _record().blessed.get(case)


@cache
def expected_failures():
    """Return what may fail for now; UserError."""
    return declared.read_expected(SYSTEM.name, reference_folder())


def excuse_of(case_id, verdict):
    """Return why the site expects this verdict; None if it does not, or must not. UserError."""
    if not verdict.outcome.is_regression:
        return None
    return declared.excuse(expected_failures(), case_id, datetime.now(UTC).date())


def maintenance():
    """Read anew what is announced: it may be while a session runs. UserError."""
    return declared.read_maintenance(SYSTEM.name, reference_folder())


@cache
def _record():
    """Return what is on record of the system; before the first session no runs. UserError."""
    file = Path(os.path.expandvars(rt.runtime().get_option("storage/0/sqlite_db_file")))
    return SystemRecord.load(SYSTEM.name, [file] if file.exists() else [])


@cache
def _nights():
    """Return the nights of each case, but for acceptance runs, which a contract alone judges."""
    return by_case(run for run in _record().past if not run.of_contract)


def has_run(case):
    """Return whether the check of a case has ever run at its place, well or not; UserError."""
    wanted = case.partition, case.environ, case.check
    return any(
        (run.case.partition, run.case.environ, run.case.check) == wanted
        for run in _record().past
        if not run.outcome.is_untried
    )


def has_kept(case):
    """Return whether an earlier night can have kept files of a case: it measured the case, or had
    nothing to read yet; UserError."""
    return any(
        run.case == case
        and run.night != KEPT_AS
        and (run.metrics or run.outcome.state is State.SKIPPED)
        for run in _record().past
    )


def judged_tonight(case):
    """Return the folders of the runs of a case that this night has judged; UserError."""
    tonight = [run for run in _record().past if run.case == case and run.night == TONIGHT]
    return {run.folder for run in tonight if run.result not in UNFINISHED}


def known_filesystems(place):
    """Return the filesystems that a place may be on, with their sources: those that the site names,
    or else what is on record. UserError."""
    if place.mounted:
        return dict.fromkeys(place.mounted, "")
    return known_by_runs(runs_at(place.partition))


def runs_at(partition):
    """Return all runs of a partition; UserError."""
    return [run for run in _record().past if run.case.partition == partition]


def nights_of(case):
    """Return the nights of a case before this one, oldest first, and its runs of this one so far;
    UserError."""
    nights = dict(_nights().get(case, {}))
    tonight = nights.pop(TONIGHT, []) if TONIGHT else []
    return list(nights.values()), tonight
