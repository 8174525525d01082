"""Slow nodes: each node beside those that were measured with it, run after run.

A node's value in a run is the logarithm of its rate over the median of its peers, so that what all
of them meet together cancels. What counts is how rare such a value is among nodes that are well. A
chart of each node, and of each switch, adds that up over runs and nights.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev


@dataclass(frozen=True)
class NodeSettings:
    """The thresholds of a slow node, tuned by what `make detector-bench` measures."""

    #: Nodes that are compared with one another, at least.
    peers: int = 4
    #: The smallest spread of values that are alike.
    min_spread: float = 0.05
    #: The last values, which tell how rare a value is.
    kept: int = 3000
    #: With fewer, Student's t tells it.
    enough: int = 300
    #: A run adds -ln(p) to a chart, this at most, and takes away the slack.
    most: float = 6.0
    slack: float = 2.0
    #: A night of other checks' runs adds this part of their mean.
    of_others: float = 0.5
    #: The level of a chart at which a node is measured again, and at which it is named.
    suspect: float = 3.5
    limit: float = 12.0
    #: Nights that a name takes at least: those of one night meet the same contention.
    nights: int = 2
    #: A named node is below this part of its peers, even at the upper end of its interval.
    slow: float = 0.9
    #: Standard errors on either side of an estimate.
    errors: float = 2.0
    #: Runs in a row that are well, after which a named node is named no more.
    recovered: int = 3
    #: A node stays named for so many nights without a measurement.
    unseen: int = 7


NODES = NodeSettings()


@dataclass(frozen=True)
class PeerRatios:
    """Nodes that were measured beside one another."""

    kind: str  # what each of them did
    ratios: Mapping[str, float]  # the rate of each over the median of all


@dataclass(frozen=True)
class SlowUnit:
    """A node, or all nodes below a switch, slower than the rest."""

    name: str
    ratio: float  # to the peers, with its interval
    low: float
    high: float
    since: str  # the night
    runs: int
    is_named: bool  # else it is only suspect
    nodes: tuple[str, ...] = ()  # of a switch

    @property
    def subject(self) -> str:
        return f"{'switch' if self.nodes else 'node'} {self.name}"

    @property
    def extent(self) -> str:
        """Where it is: `at 0.52 of its peers [0.45-0.60]`."""
        return f"at {self.ratio:.2f} of its peers [{self.low:.2f}-{self.high:.2f}]"

    @property
    def words(self) -> str:
        """The same, since when, by how many runs, and which nodes a switch has."""
        runs = f"{self.runs} run{'s' if self.runs > 1 else ''}"
        below = f": all {len(self.nodes)} nodes below it are slow" if self.nodes else ""
        return f"{self.extent} since {self.since[:10]}, by {runs}{below}"


class _Usual:
    """The values of one kind, of nodes that were well before."""

    def __init__(self, limits: NodeSettings) -> None:
        self._limits = limits
        self._values = deque[tuple[str, float]](maxlen=limits.kept)
        self._sorted = list[float]()
        self._of = dict[str, list[float]]()
        self.spread = math.inf

    def add(self, values: Iterable[tuple[str, float]]) -> None:
        self._values.extend(values)
        self._sorted = sorted(value for _, value in self._values)
        self.spread = self._spread([abs(value) for value in self._sorted])
        self._of = {}
        for node, value in self._values:
            self._of.setdefault(node, []).append(value)

    def _spread(self, sizes: list[float]) -> float:
        if not sizes:
            return math.inf
        return max(1.4826 * median(sizes), self._limits.min_spread) * (1 + 4 / len(sizes))

    def rarity(self, node: str, value: float) -> float:
        """How rare a value as low as this is: -ln of its part among the others' values."""
        mine = self._of.get(node, ())
        count = len(self._sorted) - len(mine)
        if count >= self._limits.enough:
            lower = bisect_right(self._sorted, value) - sum(other <= value for other in mine)
            return -math.log((1 + lower) / (1 + count))
        sizes = [abs(other) for name, other in self._values if name != node]
        return -math.log(_tail(value / self._spread(sizes)))


def _tail(score: float) -> float:
    """The part of Student's t with three degrees of freedom below a value: tails are long."""
    x = score / math.sqrt(3)
    return max(1e-9, 0.5 + (x / (1 + x * x) + math.atan(x)) / math.pi)


