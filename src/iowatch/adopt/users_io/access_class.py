"""A class of accesses: what files, of many logs, have in common. No user is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add
from typing import Literal, NamedTuple

from iowatch.measure.darshan_counts import Operation

OPERATIONS: tuple[Operation, ...] = ("write", "read", "metadata")

#: Which ranks have a file: all of a job or one group of them, one, several groups of them with a
#: file each, or one rank of many.
Files = Literal["shared", "process", "groups", "gather"]

#: In which order the calls of a rank reach a file: one after the other, with the same gap between
#: them, in no order; or calls that are in several pieces in the file, as of an array's block.
#: Metadata operations are of one name if several ranks open that file.
Order = Literal["contiguous", "strided", "random", "blocks", "one name"]


class AccessClass(NamedTuple):
    """A class by its rounded properties: there are thousands at most, however many the logs."""

    operation: Operation
    library: str  # a backend of benchio's, or stdio or daos
    files: Files
    ranks: int  # log2 of the ranks of a job that move data to such files
    size: int  # log2 of the bytes of a call; for metadata, of the names of a rank
    per_file: int = 0  # log2 of the ranks of a file, where groups of ranks have files
    collective: bool = False
    order: Order = "contiguous"
    aligned: bool | None = None  # None: the library places the data
    stripes: str = ""  # of a shared file on Lustre, such as 4x1; empty: not known, or several


class Amount(NamedTuple):
    """The weight of a class."""

    total: int = 0  # bytes, or metadata operations
    blocks: int = 0  # parts of a file that a rank has moved
    files: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(*map(add, self, other))


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
            self.classes[access_class] = self.classes.get(access_class, Amount()).plus(amount)

    def total(self, operation: Operation) -> int:
        """Return the bytes, or metadata operations, of all classes of an operation."""
        return sum(a.total for c, a in self.classes.items() if c.operation == operation)
