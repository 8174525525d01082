"""Jobs that a session which was killed has left: another one of the same night takes them up."""

import json
import os
from datetime import datetime
from pathlib import Path

import reframe.core.runtime as rt

from iowatch import raw_results
from iowatch.files import whole

from . import site_record
from .reframe_4_10 import wait_on_this_machine
from .shell import shell
from .why_not_measured import SLURM, ask, has_begun, no_nodes

#: Slurm knows a job by the stage that it works in; elsewhere only what has ended is taken up.
_QUEUE = "squeue -h -u \"$(id -un)\" -o '{form}'"


def remember(test):
    """Write down what a test of another session has to know of the job of this one. UserError."""
    record = {
        "night": site_record.TONIGHT,
        "stage": test.stagedir,
        "run_id": test.run_id,
        "made": test.made.isoformat(),
        "suite": test.suite,
        "away": test.away,
        "death": test.death,
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "up_s": _up_before_session(),
    }
    with whole(test.kept_file(raw_results.JOB_RECORD)) as temporary:
        temporary.write_text(json.dumps(record))


def _up_before_session():
    """How long this machine had been up when this process began, in seconds: whoever sets its clock
    does not change that."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")  # starttime, see proc(5)


def find(test):
    """The folder of the last run of a case in this night, and the record of its job; None: it never
    had one, or nothing is known of it."""
    prefix = Path(rt.runtime().prefix)
    for folder in raw_results.folders(prefix, site_record.KEPT_AS, test.case):
        try:
            record = json.loads((folder / raw_results.JOB_RECORD).read_text())
        except (OSError, ValueError):
            continue
        # As what it was begun, so it counts.
        if (record.get("away"), record.get("death")) != (test.away, test.death):
            continue
        record["made"] = datetime.fromisoformat(record["made"])
        names = {file.name for file in folder.iterdir()}
        if not _is_slurm(test):  # what had not ended then was killed with its session
            is_left = "exit_code" in names
        else:
            queue = ask("sh", "-c", _QUEUE.format(form="%Z"))
            is_left = names != {raw_results.JOB_RECORD} or record["stage"] in queue
        if is_left:
            return folder, record
    return None


def _is_slurm(test):
    return test.current_partition.scheduler.registered_name in SLURM


def take_up(test):
    """Let a test whose job was left run on this machine, where it only waits."""
    wait_on_this_machine(test)


def wait(test, record):
    """The command that waits for the end of a job, and ends it if it is ended itself."""
    if not _is_slurm(test):
        return "true"
    waits = Path(test.kept).with_name(raw_results.WAITS)
    return shell("wait", STAGE=record["stage"], WAITS=waits)


def waited_for(test, record):
    """What the job that was taken up was waiting for when it was cancelled; empty if it had begun,
    or nobody knows."""
    if not _is_slurm(test) or has_begun(test, record["stage"]):
        return ""
    lines = ask("sh", "-c", _QUEUE.format(form="%i|%r|%N|%Z") + " --states=all")
    for number, reason, nodes, stage in (line.split("|", 3) for line in lines):
        if stage == record["stage"] and not nodes:
            return no_nodes(f"job {number}", reason)
    return ""
