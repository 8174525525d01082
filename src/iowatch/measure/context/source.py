"""A source of system context: whom a job asks, and how the answer is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from iowatch.cases.filesystem import Filesystem

#: When a job asks. The answers stand in files `context.WHEN.SOURCE` of its folder.
BEFORE, AFTER = "before", "after"
FILES = "context"
#: Ends the name of a file whose source has failed, or has not answered in time.
UNFINISHED = ".part"


@dataclass(frozen=True)
class Quantity:
    """A number that is the worse the higher it is."""

    words: str
    trifle: float  # a smaller rise is not worth a word
    unit: str = ""  # after the number; `%`: the number is a part of 1


@dataclass
class Reading:
    """The answer of a source about a run."""

    numbers: dict[str, float] = field(default_factory=dict)  # by the names of quantities
    where: dict[str, str] = field(default_factory=dict)  # the target or host of a number
    silent: list[str] = field(default_factory=list)  # what did not answer, and why

    def add(self, name: str, value: float, where: str = "") -> None:
        """Keep the highest value of a quantity, unless the value is negative or not finite."""
        if math.isfinite(value) and value >= 0 and value > self.numbers.get(name, -1):
            self.numbers[name] = float(value)
            self.where[name] = where if value else ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A program that a job asks before and after it measures.

    The shell function `ask_NAME` in the file `NAME.sh` of this folder asks the program.
    """

    name: str
    words: str
    quantities: Mapping[str, Quantity]
    #: Is it asked of this filesystem; does the job run under Slurm?
    is_asked: Callable[[Filesystem, bool], bool]
    #: Adds to an answer what the texts before and after say; an empty text was not given.
    parse: Callable[[Reading, str, str], None]
