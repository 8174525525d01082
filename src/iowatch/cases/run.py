"""One run of one case, and the night it belongs to.

A night is what ran as that night: `iowatch run` gives its session an id, and its re-runs the same
one. A session without an id is a night of its own if it ran the whole nightly suite, as from cron.
Else it is a hand run: on record, in no night. The time of day decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypedDict

from iowatch.cases.case import Case
from iowatch.cases.metric import Reference
from iowatch.cases.verdict import Outcome

#: Among the provenance of a run: what is to be known of it, whatever its verdict.
NOTE = "note"

#: Among the provenance of a run: the numbers of the OSTs that it had no part of, with a blank
#: between them.
LOST_OSTS = "OSTs not measured"

Ratios = Mapping[str, Mapping[str, float]]


class ByNode(TypedDict, total=False):
    """What a run tells of its nodes."""

    ratios: Ratios  # by what they did: the rate of each over the median of its peers
    switches: Mapping[str, str]  # of each node that is known
    lost: Mapping[str, str]  # why a node has failed


#: The context of a run on record: numbers by the names of QUANTITIES, `NAME_of` with where a number
#: was seen, and `unknown` with the sources that did not answer.
SystemContext = Mapping[str, float | str]


#: Nights that are looked back at. A loss that is older and still there is found anew in them.
LOOK_BACK = timedelta(days=365)

_NIGHT = re.compile(r"\d{4}-\d\d-\d\dT\d{6}", re.ASCII)


@dataclass(frozen=True)
class Promise:
    """The cases that a suite has by the site's file as it stands there, whatever was made of it."""

    cases: int
    source: str  # a digest of all in the file that says which

    @classmethod
    @cache  # all runs of a night have the same
    def parse(cls, text: str) -> Promise | None:
        match = re.fullmatch(r"(\d+)-([0-9a-f]+)", text, re.ASCII)
        return cls(int(match[1]), match[2]) if match else None

    def __str__(self) -> str:
        return f"{self.cases}-{self.source}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one case."""

    case: Case
    time: datetime  # UTC, of the job's end
    outcome: Outcome
    sentence: str
    metrics: Mapping[str, float]
    night: str  # its id; empty: a hand run
    session: str
    test: str = ""  # ReFrame's hash of the check and its parameters: `-n /hash` selects it
    result: str = "pass"  # ReFrame's, such as pass, fail, xfail
    filesystem: str = ""  # its name in the site's configuration
    folder: str = ""  # where its raw results are kept
    provenance: Mapping[str, str] = field(default_factory=dict)  # what the run met with
    #: What else went on then.
    system_context: SystemContext = field(default_factory=dict)
    slowest: Mapping[str, str] = field(default_factory=dict)  # rank in each phase, in words
    #: Median seconds of each phase of MPI-IO in the same rounds; none of MPI-IO itself.
    control: Mapping[str, float] = field(default_factory=dict)
    by_node: ByNode = field(default_factory=ByNode)  # where nodes do not wait for one another
    references: Mapping[str, Reference] = field(default_factory=dict)  # that it was judged by
    #: What the detector made of it, for iowatch.judge.stored.judged_of.
    detector: Mapping[str, Any] = field(default_factory=dict)
    promise: Promise | None = None  # to its night; None: to none, or none is on record
    #: An acceptance test has conditions of its own, such as no other users or an OST that is away:
    #: it says nothing of what is usual.
    of_contract: bool = False
    row: str = ""  # SHA-256 of its session's row in the results database; empty: it is in none

    def __hash__(self) -> int:  # mappings have none
        return hash((self.session, self.case, self.time))

    @property
    def rate(self) -> float | None:
        """MiB/s that the past of its case is judged by; None: it has none."""
        rates = (self.metrics[name] for name in self.case.check.rates if name in self.metrics)
        return next(rates, None)

    @property
    def is_measured(self) -> bool:
        """Return whether the run has a rate that counts. A rate of a cache or a bug is no past."""
        return self.outcome.counts and bool(self.rate)

    @property
    def lost_osts(self) -> list[str]:
        """The numbers of the OSTs that could not be measured, where it looks at each by itself."""
        return self.provenance.get(LOST_OSTS, "").split()

    @property
    def is_red(self) -> bool:
        recorded = self.outcome.is_unreferenced and self.result == "pass"
        return self.outcome.is_red and not recorded

    def is_after(self, now: datetime) -> bool:
        """Return whether the run, or its night, is dated later than now: a clock was wrong."""
        return self.time > now or self.night > night_id(now)


Nights = Mapping[str, Sequence[Run]]  # by their ids, oldest first; runs in the order of time


@lru_cache(16)  # every run of a year is compared with the present one
def night_id(began: datetime) -> str:
    """The id of a night that begins now: it sorts by time, and may be part of a file's name."""
    return f"{began.astimezone(UTC):%Y-%m-%dT%H%M%S}"


def hand_id(runs: Sequence[Run]) -> str:
    """Name a hand run as its raw results are; without any by the time of its first run."""
    kept = (Path(run.folder).parent.name for run in runs)
    return next(filter(is_night_id, kept), night_id(min(run.time for run in runs)))


def is_night_id(text: str) -> bool:
    return bool(_NIGHT.fullmatch(text))


def day_of(night: str) -> date:
    """The day, in UTC, on which a night began."""
    return date.fromisoformat(night[:10])


def began(night: str) -> datetime:
    return datetime.fromisoformat(night).replace(tzinfo=UTC)


def deciding(runs: Sequence[Run]) -> Run:
    """The run of a night whose verdict is the case's: the last, for its check has looked at those
    before it. Wrong data stay the verdict; what was not measured says nothing against what was."""
    corrupt = (run for run in runs if run.outcome.is_corrupt)
    measured = (run for run in reversed(runs) if not run.outcome.is_amber)
    return next(corrupt, None) or next(measured, runs[-1])


def fastest(runs: Sequence[Run]) -> Run | None:
    measured = [run for run in runs if run.is_measured]
    return max(measured, key=lambda run: run.rate or 0, default=None)


def nights_of(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs by night, oldest first. Hand runs are in none, nor is what was skipped."""
    nights: dict[str, list[Run]] = {}
    for run in runs:
        if run.night and not run.outcome.is_skipped:
            nights.setdefault(run.night, []).append(run)
    return {night: nights[night] for night in sorted(nights)}


def by_case(runs: Iterable[Run]) -> dict[Case, dict[str, list[Run]]]:
    """The nights of each case that was not always skipped."""
    cases: dict[Case, list[Run]] = {}
    for run in runs:
        if not run.outcome.is_skipped:
            cases.setdefault(run.case, []).append(run)
    return {case: nights_of(of_case) for case, of_case in cases.items()}
