"""Failures that a site expects until a day, and its maintenance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import attrs

from iowatch.base.records import CASES, DAY, INSTANT, TEXT, Record, key, list_of, public_text
from iowatch.cases.parameters import LAYOUT, POOL, STRIPE_COUNT
from iowatch.measure.checks import CHECKS
from iowatch.site.formerly import former_names, is_meant

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
