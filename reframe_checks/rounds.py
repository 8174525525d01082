"""benchio and another program in turn, in rounds that the job's shell counts as `round`."""

from reframe.core.builtins import run_before

from iowatch.verdict import Reason

from .base import BenchioCheck
from .shell import shell
from .why_not_measured import LOST_RANK, ONLY_THE_LAUNCHER, NotMeasured

LOST = "lost_rank"  # the file with what Open MPI 4 took for a crash


class InRounds(BenchioCheck):
    """In each round benchio runs once, and then what a leaf says; `launch` starts a command as the
    job's tasks. The first failure ends the job: what follows would cost time and give no metric."""

    outputs = (*BenchioCheck.outputs, "said.*", "launched.err", LOST)

    def commands_before(self):
        """The commands before the first round."""
        return []

    def commands_of_round(self):
        """The commands of a round, once benchio has ended well."""
        return []

    @run_before("run")
    def set_rounds(self):
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        command = self.job.launcher.run_command(self.job)
        self.prerun_cmds += [
            f'start_tasks() {{ {command} "$@"; }}',
            shell("rounds", LOST_RANK=LOST_RANK, LOST=LOST),
            *self.commands_before(),
            f"for round in $(seq {self.repeats}); do",
        ]
        self.postrun_cmds = [
            "echo $? > exit_code",
            "cat said.$round >&2",
            '[ "$(cat exit_code)" = 0 ] || is_lost "$(cat exit_code)" said.$round || exit 1',
            *self.commands_of_round(),
            "done",
        ]

    def benchio_options(self, repeats, result):
        return [*super().benchio_options(1, "result.$round.json"), "2> said.$round"]

    def require_exit_code(self):
        if self.kept_file(LOST).exists():
            raise NotMeasured(ONLY_THE_LAUNCHER, Reason.LAUNCHER)
        super().require_exit_code()

    def details(self, verdict):
        return []
