"""One sentence on what several cases of a night share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from iowatch.cases.case import Case
from iowatch.cases.verdict import Outcome
from iowatch.judge.explain import Layer
from iowatch.night.case_night import CaseNight


@dataclass(frozen=True)
class Alarm:
    """What is slow as a whole, and the cases under it."""

    subject: str  # fs3, hdf5 on fs3, OST 2 of fs3, node n17
    outcome: Outcome  # suspect: it may be an alarm in a few nights
    words: str
    rows: Sequence[CaseNight]  # of the cases that are slow
    merged: frozenset[Case] = frozenset()  # of these it says why they are red
    known: str = ""  # why it is expected; empty: it is not
    #: When cases are to be run again to tell more of it, though they need not be suspect.
    due: Mapping[Case, datetime] = field(default_factory=dict)
    #: Suspects that are not run again: they are as slow as the whole, and would say no more of it.
    held: frozenset[Case] = frozenset()
    since: datetime | None = None
    layer: Layer | None = None
    extent: str = ""  # for a banner, if it is not the loss of these cases
    command: str = ""  # that comes next, if it is about no case

    @property
    def sentence(self) -> str:
        return f"{self.subject}: {self.words}" + (f" ({self.known})" if self.known else "")

    @property
    def is_red(self) -> bool:
        return self.outcome.is_red


def is_told(outcome: Outcome) -> bool:
    return outcome.is_slow or outcome.is_resolved


def since_words(time: datetime | None) -> str:
    return f" since {time:%Y-%m-%d}" if time else ""
