"""The contract of an acceptance test: its criteria, read from YAML."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch.files import UserError
from iowatch.yaml_text import BadYaml, load_yaml

#: What a criterion may be about, with its unit.
KINDS = {
    "bandwidth": "MiB/s",  # from opening a file to closing it; of a write, to having synced it
    "peak": "of the filesystem's peak",
    "ratio": "of MPI-IO's in the same rounds",
    "scaling": "of linear scaling between the two numbers of nodes",
    "repeatability": "standard deviation over mean of the repetitions",
    "slow_ost": "of the median of its peers: the slowest OST",
}
REQUIRED = {"name", "kind", "filesystem"}
OPTIONAL = {
    "backend", "operation", "files", "nodes", "from_nodes", "to_nodes", "at_least", "at_most",
}  # fmt: skip


@dataclass(frozen=True)
class Criterion:
    """One line of a contract."""

    name: str
    kind: str
    filesystem: str
    at_least: float | None = None
    at_most: float | None = None
    backend: str = "mpiio"
    operation: str = "write"
    files: str = "shared"
    nodes: int | None = None  # None: any; the best counts
    from_nodes: int | None = None
    to_nodes: int | None = None

    @property
    def committed(self) -> float:
        value = self.at_most if self.at_least is None else self.at_least
        assert value is not None
        return value


@dataclass(frozen=True)
class Contract:
    """What a system must come up to."""

    system: str
    title: str
    confidence: float
    criteria: list[Criterion]
    checksum: str = ""  # SHA-256 of its file


def read(path: Path) -> Contract:
    """The contract of a YAML file; UserError names the file, the criterion and the key."""
    try:
        text = path.read_text("utf-8")
        data = load_yaml(text)
    except (OSError, UnicodeDecodeError, BadYaml) as err:
        raise UserError(f"{path}: cannot be read: {err}") from None
    keys = {"system", "title", "confidence", "criteria"}
    if not isinstance(data, dict) or not keys - {"confidence"} <= set(data) <= keys:
        raise UserError(f"{path}: needs system, title and criteria, and may have confidence")
    if ":" in str(data["system"]):
        raise UserError(
            f"{path}: system is {data['system']!r}: give the whole system, and a filesystem in "
            "each criterion"
        )
    confidence = data.get("confidence", 0.95)
    if not _is_number(confidence) or not 0.5 <= confidence < 1:
        raise UserError(f"{path}: confidence is {confidence!r}, not between 0.5 and 1")
    if not isinstance(data["criteria"], list) or not data["criteria"]:
        raise UserError(f"{path}: criteria is no list, or is empty")
    criteria = [
        _criterion(f"{path}, criterion {number}", entry)
        for number, entry in enumerate(data["criteria"], start=1)
    ]
    names = [criterion.name for criterion in criteria]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"{path}: two criteria are named {min(twice)!r}")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return Contract(str(data["system"]), str(data["title"]), confidence, criteria, checksum)


def _criterion(where: str, entry: Any) -> Criterion:
    if not isinstance(entry, dict) or not set(entry) >= REQUIRED:
        raise UserError(f"{where}: needs {', '.join(sorted(REQUIRED))}")
    if unknown := set(entry) - REQUIRED - OPTIONAL:
        raise UserError(f"{where}: has no key {', '.join(sorted(map(str, unknown)))}")
    if not entry["name"]:
        raise UserError(f"{where}: its name is empty")
    if str(entry["kind"]) not in KINDS:
        raise UserError(f"{where}: kind is {entry['kind']!r}: there are {', '.join(KINDS)}")
    bound = "at_most" if entry["kind"] == "repeatability" else "at_least"
    if bound not in entry or len({"at_least", "at_most"} & set(entry)) != 1:
        raise UserError(f"{where}: {entry['kind']} needs {bound}, and no other bound")
    if not _is_number(entry[bound]) or entry[bound] <= 0:
        raise UserError(f"{where}: {bound} is {entry[bound]!r}, not a positive number")
    if (entry["kind"] == "scaling") != ({"from_nodes", "to_nodes"} <= set(entry)):
        raise UserError(f"{where}: from_nodes and to_nodes belong to scaling, both of them")
    if entry["kind"] == "ratio" and entry.get("backend", "mpiio") == "mpiio":
        raise UserError(f"{where}: ratio needs a backend other than mpiio")
    for name in ("nodes", "from_nodes", "to_nodes"):
        if name in entry and (type(entry[name]) is not int or entry[name] < 1):
            raise UserError(f"{where}: {name} is {entry[name]!r}, not a number of nodes")
    texts = ("name", "filesystem", "backend", "operation", "files")
    return Criterion(**{**entry, **{name: str(entry[name]) for name in texts if name in entry}})


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -1e300 < value < 1e300  # neither nan nor infinite, nor too long for one
