"""The watch over nodes on a simulated partition: who is named, how soon, and how well.

usage: detector_nodes.py [--write] [--smallest]

A rate is that of detector_model.py: ln MiB/s = q(Phi(sqrt(ICC) z + sqrt(1 - ICC) e)), of one of
its 22 cases. A part of z is the same for all nodes of a run. The rest is a node's own and lasts
for nights, with the model's rho; a re-run's has the correlation `rerun` with its night's. The z of
a node's read has the correlation `control` with that of its write, and that of its turn alone
`rerun`.
"""

import argparse
import math
from dataclasses import dataclass, replace
from multiprocessing import Pool

import numpy as np
from detector import header, row, shown, write
from detector_model import _Z, MAIN, PESSIMISTIC, RUNS, Model, quantiles
from detector_trials import CASES, NEVER

from iowatch.judge.slow_nodes import NodeWatch, PeerRatios, due

NODES = 1000
SMALL = 250  # of a partition with slow nodes
FEW = 24  # of a partition that is measured whole each night
GROUP = 32  # nodes at once, at most
ROUNDS = 3
WARM_UP = 10  # nights before the fault
SLOW = 8  # nodes that become slow
WITHIN = (1, 3, 5, 7, 14)
LEFT = (0.5, 0.7, 0.8)
#: The spread of a case's values, between which limits it is.
SPREADS = ((0, 0.1), (0.1, 0.2), (0.2, 9))


