"""What programs say of why they fail: the line of a job's output that tells the cause, whoever
printed it. One list has all texts that were ever met; tests/iowatch/causes.txt has each as printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from iowatch.base.text import one_line
from iowatch.cases.verdict import Reason

MOST = 400  # characters of a sentence
_WIDEST = 2000  # characters of a line that are looked at


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job failed, in a sentence."""

    sentence: str
    reason: Reason | None = None  # None: the text alone does not tell


#: A regular expression, and the reason where it is certain. What the groups have found is the
#: sentence; without groups, all of the lines in which the expression was found.
Known = tuple[str, Reason | None]

#: benchio's own words, and those of our job scripts. Where nobody can end the ranks of a hang, they
#: all say so: the first is the one that knows why.
_OURS: list[Known] = [
    (r"(benchio: error: .+)", None),
    (r"^.+, or name another 'path' in the site's configuration$", Reason.CONFIGURATION),
    (r"^on \S+: (?:mkdir|mktemp): .+", Reason.IO_ERROR),
    (r"^.+ KiB will be written, but only \d+ KiB are free$", Reason.IO_ERROR),
    (r"^.+: its filesystem cannot lock files: .+", None),
    (r"^the allocation, job \d+, has ended", None),
    (r"^the input of .+ could not be made: .+", None),
]

#: benchio's word on a library that has ended it, which may have printed why.
_IS_OF_LIBRARY = re.compile(r"^benchio: error: .* called it\b")

_NODE: list[Known] = [
    (r"^ssh: .+|^Host key verification failed", Reason.LAUNCHER),  # why a daemon is lost
    (r"error: Node failure on ", None),  # srun, before what it then does
    (r"DUE TO NODE FAILURE", None),
    (r"(?:ORTE|PRTE) has lost communication with a remote daemon\.", None),
]

#: What a job waited for until it was ended, perhaps.
_WAITS: list[Known] = [(r"^waiting for \S.*, which .+", None)]

#: What is wrong with a job before its program begins.
_ENVIRONMENT: list[Known] = [
    (r"(The following module\(s\) are unknown: .+)", Reason.ENVIRONMENT),
    (r"(Failed to find the following module\(s\): .+)", Reason.ENVIRONMENT),
    (
        r"(These module\(s\) or extension\(s\) exist but cannot be loaded as requested: .+)",
        Reason.ENVIRONMENT,
    ),
    (r"ERROR: (?:\d+:)?Unable to locate a modulefile for .+", Reason.ENVIRONMENT),
    (r"ModuleCmd_Load\.c\(\d+\):ERROR:\d+: .+", Reason.ENVIRONMENT),
    (r"Lmod has detected the following error: +(.+(?:\n +\S.*)?)", Reason.ENVIRONMENT),
    (r"\bmodule: (?:command )?not found", Reason.ENVIRONMENT),
    (r"error while loading shared libraries: ", Reason.ENVIRONMENT),
    (r"symbol lookup error: ", Reason.ENVIRONMENT),
    (
        r"version [`'](?:GLIBC|GLIBCXX|CXXABI|GFORTRAN|GCC|OMP)\w*_[\w.]+' not found",
        Reason.ENVIRONMENT,
    ),
    (r"undefined symbol: ", Reason.ENVIRONMENT),
    (r"cannot execute(?: binary file|: required file not found)", Reason.ENVIRONMENT),
    (r"Exec format error", Reason.ENVIRONMENT),
    (
        r"(HDF5 library version mismatched error)(?:.*\n){0,20}?(Headers are \S+, library is \S+)",
        Reason.ENVIRONMENT,
    ),
    (r"HDF5 library version mismatched error", Reason.ENVIRONMENT),
    (r"==> Error: .+", Reason.ENVIRONMENT),
    (r"^(?:ERROR: )?ld\.so: object .+ cannot be preloaded.*", Reason.ENVIRONMENT),
    (r": command not found$|^\S+: \d+: \S+: not found$", Reason.ENVIRONMENT),
    (r"no benchio on PATH|no spack on PATH", Reason.ENVIRONMENT),
    # ReFrame, with all that the command has printed.
    (
        r"(could not execute module operation)[\s\S]*?--- stderr ---\s+(\S.*)",
        Reason.ENVIRONMENT,
    ),
]

