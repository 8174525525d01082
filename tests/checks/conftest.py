"""A site made up for one test: one filesystem in memory, small sizes, all in temporary folders."""

import json
import os
import select
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import OPEN_MPI, enter_own_mounts

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in.py")
MEMORY = "/dev/shm"
LAUNCHER = Path(__file__).with_name("stand_in_launcher")  # its mpirun starts stand-ins only

#: Only rank 0 says anything; what every start would cost is saved.
STAND_IN_PROGRAM = """\
#!/bin/sh
case "$OMPI_COMM_WORLD_RANK/{fault}/$*" in
*/broken/*--version*) exit 1 ;;
*--version*)
    printf 'mpiio   stand-in 1.0\\nhdf5    1.8.16\\nnetcdf  4.4.0\\n'
    exit ;;
*--filesystem*) exec {benchio} "$@" ;;
0/*) ;;
*) exit ;;
esac
BENCHIO={benchio} exec {python} {program} "{fault}" "$@"
"""

#: ReFrame writes its log with every step of every test: half of what a session costs.
CONFIGURATION = """\
from runpy import run_path

logging = run_path("{root}/site_configs/settings.py")["site_configuration"]["logging"]
logging[0] |= {{"target_systems": ["small"]}}
logging[0]["handlers"][0]["level"] = "info"
site_configuration = {{**{config!r}, "logging": logging}}
"""

COMPILED = tempfile.TemporaryDirectory(prefix="iowatch-compiled.")
#: Of ReFrame and iowatch: modules are compiled once, and jobs are looked at often.
QUICK = {
    "RFM_POLL_RATE_MAX": "20",  # looks a second
    "RFM_POLL_RATE_DECAY": "0",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": COMPILED.name,
}

REFERENCES = """\
SharedFileWrite:
  small:.*:
    overhead_fraction: [0, null, 0.999, '1']
"""


