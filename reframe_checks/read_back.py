"""Reads of what an earlier night has kept: by other processes, mostly on other nodes, and cold."""

from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

import reframe.core.runtime as rt

from iowatch.cases.parameters import WRITE_KEEP
from iowatch.cases.run import is_night_id
from iowatch.cases.verdict import Reason
from iowatch.measure.job_folder import find, read_text
from iowatch.measure.kinds.readback import KEPT, LAST
from iowatch.measure.law import others_in_place, verified
from iowatch.measure.result import InvalidResult, read_result
from iowatch.past import raw_results

from . import scripts, site_record
from .base import CaseCheck
from .outcome import NotMeasured, Skipped
from .suite_cases import in_suites


@in_suites
class ReadBack(CaseCheck):
    """The shared files that the last night has kept are read and checked, and new ones are kept.

    A file that has changed, or is gone, is named with the night that it is from. The first night
    that runs has nothing to read: the case is skipped.
    """

    #: The kept files of the last night before this one, :class:`Kept`; from run on.
    before = None

    def script(self, plan):
        self.before = _night_before(self.case)
        return scripts.reading_back(plan, site_record.KEPT_AS, self.before.night, self.before.done)

    def measure(self):
        last = self.kept_file(LAST)
        is_read = last.exists() and last.read_text("utf-8").strip()
        if is_read:
            measured = super().measure()
        verified(self.given, KEPT, self.repeats, operations=[WRITE_KEEP])
        if not is_read:
            self.end_without_files(self.before.night, self.before.had_read)
        if (other := measured.results[0].existing) != self.before.run_id:
            raise InvalidResult(others_in_place(self.before.night, other), Reason.CORRUPT)
        return measured

    def end_without_files(self, before, had_read):
        """Raise Skipped on the first night of all, NotMeasured on another one; InvalidResult on the
        second in a row."""
        if not before:
            nothing = "nothing was kept before: the next night reads what this one has"
            untried = NotMeasured if site_record.has_kept(self.case) else Skipped
            raise untried(nothing, Reason.NOTHING_KEPT)
        gone = f"what {before} kept below {self.filesystem.path} is gone"
        if had_read:
            raise NotMeasured(
                f"{gone}: has somebody cleaned the filesystem? The next night reads what this one "
                "has kept",
                Reason.FILES_GONE,
            )
        raise InvalidResult(
            f"{gone}, and the night before there was nothing either: exempt kept.* there from what "
            "cleans the filesystem, or take ReadBack out of the site's suites",
            Reason.FILES_GONE,
        )


class Kept(NamedTuple):
    """Files that a case has kept in the last night before this one."""

    night: str = ""  # empty: none
    run_id: str = ""
    had_read: bool = False  # was there something to read in that night?
    done: Set[str] = frozenset()  # the other nights that may have left files


def _night_before(case):
    """Return what a case has kept; NotMeasured if that was in a night later than this one."""
    prefix, done = Path(rt.runtime().prefix), {site_record.KEPT_AS}
    folders = (prefix / raw_results.FOLDER).glob("*")
    nights = sorted((folder.name for folder in folders if is_night_id(folder.name)), reverse=True)
    for night in nights:
        for folder in raw_results.folders(prefix, night, case):
            kept, last = find(folder, KEPT), find(folder, LAST)
            run_id = _id_of(kept) if kept and last else ""
            if night > site_record.KEPT_AS and run_id:
                raise NotMeasured(
                    f"{night} has kept files and is later than this night, {site_record.KEPT_AS}: "
                    f"set the clock right, or, if it was wrong then, remove {folder.parent}",
                    Reason.WRONG_CLOCK,
                )
            if night < site_record.KEPT_AS and run_id:
                read = Path(read_text(last).strip())
                # The name decides what is removed: it has to be a night.
                done |= {name for name in [read.parent.name] if is_night_id(name)}
                return Kept(night, run_id, bool(read.name), done)
            if night < site_record.KEPT_AS:
                done.add(night)
    return Kept(done=done)


def _id_of(kept):
    """Return the id of the run with this result; empty: the run did not end well."""
    try:
        return read_result(kept).run["id"]
    except InvalidResult:
        return ""
