"""The nodes, links and software of a centre, as its login node says.

Functions of the text alone read the output of commands, so that output of other machines can test
them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from iowatch.base.commands import run
from iowatch.base.files import UserError
from iowatch.cases.parameters import BACKENDS


def ask(*words: str, and_errors: bool = False) -> str:
    """Return what a command prints; nothing if there is no such command or it fails."""
    answer = run(*words)
    if answer.trouble:
        return ""
    return answer.text + answer.errors if and_errors else answer.text


# Scheduler and nodes

JOB_MINUTES = 30
MOST_NODES = 256  # the white paper's tables of ARCHER all go that far


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type."""

    count: int
    cores: int
    partition: str = ""  # Slurm's
    minutes: int | None = None  # its time limit
    default: bool = False

    def __str__(self) -> str:
        return f"{self.partition} {self.count} x {self.cores} cores".strip()


@dataclass(frozen=True)
class Jobs:
    """The way in which jobs are run, and their nodes."""

    system: str
    scheduler: str  # ReFrame's names
    launcher: str
    nodes: Nodes
    others: tuple[Nodes, ...] = ()
    are_nodes_known: bool = True

    @property
    def minutes(self) -> int:
        """Time limit of a job."""
        return min(JOB_MINUTES, self.nodes.minutes or JOB_MINUTES)

    @property
    def node_counts(self) -> list[int]:
        """Powers of two."""
        return [2**power for power in range(min(self.nodes.count, MOST_NODES).bit_length())]


#: A command of each scheduler that no configuration can be drafted for, in the order in which they
#: are looked for: some bring commands of others' names.
OTHERS = {
    "qconf": "Grid Engine",
    "oarsub": "OAR",
    "bsub": "LSF",
    "flux": "Flux",
    "condor_submit": "HTCondor",
    "qsub": "Torque, or another PBS",
    "qstat": "Torque, or another PBS",
}
#: What commands say on a machine that is of no cluster, though a package has brought them.
_NO_CLUSTER = re.compile(
    r"establish a configuration source|slurm\.conf: No such file|"
    r"act_qmaster\"\) failed: No such file"
)


def find_jobs(is_open_mpi: bool) -> Jobs:
    """Find the scheduler that answers, else none.

    UserError if jobs are run by a scheduler for which no configuration can be drafted, or by one
    that cannot be asked: without it, they would run on a login node.
    """
    slurm = run(*SINFO)
    if nodes := parse_sinfo(slurm.text):
        config = dict(re.findall(r"^(\w+)\s*= (\S+)", ask("scontrol", "show", "config"), re.M))
        without = ("(null)", "accounting_storage/none")
        scheduler = "squeue" if config.get("AccountingStorageType") in without else "slurm"
        # Under srun without PMI, every process of Open MPI believes that it is alone.
        no_pmi = is_open_mpi and config.get("MpiDefault") == "none"
        launcher = "mpirun" if no_pmi else "srun"
        return Jobs("Slurm", scheduler, launcher, nodes[0], tuple(nodes[1:]))
    here = Nodes(1, os.cpu_count() or 1)
    version = run("qstat", "--version")  # Torque's is on standard error
    answer = version.text + version.errors
    if re.search("pbs_version|pbspro|openpbs", answer, re.IGNORECASE):
        pbs_nodes = parse_pbsnodes(ask("pbsnodes", "-a"))
        launcher = "alps" if shutil.which("aprun") else "mpirun"
        are_nodes_known = pbs_nodes is not None
        return Jobs("PBS Professional", "pbs", launcher, pbs_nodes or here, (), are_nodes_known)
    if any(map(shutil.which, ("sinfo", "sbatch"))) and not _NO_CLUSTER.search(slurm.errors):
        raise UserError(f"Slurm is here, and {slurm.why('lists no partition that is up')}: {_MEND}")
    is_grid_engine = bool(re.search(r"\b(S|U|O|Al)?GE \d|Grid Engine|SGE_ROOT", answer))
    for command, name in OTHERS.items():
        if shutil.which(command) and not _NO_CLUSTER.search(answer):
            name = "Grid Engine" if is_grid_engine else name
            raise UserError(
                f"{command} is of a scheduler that site new does not know, {name}: it knows Slurm "
                "and PBS Professional; begin with site_configs/cosma5.py, a site with LSF, or "
                "ulysses.py, with Torque, and name ReFrame's 'scheduler'"
            )
    return Jobs("No scheduler", "local", "mpirun", here)


_MEND = "mend that, or take its commands off PATH if this machine is to run its jobs itself"

