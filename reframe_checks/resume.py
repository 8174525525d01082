"""Jobs that a session which was killed has left: another one of the same night takes them up."""

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import reframe.core.runtime as rt

from iowatch.base.bounded import json_of
from iowatch.base.files import whole
from iowatch.past import raw_results

from . import site_record
from .reframe_4_10 import wait_on_this_machine
from .schedulers import GIVEN_UP, job_in, queue_of
from .shell import shell
from .why_not_measured import ask, has_begun, is_slurm, no_nodes

#: A job is known by the stage that it works in.
_QUEUE = "squeue -h -u \"$(id -un)\" -o '{form}'"


@dataclass(frozen=True, kw_only=True)
class LeftJob:
    """A job of this night that a session which was killed has left."""

    folder: Path  # of its raw results
    stage: str
    run_id: str
    made: datetime
    number: str  # of its job, which has not ended; empty: it has


def remember(test):
    """Write down what a test of another session has to know of the job of this one. UserError."""
    record = {
        "night": site_record.TONIGHT,
        "stage": test.stagedir,
        "run_id": test.run_id,
        "made": test.given.made.isoformat(),
        "suite": test.suite,
        "away": test.away,
        "death": test.death,
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip(),
        "up_s": _up_before_session(),
    }
    with whole(test.kept_file(raw_results.JOB_RECORD)) as temporary:
        temporary.write_text(json.dumps(record), "utf-8")


def _up_before_session():
    """Return how long this machine had been up when this process began, in seconds: whoever sets
    the clock does not change that."""
    fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")  # starttime, see proc(5)


def take_up(test):
    """Return the last job of a case in this night, and let its test run on this machine, where it
    only waits. None: no job, or nothing is known of it."""
    left_job = _find(test)
    if left_job:
        wait_on_this_machine(test)
    return left_job


def _find(test):
    prefix = Path(rt.runtime().prefix)
    for folder in raw_results.folders(prefix, site_record.KEPT_AS, test.case):
        try:
            record = json_of(folder / raw_results.JOB_RECORD)
        except (OSError, ValueError):
            continue
        # As what it was begun, so it counts.
        if (record.get("away"), record.get("death")) != (test.away, test.death):
            continue
        names = {file.name for file in folder.iterdir()}
        if str(folder) in site_record.judged_tonight(test.case):  # and still to be measured
            continue
        number, stage = "", record["stage"]
        is_left = "exit_code" in names
        if not is_left:
            # What had not ended on this machine was killed with its session.
            number = job_in(test.current_partition.scheduler.registered_name, stage)
            is_left = bool(number) or (is_slurm(test) and names != {raw_results.JOB_RECORD})
            is_left = is_left and GIVEN_UP not in names
        if is_left:
            made = datetime.fromisoformat(record["made"])
            run_id = record["run_id"]
            return LeftJob(folder=folder, stage=stage, run_id=run_id, made=made, number=number)
    return None


def wait(test, left_job):
    """Return the command that waits for the end of a job, and ends the job if it is ended."""
    if not left_job.number:
        return "true"
    queue, cancel = queue_of(test.current_partition.scheduler.registered_name)
    waits = left_job.folder.with_name(raw_results.WAITS)
    return shell("wait", JOB=left_job.number, QUEUE=queue, CANCEL=cancel, WAITS=waits)


def waited_for(test, left_job):
    """Say what the job that was taken up was waiting for when it was cancelled; empty if it had
    begun, or nobody knows."""
    if not is_slurm(test) or has_begun(test, left_job.stage):
        return ""
    lines = ask("sh", "-c", _QUEUE.format(form="%i|%r|%N|%Z") + " --states=all")
    for number, reason, nodes, stage in (line.split("|", 3) for line in lines):
        if stage == left_job.stage and not nodes:
            return no_nodes(f"job {number}", reason)
    return ""
