"""The nodes of jobs: each asks for its own, or all cases of a filesystem have one allocation.

Where a site chooses that, ReFrame's jobs run on the login node, one after the other, and their
steps in the allocation of Slurm's.
"""

import atexit
import os
import shlex
import subprocess
from math import ceil
from pathlib import Path

import reframe.core.runtime as rt

from iowatch.base.text import counted
from iowatch.cases.verdict import Reason

from . import site_record
from .outcome import NotMeasured
from .shell import shell
from .why_not_measured import answer, field, is_slurm, no_nodes, scontrol

FOLDER = "allocations"
#: The time limit of a script that only waits: what it waits for has its own.
WAITS = "30d"
GRANTED = "granted"  # a case leaves it among its raw results once the allocation has its nodes

#: Slurm's variables that are of no single job.
_OF_ALL = ("SLURM_CONF", "SLURM_MPI_TYPE")

#: Number, state and time left of each job of this user. squeue fails for a job that has ended, if
#: asked for it by its number.
_QUEUE = "squeue -h -u \"$(id -un)\" -o '%A %T %L'"

#: The folders of those that this session has used.
_joined = set()


def folder_of(filesystem):
    """Return the folder of what is known of the allocation; another session has another one."""
    return Path(rt.runtime().prefix, FOLDER, f"{site_record.KEPT_AS},{filesystem.partition}")


def number_of(filesystem):
    """Return the number of the allocation's job; empty: nobody has asked for it yet."""
    try:
        return (folder_of(filesystem) / "job").read_text("utf-8").strip()
    except OSError:
        return ""


def require_place(test):
    """End a test whose partition cannot have an allocation. NotMeasured if the allocation is there
    and has less time left than the case may take."""
    partition, limit = test.current_partition, test.job.time_limit
    if not (
        test.is_local()
        and limit
        and partition.launcher_type.registered_name == "srun"
        and partition.max_jobs == 1
    ):
        test.end_failed(
            "'allocation' in the partition's extras needs the scheduler 'local', the launcher "
            "'srun', 1 as 'max_jobs' and a 'time_limit': mend it in the site's configuration",
            Reason.CONFIGURATION,
        )
    job, folder = number_of(test.filesystem), folder_of(test.filesystem)
    queue = answer("sh", "-c", _QUEUE) if job else None
    if queue is None:  # nobody has asked yet, or the case's script waits until it is known
        return
    jobs = {number: (state, left) for number, state, left in (line.split() for line in queue)}
    state, left = jobs.get(job, ("", ""))
    why = ""
    if state in ("", "COMPLETING"):
        why = "had ended before its turn"
    elif state == "RUNNING" and _seconds(left) < limit:
        minutes = counted(ceil(limit / 60), "minute")
        why = f"had {left} left at its turn, and it may take {minutes}"
    if why and folder in _joined:
        why = f"the allocation of its filesystem, job {job}, {why}"
        raise NotMeasured(why, Reason.NO_TIME_LEFT)
    if why:  # that of a session which was killed: there will be another one
        _release(folder)


def _seconds(text):
    """Return the seconds in Slurm's [days-][hours:]minutes:seconds; 0: nobody knows."""
    days, _, rest = text.rpartition("-")
    seconds = 0
    for part in rest.split(":"):
        if not part.isdigit():
            return 0 if text != "UNLIMITED" else float("inf")
        seconds = 60 * seconds + int(part)
    return seconds + 86400 * int(days or 0)


def join_for(test):
    """Let a test's tasks run in the allocation, and return the commands with which its script gets
    there. The allocation is large enough for every case of the suite."""
    limit = test.job.time_limit
    suite = test.filesystem.suites[test.suite]
    settings = [setting for values in suite.values() for setting in values]
    nodes = max(setting.nodes for setting in settings)
    per_node = max(setting.ranks_per_node for setting in settings)
    tasks, tasks_per_node = test.num_tasks, test.num_tasks_per_node or 1
    test.job.launcher.options += [
        f"--time={ceil(limit / 60)}",
        f"--nodes={ceil(tasks / tasks_per_node)}",
        f"--ntasks={tasks}",
        f"--ntasks-per-node={tasks_per_node}",
    ]
    return join(test, nodes, per_node, limit)


def join(test, nodes, per_node, seconds):
    """Return the commands by which the script of a test of so many seconds gets into the
    allocation. The first script asks for so many nodes, and ranks on each."""
    filesystem = test.filesystem
    options = [
        *test.current_partition.access,
        f"--job-name=iowatch_{filesystem.name}",
        "--dependency=singleton",
        f"--nodes={nodes}",
        f"--ntasks-per-node={per_node}",
        f"--time={filesystem.allocation}",
        "--output=/dev/null",
    ]
    folder = folder_of(filesystem)
    _joined.add(folder)
    atexit.register(_release, folder)
    # iowatch may itself be a job, as of scrontab: what Slurm has told that one is not for these.
    slurms = [name for name in os.environ if name.startswith("SLURM_") and name not in _OF_ALL]
    return [
        *([shlex.join(["unset", *slurms])] if "SLURM_JOB_ID" in slurms else []),
        shell(
            "allocation",
            ALLOCATION=folder,
            ASKED=options,
            MINUTES=ceil(seconds / 60) + 5,
            QUEUE=_QUEUE,
            GRANTED=Path(test.kept, GRANTED),
        ),
    ]


def _release(folder):
    job = folder / "job"
    if job.exists():
        subprocess.run(["scancel", job.read_text("utf-8").strip() or "0"], capture_output=True)
        job.unlink()


def waited_for(test):
    """Say what the allocation was waiting for when the script of a test was ended; empty: it had
    nodes, or nobody had asked."""
    job = number_of(test.filesystem)
    if not job or test.kept_file(GRANTED).exists():
        return ""
    lines = scontrol(f"job={job}")
    return no_nodes(f"the allocation, job {job},", field(lines[0], "Reason") if lines else "")


def ask_for_nodes(test, case, filesystem, ranks_per_node):
    """Ask the scheduler for the ranks of a case, in no other job's company on its filesystem."""
    test.extra_resources = filesystem.resources(case.ranks or 1)
    if not case.ranks:  # the versions of libraries need none
        return
    test.num_tasks = case.ranks
    if test.current_partition.scheduler.registered_name == "lsf":
        # ReFrame would turn it into `bsub -nnodes`, which only some LSF know.
        test.job.options += [f'-R "span[ptile={ranks_per_node}]"']
    else:
        test.num_tasks_per_node = ranks_per_node
    # max_jobs of the partition holds within one session, this also across a user's sessions.
    if is_slurm(test) and not case.check.by_hour:  # a canary waits for nobody
        name = f"iowatch_{filesystem.name}"
        test.job.options += [f"--job-name={name}", "--dependency=singleton"]


def is_alone(test, filesystem):
    """Return whether all jobs on a filesystem are ours, one after the other (`max_jobs`)."""
    return test.is_local() and not filesystem.allocation
