"""What a scheduler says itself: whether it answers, which job works in a folder, and what became of
a job. Schedulers go by ReFrame's names."""

import os
import pwd
import re
import time
from contextlib import suppress
from dataclasses import dataclass

from iowatch.base.commands import run

ASK_S = 20  # for a scheduler to answer; one that is busy is asked again
WRITES_S = 30  # for Grid Engine to write what became of a job

SLURM = ("slurm", "squeue")

#: What each of them answers as long as it is there.
_QUESTIONS = {
    **dict.fromkeys(SLURM, ("squeue", "-h", "-u", str(os.geteuid()))),
    **dict.fromkeys(("pbs", "torque"), ("qstat", "-B")),
    "sge": ("qstat",),
    "lsf": ("lsid",),
    "oar": ("oarstat",),
}

#: Slurm's words for jobs that no fault of what they measured has ended, or keeps from ending.
_OUTSIDE = {
    *("CANCELLED", "PREEMPTED", "REVOKED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED"),
    *("SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
}
#: Those that somebody else has put an end to.
CUT_OFF = _OUTSIDE | {"TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"}
#: What commands in a job say if its scheduler does not answer them.
_NO_ANSWER = re.compile(
    r"contact slurm controller|Socket timed out on send/recv|Zero Bytes were transmitted|"
    r"commlib error|(contact|message to) qmaster|cannot connect to server"
)


@dataclass(frozen=True)
class Fate:
    """What became of a job, in the words of its scheduler; none: it ended by itself."""

    words: str = ""
    is_outside: bool = False  # no fault of what the job measured
    is_limit: bool = False  # its time was over


def silence(name):
    """Return why a scheduler does not answer; empty: it does, or is none that can be asked."""
    question = _QUESTIONS.get(name)
    return run(*question, timeout_s=ASK_S).trouble if question else ""


def had_no_answer(errors):
    """Return whether a job has ended by these words as its scheduler did not answer it."""
    return bool(_NO_ANSWER.search(errors))


def queue_of(name):
    """Return the commands that print the jobs of this user, the number first, and that end one."""
    if name == "sge":
        return ["qstat"], "qdel"
    return ["squeue", "-h", "-u", str(os.geteuid()), "-o", "%i"], "scancel"


def job_in(name, folder):
    """Return the number of the queued or running job that works in a folder; empty: there is none,
    or nobody knows."""
    if name in SLURM:
        lines = _lines("squeue", "-h", "-u", str(os.geteuid()), "-o", "%i %Z")
        jobs = (line.split(maxsplit=1) for line in lines)
        places = {place[0]: number for number, *place in jobs if place}
    elif name == "sge":
        lines = _lines("qstat", "-u", pwd.getpwuid(os.geteuid()).pw_name)
        numbers = [line.split()[0] for line in lines if re.match(r"\s*\d+ ", line)]
        told = "\n".join(_lines("qstat", "-j", ",".join(numbers))) if numbers else ""
        pairs = re.findall(r"^job_number:\s+(\d+)$.*?^cwd:\s+(\S+)$", told, re.M | re.S)
        places = {place: number for number, place in pairs}
    else:
        return ""
    real = os.path.realpath(folder)
    return next((places[place] for place in places if os.path.realpath(place) == real), "")


def why_waiting(name, job):
    """Return the state of a job that has not ended and the scheduler's reason for it."""
    if name in SLURM:
        line = next(iter(_lines("scontrol", "--oneliner", "show", f"job={job.jobid}")), "")
        fields = dict(re.findall(r"(?:^|\s)(JobState|Reason)=(\S+)", line))
        return fields.get("JobState", ""), fields.get("Reason", "").replace("None", "")
    if name == "sge":
        told = "\n".join(_lines("qstat", "-j", job.jobid))
        error = re.search(r"^error reason +\d+: +(.+)$", told, re.M)
        more = re.search(r"^scheduling info: +(.+)$", told, re.M)
        reason = error or more
        # The time, and numbers of users and processes, stand before what is said.
        return job.state or "", re.sub(r"^.*\]: (error: )?", "", reason[1]) if reason else ""
    return job.state or "", ""


def fate(name, job):
    """Return what a scheduler says of a job that has ended, or that it ends no more."""
    if name in SLURM:
        return _fate_under_slurm(job)
    if name == "sge":
        return _fate_under_grid_engine(job)
    return Fate()


def _fate_under_slurm(job):
    # By accounting, with who has cancelled it, or by the controller, which knows for some minutes.
    told = _lines("sacct", "-nXP", "-j", job.jobid, "-o", "state")
    told += [why_waiting("slurm", job)[0], job.state or ""]
    state = next((line for line in told if line.partition(" by ")[0] in CUT_OFF), "")
    word, _, by = state.partition(" by ")
    if not state:
        return Fate()
    if by.isdigit():
        try:
            state = f"{word} by {pwd.getpwuid(int(by)).pw_name}"
        except KeyError:
            state = f"{word} by user {by}"
    on = f" on {','.join(job.nodelist)}" if word.endswith("_FAIL") and job.nodelist else ""
    words = f"the scheduler ended its job {job.jobid} as {state}{on}"
    return Fate(words, word in _OUTSIDE, word == "TIMEOUT")


def _fate_under_grid_engine(job):
    if job.state in ("ERROR", "DELETING"):
        reason = why_waiting("sge", job)[1]
        state = f"{job.state} ({reason})" if reason else job.state
        return Fate(f"job {job.jobid} is in the state {state}", True)
    end, record = time.monotonic() + WRITES_S, ""
    while time.monotonic() < end:
        # It says something else as long as no job at all has ended.
        text = run("qacct", "-j", job.jobid, timeout_s=ASK_S).text
        record = text if "exit_status" in text else ""
        if record or not job.has_begun():
            break
        time.sleep(2)
    if not record:
        if silence("sge") or job.has_begun():
            return Fate()
        return Fate(f"job {job.jobid} was deleted in the queue, and has never run", True)
    told = dict(re.findall(r"^(failed|exit_status) +(\S.*?) *$", record, re.M))
    code, _, words = (text.strip() for text in told.get("failed", "0").partition(":"))
    ended = told.get("exit_status", "0").split()
    if code == "37":
        return Fate(f"the scheduler ended its job {job.jobid}: {words}", False, True)
    if code == "100" and ended[0] in ("137", "143"):  # 128 and a signal
        by = f"{words}, exit status {' '.join(ended)}"
        return Fate(f"job {job.jobid} was deleted, or killed by its node: {by}", True)
    return (
        Fate(f"the scheduler ended its job {job.jobid}: {words}", True) if code != "0" else Fate()
    )


def _lines(*command):
    done = run(*command, timeout_s=ASK_S)
    return [] if done.trouble else done.text.splitlines()


def mark_given_up(folder):
    """Leave word for a job that may begin when nobody waits for it any more."""
    with suppress(OSError):
        (folder / GIVEN_UP).touch()


#: Among the raw results: a job that meets this does nothing.
GIVEN_UP = "given_up"
