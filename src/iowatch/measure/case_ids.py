"""The text of a case: read, found among others, and put in the order of tables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from iowatch.base.files import UserError
from iowatch.cases.case import Case
from iowatch.measure.checks import CHECKS

_RANK = {name: number for number, name in enumerate(CHECKS)}
_NAME = r"[A-Za-z0-9_.-]+"
_VALUE = r"[A-Za-z0-9_.:=-]+"  # not `,` and `+`: raw_results has them in the names of folders
_CASE = re.compile(
    rf"(?P<system>{_NAME}):(?P<partition>{_NAME})/(?P<environ>{_NAME})/(?P<check>\w+)"
    rf"(?P<parameters>(?:/\w+={_VALUE})*)",
    re.ASCII,
)
_NAMED = 5  # cases that an error names at most


def parse_case(text: str) -> Case:
    """The case with this string form; ValueError if it is not one."""
    match = _CASE.fullmatch(text)
    if not match:
        raise ValueError(f"not a case: {text!r}")
    check = CHECKS.get(match["check"])
    if check is None:
        raise ValueError(f"not a case: {text!r}: there is no check {match['check']}")
    given = dict(pair.split("=", 1) for pair in match["parameters"].split("/")[1:])
    parameters = check.parameters_with(given)
    if missing := [p.name for p in parameters if p.name not in given]:
        raise ValueError(f"not a case: {text!r}: it has no {missing[0]}")
    parameters += [way for way in check.ways if way.name in given]
    values = []
    for p in parameters:
        try:
            values.append((p.name, p.parse(given[p.name])))
        except ValueError as err:
            raise ValueError(f"not a case: {text!r}: {p.name} {err}") from None
    usual = {way.name: way.default for way in check.ways}
    chosen = tuple(pair for pair in values if pair not in usual.items())
    case = Case(match["system"], match["partition"], match["environ"], check, chosen)
    if str(case) != text:
        raise ValueError(f"not a case: {text!r}: its form is {case}")
    return case


def table_order(case: Case) -> tuple[Any, ...]:
    """Sort a backend next to its control, and small before large."""
    layout = (case.layout or "", case.pool or "")
    stripes = (case.stripe_count or 0, case.stripe_size or 0)
    load = (case.files, case.instances or 0)
    size = (case.local_size, case.items, case.ranks)
    return (
        case.partition,
        case.environ,
        _RANK[case.check.name],
        *load,
        *size,
        *layout,
        *stripes,
        str(case),
    )


@cache  # the same few hundred every night
def known_case(text: str) -> Case | None:
    """The case with this string form; None if it is not one."""
    try:
        return parse_case(text)
    except ValueError:
        return None


def find_case(text: str, cases: Collection[Case], names: Mapping[Case, str]) -> Case:
    """The one of these cases that has this id, or this name, or this in either. UserError."""
    exact = [case for case in cases if text in (str(case), names.get(case))]
    within = exact or [case for case in cases if text in str(case) or text in names.get(case, "")]
    if len(within) == 1:
        return within[0]
    every = [*map(str, cases), *(names[case] for case in cases if case in names)]
    meant = difflib.get_close_matches(text, every, _NAMED, 0.4)
    hint = f" (is one of these meant: {'; '.join(meant)}?)" if meant else ""
    matches = f"no case has it in its id or name{hint}"
    if within:
        few = sorted(map(str, within))[:_NAMED] + ["..."] * (len(within) > _NAMED)
        matches = f"{len(within)} cases have it in their ids or names, {', '.join(few)}"
    raise UserError(f"{text}: {matches}: `iowatch history` lists what is on record")
