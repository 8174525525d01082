"""Why a case is not to be measured now, or was not: none of it is a fault of what it measures."""

import re
import shlex
import time
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import reframe.core.runtime as rt

from iowatch.base.commands import run
from iowatch.base.files import no_room
from iowatch.cases.verdict import Reason
from iowatch.past.raw_results import JOB_RECORD

from . import site_record
from .outcome import NotMeasured
from .reframe_4_10 import fate_of, why_left
from .reframe_4_10 import hear_out as let_hear_out
from .run_directory import BUSY, NO_QUOTA
from .schedulers import GIVEN_UP, SLURM, had_no_answer
from .scripts import STARTED

#: What a job gives as its reason that was ended from outside, benchio on SIGTERM among them: it
#: says nothing of the storage.
NO_EVIDENCE = (Reason.NO_OUTPUT, Reason.LAUNCHER, Reason.JOB_FAILED, Reason.TIME_LIMIT)

ASK_S = 60  # for the batch system to answer


def is_slurm(test):
    return test.current_partition.scheduler.registered_name in SLURM


def is_here(test, filesystem):
    """Return whether no scheduler gives the job of a test its nodes."""
    is_local = test.current_partition.scheduler.registered_name == "local"
    return is_local and not filesystem.allocation


def maintenance(filesystem, first, last):
    """Say what was announced for some of this time; empty if nothing was. UserError."""
    for entry in site_record.maintenance():
        if entry.covers(filesystem, first, last):
            return f"{filesystem} is not there: {entry}"
    return ""


def reservation(job, end):
    """Say for which maintenance Slurm has reserved all nodes of a job, now or before the job could
    end. Empty: none, or Slurm does not say."""
    if job.scheduler.registered_name not in SLURM:
        return ""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--reservation")
    parser.add_argument("-p", "--partition")
    options = [*job.sched_access, *job.options, *job.cli_options]
    given, _ = parser.parse_known_args([word for text in options for word in shlex.split(text)])
    if given.reservation:  # which may be that of the maintenance
        return ""
    partitions = [line for line in scontrol("partition") if _is_asked(line, given.partition)]
    nodes = {node for line in partitions for node in _hosts(line)}
    for line in scontrol("reservation"):
        if "MAINT" not in field(line, "Flags").split(",") or not nodes or not nodes <= _hosts(line):
            continue
        times = (int(field(line, name)) for name in ("StartTime", "EndTime"))
        begins, ends = (datetime.fromtimestamp(seconds, UTC) for seconds in times)
        if begins < end:
            names = ", ".join(field(line, "PartitionName") for line in partitions)
            return (
                f"all nodes of {names} are reserved for maintenance from {begins:%Y-%m-%d %H:%M} "
                f"to {ends:%Y-%m-%d %H:%M} UTC (reservation {field(line, 'ReservationName')})"
            )
    return ""


def _is_asked(line, names):
    if names:
        return field(line, "PartitionName") in names.split(",")
    return field(line, "Default") == "YES"


def _hosts(line):
    return set(ask("scontrol", "show", "hostnames", field(line, "Nodes")))


def scontrol(entity):
    """Return a line of Slurm's on each of these; times are seconds since 1970."""
    return ask("scontrol", "--all", "--oneliner", "show", entity)


def ask(*command):
    """Return the lines that a command prints; none if it fails."""
    return answer(*command) or []


def answer(*command):
    """Return the lines that a command prints; None if it fails, or does not answer in time."""
    done = run(*command, timeout_s=ASK_S, SLURM_TIME_FORMAT="%s")
    return None if done.trouble else done.text.splitlines()


def field(line, name):
    value = re.search(rf"(?:^|\s){name}=(\S+)", line)
    return value[1] if value else ""


