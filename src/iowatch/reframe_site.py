"""What ReFrame's configuration says: asked of ReFrame itself, without running a check."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from iowatch.case import Case
from iowatch.errors import UserError
from iowatch.site import Filesystem, read_filesystem

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "reframe_checks"


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
        done = subprocess.run(
            ["reframe", "--nocolor", *options], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise UsageError("no reframe on PATH: run `make setup` and `source env.sh`") from None
    except subprocess.CalledProcessError as err:
        reason = why_it_failed(err.stdout + err.stderr)
        raise UsageError(f"reframe {' '.join(options)}: {reason}") from None
    return done.stdout


def why_it_failed(output: str) -> str:
    """The line of ReFrame's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # A configuration that is no Python makes ReFrame print a traceback, the place near its end.
    place = [line for line in lines if line.startswith("File ")][-1:]
    error = [line for line in lines if "rror: " in line][-1:] or lines[-1:]
    return ": ".join(place + error)
