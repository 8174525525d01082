"""A real Slurm: its daemons, its accounting, and four nodes of 24 cores each, on one machine."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from conftest import OPEN_MPI, Run
from filesystems.machine import Daemon, Machine, Unavailable, wait_until

NODES = ("node1", "node2", "node3", "node4")
CORES = 24
FILESYSTEMS = ("fs2", "fs3")  # in memory, shared by all nodes

#: Ordinary users, who share a group besides their own.
USERS = {"alice": 2001, "bob": 2002}
GROUP, GROUP_ID = "project", 2000

PROGRAMS = (
    "ip", "munged", "mariadb-install-db", "mariadbd", "slurmdbd", "sacctmgr", "slurmctld", "slurmd",
    "sbatch", "sacct",
)  # fmt: skip

SLURM_CONF = """\
ClusterName=iowatch
SlurmctldHost=login(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePass={folder}/munge.sock
MpiDefault=pmix
TmpFS=/dev/shm
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
TopologyPlugin=topology/tree
NodeName=node[1-4] NodeAddr=127.0.0.1 Port=[17001-17004] CPUs={cores} RealMemory=4000
PartitionName=compute Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE MaxTime=60
"""

TOPOLOGY_CONF = """\
SwitchName=leaf1 Nodes=node[1-2]
SwitchName=leaf2 Nodes=node[3-4]
SwitchName=spine Switches=leaf[1-2]
"""

# Slurm 22.05's other ways of a fence let a node pass it before the others have come to it, and Open
# MPI then crashes in MPI_Init: in 14 of 180 jobs on four nodes, with this one in none of 260.
MPI_CONF = "PMIxCollFence=ring\n"

SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=login
DbdAddr=127.0.0.1
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
"""

ACCOUNTS = """\
create database slurm_acct_db;
create user 'slurm'@'localhost' identified by 'slurm';
grant all on slurm_acct_db.* to 'slurm'@'localhost';
"""

# One host name, one /dev/shm and one set of mounts for each node.
BOOT_NODE = "hostname {node}; mount -t tmpfs tmpfs /dev/shm; exec slurmd -D -N {node}"


@dataclass(frozen=True)
class Job:
    """What the accounting says of a job."""

    number: str
    start: datetime
    end: datetime

    def overlaps(self, other: "Job") -> bool:
        return self.start < other.end and other.start < self.end


class Slurm:
    """It is up when made; `machine.stop()` ends it with everything in it."""

    def __init__(self, machine: Machine) -> None:
        if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
            packages = "tests/filesystems/packages.sh installs it"
            raise Unavailable(f"there is no {', '.join(missing)} here: {packages}")
        self.machine, self.folder = machine, machine.folder
        self.env = {
            **os.environ,
            **OPEN_MPI,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "TMPDIR": "/dev/shm",  # each node's own
            # The only network is the loopback device, which Open MPI leaves out.
            "OMPI_MCA_btl": "self,vader,tcp",
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo",
        }
        self._configure()
        database = self._start_database()
        self._start_munge()
        self._start_accounting(database)
        self._start_nodes()

    def sh(self, *words: object, **how: object) -> str:
        """What a command prints on the login node, where it must succeed."""
        return self.machine.sh(*words, env=self.env, **how)

    def srun(self, nodes: int, ranks: int, *command: object) -> Run:
        """Runs a command of so many ranks on the first so many nodes to its end."""
        where = f"--nodelist={','.join(NODES[:nodes])}", f"--nodes={nodes}", f"--ntasks={ranks}"
        return self.machine.run("srun", *where, "--time=5", *command, env=self.env, timeout=120)

    def submit(self, script: str, *options: object) -> str:
        """Submits a batch script, which runs in `folder`; its job id."""
        file = self.folder / "job.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        return self.sh("sbatch", "--parsable", *options, file).strip()

    def wait(self, job: str, timeout: float = 60) -> None:
        """Until a job has ended, and its nodes have nothing more to do for it."""
        wait_until(lambda: not self.sh("squeue", "-h", "-j", job), f"the end of job {job}", timeout)

    def running(self) -> list[str]:
        """The numbers of the jobs that run, but for those that keep nodes busy."""
        lines = self.sh("squeue", "-h", "--states=RUNNING", "-o", "%i %j").splitlines()
        return [line.split()[0] for line in lines if not line.endswith(" busy")]

    @contextmanager
    def busy(self) -> Iterator[None]:
        """All nodes have something else to do."""
        job = self.submit("sleep 600", f"--nodes={len(NODES)}", "--job-name=busy")
        try:
            yield
        finally:
            self.sh("scancel", job)
            self.wait(job)

    def accounting(self, name: str, since: datetime, count: int) -> list[Job]:
        """All jobs of this name, so many or more, which have ended, by their start."""

        def rows() -> list[list[str]]:
            out = self.sh(
                "sacct", "-nXP", f"--name={name}", f"--starttime={since:%Y-%m-%dT%H:%M:%S}",
                "--format=jobid,start,end",
            )  # fmt: skip
            found = [line.split("|") for line in out.splitlines()]
            # None: it was cancelled before its turn. Of one that has ended in that second, or runs
            # on into it, sacct speaks as well.
            begin = since.strftime("%Y-%m-%dT%H:%M:%S")
            return [row for row in found if "None" not in row and row[1] >= begin]

        def has_all() -> bool:
            found = rows()
            return len(found) >= count and not any("Unknown" in row for row in found)

        wait_until(has_all, f"the ends of {count} {name}")  # it lags some seconds behind
        jobs = [Job(number, *map(datetime.fromisoformat, times)) for number, *times in rows()]
        jobs.sort(key=lambda job: job.start)
        print(name, *jobs, sep="\n")
        return jobs

    def on_node(self, node: str, *words: object) -> list[object]:
        """The words of a command that runs in a node's own namespaces."""
        pid = (self.folder / f"slurmd-{node}.pid").read_text().strip()
        return ["nsenter", "--target", pid, "--mount", "--uts", "--", *words]

    def seen_on(self, node: str, path: Path) -> Path:
        """The name outside of what may be on a filesystem that only this node has."""
        return Path(f"/proc/{self._slurmd(node)}/root{path}")

    def clients(self, node: str, program: str) -> list[int]:
        """The processes of this program, outside, that a mount of the node's own has started."""
        there = Path(f"/proc/{self._slurmd(node)}/ns/mnt").readlink()
        return [
            pid for pid, words in self.machine.processes().items()
            if words.split()[:1] and Path(words.split()[0]).name == program
            and Path(f"/proc/{pid}/ns/mnt").readlink() == there
        ]  # fmt: skip

    def _slurmd(self, node: str) -> int:
        """Its process, outside."""
        (pid,) = [
            pid for pid, words in self.machine.processes().items()
            if words.split() == ["slurmd", "-D", "-N", node]
        ]  # fmt: skip
        return pid

    def as_user(self, user: str, script: str, timeout: float = 600, **variables: object) -> Run:
        """Types this in a login shell of an ordinary user; `variables` are set besides."""
        given = {"SLURM_CONF": self.folder / "slurm.conf", **variables}
        pairs = [f"{name}={value}" for name, value in given.items()]
        who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env"]
        words = [*who, "env", "-C", self.home(user), *pairs, "bash", "-lec", script]
        return self.machine.run(*words, timeout=timeout)

    def home(self, user: str) -> Path:
        return self.folder / "home" / user

    def _configure(self) -> None:
        for name in ("state", "db", *(f"spool/{node}" for node in NODES), *FILESYSTEMS):
            (self.folder / name).mkdir(parents=True)
        for file, text in (
            (self.folder / "slurm.conf", SLURM_CONF),
            (self.folder / "slurmdbd.conf", SLURMDBD_CONF),
            (self.folder / "mpi.conf", MPI_CONF),
            (self.folder / "topology.conf", TOPOLOGY_CONF),
        ):
            file.write_text(text.format(folder=self.folder, cores=CORES))
            file.chmod(0o644)
        (self.folder / "slurmdbd.conf").chmod(0o600)
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost login {' '.join(NODES)}\n")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        passwd, group = (Path("/etc", name).read_text() for name in ("passwd", "group"))
        for user, number in USERS.items():
            self.home(user).mkdir(parents=True)
            os.chown(self.home(user), number, number)
            passwd += f"{user}:x:{number}:{number}::{self.home(user)}:/bin/bash\n"
            group += f"{user}:x:{number}:\n"
        (self.folder / "passwd").write_text(passwd)
        (self.folder / "group").write_text(f"{group}{GROUP}:x:{GROUP_ID}:{','.join(USERS)}\n")
        for name in ("hosts", "passwd", "group"):
            self.machine.sh("mount", "--bind", name, f"/etc/{name}")
        for name in FILESYSTEMS:
            options = ["-t", "tmpfs", "-o", "size=2g,mode=755"]
            self.machine.sh("mount", *options, name, self.folder / name)

    def _daemon(self, *words: object, name: str = "") -> Daemon:
        return self.machine.daemon(name or str(words[0]), *words, env=self.env)

    def _start_munge(self) -> None:
        files = {"socket": "sock", "key-file": "key", "pid-file": "pid", "seed-file": "seed",
                 "log-file": "messages"}  # fmt: skip
        options = [f"--{name}={self.folder}/munge.{end}" for name, end in files.items()]
        self._daemon("munged", "--foreground", *options).wait_until(
            (self.folder / "munge.sock").exists
        )

    def _start_database(self) -> Daemon:
        data, socket = self.folder / "db", self.folder / "db.sock"
        self.sh("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}",
                "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
        accounts = self.folder / "accounts.sql"
        accounts.write_text(ACCOUNTS)
        return self._daemon(
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}",
            "--bind-address=127.0.0.1", f"--pid-file={self.folder}/db.pid",
            f"--init-file={accounts}",
        )  # fmt: skip

    def _start_accounting(self, database: Daemon) -> None:
        database.wait_until((self.folder / "db.sock").exists)
        self._daemon("slurmdbd", "-D").wait_until(
            lambda: self._run("sacctmgr", "-i", "add", "cluster", "iowatch").code == 0
        )

    def _start_nodes(self) -> None:
        self._control = self._daemon("slurmctld", "-D")
        for node in NODES:
            self._start_node(node)
        ready = "4 idle"
        self._control.wait_until(
            lambda: self._run("sinfo", "-h", "-o", "%D %T").out.strip() == ready
        )

    @contextmanager
    def without_control(self) -> Iterator[None]:
        """No controller, as when it is maintained: jobs go on, and squeue fails."""
        # Killed, it would forget its last jobs, and give their numbers to others.
        self.machine.end("slurmctld", signal.SIGTERM)
        self._control.process.wait(30)
        try:
            yield
        finally:
            self._control = self._daemon("slurmctld", "-D")
            self._control.wait_until(lambda: self._run("squeue").code == 0)

    def _start_node(self, node: str) -> None:
        boot = BOOT_NODE.format(node=node)
        self._daemon("unshare", "--uts", "--mount", "bash", "-ec", boot, name=f"slurmd-{node}")

    def _run(self, *words: object) -> Run:
        return self.machine.run(*words, env=self.env)