@dataclass
class Partition:
    """Which partition, and how many nights of it; `jobs` counts those that it takes."""

    model: Model
    part: float = 0.5  # of a node's contention that all nodes of a run have
    nights: int = 30
    nodes: int = NODES
    a_night: int = 200
    alone: int = 24
    runs: int = RUNS  # of a night with a suspect
    jobs: int = 0
    spread: float = 0.0  # the sum over jobs and their two operations

    def watched(self, index, left=1.0):
        """Yield the watch after each night, its number from the fault on, and the slow nodes."""
        model, table = self.model, quantiles(self.model.icc, index)
        rng = np.random.default_rng([index, round(100 * left)])
        names = [f"nid{number:06}" for number in range(self.nodes)]
        number = {name: place for place, name in enumerate(names)}
        slow = rng.choice(self.nodes, SLOW, replace=False) if left < 1 else []
        watch, lasting, doubted = NodeWatch(), rng.standard_normal(self.nodes), []
        for night in range(WARM_UP + self.nights):
            loss = np.zeros(self.nodes)
            if night >= WARM_UP:
                loss[slow] = math.log(left)
            lasting = _like(rng, lasting, model.rho)
            for run in range(self.runs):
                chosen = due(names, watch.seen, doubted, self.a_night, f"{night} {run}")
                places = np.array([number[name] for name in chosen])
                mine = _like(rng, lasting, model.rerun) if run else lasting
                z = math.sqrt(self.part) * rng.standard_normal() + math.sqrt(1 - self.part) * mine
                rates = _Rates(rng, table, model, z[places], loss[places])
                watch.add(f"{night:04}", self._comparisons(rates, chosen))
                self.jobs += 1
                doubted = watch.doubted()
                if all(unit.is_named for unit in watch.slow()):
                    break
            yield watch, night - WARM_UP + 1, [names[place] for place in slow]

    def _comparisons(self, rates, chosen):
        places = np.arange(len(chosen))
        count = math.ceil(len(chosen) / GROUP)
        for turn in range(1, ROUNDS + 1):
            group = (places + turn * (places // count)) % count
            for operation in ("write", "read"):
                values = rates.together(operation)
                for of_group in range(count):
                    members = np.flatnonzero(group == of_group)
                    yield _compared(f"together {operation}", values, members, chosen)
        for operation in ("write", "read"):
            values = rates.alone(operation)
            self.spread += 1.4826 * np.median(np.abs(values - np.median(values)))
            yield _compared(f"alone {operation}", values, places[: self.alone], chosen)


class _Rates:
    """The ln MiB/s of the nodes of a run, each time anew."""

    def __init__(self, rng, table, model, z, loss):
        self.rng, self.table, self.model, self.loss = rng, table, model, loss
        self.z = {"write": z, "read": _like(rng, z, model.control)}

    def together(self, operation):
        return self._of(self.z[operation])

    def alone(self, operation):
        return self._of(_like(self.rng, self.z[operation], self.model.rerun))

    def _of(self, z):
        icc, noise = self.model.icc, self.rng.standard_normal(len(z))
        z = math.sqrt(icc) * z + math.sqrt(1 - icc) * noise
        return np.interp(z, _Z, self.table) + self.loss


def _like(rng, z, correlation):
    """Values that have this correlation with others."""
    return correlation * z + math.sqrt(1 - correlation**2) * rng.standard_normal(len(z))


def _compared(kind, rates, members, chosen):
    middle = np.median(rates[members])
    return PeerRatios(kind, {chosen[m]: math.exp(rates[m] - middle) for m in members.tolist()})


def false_names(task):
    """Return how often a node was named that is not slow, and the nights, and the jobs."""
    partition, index = task
    named, before = 0, set()
    for watch, _, _ in partition.watched(index):
        now = {unit.name for unit in watch.slow() if unit.is_named}
        named += len(now - before)
        before = now
    return named, WARM_UP + partition.nights, partition.jobs


def named_nights(task):
    """Return the spread of a case, the night from the fault on that each slow node was named in,
    and of each that was, whether the interval had the truth in it."""
    partition, index, left = task
    first, covered = {}, []
    for watch, number, slow in partition.watched(index, left):
        for unit in watch.slow():
            if number >= 1 and unit.is_named and unit.name in slow and unit.name not in first:
                first[unit.name] = number
                covered.append(unit.low <= left <= unit.high)
    spread = partition.spread / (2 * partition.jobs)
    return spread, [first.get(name, NEVER) for name in slow], covered


def exact(count, total):
    """The 95 % interval of Clopper and Pearson of a probability."""

    def below(k, p):  # the probability of k or fewer
        terms = (
            math.lgamma(total + 1) - math.lgamma(i + 1) - math.lgamma(total - i + 1)
            + i * math.log(p) + (total - i) * math.log1p(-p)
            for i in range(k + 1)
        )  # fmt: skip
        return sum(map(math.exp, terms))

    def where(holds):
        low, high = 1e-12, 1 - 1e-12
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    low = where(lambda p: 1 - below(count - 1, p) < 0.025) if count else 0.0
    return low, where(lambda p: below(count, p) > 0.025) if count < total else 1.0


def false_table(pool, rows, indexes):
    yield "Nodes named in 1000 node-nights of a partition of which none is slow:"
    yield from header("model; nodes", "named [95 %]", "of those measured", "jobs a night")
    for name, large in rows.items():
        few = replace(large, nodes=FEW, a_night=FEW, nights=10 * large.nights)
        for partition in (large, few):
            tasks = [(replace(partition), index) for index in indexes]
            counts = zip(*pool.imap(false_names, tasks), strict=True)
            named, nights, jobs = map(sum, counts)
            total = nights * partition.nodes
            low, high = (1000 * end for end in exact(named, total))
            rate = f"{1000 * named / total:.3f} [{low:.3f}-{high:.3f}]"
            measured = 1000 * named / (jobs * partition.a_night)
            yield row(f"{name}; {partition.nodes}", rate, f"{measured:.3f}", f"{jobs / nights:.1f}")
    yield ""


def named_table(pool, rows, indexes):
    yield f"Slow nodes named, in % within {' / '.join(map(str, WITHIN))} nights, by the spread of"
    yield "nodes' values in a run alone, and how many intervals had the truth in them:"
    yield from header("model; loss; spread", "named", "7 nights [95 %]", "intervals")
    for name, partition in rows.items():
        for left in LEFT:
            small = replace(partition, nights=14, nodes=SMALL, a_night=SMALL // 5)
            tasks = [(replace(small), index, left) for index in indexes]
            results = list(pool.imap(named_nights, tasks))
            for low, high in SPREADS:
                nights = [n for s, every, _ in results if low <= s < high for n in every]
                inside = [c for s, _, every in results if low <= s < high for c in every]
                if not nights:
                    continue
                share = shown([100 * np.mean(np.array(nights) <= within) for within in WITHIN])
                ends = exact(sum(n <= 7 for n in nights), len(nights))
                spread = f"{low} to {high}" if high < 1 else f"above {low}"
                yield row(
                    f"{name}; -{1 - left:.0%}; {spread}".replace("%", " %"), share,
                    f"{100 * ends[0]:.0f}-{100 * ends[1]:.0f}",
                    f"{sum(inside)} of {len(inside)}",
                )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into evidence.md")
    parser.add_argument("--smallest", action="store_true", help="a row of each")
    options = parser.parse_args()
    rows = {"main": Partition(MAIN), "pessimistic": Partition(PESSIMISTIC)}
    indexes = range(CASES)
    if options.smallest:
        rows, indexes = {"main": Partition(MAIN, nights=4)}, range(1)
    written = []
    with Pool(2) as pool:
        for table in (false_table, named_table):
            for line in table(pool, rows, indexes):
                print(line, flush=True)
                written.append(line)
    if options.write:
        write("slow nodes", "\n".join(written).strip().split("\n"))


if __name__ == "__main__":
    main()
