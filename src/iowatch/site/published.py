"""The published figures, reference_values/published/, and what holds on any machine."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iowatch.base.files import UserError
from iowatch.base.places import PUBLISHED
from iowatch.measure.checks import CHECKS

PROSE = "prose.csv"  # stated in the text; every other file has the tables' rows of one system

Row = dict[str, Any]

#: Columns of the tables; None is what a table does not give.
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(["system", "filesystem", "operation", "files", "backend"], str),
    "backend_version": str,
    **dict.fromkeys(["stripe_count", "stripe_size_mib"], int),  # -1: all OSTs
    "local_size": str,
    **dict.fromkeys(["nodes", "ranks", "total_mib"], int),
    **dict.fromkeys(["min", "median", "max", "mean"], float),  # MiB/s
    **dict.fromkeys(["count", "instances"], int),
    "instance": int,  # None: all of them together
    **dict.fromkeys(["table", "note"], str),
}
PROSE_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(["system", "filesystem", "quantity"], str),
    "value": float,
    **dict.fromkeys(["unit", "source", "note"], str),
}


def bounds_of_checks(system: str) -> str:
    """Entries that hold on any machine for a check, whatever its backend. They stand before those
    of backends in the general section."""
    return "".join(
        f"  # {check.bounds_comment}\n  {system}:.*/{name}/.*: {flow(check.bounds)}\n"
        for name, check in CHECKS.items()
        if check.bounds
    )


def flow(value: Any) -> str:
    """YAML in one line."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=1000).strip()


def read_tables() -> list[Row]:
    """All rows of the published tables."""
    files = sorted(file for file in PUBLISHED.glob("*.csv") if file.name != PROSE)
    if not files:
        raise UserError(f"{PUBLISHED} has no tables: install iowatch again")
    return [row for file in files for row in _rows(file, COLUMNS)]


@dataclass(frozen=True)
class SlowClose:
    """Read what H5Fclose cost on Lustre in the white paper, by Table 14: Cirrus, all OSTs."""

    ranks: int  # the most in that table
    rates: Mapping[str, float]  # MiB/s of each library


def slow_close() -> SlowClose:
    """The figures of that finding; UserError if the tables are not there."""
    rows = [r for r in read_tables() if (r["system"], r["table"]) == ("cirrus", "14")]
    most = max(row["ranks"] for row in rows)
    return SlowClose(most, {r["backend"]: r["max"] for r in rows if r["ranks"] == most})


def read_prose() -> list[Row]:
    """Read what the papers state in their text."""
    return list(_rows(PUBLISHED / PROSE, PROSE_COLUMNS))


def _rows(file: Path, columns: Mapping[str, Any]) -> Iterator[Row]:
    """Read a cell of a table; None: it is empty."""
    with file.open(newline="", encoding="utf-8") as stream:
        for cells in csv.DictReader(stream, strict=True):
            yield {
                name: kind(cells[name]) if cells[name] else None for name, kind in columns.items()
            }