@dataclass(slots=True)
class _Chart:
    """The chart of one node, or switch, with its values since the level was 0."""

    level: float = 0.0
    values: list[float] = field(default_factory=list)
    spread: float = 0.0  # of one value of a node that is well
    since: str = ""
    began: int = 0  # the number of the first night since then
    night: int = 0  # of the last
    is_named: bool = False
    well: int = 0

    def add(
        self, night: str, number: int, value: float, score: float, spread: float,
        limits: NodeSettings,
    ) -> None:  # fmt: skip
        self.night = number
        self.level += score
        if self.is_named:
            is_well = value > self.estimate(limits)[0] / 2
            self.well = self.well + 1 if is_well else 0
            if self.well >= limits.recovered:
                self.level, self.is_named = 0.0, False
            else:
                self.level = max(self.level, limits.limit)
        if self.level <= 0:
            self.level, self.values, self.since, self.well = 0.0, [], "", 0
            return
        self.level = min(self.level, 2 * limits.limit)
        if not self.since:
            self.since, self.began = night, number
        self.spread = max(spread, self.spread)
        self.values = [*self.values[-99:], value]
        is_slow = self.estimate(limits)[2] < math.log(limits.slow)
        is_long = number - self.began + 1 >= limits.nights
        is_sure = self.level > limits.limit and is_slow and is_long
        self.is_named = self.is_named or is_sure

    def estimate(self, limits: NodeSettings) -> tuple[float, float, float]:
        """The mean of the values but for the first, which is here because it was low; and the ends
        of its interval."""
        values = self.values[1:] or self.values
        count, mean = len(values), fmean(values)
        spread = max(self.spread, stdev(values)) if count > 1 else self.spread
        # The values of one node are not independent: a half of what they vary by is shared.
        error = limits.errors * spread * math.sqrt(0.5 / count + 0.5 / math.sqrt(count))
        return mean, mean - error, mean + error


