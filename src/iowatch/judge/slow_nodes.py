"""Slow nodes: each node beside those that were measured with it, run after run.

A node's value in a run is the logarithm of its rate over the median of its peers, so that what all
of them meet together cancels. Its score is the normal one of its rank among values of nodes that
are well. A healthy node may have slow spells: how long they last is learnt from the scores of all
nodes, and a run counts by what it adds to the runs before it. A chart of each node, and of each
switch, weighs a lasting loss against such spells.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from statistics import NormalDist, fmean, median


@dataclass(frozen=True)
class NodeSettings:
    """The thresholds of a slow node, tuned by what `make detector-bench` measures."""

    #: Nodes that are compared with one another, at least.
    peers: int = 4
    #: The smallest spread of values that are alike.
    min_spread: float = 0.05
    #: Values whose ranks make scores. With fewer, Student's t makes them; the last are kept, ten
    #: times as many.
    enough: int = 300
    #: The correlation of a node's scores on two nights in a row, until so many pairs say more.
    lasting: float = 0.25
    pairs: int = 60
    #: The smallest loss that a chart looks for, in standard deviations of a score.
    shift: float = 1.5
    #: A night of other checks' runs has this part of a run's weight.
    of_others: float = 0.5
    #: ln of the likelihood of a loss over that of none, above which a node is due next, at which it
    #: is suspect and measured again the same night, and at which it is named.
    due: float = 1.0
    suspect: float = 2.5
    limit: float = 6.5
    #: Nights that a name takes at least.
    nights: int = 2
    #: A named node is below this part of its peers, even at the upper end of its interval.
    slow: float = 0.9
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

    def __init__(self) -> None:
        self._values = deque[tuple[str, float]](maxlen=10 * NODES.enough)
        self._sorted = list[float]()
        self._of = dict[str, list[float]]()
        self.spread = math.inf

    def add(self, values: Iterable[tuple[str, float]]) -> None:
        self._values.extend(values)
        self._sorted = sorted(value for _, value in self._values)
        self.spread = _spread([abs(value) for value in self._sorted])
        self._of = {}
        for node, value in self._values:
            self._of.setdefault(node, []).append(value)

    def score(self, node: str, value: float) -> float:
        """The normal score of a value by its rank among the others' values."""
        mine = self._of.get(node, ())
        count = len(self._sorted) - len(mine)
        if count >= NODES.enough:
            lower = bisect_right(self._sorted, value) - sum(other <= value for other in mine)
            return NormalDist().inv_cdf((0.5 + lower) / (1 + count))
        sizes = [abs(other) for name, other in self._values if name != node]
        return NormalDist().inv_cdf(_tail(value / _spread(sizes)))


def _spread(sizes: list[float]) -> float:
    if not sizes:
        return math.inf
    return max(1.4826 * median(sizes), NODES.min_spread) * (1 + 4 / len(sizes))


def _tail(score: float) -> float:
    """The part of Student's t with three degrees of freedom below a value: tails are long."""
    x = score / math.sqrt(3)
    return min(max(1e-4, 0.5 + (x / (1 + x * x) + math.atan(x)) / math.pi), 1 - 1e-4)


class _Likeness:
    """How alike a node's scores are: the regression of the later of two on the earlier, by pairs of
    all nodes. An earlier score that is far out may be a slow node's, and tells nothing."""

    def __init__(self) -> None:
        self._products = self._squares = 0.0

    def add(self, earlier: float, later: float) -> None:
        if abs(earlier) < 1.5:
            self._products += earlier * later
            self._squares += earlier * earlier

    def part(self, usual: float) -> float:
        """The correlation; the usual one counts like so many pairs."""
        part = (self._products + NODES.pairs * usual) / (self._squares + NODES.pairs)
        return min(max(part, 0.05), 0.95)


#: The correlation of a node's scores in one night, and on two nights in a row.
_Alike = tuple[float, float]


@dataclass(frozen=True)
class _Observed:
    """The mean of a node's values in a run, of their scores, and of what such values spread by."""

    value: float
    score: float
    spread: float


