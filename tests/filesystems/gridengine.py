"""A real Grid Engine: one host that is master and execution host, with two slots."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import OPEN_MPI
from filesystems.machine import Daemon, Machine, Unavailable, wait_until

SLOTS = 2
ROOT = Path("/var/lib/gridengine")
SPOOL = Path("/var/spool/gridengine")
PROGRAMS = ("ip", "sge_qmaster", "sge_execd", "qsub", "qstat", "qacct", "qconf", "qmod")

PARALLEL = f"""\
pe_name mpi
slots {SLOTS}
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $fill_up
control_slaves TRUE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""

#: What differs from Grid Engine's own values, by what prints them.
CHANGED = {
    "-sconf": {  # before execd, or root's first job fails the queue
        "min_uid": "0",
        "min_gid": "0",
        "login_shells": "csh",  # what a user's own profile does may take a minute
    },
    "-ssconf": {
        "schedule_interval": "0:0:2",
        "flush_submit_sec": "1",
        "flush_finish_sec": "1",
    },
    "-sq": {
        "qname": "all.q",
        "hostlist": "login",
        "slots": str(SLOTS),
        "pe_list": "mpi",
        "shell": "/bin/sh",  # Debian's, and many a centre's: the script's first line is not read
        "shell_start_mode": "posix_compliant",
        "load_thresholds": "NONE",
    },
}


class GridEngine:
    """It is up when made; `machine.stop()` ends it with everything in it."""

    def __init__(self, machine: Machine) -> None:
        if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
            packages = "tests/filesystems/packages.sh installs it"
            raise Unavailable(f"there is no {', '.join(missing)} here: {packages}")
        self.machine, self.folder = machine, machine.folder
        #: What jobs need.
        self.variables = {
            **OPEN_MPI,
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo",
        }
        self.env = {**os.environ, "SGE_ROOT": str(ROOT)}
        self._configure()
        self._start_master()
        self._serve()

    def sh(self, *words: object, **how: object) -> str:
        """What a command prints that must succeed."""
        return self.machine.sh(*words, env=self.env, **how)

    @contextmanager
    def without_master(self) -> Iterator[None]:
        """No master, as when its host is down; jobs go on."""
        self.machine.end("sge_qmaster")
        self._master.process.wait(30)
        try:
            yield
        finally:
            self._start_master()

    def _start_master(self) -> None:
        self._master = self._daemon("sge_qmaster")
        self._master.wait_until(lambda: self._is_up())

    def jobs(self) -> list[str]:
        """The numbers of all jobs that are queued or run."""
        lines = self.sh("qstat", "-u", "*").splitlines()[2:]
        return [line.split()[0] for line in lines]

    def running(self) -> list[str]:
        """The numbers of the jobs that run."""
        lines = self.sh("qstat").splitlines()[2:]
        return [line.split()[0] for line in lines if line.split()[4] == "r"]

    def _is_up(self) -> bool:
        return self.machine.run("qconf", "-sh", env=self.env).code == 0

    def _daemon(self, name: str) -> Daemon:
        # In the foreground, for the life of the machine.
        env = {**self.env, "SGE_ND": "1"}
        return self.machine.daemon(name, shutil.which(name), env=env)

    def _configure(self) -> None:
        run = self.machine.sh
        shutil.copytree(ROOT / "default", self.folder / "cell")
        for place, name in ((ROOT / "default", "cell"), (SPOOL, "spool")):
            (self.folder / name).mkdir(exist_ok=True)
            run("mount", "--bind", self.folder / name, place)
        for name in ("qmaster/job_scripts", "spooldb", "execd"):
            run("mkdir", "-p", SPOOL / name)
        run("mkdir", "-p", "/run/gridengine", self.folder / "fs2")
        run("mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "fs2", self.folder / "fs2")
        (self.folder / "hosts").write_text("127.0.0.1 login localhost\n")
        run("mount", "--bind", "hosts", "/etc/hosts")
        run("chown", "-R", "sgeadmin:", ROOT / "default", SPOOL, "/run/gridengine")
        script = "/usr/share/gridengine/scripts/init_cluster"
        words = f"{script} {ROOT} default {SPOOL}/spooldb sgeadmin"
        run("su", "-s", "/bin/sh", "-c", words, "sgeadmin")
        # Every name of 127.0.0.1 is one host.
        (self.folder / "cell/common/host_aliases").write_text("login localhost\n")

    def _serve(self) -> None:
        self.sh("qconf", "-as", "login")
        self._load("-Ap", PARALLEL)
        for asking, changes in CHANGED.items():
            lines = self.sh("qconf", asking).splitlines()
            kept = [line for line in lines if line.split()[:1] and line.split()[0] not in changes]
            text = "\n".join([*kept, *(f"{key} {value}" for key, value in changes.items())])
            self._load({"-sconf": "-Mconf", "-ssconf": "-Msconf", "-sq": "-Aq"}[asking], text)
            if asking == "-sconf":
                self._daemon("sge_execd")
        wait_until(lambda: " 0/0/2" in self.sh("qstat", "-f"), "a queue that is up")

    def _load(self, option: str, text: str) -> None:
        file = self.folder / ("global" if option == "-Mconf" else "given")
        file.write_text(f"{text}\n")
        self.sh("qconf", option, file)
