"""The contract of an acceptance test: its rules and its criteria, read from YAML."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from iowatch.checks import BACKENDS, CONTROL, EASY, FILES, HARD, METADATA, NAME_PHASES
from iowatch.files import UserError, counted, one_line
from iowatch.yaml_text import BadYaml, load_yaml, text_of

#: What a criterion may be about, with its unit.
KINDS = {
    "bandwidth": "MiB/s",  # from opening a file to closing it; of a write, to having synced it
    "peak": "of the filesystem's peak",
    "ratio": "of MPI-IO's in the same rounds",
    "scaling": "of linear scaling between the two numbers of nodes",
    "repeatability": "standard deviation over mean of the repetitions",
    "ior": "MiB/s of IOR, beside benchio on the same pattern",
    "metadata": "operations a second of all nodes, of one phase or of all together",
    "slow_ost": "of the median of its peers: the slowest OST",
    "survival": "of a client or a server, after which all that was kept is read back",
    "degraded": "of the bandwidth of sessions with all OSTs, each beside the next without",
}
RATES = ("bandwidth", "ior")  # kinds whose values are MiB/s; those of the others are parts
RESERVED, SHARED = "reserved", "shared"
REPLACED, NEVER = "invalid", "none"  # what a re-run replaces

_CRITERION = {"name", "kind", "filesystem"}
_OPTIONAL = {
    *("backend", "operation", "files", "nodes", "from_nodes", "to_nodes", "instances"),
    *("away", "at_least", "at_most", "phase", "io500"),
}
#: Of those, what would be read and have no effect, by kind.
_FOREIGN = {
    METADATA: {"backend", "operation", "instances"},
    "scaling": {"nodes"},
    "survival": {"backend", "operation", "files", "nodes", "instances"},
}
#: What a criterion on names may be about: one phase, or items that go through all of them.
PHASES = (*NAME_PHASES, "items")
_RULES = {
    *("begins", "sessions", "hours_apart", "reruns", "least_nodes", "times_memory", "machine"),
    "may_exclude",
}
_FACTS = ("peak", "peak_from", "servers_memory", "osts")
_KEYS = {"system", "title", "rules", "filesystems", "criteria"}
_MORE = {"confidence"}
#: Kinds that are about each OST: how many there must be, the contract has to say.
OF_OSTS = ("slow_ost", "degraded")
#: Kinds without an interval, for which sizes and nodes do not matter.
WITHOUT_INTERVAL = ("slow_ost", "survival")


@dataclass(frozen=True)
class Criterion:
    """One line of a contract."""

    name: str
    kind: str
    filesystem: str
    at_least: float | None = None
    at_most: float | None = None
    backend: str = CONTROL
    operation: str = "write"
    files: str = "shared"
    nodes: int | None = None  # None: any; the best counts
    from_nodes: int | None = None
    to_nodes: int | None = None
    instances: int | None = None  # concurrent benchmarks; None: it is not about these
    phase: str = ""  # of names; empty: it is not about these
    away: int | None = None  # OSTs that are away, of `degraded`
    io500: str | None = None  # easy, hard: IO500's patterns of IOR; None: neither

    @property
    def committed(self) -> float:
        value = self.at_most if self.at_least is None else self.at_least
        assert value is not None
        return value

    def is_kept(self, value: float) -> bool:
        """Is a value on the right side of the committed one?"""
        return value >= self.committed if self.at_least is not None else value <= self.committed


@dataclass(frozen=True)
class Rules:
    """What counts, agreed before anything is measured."""

    begins: datetime  # UTC; what began before is no part of the test
    sessions: int  # the first so many that may count do
    hours_apart: float  # from the beginning of one that counts to that of the next, at least
    replaces_invalid: bool  # a later session replaces runs of one that counts if they are invalid
    least_nodes: int  # cases on fewer nodes count for nothing
    times_memory: float  # so many times the servers' memory a file must be, at least
    machine: str  # reserved, shared
    may_exclude: Sequence[str]  # only all of them together; empty: nobody may


@dataclass(frozen=True)
class Storage:
    """What the contract says of a filesystem."""

    peak: float | None = None  # MiB/s
    peak_from: str = ""  # where that number is published
    servers_memory: float | None = None  # GiB of all its servers
    path: str = ""  # below which the files must be, or at it; empty: anywhere
    type: str = ""  # as statfs names it; empty: any
    osts: int | None = None  # that it has


@dataclass(frozen=True)
class Contract:
    """What a system must come up to."""

    system: str
    title: str
    confidence: float
    rules: Rules
    criteria: Sequence[Criterion]
    filesystems: Mapping[str, Storage] = field(default_factory=dict)


@dataclass(frozen=True)
class Exclusion:
    """A session that is left out because all who may say so did."""

    session: str  # or the night of one that is not on record
    by: Sequence[str]
    why: str


def fewest(confidence: float) -> int:
    """How many sessions the exact interval of a median needs: the median of all sessions that there
    could be lies beyond all of them with half the probability that is left."""
    return math.ceil(1 - math.log2(1 - confidence) - 1e-9)


def read(path: Path) -> Contract:
    """The contract of a YAML file; UserError names the file, the place and the key."""
    data = _load(path)
    _require_keys(str(path), data, _KEYS, _MORE)
    system = _name(str(path), "system", data["system"])
    if ":" in system:
        raise UserError(
            f"{path}: system is {system!r}: give the whole system, and a filesystem in each "
            "criterion"
        )
    if not isinstance(data["title"], str) or not data["title"].strip():
        raise UserError(f"{path}: title is {data['title']!r}, not a text")
    confidence = data.get("confidence", 0.95)
    if not _is_number(confidence) or not 0.5 <= confidence < 1:
        raise UserError(f"{path}: confidence is {confidence!r}, not between 0.5 and 1")
    rules = _rules(f"{path}, rules", data["rules"])
    given = data["filesystems"]
    if not isinstance(given, dict):
        raise UserError(f"{path}: filesystems is no mapping of names such as fs3")
    storage: dict[str, Storage] = {}
    for key, facts in given.items():
        name = _name(str(path), "a filesystem", key)
        if name in storage:
            raise UserError(f"{path}: two filesystems are named {name!r}")
        storage[name] = _storage(f"{path}, filesystem {name}", facts)
    if not isinstance(data["criteria"], list) or not data["criteria"]:
        raise UserError(f"{path}: criteria is no list, or is empty")
    criteria = [
        _criterion(f"{path}, criterion {number}", entry)
        for number, entry in enumerate(data["criteria"], start=1)
    ]
    for number, criterion in enumerate(criteria, start=1):
        _agree(f"{path}, criterion {number}", criterion, rules, storage)
    names = [criterion.name for criterion in criteria]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"{path}: two criteria are named {min(twice)!r}")
    least = fewest(confidence)
    if rules.sessions < least and any(one.kind not in WITHOUT_INTERVAL for one in criteria):
        raise UserError(
            f"{path}, rules: sessions is {rules.sessions}: with confidence {confidence:g}, fewer "
            f"than {least} can decide nothing"
        )
    title = one_line(data["title"].strip())
    return Contract(system, title, confidence, rules, criteria, storage)


def read_exclusions(path: Path, rules: Rules) -> list[Exclusion]:
    """The sessions that those whom the contract names have excluded; UserError."""
    data = _load(path)
    if not isinstance(data, list):
        raise UserError(f"{path}: is no list of sessions, each with session, by and why")
    found = []
    for number, entry in enumerate(data, start=1):
        where = f"{path}, exclusion {number}"
        _require_keys(where, entry, {"session", "by", "why"})
        by = entry["by"] if isinstance(entry["by"], list) else [entry["by"]]
        names = sorted(_name(where, "by", name) for name in by)
        if not rules.may_exclude:
            raise UserError(f"{where}: the contract says that nobody may exclude a session")
        if names != sorted(rules.may_exclude):
            raise UserError(
                f"{where}: is by {' and '.join(names)}, and by the contract's may_exclude it takes "
                f"{' and '.join(rules.may_exclude)}"
            )
        if not str(entry["why"] or "").strip():
            raise UserError(f"{where}: why is empty: say why the session does not count")
        session = _name(where, "session", entry["session"])
        found.append(Exclusion(session, names, one_line(str(entry["why"]).strip())))
    return found


def _load(path: Path) -> Any:
    try:
        return load_yaml(text_of(path))
    except FileNotFoundError:
        raise UserError(f"{path}: cannot be read: there is no such file") from None
    except BadYaml as err:
        raise UserError(f"{path}: {err}") from None


def _require_keys(
    where: str, entry: Any, needed: Collection[str], more: Collection[str] = ()
) -> None:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: is no mapping with {', '.join(sorted(needed))}")
    if missing := set(needed) - set(entry):
        raise UserError(f"{where}: has no {', '.join(sorted(missing))}")
    if unknown := set(entry) - set(needed) - set(more):
        raise UserError(f"{where}: there is no key {', '.join(sorted(map(str, unknown)))}")


def _name(where: str, key: str, value: Any) -> str:
    """A name, which may look like a number; UserError. To YAML `no` is false."""
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_name or not str(value).strip() or not str(value).isprintable():
        raise UserError(f"{where}: {key} is {value!r}, not a name: write one in quotes")
    return str(value)


def _rules(where: str, entry: Any) -> Rules:
    _require_keys(where, entry, _RULES)

    def number(key: str, least: int, words: str, most: float = math.inf) -> Any:
        value = entry[key]
        is_whole = type(value) is int or words.endswith(("hours", "0"))
        if not _is_number(value) or not is_whole or not least <= value <= most:
            raise UserError(f"{where}: {key} is {value!r}, not {words}")
        return value

    def word(key: str, *known: str) -> str:
        if entry[key] not in known:
            raise UserError(f"{where}: {key} is {entry[key]!r}: there are {' and '.join(known)}")
        return str(entry[key])

    parties = entry["may_exclude"]
    is_list = isinstance(parties, list)
    names = [_name(where, "may_exclude", one) for one in parties] if is_list else []
    if not is_list or len(set(names)) < len(names):
        raise UserError(
            f"{where}: may_exclude is {parties!r}, not a list such as [centre, supplier]; it is "
            "empty if nobody may"
        )
    return Rules(
        begins=_moment(where, entry["begins"]),
        sessions=number("sessions", 1, "a number of sessions, 1000 at most", 1000),
        hours_apart=float(number("hours_apart", 0, "a number of hours")),
        replaces_invalid=word("reruns", REPLACED, NEVER) == REPLACED,
        least_nodes=number("least_nodes", 1, "a number of nodes"),
        times_memory=float(number("times_memory", 0, "a factor, or 0")),
        machine=word("machine", RESERVED, SHARED),
        may_exclude=tuple(names),
    )


def _moment(where: str, value: Any) -> datetime:
    """A day, or a time, in UTC unless it says otherwise."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise UserError(f"{where}: begins is {value!r}, not a day such as 2026-11-22")
    try:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise UserError(f"{where}: begins is {value}, which is no day in UTC") from None


