"""Where a job writes: a directory of its own on the filesystem, which nobody else can replace."""

from .shell import shell

MARK = ".iowatch"  # the file that says that a directory is one of ours
EVIDENCE = ".iowatch.evidence"  # the same of one that has files with wrong data
WRONG_DATA = "wrong_data.txt"  # the file that benchio leaves beside these
LOCK = ".iowatch.lock"  # the file that the job which is writing there holds locked
LOCK_S = 300  # for another account's job to end: nodes wait meanwhile
BUSY = "busy"  # the file that a job leaves which has waited in vain
NO_QUOTA = "no_quota"  # the file that a job leaves if its quota has no room for it


def commands(path, kib, keep_days, takes_turns=False):
    """Return the shell that gives a job `RUNDIR` below `path`, with room for so many KiB, until the
    job ends; a job that takes turns is alone there, whoever else runs iowatch. Files with wrong
    data stay for so many days."""
    names = {"MARK": MARK, "LOCK": LOCK, "LOCK_S": LOCK_S, "BUSY": BUSY, "NO_QUOTA": NO_QUOTA}
    names |= {"EVIDENCE": EVIDENCE, "WRONG_DATA": WRONG_DATA, "KEEP_DAYS": keep_days}
    turns = "yes" if takes_turns else ""
    return [shell("run_directory", WHERE=path, KIB=kib, TAKES_TURNS=turns, **names)]
