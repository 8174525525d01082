"""ReFrame's insides that checks need, and why: the next ReFrame is the work of this module.

Everything else calls what ReFrame documents; `iowatch.base.reframe_inside` has what
`src/iowatch` needs.
"""

import functools
import os
import re
import signal
import time
import warnings
from contextlib import suppress
from datetime import timedelta
from xml.etree.ElementTree import ParseError

from reframe.core import fields, variables
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import (
    JobError,
    JobSchedulerError,
    ReframeError,
    SpawnedProcessError,
    SpawnedProcessTimeout,
)
from reframe.core.schedulers import Job, local, lsf, pbs, sge, slurm
from reframe.core.schedulers.local import LocalJobScheduler
from reframe.core.warnings import ReframeDeprecationWarning, user_deprecation_warning
from reframe.utility import osext

from iowatch.base.files import UserError
from iowatch.base.reframe_inside import require_version
from iowatch.site.site import JOB_TMPDIR

from . import schedulers

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


def hear_out(job, kept=None, has_begun=bool, refuse=None):
    """Have a test go on to its sanity function if ReFrame gives up its job, which is about to run:
    what the job itself has printed tells more. :func:`why_ended` then has ReFrame's word.

    The job keeps its results in the folder `kept`, and `has_begun` tells whether it has left
    anything. `refuse` ends the test if the scheduler does not answer, with why.
    """
    job.given_up = ""
    job.kept, job.has_begun, job.refuse = kept, has_begun, refuse


# The schedulers

REFUSED_S = (2, 5, 10)  # between tries of a submission that a scheduler refuses
AWAY_S = 600  # how long a submission waits for one that does not answer, and how often it tries
ASK_AGAIN_S = 10
SETTLE_S = 60  # for a scheduler to notice that a job has ended
CANCEL_S = 60  # for all jobs of a session that is ended. Less than session.GRACE_S.

#: What a scheduler raises that does not answer, or answers something else.
_TROUBLE = (
    *(SpawnedProcessError, SpawnedProcessTimeout, JobSchedulerError, ParseError),
    *(OSError, LookupError, ValueError),
)
#: States that a scheduler of ReFrame's waits to see changed, and that mostly do not change.
_FOR_EVER = {"PREEMPTED", "REVOKED", "ERROR", "DELETING", "COMPLETED", "Error"}
#: States of a job that is queued, perhaps again: what it has kept then is of its first beginning.
_BEGINS = {"PENDING", "QUEUED", "REQUEUED", "REQUEUE_HOLD"}

_ending = None  # when this session began to cancel its jobs


def _said(err):
    """The last line of what a scheduler said as it failed."""
    text = getattr(err, "stderr", "") or getattr(err, "stdout", "") or str(err)
    return ([line.strip() for line in text.splitlines() if line.strip()] or [str(err)])[-1]


def _no_answer(words):
    return f"the scheduler does not answer: {words}"


def _poll(ask):
    def poll(self, *jobs):
        """A question that fails is asked again, with the next look."""
        self.is_asking = True
        try:
            ask(self, *jobs)
        except _TROUBLE as err:
            self.silent = _said(err)
        else:
            self.silent = ""
        finally:
            self.is_asking = False

    return poll


def _give_up(ask):
    def poll(self, *jobs):
        """Grid Engine's jobs wait for nodes no longer than they may, as those of others do."""
        ask(self, *jobs)
        for job in filter(None, jobs):
            most = job.max_pending_time
            if most and job.state == "PENDING" and time.time() - job.submit_time >= most:
                self.cancel(job)
                job._exception = JobError("maximum pending time exceeded", job.jobid)

    return poll


def _finish(has_ended):
    def finished(self, job):
        """A job has also ended that has kept its results, or is in a state that does not change,
        whatever its scheduler waits for."""
        return has_ended(self, job) or job.is_over or _is_over(self, job)

    return finished


def _is_over(scheduler, job):
    if _ending and time.monotonic() - _ending >= CANCEL_S:
        return True
    has_kept = bool(job.kept) and job.state not in _BEGINS and (job.kept / "exit_code").exists()
    if not (has_kept or (job.kept and job.state in _FOR_EVER)):
        job.over_since = None
        return False
    job.over_since = job.over_since or time.monotonic()
    if time.monotonic() - job.over_since < SETTLE_S:
        return False
    job.is_over = True
    job.fate = schedulers.fate(scheduler.registered_name, job)
    with suppress(*_TROUBLE):  # it may be queued again
        scheduler.cancel.__wrapped__(scheduler, job)
    return True


def _cancel(end):
    @functools.wraps(end)
    def cancel(self, job):
        """A session that is ended ends its jobs as far as their scheduler answers. A job that it
        cannot end does nothing once it begins. ReFrame also ends one that has waited too long."""
        global _ending
        if not self.is_asking:
            _ending = _ending or time.monotonic()
        if self.silent:
            job.was = ("", _no_answer(self.silent))
        elif job.state != "RUNNING":
            job.was = schedulers.why_waiting(self.registered_name, job)
        if job.kept:
            schedulers.mark_given_up(job.kept)
        try:
            end(self, job)
        except _TROUBLE as err:
            job.is_over, job.was = True, ("", _no_answer(_said(err)))

    return cancel


