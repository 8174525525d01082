"""Reference values of a site about its cases.

docs/howto/references.md shows the files. A reference file has a section for each check that a site
or a published table bounds, and a general one for any machine. The section `retired` says why
blessed cases are not in the nightly suite any more. Keys are regular expressions for whole case
ids; the first that matches counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import attrs

from iowatch.base.bounded import quoted
from iowatch.base.files import UserError
from iowatch.base.records import TEXT, Record, key, number, optional, pattern_of_cases
from iowatch.base.text import brief
from iowatch.base.yaml_text import load
from iowatch.cases.case import Case
from iowatch.cases.metric import Metric, Reference
from iowatch.cases.parameters import BACKENDS, COMPRESSED, PATTERN
from iowatch.measure.checks import CHECKS, METRICS
from iowatch.site.declared import _made_up
from iowatch.site.formerly import former_names

#: The section of bounds that hold on any machine.
GENERAL = "general"
#: The section that has no bounds, but says why cases are not measured any more.
RETIRED = "retired"


class ReferenceFile:
    """The reference values of a system."""

    def __init__(self, path: Path) -> None:
        """Read the file; UserError."""
        self.name = f"{path.parent.name}/{path.name}"
        self._path = path
        try:
            sections = load(path)
        except FileNotFoundError:
            raise self._bad(
                f"there is no such file: write the line `{GENERAL}: {{}}` into it to begin with"
            ) from None
        if not isinstance(sections, dict):
            fault = "is empty" if sections is None else "has no sections"
            raise self._bad(f"it {fault}: write it as `iowatch docs howto/references` says")
        retired = self._entries(RETIRED, sections.pop(RETIRED, None))
        for cases, why in retired.items():
            if not (isinstance(why, str) and why.strip()):
                raise self._bad(f"{RETIRED}: {cases.pattern} is {quoted(why)}, not a text")
            if any(cases.fullmatch(made_up) for made_up in _made_up(path.stem)):
                raise self._bad(
                    f"{RETIRED}: {cases.pattern} names no part of a case but the system"
                )
        self.retired: Mapping[re.Pattern[str], str] = retired
        if unknown := [name for name in sections if name not in (GENERAL, *CHECKS)]:
            raise self._bad(f"section {unknown[0]} is of no check, so it would bound nothing")
        self._sections: dict[str, Mapping[re.Pattern[str], Any]] = {}
        for name, entries in sections.items():
            self._sections[name] = self._entries(name, entries)

    def bounds_of(self, case: Case) -> dict[str, Reference]:
        """The references of a case: those of the first key that matches, in the check's section and
        then in the general one; empty if none does. A bound that also stands in the general section
        is general. UserError."""
        general = self._entry(GENERAL, case)
        chosen = self._entry(case.check.name, case) or general
        if not (chosen and case.metrics):
            return {}
        where, entries = chosen
        try:
            references = read_references(case, entries)
        except UserError as err:
            raise self._bad(f"{where}: {err}") from None
        shipped = general[1] if general and isinstance(general[1], Mapping) else {}
        return {
            name: replace(entry, is_general=shipped.get(name) == entries[name])
            for name, entry in references.items()
        }

    def _entry(self, section: str, case: Case) -> tuple[str, Any] | None:
        """The entry of a case in a section, and where it stands; None if there is none."""
        names = former_names().ids(str(case))
        for cases, entries in self._sections.get(section, {}).items():
            if any(map(cases.fullmatch, names)):
                return f"{section}, {cases.pattern}", entries
        return None

    def idle(self, cases: Collection[Case]) -> list[str]:
        """The keys that match none of these cases, whatever their backend, compressed or not.

        Sections of checks that have none of the cases are left out. A general key may be of any
        check.
        """
        idle = []
        for name, section in self._sections.items():
            of_any = {
                _of_any_backend(text.replace(f"/{case.check.name}", f"/{check}", 1))
                for case in cases
                for text in former_names().ids(str(case))
                for check in ([name] if name != GENERAL else CHECKS)
                if name in (case.check.name, GENERAL)
            }
            texts = [text.format(backend) for text in of_any for backend in BACKENDS]
            texts += [f"{text}/{PATTERN.name}={COMPRESSED}=1" for text in texts]
            keys = section if texts else ()
            idle += [k.pattern for k in keys if not any(k.fullmatch(text) for text in texts)]
        return idle

    def _entries(self, name: str, entries: Any) -> dict[re.Pattern[str], Any]:
        if not isinstance(entries, dict | None):
            raise self._bad(f"section {name} has no case ids with their entries in it")
        return {self._pattern(cases): entry for cases, entry in (entries or {}).items()}

    def _pattern(self, cases: Any) -> re.Pattern[str]:
        try:
            return pattern_of_cases(cases)
        except ValueError as err:
            raise self._bad(
                f"{quoted(cases)} is no regular expression for case ids: {err}"
            ) from None

    def _bad(self, why: str) -> UserError:
        return UserError(f"{self._path} cannot be used as reference values: {why}")


def _of_any_backend(case: str) -> str:
    return re.sub(r"(/backend=)\w+", r"\1{}", case)


_FORM = ("value", "lower", "upper", "unit")


@attrs.frozen(kw_only=True)
class ReferenceEntry(Record):
    """[value, lower threshold, upper threshold, unit] of a metric."""

    value: float = key(
        number("a number of 0 or more", 0), "The reference value, in the metric's unit."
    )
    lower: float | None = key(
        optional(number("a number")),
        "How far the metric may be below, as a part of the value such as -0.25; where the value is "
        "0, the bound itself.",
    )
    upper: float | None = key(
        optional(number("a number of 0 or more", 0)), "The same for the side above the value."
    )
    unit: str = key(TEXT, "The metric's unit.", default="")

    def contradiction(self) -> str:
        if self.lower is None and self.upper is None:
            return "it has no bound: give it a threshold"
        if self.value and self.lower is not None and not -1 <= self.lower <= 0:
            return f"lower is {self.lower:g}, not a part of the value from -1 to 0"
        return ""


def read_references(case: Case, entries: Any) -> dict[str, Reference]:
    """The references of a case: those of the first key that matches, in the check's section or else
    in the general one.

    UserError if one is of no metric of the case, has a wrong threshold or unit, or could never
    fail.
    """
    if not isinstance(entries, Mapping):
        raise UserError(f"{case}: is {quoted(entries)}, not a mapping of metrics with their bounds")
    references = {}
    for name, entry in entries.items():
        if name not in case.metrics:
            raise UserError(f"{name}: {case} has no such metric")
        is_form = isinstance(entry, list) and len(entry) in (3, 4)
        # ReFrame's form of an expected failure is a tuple in Python, and has $xfail here.
        if not is_form or str(entry[0]).startswith("$"):
            raise UserError(
                f"{name}: write [value, lower threshold, upper threshold, unit]; a failure that is "
                "expected belongs in expected_failures/"
            )
        bound = ReferenceEntry.read(name, dict(zip(_FORM, entry, strict=False)))
        unit = METRICS[name].unit
        if bound.unit not in ("", unit):
            raise UserError(f"{name}: unit is {bound.unit!r}, not {unit}")
        references[name] = Reference(bound.value, bound.lower, bound.upper)
        if why := _never_fails(METRICS[name], references[name]):
            raise UserError(f"{name}: {entry} can never fail: {why}")
    return references


def _never_fails(metric: Metric, reference: Reference) -> str:
    """Say why no run could be worse than this reference; empty if one could."""
    for end in (reference.value, reference.lower, reference.upper):
        if end is not None and not 0 <= end <= metric.largest:
            reach = "0 or more" if metric.largest == math.inf else f"0 to {metric.largest:g}"
            return f"it comes to {brief(end)}, and the metric is a number of {reach}"
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


# Expected failures


# Maintenance
