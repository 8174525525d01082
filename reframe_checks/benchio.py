"""The benchmark that all checks run."""

from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, sanity_function, variable

from iowatch.site import BENCHIO

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "benchio"


class BuiltBenchio(rfm.RunOnlyRegressionTest):
    """benchio, brought up to date in this checkout; or a site's own, asked for its version."""

    descr = "benchio is built and runs"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True

    #: The program's path.
    #:
    #: :default: ``benchio`` of the environment's extras, else ``build/bin/benchio``.
    program = variable(str, value=str(ROOT / "build" / "bin" / "benchio"))

    @run_after("setup")
    def set_commands(self):
        self.prerun_cmds = ["set -e"]
        prebuilt = self.current_environ.extras.get(BENCHIO)
        if prebuilt:
            self.program = prebuilt
        else:
            # The build tree is persistent and shared: one session at a time brings it up to date.
            self.prerun_cmds += [f"flock {BUILD}/.lock cmake --build {BUILD}"]
        self.executable = self.program
        self.executable_opts = ["--version"]

    @sanity_function
    def assert_it_runs(self):
        return sn.assert_eq(
            self.job.exitcode,
            0,
            f"{self.program} does not build or run: run `make setup`, or name a prebuilt one as "
            f"{BENCHIO!r} in the extras of environment {self.current_environ.name!r}; see "
            f"{self.stagedir}",
        )
