"""Reads of what an earlier night has kept: by other processes, mostly on other nodes, and cold."""

from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

import reframe.core.runtime as rt
from reframe.core.builtins import run_before

from iowatch import raw_results
from iowatch.job_folder import find, read_text
from iowatch.kinds.readback import KEPT, LAST, READ_CODE
from iowatch.law import id_of_round, others_in_place, verified
from iowatch.parameters import READ_EXISTING, WRITE_KEEP
from iowatch.result import InvalidResult, read_result
from iowatch.run import is_night_id
from iowatch.verdict import Reason

from . import site_record
from .base import BenchioCheck, options_of_run, phase_limit
from .parameters import in_suites
from .shell import shell
from .why_not_measured import NotMeasured, Skipped


@in_suites
class ReadBack(BenchioCheck):
    """What the last night has kept is read, and checked, before new files are written in its place.

    A file that has changed, or is gone, is named with the night that it is from. The first night
    has nothing to read: the case is skipped.
    """

    descr = "Parallel read of a single shared file that an earlier night has written"

    outputs = (*BenchioCheck.outputs, KEPT, LAST, READ_CODE)

    #: What the last night before this one has kept, :class:`Kept`.
    before = None

    @run_before("run")
    def set_nights(self):
        try:
            self.before = _night_before(self.case)
        except NotMeasured as err:
            self.end_untried(err)
        name, before = _name(self.case), self.before.night
        self.prerun_cmds += [
            shell("find_kept", NAME=name, BEFORE=before, LAST_FILE=LAST),
            'if [ -n "$LAST" ]; then',
        ]
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        options = [
            *self.case.check.command_line(self.case),
            *self.filesystem.layout_options(self.case),
            *options_of_run(
                self.filesystem, self.repeats, self.run_id, KEPT, f'"$CASE/{site_record.KEPT_AS}"'
            ),
            *phase_limit(self),
        ]
        command = [self.job.launcher.run_command(self.job), self.benchio.word, *options]
        done, days = sorted(self.before.done), self.filesystem.keep_days
        self.postrun_cmds = [
            "echo $? > read_code",
            "fi",
            "start_writing() {",
            " ".join(command),
            "}",
            shell("keep", DONE=done, NIGHT=site_record.KEPT_AS, DAYS=days),
        ]

    def benchio_options(self, repeats, result):
        return [
            f"--backend {','.join(self.case.backends)}",
            f"--operation {READ_EXISTING}",
            '--dir "$LAST"',
            f"--fs-type {','.join(self.filesystem.types)}",
            f"--run-id {id_of_round(self.run_id, result)}",
            f"--json {result}",
            *phase_limit(self),
        ]

    def verified(self):
        read = self.kept_file(LAST).read_text().strip() if self.kept_file(LAST).exists() else ""
        if read:
            measured = super().verified()
        verified(self.ended_job, KEPT, self.repeats, operations=[WRITE_KEEP])
        if not read:
            self.require_exit_code()
            self.end_without_files(self.before.night, self.before.had_read)
        if (other := measured.results[0].existing) != self.before.run_id:
            raise InvalidResult(others_in_place(self.before.night, other), Reason.CORRUPT)
        return measured

    def end_without_files(self, before, had_read):
        """Skipped on the first night of all, NotMeasured on another one; InvalidResult if it is the
        second in a row."""
        if not before:
            nothing = "nothing was kept before: the next night reads what this one has"
            untried = NotMeasured if site_record.is_on_record(self.case) else Skipped
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


def _name(case):
    """A folder's; ROMIO takes what stands before a colon for the type of a filesystem."""
    return str(case).replace("/", ",").replace(":", "@")


class Kept(NamedTuple):
    """What a case has kept in the last night before this one."""

    night: str = ""  # empty: none
    run_id: str = ""
    had_read: bool = False  # was there something to read in it?
    done: Set[str] = frozenset()  # the other nights that may have left files


def _night_before(case):
    """What a case has kept; NotMeasured if that was in a night which is later than this one."""
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
                # It is removed by this name: nothing but a night may be.
                done |= {name for name in [read.parent.name] if is_night_id(name)}
                return Kept(night, run_id, bool(read.name), done)
            if night < site_record.KEPT_AS:
                done.add(night)
    return Kept(done=done)


def _id_of(kept):
    """Of the run with this result; empty: it did not end well."""
    try:
        return read_result(kept).run["id"]
    except InvalidResult:
        return ""
