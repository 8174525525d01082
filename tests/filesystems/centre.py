"""The checks on the cluster, with a site's configuration made up for one test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import ROOT, Run, finish, kill_session, run, start
from filesystems.machine import wait_until
from filesystems.slurm import Slurm

ENDLESS = ("-S", "repeats=1000000")
REFERENCES = """\
SharedFileWrite: &any
  cluster:.*: {overhead_fraction: [0, null, 0.999, '1']}
SharedFileRead: *any
FilePerProcess: *any
ReadBack:
  cluster:.*: {total_max: [1, -0.9999, null, MiB/s]}
"""


@dataclass
class Centre:
    """The system `cluster`, without partitions yet."""

    slurm: Slurm
    benchio: Path
    folder: Path
    partitions: list[dict[str, Any]] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)  # commands of every job
    environment: dict[str, str] = field(default_factory=dict)
    references: str = REFERENCES

    def add(self, name: str, suite: dict[str, Any], **extras: object) -> Path:
        """A partition with this filesystem of the cluster; the directory that its jobs use."""
        directory = self.slurm.folder / str(extras.pop("on", name)) / "iowatch"
        partition = {
            "name": name,
            "scheduler": "slurm",
            "launcher": "srun",
            "environs": ["gnu"],
            "max_jobs": 1,
            "time_limit": "1m",
            "prepare_cmds": self.prepare,
            "extras": {
                "filesystem": name,
                "path": str(directory),
                "type": "tmpfs",
                "peak": 1e6,
                "osts": None,
                "cached_reads": True,
                "ranks_per_node": 2,
                "keep_days": 400,
                "suites": {"nightly": suite, "acceptance": suite},
                **extras,
            },
        }
        self.partitions.append(partition)
        return directory

    def share_allocation(self, time: str) -> None:
        """All cases of the last partition run in one allocation of this time."""
        self.partitions[-1].update(scheduler="local", launcher="srun")
        self.partitions[-1]["extras"]["allocation"] = time

    def reframe(self, *options: object, system: str = "cluster") -> list[str]:
        """The command that runs the checks on the login node."""
        return self._command(
            "reframe", "-c", ROOT / "reframe_checks", "-r", "--system", system, *options
        )

    def nightly(self) -> list[str]:
        return self.iowatch("nightly", "--system", "cluster")

    def iowatch(self, *words: object) -> list[str]:
        return self._command(sys.executable, "-m", "iowatch", *words)

    def _command(self, *words: object) -> list[str]:
        extras = {"benchio": str(self.benchio)}
        config = {
            "systems": [{"name": "cluster", "hostnames": [], "partitions": self.partitions}],
            "environments": [{"name": "gnu", "target_systems": ["cluster"], "extras": extras}],
        }
        (self.folder / "cluster.py").write_text(f"site_configuration = {config!r}\n")
        (self.folder / "cluster.yaml").write_text(self.references)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": ROOT / "src",
            "PYTHONDONTWRITEBYTECODE": 1,
            "RFM_CONFIG_FILES": f"{ROOT}/site_configs/settings.py:{self.folder}/cluster.py",
            "RFM_PREFIX": self.folder / "run",
            "RFM_REFERENCE_PREFIX": self.folder,
            **self.environment,
        }
        pairs = [f"{name}={value}" for name, value in environment.items()]
        return self.slurm.machine.command("env", *pairs, *words, cwd=self.folder)

    def run(self, command: list[str], timeout: float = 300) -> Run:
        return run(command, env=self.slurm.env, timeout=timeout)

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Give it to `finish`."""
        return start(command, env=self.slurm.env)

    def hold(self) -> Path:
        """Let all jobs that write, but the first, wait until the file is there that is returned."""
        go = self.folder / "go"
        wait = f"for i in {{1..6000}}; do [ ! -e {go} ] || break; sleep 0.1; done"
        self.prepare.append(f"case $PWD in *SharedFile*) mkdir {go}.first || {wait} ;; esac")
        return go

    def in_mid_night(self, *options: str) -> tuple[subprocess.Popen[str], str]:
        """A night that has measured one of its two cases that write, once the job of the other one
        runs, and the number of that; `hold` keeps it."""
        night = self.start([*self.nightly(), *options])
        runs = self.folder / "run" / "runs"

        def has_second() -> bool:
            begun = len(list(runs.glob("*/*SharedFile*/job.json"))) == 2
            return night.poll() is not None or (begun and bool(self.slurm.running()))

        wait_until(has_second, "the second job", 300)
        assert night.poll() is None, finish(night)
        (job,) = self.slurm.running()
        return night, job

    @contextmanager
    def in_mid_run(self, directory: Path, *options: object) -> Iterator[subprocess.Popen[str]]:
        """A session whose only job writes to a directory, once it does."""
        session = self.start(self.reframe("-n", "SharedFileWrite", *options))
        try:
            seen = self.slurm.machine.seen(directory)
            wait_until(
                lambda: session.poll() is not None or [*seen.glob("iowatch.*/benchio.*/*.dat")],
                "a file of the job", 60,
            )  # fmt: skip
            assert session.poll() is None, finish(session)
            yield session
        finally:
            if session.poll() is None:
                kill_session(session)
            self.slurm.sh("scancel", f"--name=iowatch_{self.partitions[-1]['name']}")

    def failed(self, session: subprocess.Popen[str], timeout: float = 120) -> dict[str, Any]:
        """The only case of a session that has to end; it has no metric."""
        done = finish(session, timeout)
        assert done.code == 1, done.out + done.err
        (case,) = self.cases()
        assert (case["result"], case["state"]) == ("fail", "failed"), case
        assert case["perfvalues"] == {}
        return case

    def cases(self) -> list[dict[str, Any]]:
        """The cases that write or read, in the report of ReFrame's last session."""
        reports = sorted(
            (self.folder / "run/reports").glob("*.json"), key=lambda file: file.stat().st_mtime
        )
        run = json.loads(reports[-1].read_text())["runs"][-1]
        cases = [test for test in run["testcases"] if test.get("case_id")]
        return [test for test in cases if "/LibraryVersions" not in test["case_id"]]
