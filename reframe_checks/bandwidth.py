"""Checks that run benchio alone: how fast the libraries write and read, how fast names are, how
long one call takes, and which libraries a job really gets."""

import reframe as rfm
from reframe.core.builtins import variable

from iowatch.cases.verdict import Reason
from iowatch.measure.kinds.slow_ost import OST_RATIO, slow_osts
from iowatch.measure.result import InvalidResult

from . import outcome, scripts
from .base import CaseCheck
from .suite_cases import in_suites


@in_suites
class SharedFileWrite(CaseCheck):
    """All ranks write their blocks of one 3D array into one file; then it is synced."""


@in_suites
class SharedFileRead(CaseCheck):
    """All ranks read blocks that others wrote, from a file that was synced and not cached."""


@in_suites
class FilePerProcess(CaseCheck):
    """Each rank writes a file of its own; or each node, or each of N groups of ranks."""


@in_suites
class FilePerProcessRead(CaseCheck):
    """Each rank reads a file that another has written; or each node, or each of N groups."""


@in_suites
class SystemLoad(CaseCheck):
    """Independent benchmarks write to the filesystem at once; their aggregate is judged."""


@in_suites
class Metadata(CaseCheck):
    """Directories and small files are made, found by others, listed, renamed and removed."""


@in_suites
class SampleReads(CaseCheck):
    """All ranks read samples of a data set in a shuffled order, from few large files or many."""


@in_suites
class EnvironmentStart(CaseCheck):
    """Every rank looks at, opens and reads all small files of a tree, as `import torch` does."""


@in_suites
class Latency(CaseCheck):
    """Single calls on small files are timed one by one, while users work."""


@in_suites
class Checkpoint(CaseCheck):
    """All ranks write shards and a shared file, synced; half of them read what others wrote."""


@in_suites
class SlowOst(CaseCheck):
    """One benchio writes to and reads from each OST in each round: all meet the same contention.

    An OST that cannot be measured is named, and has no rate; the others go on. A start that hangs
    on an OST is ended by benchio, and the job starts again without that OST.
    """

    def script(self, plan):
        return scripts.each_ost(plan)

    def details(self, verdict):
        return [
            f"slow to {operation}: {slow_osts(self.measured.metrics, operation, bound.lower)}"
            for operation, name in OST_RATIO.items()
            if name in verdict.failed and (bound := self.references[name])
        ]


@rfm.simple_test
class LibraryVersions(CaseCheck):
    """The versions that the libraries report on a compute node; those known to be slow fail."""

    setting = ""  # no suite names it
    #: Version of each library, by benchio's name of its backend.
    versions = variable(dict, value={}, loggable=True)

    def script(self, plan):
        return scripts.versions(plan)

    def read_job(self):
        output = self.kept_file(self.stdout)
        if not output.exists():
            raise InvalidResult(f"its job has not begun: see {self.kept}", Reason.NO_OUTPUT)
        text = output.read_text("utf-8", "replace")
        self.versions, verdict = outcome.of_versions(self.given, text)
        self.provenance = dict(self.versions)
        return verdict
