"""The build of iowatch: the release, and the last commit to what runs and judges.

setup.py writes the commit into what is built, wheel or sdist; a checkout asks git. Whoever packs
iowatch in another way has this file print it. This module needs the standard library alone.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

#: Beside this file, where iowatch was built: the commit.
FILE = "BUILD"
#: A site's changes in a checkout, such as baselines, make no other iowatch.
_SOURCES = ("src/iowatch", "reframe_checks")
GIT_S = 10.0


@cache  # git is asked once
def commit() -> str:
    """The commit, with `.dirty` if files have been changed since; empty: nobody knows."""
    try:
        return Path(__file__).parents[1].joinpath(FILE).read_text("utf-8").strip()
    except FileNotFoundError:
        pass
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():  # what is around it would be another project's
        return ""
    last = _git(root, "log", "-1", "--format=%h", "--abbrev=10")
    changed = last and _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{last}.dirty" if changed else last


def _git(root: Path, *words: str) -> str:
    """The answer of git on the sources; empty: there is no git, or it refuses."""
    # Whoever runs it has perhaps not made the clone, or is in a hook of another repository.
    command = ["git", "-c", "safe.directory=*", "--no-optional-locks", *words, "--", *_SOURCES]
    variables = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, cwd=root, env=variables, capture_output=True, text=True, check=False,
            timeout=GIT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version(number: str) -> str:
    """Return this release with the commit, such as 0.1.0+bae2ebe5e1."""
    return f"{number}+{commit()}" if commit() else number


if __name__ == "__main__":
    print(commit())
