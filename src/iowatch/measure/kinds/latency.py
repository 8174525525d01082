"""Latency: how long a user waits for one call on a small file."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from types import MappingProxyType
from typing import Any, ClassVar

from iowatch.cases.case import Case, Part
from iowatch.cases.metric import Metric, Metrics
from iowatch.cases.parameters import LATENCY, MDT, SECONDS
from iowatch.measure.kinds.kind import CallsKind, two_metrics
from iowatch.measure.result import Repetition

#: The calls of a cycle, in the order of time; `write` has its fsync in it.
CALLS = ("create", "write", "stat", "open", "read", "list")
#: The quantiles of each, by their names in metrics, and in words.
QUANTILES: Mapping[str, float] = MappingProxyType({"p50": 0.5, "p99": 0.99, "p999": 0.999})
QUANTILE_WORDS: Mapping[str, str] = MappingProxyType({"p50": "p50", "p99": "p99", "p999": "p99.9"})
#: Both ends of the interval of a quantile.
ENDS = ("low", "high")
#: The bytes of a small file.
FILE_BYTES = 4096
#: So many cycles benchio begins in a second, at most.
CYCLES_PER_SECOND = 100
#: Small files that are there at one time.
_FILES = 33
#: benchio writes nine digits of a number.
_ROUNDING = 1e-6


def bucket_bound(bucket: int) -> float:
    """The most seconds that a call of a bucket takes; of the last one there is no bound."""
    return 1e-7 * 10 ** (bucket / 20) if bucket <= 180 else math.inf


def quantile(call: str, name: str, end: str = "") -> str:
    """The metric that has a quantile of a call, or an end of its interval."""
    return "_".join(filter(None, [call, name, end, "s"]))


def _time(about: str) -> Metric:
    return Metric("s", lower_is_better=True, about=about)


METRICS: Metrics = MappingProxyType(
    {
        **two_metrics(
            "cycles",
            "1/s",
            words="cycles/s",
            title="cycles at median latency, {}",
            about="The {} rate of cycles, if each call took its median time.",
        ),
        **{
            quantile(call, name): _time(f"The {words} of the time that one `{call}` takes.")
            for call in CALLS
            for name, words in QUANTILE_WORDS.items()
        },
        **{
            quantile(call, name, end): _time(f"The {end} end of the 95 % interval of `{whole}`.")
            for call in CALLS
            for name in QUANTILES
            for whole in [quantile(call, name)]
            for end in ENDS
        },
        **{f"{call}_s": _time(f"The mean time of one call, here `{call}`.") for call in CALLS},
        "clock_s": _time("What the clock takes of each call."),
    }
)


@dataclass(frozen=True, eq=False, kw_only=True)
class LatencyKind(CallsKind):
    """Single calls of one rank, which begins a hundred cycles a second at most."""

    rates: ClassVar[Sequence[str]] = ("cycles_max",)
    rate_in_words: ClassVar[str] = "the rate of cycles at median latency"
    unit_of_parts: ClassVar[str] = "calls/s"
    phases: ClassVar[Sequence[str]] = CALLS
    by_hour: ClassVar[bool] = True

    def bytes_of(self, case: Case) -> int:
        return FILE_BYTES

    def room_kib(self, case: Case, repeats: int) -> int:
        return _FILES * FILE_BYTES // 1024

    def names(self, case: Case, repeats: int) -> int:
        return _FILES

    def bytes_written(self, case: Case, targets: int) -> int:
        return 0  # next to none

    def seconds_at_any_rate(self, case: Case) -> float:
        return float(self.repeats * case.get(SECONDS.name))

    def bytes_confirmed(self, case: Case, file_bytes: int) -> int:
        """How many files there were is known only when the time is over."""
        return file_bytes

    def metrics_for(self, case: Case) -> list[str]:
        """A few calls do not tell both ends of an interval."""
        ends = tuple(f"_{end}_s" for end in ENDS)
        return [name for name in self.metrics if not name.endswith(ends)]

    def faults(self, case: Case) -> Mapping[str, Callable[[Repetition], bool]]:
        """Calls, buckets and quantiles agree, and every file that a call has written was read."""
        return {
            "whose calls are not those of whole cycles": lambda rep: (
                len({rep.operations[call] for call in CALLS}) > 1
            ),
            "of which fewer bytes were confirmed than its calls have written": lambda rep: (
                rep.witness.bytes < FILE_BYTES * rep.operations["write"]
            ),
            "with a quantile that is not the one of its buckets": lambda rep: (
                not all(_agrees(rep.latency["calls"][call], rep.operations[call]) for call in CALLS)
            ),
        }

    def metrics_of_rounds(self, reps: Sequence[Repetition], case: Case) -> dict[str, float]:
        """The metrics of single calls: those of the round with the least sum of medians."""

        def cycle_s(rep: Repetition) -> float:
            return math.fsum(rep.latency["calls"][call]["p50"][0] for call in CALLS)

        best = min(reps, key=cycle_s)
        middle = sorted(map(cycle_s, reps))[len(reps) // 2]
        metrics = {"cycles_max": 1 / cycle_s(best), "cycles_median": 1 / middle}
        for call in CALLS:
            for name in QUANTILES:
                values = best.latency["calls"][call][name]
                for end, value in zip(("", *ENDS), values, strict=True):
                    if value is not None:
                        metrics[quantile(call, name, end)] = value
            metrics[f"{call}_s"] = best.seconds[call] / best.operations[call]
        return metrics | {"clock_s": fmean(rep.latency["clock"] for rep in reps)}

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        """The median rate of each call by itself: most of a cycle is one of them."""
        names = {call: quantile(call, "p50") for call in CALLS}
        return {
            Part(call, metric=name, words=f"the median rate of {call}"): 1 / metrics[name]
            for call, name in names.items()
            if metrics.get(name)
        }


def _agrees(figures: Mapping[str, Any], calls: int) -> bool:
    """Is each quantile within its interval, and in the bucket of the call that it is?"""
    counts, first = figures["buckets"], figures["first_bucket"]
    if not 0 < calls == sum(counts):
        return False
    for name, part in QUANTILES.items():
        value, low, high = figures[name]
        rank = math.ceil(part * calls - _ROUNDING)
        bucket = first + next(i for i, so_far in enumerate(accumulate(counts)) if so_far >= rank)
        below = bucket_bound(bucket - 1) * (1 - _ROUNDING) if bucket else 0.0
        is_there = below <= value <= bucket_bound(bucket) * (1 + _ROUNDING)
        if not is_there or (low or 0.0) > value or value > (math.inf if high is None else high):
            return False
    return True


LATENCY_KIND = LatencyKind(
    name="Latency",
    short="latency",
    size="{seconds} s",
    operation=LATENCY,
    parameters=(SECONDS, MDT),
    fixed={"backend": "posix", "files": "shared", "ranks": 1, "nodes": 1, "ranks_per_node": 1},
    repeats=1,
    metrics=METRICS,
    bounds={"cycles_max": [1, 0, None, "1/s"]},
    bounds_comment="Slower than this, it hangs; bless nights to have more found.",
)
