"""The record of a system, loaded in one way: its runs, what a site knows besides, and the word of
the gate on each night.

The word is kept beside the results database: nights/SYSTEM-NIGHT.json. Cases that never ran are in
no database, and files of the site change: without that word a later page would come to another
colour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path

import attrs

from iowatch import bless, history, hours, references
from iowatch.bless import Blessed
from iowatch.case import Case
from iowatch.events import Event, read_events
from iowatch.files import UserError, whole
from iowatch.hours import CaseHour
from iowatch.places import reference_folder
from iowatch.records import INSTANT, TEXT, Record, choice, key, list_of, number
from iowatch.references import ExpectedFailure, Maintenance
from iowatch.run import Nights, Run, by_case, hand_id, is_night_id, nights_of
from iowatch.site import Site
from iowatch.suites import HOURLY
from iowatch.user_outputs import UserOutput, read_outputs

FOLDER = "nights"
COLOURS = ("green", "amber", "red")  # of a night, the worst last
_COUNT = number("a whole number", 0, is_whole=True)
_TEXTS = list_of(TEXT, "a list of texts", may_be_empty=True)


@attrs.frozen(kw_only=True)
class GateRecord(Record):
    """The word of the gate on a night."""

    time: datetime = key(INSTANT)
    colour: str = key(choice(*COLOURS))
    why: str = key(TEXT)  # the sentence that comes first
    promised: int = key(_COUNT)  # cases, by the site's file
    runs: int = key(_COUNT)  # that the night was judged by
    problems: Sequence[str] = key(_TEXTS, default=())  # of all sessions: a re-run takes none back
    notes: Sequence[str] = key(_TEXTS, default=())  # that only who ran the night could make
    lost: Sequence[str] = key(_TEXTS, default=())  # earlier nights that this one said were lost


def readers(system: str) -> list[Callable[[], object]]:
    """The files of a site that its nights rest on, each as a function that reads it: UserError."""
    every: Sequence[Callable[[str, Path], object]] = (
        *(bless.read, references.read_expected, references.read_maintenance),
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
    notes: Sequence[str] = ()  # on how it was read

    @classmethod
    def load(
        cls,
        system: str,
        databases: Sequence[Path],
        until: datetime | None = None,
        site: Site | None = None,
        again: str = "",
    ) -> SystemRecord:
        """Read what is known, and the runs of the blessed nights and of the year before `until`,
        which is now by default.

        `site` is the configuration of the system, if there is one here, and `again` the command
        that runs again what is suspicious. Raises: UserError.
        """
        now, notes = datetime.now(UTC), list[str]()
        blessed = bless.read(system, reference_folder())
        since = history.year_before(min(until or now, now))
        return cls(
            system=system,
            runs=history.read(databases, since, bless.spans(blessed.values()), notes),
            now=now,
            databases=databases,
            blessed=blessed,
            expected=references.read_expected(system, reference_folder()),
            maintenance=references.read_maintenance(system, reference_folder()),
            rerun_command=again,
            archived=site.archived if site else {},
            amber_nights=site.amber_nights if site else {},
            hourly=site.cases(HOURLY) if site else None,
            notes=notes,
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
    def gated_nights(self) -> list[str]:
        """The nights on which the gate has its word on record."""
        files = (file for d in self.databases for file in (d.parent / FOLDER).glob("*.json"))
        names = {file.stem.removeprefix(f"{self.system}-") for file in files}
        return sorted(filter(is_night_id, names))

    @property
    def told_lost(self) -> set[str]:
        """The nights of which some night has said that they were lost."""
        words = map(self.gate_record, self.gated_nights)
        return {lost for word in words if word for lost in word.lost}

    def gate_record(self, night: str) -> GateRecord | None:
        """Read the word of the gate on a night; None: there is none, as of plain ReFrame.

        A record that cannot be read makes the night red.
        """
        return next(filter(None, (_read(path, night) for path in self._paths(night))), None)

    def keep_gate_record(self, night: str, judged: GateRecord) -> None:
        """Put the word of the gate on record, on stable storage; UserError."""
        path = self._paths(night)[0]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise UserError(f"{path}: cannot be written: {err.strerror}") from None
        with whole(path) as temporary:
            temporary.write_text(
                f"{json.dumps(attrs.asdict(judged), indent=1, default=str)}\n", "utf-8"
            )

    def _paths(self, night: str) -> list[Path]:
        return [d.parent / FOLDER / f"{self.system}-{night}.json" for d in self.databases]


def _read(path: Path, night: str) -> GateRecord | None:
    try:
        return GateRecord.read(str(path), json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, UserError) as err:
        why = str(err).removeprefix(f"{path}: ")
        problem = f"{path}: what was said of the night cannot be read: {why}"
        never = datetime.fromisoformat(f"{night[:10]}T00:00Z")
        return GateRecord(
            time=never, colour="red", why=problem, promised=0, runs=0, problems=[problem]
        )
