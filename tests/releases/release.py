"""Bare releases of Debian: a machine that nobody has touched, as a folder to change the root to."""

import fcntl
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from conftest import ROOT, Run, run

#: Kept between runs, for a week.
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "iowatch/releases")
AGE = 7 * 24 * 3600
#: How packages are fetched on this computer.
FETCHING = re.compile(r"PIP_|.*_PROXY$|.*CERT|.*CA_BUNDLE", re.IGNORECASE)
FILES = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")

# What is mounted goes with the last process. MPI's ranks meet in /dev/shm: no other's. Who enters
# a namespace that tests make inside would leave a root that is only changed to. bash stays the
# first process, to reap those that lost their parent.
ENTER = """set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for folder in sys dev; do mount --rbind /$folder "$root/$folder"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
cd "$root"
pivot_root . mnt
cd /
umount --lazy /mnt
"$@"
exit"""


class Release:
    """A release with a user's clone of this tree's last commit."""

    def __init__(self, suite: str, user: str) -> None:
        self.root, self.user = FOLDER / suite, user
        self.home = Path("/root" if user == "root" else f"/home/{user}")
        if os.geteuid() != 0:
            pytest.skip("changing to another root needs root")
        if shutil.which("mmdebstrap") is None:
            pytest.skip("there is no mmdebstrap here: tests/filesystems/packages.sh installs it")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / f"{suite}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.root.exists() or self.root.stat().st_mtime < time.time() - AGE:
                self._make(suite)
        if self.command("true").code != 0:
            pytest.skip(f"no namespaces and mounts here: {self.command('true').err}")
        if user != "root" and self.as_root(f"id {user}").code != 0:
            self.need(self.as_root(f"useradd --create-home --shell /bin/bash {user}"))
        self._clone()

    def _make(self, suite: str) -> None:
        made = self.root.with_suffix(".new")
        for old in (self.root, made):
            if old.exists():
                shutil.rmtree(old)
        sites = run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"])
        site = next(iter(sites.out.split()), "http://deb.debian.org/debian")
        done = run(
            ["mmdebstrap", "--variant=minbase", "--include=ca-certificates,git,make",
             # A mirror may be older than testing's lists are valid.
             "--aptopt=Acquire::Check-Valid-Until \"false\"", suite, made, site],
            timeout=600,
        )  # fmt: skip
        if done.code != 0:
            shutil.rmtree(made, ignore_errors=True)
            pytest.skip(f"no {suite} from {site}: {done.err.strip().splitlines()[-1]}")
        for file in FILES:
            if Path(file).exists():
                shutil.copy(file, f"{made}{file}")
        for file in Path("/etc/apt/apt.conf.d").glob("*"):
            if not (made / "etc/apt/apt.conf.d" / file.name).exists():
                shutil.copy(file, made / "etc/apt/apt.conf.d")
        os.utime(made)
        made.rename(self.root)

    def _clone(self) -> None:
        """As a user's `git clone`, or `git pull` into what an earlier run has left."""
        clone = Path(f"{self.root}{self.home}/iowatch")
        git = ["git", "-c", "safe.directory=*", "-C", clone]
        if not clone.exists():
            self.need(run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone]))
        self.need(run([*git, "fetch", "--quiet", ROOT, "HEAD"]))
        self.need(run([*git, "reset", "--quiet", "--hard", "FETCH_HEAD"]))
        self.need(self.as_root(f"chown -R {self.user}: {self.home}/iowatch"))

    def command(self, *words: str, timeout: float = 600) -> Run:
        names = [name for name in os.environ if FETCHING.match(name)]
        clean = ["env", "-i", "LANG=C.UTF-8", *(f"{name}={os.environ[name]}" for name in names)]
        clean.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER]
        return run([*clean, *inside, "bash", str(self.root), *words], timeout=timeout)

    def as_root(self, script: str, timeout: float = 600) -> Run:
        return self.command("env", "HOME=/root", "bash", "-c", script, timeout=timeout)

    def type(self, script: str, timeout: float = 600) -> Run:
        """What the user types in the clone."""
        where = ["-C", f"{self.home}/iowatch", f"HOME={self.home}", f"USER={self.user}"]
        who = ["runuser", "-u", self.user, "--", "env", *where]
        return self.command(*who, "bash", "-c", script, timeout=timeout)

    @staticmethod
    def need(done: Run) -> str:
        """The output of a command that must succeed."""
        assert done.code == 0, f"{done.code}\n{done.out[-4000:]}\n{done.err[-4000:]}"
        return done.out
