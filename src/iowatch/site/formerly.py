"""Former names: the key `formerly` in the extras of a partition or of an environment.

What is on record, blessed or expected under a former name is that of the present one. ReFrame's
database and what people have written stay as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from iowatch.base.files import UserError
from iowatch.cases.case import Case
from iowatch.cases.filesystem import FORMER_ENVIRONS, FORMER_PLACES, FORMERLY, file_of, is_ours
from iowatch.cases.run import Run
from iowatch.site.site import configuration, environments_of

T = TypeVar("T")
#: System, partition, environment.
Place = tuple[str, str, str]

_PLACE = re.compile(r"([^:/]+):([^/]+)/([^/]+)")


@dataclass(frozen=True)
class Formerly:
    """All former names of all systems."""

    present: Mapping[Place, Place]  # by the former one
    filesystems: Mapping[Place, str]  # the present name, by system, partition and former name

    def place(self, case: Case) -> Case:
        """A case at the place that it has now."""
        now = self.present.get((case.system, case.partition, case.environ))
        if not now:
            return case
        return replace(case, system=now[0], partition=now[1], environ=now[2])

    def by_case(self, entries: Iterable[tuple[Case, T]]) -> dict[Case, T]:
        """Entries by the present places of their cases; that of a present name counts first."""
        pairs = [*entries]
        before = {self.place(case): entry for case, entry in pairs}
        return before | {case: entry for case, entry in pairs if self.place(case) == case}

    def run(self, run: Run) -> Run:
        """A run as if place and filesystem had always had their present names."""
        case = self.place(run.case)
        where = case.system, case.partition, run.filesystem
        filesystem = self.filesystems.get(where, run.filesystem)
        if (case, filesystem) == (run.case, run.filesystem):
            return run
        return replace(run, case=case, filesystem=filesystem)

    def ids(self, case: str) -> list[str]:
        """The id of a case, and those that it had before."""
        match = _PLACE.match(case)
        former = (old for old, now in self.present.items() if match and now == match.groups())
        rest = case[match.end() :] if match else ""
        return [case, *(f"{old[0]}:{old[1]}/{old[2]}{rest}" for old in former)]

    def systems(self, system: str) -> list[str]:
        """The names of a system, the present one last."""
        before = (old[0] for old, now in self.present.items() if now[0] == system)
        return [*dict.fromkeys(name for name in before if name != system), system]

    def kept(self, days: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Give the days that a system's partition is kept to its former names too."""
        before = {old[:2]: days[now[:2]] for old, now in self.present.items() if now[:2] in days}
        return before | dict(days)


def is_meant(cases: re.Pattern[str], case: str) -> bool:
    """Return whether an expression matches the id of a case, or one that it had before."""
    return any(cases.fullmatch(name) for name in former_names().ids(case))


def former_names() -> Formerly:
    """The former names in ReFrame's configuration; UserError."""
    names = ("RFM_CONFIG_PATH", "RFM_CONFIG_FILES", "IOWATCH_SITE_DIR")
    return _read(*(os.environ.get(name, "") for name in names))


@cache  # of one configuration: no file is executed twice
def _read(*_: str) -> Formerly:
    config = configuration()
    systems = {entry["name"]: entry["partitions"] for entry in reversed(config["systems"])}
    entries = [*config["environments"], *(part for parts in systems.values() for part in parts)]
    present, filesystems = dict[Place, Place](), dict[Place, str]()
    if not any(FORMERLY in entry.get("extras", {}) for entry in entries):
        return Formerly(present, filesystems)
    here = set[Place]()
    for system, partitions in systems.items():
        for partition in partitions:
            if not is_ours(extras := partition.get("extras", {})):
                continue
            file = file_of(system, config.sources)
            before = list(_former_places(file, system, extras))
            name = partition["name"]
            filesystems |= {(system, name, old): extras.get("filesystem", old) for _, old in before}
            for environ in environments_of(config, f"{system}:{name}", partition):
                now = system, name, environ["name"]
                here.add(now)
                names = [now[2], *_values(file, FORMER_ENVIRONS, environ.get("extras", {}))]
                for old in ((*place, word) for place in [now[:2], *before] for word in names):
                    if old != now and present.setdefault(old, now) != now:
                        raise UserError(
                            f"{file}: {FORMERLY} has {_text(old)} for {_text(present[old])} and "
                            f"for {_text(now)}: remove it from one of them"
                        )
    if both := sorted(here & present.keys()):
        raise UserError(
            f"{file_of(both[0][0], config.sources)}: {FORMERLY} has {_text(both[0])} for "
            f"{_text(present[both[0]])}, and both are there now: remove one of them"
        )
    return Formerly(present, filesystems)


def _text(place: Place) -> str:
    return f"{place[0]}:{place[1]}/{place[2]}"


def _former_places(file: str, system: str, extras: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in _values(file, FORMER_PLACES, extras):
        first, _, partition = entry.rpartition(":")
        yield first or system, partition


def _values(file: str, shape: Any, extras: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return tuple(shape.convert(extras.get(FORMERLY, ())))
    except ValueError:
        raise UserError(f"{file}: {FORMERLY} is not {shape.phrase}") from None