@dataclass
class Site:
    """The system `small`. Change its fields before a run."""

    folder: Path
    scratch: Path  # the filesystem's path: in memory, so that its type is known
    benchio: Path
    temporary: Path  # goes with the site; each mpirun has a folder of its own there
    extras: dict[str, Any] = field(default_factory=dict)
    suite: dict[str, Any] = field(default_factory=dict)  # both of them
    write: dict[str, Any] = field(default_factory=dict)  # what SharedFileWrite measures
    partition: dict[str, Any] = field(default_factory=dict)  # keys of every partition
    #: Instead of `memory`: name -> its own `extras`, `suite`, `environs`, and other keys.
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Environment -> fault of benchio's stand-in, which a stand-in for mpirun starts.
    faults: dict[str, str] = field(default_factory=dict)
    injected: dict[str, str] = field(default_factory=dict)  # environment -> variables of shim.c
    #: Environment -> its own `extras`, `env_vars`.
    environs: dict[str, dict[str, Any]] = field(default_factory=dict)
    references: str | None = REFERENCES
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.extras = {
            "path": str(self.scratch),
            "type": "tmpfs",
            "peak": 1e6,
            "osts": None,
            "cached_reads": True,
            "ranks_per_node": 2,
            "keep_days": 400,
        }
        self.write = {"backend": ["mpiio"], "local_size": [8], "nodes": [1]}
        self.suite = {"SharedFileWrite": self.write}

    def reframe(self, *options, system="small"):
        return self._run("reframe", "-c", ROOT / "reframe_checks", "--system", system, *options)

    def iowatch(self, *options, system="small"):
        return self._run("iowatch", "nightly", "--system", system, *options)

    @property
    def database(self):
        return self.folder / "run" / "results.db"

    @property
    def kept(self):
        """Where the raw results are kept."""
        return self.folder / "run" / "runs"

    def report(self, *others, session=None):
        """The bandwidth cases of the session that was stored last, and those of other checks named;
        their metrics without prefix."""
        session = session or self._last_stored()
        tests = [test for test in session["runs"][-1]["testcases"] if "case_id" in test]
        for test in tests:
            test["metrics"] = {k.split(":")[-1]: v for k, v in test["perfvalues"].items()}
        silent = {"LibraryVersions"} - set(others)
        return [test for test in tests if test["name"].split()[0] not in silent]

    def _last_stored(self):
        with closing(sqlite3.connect(self.database)) as connection:
            query = "SELECT json_blob FROM sessions ORDER BY rowid DESC LIMIT 1"
            return json.loads(connection.execute(query).fetchone()[0])

    def last_report_file(self):
        """What ReFrame, started without iowatch, has reported of its last session."""
        files = (self.folder / "run" / "reports").glob("*.json")
        return json.loads(max(files, key=lambda file: file.stat().st_mtime).read_text())

    def expect_failures(self, *entries):
        """Write these (pattern, until, why) as the failures that the site expects."""
        file = self.folder / "expected_failures" / "small.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            "".join(
                f"- {{case: '{case}', until: {until}, why: {why}}}\n"
                for case, until, why in entries
            )
        )

    def program(self, place, command, script):
        """A program of this name, in a folder of this place's programs."""
        file = self.folder / "programs" / place / command
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/bash\n{script}\n")
        file.chmod(0o755)
        return file

    def hide(self, command):
        """Leave out of PATH where this machine has such a program."""
        here = [str(Path(sys.executable).parent)]
        others = [f for f in os.environ["PATH"].split(":") if not Path(f, command).exists()]
        self.environment["PATH"] = ":".join([*here, *others])

    def recorded_lfs(self, name, layout, shim):
        """An `lfs` that says of any file what was recorded of one with this layout, for benchio of
        environment `name` on the stand-in for Lustre."""
        state = f"{self.folder}/state.{name}"
        recorded = f"{ROOT}/tests/data/lustre/getstripe-file-{layout}.txt"
        self.injected[name] = f"LD_PRELOAD={shim} LUSTRE_STATE={state}"
        return self.program(
            name,
            "lfs",
            f'[ $1 = getstripe ] || LUSTRE_STATE={state} exec {ROOT}/tests/faults/lfs "$@"\n'
            'for file in "${@:2}"; do [ -f "$file" ] || exit 2; done\n'  # it knows no option
            f"sed '1,/^--- stdout/d; /^--- stderr/,$d' {recorded}",
        )

    def _run(self, *command):
        if command[0] in ("iowatch", "reframe"):
            return self._ask(*command)
        process = self.start(*command)
        try:
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out)

    def _ask(self, *command):
        """What it says, from a start that its imports do not slow down."""
        self._write()
        with tempfile.NamedTemporaryFile("w+", prefix="iowatch-said.") as said:
            request = {
                "words": [str(word) for word in command],
                "environment": self._environment(),
                "folder": str(self.folder),
                "output": said.name,
            }
            starter = _starter(Path("/proc/self/ns/mnt").readlink())
            print(json.dumps(request), file=starter.stdin, flush=True)
            if not select.select([starter.stdout], [], [], 300)[0]:
                pytest.fail(f"{command} still ran after 300 s\n{said.read()}")
            code = int(starter.stdout.readline())
            return subprocess.CompletedProcess(command, code, said.read())

    def start(self, *command, output=subprocess.PIPE):
        """A command of this site's, running."""
        self._write()
        return subprocess.Popen(
            [str(word) for word in command],
            env=self._environment(),
            cwd=self.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _environment(self):
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            **QUICK,
            "RFM_CONFIG_FILES": f"{ROOT}/site_configs/settings.py:{ROOT}/site_configs/local.py"
            f":{self.folder}/small.py",
            "RFM_PREFIX": str(self.folder / "run"),
            "RFM_REFERENCE_PREFIX": str(self.folder),
            "TMPDIR": str(self.temporary),  # ReFrame leaves a log there whenever it starts
            **self.environment,
        }

    def _write(self):
        if self.references is not None:
            (self.folder / "small.yaml").write_text(self.references)
        programs = {"real": self.benchio}
        for name, fault in self.faults.items():
            programs[name] = self.folder / name
            programs[name].write_text(
                STAND_IN_PROGRAM.format(
                    python=sys.executable, program=STAND_IN, fault=fault, benchio=self.benchio
                )
            )
            programs[name].chmod(0o755)
        for name, variables in self.injected.items():
            programs[name] = self.folder / name
            programs[name].write_text(
                f"#!/bin/bash\nown='{self.scratch}/iowatch.*/benchio.*'\n"
                # The file of the case's backend, not of its control.
                'f=mpiio.dat; case "$*" in *netcdf*) f=netcdf.nc ;; *hdf5*) f=hdf5.h5 ;; esac\n'
                f'export FAULT_FILE="$own/$f" {variables}\nexec {self.benchio} "$@"\n'
            )
            programs[name].chmod(0o755)
        usual = [*self.faults, *self.injected] or ["real"]
        config = {
            "systems": [
                {
                    "name": "small",
                    "hostnames": [],
                    "partitions": [
                        self._partition(name, usual, **own)
                        for name, own in (self.partitions or {"memory": {}}).items()
                    ],
                }
            ],
            "environments": [self._environ(name, program) for name, program in programs.items()],
        }
        (self.folder / "small.py").write_text(CONFIGURATION.format(root=ROOT, config=config))

    def _partition(self, name, usual, extras=None, suite=None, environs=None, **keys):
        suite = self.suite if suite is None else suite
        return {
            "name": name,
            "scheduler": "local",
            "launcher": "mpirun",
            "environs": environs or usual,
            # What is not measured need not wait for its turn.
            "max_jobs": 1 if self.injected or not self.faults else 4,
            "time_limit": "2m",
            "env_vars": [
                *map(list, OPEN_MPI.items()),
                # Two that start and end in one place may remove it from each other.
                ["OMPI_MCA_orte_tmpdir_base", f"$(mktemp -d {self.temporary}/XXXXXX)"],
                ["PRTE_MCA_prte_tmpdir_base", "$OMPI_MCA_orte_tmpdir_base"],
            ],
            "extras": {
                "filesystem": name,
                "suites": {"nightly": suite, "acceptance": suite},
                **self.extras,
                **(extras or {}),
            },
            **self.partition,
            **keys,
        }

    def _environ(self, name, program):
        own = self.environs.get(name, {})
        launcher = [["PATH", f"{LAUNCHER}:$PATH"]] if name in self.faults else []
        return {
            "name": name,
            "target_systems": ["small"],
            **own,
            "env_vars": [*launcher, *own.get("env_vars", [])],
            "extras": {"benchio": str(program), **own.get("extras", {})},
        }


