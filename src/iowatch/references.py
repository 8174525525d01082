"""What a site expects of its cases: reference_values/<system>.yaml, failures until a date, and
when its filesystems are not there.

A reference file has a section for each check that a site or a published table bounds, and a general
one of what holds on any machine. Their keys are regular expressions for whole case ids; the first
that matches counts:

    general:
      archer:.*/backend=hdf5/.*: {ratio: [0.9, -0.5, null, '1']}
    SharedFileWrite:
      archer:fs3/.*/backend=hdf5/.*: {total_max: [4200, -0.3, null, MiB/s]}

Its section `retired` says why blessed cases are not in the nightly suite any more:

    retired:
      archer:fs2/.*: fs2 was switched off in May, ticket 4712

reference_values/expected_failures/<system>.yaml has the failures that a site expects:

    - case: archer:fs[23]/.*/backend=hdf5/.*
      until: 2027-01-31
      why: HDF5 1.8.14 closes slowly on Lustre
      owner: jane
      ticket: OPS-4711

reference_values/maintenance/<system>.yaml has what was announced:

    - from: 2027-01-12 08:00:00 +00:00
      until: 2027-01-12 18:00:00 +00:00
      filesystems: [fs2, fs3]
      why: Lustre 2.15.6 on the servers
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.checks import (
    BACKENDS,
    CHECKS,
    COMPRESSED,
    LAYOUT,
    METRICS,
    PATTERN,
    POOL,
    STRIPE_COUNT,
    Metric,
)
from iowatch.files import UserError, brief
from iowatch.yaml_text import BadYaml, load_yaml, text_of


class BadReference(UserError):
    """A reference value, an expected failure or a maintenance has no meaning; the message says
    which and why."""


@dataclass(frozen=True)
class Reference:
    """A reference value with its thresholds: fractions of it, or absolute where it is 0."""

    value: float
    lower_threshold: float | None  # <= 0
    upper_threshold: float | None  # >= 0
    #: It knows neither the machine nor the size of the case: nothing is red by it alone.
    is_general: bool = False

    @property
    def is_absolute(self) -> bool:
        return self.value == 0

    @property
    def lower(self) -> float | None:
        return self._bound(self.lower_threshold)

    @property
    def upper(self) -> float | None:
        return self._bound(self.upper_threshold)

    def _bound(self, threshold: float | None) -> float | None:
        if threshold is None:
            return None
        return threshold if self.is_absolute else self.value * (1 + threshold)


#: No number of any use is larger, and some integers of YAML are.
LARGEST = 1e300

#: For which a failure may be expected.
YEAR = timedelta(days=366)

#: The section of what holds on any machine.
GENERAL = "general"
#: The section that has no bounds, but says why cases are not measured any more.
RETIRED = "retired"


class ReferenceFile:
    """The reference values of a system."""

    def __init__(self, path: Path) -> None:
        """Reads them; BadReference."""
        self.name = f"{path.parent.name}/{path.name}"
        self._path = path
        try:
            sections = load_yaml(text_of(path))
        except FileNotFoundError:
            raise self._bad(
                f"there is no such file: write the line `{GENERAL}: {{}}` into it to begin with"
            ) from None
        except BadYaml as err:
            raise self._bad(str(err)) from None
        if not isinstance(sections, dict):
            what = "is empty" if sections is None else "has no sections"
            raise self._bad(f"it {what}: write it as reference_values/README.md says")
        retired = self._entries(RETIRED, sections.pop(RETIRED, None))
        for key, why in retired.items():
            if not (isinstance(why, str) and why.strip()):
                raise self._bad(f"{RETIRED}, {key.pattern} is {why!r}: name the cause, or a ticket")
            if any(key.fullmatch(made_up) for made_up in _made_up(path.stem)):
                raise self._bad(f"{RETIRED}, {key.pattern} names no part of a case but the system")
        self.retired: Mapping[re.Pattern[str], str] = retired
        if unknown := [name for name in sections if name not in (GENERAL, *CHECKS)]:
            raise self._bad(f"section {unknown[0]} is of no check, so it would bound nothing")
        self._sections: dict[str, Mapping[re.Pattern[str], Any]] = {}
        for name, entries in sections.items():
            self._sections[name] = self._entries(name, entries)

    def of(self, case: Case) -> dict[str, Reference]:
        """The references of a case: those of the first key that matches, in its check's section and
        then in the general one; none if none does. What the general section says of the case is
        general wherever it stands. BadReference."""
        own, general = self._entry(case.check.name, case), self._entry(GENERAL, case)
        chosen = own or general
        if not (chosen and case.metrics):
            return {}
        where, entries = chosen
        try:
            references = read_references(case, entries)
        except BadReference as err:
            raise self._bad(f"{where}: {err}") from None
        shipped = general[1] if general and isinstance(general[1], Mapping) else {}
        return {
            name: replace(entry, is_general=shipped.get(name) == entries[name])
            for name, entry in references.items()
        }

    def _entry(self, section: str, case: Case) -> tuple[str, Any] | None:
        """What a section says of a case, and where that stands."""
        for key, entries in self._sections.get(section, {}).items():
            if key.fullmatch(str(case)):
                return f"{section}, {key.pattern}", entries
        return None

    def idle(self, cases: Collection[Case]) -> list[str]:
        """The keys that match none of these cases, whatever their backend, compressed or not; a
        section of a check that has none of them is left out. A general key may be of any check."""
        found = []
        for name, section in self._sections.items():
            of_any = {
                _of_any_backend(f"{case}".replace(f"/{case.check.name}", f"/{check}", 1))
                for case in cases
                for check in ([name] if name != GENERAL else CHECKS)
                if name in (case.check.name, GENERAL)
            }
            texts = [text.format(backend) for text in of_any for backend in BACKENDS]
            texts += [f"{text}/{PATTERN.name}={COMPRESSED}=1" for text in texts]
            keys = section if texts else ()
            found += [k.pattern for k in keys if not any(k.fullmatch(text) for text in texts)]
        return found

    def _entries(self, name: str, entries: Any) -> dict[re.Pattern[str], Any]:
        if not isinstance(entries, dict | None):
            raise self._bad(f"section {name} has no case ids with their entries in it")
        return {self._key(key): entry for key, entry in (entries or {}).items()}

    def _key(self, key: Any) -> re.Pattern[str]:
        try:
            return re.compile(key)
        except (re.error, TypeError) as err:
            raise self._bad(f"{key!r} is no regular expression for case ids: {err}") from None

    def _bad(self, why: str) -> BadReference:
        return BadReference(f"{self._path} cannot be used as reference values: {why}")


def _of_any_backend(case: str) -> str:
    return re.sub(r"(/backend=)\w+", r"\1{}", case)


def read_references(case: Case, entries: Any) -> dict[str, Reference]:
    """The references of a case, from {metric: [value, lower, upper, unit]}.

    BadReference if one is of no metric of the case, or has a wrong threshold or unit, or bounds
    nothing that the metric could come to: such a reference would never fail.
    """
    if not isinstance(entries, Mapping):
        raise BadReference(f"{case}: {entries!r} stands where metrics with their bounds should")
    references = {}
    for name, entry in entries.items():
        if name not in case.metrics:
            raise BadReference(f"{name}: {case} has no such metric")
        is_form = isinstance(entry, list) and len(entry) in (3, 4)
        # ReFrame's own form of an expected failure is a tuple in Python, and has $xfail here.
        if not is_form or str(entry[0]).startswith("$"):
            raise BadReference(
                f"{name}: write [value, lower threshold, upper threshold, unit]; a failure that is "
                "expected belongs in expected_failures/"
            )
        value, lower, upper, *unit = entry
        if unit not in ([], [METRICS[name].unit]):
            raise BadReference(f"{name}: its unit is {METRICS[name].unit!r}, not {unit[0]!r}")
        if not _is_number(value) or value < 0:
            raise BadReference(f"{name}: {value!r} is no reference value: write a number")
        if lower is None and upper is None:
            raise BadReference(f"{name}: it has no bound: give it a threshold")
        if lower is not None and not (_is_number(lower) and (-1 <= lower <= 0 or value == 0)):
            raise BadReference(f"{name}: {lower!r} is no lower threshold between -1 and 0")
        if upper is not None and not (_is_number(upper) and upper >= 0):
            raise BadReference(f"{name}: {upper!r} is no upper threshold of 0 or more")
        references[name] = Reference(value, lower, upper)
        if why := _never_fails(METRICS[name], references[name]):
            raise BadReference(f"{name}: {entry} can never fail: {why}")
    return references


def _never_fails(metric: Metric, reference: Reference) -> str:
    """Why no run could be worse than this reference; empty if one could."""
    for number in (reference.value, reference.lower, reference.upper):
        if number is not None and not 0 <= number <= metric.largest:
            reach = "0 or more" if metric.largest == math.inf else f"0 to {metric.largest:g}"
            return f"it comes to {brief(number)}, and the metric is a number of {reach}"
    side, bound, worst = (
        ("upper", reference.upper, metric.largest)
        if metric.lower_is_better
        else ("lower", reference.lower, 0)
    )
    if bound is None:
        worse = "higher" if side == "upper" else "lower"
        return f"the metric is worse when it is {worse}, and there is no {side} threshold"
    if bound == worst:
        return f"its {side} bound is {bound:g}, and the metric never goes beyond that"
    return ""


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(abs(value) <= LARGEST)  # nor nan


# Expected failures


@dataclass(frozen=True)
class ExpectedFailure:
    """Cases that may fail until a day, that day included."""

    case: re.Pattern[str]  # matches the whole case id
    until: date
    why: str
    owner: str = ""  # who looks after it
    ticket: str = ""

    def excuses(self, case: str, today: date) -> bool:
        return today <= self.until and bool(self.case.fullmatch(case))

    def excess(self, system: str, today: date) -> str:
        """What it still excuses beyond a year and the cases that it names; empty if nothing."""
        if today > self.until:
            return ""
        too_much = []
        if self.until > today + YEAR:
            too_much.append(f"until {self.until}, more than a year ahead")
        if any(self.case.fullmatch(made_up) for made_up in _made_up(system)):
            too_much.append("cases that it does not name")
        return " and ".join(too_much)

    def __str__(self) -> str:
        owner = f", {self.owner}" if self.owner else ""
        ticket = f", ticket {self.ticket}" if self.ticket else ""
        return f"expected until {self.until}{owner}{ticket}: {self.why}"


def _made_up(system: str) -> Iterator[str]:
    """Case ids whose parts no site has: what matches one of them names no part of a case."""
    for check in CHECKS.values():
        for given in ((), (LAYOUT.name,), (STRIPE_COUNT.name,), (STRIPE_COUNT.name, POOL.name)):
            names = [parameter.name for parameter in check.parameters_with(given)]
            yield "/".join([f"{system}:0/0/0", *(f"{name}=0" for name in names)])


def expected_path(system: str, folder: Path) -> Path:
    return folder / "expected_failures" / f"{system}.yaml"


def read_expected(system: str, folder: Path) -> list[ExpectedFailure]:
    """The failures that are expected of a system; none without a file. BadReference."""
    file = expected_path(system, folder)
    return expected_in(file, text_in(file))


def expected_in(file: Path, text: str) -> list[ExpectedFailure]:
    """The same with this text in the file. BadReference."""
    entries = entries_in(file, text, ("case", "until", "why"), ("owner", "ticket"))
    return [_expected(*entry) for entry in entries]


def text_in(file: Path) -> str:
    """Read a file, which is empty if there is none; BadReference."""
    try:
        return text_of(file)
    except FileNotFoundError:
        return ""
    except BadYaml as err:
        raise BadReference(f"{file}: {err}") from None


def entries_in(
    file: Path, text: str, keys: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of the list that is this text of a file, each with where it stands and with
    exactly these keys, the last of which is a text, and some of the optional ones, which are texts.
    BadReference."""
    try:
        entries = load_yaml(text) or []
    except BadYaml as err:
        raise BadReference(f"{file}: {err}") from None
    named = f"{', '.join(keys[:-1])} and {keys[-1]}"
    if not isinstance(entries, list):
        raise BadReference(f"{file}: write a list of entries, each with {named}")
    for number, entry in enumerate(entries, start=1):
        where = f"{file}, entry {number}"
        if not isinstance(entry, dict) or {*entry} - {*optional} != {*keys}:
            besides = f" but {' or '.join(optional)}" if optional else ""
            raise BadReference(f"{where}: an entry has {named}, and nothing else{besides}")
        why = entry[keys[-1]]
        if not (isinstance(why, str) and why.strip()):
            raise BadReference(f"{where}: {keys[-1]} is {why!r}: name the cause, or its ticket")
        for key in {*optional} & {*entry}:
            if not (isinstance(entry[key], str) and entry[key].strip()):
                raise BadReference(f"{where}: {key} is {entry[key]!r}: write a text, or remove it")
        yield where, entry


