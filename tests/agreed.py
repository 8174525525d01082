"""The rules of a contract, and the seal of its evidence, made up for tests."""

import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from iowatch.acceptance.contract import Rules
from iowatch.acceptance.dossier import Seal
from iowatch.acceptance.evidence import Session

RULES = Rules(
    begins=datetime(2026, 11, 1, tzinfo=UTC), sessions=7, hours_apart=12, replaces_invalid=True,
    least_nodes=1, times_memory=0, machine="shared", may_exclude=("centre", "supplier"),
)  # fmt: skip


def sealed(**files):
    """The seal of evidence with these files besides."""
    return Seal("0" * 64, {"contract.yaml": "1" * 64, **files})


def session(uuid="1", why_not="", command="reframe -r"):
    """One of login1, which counts unless it is said why not."""
    began = datetime(2026, 11, 20, 1, tzinfo=UTC)
    return Session(uuid, began, "io@login1, ReFrame 4.10.4", command, 2, 2, why_not)


def key_pair(folder, name):
    """The file of a new SSH key, and its line in a list of known keys."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is missing")
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(command, check=True)
    return key, f"{name} {key.with_suffix('.pub').read_text()}"
