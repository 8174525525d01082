"""ReFrame's insides that checks need, and why: the next ReFrame is the work of this module.

Everything else calls what ReFrame documents; `iowatch.reframe_inside` has what `src/iowatch` needs.
"""

import os
import time
import warnings

from reframe.core import fields, variables
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import ReframeError
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
