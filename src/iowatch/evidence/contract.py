"""The contract of an acceptance test: its rules, filesystems and criteria, read from YAML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from iowatch.base.files import UserError
from iowatch.base.records import Shape, key
from iowatch.base.yaml_text import load
from iowatch.evidence import criteria
from iowatch.evidence.criteria.by_session import fewest
from iowatch.evidence.criteria.criterion import Criterion
from iowatch.evidence.terms import Exclusion, Rules, Storage, Terms, _filled


@attrs.frozen(kw_only=True)
class Contract(Terms):
    """The criteria that a system must meet, and the terms under which they are judged."""

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
        criterion = criteria.criterion_of(where, entry)
        if criterion.filesystem not in storage:
            raise UserError(
                f"{where}: filesystems has no {criterion.filesystem}: add it with path and type, "
                "or the site's file alone would say what that is"
            )
        if why := next(criterion.conflicts(rules, storage[criterion.filesystem]), ""):
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
