"""Environments side by side: what each setting of a check came to in every one of a partition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from iowatch.cases.case import Case, short_names
from iowatch.night.case_night import CaseNight

#: Provenance that tells environments apart for a reader.
LIBRARIES = ("hdf5", "netcdf", "pnetcdf", "mpi", "compiler")


@dataclass(frozen=True)
class Comparison:
    """A partition that measured in several environments."""

    partition: str
    #: Libraries of each environment of which not all have the same version.
    environs: Mapping[str, Sequence[str]]
    #: The name of each setting, and its case in every environment; None: not measured there.
    settings: Mapping[str, Sequence[Case | None]]


def comparisons(rows: Iterable[CaseNight]) -> list[Comparison]:
    """The partitions with a setting that was measured in two environments or more.

    Settings are in the order of `rows`, environments in that of their libraries' versions. A check
    without a bandwidth has nothing to compare.
    """
    partitions: dict[str, dict[Case, dict[str, CaseNight]]] = {}
    for row in rows:
        if row.case.metrics:
            settings = partitions.setdefault(row.case.partition, {})
            settings.setdefault(replace(row.case, environ=""), {})[row.case.environ] = row
    shared = {
        partition: {setting: rows for setting, rows in settings.items() if len(rows) > 1}
        for partition, settings in partitions.items()
    }
    return [_compare(partition, rows) for partition, rows in shared.items() if rows]


def _compare(partition: str, settings: Mapping[Case, Mapping[str, CaseNight]]) -> Comparison:
    versions: dict[str, dict[str, str]] = {}
    for rows in settings.values():
        for environ, row in rows.items():
            versions.setdefault(environ, {}).update(_versions(row))
    built_in = {
        name: {versions_of.get(name) for versions_of in versions.values()} for name in LIBRARIES
    }
    told = [name for name in LIBRARIES if len(built_in[name] - {None}) > 1]
    libraries = {
        environ: [f"{name} {versions_of[name]}" for name in told if name in versions_of]
        for environ, versions_of in versions.items()
    }
    environs = sorted(libraries, key=lambda environ: _by_number(libraries[environ], environ))
    names = short_names(settings)
    return Comparison(
        partition,
        {environ: libraries[environ] for environ in environs},
        {
            names[setting]: [rows[e].case if e in rows else None for e in environs]
            for setting, rows in settings.items()
        },
    )


def _versions(row: CaseNight) -> dict[str, str]:
    """Only the version of Open MPI, which says who has built it, too."""
    met = row.last.provenance
    return {name: met[name].partition(",")[0] for name in LIBRARIES if name in met}


def _by_number(libraries: Sequence[str], environ: str) -> tuple[bool, list[list[int]], str]:
    """Sorts 1.8.16 before 1.10.0, and what nobody knows last."""
    numbers = [[int(number) for number in re.findall(r"\d+", text)] for text in libraries]
    return not libraries, numbers, environ