@dataclass(slots=True)
class _Chart:
    """The chart of one node, or switch, since the last time that nothing was held against it."""

    values: list[float] = field(default_factory=list)
    spread: float = 0.0  # of one value of a node that is well
    since: str = ""
    began: int = 0  # the number of the first night since then
    night: int = 0  # of the last
    is_named: bool = False
    well: int = 0
    score: float = 0.0  # the last
    #: What the scores so far say of the next: its mean, and the variance of that; and which part of
    #: a loss since then they have told already.
    expected: float = 0.0
    variance: float = 1.0
    told: float = 0.0
    #: The sum of what is held against it, and of the weights of the runs.
    against: float = 0.0
    weight: float = 0.0
    info: float = 0.0  # independent runs that would tell as much as the values but for the first

    @property
    def level(self) -> float:
        """ln of the likelihood of the likeliest loss over that of none."""
        shift = max(NODES.shift, self.against / self.weight) if self.weight else 0.0
        return shift * (self.against - shift * self.weight / 2)

    def add(
        self, night: str, number: int, observed: _Observed, weight: float, alike: _Alike
    ) -> None:
        share = self._expect(number, observed.score, weight, alike)
        self.night, self.score = number, observed.score
        if self.is_named:
            is_well = observed.value > self.estimate()[0] / 2
            self.well = self.well + 1 if is_well else 0
            self.is_named = self.well < NODES.recovered
        if not self.is_named and (self.well or self.against <= NODES.shift / 2 * self.weight):
            self.values, self.spread, self.since, self.well = [], 0.0, "", 0
            self.told = self.against = self.weight = self.info = 0.0
            return
        if not self.since:
            self.since, self.began = night, number
        self.spread = max(observed.spread, self.spread)
        self.info = share**2 + (self.info if len(self.values) > 1 else 0.0)
        self.values = [*self.values[-99:], observed.value]
        is_slow = self.estimate()[2] < math.log(NODES.slow)
        is_long = number - self.began + 1 >= NODES.nights
        self.is_named |= self.level > NODES.limit and is_slow and is_long

    def _expect(self, number: int, score: float, weight: float, alike: _Alike) -> float:
        """Add what is new in a score, as a Kalman filter does, and return what part of a loss it
        would tell anew, in standard deviations."""
        within, between = alike
        kept = min(between / within, 0.99) ** (number - self.night)
        self.expected, self.told = kept * self.expected, kept * self.told
        self.variance = within + kept * kept * (self.variance - within)
        deviation = math.sqrt(self.variance + 1 - within)
        error, share = (score - self.expected) / deviation, (1 - self.told) / deviation
        gain = self.variance / deviation
        self.expected += gain * error
        self.told += gain * share
        self.variance -= gain * gain
        self.against -= weight * share * error
        self.weight += weight * share * share
        return share

    def estimate(self) -> tuple[float, float, float]:
        """The median of the values but for the first, which is here because it was low; and the
        ends of its interval."""
        middle = median(self.values[1:] or self.values)
        error = 2 * self.spread / math.sqrt(self.info)  # for 95 %
        return middle, middle - error, middle + error


