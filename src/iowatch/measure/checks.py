"""The checks of iowatch, by name, and the metrics that they measure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from iowatch.cases.case import Case
from iowatch.cases.metric import DRIFT, PART, RATE, Metric
from iowatch.measure.kinds.application import APPLICATIONS
from iowatch.measure.kinds.array import (
    FILE_PER_PROCESS,
    FILE_PER_PROCESS_READ,
    SHARED_FILE_READ,
    SHARED_FILE_WRITE,
    SYSTEM_LOAD,
)
from iowatch.measure.kinds.ior import IOR_PEER, IOR_PEER_READ
from iowatch.measure.kinds.kind import Kind
from iowatch.measure.kinds.latency import LATENCY_KIND
from iowatch.measure.kinds.learning import CHECKPOINT, ENVIRONMENT_START, SAMPLE_READS
from iowatch.measure.kinds.mdtest import MDTEST_PEER
from iowatch.measure.kinds.metadata import METADATA_KIND
from iowatch.measure.kinds.profile import PROFILE
from iowatch.measure.kinds.readback import READ_BACK
from iowatch.measure.kinds.slow_node import SLOW_NODE
from iowatch.measure.kinds.slow_ost import SLOW_OST
from iowatch.measure.kinds.versions import VERSIONS

#: All checks, in the order in which tables list their cases.
CHECKS: Mapping[str, Kind] = MappingProxyType(
    {
        check.name: check
        for check in (
            FILE_PER_PROCESS,
            SHARED_FILE_WRITE,
            SYSTEM_LOAD,
            SLOW_OST,
            SLOW_NODE,
            IOR_PEER,
            SHARED_FILE_READ,
            FILE_PER_PROCESS_READ,
            READ_BACK,
            IOR_PEER_READ,
            SAMPLE_READS,
            ENVIRONMENT_START,
            CHECKPOINT,
            METADATA_KIND,
            MDTEST_PEER,
            LATENCY_KIND,
            PROFILE,
            *APPLICATIONS,
            VERSIONS,
        )
    }
)
METRICS: Mapping[str, Metric] = MappingProxyType(
    {name: metric for check in CHECKS.values() for name, metric in check.metrics.items()}
    | {DRIFT: PART}
)
_RATES = tuple(dict.fromkeys(name for check in CHECKS.values() for name in check.rates))


def kind_of(case: Case) -> Kind:
    """The check of a case, which can read what came of a job for it."""
    return CHECKS[case.check.name]


def metric(name: str) -> Metric:
    """The metric of this name, that of one OST among them."""
    return METRICS.get(name, RATE)


def rate_name(metrics: Mapping[str, float]) -> str:
    """The metric that judges a case with these metrics: `stable_max` (write and sync), `items_max`
    of names, else `total_max`."""
    return next((name for name in _RATES if name in metrics), "total_max")


def rate_unit(metrics: Mapping[str, float]) -> str:
    """The unit of that metric, as it stands behind a number."""
    rate = metric(rate_name(metrics))
    return rate.words or rate.unit


def physical_rate(metrics: Mapping[str, float]) -> float:
    """The rate in MiB/s that the filesystem has to stand: of what was compressed, less than that of
    what was written; of names 0."""
    if rate_unit(metrics) != RATE.unit:
        return 0
    return metrics[rate_name(metrics)] * metrics.get("stored_fraction", 1)
