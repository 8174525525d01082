"""A class of accesses: what files, of many logs, have in common. No user is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Any

WRITE, READ, METADATA = "write", "read", "metadata"
OPERATIONS = (WRITE, READ, METADATA)

#: Which ranks have a file: all of a job or one group of them, one, several groups of them with a
#: file each, or one rank of many.
SHARED, PROCESS, GROUPS, GATHER = "shared", "process", "groups", "gather"

#: In which order the calls of a rank reach a file: one after the other, with the same gap between
#: them, in no order; or calls that are in several pieces in the file, as of an array's block.
CONTIGUOUS, STRIDED, RANDOM, BLOCKS = "contiguous", "strided", "random", "blocks"

#: Names that metadata operations are of: of files that ranks have for themselves, or of a file
#: that several ranks open.
NAMES, SAME_NAME = "names", "same name"


@dataclass(frozen=True, kw_only=True)
class AccessClass:
    """A class by its rounded properties: there are thousands at most, however many the logs."""

    operation: str
    library: str  # a backend of benchio's, or stdio or daos
    files: str
    ranks: int  # log2 of the ranks of a job that move data to such files
    size: int  # log2 of the bytes of a call; for metadata, of the names of a rank
    per_file: int = 0  # log2 of the ranks of a file
    collective: bool = False
    order: str = CONTIGUOUS
    aligned: bool | None = None  # None: the library places the data


@dataclass(frozen=True)
class Amount:
    """The weight of a class."""

    count: int = 0  # bytes, or metadata operations
    blocks: int = 0  # parts of a file that a rank has moved
    files: int = 0

    def __add__(self, other: Amount) -> Amount:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Amount(*(a + b for a, b in pairs))

    @property
    def block(self) -> float:
        """The mean bytes that a rank has moved to or from a file."""
        return self.count / self.blocks if self.blocks else 0.0


@dataclass
class Usage:
    """The classes of many logs, and what is to be said of the logs."""

    classes: dict[AccessClass, Amount] = field(default_factory=dict)
    logs: int = 0  # that were read
    notes: Counter[str] = field(default_factory=Counter)  # logs, by what is to be said of them
    unread: Counter[str] = field(default_factory=Counter)  # logs and folders, by reason

    def add(self, classes: Iterable[tuple[AccessClass, Amount]], notes: Iterable[str] = ()) -> None:
        """Add what a log holds."""
        self.logs += 1
        self.notes.update(notes)
        for access_class, amount in classes:
            self.classes[access_class] = self.classes.get(access_class, Amount()) + amount

    def total(self, operation: str) -> int:
        """Return the bytes, or metadata operations, of all classes of an operation."""
        return sum(
            amount.count for each_class, amount in self.classes.items()
            if each_class.operation == operation
        )  # fmt: skip


Row = list[Any]


def to_row(access_class: AccessClass, amount: Amount) -> Row:
    """Write a class and its amount for JSON."""
    return [*astuple(access_class), *astuple(amount)]


def from_row(row: Row) -> tuple[AccessClass, Amount]:
    """Read a class and its amount again."""
    names = AccessClass.__dataclass_fields__
    values = dict(zip(names, row[: len(names)], strict=True))
    return AccessClass(**values), Amount(*row[len(names) :])


def log2(value: float) -> int:
    """Round a number to a power of two."""
    import math

    return max(0, round(math.log2(value))) if value > 0 else 0
