"""The record of a system, loaded in one way: its runs, what a site knows besides, and the word of
the gate on each night."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from iowatch.base.places import reference_folder
from iowatch.cases.case import Case, shown
from iowatch.cases.filesystem import HOURLY
from iowatch.cases.run import Nights, Run, by_case, deciding, hand_id, night_id, nights_of
from iowatch.judge import bless
from iowatch.judge.bless import Blessed
from iowatch.past import history, hours
from iowatch.past.hours import CaseHour
from iowatch.past.words import GateRecord, Words
from iowatch.site import declared
from iowatch.site.declared import (
    Event,
    ExpectedFailure,
    Maintenance,
    UserOutput,
    read_events,
    read_outputs,
)
from iowatch.site.formerly import former_names
from iowatch.site.site import Site


def readers(system: str) -> list[Callable[[], object]]:
    """The files of a site that its nights rest on, each as a function that reads it: UserError."""
    every: Sequence[Callable[[str, Path], object]] = (
        *(bless.baselines_of, declared.read_expected, declared.read_maintenance),
        *(read_events, read_outputs),
    )
    return [partial(read, system, reference_folder()) for read in every]


@dataclass(frozen=True, kw_only=True)
class SystemRecord:
    """The record of a system, as far back as its last nights are judged by."""

    system: str
    runs: Sequence[Run] = ()
    now: datetime = field(default_factory=partial(datetime.now, UTC))
    databases: Sequence[Path] = ()
    blessed: Mapping[Case, Blessed] = field(default_factory=dict)
    expected: Sequence[ExpectedFailure] = ()
    #: The command that runs again what is suspicious; empty: it is not to be said.
    rerun_command: str = ""
    archived: Mapping[str, date] = field(default_factory=dict)  # by partition, as the site says
    #: By partition, how many nights in a row without a measurement are too many.
    amber_nights: Mapping[str, int] = field(default_factory=dict)
    hourly: Set[Case] | None = None  # the cases of that suite; None: the site is not known here
    events: Sequence[Event] = ()
    maintenance: Sequence[Maintenance] = ()
    outputs: Sequence[UserOutput] = ()
    since: datetime = datetime(1970, 1, 1, tzinfo=UTC)  # the runs of sessions before are not read
    notes: Sequence[str] = ()  # on how it was read
    differing: Sequence[str] = ()  # sentences on what a cache had otherwise, as it was decoded anew

    @classmethod
    def load(
        cls,
        system: str,
        databases: Sequence[Path],
        until: datetime | None = None,
        site: Site | None = None,
        again: str = "",
        anew: bool = False,
    ) -> SystemRecord:
        """Read what is known, and the runs of the blessed nights and of the year before `until`,
        which is now by default.

        `site` is the configuration of the system, if there is one here, and `again` the command
        that runs again what is suspicious. With `anew` no cache is believed. Raises: UserError.
        """
        now, notes, differing = datetime.now(UTC), list[str](), list[str]()
        names = former_names()
        blessed = names.by_case(
            pair
            for name in names.systems(system)
            for pair in bless.baselines_of(name, reference_folder()).items()
        )
        since = history.year_before(min(until or now, now))
        spans = bless.spans(blessed.values())
        runs = history.read(databases, since, spans, notes, differing if anew else None)
        return cls(
            system=system,
            runs=runs,
            since=since,
            now=now,
            databases=databases,
            blessed=blessed,
            expected=declared.read_expected(system, reference_folder()),
            maintenance=declared.read_maintenance(system, reference_folder()),
            rerun_command=again,
            archived=site.archived if site else {},
            amber_nights=site.amber_nights if site else {},
            hourly=site.cases(HOURLY) if site else None,
            notes=notes,
            differing=differing,
        )

    def for_pages(self) -> SystemRecord:
        """Add the events and the users' outputs, which pages show and no verdict depends on.

        Raises: UserError.
        """
        folder = reference_folder()
        events, outputs = read_events(self.system, folder), read_outputs(self.system, folder)
        return replace(self, events=events, outputs=outputs)

    @cached_property
    def of_system(self) -> list[Run]:
        return [run for run in self.runs if run.case.system == self.system]

    @cached_property
    def past(self) -> list[Run]:
        """The runs of the system, but for what a wrong clock has dated later than now."""
        return [run for run in self.of_system if not run.is_after(self.now)]

    @cached_property
    def future(self) -> list[Run]:
        """The runs that a wrong clock has dated later than now."""
        return [run for run in self.of_system if run.is_after(self.now)]

    @cached_property
    def cases(self) -> Mapping[Case, Nights]:
        """The nights of each case that may be its past: no acceptance test is."""
        return by_case(run for run in self.past if not run.of_contract)

    @cached_property
    def of_night(self) -> Mapping[str, Sequence[Run]]:
        """The runs of each night, with those that were skipped."""
        nights: dict[str, list[Run]] = {}
        for run in self.of_system:
            nights.setdefault(run.night, []).append(run)
        return nights

    @cached_property
    def past_nights(self) -> Mapping[str, list[Run]]:
        return nights_of(self.past)

    @cached_property
    def nights(self) -> dict[str, list[Run]]:
        """The runs of every night that has some, or on which the gate has its word on record."""
        return {night: list[Run]() for night in self.gated_nights} | nights_of(self.of_system)

    @cached_property
    def by_hand(self) -> dict[str, str]:
        """The sessions that were run by hand, with their ids."""
        sessions: dict[str, list[Run]] = {}
        for run in self.of_system:
            if not run.night:
                sessions.setdefault(run.session, []).append(run)
        return {session: hand_id(runs) for session, runs in sessions.items()}

    def objection(self, case: Case, nights: Nights) -> str:
        """Say why a case must not be judged by its baseline; empty if it may, or has none."""
        entry, folder = self.blessed.get(case), reference_folder()
        return bless.objection(self.system, folder, case, entry, nights) if entry else ""

    def hours_until(self, until: datetime) -> list[CaseHour]:
        """The hours before this time that a night shows. UserError."""
        return hours.read(self.system, {d.parent: None for d in self.databases}, until)

    # The word of the gate

    @cached_property
    def words(self) -> Words:
        """The words of the gate on the nights of the system."""
        archived = max(self.archived.values(), default=date.min)
        folders = [database.parent for database in self.databases]
        return Words(self.system, folders, archived, night_id(self.since))

    @cached_property
    def gated_nights(self) -> list[str]:
        """The nights on which the gate has given its word, also if that is gone, as far back as
        their runs were read."""
        return sorted({*self.words.nights, *self.words.followed})

    def rows(self, night: str) -> dict[str, str]:
        """The sessions of a night that are on record, with the digests of their rows."""
        return {run.session: run.row for run in self.of_night.get(night, ())}

    def groups(self, night: str) -> Mapping[str, Any]:
        """The charts of what cases share, as a night has left them; none: nobody has stored any."""
        word = self.words.read(night)
        return word.groups if word else {}

    def damage(self, night: str) -> list[str]:
        """Say what is on record of a night otherwise than it was."""
        runs = self.of_night.get(night, ())
        promised = {run.session for run in runs if run.promise}
        damage = [*self.words.damage(night, self.rows(night), promised)]
        word, cases = self.words.read(night), dict[Case, list[Run]]()
        for run in runs:
            cases.setdefault(run.case, []).append(run)
        failed = [case for case, tried in cases.items() if deciding(tried).outcome.is_failed]
        if failed and word and word.colour != "red":
            damage.append(f"its word is {word.colour}, and what failed is red: {shown(failed)}")
        return damage

    def word(self, night: str) -> GateRecord | None:
        """The word of the gate on a night, if it holds for what is on record of it."""
        word = self.words.read(night)
        return word if word and word.rows == self.rows(night) and not self.damage(night) else None

    def damaged(self, before: str = "~") -> dict[str, list[str]]:
        """The earlier nights that are on record otherwise than they were, with what is."""
        nights = {*self.gated_nights, *self.of_night}
        every = {
            night: [*self._unreadable(night), *self.damage(night)]
            for night in sorted(nights)
            if "" < night < before
        }
        return {night: damage for night, damage in every.items() if damage}

    def _unreadable(self, night: str) -> Sequence[str]:
        """Say why the word on a night, which shows it as its problem, cannot be believed."""
        word = self.words.read(night)
        return word.problems if word and not word.seal else ()
