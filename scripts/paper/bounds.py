"""The reference values of a system by the published figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from iowatch.base.files import UserError, whole
from iowatch.cases.parameters import COMPRESSED
from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.array import COMPRESSED_BOUNDS, GENERAL_BOUNDS
from iowatch.site.published import Row, bounds_of_checks, flow, read_prose, read_tables

COMPARISON_TABLE = "21"  # gathers the best of other tables, without their settings
LOAD_TABLES = ("11", "12")
NOT_STRIPED = ("cosma5", "jasmin", "rdf-dac")  # GPFS, Panasas
UNPUBLISHED = ("archer2", "cephfs", "local", "slurm")  # of this repository, not of the papers

HEADER = """\
# Reference values of {system}, by `scripts/paper/paper.py references {system}`; see README.md.
# Keys are regular expressions that match the whole case; the first that matches counts.
{published}
# What holds on any machine. It knows neither this machine nor the size of a case: nothing is red by
# it alone, and a case that is worse is suspect. A bound by which a case is to be red stands in the
# section of its check. The ratio to mpiio is that of one job whose rounds alternate, and the
# fraction is that of the median round: contention cancels in both. The ratio is half of what the
# white paper expects of the library (section 7: 10 % overhead of hdf5, 30 % of netcdf); of pnetcdf
# and adios2 the papers give no figure, and they are bound like netcdf. overhead_fraction is the
# part of the time that a library takes to open, define and close its file beyond mpiio in the same
# job: on a small Lustre hdf5 and netcdf were seen to take a third of it in good health, and where
# hdf5 lost its bandwidth on Cirrus it took 64 to 74 %. Of mpiio and posix it is the close. The
# floor of total_max only says that something moved. What is compressed has no mpiio beside it,
# which would write other bytes; but what it stores must be less.
general:
"""
PUBLISHED_HEADER = """\
#
# The cases of the papers' tables, here {tables}, must come up to them.
# Where a median is published (Tables 1 and 2) it is the lower bound. The best of our ten rounds
# falls below the median of the same distribution with probability 2^-10 if rounds are independent;
# contention that lasts for a whole job makes it likelier (0.17 if rounds correlate by 0.7).
# Elsewhere the bound is {spread:.4f} of the figure, the smallest ratio of median to maximum in
# Tables 1 and 2. Figures of several instances at once (Tables 11 and 12) are means.
"""


class Entry(NamedTuple):
    """A published value as the lower bound of one case."""

    table: str
    check: str
    key: str
    bounds: str  # in YAML

    def __str__(self) -> str:
        return f"  {self.key}:\n    {self.bounds}  # Table {self.table}\n"


def write_references(system: str, folder: Path) -> Path:
    """Write <system>.yaml into `folder`, whole or not at all; the path of the file."""
    path = folder / f"{system}.yaml"
    with whole(path) as temporary:
        temporary.write_text(references(system), "utf-8")
    return path


def references(system: str) -> str:
    """The reference file of `system`; UserError if nobody knows that system."""
    tables, prose = read_tables(), read_prose()
    known = {row["system"] for row in (*tables, *prose) if row["system"]} | {*UNPUBLISHED}
    if system not in known:
        raise UserError(f"no system {system!r}: there are {', '.join(sorted(known))}")
    entries = published_entries(system, tables, prose)
    published = ""
    if entries:
        numbers = ", ".join(dict.fromkeys(entry.table for entry in entries))
        published = PUBLISHED_HEADER.format(tables=numbers, spread=spread(tables))
    text = HEADER.format(system=system, published=published) + bounds_of_checks(system)
    text += f"  {system}:.*/pattern=[^/]*{COMPRESSED}.*: {flow(COMPRESSED_BOUNDS)}\n"
    for name, bounds in GENERAL_BOUNDS.items():
        text += f"  {system}:.*/backend={name}/.*: &{name} {flow(bounds)}\n"
    for check in CHECKS:
        of_check = [str(entry) for entry in entries if entry.check == check]
        text += f"\n{check}:\n{''.join(of_check)}" if of_check else ""
    return text


def published_entries(system: str, tables: Sequence[Row], prose: Sequence[Row]) -> list[Entry]:
    """An entry for each published write; of a case in two tables, from the better documented."""
    rows = [
        row
        for row in tables
        if (row["system"], row["operation"], row["instance"]) == (system, "write", None)
        and row["table"] != COMPARISON_TABLE
        # IOR's POSIX has a check only for a file of each process.
        and (row["backend"] != "posix" or row["files"] == "process")
    ]
    # Tables 1 and 2, the only ones with a median, come first, so the first entry is the better one.
    entries: dict[str, Entry] = {}
    for row in rows:
        entry = _entry(row, _striping(row, prose), spread(tables))
        entries.setdefault(entry.key, entry)
    return list(entries.values())


def _entry(row: Row, striping: str, shortfall: float) -> Entry:
    backend, value, tail = row["backend"], row["max"], ""
    local_size = row["local_size"] or "(128x128x128|256x256x256)"  # the white paper has no others
    if row["table"] in LOAD_TABLES:
        check, value, tail = "SystemLoad", row["mean"], f"/instances={row['instances']}"
    elif row["files"] == "shared":
        check = "SharedFileWrite"
    else:
        check, tail = "FilePerProcess", f"/files={row['files']}"
        local_size = "[^/]+"  # IOR has no array
    # The "averages" of a single instance in Table 11 are the maxima of Table 6.
    metric = "total_mean" if row["instances"] > 1 else "total_max"
    part = shortfall if row["median"] is None else row["median"] / value
    lower = math.floor((part - 1) * 1e4) / 1e4  # rounded towards green
    bound = flow([int(value) if value.is_integer() else value, lower, None, "MiB/s"])
    return Entry(
        row["table"],
        check,
        f"{row['system']}:{row['filesystem'] or '[^/]+'}/[^/]+/{check}/backend={backend}"
        f"{striping}/local_size={local_size}/ranks={row['ranks']}{tail}",
        f"{{<<: *{backend}, {metric}: {bound}}}",
    )


def _striping(row: Row, prose: Sequence[Row]) -> str:
    """The part of a key on the striping; what a table does not give is the system's default."""
    if row["system"] in NOT_STRIPED:
        return ""
    stated = striping_of(row, prose)
    count, size = row["stripe_count"], row["stripe_size_mib"]
    if count is None:
        count = stated.get("default_stripe_count", "[^/]+")
    if size is None:
        size = stated.get("default_stripe_size", "[^/]+")
    if count in (-1, stated.get("osts")):
        count = f"(-1|{stated['osts']})"  # a site may write either
    return f"/stripe_count={count}/stripe_size={size}"


def striping_of(row: Row, prose: Sequence[Row]) -> dict[str, int]:
    """Read what the papers state of a row's filesystem: OSTs, and the stripes that users get."""
    return {
        fact["quantity"]: int(fact["value"])
        for fact in prose
        if (fact["system"], fact["filesystem"]) == (row["system"], row["filesystem"])
        and fact["quantity"] in ("osts", "default_stripe_count", "default_stripe_size")
    }


def spread(tables: Sequence[Row]) -> float:
    """The smallest ratio of median to maximum: the most that contention has been seen to cost."""
    return min(float(row["median"] / row["max"]) for row in tables if row["median"] is not None)
