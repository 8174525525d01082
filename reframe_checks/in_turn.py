"""Environments that take turns in one job: no check, and only `iowatch blame` runs it."""

import json
from pathlib import Path

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable

from iowatch.case import Case

from . import allocation
from .base import (
    WAITS,
    keep_commands,
    make_run_directory,
    one_job_at_once,
    options_of_run,
    phase_limit,
    spread,
)
from .parameters import FILESYSTEMS
from .shell import shell


@rfm.simple_test
class EnvironmentsInTurn(rfm.RunOnlyRegressionTest):
    """One benchio of each environment in every round, as :mod:`iowatch.night.blame` has planned it.

    Its results are judged there. It has no case of its own on record: what runs here is no past, no
    night and no evidence.
    """

    descr = "Environments of two nights in turn"
    valid_systems = []
    valid_prog_environs = ["*"]
    outputs = ("result.*", "said.*", "failed.*", "exit_code")

    #: The file with the plan, JSON.
    #:
    #: :default: empty: then it runs nowhere.
    plan = variable(str, value="")

    #: Where the raw results are kept.
    kept = variable(str, value="", loggable=True)

    planned = None
    phase_limit = None  # benchio's option, of the time that one environment has
    case = None
    filesystem = None

    @run_after("init")
    def read_plan(self):
        if not self.plan:
            return
        self.planned = json.loads(Path(self.plan).read_text())
        case, self.kept = Case.parse(self.planned["case"]), self.planned["kept"]
        self.valid_systems = [f"{case.system}:{case.partition}"]
        self.valid_prog_environs = [case.environ]

    @run_after("setup")
    def set_job(self):
        self.case = Case.parse(self.planned["case"])  # ReFrame could not copy it before
        self.filesystem = FILESYSTEMS[self.case.partition]
        spread(self, self.case, self.planned["ranks_per_node"])
        one_job_at_once(self, self.filesystem)
        self.job.launcher = getlauncher("local")()  # each environment has its own
        self.phase_limit = phase_limit(self)
        limit = rt.runtime().get_option(f"systems/0/partitions/@{self.case.partition}/time_limit")
        if limit:  # that of a case's job, for each environment
            self.time_limit = limit
            self.time_limit *= len(self.planned["variants"])

    @run_before("run")
    def set_turns(self):
        result, run_id = self.planned["result"], self.planned["run_id"]
        options = options_of_run(self.filesystem, self.planned["repeats"], run_id, result)
        options += self.phase_limit
        for number, variant in enumerate(self.planned["variants"]):
            file = Path(self.stagedir, f"environment.{number}.sh")
            command = " ".join([variant["command"], *options])
            file.write_text("\n".join([*variant["environment"], command, ""]))
            file.chmod(0o755)
        self.prerun_cmds = keep_commands(self)
        if self.filesystem.allocation:  # one of its own, where the steps of the commands run
            per_node = self.planned["ranks_per_node"]
            nodes = self.case.ranks // per_node
            self.prerun_cmds += allocation.join(self, nodes, per_node, self.time_limit)
            self.time_limit = WAITS
        self.prerun_cmds += make_run_directory(self, self.case, self.filesystem)
        turns = [",".join(map(str, order)) for order in self.planned["turns"]]
        self.executable = shell("turns", TURNS=turns)
        self.postrun_cmds = ["echo $? > exit_code"]

    @sanity_function
    def assert_it_ended(self):
        return sn.assert_true(
            Path(self.kept, "exit_code").exists(), "the job ended before its last round"
        )
