"""What a site's people declare: failures that they expect, maintenance, events, users' outputs.

`iowatch ack` and `iowatch event` write entries, too. Each kind has a file of a system in a folder
of reference_values/; docs/howto/faults.md and docs/howto/users.md show them. An event:

    - at: 2026-11-18 06:30:00+00:00
      event: firmware 7.2 on all OSS
      who: jane
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import attrs

from iowatch.base.files import UserError
from iowatch.base.records import (
    CASES,
    COUNT,
    DAY,
    INSTANT,
    TEXT,
    Record,
    append,
    choice,
    key,
    list_of,
    number,
    public_text,
)
from iowatch.cases.case import Case
from iowatch.cases.parameters import BACKENDS, LAYOUT, POOL, STRIPE_COUNT
from iowatch.measure.case_ids import find_case
from iowatch.measure.checks import CHECKS
from iowatch.site.formerly import former_names, is_meant

_OPTIONAL = ("owner", "ticket", "when")  # keys of an entry, which it has only with a value

_FAILURES = (
    "# Failures that are expected: `iowatch docs howto/faults` says what an entry excuses.\n"
)


def pattern_of(text: str, cases: Collection[Case], names: Mapping[Case, str]) -> str:
    """The regular expression of the case with this id or name, or else of the cases whose ids match
    this one.

    UserError if that is none of `cases`; `names` are those that the last night gave to some.
    """
    ids = {str(case) for case in cases}
    if text not in ids | {names.get(case) for case in cases} and (whole := _matching(text, ids)):
        return whole
    return _exactly(find_case(text, cases, names))


def _matching(text: str, ids: Collection[str]) -> str:
    """The expression for whole ids of those in which this one is found; empty: it is in none."""
    try:
        matching = [name for name in ids if re.search(text, name)]
        anywhere = f".*({text}).*" if "|" in text else f".*{text}.*"
        is_whole = all(re.fullmatch(text, name) for name in matching)
        whole = text if is_whole else re.compile(anywhere).pattern
    except re.error:
        return ""
    return whole if matching else ""


def _exactly(case: Case) -> str:
    return str(case).replace(".", r"\.")  # nothing else in an id has a meaning


def acknowledge(system: str, folder: Path, entry: ExpectedFailure, today: date) -> Path:
    """Append an entry to the failures that are expected of a system, and return the file.

    UserError if the entry would excuse too much, or nothing new."""
    if entry.until < today:
        raise UserError(f"--until {entry.until}: is over: name a day to come")
    if excess := entry.excess(system, today):
        raise UserError(
            f"{entry.case.pattern}: would excuse {excess}: name a day within a year, and a "
            "filesystem, environment, check or backend"
        )

    def objection(before: list[ExpectedFailure]) -> str:
        same = [other for other in before if other.case == entry.case]
        lasting = [other for other in same if other.until >= entry.until]
        why = "already: to change that, edit its entry"
        return f"{entry.case.pattern} is {lasting[0]} {why}" if lasting else ""

    path = expected_path(system, folder)
    written = {"case": entry.case.pattern, "until": entry.until, "why": entry.why}
    written |= {key: value for key in _OPTIONAL if (value := getattr(entry, key))}
    append(path, _FAILURES, entry, written, objection)
    return path


#: The longest time for which a failure may be expected.
LONGEST_EXCUSE = timedelta(days=366)


@attrs.frozen(kw_only=True)
class ExpectedFailure(Record):
    """Cases that may fail until a day, that day included."""

    case: re.Pattern[str] = key(CASES, "The cases; the expression matches a whole case id.")
    until: date = key(DAY, "The last day on which they may fail.")
    why: str = key(TEXT, "The fault, as pages and mails name it.")
    owner: str = key(TEXT, "Who looks after the fault.", default="")
    ticket: str = key(TEXT, "The fault's ticket.", default="")
    when: date | None = key(DAY, "The day on which it was acknowledged.", default=None)
    public: str = public_text()

    def excuses(self, case: str, today: date) -> bool:
        return today <= self.until and is_meant(self.case, case)

    def excess(self, system: str, today: date) -> str:
        """Say what the entry excuses beyond a year and the cases that it names; empty: nothing."""
        if today > self.until:
            return ""
        too_much = []
        if self.until > today + LONGEST_EXCUSE:
            too_much.append(f"until {self.until}, more than a year ahead")
        if any(self.case.fullmatch(made_up) for made_up in _made_up(system)):
            too_much.append("cases that it does not name")
        return " and ".join(too_much)

    def __str__(self) -> str:
        owner = f", {self.owner}" if self.owner else ""
        ticket = f", ticket {self.ticket}" if self.ticket else ""
        return f"expected until {self.until}{owner}{ticket}: {self.why}"


def _made_up(system: str) -> Iterator[str]:
    """Case ids whose parts no site has: a pattern that matches one names no part of a case."""
    for check in CHECKS.values():
        for given in ((), (LAYOUT.name,), (STRIPE_COUNT.name,), (STRIPE_COUNT.name, POOL.name)):
            names = [parameter.name for parameter in check.parameters_with(given)]
            yield "/".join([f"{system}:0/0/0", *(f"{name}=0" for name in names)])


def expected_path(system: str, folder: Path) -> Path:
    return folder / "expected_failures" / f"{system}.yaml"


def read_expected(system: str, folder: Path) -> list[ExpectedFailure]:
    """The failures that are expected of a system; none without a file. UserError."""
    files = (expected_path(name, folder) for name in former_names().systems(system))
    return [entry for file in files for entry in ExpectedFailure.read_list(file)]


def excuse(failures: Iterable[ExpectedFailure], case: str, today: date) -> ExpectedFailure | None:
    """The first entry that excuses a failure of this case today."""
    return next((entry for entry in failures if entry.excuses(case, today)), None)


@attrs.frozen(kw_only=True)
class Maintenance(Record):
    """A time in which some filesystems are not to be measured, as the site has announced."""

    begins: datetime = key(INSTANT, "When it begins.", name="from")
    ends: datetime = key(INSTANT, "When it ends.", name="until")
    filesystems: tuple[str, ...] = key(
        list_of(TEXT, "a list of names in the site's configuration, such as [fs2, fs3]"),
        "The filesystems that are away, as `filesystem` names them in the site's file.",
    )
    why: str = key(TEXT, "What is done, as pages and mails name it.")
    public: str = public_text()

    def contradiction(self) -> str:
        if self.begins < self.ends:
            return ""
        return f"until is {self.ends}, and from only {self.begins}"

    def covers(self, filesystem: str, first: datetime, last: datetime) -> bool:
        """Return whether this filesystem is away for some of the time between two others."""
        return filesystem in self.filesystems and self.begins <= last and first < self.ends

    def __str__(self) -> str:
        first, last = (
            f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" for time in (self.begins, self.ends)
        )
        return f"maintenance from {first} to {last} UTC: {self.why}"


def maintenance_path(system: str, folder: Path) -> Path:
    return folder / "maintenance" / f"{system}.yaml"


def read_maintenance(system: str, folder: Path) -> list[Maintenance]:
    """The maintenance of a system, past and to come; none without a file. UserError."""
    return Maintenance.read_list(maintenance_path(system, folder))


_EVENTS = "# Events: `iowatch event` adds to this list, and the trends of every page show it.\n"


@attrs.frozen(kw_only=True)
class Event(Record):
    """Something that happened to a system."""

    at: datetime = key(INSTANT, "When it happened.")
    event: str = key(TEXT, "The event, as trends name it.")
    who: str = key(TEXT, "Who says so.")
    public: str = public_text()


def events_path(system: str, folder: Path) -> Path:
    return folder / "events" / f"{system}.yaml"


def read_events(system: str, folder: Path) -> list[Event]:
    """Read the events of a system; none without a file. UserError."""
    return Event.read_list(events_path(system, folder))


def add_event(system: str, folder: Path, event: Event) -> Path:
    """Append an event to those of a system, and return the file; UserError."""
    path = events_path(system, folder)
    append(path, _EVENTS, event, {name: v for name, v in attrs.asdict(event).items() if v})
    return path


@attrs.frozen(kw_only=True)
class UserOutput(Record):
    """An output that users know, of which pages say how much longer it takes on a slow night."""

    name: str = key(TEXT, "The output with its article, such as: a WRF output. Users read it.")
    size: float = key(
        number("a number above 0", math.ulp(0)), "The size of all its files.", unit="GiB"
    )
    library: str = key(choice(*BACKENDS), "The I/O library that the program uses.")
    files: str = key(
        choice("shared", "process", "gather"),
        "One file that all ranks write, one for each rank, or one that a single rank writes for "
        "all.",
        default="shared",
    )
    ranks: int = key(COUNT, "The number of ranks that write or read it.")
    operation: str = key(
        choice("write", "read"),
        "The operation of the program that users wait for.",
        default="write",
    )
    filesystems: tuple[str, ...] = key(
        list_of(TEXT, "a list of names in the site's configuration, such as [fs2, fs3]"),
        "The filesystems that users choose for it, as `filesystem` names them in the site's file. "
        "Without the key all filesystems count.",
        default=(),
    )

    def contradiction(self) -> str:
        if self.library == "posix" and self.files == "shared":
            return (
                "posix has no case with one file for all ranks: write library: mpiio, whose "
                "independent calls are POSIX's"
            )
        return ""


def outputs_path(system: str, folder: Path) -> Path:
    return folder / "user_outputs" / f"{system}.yaml"


def read_outputs(system: str, folder: Path) -> list[UserOutput]:
    """Read the users' outputs of a system; none without a file. UserError."""
    return UserOutput.read_list(outputs_path(system, folder))
