"""Nodes of a partition that are slow, told by all runs on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from iowatch.cases.case import Case
from iowatch.cases.run import ByNode, Run
from iowatch.cases.verdict import Outcome, Reason, State, Verdict
from iowatch.judge.slow_nodes import NodeWatch, PeerRatios, SlowUnit
from iowatch.measure.kinds.slow_node import NODE_RATIO, short, void_nodes

SLOW = Outcome(State.REGRESSION, Reason.SLOW_NODE)
SUSPECT = Outcome(State.SUSPECT, Reason.SLOW_NODE)


@dataclass(frozen=True)
class Tonight:
    """A run that is not on record yet."""

    case: Case
    night: str
    by_node: ByNode


def watch(runs: Iterable[Run], tonight: Iterable[Tonight] = ()) -> NodeWatch:
    """The charts of all nodes that these runs, of one partition, have measured; runs by hand are a
    night of their own."""
    past = sorted((run for run in runs if run.is_measured and run.by_node), key=attrgetter("time"))
    nights = [run.night or f"{run.time:%Y-%m-%dT%H%M%S}" for run in past]
    of_past = map(Tonight, (run.case for run in past), nights, (run.by_node for run in past))
    charts, others, night = NodeWatch(), list[PeerRatios](), ""
    for run in (*of_past, *tonight):
        if run.night != night:
            charts.add_others(night, others)
            night, others = run.night, []
        compared = [
            PeerRatios(
                kind if run.case.check.by_node else f"{run.case} {kind}",
                {short(host): ratio for host, ratio in ratios.items()},
            )
            for kind, ratios in run.by_node.get("ratios", {}).items()
        ]
        if run.case.check.by_node:
            charts.add(night, compared, run.by_node.get("switches"))
        else:
            others += compared
    charts.add_others(night, others)
    return charts


def in_words(unit: SlowUnit) -> str:
    """Say `node nid0042 at 0.52 of its peers [0.45-0.60] since 2026-11-20, by 4 runs`."""
    doubt = "" if unit.is_named else ", which more runs must confirm"
    return f"{unit.subject} {unit.words}{doubt}"


def judged(charts: NodeWatch, lost: Mapping[str, str], verdict: Verdict) -> Verdict:
    """The verdict on a run on single nodes: this one, or what is worse of its nodes."""
    slow = charts.slow()
    named = [in_words(unit) for unit in slow if unit.is_named]
    words = [*void_nodes(lost), *named]
    outcome = SLOW if words else SUSPECT
    words = words or [in_words(unit) for unit in slow]
    if not words:
        return verdict
    sentence = "; ".join(words)
    if verdict.outcome.rank < outcome.rank:
        return replace(verdict, sentence=f"{verdict.sentence}; {sentence}")
    return Verdict(outcome, sentence, failed=(NODE_RATIO["write"],) if outcome is SLOW else ())