_LAUNCHERS: list[Known] = [
    (text, Reason.LAUNCHER)
    for text in (
        r"There are not enough slots available in the system to[^:]{1,200}:",
        r"There are no allocated resources for the application:?\s+.+",
        r"A request was made to bind to that would result in binding more[^:]{1,200}:",
        r"has detected an attempt to run as root",
        r"was unable to find the specified executable file[^.]{1,200}\.",
        r"was unable to launch the specified application as it (?:could not\s+access"
        r"(?:\s+or execute)?|lacked\s+permissions to execute)\s+an executable:"
        r"(?:\s+Executable: .+)?",
        r"An unrecognized option was included on the \S+\s+command line:\s+Option: .+",
        r"was unable to (?:launch|start) the specified application as it encountered an"
        r"\s+error:?(?:\s+Error .+)?",
        r"While attempting to start your job, an executable could not be found",
        r"(?:ORTE|PRTE) (?:daemon )?(?:has unexpectedly failed after launch|was unable to reliably"
        r" start one or\s+more daemons)",
        r"It looks like \w+ failed for some reason; your parallel process is\s+likely to abort\.",
        r"The application appears to have been direct launched using \"srun\",\s+but [^.]{1,200}\.",
        r"HYDU_create_process .*execvp error on file (.+)",
        r"^\[(?:mpiexec|proxy:)\S*\] .+",
        r"^(?:mpirun|mpiexec|orterun|prterun)\S*: (?:[Ee]rror|[Ff]atal): .+",
        r"No network interfaces were found for out-of-band communications\.",
        r"srun: error: (?!Node failure)[A-Z]\w+(?!:) .+",
        r"slurmstepd: error: (?:execve\(\)|couldn't|Failed to|Unable to|mpi/)",
        r"^launch (?:failed on|RPC).*: .+",
        r"^(?:aprun|apsched): .+",
    )
]

#: Programs and their libraries, from those that know most.
_PROGRAMS: list[Known] = [
    (r"(File locking failed in ADIOI_\w+\(.+)", Reason.IO_ERROR),
    (r"HDF5-DIAG: .*\n(?>[ \t].*\n)*[ \t]+#\d+: .+? in (\w+\(\): .+)", None),
    (r"NetCDF: .+", None),
    (r"(Fatal error in \w+: .+), error stack:\n(?>\S+\(\d+\)\.*: .*\n)*\S+\(\d+\)\.*: (.+)", None),
    (r"Fatal error in \w+: .+", None),
    (r"\*\*\* An error occurred in (\w+)(?:.*\n){1,5}?.*\*\*\* (MPI_ERR_\w+: .+)", None),
    (r"\bMPI_ERR_\w+: ", None),
    (r"Fortran runtime error: .+", None),
    (r"^(\S+:\d+:\d+):\n(?:.*\n){1,5}?((?:Fatal )?Error: .+)", None),
    (r"^\S+:\d+:\d+: (?:fatal )?error: .+", None),
    (r"(CMake Error.*):\n\s*(.+)", None),
    (r"^(?:ninja|g?make\S*): (?:error: |\*\*\* ).+", None),
    (r"^Traceback \(most recent call last\):\n(?>[ \t].*\n)*(\w[\w.]*(?:: .+)?)$", None),
    (r"UCX +(?:ERROR|FATAL) ", None),
    (r"Open MPI failed an OFI Libfabric library call[^.]{1,200}\.", None),
]

