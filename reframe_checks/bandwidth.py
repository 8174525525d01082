"""How fast the libraries write and read: one shared file, many files, several at once, each OST."""

import reframe as rfm
from reframe.core.builtins import parameter, run_before

from iowatch.metrics import Measured, ost_metrics, slow_osts
from iowatch.result import conditions

from .base import BenchioCheck
from .parameters import swept


@rfm.simple_test
@swept
class SharedFileWrite(BenchioCheck):
    """All writers write their blocks of one 3D array into one file; then it is synced."""

    descr = "Parallel write of a single shared file"


@rfm.simple_test
@swept
class SharedFileRead(BenchioCheck):
    """All writers read blocks that others wrote, from a file that was synced and not cached."""

    descr = "Parallel read of a single shared file"


@rfm.simple_test
@swept
class FilePerProcess(BenchioCheck):
    """Each writer has a file of its own; or each node, or each of N groups of writers."""

    descr = "Parallel write of a file per process, per node, or of N files"

    #: Who has a file: process, node, or a number of files.
    files = parameter(type=str)


@rfm.simple_test
@swept
class FilePerProcessRead(BenchioCheck):
    """Each writer reads a file that another has written; or each node, or each of N groups."""

    descr = "Parallel read of a file per process, per node, or of N files"

    #: Who has a file: process, node, or a number of files.
    files = parameter(type=str)


@rfm.simple_test
@swept
class SystemLoad(BenchioCheck):
    """Independent benchmarks share the filesystem; their aggregate is judged."""

    descr = "Parallel writes of several concurrent instances"

    #: Number of concurrent instances, each with an equal part of the writers.
    instances = parameter(type=int)


@rfm.simple_test
@swept
class SlowOst(BenchioCheck):
    """One job writes to every OST in turn, in rounds, so that all meet the same contention."""

    descr = "Parallel write to each OST by itself"

    repeats = 3  # rounds over all OSTs; the best of each OST counts

    @run_before("run")
    def set_loop(self):
        osts = self.filesystem.osts - 1
        self.prerun_cmds += [
            f"for round in $(seq {self.repeats}); do for ost in $(seq 0 {osts}); do"
        ]
        # The first failure ends the job: what follows would cost time and give no metric.
        self.postrun_cmds = [
            "echo $? > exit_code",
            '[ "$(cat exit_code)" = 0 ] || exit 1',
            "done; done",
        ]

    def benchio_options(self, repeats, result):
        return super().benchio_options(1, "result.$round.$ost.json")

    def verified(self):
        runs = {ost: [] for ost in range(self.filesystem.osts)}
        for round_ in range(1, self.repeats + 1):
            for ost, done in runs.items():
                done.append(self.verified_result(f"result.{round_}.{ost}.json", 1, ost))
        return Measured(ost_metrics(runs), conditions(runs[0][-1]))

    def details(self, verdict):
        if "ost_ratio" not in verdict.failed:
            return []
        bound = self.references["ost_ratio"].lower
        return [f"slow: {slow_osts(self.measured.metrics, bound)}"]
