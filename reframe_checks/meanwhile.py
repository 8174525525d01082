"""What a job notes of others before and after it measures: `iowatch.circumstances` reads it."""

from iowatch.circumstances import AFTER, BEFORE, UNFINISHED
from iowatch.site import LUSTRE

from .not_now import SLURM
from .shell import shell

ANSWER_S = 4  # for a source, and 1 more to be killed

FILES = "circumstances.*"  # what a job leaves in its stage; a pattern of the shell


def commands(test):
    """The commands that give the shell `note`, and note what is there before; they need the shell's
    `PLACE`, a directory of the filesystem. None where nobody can be asked."""
    filesystem, sources = test.filesystem, _sources(test)
    if not sources:
        return []
    # In an allocation the script itself runs on the login node, which is another client.
    step = "srun --overlap --nodes=1 --ntasks=1" if filesystem.allocation else ""
    note = shell("context", ANSWER_S=ANSWER_S, UNFINISHED=UNFINISHED, STEP=step)
    return [note, _note(BEFORE, sources)]


def afterwards(test):
    """The commands that note the same again."""
    sources = _sources(test)
    return [_note(AFTER, sources)] if sources else []


def _sources(test):
    """Who can be asked, by their names in `iowatch.circumstances`."""
    filesystem, scheduler = test.filesystem, test.current_partition.scheduler
    is_slurm = scheduler.registered_name in SLURM or filesystem.allocation
    sources = ["slurm"] if is_slurm else []
    if LUSTRE in filesystem.types:
        return [*sources, "lustre"]
    # All others with OSTs are CephFS, of which the client in user space is of type fuse.
    is_ceph = "ceph" in filesystem.types or filesystem.osts is not None
    return [*sources, "ceph", "osds"] if is_ceph else sources


def _note(when, sources):
    return f"note {when} {' '.join(sources)}"