def _storage(where: str, entry: Any) -> Storage:
    _require_keys(where, entry, ("path", "type"), _FACTS)
    path = str(entry["path"])
    if not path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise UserError(f"{where}: path is {entry['path']!r}, not an absolute path without ..")
    if not isinstance(entry["type"], str) or not entry["type"].isprintable() or not entry["type"]:
        raise UserError(f"{where}: type is {entry['type']!r}, not a name such as lustre")
    for key in ("peak", "servers_memory"):
        if key in entry and (not _is_number(entry[key]) or entry[key] <= 0):
            raise UserError(f"{where}: {key} is {entry[key]!r}, not {_POSITIVE}")
    if "osts" in entry and (type(entry["osts"]) is not int or entry["osts"] < 2):
        raise UserError(f"{where}: osts is {entry['osts']!r}, not a number of OSTs")
    if "peak" in entry and not str(entry.get("peak_from") or "").strip():
        raise UserError(f"{where}: has a peak without peak_from: say where it is published")
    return Storage(**{**entry, "peak_from": one_line(str(entry.get("peak_from", "")))})


def _criterion(where: str, entry: Any) -> Criterion:
    _require_keys(where, entry, _CRITERION, _OPTIONAL)
    names = {key: _name(where, key, entry[key]) for key in ("name", "filesystem")}
    if str(entry["kind"]) not in KINDS:
        raise UserError(f"{where}: kind is {entry['kind']!r}: there are {', '.join(KINDS)}")
    bound = "at_most" if entry["kind"] == "repeatability" else "at_least"
    if bound not in entry or len({"at_least", "at_most"} & set(entry)) != 1:
        raise UserError(f"{where}: {entry['kind']} needs {bound}, and no other bound")
    if not _is_number(entry[bound]) or entry[bound] <= 0:
        raise UserError(f"{where}: {bound} is {entry[bound]!r}, not {_POSITIVE}")
    if len({"from_nodes", "to_nodes"} & set(entry)) != 2 * (entry["kind"] == "scaling"):
        raise UserError(f"{where}: from_nodes and to_nodes belong to scaling, both of them")
    if (entry["kind"] == "degraded") != ("away" in entry):
        raise UserError(f"{where}: away belongs to degraded, which needs it")
    if entry["kind"] == "ratio" and entry.get("backend", CONTROL) == CONTROL:
        raise UserError(f"{where}: ratio needs a backend other than {CONTROL}")
    if entry.get("backend", CONTROL) not in BACKENDS:
        raise UserError(
            f"{where}: backend is {entry['backend']!r}: there are {', '.join(BACKENDS)}"
        )
    if foreign := sorted(_FOREIGN.get(entry["kind"], set()) & set(entry)):
        raise UserError(f"{where}: {foreign[0]} has no meaning for {entry['kind']}: leave it out")
    if (entry["kind"] == METADATA) != ("phase" in entry):
        raise UserError(f"{where}: phase belongs to metadata, and metadata needs it")
    if "phase" in entry:
        if entry["phase"] not in PHASES:
            raise UserError(f"{where}: phase is {entry['phase']!r}: there are {', '.join(PHASES)}")
        entry = {**entry, "backend": "posix", "operation": METADATA}
    elif entry.get("operation", "write") not in ("write", "read"):
        raise UserError(f"{where}: operation is {entry['operation']!r}: there are write and read")
    if str(files := entry.get("files", "shared")) != "shared":
        try:
            FILES.read(files)
        except ValueError as err:
            raise UserError(f"{where}: files {err}, or shared") from None
    for name in ("nodes", "from_nodes", "to_nodes", "instances", "away"):
        if name in entry and (type(entry[name]) is not int or entry[name] < 1):
            raise UserError(f"{where}: {name} is {entry[name]!r}, not a positive whole number")
    if entry.get("to_nodes", math.inf) <= entry.get("from_nodes", 0):
        raise UserError(
            f"{where}: to_nodes is {entry['to_nodes']}, and from_nodes {entry['from_nodes']}: it "
            "must be more"
        )
    if "io500" in entry:
        if entry["kind"] != "ior" or entry["io500"] not in (EASY, HARD):
            raise UserError(f"{where}: io500 belongs to the kind ior, and is {EASY} or {HARD}")
        shape = {"backend": "posix", "files": "process" if entry["io500"] == EASY else "shared"}
        if any(entry.get(key, value) != value for key, value in shape.items()):
            raise UserError(f"{where}: io500 {entry['io500']} has files {shape['files']} and posix")
        entry = {**entry, **shape}
    return Criterion(**{**entry, **names, "files": str(entry.get("files", "shared"))})