@cache
def _starter(mounts):
    """starter.py, which ends with this process; for these mounts, for it would not see others."""
    return subprocess.Popen(
        [sys.executable, Path(__file__).with_name("starter.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **QUICK},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def new_site(left, benchio):
    """In memory, for each job syncs a dozen files; `left` has what is left of the site's folder."""
    with (
        tempfile.TemporaryDirectory(prefix="iowatch-test.", dir=MEMORY) as scratch,
        tempfile.TemporaryDirectory(prefix="iowatch-site.", dir=MEMORY) as folder,
        tempfile.TemporaryDirectory(prefix="iowatch-mpirun.") as temporary,
    ):
        yield Site(Path(folder), Path(scratch), benchio, Path(temporary))
        subprocess.run(["cp", "-a", f"{folder}/.", left])


@pytest.fixture(scope="session", autouse=True)
def idle_node(tmp_path_factory):
    """A stand-in for a node that does nothing else: its counters of processor time stand still, and
    other tests that run now make no run `node_busy`. Without root they may."""
    if os.geteuid() == 0:
        enter_own_mounts()
        counters = tmp_path_factory.mktemp("node") / "stat"
        counters.write_bytes(Path("/proc/stat").read_bytes())
        subprocess.run(["mount", "--bind", counters, "/proc/stat"], check=True)


@pytest.fixture
def site(tmp_path, benchio):
    with new_site(tmp_path, benchio) as site:
        yield site


@pytest.fixture(scope="module")
def module_site(tmp_path_factory, benchio):
    """A site for what all tests of a file look at."""
    with new_site(tmp_path_factory.mktemp("site"), benchio) as site:
        yield site


@pytest.fixture(scope="session")
def measured_night(tmp_path_factory, benchio):
    """A site after a session of two libraries, in an environment that is fine and one where all is
    invalid; not to be changed."""
    with new_site(tmp_path_factory.mktemp("night"), benchio) as site:
        site.faults = {"fine": "none", "broken": "cut off"}
        site.write["backend"] = ["mpiio", "hdf5"]
        done = site.reframe("-r", "--mode=record")
        assert done.returncode == 1, done.stdout
        yield site


@pytest.fixture(scope="session")
def night(measured_night):
    """Its results database."""
    return measured_night.database
