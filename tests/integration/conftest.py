"""A site made up for one test: one filesystem in memory, small sizes, all in temporary folders."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in.py")

REFERENCES = """\
SharedFileWrite:
  $index: [case_id]
  small:.*:
    close_fraction: [0, null, 1, '1']
"""


@dataclass
class Site:
    """The system `small`. Change its fields before a run."""

    folder: Path
    scratch: Path  # the filesystem's path: in memory, so that its type is known
    benchio: Path
    extras: dict[str, Any] = field(default_factory=dict)
    sweep: dict[str, Any] = field(default_factory=dict)  # both of them
    write: dict[str, Any] = field(default_factory=dict)  # what SharedFileWrite measures
    partition: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)  # environment -> fault of the stand-in
    injected: dict[str, str] = field(default_factory=dict)  # environment -> variables of shim.c
    references: str | None = REFERENCES
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.extras = {
            "filesystem": "memory",
            "path": str(self.scratch),
            "type": "tmpfs",
            "peak": 1e6,
            "osts": None,
            "cached_reads": True,
            "writers_per_node": 2,
        }
        self.write = {"backend": ["mpiio"], "local_size": [8], "nodes": [1]}
        self.sweep = {"SharedFileWrite": self.write}

    def reframe(self, *options, system="small"):
        return self._run("reframe", "-c", ROOT / "reframe_checks", "--system", system, *options)

    def iowatch(self, *options, system="small"):
        return self._run(sys.executable, "-m", "iowatch", "nightly", "--system", system, *options)

    def report(self):
        """The cases of the run that came last; their figures without prefix."""
        files = sorted((self.folder / "run" / "reports").glob("*.json"))
        run = json.loads(files[-1].read_text())["runs"][-1]
        tests = [test for test in run["testcases"] if "case_id" in test]
        for test in tests:
            test["figures"] = {k.split(":")[-1]: v for k, v in test["perfvalues"].items()}
        return tests

    def _run(self, *command):
        process = self.start(*command)
        try:
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out)

    def start(self, *command):
        """A command of this site's, running."""
        self._write()
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RFM_CONFIG_FILES": f"{ROOT}/site_configs/settings.py:{ROOT}/site_configs/local.py"
            f":{self.folder}/small.py",
            "RFM_PREFIX": str(self.folder / "run"),
            "RFM_REFERENCE_PREFIX": str(self.folder),
            **self.environment,
        }
        return subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _write(self):
        if self.references is not None:
            (self.folder / "small.yaml").write_text(self.references)
        programs = {"real": self.benchio}
        for name, fault in self.faults.items():
            programs[name] = self.folder / name
            programs[name].write_text(
                f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "{fault}" "$@"\n'
            )
            programs[name].chmod(0o755)
        for name, variables in self.injected.items():
            programs[name] = self.folder / name
            programs[name].write_text(
                "#!/bin/bash\n"
                "directory=$(sed -n 's/.*--dir \\([^ ]*\\).*/\\1/p' <<< \"$*\")\n"
                'case "$*" in\n'  # the file of the case's backend, not of its control
                "*netcdf*) file=benchio.netcdf.nc ;;\n"
                "*hdf5*) file=benchio.hdf5.h5 ;;\n"
                "*) file=benchio.mpiio.dat ;;\n"
                "esac\n"
                f"export {variables} FAULT_FILE=$directory/$file\n"
                f'exec {self.benchio} "$@"\n'
            )
            programs[name].chmod(0o755)
        config = {
            "systems": [
                {
                    "name": "small",
                    "hostnames": [],
                    "partitions": [
                        {
                            "name": "memory",
                            "scheduler": "local",
                            "launcher": "mpirun",
                            "environs": [*self.faults, *self.injected] or ["real"],
                            "max_jobs": 1,
                            "time_limit": "2m",
                            "env_vars": [
                                ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
                                ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
                                ["OMPI_MCA_rmaps_base_oversubscribe", "1"],
                                ["OMPI_MCA_io", "romio321"],
                            ],
                            "extras": {
                                "sweeps": {"nightly": self.sweep, "acceptance": self.sweep},
                                **self.extras,
                            },
                            **self.partition,
                        }
                    ],
                }
            ],
            "environments": [
                {"name": name, "target_systems": ["small"], "extras": {"benchio": str(program)}}
                for name, program in programs.items()
            ],
        }
        (self.folder / "small.py").write_text(f"site_configuration = {config!r}\n")


@contextmanager
def new_site(folder, benchio):
    scratch = Path(tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm"))
    yield Site(folder, scratch, benchio)
    shutil.rmtree(scratch)


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
def night(tmp_path_factory, benchio):
    """The results database of one night: one case that is fine and one that is invalid."""
    with new_site(tmp_path_factory.mktemp("night"), benchio) as site:
        site.faults = {"fine": "none", "broken": "cut off"}
        site.write["backend"] = ["hdf5"]
        done = site.reframe("-r", "--mode=record")
        assert done.returncode == 1, done.stdout
        return site.folder / "run" / "results.db"
