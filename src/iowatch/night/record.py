"""The record of a system: its runs, what a site knows besides, and what the gate has said.

What the gate has said of a night is kept beside the results database: nights/SYSTEM-NIGHT.json.
The database has the runs and their verdicts. What never ran is in no database, and files of the
site change: without this record, whoever shows the night later would come to another colour.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from functools import cached_property
from pathlib import Path

from iowatch import bless, history, references
from iowatch.bless import Blessed
from iowatch.case import Case
from iowatch.files import UserError, whole
from iowatch.places import reference_folder
from iowatch.references import ExpectedFailure
from iowatch.run import Run, is_night_id
from iowatch.site import Site

FOLDER = "nights"
COLOURS = ("green", "amber", "red")  # of a night, the worst last


@dataclass(frozen=True)
class GateRecord:
    """The word of the gate on a night."""

    time: str  # when, UTC
    colour: str
    why: str  # the sentence that comes first
    promised: int  # cases that the site's file promised
    runs: int  # that it was judged by
    problems: Sequence[str] = ()  # of all its sessions: a re-run takes nothing back
    notes: Sequence[str] = ()  # that only who ran the night could make
    lost: Sequence[str] = ()  # earlier nights of which it said that they were lost


def path_of(database: Path, system: str, night: str) -> Path:
    return database.parent / FOLDER / f"{system}-{night}.json"


def keep_judged(database: Path, system: str, night: str, judged: GateRecord) -> None:
    """Put on record, on stable storage, what the gate has said; UserError."""
    path = path_of(database, system, night)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UserError(f"{path}: cannot be written: {err.strerror}") from None
    with whole(path) as temporary:
        temporary.write_text(json.dumps(asdict(judged), indent=1) + "\n", "utf-8")


@dataclass(frozen=True)
class Records:
    """The words of the gate on the nights of a system, beside any of these databases."""

    system: str = ""
    databases: Sequence[Path] = ()

    @cached_property
    def nights(self) -> list[str]:
        """Their ids, in the order of time."""
        files = (file for d in self.databases for file in (d.parent / FOLDER).glob("*.json"))
        names = {file.stem.removeprefix(f"{self.system}-") for file in files}
        return sorted(filter(is_night_id, names))

    def of(self, night: str) -> GateRecord | None:
        """None: nothing, as of plain ReFrame."""
        records = (read_judged(database, self.system, night) for database in self.databases)
        return next(filter(None, records), None)

    @property
    def told_lost(self) -> set[str]:
        """The nights of which some night has said that they were lost."""
        return {lost for each in self.nights if (record := self.of(each)) for lost in record.lost}


def read_judged(database: Path, system: str, night: str) -> GateRecord | None:
    """Read what the gate has said of a night; None: nothing is on record.

    A record that cannot be read makes the night red.
    """
    path = path_of(database, system, night)
    try:
        kept = json.loads(path.read_text("utf-8"))
        judged = GateRecord(**kept)
        for one in fields(GateRecord):
            value, default = getattr(judged, one.name), one.default
            of = list if default == () else int if one.name in ("promised", "runs") else str
            if not isinstance(value, of):
                raise ValueError(f"{one.name} is {value!r}")
        if judged.colour not in COLOURS:
            raise ValueError(f"colour is {judged.colour!r}")
        if datetime.fromisoformat(judged.time).tzinfo is None:
            raise ValueError(f"time is {judged.time!r}, without its zone")
        return judged
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as err:
        problem = f"{path}: what was said of the night cannot be read: {err}"
        return GateRecord("", "red", problem, 0, 0, [problem])


@dataclass(frozen=True)
class Known:
    """Facts that are known of a system besides its runs."""

    blessed: Mapping[Case, Blessed] = field(default_factory=dict)
    expected: Sequence[ExpectedFailure] = ()
    rerun_command: str = ""  # that runs again what is suspicious; empty: not to be said
    archived: Mapping[str, date] = field(default_factory=dict)  # by partition, as the site says
    #: Likewise: how many nights in a row without a measurement are too many.
    amber_nights: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()  # on how it came to be known


def load(
    system: str,
    databases: Sequence[Path],
    until: datetime,
    site: Site | None = None,
    again: str = "",
) -> tuple[Known, list[Run]]:
    """Read what is known of a system, and the runs of the year before `until` and of the nights
    that were blessed.

    `site` is its configuration, if there is one here, and `again` the command that runs again what
    is suspicious. Raises: UserError.
    """
    folder, notes = reference_folder(), list[str]()
    blessed = bless.read(system, folder)
    expected = references.read_expected(system, folder)
    spans = bless.spans(blessed.values())
    runs = history.read(databases, history.year_before(until), spans, notes)
    of_site = (site.archived, site.amber_nights) if site else ({}, {})
    return Known(blessed, expected, again, *of_site, notes), runs
