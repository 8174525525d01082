"""The white paper's figures as data: what each shows, and a site's own results beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from bounds import striping_of

from iowatch.base.files import UserError
from iowatch.cases.case import Case
from iowatch.cases.parameters import TITLES, format_size
from iowatch.cases.run import Run
from iowatch.site.published import Row, read_prose, read_tables

#: The checks that measure what the tables show.
KINDS_OF_TABLES = ("SharedFileWrite", "SharedFileRead", "FilePerProcess", "SystemLoad")
STATISTICS = ("min", "median", "mean", "max")
NAMES = {
    **TITLES,
    "archer": "ARCHER", "cirrus": "Cirrus", "cosma5": "COSMA5", "cosma6": "COSMA6",
    "rdf-dac": "RDF DAC", "jasmin": "JASMIN",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A figure of the white paper, and the tables that hold its values."""

    number: int
    title: str
    tables: tuple[str, ...]
    by: tuple[str, ...] = ()  # columns of the tables that tell its series apart
    statistics: tuple[str, ...] = ("max",)


_SIZES = ("stripe_size_mib",)
FIGURES = [
    Figure(4, "ARCHER, MPI-IO, 4 stripes", ("1",), (), STATISTICS),
    Figure(5, "ARCHER, MPI-IO, all stripes and 4", ("2", "1"), ("stripe_count",), STATISTICS),
    Figure(6, "ARCHER, MPI-IO, stripe sizes, 4 stripes", ("3",), _SIZES),
    Figure(7, "ARCHER, MPI-IO, stripe sizes, all stripes", ("4",), _SIZES),
    Figure(8, "ARCHER, MPI-IO, large local arrays, 4 stripes", ("5",), _SIZES),
    Figure(9, "ARCHER, MPI-IO, large local arrays, all stripes", ("6",), _SIZES),
    Figure(10, "ARCHER, NetCDF 4.4.0, 4 stripes", ("7",), _SIZES),
    Figure(11, "ARCHER, NetCDF 4.4.0, all stripes", ("8",), _SIZES),
    Figure(12, "ARCHER, NetCDF 4.4.0, large local arrays, 4 stripes", ("9",), _SIZES),
    Figure(13, "ARCHER, NetCDF 4.4.0, large local arrays, all stripes", ("10",), _SIZES),
    Figure(
        14, "ARCHER, several benchmarks at once", ("11", "12"), ("instances", "instance"), ("mean",)
    ),
    Figure(15, "Cirrus, 1 stripe and all", ("13", "14"), ("backend", "stripe_count")),
    Figure(16, "COSMA5, MPI-IO", ("15",)),
    Figure(17, "COSMA6, MPI-IO, stripe counts", ("16", "17"), ("stripe_count",)),
    Figure(18, "RDF DAC, gpfs2", ("18",), ("backend",)),
    Figure(19, "RDF DAC, gpfs3", ("19",), ("backend",)),
    Figure(20, "JASMIN, MPI-IO", ("20",)),
    Figure(21, "Maxima of all systems", ("21",), ("system",)),
]
#: Tables that are only a part of a figure.
TITLES = {
    "2": "ARCHER, MPI-IO, all stripes",
    "11": "ARCHER, 1 benchmark and 2 at once",
    "12": "ARCHER, 4 benchmarks at once",
    "13": "Cirrus, 1 stripe",
    "14": "Cirrus, all stripes",
    "16": "COSMA6, MPI-IO, 10 to 120 stripes",
    "17": "COSMA6, MPI-IO, 1 to 8 stripes",
}


@dataclass(frozen=True)
class Series:
    """Bandwidths over numbers of ranks."""

    label: str
    is_own: bool  # the site's, not the paper's
    ranks: list[int]
    values: dict[str, list[float]]  # MiB/s, by statistic; nan where there is none
    shared: str = ""  # what all own series of the figure have in common: it is not in the label


def rows_of(figure: Figure) -> list[Row]:
    """The rows of its tables, in their order."""
    rows = [row for row in read_tables() if row["table"] in figure.tables]
    return sorted(rows, key=lambda row: figure.tables.index(row["table"]))


