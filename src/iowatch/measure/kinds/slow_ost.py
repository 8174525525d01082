"""A check of each OST by itself: benchio writes to and reads from all of them in each round.

A start of benchio that hangs on one OST is ended, and the job starts again without that one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import ClassVar

from iowatch.base.text import brief_rate, numbers_in_words
from iowatch.cases.case import WARMUPS, Case, Part
from iowatch.cases.metric import STABLE, TOTALS, Metrics
from iowatch.cases.parameters import LOCAL_SIZE, RANKS, STRIPE_SIZE
from iowatch.cases.run import LOST_OSTS
from iowatch.cases.verdict import Reason
from iowatch.measure.causes import cause_of
from iowatch.measure.job_folder import find, read_text
from iowatch.measure.kinds.array import ArrayKind
from iowatch.measure.kinds.kind import ratio_metrics
from iowatch.measure.law import Job, require_one_result, verified
from iowatch.measure.measured import Measured, rate_metrics
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, Result

#: Followed by its number: the rate of one OST, of which there may be any number, by operation.
OST: Mapping[str, str] = MappingProxyType({"write": "ost_", "read": "ost_read_"})
#: The rate of the slowest OST over the median of its peers.
OST_RATIO: Mapping[str, str] = MappingProxyType({"write": "ost_ratio", "read": "ost_read_ratio"})
_RATIOS = ratio_metrics(OST_RATIO, "The {} rate of the slowest OST over the others' median.")
#: And the rate of each OST.
METRICS: Metrics = MappingProxyType({**TOTALS, **STABLE, **_RATIOS})


@dataclass(frozen=True, eq=False, kw_only=True)
class SlowOstKind(ArrayKind):
    """benchio's array on one OST after the other."""

    by_target: ClassVar[bool] = True
    evidence_of: ClassVar[str] = "osts"

    def command_line(self, case: Case) -> list[str]:
        return [*super().command_line(case), "--targets $TARGETS"]

    def bytes_written(self, case: Case, targets: int) -> int:
        return (self.repeats + WARMUPS) * targets * self.bytes_of(case)

    def read(self, job: Job, repeats: int) -> Measured:
        """InvalidResult besides if other OSTs could not be measured than are declared to be away. A
        contract would refuse such a run, so no night is green with it."""
        require_one_result(job.folder)
        hung, osts = hung_osts(job.folder), job.filesystem.targets
        try:
            result = verified(job, f"result.{len(hung) + 1}.json", repeats, hung)
        except InvalidResult as err:  # of the last start; those before it have hung
            raise InvalidResult("; ".join([*void_osts(hung, osts), str(err)]), err.reason) from None
        lost = {**hung, **result.void}
        if job.away is not None:
            if there := {*job.away} - {osts[name] for name in lost}:
                raise InvalidResult(
                    f"the session was declared to be without {numbers_in_words('OST', there)}, "
                    "which it could measure"
                )
            if unknown := {name: why for name, why in lost.items() if osts[name] not in job.away}:
                raise InvalidResult("; ".join(void_osts(unknown, osts)), Reason.IO_ERROR)
        void, met = void_osts(lost, osts), provenance(result)
        if lost:
            met[LOST_OSTS] = " ".join(str(osts[name]) for name in lost)
        return Measured(
            metrics=ost_metrics(result, osts, void),
            results=[result],
            provenance=met,
            notes=void,
            osts=ost_rates(result, osts),
        )

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        """The rate of each OST over the median of its peers, by operation."""
        parts = {}
        for operation in OST:
            names = None if among is None else [p.name for p in among if p.operation == operation]
            for ost in osts_of(metrics, operation, names):
                part = Part(ost.name, operation, f"{OST[operation]}{ost.name}")
                parts[part] = ost.to_peers
        return parts


def ost_rates(result: Result, osts: Mapping[str, int]) -> dict[str, dict[int, list[float]]]:
    """The rates of each OST, by operation: of a write synced, for a client's cache is as fast for
    every OST. `osts` has its number by benchio's name of it.
    """
    rates: dict[str, dict[int, list[float]]] = {"write": {}, "read": {}}
    for sound in result.sound:
        rates[sound.operation][osts[sound.target]] = [rep.rate for rep in sound.repetitions]
    return rates