class NodeWatch:
    """The charts of all nodes of a partition, to which runs are added in the order of time."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}  # the last night of each node
        self._night, self._number = "", 0
        self._switch_of: dict[str, str] = {}
        self._kinds: dict[str, _Usual] = {}
        self._nodes: dict[str, _Chart] = {}
        self._switches: dict[str, _Chart] = {}
        self._within = _Likeness()
        self._between = _Likeness()

    def add(
        self,
        night: str,
        comparisons: Iterable[PeerRatios],
        switches: Mapping[str, str] | None = None,
    ) -> None:
        """Add a run on single nodes; `switches` has the switch of each node that is known."""
        self._begin(night)
        self._switch_of.update(switches or {})
        by_kind = _by_kind(comparisons, NODES.peers)
        values = dict[str, dict[str, float]]()  # of each node, by kind
        for kind, of_kind in by_kind.items():
            for node, value in of_kind.items():
                values.setdefault(node, {})[kind] = value
            self._usual(kind).add(self._at_rest(of_kind))
        # After the first run of a night, runs count only for nodes in doubt: with every node
        # measured again and again, one bad night would name a healthy one.
        again = {node for node in values if self.seen.get(node) == night}
        at_rest = {node for node in again if not self._is_above(node, NODES.due)}
        self.seen.update(dict.fromkeys(values, night))
        together = dict[str, dict[str, float]]()
        for node, of_node in values.items():
            weights = {kind: 1 / self._usual(kind).spread ** 2 for kind in of_node}
            value = sum(weights[kind] * of_node[kind] for kind in of_node) / sum(weights.values())
            together.setdefault(" + ".join(sorted(of_node)), {})[node] = value
        self._score(night, together, 1.0, at_rest)

    def add_others(self, night: str, comparisons: Iterable[PeerRatios]) -> None:
        """Add what all runs of other checks in a night say of their nodes."""
        self._begin(night)
        self._score(night, _by_kind(comparisons, NODES.peers), NODES.of_others)

    def _begin(self, night: str) -> None:
        self._number += night != self._night
        self._night = night

    def _usual(self, kind: str) -> _Usual:
        return self._kinds.setdefault(kind, _Usual())

    def _at_rest(self, values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """The values of nodes that were not suspect before."""
        return ((n, v) for n, v in values.items() if not self._is_above(n, NODES.suspect))

    def _is_above(self, node: str, level: float) -> bool:
        chart = self._nodes.get(node)
        return bool(chart and (chart.is_named or chart.level > level))

    def _score(
        self,
        night: str,
        kinds: Mapping[str, Mapping[str, float]],
        weight: float,
        at_rest: Collection[str] = (),
    ) -> None:
        several = dict[str, list[tuple[float, float, float]]]()
        for kind, of_kind in kinds.items():
            usual = self._usual(kind)
            usual.add(self._at_rest(of_kind))
            for node, value in of_kind.items():
                several.setdefault(node, []).append((value, usual.score(node, value), usual.spread))
        observed = {
            node: _Observed(*map(fmean, zip(*values, strict=True)))
            for node, values in several.items()
        }
        for node, of_node in observed.items():
            chart = self._nodes.setdefault(node, _Chart())
            if not chart.is_named and chart.night == self._number:
                self._within.add(chart.score, of_node.score)
            elif not chart.is_named and 0 < chart.night == self._number - 1:
                self._between.add(chart.score, of_node.score)
        between = self._between.part(NODES.lasting)
        alike = self._within.part(math.sqrt(between)), between
        below = dict[str, list[_Observed]]()
        for node, of_node in observed.items():
            if node not in at_rest:
                self._nodes[node].add(night, self._number, of_node, weight, alike)
            if switch := self._switch_of.get(node):
                below.setdefault(switch, []).append(of_node)
        for switch, there in below.items():
            if 2 <= len(there) <= len(observed) / 2:
                columns = zip(*map(astuple, there), strict=True)
                chart = self._switches.setdefault(switch, _Chart())
                of_all = _Observed(*map(median, columns))
                chart.add(night, self._number, of_all, weight, alike)

    def doubted(self) -> list[str]:
        """The nodes that are to be measured next, those that most is held against first."""
        charts = self._nodes
        names = [name for name in charts if self._is_above(name, NODES.due)]
        return sorted(names, key=lambda name: -charts[name].level)

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
        for name, chart in charts.items():
            if not chart.values or self._number - chart.night >= NODES.unseen:
                continue
            ratio, low, high = (math.exp(end) for end in chart.estimate())
            if chart.is_named or (chart.level > NODES.suspect and ratio < NODES.slow):
                runs = len(chart.values)
                yield SlowUnit(name, ratio, low, high, chart.since, runs, chart.is_named)

    def _with_nodes(self, switch: SlowUnit) -> SlowUnit | None:
        """The switch with its nodes, if all that were measured are slow; None: some are not."""
        nodes = [node for node, name in self._switch_of.items() if name == switch.name]
        charts = {node: self._nodes[node] for node in nodes if node in self._nodes}
        half = math.log(switch.ratio) / 2
        slow = [
            node for node, chart in charts.items() if chart.values and chart.estimate()[0] < half
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
    nodes: Collection[str], seen: Mapping[str, str], doubted: Iterable[str], count: int, night: str
) -> list[str]:
    """The nodes to measure in a run: those in doubt first, but no more than a half, and then those
    that nobody has measured for longest; chance decides among equals, so that groups rotate."""

    def chance(node: str) -> bytes:
        return hashlib.sha256(f"{night} {node}".encode()).digest()

    first = [node for node in doubted if node in nodes][: count // 2]
    chosen = {*first}
    rest = [node for node in nodes if node not in chosen]
    rest.sort(key=lambda node: (seen.get(node, ""), chance(node)))
    return [*first, *rest][:count]
