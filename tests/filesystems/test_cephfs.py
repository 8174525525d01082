"""Layouts, slow OSDs and the faults of a real striped filesystem."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cases import verdict_of
from conftest import finish, run_directory
from filesystems.bench import Bench
from filesystems.centre import ENDLESS, Centre
from filesystems.ceph import OSDS, POOLS, Ceph
from filesystems.machine import wait_until
from filesystems.slurm import Slurm
from filesystems.test_slurm_suite import left

pytestmark = pytest.mark.slow

MIB = 2**20
IO = 3
#: Of what a site says; on two cores, OSDs that are well may differ by more than the usual half.
EXTRAS: dict[str, Any] = {
    "on": "cephfs",
    "type": "fuse",
    "osts": [*OSDS],
    "pools": {pool: osds for pool, osds in POOLS.items() if pool != "data"},
    "cached_reads": False,
}
REFERENCES = """\
SharedFileWrite:
  cluster:.*: {overhead_fraction: [0, null, 0.999, '1']}
SlowOst:
  cluster:.*: {ost_ratio: [1, -0.8, null, '1'], ost_read_ratio: [1, -0.8, null, '1']}
SampleReads:
  cluster:.*: {total_max: [1, 0, null, MiB/s]}
EnvironmentStart:
  cluster:.*: {files_max: [1, 0, null, 1/s]}
Checkpoint:
  cluster:.*: {stable_max: [1, 0, null, MiB/s], restart_max: [1, 0, null, MiB/s]}