def _agree(where: str, criterion: Criterion, rules: Rules, storage: Mapping[str, Storage]) -> None:
    """UserError if a criterion and the rules cannot both be kept."""
    if criterion.filesystem not in storage:
        raise UserError(
            f"{where}: filesystems has no {criterion.filesystem}: add it with path and type, or "
            "the site's file alone would say what that is"
        )
    facts = storage[criterion.filesystem]
    if criterion.kind in OF_OSTS and facts.osts is None:
        raise UserError(f"{where}: filesystems has no osts of {criterion.filesystem}: how many")
    if criterion.kind == "peak" and facts.peak is None:
        raise UserError(
            f"{where}: the contract has no peak of {criterion.filesystem}: add it to filesystems, "
            "with peak_from"
        )
    if criterion.kind in WITHOUT_INTERVAL:
        return
    if rules.times_memory and facts.servers_memory is None and criterion.kind != METADATA:
        raise UserError(
            f"{where}: times_memory is {rules.times_memory:g}, and filesystems has no "
            f"servers_memory of {criterion.filesystem}"
        )
    nodes = criterion.to_nodes or criterion.nodes
    if nodes and nodes < rules.least_nodes:
        raise UserError(
            f"{where}: is about {counted(nodes, 'node')}, and by the rules fewer than "
            f"{rules.least_nodes} count for nothing"
        )


_POSITIVE = "a positive number from 1e-12 to 1e12"


def _is_number(value: Any) -> bool:
    """Neither nan nor infinite, nor so small or large that no figure can be near it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (value == 0 or 1e-12 <= abs(value) <= 1e12)
