"""What an installation by another user than root's begins with."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def copy_checkout(folder: Path) -> Path:
    """Copy what git would have of this checkout, but for the tests, to a folder."""
    tracked = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def everybodys_python(**user: object) -> str:
    """An interpreter that this user may start: the one of these tests may be in root's home."""
    for program in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        command = [program, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(command, capture_output=True, **user).returncode == 0:  # type: ignore[call-overload]
                return program
        except OSError:
            continue
    return pytest.skip("no Python 3.11 or later that another user may start")
