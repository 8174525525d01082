"""A criterion of a contract: what each kind declares, and what contract, plan, verdict and dossier
ask of it."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import attrs

from iowatch.base.records import NAME, Record, key
from iowatch.base.text import brief, counted
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.run import Run
from iowatch.evidence.exhibits import Condition, Evidence, Exhibit, ReadBackRun
from iowatch.evidence.terms import COMMITTED, POSITIVE, Rules, Storage, Terms


class Certified(StrEnum):
    """The verdict on a criterion, the worst first."""

    REFUSED = "not certified"
    FAIL = "fail"
    OPEN = "not conclusive"
    PASS = "pass"


#: The cases of a suite on the filesystem of a criterion, with their numbers of nodes.
Suite = Mapping[Case, int]
#: Runs on record, by case and night.
Nights = Mapping[Case, Mapping[str, Sequence[Run]]]

#: The class of each kind, by the word for it in a terms.
KINDS: dict[str, type[Criterion]] = {}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The verdict on one criterion."""

    verdict: Certified
    reason: str = ""  # of a verdict that is neither pass nor fail
    measured: float | None = None  # median over sessions, or the statistic of the kind
    low: float | None = None  # confidence interval; None: there is none
    high: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)  # of each session that judges
    case: str = ""  # the cases that were judged, in words
    chosen: str = ""  # the session that chose the case; empty: there was no choice
    exhibits: Sequence[Exhibit | ReadBackRun] = ()  # the runs that the verdict rests on

    @property
    def notes(self) -> list[str]:
        """Say of each run that found files to read whether they are as they were written."""
        return [
            f"What {run.read} kept, of {run.case}, was read in session {run.session.uuid}: "
            + ("not all of it is" if run.why_not else "every byte is")
            + " as it was written."
            for run in self.exhibits
            if isinstance(run, ReadBackRun) and run.read
        ]


def refused(reason: str) -> Finding:
    """Refuse a verdict on a thing that was not measured, or not as agreed."""
    return Finding(verdict=Certified.REFUSED, reason=reason)


_FARTHEST = math.log(32)  # times as good, or as bad: what is beyond is drawn there
Pair = tuple[float, float]
#: Points to draw, and straight lines beside them by their values at both ends.
Curve = tuple[Sequence[Pair], Mapping[str, Pair]]


@attrs.frozen(kw_only=True)
class Criterion(Record, ABC):
    """One line of a contract; each kind is a subclass with a `kind` of its own."""

    kind: ClassVar[str]  # as a contract has it
    unit: ClassVar[str]  # of the committed value, in words
    short_unit: ClassVar[str] = ""  # behind a number; empty: it is written as a part
    #: The evidence that it judges, as checks say it of their runs.
    evidence_of: ClassVar[str]
    #: Keys of the filesystem that the contract must have for this kind.
    needs: ClassVar[Sequence[str]] = ()
    has_interval: ClassVar[bool] = True  # fewer than `fewest` sessions can decide nothing
    is_less_better: ClassVar[bool] = False

    name: str = key(NAME, "The name of the criterion, such as A1.")
    filesystem: str = key(NAME, "The filesystem, as `filesystems` of the contract names it.")
    committed: float = key(POSITIVE, COMMITTED, name="at_least")

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def condition(self) -> Condition:
        """The OSTs that are away in the sessions that only this criterion needs."""
        return ()

    @property
    def bound(self) -> str:
        """The side of the committed value that is good enough, in words."""
        return "at most" if self.is_less_better else "at least"

    def is_kept(self, value: float) -> bool:
        """Return whether a value is on the right side of the committed one."""
        return value <= self.committed if self.is_less_better else value >= self.committed

    def goodness(self, value: float) -> float:
        """Return the logarithm of how many times as good as committed a value is."""
        log = math.log(value / self.committed) if value > 0 else -_FARTHEST
        return min(max(-log if self.is_less_better else log, -_FARTHEST), _FARTHEST)

    def margin(self, value: float | None) -> float | None:
        """Return the part by which a value is better than committed; negative: worse."""
        if value is None:
            return None
        excess = value / self.committed - 1
        return -excess if self.is_less_better else excess

    def conflicts(self, rules: Rules, storage: Storage) -> Iterator[str]:
        """Say why the criterion and the rules cannot both be kept."""
        for name in self.needs:
            if getattr(storage, name) is None:
                yield f"filesystems has no {name} of {self.filesystem}"

    def misfits(self, terms: Terms, place: Filesystem) -> Iterator[str]:
        """Say why a place of the site's file is not the filesystem of the contract.

        Whoever runs the test writes the site's file.
        """
        agreed, site = terms.filesystems[self.filesystem], "by the site's file, and"
        if {*place.types} != {agreed.type}:
            yield f"{place.name} is {' or '.join(place.types)} {site} {agreed.type} by the contract"
        if not Path(os.path.normpath(place.path)).is_relative_to(agreed.path):
            yield f"{place.name} is at {place.path} {site} not below {agreed.path}"
        if "osts" in self.needs and len(place.targets) != agreed.osts:
            osts = counted(len(place.targets), "OST")
            yield f"{place.name} has {osts} {site} {agreed.osts} by the contract"

    def certify(self, terms: Terms, evidence: Evidence) -> Finding:
        """Give the verdict; `not certified` if what it is about was not all measured."""
        places = [place for place in evidence.places if place.name == self.filesystem]
        if not places:
            names = ", ".join(sorted({place.name for place in evidence.places}))
            return refused(f"no filesystem {self.filesystem!r}: there are {names}")
        if why := next((why for place in places for why in self.misfits(terms, place)), ""):
            return refused(why)
        return self.decide(terms, evidence, evidence.suite(self.filesystem))

    def in_words(self, value: float | None) -> str:
        """Write a value as people do; a dash for none."""
        return "-" if value is None else self.amount(value)

    @abstractmethod
    def decide(self, terms: Terms, evidence: Evidence, suite: Suite) -> Finding:
        """Give the verdict by the runs of the suite's cases."""

    @abstractmethod
    def outlook(self, terms: Terms, suite: Suite, nights: Nights) -> tuple[str, bool]:
        """Say what a test will be able to show, and whether it can come to a verdict."""

    def details(self) -> list[str]:
        """The subject of the criterion, in words of which a comma makes a list."""
        return [self.filesystem]

    def describe(self) -> str:
        """Make a sentence on what the criterion is about."""
        return f"{self.kind.replace('_', ' ')} ({', '.join(self.details())}), {self.unit}"

    def amount(self, value: float) -> str:
        """Write a value as people do."""
        return f"{brief(value)} {self.short_unit}" if self.short_unit else f"{100 * value:.1f} %"

    def ceiling(self, storage: Storage) -> float | None:
        """The filesystem's peak in the unit of the values; None: they have another unit."""
        return None

    def curve(self, evidence: Evidence, sessions: Collection[str]) -> Curve | None:
        """The rate over the number of nodes in these sessions; None if the kind has none."""
        return None
