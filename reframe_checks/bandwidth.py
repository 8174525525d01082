"""How fast the libraries write and read: one shared file, many files, several at once, each OST;
and how fast names are."""

from pathlib import Path

from reframe.core.builtins import run_before

from iowatch.kinds.each_ost import OST_RATIO, hung_osts, slow_osts

from .base import BenchioCheck
from .parameters import in_suites


@in_suites
class SharedFileWrite(BenchioCheck):
    """All ranks write their blocks of one 3D array into one file; then it is synced."""

    descr = "Parallel write of a single shared file"


@in_suites
class SharedFileRead(BenchioCheck):
    """All ranks read blocks that others wrote, from a file that was synced and not cached."""

    descr = "Parallel read of a single shared file"


@in_suites
class FilePerProcess(BenchioCheck):
    """Each writer has a file of its own; or each node, or each of N groups of ranks."""

    descr = "Parallel write of a file per process, per node, or of N files"


@in_suites
class FilePerProcessRead(BenchioCheck):
    """Each writer reads a file that another has written; or each node, or each of N groups."""

    descr = "Parallel read of a file per process, per node, or of N files"


@in_suites
class SystemLoad(BenchioCheck):
    """Independent benchmarks share the filesystem; their aggregate is judged."""

    descr = "Parallel writes of several concurrent instances"


@in_suites
class Metadata(BenchioCheck):
    """Directories and small files are made, found by others, listed, renamed and removed."""

    descr = "Operations a second on names, in one directory or in one of each writer"


@in_suites
class SlowOst(BenchioCheck):
    """One benchio goes through all OSTs in each round, so that all meet the same contention.

    What one of them cannot do, the others can: it is named, and has no rate. A start that hangs on
    one is ended by benchio, and the job starts again without that one.
    """

    descr = "Parallel write to and read from each OST by itself"

    outputs = (*BenchioCheck.outputs, "said.*")

    @run_before("run")
    def set_starts(self):
        # A name that the log has, and no result: the watchdog has ended that start.
        self.prerun_cmds += [
            # Of srun: the step of processes that cannot be killed, as a server hangs, goes on.
            "export SLURM_OVERLAP=1",
            f"TARGETS={','.join(self.filesystem.targets)} START=0",
            'while [ -n "$TARGETS" ]; do',
            "START=$((START + 1))",
        ]
        self.postrun_cmds = [
            "echo $? > exit_code",
            "cat said.$START >&2",
            "[ ! -e result.$START.json ] || break",
            r"HUNG=$(sed -n 's,^benchio: error: .*/benchio\.[^/]*/target\.\([^/:]*\).*,\1,p' "
            "said.$START | head -n 1)",
            'case ",$TARGETS," in *",${HUNG:-none},"*) ;; *) break ;; esac',
            r'TARGETS=$(echo "$TARGETS" | tr , "\n" | grep -vxF -e "$HUNG" | paste -sd , -)',
            "done",
        ]

    def benchio_options(self, repeats, result):
        return [*super().benchio_options(repeats, "result.$START.json"), "2> said.$START"]

    def said(self):
        """Of the last start: those before it have said that they hung."""
        last = len(hung_osts(Path(self.kept))) + 1
        return self.kept_file(f"said.{last}").read_text(errors="replace")

    def details(self, verdict):
        return [
            f"slow to {operation}: {slow_osts(self.measured.metrics, operation, bound.lower)}"
            for operation, name in OST_RATIO.items()
            if name in verdict.failed and (bound := self.references[name])
        ]
