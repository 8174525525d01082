"""Failures that a site expects, until a date: reference_values/expected_failures/<system>.yaml.

- case: archer:fs[23]/.*/hdf5/.*
  until: 2027-01-31
  why: HDF5 1.8.14 closes slowly on Lustre, ticket 4711
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from iowatch.detector.judgement import SEVERE
from iowatch.files import BadYaml, UserError, load_yaml, text_of
from iowatch.verdict import DEFECT, REGRESSION

#: What was not verified, or cannot be, is never excused.
EXCUSABLE = frozenset({REGRESSION, DEFECT, SEVERE})
KEYS = {"case", "until", "why"}


class ExpectedError(UserError):
    """A system's file cannot be used; one line says which and why."""


@dataclass(frozen=True)
class ExpectedFailure:
    """Cases that may fail until a day, that day included."""

    case: re.Pattern[str]  # matches the whole case id
    until: date
    why: str

    def excuses(self, case: str, today: date) -> bool:
        return today <= self.until and bool(self.case.fullmatch(case))

    def __str__(self) -> str:
        return f"expected until {self.until}: {self.why}"


def expected_path(system: str, folder: Path) -> Path:
    return folder / "expected_failures" / f"{system}.yaml"


def read_expected(system: str, folder: Path) -> list[ExpectedFailure]:
    """The failures that are expected of a system; none without a file."""
    file = expected_path(system, folder)
    try:
        entries = load_yaml(text_of(file)) or []
    except FileNotFoundError:
        return []
    except BadYaml as err:
        raise ExpectedError(f"{file}: {err}") from None
    if not isinstance(entries, list):
        raise ExpectedError(f"{file}: is no list of entries with case, until and why")
    return [_entry(file, number, entry) for number, entry in enumerate(entries, start=1)]


def _entry(file: Path, number: int, entry: Any) -> ExpectedFailure:
    where = f"{file}, entry {number}"
    if not isinstance(entry, dict) or set(entry) != KEYS:
        raise ExpectedError(f"{where}: needs case, until and why, and nothing else")
    case, until, why = entry["case"], entry["until"], entry["why"]
    if type(until) is not date:
        raise ExpectedError(f"{where}: until is {until!r}: write a day such as 2027-01-31")
    if not (isinstance(why, str) and why.strip()):
        raise ExpectedError(f"{where}: why is {why!r}: name the fault, or its ticket")
    try:
        return ExpectedFailure(re.compile(case), until, why)
    except (re.error, TypeError) as err:
        raise ExpectedError(
            f"{where}: case is {case!r}, no regular expression for case ids: {err}"
        ) from None


def excuse(failures: Iterable[ExpectedFailure], case: str, today: date) -> ExpectedFailure | None:
    """The first entry that excuses a failure of this case today."""
    return next((entry for entry in failures if entry.excuses(case, today)), None)
