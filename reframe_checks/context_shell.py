"""What a job notes of others before and after it measures: `iowatch.context` reads it."""

from pathlib import Path

from iowatch import context
from iowatch.context import AFTER, BEFORE, SOURCES, UNFINISHED

from .shell import shell
from .why_not_measured import SLURM

ANSWER_S = 4  # for a source, and 1 more to be killed

#: What a job leaves in its stage; a pattern of the shell.
FILES = f"{context.FILES}.*"


def commands(test):
    """Return the shell that gives a job `note`, and notes what is there before; it needs `PLACE`, a
    directory of the filesystem. Empty where nobody can be asked."""
    sources = _sources(test)
    if not sources:
        return []
    # In an allocation the script itself runs on the login node, which is another client.
    step = "srun --overlap --nodes=1 --ntasks=1" if test.filesystem.allocation else ""
    return [
        shell("context", ANSWER_S=ANSWER_S, UNFINISHED=UNFINISHED, STEP=step),
        *(shell(source, Path(context.__file__).parent) for source in sources),
        _note(BEFORE, sources),
    ]


def afterwards(test):
    """Return the shell that notes the same again."""
    sources = _sources(test)
    return [_note(AFTER, sources)] if sources else []


def _sources(test):
    """Return the names of the sources that can be asked."""
    scheduler = test.current_partition.scheduler.registered_name
    under_slurm = scheduler in SLURM or bool(test.filesystem.allocation)
    return [source.name for source in SOURCES if source.is_asked(test.filesystem, under_slurm)]


def _note(when, sources):
    return f"note {when} {' '.join(sources)}"
