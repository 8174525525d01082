"""The table of exercise 3 of the report "IO Benchmarks", and a site's own. It has IOR with each
library on each filesystem, with one file of all processes (N to 1) or one of each (N to N)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.measure.kinds.ior import API, IO500
from iowatch.site.published import read_tables

#: The number by which the published table is known, and its own.
TABLE = "E1"
PROGRAMS, OPERATIONS = ("IOR", "benchio"), ("write", "read")
_SHAPES = {"shared": "N to 1", "process": "N to N"}


@dataclass(frozen=True)
class ExerciseRow:
    """A row: the rates of IOR, and of benchio beside it, in one way on one filesystem."""

    place: str
    files: str  # N to 1, N to N
    api: str  # IOR's name of the library
    ranks: int
    size: str  # of a writer, and its pattern
    stripes: str
    is_own: bool  # the site's, not the report's
    rates: dict[tuple[str, str], float] = field(default_factory=dict)  # MiB/s: program, operation


def published() -> list[ExerciseRow]:
    """The report's rows, which have IOR only."""
    rows: dict[tuple[str, str], ExerciseRow] = {}
    for entry in read_tables():
        if entry["table"] != TABLE:
            continue
        place = f"{entry['system']}:{entry['filesystem']} (report)"
        files, api = _SHAPES[entry["files"]], API[entry["backend"]]
        row = ExerciseRow(place, files, api, entry["ranks"], "-", "-", False)
        rows.setdefault((files, api), row).rates["IOR", entry["operation"]] = entry["max"]
    return list(rows.values())


def site_rows(runs: Iterable[Run]) -> list[ExerciseRow]:
    """The site's rows: the best of all verified runs of `IorPeer` and `IorPeerRead`. Both programs
    sync what they write."""
    rows: dict[tuple[str, str, str, int, str, str], ExerciseRow] = {}
    for run in runs:
        case = run.case
        if "ior_max" not in run.metrics or not run.is_measured:
            continue
        row = _row(case)
        key = (row.place, row.files, row.api, row.ranks, row.size, row.stripes)
        rates = rows.setdefault(key, row).rates
        for program, rate in (("IOR", run.metrics["ior_max"]), ("benchio", run.rate or 0)):
            cell = program, case.operation
            rates[cell] = max(rate, rates.get(cell, 0))
    return [rows[key] for key in sorted(rows)]


def _row(case: Case) -> ExerciseRow:
    files, api = _SHAPES[case.files], API[case.backend]
    pattern = case.get(IO500.name)
    size = case.size.removeprefix("local ") + (f", {IO500.in_words(pattern)}" if pattern else "")
    return ExerciseRow(case.place, files, api, case.ranks, size, case.striping, True)
