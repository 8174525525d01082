"""What ReFrame's configuration says: asked of ReFrame itself, without running a check."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from iowatch.case import Case
from iowatch.errors import UserError
from iowatch.site import Filesystem, read_filesystem

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "reframe_checks"

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
