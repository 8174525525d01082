"""Darshan's modules and counters, as far as iowatch looks at them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Modules of Darshan
POSIX, STDIO, MPIIO, H5F, H5D = "POSIX", "STDIO", "MPI-IO", "H5F", "H5D"
PNETCDF_FILE, PNETCDF_VAR, DFS, DAOS = "PNETCDF_FILE", "PNETCDF_VAR", "DFS", "DAOS"

#: Modules that count the bytes of a file, the nearest to the program first. Those that know of
#: datasets and variables come first where the sizes of calls are asked for.
_BYTES_OF = (MPIIO, POSIX, STDIO, DFS, DAOS)
SIZES_OF = (H5D, PNETCDF_VAR, *_BYTES_OF)
BELONGING = (H5D, PNETCDF_VAR)  # whose records belong to a file
NAMING = (H5F, PNETCDF_FILE)  # whose records say which library a file is of

# Counters, which have the module's name before them
_BYTES: dict[Operation, str] = {"read": "BYTES_READ", "write": "BYTES_WRITTEN"}
_CALLS: dict[Operation, str] = {"read": "READS", "write": "WRITES"}
COLLECTIVE = ("COLL_", "SPLIT_")
_WAYS = ("", "INDEP_", "NB_", *COLLECTIVE)
_NAMES = ("OPENS", "STATS", "RENAME_SOURCES")
#: Bins of the sizes of calls: the end of their names, and the most bytes in each.
_BINS = {
    "0_100": 100, "100_1K": 2**10, "1K_10K": 10 * 2**10, "10K_100K": 100 * 2**10,
    "100K_1M": 2**20, "1M_4M": 4 * 2**20, "4M_10M": 10 * 2**20, "10M_100M": 100 * 2**20,
    "100M_1G": 2**30, "1G_PLUS": 2**32,
}  # fmt: skip

# What is to be said of a log
PARTIAL = "partial"  # Darshan had too little memory for it

_MOST = 2**60  # bytes that a file may have moved; more is no count


class UnreadableLog(Exception):
    """A log cannot be counted; the message says why, without a name."""


@dataclass(slots=True)
class ModuleCounts:
    """The counters of one module for one file, summed over its records."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)  # calls of the commonest sizes
    ranks: Counter[str] = field(default_factory=Counter)  # that read, that write, and all
    first: dict[str, int] = field(default_factory=dict)  # the lowest of these

    def add(self, record: Mapping[str, int], rank: int, ranks: int) -> None:
        """Add the positive counters of a record: of a rank, or with rank -1 of all ranks."""
        self.counts.update(record)
        for number in range(1, 5):
            if calls := record.get(f"ACCESS{number}_COUNT"):
                self.sizes[record.get(f"ACCESS{number}_ACCESS", 0)] += calls
        many = ranks if rank < 0 else 1
        movers = {"all": many}
        for operation, name in _CALLS.items():
            movers[operation] = min(many, sum(record.get(way + name, 0) for way in _WAYS))
        for word, count in movers.items():
            if count:
                self.ranks[word] += count
                self.first.setdefault(word, max(0, rank))

    def bytes(self, operation: Operation) -> int:
        moved = self.counts[_BYTES[operation]]
        if moved > _MOST:
            raise UnreadableLog("its counts are no counts of bytes")
        return moved

    def calls(self, operation: Operation, ways: tuple[str, ...] = _WAYS) -> int:
        return sum(self.counts[way + _CALLS[operation]] for way in ways)

    def by_size(self, operation: Operation) -> dict[int, int]:
        """Return the bytes of calls of each size, its log2, the most bytes first.

        Calls of a bin are of the commonest size in it, if one is known: the four commonest sizes
        are of reads and writes together.
        """
        bins, moved = self._bins(operation), Counter[int]()
        for least, (most, calls) in zip((1, *bins), bins.items(), strict=False):
            if not calls:
                continue
            common = {size: calls for size, calls in self.sizes.items() if least < size <= most}
            size = (least * most) ** 0.5
            if calls == sum(bins.values()):
                size = max(1.0, self.bytes(operation) / calls)
            elif common:
                size = sum(s * n for s, n in common.items()) / sum(common.values())
            moved[log2(size)] += max(1, round(calls * size))
        if not moved:  # a module without bins
            moved[log2(self.bytes(operation) / max(1, self.calls(operation)))] = 1
        return dict(moved.most_common())

    def large_calls(self, operation: Operation) -> int:
        """Count the calls that move most of the data: others move what describes them."""
        usual = next(iter(self.by_size(operation)))
        return sum(n for most, n in self._bins(operation).items() if log2(most) >= usual)

    def _bins(self, operation: Operation) -> dict[int, int]:
        name = f"SIZE_{operation.upper()}_"
        ways = (name, f"{name}AGG_")
        return {most: sum(self.counts[way + end] for way in ways) for end, most in _BINS.items()}


FileCounts = dict[str, ModuleCounts]

Operation = Literal["write", "read", "metadata"]


def log2(value: float) -> int:
    """Round a number to a power of two."""
    return max(0, round(math.log2(value))) if value > 0 else 0
