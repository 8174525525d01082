"""IOR as a second opinion on benchio."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import (
    fixture,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)

from iowatch import ior
from iowatch.metrics import ior_figures
from iowatch.result import InvalidResult

from .base import BenchioCheck
from .parameters import swept

#: Optional, in the extras of an environment: the path of IOR.
IOR = "ior"

FILE = '"$RUNDIR"/ior'


class FoundIor(rfm.RunOnlyRegressionTest):
    """IOR of the environment's extras, on PATH with its modules loaded, or installed by Spack."""

    descr = "Where IOR is"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True

    #: The program's path; empty if there is none.
    program = variable(str, value="")

    @run_after("setup")
    def set_commands(self):
        given = self.current_environ.extras.get(IOR)
        self.executable = f"command -v {given or 'ior'}"
        if given is None:
            self.executable += ' || { p=$(spack location -i ior) && echo "$p/bin/ior"; }'
        self.executable += " || true"  # the check that wants it says so

    @sanity_function
    def find_program(self):
        self.program = Path(str(self.stdout)).read_text().strip()
        return True


class IorCheck(BenchioCheck):
    """benchio and IOR in turn, with the same bytes: a contiguous block of each writer."""

    #: Who has a file: all of them (shared), or each process.
    files = parameter(type=str)

    ior = fixture(FoundIor, scope="environment")

    @run_after("setup")
    def skip_without_ior(self):
        self.skip_if(
            not self.ior.program,
            f"there is no ior on PATH or in Spack: name its path as {IOR!r} in the extras of "
            f"environment {self.current_environ.name!r}, or take {type(self).__name__} out of the "
            "site's sweeps",
        )

    @run_before("run")
    def set_rounds(self):
        self.prerun_cmds += [f"for round in $(seq {self.repeats}); do"]
        # The first failure ends the job: what follows would cost time and give no figure.
        self.postrun_cmds = [
            "echo $? > exit_code",
            '[ "$(cat exit_code)" = 0 ] || exit 1',
            *self.ior_commands("ior", ior.write_options(self.case, FILE, "ior.$round.json")),
        ]
        if self.case.stripe_count is not None:
            self.postrun_cmds += [f"lfs getstripe {FILE}* > ior.$round.stripes"]
        if self.case.operation == "read":
            options = ior.read_options(self.case, self.writers_per_node, FILE, "read.$round.json")
            self.postrun_cmds += self.ior_commands("read", options)
        self.postrun_cmds += [f"rm -f {FILE}*", "done"]
        self.keep_files = ["result.*.json", "ior.*", "read.*"]

    def ior_commands(self, name, options):
        """Run IOR as the job's tasks, and keep what it says."""
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        launcher = self.job.launcher.run_command(self.job)
        return [
            f"{launcher} {self.ior.program} {' '.join(options)} > {name}.$round.out",
            f"echo $? > {name}.$round.code",
            f'[ "$(cat {name}.$round.code)" = 0 ] || exit 1',
        ]

    def benchio_options(self, repeats, result):
        options = super().benchio_options(1, "result.$round.json")
        if self.case.files == "shared":
            options += [f"--grid 1x1x{self.case.writers}"]  # contiguous blocks, as IOR's are
        return options

    def measured_figures(self):
        if self.case.operation == "read" and self.nodes == 1 and not self.filesystem.cached_reads:
            raise InvalidResult("IOR may read from the cache of the only node: ask for 2 nodes")
        rounds, rates, here = [], [], Path()
        for round_ in range(1, self.repeats + 1):
            rounds.append(self.verified_result(Path(f"result.{round_}.json"), 1))
            rate = ior.rate(here, f"ior.{round_}", self.case, "write")
            if self.case.stripe_count is not None:
                stripes = here / f"ior.{round_}.stripes"
                ior.require_stripes(stripes, self.case, self.filesystem.osts)
            if self.case.operation == "read":
                rate = ior.rate(here, f"read.{round_}", self.case, "read")
            rates.append(rate)
        return ior_figures(rounds, rates)

    def details(self, verdict):
        return []


@rfm.simple_test
@swept
class IorPeer(IorCheck):
    """Both write."""

    descr = "Parallel write of benchio and of IOR"


@rfm.simple_test
@swept
class IorPeerRead(IorCheck):
    """Both read what others wrote; IOR compares the data while its clock runs, benchio after."""

    descr = "Parallel read of benchio and of IOR"
