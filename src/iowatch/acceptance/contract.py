"""The contract of an acceptance test: its rules and its criteria, read from YAML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from iowatch.acceptance import criteria
from iowatch.acceptance.criteria.base import Criterion
from iowatch.acceptance.criteria.by_session import fewest
from iowatch.acceptance.terms import Exclusion, Rules, Storage, Terms
from iowatch.files import UserError
from iowatch.records import NAME, TEXT, Record, Shape, key, number
from iowatch.yaml_text import load


@attrs.frozen(kw_only=True)
class Contract(Terms):
    """What a system must come up to."""

    criteria: Sequence[Criterion]


def _system(value: Any) -> str:
    if ":" in NAME.convert(value):
        raise ValueError
    return str(value)


def _a(kind: type) -> Any:
    """Refuse what is of another type, or empty."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or not value:
            raise ValueError
        return value

    return convert


@attrs.frozen(kw_only=True)
class _File(Record):
    """A contract as its file has it."""

    system: str = key(Shape("a whole system: name a filesystem in each criterion", _system))
    title: str = key(TEXT)
    confidence: float = key(
        number("a number from 0.5 to below 1", 0.5, math.nextafter(1, 0)), default=0.95
    )
    rules: Any = key(Shape("a mapping of rules", _a(dict)))
    filesystems: Any = key(Shape("a mapping of names such as fs3", _a(dict)))
    criteria: Any = key(Shape("a list of criteria", _a(list)))


def read(path: Path) -> Contract:
    """The contract of a YAML file; UserError names the file, the place and the key."""
    _require_file(path)
    file = _File.read(str(path), load(path))
    rules = Rules.read(f"{path}, rules", file.rules)
    storage: dict[str, Storage] = {}
    for given, facts in file.filesystems.items():
        name = str(given)
        if name in storage:
            raise UserError(f"{path}: two filesystems are named {name!r}")
        storage[name] = Storage.read(f"{path}, filesystem {name}", facts)
    agreed: dict[str, Criterion] = {}
    for number_, entry in enumerate(file.criteria, start=1):
        where = f"{path}, criterion {number_}"
        criterion = criteria.read(where, entry)
        _require_agreement(where, criterion, rules, storage)
        if criterion.name in agreed:
            raise UserError(f"{path}: two criteria are named {criterion.name!r}")
        agreed[criterion.name] = criterion
    least = fewest(file.confidence)
    if rules.sessions < least and any(one.has_interval for one in agreed.values()):
        raise UserError(
            f"{path}, rules: sessions is {rules.sessions}: with confidence {file.confidence:g}, "
            f"fewer than {least} can decide nothing"
        )
    return Contract(
        system=file.system,
        title=file.title,
        confidence=file.confidence,
        rules=rules,
        filesystems=storage,
        criteria=[*agreed.values()],
    )


def read_exclusions(path: Path, rules: Rules) -> list[Exclusion]:
    """The sessions that those whom the contract names have excluded; UserError."""
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


def _require_agreement(
    where: str, criterion: Criterion, rules: Rules, storage: Mapping[str, Storage]
) -> None:
    """UserError if a criterion and the rules cannot both be kept."""
    if criterion.filesystem not in storage:
        raise UserError(
            f"{where}: filesystems has no {criterion.filesystem}: add it with path and type, or "
            "the site's file alone would say what that is"
        )
    if why := criterion.conflict(rules, storage[criterion.filesystem]):
        raise UserError(f"{where}: {why}")
