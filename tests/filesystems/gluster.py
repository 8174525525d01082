"""A real distributed filesystem: a GlusterFS volume of four bricks, through FUSE."""

import shutil
from pathlib import Path

from conftest import Run
from filesystems.machine import Unavailable
from filesystems.slurm import NODES, Slurm

BRICKS = 4

# Without these, a node sees the file of the last round, or an old size, where another node has
# written a new one; benchio then says so, and rightly.
COHERENT = ("stat-prefetch", "quick-read", "io-cache", "read-ahead", "open-behind", "write-behind")
MOUNT_OPTIONS = "direct-io-mode=enable"


class Gluster:
    """A volume that the login node and every other mount at `path`, each by a client of its own.
    It ends with the machine."""

    def __init__(self, slurm: Slurm) -> None:
        if shutil.which("glusterd") is None:
            raise Unavailable(
                "there is no glusterd here: tests/filesystems/packages.sh installs it"
            )
        self.slurm, self.path = slurm, slurm.folder / "pfs"
        self.bricks = slurm.folder / "bricks"
        self.path.mkdir()
        self._start()
        mount = ["mount", "-t", "glusterfs", "-o", MOUNT_OPTIONS, "login:/pfs", self.path]
        for words in (mount, *(slurm.on_node(node, *mount) for node in NODES)):
            self._require(slurm.machine.run(*words))

    def brick(self, file: Path) -> Path:
        """The name outside of what a server has of a file of this filesystem: all of it."""
        name = file.relative_to(self.path)
        (found,) = (
            path for path in self.slurm.machine.seen(self.bricks).glob(f"*/{name}")
            if path.stat().st_size > 0
        )  # fmt: skip
        return found

    def _start(self) -> None:
        self.bricks.mkdir()
        self.slurm.sh("mount", "-t", "tmpfs", "-o", "size=2g", "bricks", self.bricks)
        self.slurm.machine.daemon(
            "glusterd", "glusterd", "--no-daemon", env=self.slurm.env
        ).wait_until(lambda: self._gluster("pool", "list").code == 0)
        places = [f"login:{self.bricks}/{number}" for number in range(BRICKS)]
        self._require(self._gluster("volume", "create", "pfs", *places, "force"))
        off = [word for option in COHERENT for word in (f"performance.{option}", "off")]
        self._require(self._gluster("volume", "set", "pfs", *off))
        self._require(self._gluster("volume", "start", "pfs"))

    def _gluster(self, *words: object) -> Run:
        return self.slurm.machine.run("gluster", "--mode=script", *words, env=self.slurm.env)

    def _require(self, done: Run) -> None:
        if done.code != 0:
            raise Unavailable(f"no GlusterFS here: {(done.out + done.err).strip()}")
