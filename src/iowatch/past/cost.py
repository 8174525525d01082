"""The cost of a suite, before any of it runs: jobs, data, time and node-hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import attrs

from iowatch.cases.parameters import MIB
from iowatch.cases.run import Run, by_case
from iowatch.site.site import Site


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of some jobs, which begin one after the other."""

    jobs: int = 0
    written: float = 0.0  # bytes
    seconds: float = 0.0  # of measuring
    node_hours: float = 0.0  # likewise
    unknown: int = 0  # jobs that move data, and of whose case no rate is on record

    def __add__(self, other: Cost) -> Cost:
        sums = (a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        return Cost(**dict(zip(attrs.fields_dict(Cost), sums, strict=True)))

    @property
    def tib(self) -> float:
        return self.written / 2**40


def costs(
    site: Site, suite: str, runs: Iterable[Run], rates: Mapping[str, float] | None = None
) -> dict[str, Cost]:
    """Return what a suite costs on each partition, once; `runs` are on record.

    A case moves its data at its usual rate. Without one on record, iowatch assumes the rate of its
    partition in `rates` (MiB/s), or else half of the ceiling.
    """
    nodes = site.nodes(suite)
    nights = by_case(run for run in runs if run.case in nodes and run.is_measured)
    places = {place.partition: place for place in site.filesystems}
    sums = dict.fromkeys(places, Cost())
    for case, count in nodes.items():
        place = places[case.partition]
        written = case.check.bytes_written(case, len(place.targets))
        rate = _usual_rate(nights.get(case, {}))
        # The witness reads again what is written.
        assumed = (rates or {}).get(case.partition, place.peak / 2)
        seconds = case.check.seconds_at_any_rate(case) + 2 * written / MIB / (rate or assumed)
        sums[case.partition] += Cost(
            jobs=1,
            written=written,
            seconds=seconds,
            node_hours=count * seconds / 3600,
            unknown=int(rate is None and bool(written)),
        )
    return sums


def _usual_rate(nights: Mapping[str, Sequence[Run]]) -> float | None:
    rates = [run.rate for runs in nights.values() for run in runs if run.rate]
    return median(rates) if rates else None


def cost_entry(cost: Cost) -> dict[str, Any]:
    """Describe the cost of jobs."""
    return {
        "jobs": cost.jobs,
        "tib_written": cost.tib,
        "minutes": cost.seconds / 60,
        "node_hours": cost.node_hours,
        "jobs_without_rate": cost.unknown,
    }
