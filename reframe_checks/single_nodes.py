"""Nodes beside one another: which of them a job measures tonight, and which are slow."""

from pathlib import Path

from iowatch.base.files import UserError
from iowatch.judge import node_watch
from iowatch.judge.slow_nodes import NODES, due
from iowatch.measure.kinds import slow_node

from . import scripts, site_record
from .base import CaseCheck
from .reframe_4_10 import idle_nodes
from .suite_cases import in_suites
from .why_not_measured import ask, field, is_slurm, scontrol


@in_suites
class SlowNode(CaseCheck):
    """Nodes of the partition write and read in groups, and one after the other, alone.

    Other nodes each night: slow ones first, then those that nobody has measured for longest. A node
    that is slower than its peers is named, or its switch, where all nodes below that are slow. A
    node that hangs or fails is named at once, and the others go on.
    """

    def script(self, plan):
        if self.current_partition.launcher_type.registered_name != "srun":
            raise UserError(
                "SlowNode needs the launcher 'srun', which starts ranks on chosen nodes: take it "
                "out of the site's suites, or change the launcher"
            )
        if self.nodes < NODES.peers:
            raise UserError(
                f"SlowNode compares {NODES.peers} nodes or more, and has {self.nodes}: raise "
                "'nodes' in the site's suites"
            )
        charts = self.charts([])
        first, count = [], self.nodes
        if is_slurm(self) and not self.is_dry_run():
            idle, tonight = idle_nodes(self.job), f"{site_record.KEPT_AS} {self.run_id}"
            if idle is None:
                why = "Slurm did not say which nodes are idle, and chose the nodes itself\n"
                Path(self.kept, slow_node.CHOSEN).write_text(why, "utf-8")
            first = due(idle or (), charts.seen, charts.doubted(), count, tonight)
            keep_switches(Path(self.kept))
        if len(first) == count:  # with fewer idle ones, Slurm chooses, as nodes become free
            self.job.options += [f"--nodelist={','.join(first)}"]
        return scripts.nodes_in_turn(plan, first, self.filesystem.slow_node_hours)

    def judge_parts(self, verdict):
        charts = self.charts([node_watch.Tonight(self.case, site_record.KEPT_AS, self.by_node)])
        return node_watch.judged(charts, self.by_node["lost"], verdict)

    def charts(self, tonight):
        """Return the charts of all nodes by the runs on record, and those of tonight."""
        past = site_record.runs_at(self.case.partition)
        return node_watch.watch(past, tonight)


def keep_switches(folder):
    """Keep the leaf switch of each node, as far as Slurm knows one."""
    lines = [
        f"{node} {field(line, 'SwitchName')}"
        for line in scontrol("topology")
        if field(line, "Level") == "0"
        for node in ask("scontrol", "show", "hostnames", field(line, "Nodes"))
    ]
    if lines:
        (folder / slow_node.SWITCHES).write_text("\n".join([*lines, ""]), "utf-8")