#: Not --json, which older Slurms lack and newer ones have changed.
SINFO = ("sinfo", "-h", "-e", "-o", "%P|%a|%l|%D|%z")


def parse_sinfo(text: str) -> list[Nodes]:
    """Node types of the partitions that are up: the default's first, then those of more nodes."""
    by_type: dict[tuple[str, int], Nodes] = {}
    for line in text.splitlines():
        row = re.fullmatch(
            r"([\w.+-]+)(\*?)\|up\|(\S+)\|(\d+)\|(\d+)\+?:(\d+)\+?:\d+\+?", line.strip()
        )
        if row:
            name, default, limit, count, sockets, cores = row.groups()
            nodes = Nodes(int(count), int(sockets) * int(cores), name, parse_minutes(limit))
            known = by_type.get((name, nodes.cores))
            by_type[name, nodes.cores] = replace(
                nodes, count=nodes.count + (known.count if known else 0), default=bool(default)
            )
    return sorted(by_type.values(), key=lambda n: (not n.default, -n.count, n.partition, n.cores))


def parse_minutes(limit: str) -> int | None:
    """Slurm's [[days-]hours:]minutes:seconds; None: no limit."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):\d+", limit)
    if not match:
        return None
    days, hours, minutes = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + minutes


def parse_pbsnodes(text: str) -> Nodes | None:
    """Read the most frequent node type in what `pbsnodes -a` says."""
    cores = re.findall(r"^\s*resources_available\.ncpus = ([1-9]\d*)", text, re.M)
    if not cores:
        return None
    usual = max(set(cores), key=lambda n: (cores.count(n), int(n)))
    return Nodes(cores.count(usual), int(usual))


# Software


@dataclass(frozen=True)
class Benchio:
    """The benchmark as it is built here."""

    program: str = ""  # its path if it is not this checkout's
    backends: tuple[str, ...] = ()  # none if there is no program that can be asked
    compiler: str = "default"
    is_open_mpi: bool = False


def find_benchio(built: Path) -> Benchio:
    """Ask the benchio that is built here, else the one on PATH."""
    program = "" if built.exists() else shutil.which("benchio") or ""
    return parse_benchio_version(ask(program or str(built), "--version"), program)


def parse_benchio_version(text: str, program: str = "") -> Benchio:
    """The benchio that says this of itself."""
    lines = re.findall(rf"^(compiler|{'|'.join(BACKENDS)}) +(\S.*)$", text, re.M)
    versions = {name: version for name, version in lines if version != "not built in"}
    names = {"GCC": "gnu", "Cray": "cray", "Intel": "intel", "nvfortran": "nvidia", "flang": "llvm"}
    by = versions.pop("compiler", "")
    compiler = next((name for word, name in names.items() if word in by), "default")
    is_open_mpi = "Open MPI" in versions.get("mpiio", "")
    return Benchio(program, tuple(versions), compiler, is_open_mpi)


def modules_system(env: Mapping[str, str]) -> str:
    """ReFrame's name of the module system in this environment.

    ReFrame 4.10 works with Lmod, and with Environment Modules from 4.1, the first of MODULES_CMD.
    """
    if env.get("LMOD_CMD"):
        return "lmod"
    return "envmod" if env.get("MODULES_CMD") and shutil.which("modulecmd") else "nomod"


def init_modules(env: Mapping[str, str]) -> str:
    """Return what a job sources for modules that ReFrame can't load; empty: there are none."""
    home = env.get("MODULESHOME", "")
    return f"{home}/init/bash" if home and modules_system(env) == "nomod" else ""


# Links


def link_rates(sys_class: Path) -> dict[str, float]:
    """Gbit/s of every link in use: InfiniBand and Omni-Path ports, else Ethernet.

    An InfiniBand adapter has a network interface too, which is not another link.
    """
    rates: dict[str, float] = {}
    for port in sorted(sys_class.glob("infiniband/*/ports/*")):
        match = re.match(r"([\d.]+) Gb/sec", _read(port / "rate"))
        if match and "ACTIVE" in _read(port / "state"):
            rates[f"{port.parents[1].name}:{port.name}"] = float(match[1])
    if rates:
        return rates
    for interface in sorted(sys_class.glob("net/*")):
        speed = _read(interface / "speed").strip()
        is_physical = (interface / "device").exists()  # a bond is the sum of its members
        if is_physical and speed.isdecimal() and _read(interface / "operstate").strip() == "up":
            rates[interface.name] = int(speed) / 1000
    return rates


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:  # of a file that is there too: the speed of an interface that is down
        return ""