def _expected(where: str, entry: Mapping[str, Any]) -> ExpectedFailure:
    case, until, why = entry["case"], entry["until"], entry["why"]
    if type(until) is not date:
        raise BadReference(f"{where}: until is {until!r}: write a day such as 2027-01-31")
    try:
        owner, ticket = entry.get("owner", ""), entry.get("ticket", "")
        return ExpectedFailure(re.compile(case), until, why, owner, ticket)
    except (re.error, TypeError) as err:
        raise BadReference(
            f"{where}: case is {case!r}, which is no regular expression for case ids: {err}"
        ) from None


def excuse(failures: Iterable[ExpectedFailure], case: str, today: date) -> ExpectedFailure | None:
    """The first entry that excuses a failure of this case today."""
    return next((entry for entry in failures if entry.excuses(case, today)), None)


# Maintenance


@dataclass(frozen=True)
class Maintenance:
    """A time in which some filesystems are not to be measured, as the site has announced."""

    begins: datetime
    ends: datetime
    filesystems: tuple[str, ...]  # by their names in the site's configuration
    why: str

    def covers(self, filesystem: str, first: datetime, last: datetime) -> bool:
        """Some of the time from the first to the last."""
        return filesystem in self.filesystems and self.begins <= last and first < self.ends

    def __str__(self) -> str:
        first, last = (
            f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" for time in (self.begins, self.ends)
        )
        return f"maintenance from {first} to {last} UTC: {self.why}"


