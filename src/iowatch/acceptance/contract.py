"""The contract of an acceptance test: its rules, filesystems and criteria, read from YAML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import attrs

from iowatch.acceptance import criteria
from iowatch.acceptance.criteria.by_session import fewest
from iowatch.acceptance.criteria.criterion import POSITIVE, Criterion
from iowatch.files import UserError
from iowatch.records import NAME, TEXT, Record, Shape, choice, key, list_of, number
from iowatch.yaml_text import load

_PARTIES = list_of(NAME, "a list of names such as [centre, supplier]")
FAILED, NEVER = "failed", "none"  # the runs that a re-run replaces


def _moment(value: Any) -> datetime:
    """Take a day, or a time, in UTC unless the time has a zone."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ValueError
    if ".." in value.split("/"):
        raise ValueError
    return value


def _system(value: Any) -> str:
    if ":" in NAME.convert(value):
        raise ValueError
    return str(value)


def _filled(kind: type) -> Any:
    """Refuse a value of another type, or an empty one."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or not value:
            raise ValueError
        return value

    return convert


@attrs.frozen(kw_only=True)
class Rules(Record):
    """The rules of what counts, agreed before anything is measured."""

    begins: datetime = key(
        Shape("a day such as 2026-11-22, or a time, in UTC", _moment),
        "When the test begins: a session that began before is no part of it.",
    )
    sessions: int = key(
        number("a number of sessions, 1000 at most", 1, 1000, is_whole=True),
        "The first so many sessions that may count do.",
    )
    hours_apart: float = key(
        number("a number of hours", 0),
        "The least time from the beginning of a session that counts to that of the next.",
        unit="h",
    )
    reruns: str = key(choice(FAILED, NEVER), "The runs that a later session may replace.")
    least_nodes: int = key(
        number("a number of nodes", 1, is_whole=True), "Cases on fewer nodes count for nothing."
    )
    times_memory: float = key(
        number("a factor, or 0", 0), "So many times the servers' memory a file must be."
    )
    machine: str = key(
        choice("reserved", "shared"), "Whether other users are on the machine during the test."
    )
    may_exclude: tuple[str, ...] = key(
        list_of(NAME, "a list such as [centre, supplier]; [] if nobody may", may_be_empty=True),
        "The parties that may exclude a session, all of them together.",
    )

    @property
    def replaces_failed(self) -> bool:
        """Return whether a later session replaces failed runs of one that counts."""
        return self.reruns == FAILED


@attrs.frozen(kw_only=True)
class Storage(Record):
    """A filesystem, as the contract describes it."""

    path: str = key(
        Shape("an absolute path without ..", _path), "The directory that all files are below."
    )
    type: str = key(Shape("a name such as lustre", TEXT.convert), "The type that `statfs` names.")
    osts: int | None = key(
        number("a number of OSTs", 2, is_whole=True),
        "The number of OSTs; required where a criterion is about OSTs.",
        default=None,
    )
    peak: float | None = key(
        POSITIVE,
        "The peak that `peak` criteria are parts of; required for them.",
        unit="MiB/s",
        default=None,
    )
    peak_from: str = key(TEXT, "Where the peak is published; required beside a peak.", default="")
    servers_memory: float | None = key(
        POSITIVE,
        "The memory of all servers together; required where `times_memory` is above 0.",
        unit="GiB",
        default=None,
    )

    def contradiction(self) -> str:
        if self.peak is not None and not self.peak_from:
            return "has a peak without peak_from: say where it is published"
        return ""


@attrs.frozen(kw_only=True)
class Exclusion(Record):
    """A session that is left out because all who may say so did."""

    session: str = key(NAME, "The session's id, or the night of a session that is not on record.")
    by: tuple[str, ...] = key(
        Shape(_PARTIES.phrase, lambda value: tuple(sorted(_PARTIES.convert(value)))),
        "The parties that exclude it: all of the contract's `may_exclude`.",
    )
    why: str = key(TEXT, "Why it is excluded.")


@attrs.frozen(kw_only=True)
class Contract(Record):
    """The criteria that a system must meet, and the rules by which they are judged."""

    system: str = key(
        Shape("a whole system: name a filesystem in each criterion", _system),
        "The system, as its site's file names it.",
    )
    title: str = key(TEXT, "The title of the dossier.")
    confidence: float = key(
        number("a number from 0.5 to below 1", 0.5, math.nextafter(1, 0)),
        "The confidence of all intervals.",
        default=0.95,
    )
    rules: Rules = key(
        Shape("a mapping of rules", _filled(dict)), "What counts: all rules are required."
    )
    filesystems: Mapping[str, Storage] = key(
        Shape("a mapping of names such as fs3", _filled(dict)), "The filesystems of the criteria."
    )
    criteria: Sequence[Criterion] = key(
        Shape("a list of criteria", _filled(list)), "The criteria, none without a `kind`."
    )


def read(path: Path) -> Contract:
    """Read the contract in a YAML file; UserError names the file, the place and the key."""
    _require_file(path)
    file: Any = Contract.read(str(path), load(path))
    rules = Rules.read(f"{path}, rules", file.rules)
    storage: dict[str, Storage] = {}
    for given, facts in file.filesystems.items():
        name = str(given)
        if name in storage:
            raise UserError(f"{path}: two filesystems are named {name!r}")
        storage[name] = Storage.read(f"{path}, filesystem {name}", facts)
    agreed: dict[str, Criterion] = {}
    for place, entry in enumerate(file.criteria, start=1):
        where = f"{path}, criterion {place}"
        criterion = criteria.read(where, entry)
        if criterion.filesystem not in storage:
            raise UserError(
                f"{where}: filesystems has no {criterion.filesystem}: add it with path and type, "
                "or the site's file alone would say what that is"
            )
        if why := criterion.conflict(rules, storage[criterion.filesystem]):
            raise UserError(f"{where}: {why}")
        if criterion.name in agreed:
            raise UserError(f"{path}: two criteria are named {criterion.name!r}")
        agreed[criterion.name] = criterion
    least = fewest(file.confidence)
    if rules.sessions < least and any(criterion.has_interval for criterion in agreed.values()):
        raise UserError(
            f"{path}, rules: sessions is {rules.sessions}: with confidence {file.confidence:g}, "
            f"fewer than {least} can decide nothing"
        )
    contract: Contract = attrs.evolve(
        file, rules=rules, filesystems=storage, criteria=[*agreed.values()]
    )
    return contract


def read_exclusions(path: Path, rules: Rules) -> list[Exclusion]:
    """Read the sessions that those whom the contract names have excluded; UserError."""
    _require_file(path)
    exclusions = Exclusion.read_list(path)
    for place, exclusion in enumerate(exclusions, start=1):
        where = f"{path}, entry {place}"
        if not rules.may_exclude:
            raise UserError(f"{where}: the contract says that nobody may exclude a session")
        if exclusion.by != tuple(sorted(rules.may_exclude)):
            raise UserError(
                f"{where}: is by {' and '.join(exclusion.by)}, and by the contract's may_exclude "
                f"it takes {' and '.join(rules.may_exclude)}"
            )
    return exclusions


def _require_file(path: Path) -> None:
    if not path.exists():
        raise UserError(f"{path}: cannot be read: there is no such file")
