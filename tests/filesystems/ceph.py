"""A real striped filesystem: CephFS with four OSDs in memory, through FUSE, and its faults."""

import json
import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Run
from filesystems.machine import Unavailable, wait_until
from filesystems.slurm import NODES, Slurm

OSDS = range(4)
METADATA_OSD = 4  # of the metadata alone, which no fault of another OSD harms
#: Of each part of the tree of OSDs those that are below it: all, two parts, each by itself.
#: Each has a pool of its name.
POOLS = {"data": [*OSDS], "flash": [0, 1], "disk": [2, 3]} | {f"osd.{osd}": [osd] for osd in OSDS}
PORT = 6789
OSD_BYTES = 2**30
FULL_BYTES = 2**24
PROGRAMS = (
    "ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse", "monmaptool", "rados",
)  # fmt: skip

# One copy of everything: what an OSD loses is lost. One that was stopped goes on where it was.
CONF = """\
[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{port}]
auth cluster required = none
auth service required = none
auth client required = none
public addr = 127.0.0.1
ms bind ipv6 = false
run dir = {folder}
admin socket = {folder}/$name.$pid.asok
log file = {folder}/$name.log
mon data = {folder}/$name
mgr data = {folder}/$name
osd data = {folder}/$name
mds data = {folder}/$name
osd objectstore = memstore
memstore device bytes = {size}
osd crush chooseleaf type = 0
osd crush update on start = false
osd class update on start = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd op thread suicide timeout = 3600
mon allow pool size one = true
mon data avail crit = 1
mgr initial modules =
"""