"""
PLAIN = {"backend": ["mpiio"], "local_size": [48], "nodes": [2]}  # 3.4 MiB
EACH_OST = {"SlowOst": {"stripe_size": [1], "local_size": [48]}}
#: Of programs that learn; with an odd number of ranks on each of two nodes, too.
_ON_TWO = {"nodes": [2], "stripe_count": [-1], "stripe_size": [1]}
LEARNING = {
    "SampleReads": {**_ON_TWO, "items": [20], "sample": ["110KiB"], "per_file": [8]},
    "EnvironmentStart": {**_ON_TWO, "items": [50]},
    "Checkpoint": {**_ON_TWO, "items": [2], "sample": ["1MiB"], "ranks_per_node": [2, 3]},
}


def layout(slurm: Slurm, path: Path, kind: str) -> dict[str, str]:
    """What CephFS says of a file or a directory (dir)."""
    said = os.getxattr(slurm.machine.seen(path), f"ceph.{kind}.layout").decode()
    return dict(pair.split("=") for pair in said.split())


def test_layouts(on: Callable[[str], Bench], slurm: Slurm, ceph: Ceph) -> None:
    """What benchio requests, and says it has found, is where the objects of its file are."""
    bench = on(ceph.path.name)
    os.setxattr(
        slurm.machine.seen(bench.directory), "ceph.dir.layout",
        b"stripe_unit=65536 stripe_count=2 object_size=4194304 pool=disk",
    )  # fmt: skip
    run = run_directory(bench.directory)
    stripes = ("--stripe-size", 65536, "--stripe-count")

    def written(*options: object) -> dict[str, Any]:
        done = bench.run(
            2, 4, "--backend", "mpiio", "--operation", "write-keep", "--local-size", 32,
            "--warmup", 0, "--repeats", 1, *options,
        )  # fmt: skip
        assert done.code == 0, done.err
        (case, *others) = bench.result()["cases"]
        return {"others": others, **case["layout"], "target": case["target"]}

    def check(found: dict[str, Any], file: Path, count: int, pool: str) -> None:
        has = layout(slurm, file, "file")
        assert (has["stripe_unit"], has["stripe_count"], has["pool"]) == ("65536", str(count), pool)
        seen = {key: found["observed"][key] for key in ("stripe_count", "stripe_size", "pool")}
        assert seen == {"stripe_count": count, "stripe_size": 65536, "pool": pool}
        inode = int(slurm.sh("stat", "--format=%i", file))
        words = slurm.machine.sh("rados", "--pool", pool, "ls", env=ceph.env).split()
        assert len([name for name in words if name.startswith(f"{inode:x}.")]) == count
        read = ("--backend", "mpiio", "--operation", "read-existing", "--dir", run)
        done = slurm.srun(2, 4, bench.benchio, *read, "--json", bench.json)
        assert done.code == 0, done.err
        first = bench.result()["cases"][0]["layout"]["observed"]
        assert first == found["observed"], "whoever reads it, on other nodes, sees the same"
        slurm.sh("rm", "-r", run)

    users = written()  # those of its directory
    assert (users["requested"], users["echoed"]) == (None, None)
    check(users, run / "mpiio.round1.dat", 2, "disk")
    four = written(*stripes, 4, "--pool", "data")
    assert four["requested"] == {
        "stripe_count": 4, "stripe_size": 65536, "pool": "data", "setstripe": None,
    }  # fmt: skip
    check(four, run / "mpiio.round1.dat", 4, "data")

    targets = written("--targets", "osd.1,osd.2", *stripes[:2])
    assert targets["target"] == {"name": "osd.1", "error": None}
    (other,) = targets["others"]
    assert (other["target"]["name"], other["layout"]["observed"]["pool"]) == ("osd.2", "osd.2")
    assert "acting ([2], p2)" in ceph.ceph("osd", "map", "osd.2", "any")
    check(targets, run / "target.osd.1/mpiio.round1.dat", 1, "osd.1")

    refused = "takes a pool only if it is one of its data pools"
    for option, value, said in (
        ("--stripe-count", -1, "has no stripe count that means all OSDs"),
        ("--pool", "metadata", refused),
    ):
        done = bench.run(1, 1, "--backend", "mpiio", option, value)
        assert done.code == IO, (done.code, done.err)
        (error,) = done.errors
        assert said in error
    done = bench.run(1, 1, "--backend", "mpiio", "--targets", "osd.1,osd.9")
    assert done.code == 0, done.err
    well, missing = (case["target"] for case in bench.result()["cases"])
    assert well == {"name": "osd.1", "error": None}
    assert refused in missing["error"]["message"]
    assert bench.files == []


@pytest.fixture
def site(centre: Centre, ceph: Ceph) -> Iterator[Centre]:
    """A site whose jobs write to CephFS; whatever a test has done to that, it is well again."""
    centre.references = REFERENCES
    yield centre
    ceph.wait_until_well()
    centre.slurm.sh("rm", "-rf", ceph.path / "iowatch")


def test_night(site: Centre, ceph: Ceph) -> None:
    striped = {**PLAIN, "stripe_count": [1, 2, 4, -1], "stripe_size": [1, 4]}
    parts = {**PLAIN, "stripe_count": [-1], "stripe_size": [1], "pool": ["flash", "disk"]}
    writes = [striped, parts, {**PLAIN, "layout": ["default"]}]
    suite = {"SharedFileWrite": writes, **EACH_OST, **LEARNING}
    directory = site.add("cephfs", suite, **EXTRAS)
    # A removal may wait for the metadata server's next tick, 5 s: longer than a minute's phase.
    site.partitions[-1]["time_limit"] = "3m"
    site.prepare += [f"export CEPH_CONF={ceph.conf}"]
    done = site.run(site.nightly(), timeout=400)
    assert done.code == 0, done.out + done.err
    assert "green: 17 cases measured, 0 with a red verdict, 0 problems" in done.out
    assert left(site, directory) == []
    assert "slow to" not in done.out
    assert "not measured" not in done.out
    exported = site.run(site.iowatch("export", "--system", "cluster", "--format", "jsonl"))
    runs = [json.loads(line) for line in exported.out.splitlines()]
    around = [run["system_context"] for run in runs if run["check"] != "LibraryVersions"]
    ours = {"ceph_traffic", "ceph_down", "ceph_displaced", "ceph_commit_ms"}
    assert all(ours <= some.keys() or "unknown" in some for some in around), around  # in time
    assert any(ours <= some.keys() for some in around), around
    found = {}
    for file in site.folder.glob("run/runs/*/*SharedFileWrite*/result.json"):
        asked = re.findall(r"(?:layout|stripe_count|stripe_size|pool)=([^,]*)", file.parent.name)
        (case,) = json.loads(file.read_text())["cases"]
        seen = case["layout"]["observed"]
        found[" ".join(asked)] = (seen["stripe_count"], seen["stripe_size"] // MIB, seen["pool"])
    wanted = {
        f"{count} {size}": (count if count > 0 else 4, size, "data")
        for count in (1, 2, 4, -1)
        for size in (1, 4)
    }
    wanted |= {f"-1 1 {pool}": (2, 1, pool) for pool in ("flash", "disk")}
    wanted["default"] = (1, 4, "data")
    assert found == wanted


def test_slow_osd(site: Centre, ceph: Ceph) -> None:
    """It is named; none is if all are well."""
    site.add("cephfs", EACH_OST, **EXTRAS)
    for osd in (1, None):
        with ceph.slow(osd, 0.03) if osd else nullcontext():
            done = site.run(site.reframe("-n", "SlowOst", "-S", "repeats=2"))
        (case,) = site.cases()
        assert done.code == (1 if osd else 0), done.out + done.err
        assert case["state"] == ("regression" if osd else "ok"), case["sentence"]
        slow = {
            operation: re.findall(r"OST (\d)", names)
            for operation, names in re.findall(
                r"slow to (write|read): (.*?)(?=;|$)", case["sentence"]
            )
        }
        assert slow == ({"write": ["1"], "read": ["1"]} if osd else {}), case["sentence"]


def wait_until_said(site: Centre, what: str) -> None:
    """Until a job has said it."""

    def is_said() -> bool:
        files = site.folder.glob("run/stage/**/rfm_job.err")
        return any(what in file.read_text() for file in files)

    wait_until(is_said, f"{what!r} of the job", 60)


def check_next_night(site: Centre, directory: Path) -> None:
    """Right by itself, once the filesystem is; and what a job could not remove, that removes."""
    slurm = site.slurm
    slurm.machine.run("scontrol", "update", "nodename=ALL", "state=resume", env=slurm.env)
    old = time.time() - 3 * 24 * 3600
    for path in slurm.machine.seen(directory).glob("iowatch.*/.iowatch"):
        os.utime(path, (old, old))
    night = site.run(site.nightly())
    assert night.code == 0, night.out + night.err
    assert left(site, directory) == []


#: On the OSD that has the faults.
ON_ONE = {"SharedFileWrite": {**PLAIN, "stripe_count": [1], "stripe_size": [1], "pool": ["osd.2"]}}
BESIDE = "no end after 6 s (--phase-limit); a small write beside it does not end either"


def test_no_room(site: Centre, ceph: Ceph) -> None:
    """On one OSD, or by a quota: the errno is said that MPI-IO does not know, and nothing stays."""
    directory = site.add("cephfs", {**ON_ONE, **EACH_OST}, **EXTRAS)
    seen = site.slurm.machine.seen(directory)
    with site.in_mid_run(directory, *ENDLESS) as session, ceph.full(2):
        said = site.failed(session)["sentence"]
        assert re.search(r"MPI_ERR_IO.*; a small write .* fails.*: No space left on device$", said)
        assert left(site, directory) == []
        done = site.run(site.reframe("-n", "SlowOst", "-S", "repeats=2"))
    assert done.code == 0, done.out + done.err
    (case,) = site.cases()
    assert re.search(r"; OST 2 was not measured: .*: No space left on device$", case["sentence"])
    rated = {name.rpartition(":")[2] for name in case["perfvalues"]}
    assert {name for name in rated if re.fullmatch("ost_[0-9]", name)} == {
        "ost_0",
        "ost_1",
        "ost_3",
    }

    with site.in_mid_run(directory, *ENDLESS) as session:
        os.setxattr(seen, "ceph.quota.max_bytes", b"1000000")
        done = finish(session, 120)
    assert done.code == 0, done.out + done.err
    (case,) = site.cases()
    assert (case["state"], case["reason"]) == ("unjudged", "quota")
    assert case["sentence"].endswith("fails: Disk quota exceeded")
    os.setxattr(seen, "ceph.quota.max_bytes", b"0")
    check_next_night(site, directory)


def test_osd_that_hangs(site: Centre, ceph: Ceph) -> None:
    """For longer than a job may take, whose processes nobody can end: yet the session ends. Of all
    OSTs the one is named, and the others' rates are kept."""
    directory = site.add("cephfs", {**ON_ONE, **EACH_OST}, **EXTRAS)
    with site.in_mid_run(directory, *ENDLESS) as session, ceph.stopped("osd.2"):
        assert BESIDE in site.failed(session, 240)["sentence"]
        done = site.run(site.reframe("-n", "SlowOst", "-S", "repeats=1"), timeout=240)
    assert done.code == 0, done.out + done.err
    (case,) = site.cases()
    void = r"; OST 2 was not measured: rank 0: .*/target\.osd\.2/.* does not end either$"
    assert re.search(void, case["sentence"])
    check_next_night(site, directory)


def test_metadata_server(site: Centre, ceph: Ceph) -> None:
    """One that hangs is named; one that starts anew delays a run, which is right all the same."""
    directory = site.add("cephfs", ON_ONE, **EXTRAS)
    with site.in_mid_run(directory, *ENDLESS) as session:
        with ceph.stopped("mds.iowatch"):
            wait_until_said(site, "no end after 6 s")
        assert "no end after 6 s (--phase-limit)" in site.failed(session)["sentence"]
    check_next_night(site, directory)
    with site.in_mid_run(directory, "-S", "repeats=20", "-S", "time_limit=5m") as session:
        ceph.kill("mds.iowatch")
        ceph.start_mds()
        done = finish(session, 200)
    assert done.code == 0, done.out + done.err
    assert [verdict_of(case) for case in site.cases()] == ["ok"]
    assert left(site, directory) == []