def maintenance_path(system: str, folder: Path) -> Path:
    return folder / "maintenance" / f"{system}.yaml"


def read_maintenance(system: str, folder: Path) -> list[Maintenance]:
    """What a system has announced, past and to come; nothing without a file. BadReference."""
    file = maintenance_path(system, folder)
    keys = ("from", "until", "filesystems", "why")
    return [_maintenance(*entry) for entry in entries_in(file, text_in(file), keys)]


def _maintenance(where: str, entry: Mapping[str, Any]) -> Maintenance:
    begins, ends = (_instant(f"{where}: {key}", entry[key]) for key in ("from", "until"))
    if begins >= ends:
        raise BadReference(f"{where}: it ends at {ends}, and begins only at {begins}")
    names = entry["filesystems"]
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise BadReference(
            f"{where}: filesystems is {names!r}: list their names in the site's configuration, "
            "such as [fs2, fs3]"
        )
    return Maintenance(begins, ends, tuple(names), entry["why"])


def _instant(where: str, value: Any) -> datetime:
    """A time, which must have its zone: the login node's may be another than the reader's."""
    if isinstance(value, str):  # as people write it, without seconds, it is no time to YAML
        with suppress(ValueError):
            value = datetime.fromisoformat(re.sub(r" *([+-]\d\d:?\d\d|Z)$", r"\1", value.strip()))
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise BadReference(
            f"{where} is {str(value)!r}: write a time with its zone, such as "
            "2027-01-12 08:00 +01:00, or with Z for UTC"
        )
    return value
