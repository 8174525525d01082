"""What stands above the table of a night: its matrix, its baselines, and what is new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from iowatch.base.text import counted
from iowatch.cases.parameters import BACKENDS, TITLES
from iowatch.cases.run import Run, day_of, deciding, fastest
from iowatch.judge.settings import NORMAL
from iowatch.measure.case_ids import table_order
from iowatch.night.case_night import CaseNight
from iowatch.night.headline import Headline, in_days, signed
from iowatch.night.verdicts import NightVerdicts, SkippedCase
from iowatch.site.expected import ExpectedFailure

OTHERS = "other"  # the column of what goes through none of the libraries


@dataclass(frozen=True)
class Cell:
    """The cases of one check and library on a filesystem, worst first."""

    rows: Sequence[CaseNight]

    @property
    def worst(self) -> CaseNight:
        return self.rows[0]

    @property
    def sign(self) -> str:
        """The word that tells it without its colour; empty: all is well."""
        row = self.worst
        if row.is_quiet or row.is_recorded:
            return ""
        return signed(-row.drop) if row.drop is not None else str(row.outcome.state)

    @property
    def words(self) -> str:
        """The whole of it, for whoever does not see it."""
        more = f", and {counted(len(self.rows) - 1, 'more case')}" if len(self.rows) > 1 else ""
        return f"{self.worst.in_brief}{more}"


@dataclass(frozen=True)
class Block:
    """A filesystem of the matrix."""

    filesystem: str
    columns: Mapping[str, str]  # the title of each backend
    checks: Mapping[str, Sequence[Cell | None]]  # by what they do; None: there is no such case


def matrix(night: NightVerdicts) -> list[Block]:
    """Sort the cases of a night by filesystem, check and library."""
    cells: dict[str, dict[str, dict[str, list[CaseNight]]]] = {}
    for row in sorted(night.cases, key=lambda row: table_order(row.case)):
        column = row.case.backend if row.case.backend in BACKENDS else OTHERS
        checks = cells.setdefault(row.last.filesystem or row.case.partition, {})
        checks.setdefault(row.case.shape, {}).setdefault(column, []).append(row)
    return [_block(filesystem, checks) for filesystem, checks in sorted(cells.items())]


def _block(filesystem: str, checks: Mapping[str, Mapping[str, list[CaseNight]]]) -> Block:
    used = {column for columns in checks.values() for column in columns}
    columns = [column for column in (*BACKENDS, OTHERS) if column in used]
    return Block(
        filesystem,
        {column: TITLES.get(column, column) for column in columns},
        {
            shape: [_cell(of_check.get(column)) for column in columns]
            for shape, of_check in checks.items()
        },
    )


def _cell(rows: Sequence[CaseNight] | None) -> Cell | None:
    return Cell(sorted(rows, key=lambda row: row.severity)) if rows else None


# Baselines


def baselines(night: NightVerdicts) -> str:
    """Say how many cases have a baseline, and how far the others are from one."""
    rows = [row for row in night.cases if row.case.metrics]
    if not rows:
        return ""
    words = [f"{counted(sum(bool(row.blessed) for row in rows), 'case', total=len(rows))} blessed"]
    days = sorted(row.blessed.blessed for row in rows if row.blessed)
    words[0] += f", last on {in_days(days[-1])} {days[-1].year}" if days else ""
    nights = [_measured(row) for row in rows if not row.blessed]
    few = sorted(count for count in nights if count < NORMAL.min_nights)
    if few:
        least = f"{few[0]} to " if few[0] < few[-1] else ""
        least_needed = f"{few[-1]} of {NORMAL.min_nights} nights"
        words.append(f"{len(few)} without a baseline: {least}{least_needed}")
    if enough := len(nights) - len(few):
        words.append(f"{enough} with the nights for one: iowatch bless --system {night.system}")
    return "; ".join(words)


def _measured(row: CaseNight) -> int:
    return sum(map(bool, map(fastest, [row.runs, *row.earlier.values()])))


def acknowledged(night: NightVerdicts) -> list[tuple[ExpectedFailure, Sequence[CaseNight]]]:
    """List the acknowledgements in force that are about cases of this night."""
    entries = list[tuple[ExpectedFailure, Sequence[CaseNight]]]()
    for entry in night.expected:
        rows = [row for row in night.cases if entry.excuses(str(row.case), night.day)]
        entries += [(entry, rows)] if rows else []
    return entries


# Since last night


@dataclass(frozen=True)
class SinceLastNight:
    """What is not as it was on the night before."""

    night: NightVerdicts

    @cached_property
    def last(self) -> str:
        """The night before; empty: there is none."""
        nights = {night for row in self.night.cases for night in row.earlier}
        return max(nights | {skipped.last for skipped in self.night.skipped}, default="")

    @property
    def rows(self) -> Mapping[str, Sequence[CaseNight]]:
        """The cases of each kind of change; none of a kind that has none."""
        kinds = {
            "New red": self._where(lambda row, was: row.is_red and not (was and was.is_red)),
            "Still red": self._where(lambda row, was: bool(row.is_red and was and was.is_red)),
            "Resolved": self._where(_is_resolved),
            "Newly not measured": self._where(
                lambda row, was: bool(row.is_amber and was and not was.outcome.is_amber)
            ),
        }
        return {kind: rows for kind, rows in kinds.items() if rows}

    @property
    def skipped(self) -> list[SkippedCase]:
        """The cases that are skipped for the first time."""
        return [skipped for skipped in self.night.skipped if skipped.last == self.last != ""]

    def _where(self, test: Callable[[CaseNight, Run | None], bool]) -> list[CaseNight]:
        return [row for row in self.night.worst_first if test(row, _before(row))]


def _before(row: CaseNight) -> Run | None:
    """The deciding run of the last night before; None: it was never measured."""
    return deciding(row.earlier[max(row.earlier)]) if row.earlier else None


def _is_resolved(row: CaseNight, was: Run | None) -> bool:
    is_open = row.is_red or row.is_amber or row.known
    return row.outcome.is_resolved or bool(was and was.is_red and not is_open)


# Events


@dataclass(frozen=True)
class Mark:
    """An event on the time axis of a case."""

    day: date
    words: str

    @property
    def sentence(self) -> str:
        return f"{in_days(self.day)}: {self.words}"


MARKS = 8  # events that a trend shows, the last
VERSIONS = ("benchio", "mpi", "compiler", "hdf5", "netcdf", "pnetcdf")  # that a trend shows


def marks(night: NightVerdicts, row: CaseNight) -> list[Mark]:
    """List what has happened of late to a case and its system, oldest first."""
    events = [(event.at.date(), f"{event.event} ({event.who})") for event in night.events]
    if blessed := row.blessed:
        events.append((blessed.blessed, f"blessed by {blessed.who}: {blessed.why}"))
    for entry in night.expected:
        if entry.when and entry.case.fullmatch(str(row.case)):
            events.append((entry.when, f"acknowledged, {entry}"))
    events += [
        (entry.begins.date(), f"maintenance: {entry.why}")
        for entry in night.maintenance
        if row.last.filesystem in entry.filesystems
    ]
    first = row.trend.nights[0]
    marks = [Mark(day, words) for day, words in [*events, *_versions(row)]]
    marks = [mark for mark in marks if first <= mark.day <= night.day]
    return sorted(marks, key=lambda mark: mark.day)[-MARKS:]


RECENT = timedelta(days=2)  # before the worst of a night began


def recent_marks(night: NightVerdicts, top: Headline) -> list[Mark]:
    """List the events of the days before the worst began: one of them may be why."""
    if not (top.row and top.since):
        return []
    return [m for m in marks(night, top.row) if top.since - RECENT <= m.day <= top.since]


def _versions(row: CaseNight) -> list[tuple[date, str]]:
    """List the nights on which a library had another version than on the night before."""
    known: Mapping[str, str] = {}
    changes = []
    for night, runs in [*sorted(row.earlier.items()), (row.night, row.runs)]:
        provenance = deciding(runs).provenance
        met = {name: provenance[name] for name in VERSIONS if name in provenance}
        words = [
            f"{name} {known[name]} → {met[name]}"
            for name in VERSIONS
            if name in known and name in met and known[name] != met[name]
        ]
        changes += [(day_of(night), ", ".join(words))] if words else []
        known = {**known, **met}
    return changes