def waited_for(test):
    """Say what the job of a test was waiting for when it was cancelled; empty if it ran, or nobody
    knows. Both the batch system and the job's files must say so."""
    job = test.job
    if not job or test.is_local():
        return ""
    state, reason = why_left(job)
    if not job.submit_time:
        return reason
    if not job.finished():
        return ""
    if job.nodelist or has_begun(test, test.stagedir):
        if not state and not reason:
            return ""
        return f"job {job.jobid} was {': '.join(filter(None, (state or 'not over', reason)))}"
    lines = scontrol(f"job={job.jobid}") if job.scheduler.registered_name in SLURM else []
    known, nodes = (field(lines[0], name) if lines else "" for name in ("Reason", "NodeList"))
    # `squeue` has not seen the nodes of a job that ended between two looks at it.
    return no_nodes(f"job {job.jobid}", reason or known) if nodes in ("", "(null)") else ""


def hear_out(test):
    """Let the job of a test be judged by what it leaves, whatever ReFrame says of it. One that the
    scheduler does not take, as it does not answer, ends the test."""

    def refuse(why):
        test.end_untried(NotMeasured(why, Reason.SCHEDULER))

    let_hear_out(test.job, Path(test.kept), partial(has_begun, test, test.stagedir), refuse)


def left_nothing(test, why):
    """Say why a job has left nothing, or not all, and what to look at; empty: it is not known, and
    `why` is the exception for that."""
    job, full = test.job, no_room(Path(test.kept), Path(test.stagedir))
    if full and why.reason is Reason.NO_OUTPUT:
        return f"{full}: make some; {why}"
    if test.is_local() or not job.submit_time or has_begun(test, test.stagedir):
        return ""
    nodes = f", on {','.join(job.nodelist)}," if job.nodelist else ""
    prefix = rt.runtime().prefix
    return (
        f"job {job.jobid}{nodes} has left nothing in {prefix}, not even what it prints: its nodes "
        "must see that folder, which RFM_PREFIX names"
    )


def has_begun(test, stage):
    """Return whether the job with this stage has left anything behind."""
    traces = [Path(stage, str(name)) for name in (test.stdout, test.stderr)]
    others = (JOB_RECORD, GIVEN_UP)
    traces += [file for file in Path(test.kept).glob("*") if file.name not in others]
    return any(file.exists() for file in traces)


def no_nodes(job, reason):
    """Say that this job was still waiting, and Slurm's word for what."""
    return f"{job} had no nodes yet{f' ({reason})' if reason else ''}".replace("_", " ")


def why_not_started(test):
    """Return the NotMeasured of a job that ended before benchio could start; None: benchio did
    start, or nobody knows why not."""
    if any(test.kept_file(name).exists() for name in (STARTED, "exit_code")):
        return None
    for name, reason in ((BUSY, Reason.PLACE_BUSY), (NO_QUOTA, Reason.QUOTA)):
        if (sentence := test.kept_file(name)).exists():
            return NotMeasured(sentence.read_text("utf-8").strip(), reason)
    if waiting := waited_for(test):
        most = test.job.max_pending_time
        if most and time.time() - test.job.submit_time >= most:
            why = f"its job was still queued after {timedelta(seconds=most)}: {waiting}"
            return NotMeasured(why, Reason.QUEUED)
        if test.job.state == "CANCELLED":
            return NotMeasured(f"its job was cancelled in the queue: {waiting}", Reason.QUEUED)
    announced = maintenance(test.filesystem_name, test.given.made, datetime.now(UTC))
    return NotMeasured(announced, Reason.MAINTENANCE) if announced else None


def why_not_ended(test, why):
    """Return the NotMeasured of a job that somebody has kept from its end; None: nobody did, or the
    job itself has given another reason, as the exception `why` has it."""
    if known := why_not_started(test):
        return known
    if why.reason not in NO_EVIDENCE:
        return None
    if had_no_answer(str(why)):
        return NotMeasured(f"the scheduler did not answer its job: {why}", Reason.SCHEDULER)
    fate = fate_of(test.job)
    return NotMeasured(fate.words, Reason.SCHEDULER) if fate.is_outside else None
