"""A site's filesystems, as the `extras` of ReFrame's partitions describe them.

A partition is one node type seen with one filesystem. All keys are required, so a misspelt one
cannot pass unnoticed. site_configs/README.md says what each key means.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.checks import (
    ALL_CHECKS,
    CHECKS,
    PROFILES,
    Setting,
    Sweep,
    read_count,
    read_list,
    read_sweeps,
    read_text,
)
from iowatch.files import UserError

FILESYSTEM = "filesystem"
PATH = "path"
TYPE = "type"
PEAK = "peak"
OSTS = "osts"
CACHED_READS = "cached_reads"
WRITERS_PER_NODE = "writers_per_node"
SWEEPS = "sweeps"

#: Optional, in the extras of an environment: a prebuilt benchio to use instead of this checkout's.
BENCHIO = "benchio"

#: Likewise: the path of libdarshan.so, or the module that brings Darshan.
DARSHAN = "darshan"


class SiteConfigError(UserError):
    """A site's configuration is incomplete or wrong.

    Not one of ReFrame's own exceptions: with those it would skip the check and exit with 0.
    """


@dataclass(frozen=True)
class Filesystem:
    """A partition's filesystem and what is to be measured on it."""

    system: str
    partition: str
    environs: tuple[str, ...]
    name: str  # such as fs3
    path: str  # directory to write under; made if only its last component is missing
    types: tuple[str, ...]  # statfs names that benchio may find there
    peak: float  # MiB/s that nothing can exceed: link or memory bandwidth
    osts: int | None  # None: not striped
    cached_reads: bool  # reads that a cache may have served are accepted
    writers_per_node: int  # where a sweep does not say so itself
    sweeps: Mapping[str, Sweep]

    def settings(self, sweep: str, check: str) -> tuple[Setting, ...]:
        """What a check is to measure here; nothing if the sweep does not name it."""
        return self.sweeps[sweep].get(check, ())

    def case(self, environ: str, check: str, setting: Setting) -> Case:
        """The case of one setting of a check in one environment."""
        return Case(
            system=self.system,
            partition=self.partition,
            environ=environ,
            operation=ALL_CHECKS[check].operation,
            files=setting.files,
            backend=setting.backend,
            stripe_count=setting.stripe_count,
            stripe_size=setting.stripe_size,
            local_size=setting.local_size,
            writers=setting.nodes * setting.writers_per_node,
            instances=setting.instances,
            each_ost=ALL_CHECKS[check].each_ost,
            ior_peer=ALL_CHECKS[check].ior_peer,
        )

    def cases(self, sweep: str) -> set[Case]:
        """Every case to be measured here."""
        return self._cases(sweep, CHECKS)

    def profiles(self, sweep: str) -> set[Case]:
        """Every access pattern to be looked at here; their operation is ``profile``."""
        return self._cases(sweep, PROFILES)

    def _cases(self, sweep: str, checks: Iterable[str]) -> set[Case]:
        return {
            self.case(environ, check, setting)
            for environ in self.environs
            for check in checks
            for setting in self.settings(sweep, check)
        }


def read_filesystem(
    system: str,
    partition: str,
    environs: Iterable[str],
    extras: Mapping[str, Any],
    sources: Iterable[str],
) -> Filesystem:
    """The filesystem of one partition; SiteConfigError, naming the file among `sources` to mend."""
    files = list(sources)
    # One file per system, named like it, is the rule; a site may have its own.
    mend = ", ".join([f for f in files if Path(f).stem == system] or files)
    names = tuple(environs)
    if not names:
        raise SiteConfigError(
            f"{system}:{partition}: the partition has no environs: mend it in {mend}"
        )

    def read(key: str, convert: Callable[[Any], Any]) -> Any:
        if key not in extras:
            raise SiteConfigError(
                f"{system}:{partition}: the partition's extras have no {key!r}: add it in {mend}"
            )
        try:
            return convert(extras[key])
        except ValueError as err:
            raise SiteConfigError(
                f"{system}:{partition}: {key!r} in the partition's extras {err}: mend it in {mend}"
            ) from None

    name = read(FILESYSTEM, read_text)
    osts = read(OSTS, lambda value: None if value is None else read_count(value))
    writers_per_node = read(WRITERS_PER_NODE, read_count)
    return Filesystem(
        system=system,
        partition=partition,
        environs=names,
        name=name,
        path=read(PATH, _directory),
        types=read(TYPE, lambda v: read_list(read_text)([v] if isinstance(v, str) else v)),
        peak=read(PEAK, _positive),
        osts=osts,
        cached_reads=read(CACHED_READS, _flag),
        writers_per_node=writers_per_node,
        sweeps=read(SWEEPS, lambda v: read_sweeps(v, osts is not None, writers_per_node)),
    )


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"is not an absolute path: {value!r}")
    return value


