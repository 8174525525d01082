"""The gate: a night's verdicts, and everything by which a check could have passed quietly."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.expected import EXCUSABLE
from iowatch.figures import figure_names
from iowatch.past.history import UNFINISHED
from iowatch.verdict import INVALID, NO_BASELINE, RED

VERSIONS = "LibraryVersions"  # the check that has no case
SHOWN = 12  # cases that a sentence names at most

#: ReFrame's results of a test that has looked at what it was asked to look at.
FINISHED = ("pass", "fail", "xfail")


@dataclass(frozen=True)
class Row:
    """The verdict on one case."""

    case: Case
    kind: str
    sentence: str
    red: bool
    figures: dict[str, float]
    known: bool = False  # a failure that the site expects


@dataclass
class Night:
    """All verdicts, and what is wrong with the night as a whole."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # to be known, but not wrong
    merged: frozenset[Case] = frozenset()  # a note says it for all of these
    signal: int = 0  # that ended the night early
    page: Path | None = None  # its report

    @property
    def red_rows(self) -> list[Row]:
        return [row for row in self.rows if row.red]

    @property
    def is_red(self) -> bool:
        return bool(self.problems or self.red_rows)

    def add(self, part: Night) -> None:
        """Take in the verdicts of another session."""
        self.rows += part.rows
        self.problems += part.problems
        self.notes += part.notes


def gate(
    expected: set[Case],
    session: dict[str, Any] | None,
    versions: bool = True,
    profiles: Collection[Case] = (),
) -> Night:
    """Judge ReFrame's report of a session (None: it wrote none) against the expected cases.

    With `versions` the libraries must have been asked for theirs wherever a case is expected.
    `profiles` are the access patterns that must have been looked at.
    """
    run = session["runs"][-1] if session else {"testcases": []}
    night = Night(problems=_failed(run))
    for test in run["testcases"]:
        if test.get("case_id"):
            if test["result"] not in UNFINISHED:
                night.rows.append(_row(test))
        elif test["result"] == "xfail":
            place = f"{test['partition']}+{test['environ']}"
            night.notes.append(f"{test['display_name']} on {place} fails as expected")
    night.rows.sort(key=lambda row: _order(row.case))

    if not expected and not profiles:
        night.problems.append("the site's configuration asks for no case: nothing was measured")
    measured = {row.case for row in night.rows}
    for cases, what in ((expected - measured, "not run"), (measured - expected, "unexpected")):
        if cases:
            shown = _shown(map(str, cases))
            night.problems.append(f"{len(cases)} of {len(expected)} cases {what}: {shown}")
    profiled = {test.get("profile") for test in run["testcases"] if test["result"] in FINISHED}
    if unseen := {str(case) for case in profiles} - profiled:
        night.problems.append(
            f"{len(unseen)} of {len(profiles)} access patterns not looked at: {_shown(unseen)}"
        )
    if versions and (unknown := _places(expected) - _seen(run["testcases"])):
        night.problems.append(f"{VERSIONS} did not run on {', '.join(sorted(unknown))}")
    if len(night.rows) > len(measured):
        night.problems.append("a case ran more than once")
    night.problems += _lost(run)
    return night


def faults(session: Mapping[str, Any]) -> list[str]:
    """What is wrong with a session whatever it was asked for, besides the verdicts on its cases."""
    run = session["runs"][-1]
    return [*_failed(run), *_lost(run)]


def _failed(run: Mapping[str, Any]) -> list[str]:
    """Of tests that have no case: a fixture, or a check before it had one."""
    return [
        f"{test['display_name']}: {_reason(test)}"
        for test in run["testcases"]
        if not test.get("case_id") and test["result"] in ("fail", "xpass")
    ]


def _lost(run: Mapping[str, Any]) -> list[str]:
    lost = run.get("num_skipped", 0) + run.get("num_aborted", 0)
    return [f"{lost} check(s) skipped or aborted"] if lost else []


def _shown(cases: Iterable[str]) -> str:
    """The first of these cases, by name."""
    names = sorted(cases)
    return ", ".join(names[:SHOWN] + ["..."] * (len(names) > SHOWN))


def _places(cases: set[Case]) -> set[str]:
    return {f"{case.partition}+{case.environ}" for case in cases}


def _seen(tests: list[dict[str, Any]]) -> set[str]:
    """Where the libraries said which versions they are."""
    return {
        f"{test['partition']}+{test['environ']}"
        for test in tests
        if test["name"] == VERSIONS and test["result"] in FINISHED
    }


def _order(case: Case) -> tuple[Any, ...]:
    """A backend next to its control, and small before large."""
    check = (
        case.operation != "write",
        case.files,
        case.instances or 0,
        case.each_ost,
        case.ior_peer,
    )
    stripes = (case.stripe_count or 0, case.stripe_size or 0)
    return (
        case.partition,
        case.environ,
        *check,
        case.local_size,
        case.writers,
        *stripes,
        str(case),
    )


def _row(test: dict[str, Any]) -> Row:
    """The row of a test that has a case: green only if ReFrame, figures and verdict all say so."""
    case = Case.parse(test["case_id"])
    values = {key.rsplit(":", 1)[-1]: entry[0] for key, entry in test["perfvalues"].items()}
    figures = {name: value for name, value in values.items() if _is_finite(value)}
    result, verdict, sentence = test["result"], test["verdict"], test["sentence"]

    def invalid(why: str) -> Row:
        return Row(case, INVALID, f"{case}: {why}", True, figures)

    if result == "fail" and verdict in RED | {NO_BASELINE}:
        return Row(case, verdict, sentence or f"{case}: {_reason(test)}", True, figures)
    if result not in ("pass", "xfail"):
        return invalid(_reason(test))
    if missing := [name for name in figure_names(case) if name not in figures]:
        return invalid(f"no figure for {', '.join(missing)}")
    if not verdict:
        return invalid("measured but not judged")
    if result == "xfail" and verdict not in EXCUSABLE:
        return invalid(f"its failure was expected, and its verdict is {verdict}")
    if result == "pass" and verdict in RED:
        return invalid(f"passed with a red verdict, {verdict}")
    return Row(case, verdict, sentence, False, figures, known=result == "xfail")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _reason(test: dict[str, Any]) -> str:
    """One line on why a test did not pass."""
    if test["result"] == "xpass":
        return "passed, and ReFrame expects it to fail"
    return " ".join((test.get("fail_reason") or test["result"]).split())
