"""Each node beside its peers: in groups that write and read at once, and in a turn alone.

Which nodes of a partition are slow is told by all runs on record, those of other checks as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from types import MappingProxyType
from typing import ClassVar

from iowatch.base.text import counted
from iowatch.cases.case import WARMUPS, Case
from iowatch.cases.metric import RATE_BOUND, STABLE, TOTALS, Metrics
from iowatch.cases.parameters import (
    LAYOUT,
    LOCAL_SIZE,
    POOL,
    RANKS,
    READ_EXISTING,
    STRIPE_COUNT,
    STRIPE_SIZE,
    WRITE_KEEP,
)
from iowatch.cases.verdict import Reason
from iowatch.measure.job_folder import lines_of
from iowatch.measure.kinds.array import ArrayKind
from iowatch.measure.kinds.kind import ratio_metrics
from iowatch.measure.law import Job, require_hosts, verified
from iowatch.measure.measured import Measured, node_rates, rate_metrics
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, Result

#: Files that a job leaves: its nodes, each start of benchio that ended well with its number of
#: nodes, the nodes that failed with the reason, and the switch of each node.
NODES_FILE, STARTS, LOST_FILE, SWITCHES = "nodes", "starts", "lost", "switches"
CHOSEN = "chosen"  # why Slurm chose the nodes
GROUP = 32  # nodes that write at once, at most: benchio lists no more than 64
#: The rate of the slowest node over the median of its peers.
NODE_RATIO: Mapping[str, str] = MappingProxyType(
    {"write": "slowest_node_ratio", "read": "slowest_node_read_ratio"}
)
_RATIOS = ratio_metrics(NODE_RATIO, "The {} rate of the slowest node over its peers' median.")
METRICS: Metrics = MappingProxyType({**TOTALS, **STABLE, **_RATIOS})


@dataclass(frozen=True, eq=False, kw_only=True)
class SlowNodeKind(ArrayKind):
    """benchio's array on groups of nodes, and on one node after the other."""

    by_node: ClassVar[bool] = True

    def bytes_written(self, case: Case, targets: int) -> int:
        return (self.repeats + 1) * (1 + WARMUPS) * self.bytes_of(case)

    def alone(self, case: Case) -> list[str]:
        """benchio's options of one node that writes alone, and keeps what it writes."""
        operations = f"--operation {','.join(self.operations)}"
        options = self.command_line(case)
        return [f"--operation {WRITE_KEEP}" if o == operations else o for o in options]

    def read(self, job: Job, repeats: int) -> Measured:
        """InvalidResult besides if a node had no part in a round, or if most nodes have failed."""
        nodes = sorted(set(lines_of(job.folder, NODES_FILE)))
        lost = dict(line.split(" ", 1) for line in lines_of(job.folder, LOST_FILE))
        require_hosts(nodes, job.nodes)
        if 2 * len(lost) > len(nodes):
            raise InvalidResult("; ".join(void_nodes(lost)), Reason.IO_ERROR)
        starts = {
            name: int(count)
            for name, count in (line.split() for line in lines_of(job.folder, STARTS))
        }
        together = list[Result]()
        for number in range(1, repeats + 1):
            results = [
                verified(_part(job, count), name, 1)
                for name, count in starts.items()
                if name.startswith(f"result.{number}.")
            ]
            together += results
            there = [host for result in results for host in result.run["hosts"]]
            if len(there) < len(nodes) - len(lost) or len(there) > len(set(there)):
                raise InvalidResult(f"round {number} has {counted(len(there), 'node')} of "
                                    f"{len(nodes)}")  # fmt: skip
        if not together:
            raise InvalidResult("no group of nodes was measured", Reason.NO_OUTPUT)
        ratios = _by_kind(together, "together") | _by_kind(_alone(job, starts), "alone")
        switch_of = dict(line.split() for line in lines_of(job.folder, SWITCHES))
        return Measured(
            metrics=rate_metrics([r.rates for res in together for r in res.sound[0].repetitions])
            | {
                name: min(ratios[f"together {operation}"].values())
                for operation, name in NODE_RATIO.items()
            },
            results=together,
            provenance=provenance(together[-1]) | {"hosts": " ".join(nodes)},
            notes=[*lines_of(job.folder, CHOSEN), *void_nodes(lost)],
            by_node={
                "ratios": ratios,
                "switches": {n: switch_of[n] for n in map(short, nodes) if n in switch_of},
                "lost": lost,
            },
        )


def _part(job: Job, nodes: int) -> Job:
    """The job of one start, on so many of its nodes."""
    ranks = job.case.ranks // job.nodes * nodes
    given = tuple(
        (name, ranks if name == RANKS.name else value) for name, value in job.case.parameters
    )
    return replace(job, case=replace(job.case, parameters=given), nodes=nodes)


def _alone(job: Job, starts: Mapping[str, int]) -> list[Result]:
    """The turns of single nodes, each of which reads what another one has written."""
    results = []
    for name, count in starts.items():
        _, kind, turn, _ = name.split(".")
        if kind in ("alone", "read"):
            operation = WRITE_KEEP if kind == "alone" else READ_EXISTING
            result = verified(_part(job, count), name, 1, operations=[operation])
            if kind == "read" and result.existing != f"{job.run_id}-alone-{turn}":
                raise InvalidResult(f"{name} has read files of the run {result.existing}")
            results.append(result)
    return results


def _by_kind(results: Sequence[Result], how: str) -> dict[str, dict[str, float]]:
    """The rate of each node over the median of its peers, by what they did.

    Nodes of one start are peers. Nodes that took turns alone are peers of one another.
    """
    ratios = dict[str, dict[str, list[float]]]()
    for operation in NODE_RATIO:
        rates = [node_rates(result, operation) for result in results]
        if how == "alone":
            rates = [{node: rate for of_turn in rates for node, rate in of_turn.items()}]
        for beside in rates:
            middle = median(beside.values()) if beside else 0.0
            for node, rate in beside.items():
                of_kind = ratios.setdefault(f"{how} {operation}", {})
                of_kind.setdefault(node, []).append(rate / middle)
    return {
        kind: {
            node: round(math.exp(fmean(map(math.log, several))), 4)
            for node, several in of_kind.items()
        }
        for kind, of_kind in ratios.items()
    }


def short(host: str) -> str:
    """The name of a host without its domain, as Slurm has it."""
    return host.partition(".")[0]


def void_nodes(lost: Mapping[str, str]) -> list[str]:
    """A sentence on each node that has failed."""
    return [f"node {node} failed: {why}" for node, why in lost.items()]


# All runs on record


SLOW_NODE = SlowNodeKind(
    name="SlowNode",
    short="each node",
    reads_too=True,
    parameters=(LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, LOCAL_SIZE, RANKS),
    fixed={"files": "process", "backend": "posix"},
    metrics=METRICS,
    repeats=3,
    bounds=RATE_BOUND,
    bounds_comment="Only that something moved: the nights tell which node is slow.",
)
