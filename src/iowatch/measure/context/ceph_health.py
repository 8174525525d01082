"""Ceph: its state, and the commits of its OSDs."""

from __future__ import annotations

from iowatch.base.bounded import decoded
from iowatch.cases.storage import CEPH
from iowatch.measure.context.source import Quantity, Reading, Source


def _parse_status(answer: Reading, *texts: str) -> None:
    """Read `ceph status`; the traffic afterwards has the run's own in it, and does not count."""
    for text, is_before in zip(texts, (True, False), strict=True):
        if not text:
            continue
        status = decoded(text)
        pgs, osds = status["pgmap"], status["osdmap"]
        osds = osds.get("osdmap", osds)  # as before Octopus
        answer.add("ceph_down", osds["num_osds"] - osds["num_up_osds"])
        answer.add("ceph_displaced", pgs.get("degraded_ratio", 0) + pgs.get("misplaced_ratio", 0))
        answer.add("ceph_recovery", pgs.get("recovering_bytes_per_sec", 0) / 2**20)
        if is_before:
            traffic = pgs.get("read_bytes_sec", 0) + pgs.get("write_bytes_sec", 0)
            answer.add("ceph_traffic", traffic / 2**20)


def _parse_perf(answer: Reading, *texts: str) -> None:
    """Read `ceph osd perf`."""
    for text in filter(None, texts):
        every = decoded(text)
        for osd in every.get("osdstats", every)["osd_perf_infos"]:
            milliseconds = osd["perf_stats"]["commit_latency_ms"]
            answer.add("ceph_commit_ms", milliseconds, f"osd.{int(osd['id'])}")


STATUS: Source = Source(
    name="ceph",
    words="Ceph (ceph status)",
    quantities={
        "ceph_traffic": Quantity("traffic of other clients of Ceph before it began", 10, "MiB/s"),
        "ceph_recovery": Quantity("recovery traffic of Ceph", 1, "MiB/s"),
        "ceph_displaced": Quantity("objects of Ceph that are degraded or misplaced", 0.001, "%"),
        "ceph_down": Quantity("OSDs of Ceph that are down", 0.5),
    },
    is_asked=lambda filesystem, under_slurm: filesystem.storage is CEPH,
    parse=_parse_status,
)
OSDS: Source = Source(
    name="osds",
    words="Ceph (ceph osd perf)",
    quantities={
        "ceph_commit_ms": Quantity("longest commit of an OSD of Ceph", 20, "ms"),
    },
    is_asked=lambda filesystem, under_slurm: filesystem.storage is CEPH,
    parse=_parse_perf,
)
