"""Contractual criteria of an acceptance test, and the verdict on each from repeated measurements.

A verdict rests on the confidence interval of the measured figure: all of it on the right side of
the committed value is `pass`, all of it on the wrong side `fail`, else it is `not conclusive`.

Nothing that a check imports may import this module: it needs scipy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

from iowatch.errors import UserError

PASS, FAIL, OPEN, REFUSED = "pass", "fail", "not conclusive", "not certified"

#: What a criterion may be about, with its unit.
KINDS = {
    "bandwidth": "MiB/s",  # of the whole case, from opening to closing the file, synced
    "peak": "of the filesystem's peak",
    "ratio": "of MPI-IO's in the same rounds",
    "scaling": "of linear scaling between the two numbers of nodes",
    "repeatability": "standard deviation over mean of the repetitions",
    "slow_ost": "of the median of its peers: the slowest OST",
}
REQUIRED = {"name", "kind", "filesystem"}
OPTIONAL = {
    "backend", "operation", "files", "nodes", "from_nodes", "to_nodes", "at_least", "at_most",
}  # fmt: skip
_SEED = 1  # of the bootstrap: a dossier is the same each time
_RESAMPLES = 9999


class CriteriaError(UserError):
    """The criteria cannot be used; one line says which and why."""


@dataclass(frozen=True)
class Criterion:
    """One line of a contract."""

    name: str
    kind: str
    filesystem: str
    at_least: float | None = None
    at_most: float | None = None
    backend: str = "mpiio"
    operation: str = "write"
    files: str = "shared"
    nodes: int | None = None  # None: any; the best counts
    from_nodes: int | None = None
    to_nodes: int | None = None

    @property
    def committed(self) -> float:
        value = self.at_most if self.at_least is None else self.at_least
        assert value is not None
        return value


@dataclass(frozen=True)
class Contract:
    """What a system must come up to."""

    system: str
    title: str
    confidence: float
    criteria: list[Criterion]


@dataclass(frozen=True)
class Finding:
    """The verdict on one criterion."""

    verdict: str
    reason: str = ""  # of a verdict that is neither pass nor fail
    measured: float | None = None  # median, or the statistic that the criterion is about
    low: float | None = None  # confidence interval; None: there are too few repetitions
    high: float | None = None
    repetitions: int = 0
    jobs: int = 0

    def margin(self, criterion: Criterion) -> float | None:
        """How much better than committed, as a fraction of it; negative: worse."""
        if self.measured is None or not criterion.committed:
            return None
        excess = self.measured / criterion.committed - 1
        return excess if criterion.at_least is not None else -excess


def read(path: Path) -> Contract:
    """The contract of a YAML file; CriteriaError names the file, the criterion and the key."""
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as err:
        raise CriteriaError(f"{path}: cannot be read: {' '.join(str(err).split())}") from None
    keys = {"system", "title", "confidence", "criteria"}
    if not isinstance(data, dict) or not keys - {"confidence"} <= set(data) <= keys:
        raise CriteriaError(f"{path}: needs system, title and criteria, and may have confidence")
    confidence = data.get("confidence", 0.95)
    if not _is_number(confidence) or not 0.5 <= confidence < 1:
        raise CriteriaError(f"{path}: confidence is {confidence!r}, not between 0.5 and 1")
    if not isinstance(data["criteria"], list) or not data["criteria"]:
        raise CriteriaError(f"{path}: criteria is no list, or is empty")
    criteria = [
        _criterion(f"{path}, criterion {number}", entry)
        for number, entry in enumerate(data["criteria"], start=1)
    ]
    return Contract(str(data["system"]), str(data["title"]), confidence, criteria)


def _criterion(where: str, entry: Any) -> Criterion:
    if not isinstance(entry, dict) or not set(entry) >= REQUIRED:
        raise CriteriaError(f"{where}: needs {', '.join(sorted(REQUIRED))}")
    if unknown := set(entry) - REQUIRED - OPTIONAL:
        raise CriteriaError(f"{where}: has no key {', '.join(sorted(map(str, unknown)))}")
    if entry["kind"] not in KINDS:
        raise CriteriaError(f"{where}: kind is {entry['kind']!r}: there are {', '.join(KINDS)}")
    bound = "at_most" if entry["kind"] == "repeatability" else "at_least"
    if bound not in entry or len({"at_least", "at_most"} & set(entry)) != 1:
        raise CriteriaError(f"{where}: {entry['kind']} needs {bound}, and no other bound")
    if not _is_number(entry[bound]) or entry[bound] <= 0:
        raise CriteriaError(f"{where}: {bound} is {entry[bound]!r}, not a positive number")
    if (entry["kind"] == "scaling") != ({"from_nodes", "to_nodes"} <= set(entry)):
        raise CriteriaError(f"{where}: from_nodes and to_nodes belong to scaling, both of them")
    if entry["kind"] == "ratio" and entry.get("backend", "mpiio") == "mpiio":
        raise CriteriaError(f"{where}: ratio needs a backend other than mpiio")
    for name in ("nodes", "from_nodes", "to_nodes"):
        if name in entry and (type(entry[name]) is not int or entry[name] < 1):
            raise CriteriaError(f"{where}: {name} is {entry[name]!r}, not a number of nodes")
    texts = ("name", "filesystem", "backend", "operation", "files")
    return Criterion(**{**entry, **{name: str(entry[name]) for name in texts if name in entry}})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def judge_median(
    criterion: Criterion, values: Sequence[float], jobs: int, confidence: float
) -> Finding:
    """The verdict on the median of repeated values, by its exact interval (order statistics)."""
    test = stats.quantile_test(values, q=criterion.committed, p=0.5)
    interval = test.confidence_interval(confidence)
    return _finding(
        criterion, float(np.median(values)), interval.low, interval.high, len(values), jobs
    )


def judge_scaling(
    criterion: Criterion,
    few: Sequence[float],
    many: Sequence[float],
    jobs: int,
    confidence: float,
) -> Finding:
    """The verdict on the medians of two numbers of nodes, by a bootstrap of both samples."""
    assert criterion.from_nodes is not None
    assert criterion.to_nodes is not None
    linear = criterion.to_nodes / criterion.from_nodes

    def efficiency(few: Any, many: Any, axis: int = -1) -> Any:
        return np.median(many, axis=axis) / np.median(few, axis=axis) / linear

    low, high = _bootstrap((few, many), efficiency, confidence)
    repetitions = min(len(few), len(many))
    return _finding(criterion, float(efficiency(few, many)), low, high, repetitions, jobs)


def judge_repeatability(
    criterion: Criterion, values: Sequence[float], jobs: int, confidence: float
) -> Finding:
    """The verdict on standard deviation over mean, by a bootstrap."""
    low, high = _bootstrap((values,), _variation, confidence)
    return _finding(criterion, float(_variation(values)), low, high, len(values), jobs)


def judge_slowest(criterion: Criterion, rates: Mapping[int, Sequence[float]]) -> Finding:
    """The verdict on the slowest OST: the best rate of each counts, so there is no interval."""
    best = {ost: max(values) for ost, values in rates.items()}
    to_peers = {
        ost: rate / float(np.median([other for peer, other in best.items() if peer != ost]))
        for ost, rate in best.items()
    }
    slowest = min(to_peers, key=lambda ost: to_peers[ost])
    measured = to_peers[slowest]
    verdict = PASS if measured >= criterion.committed else FAIL
    rounds = min(len(values) for values in rates.values())
    return Finding(verdict, f"OST {slowest}", measured, repetitions=rounds, jobs=1)


def _variation(values: Any, axis: int = -1) -> Any:
    return np.std(values, axis=axis, ddof=1) / np.mean(values, axis=axis)


def _bootstrap(samples: Any, statistic: Any, confidence: float) -> tuple[float, float]:
    if min(map(len, samples)) < 2:
        return math.nan, math.nan
    result = stats.bootstrap(
        samples,
        statistic,
        confidence_level=confidence,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return result.confidence_interval.low, result.confidence_interval.high


def _finding(
    criterion: Criterion, measured: float, low: float, high: float, repetitions: int, jobs: int
) -> Finding:
    if math.isnan(low) or math.isnan(high):
        reason = f"{repetitions} repetitions are too few for a confidence interval"
        return Finding(OPEN, reason, measured, repetitions=repetitions, jobs=jobs)
    found = float(low), float(high), repetitions, jobs
    better = criterion.at_least is not None
    if (low >= criterion.committed) if better else (high <= criterion.committed):
        return Finding(PASS, "", measured, *found)
    if (high < criterion.committed) if better else (low > criterion.committed):
        return Finding(FAIL, "", measured, *found)
    return Finding(OPEN, _more(criterion, measured, low, high, repetitions), measured, *found)


def _more(criterion: Criterion, measured: float, low: float, high: float, repetitions: int) -> str:
    """How many more repetitions would settle it: intervals shrink with their square root."""
    reach = (
        criterion.committed - low if measured >= criterion.committed else high - criterion.committed
    )
    margin = abs(measured - criterion.committed)
    width = margin + reach  # the interval's end is so far from what was measured
    needed = math.inf if not margin else repetitions * (width / margin) ** 2
    if needed > 1000 * repetitions:
        return "too near to the committed value for any number of repetitions"
    return f"about {math.ceil(needed) - repetitions} repetitions more would settle it"
