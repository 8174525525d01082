"""One night: run every check of a system and make sure that nothing passed quietly."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.figures import figure_names
from iowatch.site import read_filesystem
from iowatch.verdict import INVALID

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "reframe_checks"
VERSIONS = "LibraryVersions"  # the check that has no case
SHOWN = 12  # cases that a sentence names at most


class UsageError(Exception):
    """The night cannot begin; the message says what to mend."""


@dataclass(frozen=True)
class Row:
    """The verdict on one case."""

    case: Case
    kind: str
    sentence: str
    red: bool
    figures: dict[str, float]


@dataclass
class Night:
    """All verdicts, and what is wrong with the night as a whole."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def red_rows(self) -> list[Row]:
        return [row for row in self.rows if row.red]

    @property
    def is_red(self) -> bool:
        return bool(self.problems or self.red_rows)


def run(system: str, sweep: str, names: Sequence[str], record: bool) -> Night:
    """Run the checks of one sweep of `system` whose names match.

    SiteConfigError, UsageError before they start. ReFrame's output goes through. A filter that
    leaves cases out leaves the night incomplete: red.
    """
    if not CHECKS.is_dir():
        raise UsageError(f"{CHECKS} is missing: install iowatch from its checkout, with pip -e")
    expected = expected_cases(system, sweep)
    with tempfile.TemporaryDirectory(prefix="iowatch.") as folder:
        report = Path(folder, "report.json")  # a fresh one: ReFrame writes none if nothing ran
        command = ["reframe", "-c", str(CHECKS), "-r", "--system", system]
        command += ["--report-file", str(report), *(f"--name={name}" for name in names)]
        command += [f"--setvar=sweep={sweep}", *(["--mode=record"] if record else [])]
        status = subprocess.run(command).returncode
        session = json.loads(report.read_text("utf-8")) if report.exists() else None
    night = gate(expected, session)
    if session and not _is_stored(system, session["session_info"]["uuid"]):
        night.problems.append("the session is not in ReFrame's results database")
    if status != 0 and not night.is_red:
        night.problems.append(f"reframe ended with exit code {status}")
    return night


def expected_cases(system: str, sweep: str) -> set[Case]:
    """Every case that a sweep of `system` asks for."""
    config = json.loads(_reframe("--system", system, "--show-config=systems"))[0]
    sources = os.environ.get("RFM_CONFIG_FILES", "ReFrame's configuration").split(":")
    cases: set[Case] = set()
    for partition in config["partitions"]:
        extras = partition.get("extras", {})
        environs = partition.get("environs", [])
        filesystem = read_filesystem(config["name"], partition["name"], environs, extras, sources)
        cases |= filesystem.cases(sweep)
    return cases


def results_database() -> Path:
    """The results database of ReFrame's configuration."""
    path: str = json.loads(_reframe("--show-config=storage/0/sqlite_db_file"))
    return Path(os.path.expandvars(path))


def _reframe(*options: str) -> str:
    """What ReFrame prints for these options; UsageError in one line if it can't."""
    try:
        done = subprocess.run(
            ["reframe", "--nocolor", *options], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise UsageError("no reframe on PATH: run `make setup` and `source env.sh`") from None
    except subprocess.CalledProcessError as err:
        lines = [line.strip() for line in (err.stdout + err.stderr).splitlines() if line.strip()]
        # A configuration that is no Python makes ReFrame print a traceback, the place near its end.
        place = [line for line in lines if line.startswith("File ")][-1:]
        error = [line for line in lines if "rror: " in line][-1:] or lines[-1:]
        raise UsageError(f"reframe {' '.join(options)}: {': '.join(place + error)}") from None
    return done.stdout


def gate(expected: set[Case], session: dict[str, Any] | None) -> Night:
    """Judge ReFrame's report of the session (None: it wrote none) against the expected cases."""
    night = Night()
    run = session["runs"][-1] if session else {"testcases": []}
    for test in run["testcases"]:
        if test.get("case_id"):
            night.rows.append(_row(test))
        elif test["result"] == "fail":  # a fixture, or a check before it had a case
            night.problems.append(f"{test['display_name']}: {_reason(test)}")
    night.rows.sort(key=lambda row: _order(row.case))

    if not expected:
        night.problems.append("the site's configuration asks for no case: nothing was measured")
    measured = {row.case for row in night.rows}
    for cases, what in ((expected - measured, "not run"), (measured - expected, "unexpected")):
        if cases:
            names = [str(case) for case in sorted(cases, key=str)]
            shown = ", ".join(names[:SHOWN] + ["..."] * (len(names) > SHOWN))
            night.problems.append(f"{len(cases)} of {len(expected)} cases {what}: {shown}")
    places = {(case.partition, case.environ) for case in expected}
    seen = {(t["partition"], t["environ"]) for t in run["testcases"] if t["name"] == VERSIONS}
    if unseen := [f"{partition}+{environ}" for partition, environ in sorted(places - seen)]:
        night.problems.append(f"{VERSIONS} did not run on {', '.join(unseen)}")
    if len(night.rows) > len(measured):
        night.problems.append("a case ran more than once")
    if lost := run.get("num_skipped", 0) + run.get("num_aborted", 0):
        night.problems.append(f"{lost} check(s) skipped or aborted")
    return night


def _order(case: Case) -> tuple[Any, ...]:
    """A backend next to its control, and small before large."""
    check = (case.operation != "write", case.files, case.instances or 0, case.each_ost)
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
    case = Case.parse(test["case_id"])
    values = {key.rsplit(":", 1)[-1]: entry[0] for key, entry in test["perfvalues"].items()}
    figures = {name: value for name, value in values.items() if _is_finite(value)}
    if test["result"] != "pass":
        kind, sentence = test["verdict"] or INVALID, test["sentence"] or f"{case}: {_reason(test)}"
        return Row(case, kind, sentence, True, figures)
    if missing := [name for name in figure_names(case) if name not in figures]:
        return Row(case, INVALID, f"{case}: no figure for {', '.join(missing)}", True, figures)
    if not test["verdict"]:
        return Row(case, INVALID, f"{case}: measured but not judged", True, figures)
    return Row(case, test["verdict"], test["sentence"], False, figures)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _reason(test: dict[str, Any]) -> str:
    """One line on why a test did not pass."""
    return " ".join((test.get("fail_reason") or test["result"]).split())


def _is_stored(system: str, uuid: str) -> bool:
    try:
        stored = json.loads(_reframe("--system", system, f"--describe-stored-sessions={uuid}"))
    except UsageError:
        return False
    return any(session["session_info"]["uuid"] == uuid for session in stored)