def _positive(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < float("inf")
    ):
        raise ValueError(f"is not a positive number: {value!r}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is neither True nor False: {value!r}")
    return value


ROOT = Path(__file__).resolve().parents[2]
CHECKS_FOLDER = ROOT / "reframe_checks"

#: The environment variable with the TMPDIR that jobs are to have; empty: none.
JOB_TMPDIR = "IOWATCH_TMPDIR"


class UsageError(UserError):
    """What was asked for cannot be done; the message says what to mend."""


def filesystems(system: str) -> list[Filesystem]:
    """The filesystems of a system, or of one of its partitions (`archer:fs3`).

    SiteConfigError, UsageError.
    """
    config = json.loads(ask_reframe("--system", system, "--show-config=systems"))[0]
    sources = os.environ.get("RFM_CONFIG_FILES", "ReFrame's configuration").split(":")
    return [
        read_filesystem(
            config["name"],
            partition["name"],
            partition.get("environs", []),
            partition.get("extras", {}),
            sources,
        )
        for partition in config["partitions"]
    ]


def cases(places: Iterable[Filesystem], sweep: str) -> set[Case]:
    """Every case that a sweep asks for on these filesystems."""
    return {case for place in places for case in place.cases(sweep)}


def profiles(places: Iterable[Filesystem], sweep: str) -> set[Case]:
    """Every access pattern that a sweep asks to be looked at on these filesystems."""
    return {case for place in places for case in place.profiles(sweep)}


def results_database() -> Path:
    """The results database of ReFrame's configuration."""
    path: str = json.loads(ask_reframe("--show-config=storage/0/sqlite_db_file"))
    return Path(os.path.expandvars(path))


def reference_folder() -> Path:
    """Where the checks find reference values and baselines."""
    return Path(os.environ.get("RFM_REFERENCE_PREFIX") or ROOT / "reference_values").absolute()


def is_stored(system: str, uuid: str) -> bool:
    """Is this session in the results database?"""
    try:
        stored = json.loads(ask_reframe("--system", system, f"--describe-stored-sessions={uuid}"))
    except UsageError:
        return False
    return any(session["session_info"]["uuid"] == uuid for session in stored)


def ask_reframe(*options: str) -> str:
    """What ReFrame prints for these options; UsageError in one line if it can't."""
    try:
        with temporary_folder() as folder:
            done = subprocess.run(
                ["reframe", "--nocolor", *options],
                capture_output=True,
                text=True,
                check=True,
                env=environment(folder),
            )
    except FileNotFoundError:
        raise UsageError("no reframe on PATH: run `make setup` and `source env.sh`") from None
    except subprocess.CalledProcessError as err:
        said = err.stdout + err.stderr
        reason = why_it_failed(said) or (said.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(f"reframe {' '.join(options)}: {reason}") from None
    return done.stdout


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed after the block; UsageError if none can be made."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="iowatch.")
    except OSError as err:
        raise UsageError(f"no temporary folder can be made, nothing was run: {err}") from None
    with folder as name:
        yield Path(name)


def environment(folder: Path) -> dict[str, str]:
    """ReFrame's own environment: it leaves a log in TMPDIR whenever it starts.

    Its jobs get the user's TMPDIR again, from reframe_checks/job.py.
    """
    users = {JOB_TMPDIR: os.environ.get("TMPDIR", "")}
    return {**os.environ, "TMPDIR": str(folder), **users}


def why_it_failed(output: str) -> str:
    """The line of ReFrame's output that says what went wrong; empty if there is none."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)  # of colours
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    # A configuration that is no Python makes ReFrame print a traceback, the place near its end.
    place = [line for line in lines if line.startswith("File ")][-1:]
    error = [line for line in lines if re.search(r"rror: |^ERROR", line)][-1:]
    return ": ".join(place + error) if error else ""