def ost_metrics(
    result: Result, osts: Mapping[str, int], void: Sequence[str] = ()
) -> dict[str, float]:
    """The metrics of every OST by itself, from a result that satisfies the law. `void` has a
    sentence on each OST without metrics.

    An OST's rate is the best of its repetitions, MiB/s. `ost_ratio` is the slowest OST's rate over
    the median of its peers, and `ost_read_ratio` the same of reads. InvalidResult: it has no peers.
    """
    totals = [
        {kind: max(rep.rates[kind] for rep in sound.repetitions) for kind in ("total", "stable")}
        for sound in result.sound
        if sound.operation == "write"
    ]
    if len(totals) < 2:
        why = "; ".join(["fewer than two OSTs can be compared", *void])
        raise InvalidResult(why, Reason.IO_ERROR)
    best = {
        f"{OST[operation]}{ost}": max(rates)
        for operation, by_ost in ost_rates(result, osts).items()
        for ost, rates in by_ost.items()
    }
    return {
        **rate_metrics(totals),
        "ost_ratio": osts_of(best, "write")[0].to_peers,
        "ost_read_ratio": osts_of(best, "read")[0].to_peers,
        **best,
    }


#: In what benchio says of a target that hangs: its name.
_HUNG = re.compile(r"/benchio\.[^/]+/target\.([^/:]+)")


def hung_osts(folder: Path) -> dict[str, str]:
    """Why a start of benchio was ended, by the target that it hung on. A job leaves the output of
    each start as `said.1` and so on, and starts again without that target."""
    hung = {}
    for number in itertools.count(1):
        output = find(folder, f"said.{number}")
        if output is None or find(folder, f"result.{number}.json"):
            break
        error = cause_of(read_text(output)).sentence
        if match := _HUNG.search(error):
            hung[match[1]] = error.removeprefix("benchio: error: ")
    return hung


def void_osts(why: Mapping[str, str], osts: Mapping[str, int]) -> list[str]:
    """A sentence on each OST that could not be measured; `osts` as above."""
    return [f"OST {osts[name]} was not measured: {error}" for name, error in why.items()]


def osts_away(text: str) -> dict[str, tuple[int, ...]]:
    """Read the OSTs of each filesystem from `fs3:7,fs3:9`, which a session declares; ValueError."""
    away: dict[str, set[int]] = {}
    for entry in filter(None, text.split(",")):
        name, _, ost = entry.rpartition(":")
        away.setdefault(name, set()).add(int(ost))
    return {name: tuple(sorted(osts)) for name, osts in away.items()}


@dataclass(frozen=True)
class Ost:
    """One OST among its peers."""

    name: str  # its number
    rate: float  # MiB/s
    to_peers: float  # its rate over the median of all others


def osts_of(
    metrics: Mapping[str, float], operation: str, among: Collection[str] | None = None
) -> list[Ost]:
    """The OSTs that have a metric of their own, slowest first; `among`: only these, by number, and
    no other is a peer."""
    rates = {
        name.removeprefix(OST[operation]): rate
        for name, rate in metrics.items()
        if re.fullmatch(rf"{OST[operation]}\d+", name)
    }
    chosen = rates if among is None else {name: rates[name] for name in among if name in rates}
    slowest_first = sorted(chosen.items(), key=itemgetter(1))
    ordered = [rate for _, rate in slowest_first]
    return [
        Ost(name, rate, rate / median([*ordered[:at], *ordered[at + 1 :]] or [rate]))
        for at, (name, rate) in enumerate(slowest_first)
    ]


def osts_below(metrics: Mapping[str, float], operation: str, bound: float) -> list[Ost]:
    """Return the OSTs below `bound` times the median of their peers, slowest first."""
    return [ost for ost in osts_of(metrics, operation) if ost.to_peers < bound]


def slow_osts(metrics: Mapping[str, float], operation: str, bound: float) -> str:
    """Name the OSTs below a bound in one phrase."""
    return ", ".join(
        f"OST {ost.name} ({brief_rate(ost.rate)} MiB/s, {ost.to_peers:.2f} of its peers)"
        for ost in osts_below(metrics, operation, bound)
    )


SLOW_OST = SlowOstKind(
    name="SlowOst",
    short="each OST",
    reads_too=True,
    parameters=(STRIPE_SIZE, LOCAL_SIZE, RANKS),
    # Two nodes are needed: one might read from its cache what it has written.
    fixed={"files": "shared", "backend": "mpiio", "stripe_count": 1, "nodes": 2},
    metrics=METRICS,
    repeats=3,  # the best of each OST counts
    bounds={name: [1, -0.5, None, "1"] for name in OST_RATIO.values()},
    bounds_comment="Half the rate of its peers: the exercises report found all OSTs of a system of "
    "the same order.",
)
