"""Contracts, their rules, and the seal of their evidence, made up for tests."""

import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from iowatch.evidence import criteria
from iowatch.evidence.bundle import Seal, pack, unpack, write_manifest
from iowatch.evidence.contract import Contract
from iowatch.evidence.exhibits import Session
from iowatch.evidence.terms import Rules, Storage

RULES = Rules(
    begins=datetime(2026, 11, 1, tzinfo=UTC), sessions=7, hours_apart=12, reruns="failed",
    least_nodes=1, times_memory=0, machine="shared", may_exclude=("centre", "supplier"),
)  # fmt: skip

RULES_IN_WORDS = {
    "begins": "2020-01-01",
    "sessions": 2,
    "hours_apart": 0,
    "reruns": "none",
    "least_nodes": 1,
    "times_memory": 0,
    "machine": "shared",
    "may_exclude": "[]",
}
MEMORY = {"memory": "path: /dev/shm, type: tmpfs"}


def contract(
    *criteria, system="small", title="A machine", confidence=0.5, filesystems=MEMORY, **rules
):
    """The text of a contract file with these criteria, each the keys of a flow mapping:
    `contract("kind: peak, at_least: 0.5", sessions=7)`.

    A criterion without a name is A1, A2, ...; one without a filesystem is about the first. Rules
    not given are those of RULES_IN_WORDS. With confidence=None, the file does not have that key.
    """
    if unknown := set(rules) - set(RULES_IN_WORDS):
        raise TypeError(f"a contract has no rule {min(unknown)}")
    lines = [f"system: {system}", f"title: {title}"]
    lines += [f"confidence: {confidence}"] if confidence is not None else []
    lines += ["rules:"]
    lines += [f"  {key}: {value}" for key, value in (RULES_IN_WORDS | rules).items()]
    lines += ["filesystems:"]
    lines += [f"  {name}: {{{facts}}}" for name, facts in filesystems.items()]
    lines += ["criteria:"]
    for number, criterion in enumerate(criteria, start=1):
        if "filesystem: " not in criterion:
            criterion = f"filesystem: {next(iter(filesystems))}, {criterion}"
        if "name: " not in criterion:
            criterion = f"name: A{number}, {criterion}"
        lines += [f"  - {{{criterion}}}"]
    return "\n".join(lines) + "\n"


def criterion(kind, name="A1", filesystem="fs3", **keys):
    """A criterion as a contract has it."""
    return criteria.criterion_of(
        name, {"kind": kind, "name": name, "filesystem": filesystem, **keys}
    )


def agreed(
    *criteria, system="archer", title="Phase 2", confidence=0.95, rules=RULES, filesystems=None,
    **facts,
):  # fmt: skip
    """A contract with these criteria; facts of its only filesystem, fs3, if none are given."""
    filesystems = filesystems or {"fs3": storage(**facts)}
    return Contract(
        system=system, title=title, confidence=confidence, rules=rules,
        filesystems=filesystems, criteria=criteria,
    )  # fmt: skip


def storage(path="/", type="lustre", **facts):
    """A filesystem as a contract has it."""
    return Storage(path=path, type=type, **facts)


def sealed(**files):
    """The seal of evidence with these files besides."""
    return Seal("0" * 64, {"contract.yaml": "1" * 64, **files})


def session(uuid="1", why_not="", command="reframe -r"):
    """One of login1, which counts unless it is said why not."""
    began = datetime(2026, 11, 20, 1, tzinfo=UTC)
    return Session(
        uuid=uuid, began=began, by="io@login1, ReFrame 4.10.4", command=command, ran=2, promised=2,
        why_not=why_not,
    )  # fmt: skip


def key_pair(folder, name):
    """The file of a new SSH key, and its line in a list of known keys."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is missing")
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(command, check=True)
    return key, f"{name} {key.with_suffix('.pub').read_text()}"


def taken_apart(sealed, folder):
    """The folder with what is in a bundle, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    unpack(sealed, folder)
    return folder


def remade(folder):
    """An archive with a manifest and a seal that fit, as whoever forges one would make it."""
    shutil.rmtree(folder / "signatures", ignore_errors=True)
    write_manifest(folder)
    pack(folder, folder.with_name("other.tar"))
    return folder.with_name("other.tar")
