"""The cost of a suite, before any of it runs: jobs, data, time and node-hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Annotated

import attrs

from iowatch.base.documents import Count
from iowatch.cases.parameters import MIB
from iowatch.cases.run import Run, by_case
from iowatch.site.site import Site


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of jobs."""

    jobs: Annotated[Count, "Jobs."] = 0
    tib_written: Annotated[float, "TiB, of which as much is read again."] = 0.0
    minutes: Annotated[float, "Of measuring, one job after the other."] = 0.0
    node_hours: Annotated[float, "Of measuring."] = 0.0
    jobs_without_rate: Annotated[
        Count, "Jobs of which no rate is on record: half of the ceiling is assumed."
    ] = 0

    def __add__(self, other: Cost) -> Cost:
        sums = (a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        return Cost(**dict(zip(attrs.fields_dict(Cost), sums, strict=True)))


@attrs.frozen(kw_only=True)
class RunPlan:
    """The cost of a suite."""

    system: str
    suite: str
    partitions: Mapping[str, Cost]
    total: Cost
    how_long: Annotated[str, "How long the last nights like it took, in words."]


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
            tib_written=written / 2**40,
            minutes=seconds / 60,
            node_hours=count * seconds / 3600,
            jobs_without_rate=int(rate is None and bool(written)),
        )
    return sums


def _usual_rate(nights: Mapping[str, Sequence[Run]]) -> float | None:
    rates = [run.rate for runs in nights.values() for run in runs if run.rate]
    return median(rates) if rates else None
