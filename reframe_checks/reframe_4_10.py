"""ReFrame's insides that checks need, and why: the next ReFrame is the work of this module.

Everything else calls what ReFrame documents; `iowatch.reframe_inside` has what `src/iowatch` needs.
"""

import os
import re
import signal
import time
import warnings
from datetime import timedelta

from reframe.core import fields, variables
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import JobError, ReframeError
from reframe.core.schedulers import Job, local
from reframe.core.schedulers.local import LocalJobScheduler
from reframe.core.warnings import ReframeDeprecationWarning, user_deprecation_warning

from iowatch.files import UserError
from iowatch.reframe_inside import require_version
from iowatch.site import JOB_TMPDIR

try:
    require_version()
except UserError as err:  # with an error, ReFrame would skip the checks and end with 0
    raise SystemExit(f"error: {err}") from None

# By itself, ReFrame kills a cancelled job of this machine after 2 s. mpirun takes as long to end
# its ranks, and only then does the job remove what they wrote. Less than session.GRACE_S.
LocalJobScheduler.CANCEL_GRACE_PERIOD = 30


class SteadyTime:
    """What ReFrame's jobs of this machine take of `time`: seconds since 1970, as if nobody had set
    the clock since this process began. One that was set forward would end all of them."""

    sleep = staticmethod(time.sleep)
    _began = time.time() - time.monotonic()

    @classmethod
    def time(cls):
        return cls._began + time.monotonic()


local.time = SteadyTime


def warn_if_heard(*words):
    """Warn of a deprecated variable as ReFrame does, unless such warnings are suppressed."""
    # ReFrame itself first reads its whole call stack, for every test and every line that it logs of
    # one: half of a night's own time.
    action, category = next(((entry[0], entry[2]) for entry in warnings.filters), ("", None))
    if (action, category) != ("ignore", ReframeDeprecationWarning):
        user_deprecation_warning(*words)


fields.user_deprecation_warning = variables.user_deprecation_warning = warn_if_heard

# ReFrame puts this process's TMPDIR into every job. TMPDIR is ReFrame's own if iowatch started it,
# and on no other machine: jobs get the user's.
if JOB_TMPDIR in os.environ:
    os.environ.pop("TMPDIR", None)
    if users := os.environ.pop(JOB_TMPDIR):
        os.environ["TMPDIR"] = users


_finished = Job.finished


def finished(job):
    """Return whether a job has ended, also one of :func:`hear_out` that ReFrame has given up."""
    try:
        return _finished(job)
    except JobError as err:
        if not hasattr(job, "given_up"):
            raise
        job.given_up = re.sub(r"^\[jobid=\S*\] ", "", str(err))
        return True


Job.finished = finished


def hear_out(job):
    """Have a test go on to its sanity function if ReFrame gives up its job, which is about to run:
    what the job itself has printed tells more. :func:`why_ended` then has ReFrame's word."""
    job.given_up = ""


#: States of a job, in the words of schedulers and ReFrame, that somebody else has put an end to.
_CUT_OFF = {
    *("TIMEOUT", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED"),
    "CANCELLED",
}


def is_timed_out(job):
    """Return whether a job was ended because its time was over."""
    return job.state == "TIMEOUT"


def why_ended(job):
    """Return the word of ReFrame or the scheduler on a job that was cut off; empty: it was not."""
    state = re.split(r"[ ,+]", job.state or "", maxsplit=1)[0]
    killed = getattr(job, "signal", None)  # of this machine
    words = job.given_up
    if is_timed_out(job):
        words = f"its job was ended at its time limit of {timedelta(seconds=job.time_limit or 0)}"
        late_s = (job.completion_time or 0) - job.submit_time - (job.time_limit or 0)
        if job.given_up and late_s > LocalJobScheduler.CANCEL_GRACE_PERIOD:
            words += f", and its processes could not be killed until {late_s:.0f} s later"
    elif not words and state in _CUT_OFF:
        words = f"the scheduler ended its job as {state}"
    elif not words and killed:
        words = f"its job script was ended by {signal.Signals(killed).name}"
    return words


def wait_on_this_machine(test):
    """Give a test, after its setup, another job: one of this machine. ReFrame chooses the scheduler
    of a job by the partition, before a test can say that its job is there already."""
    test.local = True
    test._job = Job.create(
        getscheduler("local")(),
        getlauncher("local")(),
        name=test.job.name,
        script_filename=test.job.script_filename,
        workdir=test.stagedir,
    )


#: States of a node that Slurm could give to a job at once, IDLE among them.
_IDLE = {"IDLE", "RESERVED", "PLANNED"}


def idle_nodes(job):
    """Return the names of the idle nodes that Slurm could give to a job; None: it does not say.
    ReFrame asks so for a test that wants all idle nodes."""
    try:
        nodes = job.scheduler.filternodes(job, job.scheduler.allnodes())
    except ReframeError:
        return None
    return {node.name for node in nodes if "IDLE" in node.states <= _IDLE}


def log_bounds(test, references, failed, result):
    """Give report and database the bounds that iowatch judged the metrics of a test by, and the
    result `fail` or `xfail` of those that failed. ReFrame would have to judge them itself."""
    for key, entry in test.perfvalues.items():
        name = key.rsplit(":", 1)[-1]
        if reference := references.get(name):
            entry[1:4] = [reference.value, reference.lower_threshold, reference.upper_threshold]
        if name in failed:
            entry[-1] = result