#: Errors of the kernel, wherever they are printed.
_KERNEL: list[Known] = [
    *((text, None) for text in (
        r"File size limit exceeded|File too large", r"No space left on device",
        r"Disk quota exceeded", r"Too many open files", r"Stale (?:NFS )?file handle",
        r"Transport endpoint is not connected",
        r"Cannot send after transport endpoint shutdown", r"Read-only file system",
        r"Input/output error", r"No locks available", r"Function not implemented",
        r"Cannot allocate memory", r"Resource temporarily unavailable",
        r"Remote I/O error", r"Connection timed out", r"Network is unreachable",
        r"Permission denied", r"Operation not permitted", r"Not a directory", r"Is a directory",
        r"No such file or directory",
    )),
    (r"(?i:syntax error)\b.+", None),
]  # fmt: skip

#: The scheduler's word for how a job ended. What the job itself has said comes before that.
_SCHEDULERS: list[Known] = [
    (r"CANCELLED AT \S+ DUE TO TIME LIMIT", Reason.TIME_LIMIT),
    (r"CANCELLED AT \S+ DUE TO PREEMPTION|DUE TO JOB REQUEUE|DUE TO PREEMPTION", None),
    (r"=>> PBS: job killed: walltime .+ exceeded limit .+", Reason.TIME_LIMIT),
    (r"=>> PBS: job killed: .+", None),
    (r"TERM_RUNLIMIT: .+", Reason.TIME_LIMIT),
    (r"TERM_\w+: .+", None),
    (r"## OAR \[.*\] Job \d+ KILLED ##", None),
    (r"(?:slurmstepd: error: |srun: error: ).*(?:oom[-_ ]?kill|Out Of Memory|OOM).*", None),
    (r"slurmstepd: error: Exceeded (?:job|step) memory limit.*", None),
    (r"(Invalid account or account/partition combination specified)", Reason.CONFIGURATION),
    (r"error: (QOS\w+|Assoc\w+Limit\w*)", Reason.CONFIGURATION),
    (r"^s(?:batch|alloc): error: (?!Batch job|QOS|Assoc)\w.*", Reason.CONFIGURATION),
    (r"error: (Batch job submission failed: .+)", Reason.CONFIGURATION),
    (r"^(?:sbatch|salloc|qsub|bsub|oarsub): (?:error: )?.+", Reason.CONFIGURATION),
    (r"slurmstepd: error: \*\*\* JOB \d+ ON \S+ CANCELLED AT \S+", None),
]  # fmt: skip