def published(figure: Figure) -> list[Series]:
    """The paper's series in the order of its tables."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows_of(figure):
        groups.setdefault(tuple(row[name] for name in figure.by), []).append(row)
    series = []
    for key, group in groups.items():
        labels = [_LABELS[name](value) for name, value in zip(figure.by, key, strict=True)]
        label = ", ".join(filter(None, labels))
        group.sort(key=lambda row: row["ranks"])
        values = {
            name: [math.nan if row[name] is None else row[name] for row in group]
            for name in figure.statistics
        }
        ranks = [row["ranks"] for row in group]
        series.append(Series(label or "white paper", False, ranks, values))
    return series


def site_series(figure: Figure, runs: Iterable[Run]) -> list[Series]:
    """The site's series of the same kind: the least minimum of all nights, the greatest maximum,
    and of other statistics the median night.

    A case is of the same kind as a row if operation, files, backend and instances agree. A local
    size and stripes must agree if the row states them. A filesystem without stripes has any.
    Runs with other I/O options than benchio's own belong to no row.
    """
    rows = [name for row in rows_of(figure) for name in _names(row)]
    wanted = {f"total_{name}" for name in figure.statistics}
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        if not wanted.isdisjoint(run.metrics) and not run.outcome.is_failed:
            cases.setdefault(run.case, []).append(run)
    by_kind: dict[tuple[str, tuple[str, ...]], dict[int, list[Run]]] = {}
    for case, own_runs in cases.items():
        if any(_is_alike(case, row) for row in rows):
            kind = (case.system, _parts(case))
            by_kind.setdefault(kind, {})[case.ranks] = own_runs
    alike = [len(set(part)) == 1 for part in zip(*(parts for _, parts in by_kind), strict=True)]
    series = []
    for (system, parts), ranks in sorted(by_kind.items()):
        shared = [part for part, same in zip(parts, alike, strict=True) if same and part]
        telling = [part for part, same in zip(parts, alike, strict=True) if not same and part]
        # The system is always there: it tells that this is no series of the paper.
        label = f"{system}: {', '.join(telling)}" if telling else system
        counts = sorted(ranks)
        values = {
            name: [_of_nights(name, ranks[count]) for count in counts] for name in figure.statistics
        }
        series.append(Series(label, True, counts, values, ", ".join(shared)))
    return series


def of_table(number: str) -> Figure:
    """The figure that shows a table, cut down to that table; UserError if there is none."""
    for figure in FIGURES:
        if number in figure.tables:
            return replace(figure, title=TITLES.get(number, figure.title), tables=(number,))
    raise UserError(
        f"no table {number!r}: those of the white paper are 1 to 21, that of the exercises is E1"
    )


def notes(figure: Figure) -> list[str]:
    """Say what is odd about the published values, and for which numbers of ranks."""
    ranks_by_note: dict[str, set[int]] = {}
    for row in read_tables():
        if row["table"] in figure.tables and row["note"]:
            ranks_by_note.setdefault(row["note"], set()).add(row["ranks"])
    return [
        f"{', '.join(map(str, sorted(ranks)))} ranks: {note}"
        for note, ranks in ranks_by_note.items()
    ]


def _names(row: Row) -> list[Row]:
    """A row, and if it counts all OSTs of its filesystem, also as a site may ask for them: -1."""
    osts = striping_of(row, read_prose()).get("osts")
    return [row, {**row, "stripe_count": -1}] if row["stripe_count"] == osts is not None else [row]


def _is_alike(case: Case, row: Row) -> bool:
    stated = {
        "operation": case.operation,
        "files": case.files,
        "backend": case.backend,
        "local_size": format_size(case.local_size),
        "instances": case.instances or 1,
    }
    if case.stripes:  # a layout is none of the papers' stripes
        stated |= {
            "stripe_count": case.layout or case.stripe_count,
            "stripe_size_mib": case.layout or case.stripe_size,
        }
    if case.check.name not in KINDS_OF_TABLES or case.way:
        return False
    return all(row[name] in (None, value) for name, value in stated.items())


def _parts(case: Case) -> tuple[str, ...]:
    """Return what may tell the series of a system apart."""
    is_striped = case.stripe_count is not None
    unstriped = case.stripes or "not striped"
    return (
        case.partition,
        case.environ,
        NAMES.get(case.backend, case.backend),
        _stripes(case.stripe_count) if is_striped else unstriped,
        f"stripe size {case.stripe_size} MiB" if is_striped else "",
        f"pool {case.pool}" if case.pool else "",
        _instances(case.instances) if case.instances else "",
        format_size(case.local_size),
    )


def _of_nights(statistic: str, runs: list[Run]) -> float:
    name = f"total_{statistic}"
    values = [run.metrics[name] for run in runs if name in run.metrics]
    if not values:
        return math.nan
    return float({"min": min, "max": max}.get(statistic, median)(values))


def _stripes(count: int | None) -> str:
    if count is None:
        return "striping not stated"
    return "all stripes" if count == -1 else f"{count} stripe{'s' * (count != 1)}"


def _instances(count: int) -> str:
    return "1 benchmark" if count == 1 else f"{count} at once"


_LABELS: dict[str, Callable[[Any], str]] = {
    "backend": lambda name: NAMES[name],
    "system": lambda name: NAMES[name],
    "stripe_count": _stripes,
    "stripe_size_mib": lambda size: f"{size} MiB",
    "instances": _instances,
    "instance": lambda number: "" if number is None else f"number {number}",
}
