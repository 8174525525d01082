"""Finding the OSTs that are slower than their peers."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before

from iowatch.metrics import ost_figures, slow_osts

from .base import BenchioCheck
from .parameters import swept


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
        # The first failure ends the job: what follows would cost time and give no figure.
        self.postrun_cmds = [
            "echo $? > exit_code",
            '[ "$(cat exit_code)" = 0 ] || exit 1',
            "done; done",
        ]
        self.keep_files = ["result.*.json"]

    def benchio_options(self, repeats, result):
        options = super().benchio_options(1, "result.$round.$ost.json")
        return [*options, "--stripe-offset $ost"]

    def measured_figures(self):
        runs = {ost: [] for ost in range(self.filesystem.osts)}
        for round_ in range(1, self.repeats + 1):
            for ost, done in runs.items():
                done.append(self.verified_result(Path(f"result.{round_}.{ost}.json"), 1, ost))
        return ost_figures(runs)

    def details(self, verdict):
        if "ost_ratio" not in verdict.failed:
            return []
        return [f"slow: {slow_osts(self.figures, self.references['ost_ratio'].lower)}"]
