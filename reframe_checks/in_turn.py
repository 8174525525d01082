"""Environments that take turns in one job: no check, and only `iowatch blame` runs it."""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable

from iowatch.measure.case_ids import parse_case

from . import allocation, scripts, site_record
from .allocation import WAITS
from .run_directory import room_of, run_directory
from .shell import shell
from .suite_cases import FILESYSTEMS
from .why_not_measured import is_here

#: Runs benchio in the first of the environments.
TELL = "environment.tell.sh"


@rfm.simple_test
class EnvironmentsInTurn(rfm.RunOnlyRegressionTest):
    """One benchio of each environment in every round, as :mod:`iowatch.night.blame` has planned it.

    Its results are judged there. No case is on record: its runs are no past, no night and no
    evidence.
    """

    valid_systems = []
    valid_prog_environs = ["*"]
    #: The file with the plan, JSON.
    #:
    #: :default: empty: then it runs nowhere.
    plan = variable(str, value="")
    #: Where the raw results are kept.
    kept = variable(str, value="", loggable=True)

    planned = None
    case = None  # from setup on: ReFrame could not copy it before

    @run_after("init")
    def set_place(self):
        if not self.plan:
            return
        self.planned = json.loads(Path(self.plan).read_text("utf-8"))
        case, self.kept = parse_case(self.planned["case"]), self.planned["kept"]
        self.valid_systems = [f"{case.system}:{case.partition}"]
        self.valid_prog_environs = [case.environ]

    @run_after("setup")
    def set_job(self):
        self.case = parse_case(self.planned["case"])
        filesystem = FILESYSTEMS[self.case.partition]
        allocation.ask_for_nodes(self, self.case, filesystem, self.planned["ranks_per_node"])
        self.job.launcher = getlauncher("local")()  # each environment has its own
        if limit := self.current_partition.time_limit:  # that of a case's job, for each environment
            self.time_limit = typ.Duration(limit) * len(self.planned["variants"])

    @run_before("run")
    def set_script(self):
        filesystem, limit = FILESYSTEMS[self.case.partition], self.current_partition.time_limit
        join = []
        if filesystem.allocation:  # one of its own, where the steps of the commands run
            per_node = self.planned["ranks_per_node"]
            nodes = self.case.ranks // per_node
            join = allocation.join(self, nodes, per_node, self.time_limit)
            self.time_limit = WAITS
        script, environments = scripts_of(
            filesystem,
            self.planned,
            stage=self.stagedir,
            join=join,
            phase_limit=scripts.phase_limit(limit and typ.Duration(limit)),
            is_here=is_here(self, filesystem),
            is_alone=allocation.is_alone(self, filesystem),
            known=site_record.known_filesystems(filesystem),
        )
        for name, text in environments.items():
            file = Path(self.stagedir, name)
            file.write_text(text, "utf-8")
            file.chmod(0o755)
        self.prerun_cmds, self.postrun_cmds = [*script.before], [*script.after]
        self.executable = script.command

    @sanity_function
    def assert_it_ended(self):
        return sn.assert_true(
            Path(self.kept, "exit_code").exists(), "the job ended before its last round"
        )


def scripts_of(filesystem, planned, *, stage, join, phase_limit, is_here, is_alone, known):
    """Return the script of a job in which environments take turns, planned by `iowatch blame`, and
    the script of each environment by its file name."""
    options = scripts.options_of_run(
        filesystem, planned["repeats"], planned["run_id"], planned["result"]
    )
    environments = {
        f"environment.{number}.sh": "\n".join(
            [
                *variant["environment"],
                scripts.mpi(variant["program"], variant["command"], is_here),
                " ".join([variant["command"], *options, *phase_limit]),
                "",
            ]
        )
        for number, variant in enumerate(planned["variants"])
    }
    first = planned["variants"][0]
    environments[TELL] = "\n".join([*first["environment"], f'{first["program"]} "$@"', ""])
    case = parse_case(planned["case"])
    outputs = ("result.*", "said.*", "failed.*", "exit_code", scripts.MPI)
    script = scripts.JobScript(
        before=[
            *scripts.keep_results(stage, planned["kept"], outputs),
            *join,
            run_directory(filesystem, room_of(case, 1), is_alone, f"./{TELL}", known),
        ],
        command=shell("turns", TURNS=[",".join(map(str, order)) for order in planned["turns"]]),
        after=["echo $? > exit_code"],
    )
    return script, environments
