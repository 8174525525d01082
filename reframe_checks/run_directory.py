"""The directory that a job makes for its run, on the filesystem of its place and on no other."""

from iowatch.adopt.probe import QUOTAS
from iowatch.cases.storage import TYPES

from .shell import shell

LOCK = ".iowatch.lock"  # the file that the job which is writing there holds locked
LOCK_S = 300  # for another account's job to end: nodes wait meanwhile

# Files that a job leaves, if it has to say so.
BUSY = "busy"  # it has waited in vain for its turn
NO_QUOTA = "no_quota"  # its quota has no room for it
ELSEWHERE = "elsewhere"  # its place is on another filesystem
NOTES = "notes"  # what the night is to know


def run_directory(filesystem, room, is_alone, benchio, known):
    """Return the shell that gives a job `RUNDIR` on a filesystem until the job ends, with `room`
    for so many KiB and names. The job takes turns with those of other accounts unless it is alone.

    `known` are the filesystems that the place may be on, with their sources; none: any. `benchio`
    is the command that tells it.
    """
    kib, names = room
    directory = shell(
        "run_directory",
        WHERE=filesystem.path,
        KIB=kib,
        NAMES=names,
        KNOWN=list(known),
        SOURCES=list(known.values()),
        TAKES_TURNS="" if is_alone else "yes",
        LOCK=LOCK,
        LOCK_S=LOCK_S,
        BUSY=BUSY,
        NO_QUOTA=NO_QUOTA,
        ELSEWHERE=ELSEWHERE,
        NOTES=NOTES,
        QUOTAS=QUOTAS,
        KEEP_DAYS=filesystem.keep_days,
    )
    quotas, notes = (
        "\n".join(texts)
        for texts in zip(
            *((storage.ask_quotas, storage.ask_notes) for storage in TYPES), strict=True
        )
    )
    return "\n".join(
        [
            f'tell_filesystem() {{ {benchio} --filesystem --dir "$1"; }}',
            f"ask_quotas() {{\n{quotas}\n}}",
            f"ask_notes() {{\n{notes}\n}}",
            directory,
        ]
    )


def room_of(case, repeats):
    """Return the KiB and the names that a job of so many rounds has at one time."""
    kind = case.check
    return kind.room_kib(case, repeats), kind.names(case, repeats)
