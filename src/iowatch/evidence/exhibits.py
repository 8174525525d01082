"""The evidence of an acceptance test: its sessions, their runs, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from iowatch.base.text import numbers_in_words
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.measure.case_ids import known_case
from iowatch.measure.kinds.kind import KeptFiles

#: Filesystems with the number of OSTs of each that are away; empty: every OST is there.
Condition = tuple[tuple[str, int], ...]
Key = tuple[str, Case]  # the session of a run, and its case


@dataclass(frozen=True, kw_only=True)
class Session:
    """An acceptance session that is on record."""

    uuid: str
    began: datetime  # UTC
    by: str
    command: str
    ran: int  # cases of the suite
    promised: int  # cases that the suite has; 0: the session asked for a part of the system
    why_not: str = ""  # the session does not count; empty: it does
    #: OSTs that were declared to be away before the session began, by filesystem.
    away: Mapping[str, Sequence[int]] = field(default_factory=dict)
    death: str = ""  # what was declared to be killed, such as fs3:client
    has_failed: frozenset[str] = frozenset()  # filesystems on which a run failed
    boot: str = ""  # identifies the start of the login node; empty: nobody knows
    up_s: float = 0.0  # how long the node was up then

    @property
    def counts(self) -> bool:
        """Return whether the session counts."""
        return not self.why_not

    @property
    def without(self) -> str:
        """Say that it was declared to be without some OSTs, such as 7 and 9 of fs3."""
        osts = (f"{numbers_in_words('OST', osts)} of {name}" for name, osts in self.away.items())
        return f"it was declared to be without {' and '.join(osts)}"

    @property
    def condition(self) -> Condition:
        """The number of OSTs that were away, by filesystem."""
        return tuple(sorted((name, len(osts)) for name, osts in self.away.items()))


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One run of a case as evidence."""

    case: Case
    nodes: int
    session: str  # the session that the run counts for
    #: MiB/s of each round by backend, writes synced; of metadata, operations/s by phase.
    rates: Mapping[str, Sequence[float]]
    #: Rates by operation and OST, of a case that measures each OST by itself.
    osts: Mapping[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)
    ior: Sequence[float] = ()  # MiB/s of each round of IOR, in turn with benchio
    provenance: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""  # the folder of the raw results, in the evidence


@dataclass(frozen=True, kw_only=True)
class ReadBackRun(KeptFiles):
    """One run of a case that reads what an earlier session has kept, and keeps files itself."""

    case: Case
    session: Session
    night: str  # the night under which the run keeps files
    folder: str = ""  # the folder of the raw results, in the evidence
    id: str = ""  # the run that keeps files


@dataclass(kw_only=True)
class Evidence:
    """The runs that count, and the faults of the others."""

    sessions: list[Session] = field(default_factory=list)  # in the order of time
    exhibits: list[Exhibit] = field(default_factory=list)
    failed: dict[Key, str] = field(default_factory=dict)  # why, in words
    replaced: list[str] = field(default_factory=list)  # sentences on runs that re-runs replaced
    lost: list[str] = field(default_factory=list)  # runs of which no session is on record
    #: Keys of `failed` that were verified in their session: no re-run replaces them.
    spoilt: set[Key] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)  # of sessions, not of cases: a build, versions
    cases: dict[Case, int] = field(default_factory=dict)  # the suite: the nodes of each case
    places: list[Filesystem] = field(default_factory=list)
    read_back: list[ReadBackRun] = field(default_factory=list)  # in the order of time
    excused: set[str] = field(default_factory=set)  # excluded nights: their lost runs do not matter

    @property
    def counting(self) -> list[Session]:
        """The sessions that count in which every OST was there."""
        return self.counting_with(())

    def counting_with(self, condition: Condition) -> list[Session]:
        """The sessions that count in which so many OSTs were away."""
        return [s for s in self.sessions if s.counts and s.condition == condition]

    def place_of(self, case: Case) -> Filesystem | None:
        """The filesystem of a case; None if the site's configuration no longer has it."""
        here = (p for p in self.places if (p.system, p.partition) == (case.system, case.partition))
        return next(here, None)

    def suite(self, filesystem: str) -> dict[Case, int]:
        """The cases on a filesystem, with their numbers of nodes."""
        partitions = {place.partition for place in self.places if place.name == filesystem}
        return {case: n for case, n in self.cases.items() if case.partition in partitions}

    def lost_of(self, cases: Collection[Case]) -> str:
        """A run of one of these cases that is lost and not excused; empty if there is none."""
        for run in self.lost:
            night, _, name = run.partition("/")
            if case_in(name) in cases and night not in self.excused:
                return run
        return ""


def case_in(folder: str) -> Case | None:
    """The case of a run, by the name of its folder; None if the folder is not ours."""
    return known_case(folder.partition("+")[0].replace(",", "/"))
