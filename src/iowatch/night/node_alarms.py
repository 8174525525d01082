"""Slow nodes: each beside its peers, and those on which every case is slow."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from iowatch.cases.run import began
from iowatch.cases.verdict import SLOWER, SUSPECT, State
from iowatch.judge import node_watch
from iowatch.judge.explain import Layer
from iowatch.judge.settings import NORMAL
from iowatch.night.alarm import Alarm
from iowatch.night.case_night import MAX_INVALID, CaseNight

_SOME = 2  # cases, at least, that were well on the nodes beside those that are named
_NODES = 2  # named at most: of more, nobody can say which


def single_nodes(row: CaseNight, rows: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Each node, or switch, that is slower than its peers by all runs of a partition; each node
    that has failed tonight; and those together that are only suspect."""
    there = [other for other in rows if other.case.partition == row.case.partition]
    runs = (run for r in there for night in (*r.earlier.values(), r.runs) for run in night)
    slow, name = node_watch.watch(runs).slow(), row.last.filesystem
    lost = {n: why for run in row.runs for n, why in run.by_node.get("lost", {}).items()}
    red = frozenset({row.case} if row.outcome.is_alarm else ())
    for node, why in lost.items():
        words = f"failed beside nodes that did not: {why}"
        yield Alarm(
            f"node {node} of {name}", node_watch.SLOW, words, [row], red,
            since=row.runs[0].time, layer=Layer.NODE, extent="failed", command=_drain(node),
        )  # fmt: skip
    for unit in slow:
        if unit.is_named and unit.name not in lost:
            yield Alarm(
                f"{unit.subject} of {name}", node_watch.SLOW, unit.words, [row], red,
                since=began(unit.since), layer=Layer.NODE, extent=unit.extent,
                command="" if unit.nodes else _drain(unit.name),
            )  # fmt: skip
    if suspects := [unit for unit in slow if not unit.is_named]:
        more = max(0, NORMAL.max_reruns + 1 - row.measured_runs)
        at = row.runs[-1].time + NORMAL.rerun_after
        is_due = more and row.failed_runs <= MAX_INVALID
        yield Alarm(
            f"nodes of {name}", node_watch.SUSPECT,
            "; ".join(node_watch.in_words(unit) for unit in suspects), [row],
            due={row.case: at} if is_due else {}, since=began(min(unit.since for unit in suspects)),
            layer=Layer.NODE, extent=f"({State.SUSPECT})",
        )  # fmt: skip


def _drain(node: str) -> str:
    return f"scontrol update nodename={shlex.quote(node)} state=drain reason='slow I/O'"


def shared_nodes(rows: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Nodes on which every case is slow, while no other case of the same filesystems is."""
    slow = [row for row in rows if row.is_low]
    places = {row.last.filesystem for row in slow}
    well = [row for row in rows if row not in slow and row.last.filesystem in places]
    if len(slow) < _SOME or len(well) < _SOME:
        return
    nodes = set.intersection(*map(_hosts, slow)).difference(*map(_hosts, well))
    if not 0 < len(nodes) <= _NODES:
        return
    names = " and ".join(sorted(nodes))
    words = f"the {len(slow)} cases that ran there are slow tonight, and none of the {len(well)} "
    words += "that ran elsewhere on the same filesystem: the node, not the filesystem"
    red = frozenset(row.case for row in slow if row.outcome.is_alarm)
    yield Alarm(f"node {names}", SLOWER if red else SUSPECT, words, slow, red, layer=Layer.NODE)


def _hosts(row: CaseNight) -> set[str]:
    return set(row.last.provenance.get("hosts", "").split())
