"""Problems of a session of ReFrame's that are no verdict on a case."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from iowatch.base.text import counted
from iowatch.cases.case import shown
from iowatch.past.history import reason, runs_of
from iowatch.past.reframe_database import tests_of


def faults(session: Mapping[str, Any]) -> list[str]:
    """Problems of a session whatever it was asked for, besides the verdicts on its cases."""
    return [*itertools.starmap(told, failed_tests(session).items()), *lost_tests(session)]


def failed_tests(session: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Tests that have failed and have no case, by the reason: a fixture, or a check before it had
    one."""
    failed = dict[str, list[Mapping[str, Any]]]()
    for test in tests_of(session):
        if not test.get("case_id") and test["result"] in ("fail", "xpass"):
            failed.setdefault(reason(test), []).append(test)
    return failed


def lost_tests(session: Mapping[str, Any]) -> list[str]:
    """But what was not measured for a reason that is known, where ReFrame has counted it."""
    run = session["runs"][-1]
    lost = run.get("num_skipped", 0) + run.get("num_aborted", 0)
    lost -= sum(
        run.outcome.is_untried and run.result in ("skip", "abort") for run in runs_of(session)
    )
    # A fixture that they rest on has failed, and is a problem itself.
    lost -= sum(test["result"] == "fail_deps" for test in tests_of(session))
    return [f"{counted(lost, 'check', 'were')} skipped or aborted"] if lost else []


def told(why: str, tests: Iterable[Mapping[str, Any]]) -> str:
    return f"{shown(test['display_name'] for test in tests)}: {why}"