class Ceph:
    """A filesystem that the login node and every other mount at `path`, each by a client of its
    own. It ends with the machine."""

    def __init__(self, slurm: Slurm) -> None:
        if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
            packages = "tests/filesystems/packages.sh installs it"
            raise Unavailable(f"there is no {', '.join(missing)} here: {packages}")
        self.slurm, self.path = slurm, slurm.folder / "cephfs"
        self.folder = slurm.folder / "ceph"
        self.env = {**slurm.env, "CEPH_CONF": str(self.conf)}
        self.identities = {osd: str(uuid.uuid4()) for osd in (*OSDS, METADATA_OSD)}
        self.path.mkdir()
        self._start()
        for node in (None, *NODES):
            self.mount(node)
        wait_until(lambda: os.statvfs(slurm.machine.seen(self.path)).f_bavail > 0, "room in CephFS")

    def mount(self, node: str | None) -> None:
        """On a node, or on the login node."""
        self._insist(*self._there(node, "ceph-fuse", "-n", "client.admin", self.path))

    def ceph(self, *words: object) -> str:
        """What an administrator's command prints."""
        return self._insist("ceph", *words)

    def pid(self, daemon: str) -> int:
        """Of a daemon such as `osd.2`, outside."""
        kind, _, name = daemon.partition(".")
        words = [f"ceph-{kind}", "--foreground", "-i", name]
        (pid,) = [
            pid for pid, line in self.slurm.machine.processes().items() if line.split() == words
        ]
        return pid

    def bytes_read(self) -> int:
        """What all clients have read of the OSDs with data, since these started."""
        answers = [self.ceph("tell", f"osd.{osd}", "perf", "dump", "osd") for osd in OSDS]
        return sum(json.loads(answer)["osd"]["op_r_out_bytes"] for answer in answers)

    @contextmanager
    def slow(self, osd: int, seconds: float) -> Iterator[None]:
        """Each request to this OSD waits for so long."""
        name = "osd_debug_inject_dispatch_delay"
        settings = {f"{name}_duration": seconds, f"{name}_probability": 1}
        for key, value in settings.items():
            self.ceph("tell", f"osd.{osd}", "config", "set", key, value)
        try:
            yield
        finally:
            self.ceph("tell", f"osd.{osd}", "config", "set", f"{name}_probability", 0)

    @contextmanager
    def stopped(self, daemon: str) -> Iterator[None]:
        """Neither answers nor ends."""
        pid = self.pid(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def full(self, osd: int) -> Iterator[None]:
        """This OSD, and no other, has no room."""
        ratios = {"nearfull": 0.85, "backfillfull": 0.9, "full": 0.95}
        filler = self.folder / "filler"
        filler.write_bytes(bytes(FULL_BYTES))
        place = ("--pool", f"osd.{osd}")
        self.slurm.machine.sh("rados", *place, "put", "filler", filler, env=self.env)
        for name in ratios:
            self.ceph("osd", f"set-{name}-ratio", FULL_BYTES / OSD_BYTES / 2)
        wait_until(lambda: f"osd.{osd} is full" in self.ceph("health", "detail"), "a full OSD")
        try:
            yield
        finally:
            for name, ratio in reversed(ratios.items()):
                self.ceph("osd", f"set-{name}-ratio", ratio)
            wait_until(lambda: "OSD_FULL" not in self.ceph("health", "detail"), "room in the OSD")
            self.slurm.machine.sh("rados", *place, "rm", "filler", env=self.env)

    def kill(self, daemon: str) -> None:
        os.kill(self.pid(daemon), signal.SIGKILL)

    def start_mds(self) -> None:
        self._daemon("mds", "iowatch")

    def wait_until_well(self) -> None:
        """Until every OSD serves all that is on it, and the metadata server does."""

        def is_well() -> bool:
            state = json.loads(self.ceph("status", "--format", "json"))
            groups = state["pgmap"]
            clean = {"state_name": "active+clean", "count": groups["num_pgs"]}
            return (
                state["osdmap"]["num_up_osds"] == len(self.identities)
                and groups["pgs_by_state"] == [clean]
                and [rank["status"] for rank in state["fsmap"]["by_rank"]] == ["up:active"]
            )

        try:
            wait_until(is_well, "a CephFS that is well", 60)
        except TimeoutError as err:
            raise AssertionError(f"{err}:\n{self.ceph('status')}") from None

    def _there(self, node: str | None, *words: object) -> list[object]:
        """The words of a command on a node, or on the login node."""
        return self.slurm.on_node(node, *words) if node else [*words]

    @property
    def conf(self) -> Path:
        return self.folder / "ceph.conf"

    def _start(self) -> None:
        self.folder.mkdir()
        fsid = str(uuid.uuid4())
        self.conf.write_text(CONF.format(fsid=fsid, port=PORT, folder=self.folder, size=OSD_BYTES))
        self._start_monitor(fsid)
        self._daemon("mgr", "iowatch")
        self._tell(f"osd new {identity}" for identity in self.identities.values())
        for osd in self.identities:
            self._start_osd(osd)
        self.start_mds()
        self._tell(self._plan())
        wait_until(
            lambda: "up:active" in self._run("ceph", "mds", "stat").out, "an active MDS of CephFS"
        )
        (found,) = json.loads(self.ceph("fs", "ls", "--format", "json"))
        assert {*found["data_pools"]} == {*POOLS}, found

    def _plan(self) -> Iterator[str]:
        """Commands: where each OSD is, and the pools."""
        for osd in OSDS:
            part = "flash" if osd in POOLS["flash"] else "disk"
            yield (
                f"osd crush add osd.{osd} 1 root=default datacenter=data room={part} "
                f"host=only-{osd}"
            )
        yield f"osd crush add osd.{METADATA_OSD} 1 root=default host=metadata"
        for pool in ("metadata", *POOLS):
            yield f"osd crush rule create-replicated {pool} {pool.replace('osd.', 'only-')} osd"
            groups = 8 * len(POOLS.get(pool, "1"))  # enough that each OSD gets some
            yield f"osd pool create {pool} {groups} replicated {pool}"
        yield "fs new cephfs metadata data"
        yield from (f"fs add_data_pool cephfs {pool}" for pool in POOLS if pool != "data")

    def _tell(self, commands: Iterable[str]) -> None:
        """Many commands for the monitor: one program starts sooner than many."""
        words = " ".join(f"'{command}'" for command in commands)
        self._insist("sh", "-c", f"printf '%s\\n' {words} | ceph", limit=50)

    def _start_monitor(self, fsid: str) -> None:
        monmap = self.folder / "monmap"
        address = f"[v1:127.0.0.1:{PORT}]"
        self._require(
            "monmaptool", "--create", "--fsid", fsid, "--addv", "iowatch", address, monmap
        )
        self._require("ceph-mon", "--mkfs", "-i", "iowatch", "--monmap", monmap)
        self._daemon("mon", "iowatch")

    def _start_osd(self, number: int) -> None:
        (self.folder / f"osd.{number}").mkdir()
        self._require("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", self.identities[number])
        self._daemon("osd", str(number))

    def _daemon(self, kind: str, name: str) -> None:
        (self.folder / f"{kind}.{name}").mkdir(exist_ok=True)
        words = [f"ceph-{kind}", "--foreground", "-i", name]
        self.slurm.machine.daemon(f"ceph-{kind}.{name}", *words, env=self.env)

    def _insist(self, *words: object, limit: int = 10) -> str:
        """What a command prints that asks the monitor, once it is answered: it is refused, or waits
        for ever, if the monitor is not up, and at times if it is; twice done is as once."""
        done = self._run("timeout", limit, *words)
        end = time.monotonic() + 60
        while done.code != 0:
            assert time.monotonic() < end, f"{words}: {done.out}{done.err}"
            done = self._run("timeout", limit, *words)
        return done.out

    def _run(self, *words: object) -> Run:
        return self.slurm.machine.run(*words, env=self.env)

    def _require(self, *words: object) -> None:
        done = self._run(*words)
        if done.code != 0:
            raise Unavailable(f"no CephFS here: {words[0]}: {(done.out + done.err).strip()}")
