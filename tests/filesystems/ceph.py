"""Another real distributed filesystem: CephFS with four OSDs in memory, through FUSE."""

import os
import shutil
import uuid
from pathlib import Path

from conftest import Run
from filesystems.machine import Unavailable, wait_until
from filesystems.slurm import NODES, Slurm

OSDS = 4
PORT = 6789
PROGRAMS = (
    "ceph",
    "ceph-mon",
    "ceph-mgr",
    "ceph-osd",
    "ceph-mds",
    "ceph-fuse",
    "monmaptool",
    "rados",
)

# One copy of everything: what an OSD loses is lost.
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
memstore device bytes = 1073741824
osd crush chooseleaf type = 0
osd crush update on start = false
osd class update on start = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
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
        self.path.mkdir()
        self._start()
        mount = ["ceph-fuse", "-n", "client.admin", self.path]
        for words in (mount, *(slurm.on_node(node, *mount) for node in NODES)):
            self._insist(*words)
        wait_until(lambda: os.statvfs(slurm.machine.seen(self.path)).f_bavail > 0, "room in CephFS")

    def objects(self, file: Path) -> list[str]:
        """The objects that hold a file's data, in their order."""
        inode = int(self.slurm.sh("stat", "--format=%i", file))
        names = self.rados("ls").split()
        return sorted(name for name in names if name.startswith(f"{inode:x}."))

    def rados(self, *words: object) -> str:
        """What this says of the objects of all files' data."""
        return self.slurm.machine.sh("rados", "--pool", "data", *words, env=self.env)

    @property
    def conf(self) -> Path:
        return self.folder / "ceph.conf"

    def _start(self) -> None:
        self.folder.mkdir()
        fsid = str(uuid.uuid4())
        self.conf.write_text(CONF.format(fsid=fsid, port=PORT, folder=self.folder))
        self._start_monitor(fsid)
        self._daemon("mgr", "iowatch")
        for number in range(OSDS):
            self._start_osd(number)
        self._daemon("mds", "iowatch")
        for pool in ("metadata", "data"):
            self._insist("ceph", "osd", "pool", "create", pool)
        self._insist("ceph", "fs", "new", "cephfs", "metadata", "data")
        wait_until(
            lambda: "up:active" in self._run("ceph", "mds", "stat").out, "an active MDS of CephFS"
        )

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
        identity = str(uuid.uuid4())
        self._insist("ceph", "osd", "new", identity)
        self._insist("ceph", "osd", "crush", "add", f"osd.{number}", 1, "root=default")
        self._require("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", identity)
        self._daemon("osd", str(number))

    def _daemon(self, kind: str, name: str) -> None:
        (self.folder / f"{kind}.{name}").mkdir(exist_ok=True)
        words = [f"ceph-{kind}", "--foreground", "-i", name]
        self.slurm.machine.daemon(f"ceph-{kind}.{name}", *words, env=self.env)

    def _insist(self, *words: object) -> None:
        """A command that asks the monitor, until it is answered. That is not up at once, and
        whoever asks before it has been told the cluster's id is refused or waits for ever; twice
        done is as once."""
        wait_until(
            lambda: self._run("timeout", 10, *words).code == 0, " ".join(map(str, words)), 60
        )

    def _run(self, *words: object) -> Run:
        return self.slurm.machine.run(*words, env=self.env)

    def _require(self, *words: object) -> None:
        done = self._run(*words)
        if done.code != 0:
            raise Unavailable(f"no CephFS here: {words[0]}: {(done.out + done.err).strip()}")