class NodeWatch:
    """The charts of all nodes of a partition, to which runs are added in the order of time."""

    def __init__(self, limits: NodeSettings = NODES) -> None:
        self.limits = limits
        self.seen: dict[str, str] = {}  # the last night of each node
        self._night, self._number = "", 0
        self._switch_of: dict[str, str] = {}
        self._kinds: dict[str, _Usual] = {}
        self._nodes: dict[str, _Chart] = {}
        self._switches: dict[str, _Chart] = {}

    def add(
        self,
        night: str,
        comparisons: Iterable[PeerRatios],
        switches: Mapping[str, str] | None = None,
    ) -> None:
        """Add a run on single nodes; `switches` has the switch of each node that is known."""
        self._begin(night)
        self._switch_of.update(switches or {})
        by_kind = _by_kind(comparisons, self.limits.peers)
        values = dict[str, dict[str, float]]()  # of each node, by kind
        for kind, of_kind in by_kind.items():
            for node, value in of_kind.items():
                values.setdefault(node, {})[kind] = value
            self._usual(kind).add(self._at_rest(of_kind))
        self.seen.update(dict.fromkeys(values, night))
        together = dict[str, dict[str, float]]()
        for node, of_node in values.items():
            weights = {kind: 1 / self._usual(kind).spread ** 2 for kind in of_node}
            value = sum(weights[kind] * of_node[kind] for kind in of_node) / sum(weights.values())
            together.setdefault(" + ".join(sorted(of_node)), {})[node] = value
        self._score(night, together, 1.0)

    def add_others(self, night: str, comparisons: Iterable[PeerRatios]) -> None:
        """Add what all runs of other checks in a night say of their nodes."""
        self._begin(night)
        self._score(night, _by_kind(comparisons, self.limits.peers), self.limits.of_others)

    def _begin(self, night: str) -> None:
        self._number += night != self._night
        self._night = night

    def _usual(self, kind: str) -> _Usual:
        return self._kinds.setdefault(kind, _Usual(self.limits))

    def _at_rest(self, values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """The values of nodes that nothing was held against before."""
        charts = self._nodes
        return ((n, value) for n, value in values.items() if n not in charts or not charts[n].level)

    def _score(self, night: str, kinds: Mapping[str, Mapping[str, float]], part: float) -> None:
        limits = self.limits
        scores = dict[str, list[tuple[float, float, float]]]()
        for kind, of_kind in kinds.items():
            usual = self._usual(kind)
            usual.add(self._at_rest(of_kind))
            for node, value in of_kind.items():
                score = min(usual.rarity(node, value), limits.most) - limits.slack
                scores.setdefault(node, []).append((value, score, usual.spread))
        together = dict[str, tuple[float, float, float]]()
        for node, several in scores.items():
            value, score, spread = (fmean(column) for column in zip(*several, strict=True))
            together[node] = value, part * score, spread
            chart = self._nodes.setdefault(node, _Chart())
            chart.add(night, self._number, *together[node], limits)
        self._add_switches(night, together)

    def _add_switches(self, night: str, nodes: Mapping[str, tuple[float, float, float]]) -> None:
        below = dict[str, list[tuple[float, float, float]]]()
        for node, of_node in nodes.items():
            if switch := self._switch_of.get(node):
                below.setdefault(switch, []).append(of_node)
        for switch, values in below.items():
            if 2 <= len(values) <= len(nodes) / 2:
                chart = self._switches.setdefault(switch, _Chart())
                value, score, spread = (median(column) for column in zip(*values, strict=True))
                chart.add(night, self._number, value, score, spread, self.limits)

    def slow(self) -> list[SlowUnit]:
        """The switches and nodes that are slow, named before suspect, the slowest first."""
        switches = [self._with_nodes(switch) for switch in self._slow(self._switches)]
        whole = [switch for switch in switches if switch and switch.is_named]
        switch_of = {node: switch for switch in whole for node in switch.nodes}
        nodes = [
            unit
            for unit in self._slow(self._nodes)
            # Beside its switch, only what is much slower than that.
            if unit.name not in switch_of or unit.high < 0.7 * switch_of[unit.name].low
        ]
        return sorted([*whole, *nodes], key=lambda unit: (not unit.is_named, unit.ratio))

    def _slow(self, charts: Mapping[str, _Chart]) -> Iterator[SlowUnit]:
        limits = self.limits
        for name, chart in charts.items():
            if not chart.values or self._number - chart.night >= limits.unseen:
                continue
            if chart.is_named or chart.level > limits.suspect:
                ratio, low, high = (math.exp(end) for end in chart.estimate(limits))
                runs = len(chart.values)
                yield SlowUnit(name, ratio, low, high, chart.since, runs, chart.is_named)

    def _with_nodes(self, switch: SlowUnit) -> SlowUnit | None:
        """The switch with its nodes, if all that were measured are slow; None: some are not."""
        nodes = [node for node, name in self._switch_of.items() if name == switch.name]
        charts = {node: self._nodes[node] for node in nodes if node in self._nodes}
        half = math.log(switch.ratio) / 2
        slow = [
            node
            for node, chart in charts.items()
            if chart.values and chart.estimate(self.limits)[0] < half
        ]
        if len(slow) < 2 or len(slow) < len(charts):
            return None
        return replace(switch, nodes=tuple(sorted(slow)))


def _by_kind(comparisons: Iterable[PeerRatios], peers: int) -> dict[str, dict[str, float]]:
    """The value of each node by kind: the mean of several comparisons."""
    several = dict[str, dict[str, list[float]]]()
    for comparison in comparisons:
        if len(comparison.ratios) >= peers:
            of_kind = several.setdefault(comparison.kind, {})
            for node, ratio in comparison.ratios.items():
                of_kind.setdefault(node, []).append(math.log(max(ratio, 1e-6)))
    return {
        kind: {node: fmean(values) for node, values in of_kind.items()}
        for kind, of_kind in several.items()
    }


def due(
    nodes: Collection[str], seen: Mapping[str, str], slow: Collection[str], count: int, night: str
) -> list[str]:
    """The nodes to measure in a run: slow ones first, but no more than a half, and then those that
    nobody has measured for longest; chance decides among equals, so that groups rotate."""

    def chance(node: str) -> bytes:
        return hashlib.sha256(f"{night} {node}".encode()).digest()

    first = sorted((node for node in slow if node in nodes), key=chance)[: count // 2]
    chosen = {*first}
    rest = [node for node in nodes if node not in chosen]
    rest.sort(key=lambda node: (seen.get(node, ""), chance(node)))
    return [*first, *rest][:count]
