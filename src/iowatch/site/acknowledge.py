"""Acknowledgements: expected failures that `iowatch ack` writes, of cases that the site has."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.records import append
from iowatch.cases.case import Case
from iowatch.measure.case_ids import find_case
from iowatch.site.expected import ExpectedFailure, expected_path

_OPTIONAL = ("owner", "ticket", "when")  # keys of an entry, which it has only with a value
_HEADER = "# Failures that are expected: `iowatch docs howto/faults` says what an entry excuses.\n"


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
    append(path, _HEADER, entry, written, objection)
    return path