#: How processes ended, which follows from something else.
_ENDS: list[Known] = [
    (r"Program received signal (SIG\w+: .+)", None),
    (r"Signal: ([\w ]+ \(\d+\))", None),
    (r"Caught signal \d+ \(.+\)", None),
    (r"noticed that process rank \d+ with PID \d+ on node \S+ exited on\s+signal \d+", None),
    (r"\bBus error\b|Segmentation fault|Floating[- ]point exception|Illegal instruction", None),
    (r"Out of memory: Killed process .+|oom-kill", None),
    (r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: (.+)", None),
    (r"(BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES)(?:.*\n){1,5}?.*(EXIT CODE: \d+)",
     None),
    (r": rank \d+ (?:died from signal|exited with code) \d+", None),
    (r"srun: error: \S+: tasks? \S+: .+", None),
    (r"\bKilled\b", None),
    (r"(MPI_ABORT was invoked on rank \d+ in communicator .+)", None),
    (r"application called (MPI_Abort\(.+)", None),
    (r"Abort\(\d+\) on node \d+ .*", None),
]  # fmt: skip

_BEFORE = [*_OURS, *_NODE, *_ENVIRONMENT, *_LAUNCHERS, *_PROGRAMS, *_KERNEL, *_WAITS]
PATTERNS = {known: re.compile(known[0], re.MULTILINE) for known in (*_BEFORE, *_SCHEDULERS, *_ENDS)}

#: What tells nothing of a cause: rules, rounds, frames of a stack, and what launchers always add.
_NOISE = re.compile(
    r"""
    ^[\W_]*$
    | ^benchio: \ round
    | ORTE_ERROR_LOG | PMIX_ERROR | PMIX\ ERROR | PRTE\ ERROR | ^\[\S+\]\ PMIx_Spawn\ failed
    | btl_tcp_proc\.c | Unable\ to\ find\ reachable\ pairing | [Dd]eprecated\ (?:MCA\ )?variable
    | ^launch\.$ | ^the\ job\ to\ be\ terminated | ^a\ non-zero\ exit\ code | ^with\ errorcode
    | Primary\ job\ +terminated\ normally | ^\S+\ detected\ that\ one\ or\ more
    | ^\s*(?:Process\ name|Exit\ code|Node|Application|Executable|Host|PID)\ *:
    | ^NOTE:\ invoking\ MPI_ABORT | ^You\ may\ or\ may\ not\ see | ^exactly\ when\ Open\ MPI
    | orte_base_help_aggregate | prte_base_help_aggregate | more\ process\w*\ ha\w+\ sent\ help
    | ^\s*\#?\d+\s+(?:0x|/) | ^====\ backtrace | ^Backtrace\ for\ this | \[\S+:\d+\]\ \[\s*\d+\]
    | \*\*\*\ (?:Process\ received|End\ of\ error|reported\ by|on\ a|MPI_ERRORS_ARE|\ \ )
    | ^Traceback\ | ^\s+File\ " | ^srun:\ (?:forcing|Job\ step\ aborted|Terminating|launch/)
    | [A-Za-z0-9+]{44,} | ^Bye\.\.\.$ | cannot\ change\ locale
    """,
    re.VERBOSE,
)
_ERROR = re.compile(
    r"\b(?:error|fail(?:s|ed|ure)?|fatal|cannot|can't|could ?n[o']t|unable|abort\w*|denied|killed"
    r"|invalid|not found|no such|exceed\w*|refused|out of|not installed|not enough|unknown)\b",
    re.IGNORECASE,
)


def known_cause(*texts: str) -> Cause | None:
    """Return the cause that these texts of one job tell in words of the list; None: in no such.

    The first entry of the list counts that any text has, and of an entry the first place. The
    scheduler's word is added to the job's own.
    """
    texts = tuple("\n".join(line[:_WIDEST] for line in text.splitlines()) for text in texts)
    first = next(_found([*_BEFORE, *_SCHEDULERS, *_ENDS], texts), None)
    ended = next(_found(_SCHEDULERS, texts), None)
    if first and _IS_OF_LIBRARY.search(first.sentence):
        printed = next(_found([*_ENVIRONMENT, *_PROGRAMS], texts), first)
        if printed is not first:  # before it ended the process
            first = replace(printed, sentence=f"{printed.sentence.rstrip('.')}; {first.sentence}")
    if first is None or ended is None or ended.sentence == first.sentence:
        return first
    sentence = f"{first.sentence} ({ended.sentence})"
    return replace(first, sentence=sentence, reason=ended.reason or first.reason)


def cause_of(*texts: str) -> Cause:
    """Return the cause that these texts of one job tell: a known one, else the first line that
    looks like an error, else the last line that is no noise. Of nothing, the sentence is empty."""
    if known := known_cause(*texts):
        return known
    lines = [line for text in texts for line in text.splitlines() if not _NOISE.search(line)]
    errors = (line for line in lines if _ERROR.search(line))
    return Cause(_sentence(next(errors, (lines or [""])[-1])))


def _found(entries: Iterable[Known], texts: tuple[str, ...]) -> Iterator[Cause]:
    for known in entries:
        for text in texts:
            if match := _first(PATTERNS[known], text):
                yield Cause(match, known[1])


def _first(pattern: re.Pattern[str], text: str) -> str:
    """Return the sentence where a pattern is first found outside of noise; empty: nowhere."""
    for match in pattern.finditer(text):
        words = ": ".join(filter(None, match.groups()))
        if not words:
            words = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
            if words[-1] not in ".:":  # else a sentence, which may end within a line
                words += text[match.end() :].partition("\n")[0]
        if not _NOISE.search(words):
            return _sentence(words)
    return ""


def _sentence(text: str) -> str:
    words = one_line(" ".join(text.split())).rstrip(":")
    return words if len(words) <= MOST else f"{words[: MOST - 4].rstrip()} ..."