def _submit(order):
    def submit(self, job):
        """What a scheduler refuses is tried again, for as long as it does not answer at all."""
        name, waits = self.registered_name, iter(REFUSED_S)
        while True:
            try:
                order(self, job)
            except _TROUBLE as err:
                refused = err
            else:
                self.silent, self.away_since = "", None
                return
            if number := schedulers.job_in(name, job.workdir):  # it was submitted all the same
                job._jobid, job._submit_time = number, time.time()
                return
            self.silent = schedulers.silence(name)
            if self.silent:
                job.was = ("", _no_answer(_said(refused)))
                self.away_since = self.away_since or time.monotonic()
                wait = ASK_AGAIN_S
                if time.monotonic() - self.away_since > AWAY_S and job.refuse:
                    job.refuse(job.was[1])
            else:
                is_new = _said(refused) not in self.refusals
                wait = next(waits, None) if is_new else None
                # A second job would run beside one whose number cannot be read.
                if wait is None or isinstance(refused, JobSchedulerError):
                    self.refusals.add(_said(refused))
                    raise refused
            time.sleep(wait)

    return submit


def _let_bear(names):
    """Let these schedulers of ReFrame's bear what fails for a moment."""
    wrappers = {"poll": _poll, "finished": _finish, "cancel": _cancel, "submit": _submit}
    classes = {c: None for name in names for c in getscheduler(name).__mro__ if c.__mro__[1:]}
    for cls in classes:
        for name, wrapper in wrappers.items():
            method = vars(cls).get(name)
            if method and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, wrapper(method))
        cls.silent, cls.away_since, cls.refusals, cls.is_asking = "", None, set(), False


class _Cleaned:
    """What some of ReFrame's schedulers take of `osext`: answers without what stands around them,
    as a centre's greeting. An answer of squeue that failed would be taken for ended jobs."""

    def __getattr__(self, name):
        return getattr(osext, name)

    @staticmethod
    def run_command(command, *words, **how):
        done = osext.run_command(command, *words, **how)
        if "squeue" in command:
            if done.returncode and "Invalid job id" not in done.stderr:
                raise SpawnedProcessError(command, done.stdout, done.stderr, done.returncode)
            done.stdout = "".join(line for line in done.stdout.splitlines(True) if "|" in line)
        elif "-xml" in command:
            done.stdout = done.stdout[max(0, done.stdout.find("<?xml")) :]
        return done


def _number(pattern, form):
    """Return what runs a command and finds, among all that it says, the number of a job."""

    def run_strict(command, **how):
        done = osext.run_command(command, check=True, **how)
        if numbers := re.findall(pattern, f"{done.stdout}\n{done.stderr}", re.M):
            done.stdout = form.format("".join(numbers[-1]))
        return done

    return run_strict


def _emit(emit):
    def emit_preamble(self, job):
        """Grid Engine gets `access`, too, and no other shell than the script's."""
        after = [*job.options, *job.cli_options]
        access = [*job.sched_access]
        if not any(re.search(r"(^|\s)-S\s", option) for option in [*access, *after]):
            access.insert(0, "-S /bin/bash")
        lines = emit(self, job)
        first = len(lines) - len(after)
        asked = [o if o.startswith("#") else self._format_option(o) for o in access]
        return [*lines[:first], *asked, *lines[first:]]

    return emit_preamble


if not hasattr(Job, "was"):  # ReFrame may load this module more than once
    Job.kept, Job.refuse, Job.has_begun = None, None, bool
    Job.is_over, Job.over_since, Job.fate, Job.was = False, None, None, ("", "")
    sge.SgeJobScheduler.poll = _give_up(sge.SgeJobScheduler.poll)
    _let_bear(("slurm", "squeue", "pbs", "torque", "sge", "lsf", "oar"))
    slurm.osext = sge.osext = _Cleaned()
    pbs._run_strict = _number(r"^\s*(\d+(?:\[\])?(?:\.\S+)?)\s*$", "{}")
    sge._run_strict = _number(r"Your job (\d+) |^\s*(\d+)\s*$", "Your job {} ")
    lsf._run_strict = _number(r"(Job <\d+> is submitted)", "{}")
    sge.SgeJobScheduler.emit_preamble = _emit(sge.SgeJobScheduler.emit_preamble)


def fate_of(job):
    """Return what the scheduler of a job says of its end, :class:`schedulers.Fate`."""
    if job.fate is None:
        job.fate = schedulers.fate(job.scheduler.registered_name, job)
    fate = job.fate
    if fate.is_limit:
        job._state = "TIMEOUT"  # Grid Engine's backend knows no such word
    return fate


def why_left(job):
    """Return the state of a job that was cancelled as its session was ended, and the scheduler's
    reason for it; empty: it ran, or was not cancelled."""
    return job.was


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
    elif not words and state in schedulers.CUT_OFF:
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
