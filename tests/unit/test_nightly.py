import io
import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from iowatch import nightly
from iowatch.case import Case
from iowatch.cli import app
from iowatch.figures import figure_names
from iowatch.tables import show_night

HDF5 = Case("local", "tmpfs", "gnu", "write", "shared", "hdf5", None, None, (64, 64, 64), 4)
MPIIO = Case("local", "tmpfs", "gnu", "write", "shared", "mpiio", None, None, (64, 64, 64), 4)


def reported(case, **changes):
    """A test case as ReFrame reports it."""
    figures = {f"local:tmpfs:{n}": [0.5, 0, None, None, "", "pass"] for n in figure_names(case)}
    return {
        "name": "SharedFileWrite",
        "display_name": "SharedFileWrite",
        "partition": case.partition,
        "environ": case.environ,
        "fixture": False,
        "case_id": str(case),
        "verdict": "ok",
        "sentence": f"{case}: fine",
        "result": "pass",
        "perfvalues": figures,
        **changes,
    }


def session(*testcases, versions=True, **changes):
    every = [*testcases, LIBRARY_VERSIONS] if versions else testcases
    run = {"testcases": list(every), "num_skipped": 0, "num_aborted": 0, **changes}
    return {"session_info": {"uuid": "1"}, "runs": [run]}


FIXTURE = {
    "name": "BuiltBenchio",
    "display_name": "BuiltBenchio",
    "partition": "tmpfs",
    "environ": "gnu",
    "fixture": True,
    "result": "pass",
    "perfvalues": {},
}
LIBRARY_VERSIONS = {**FIXTURE, "name": "LibraryVersions", "display_name": "LibraryVersions"}


def test_complete_night_is_green():
    night = nightly.gate({HDF5, MPIIO}, session(FIXTURE, reported(HDF5), reported(MPIIO)))
    assert not night.is_red
    assert [row.kind for row in night.rows] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, f"2 of 2 cases not run: {HDF5}, {MPIIO}"),
        (session(reported(MPIIO)), f"1 of 2 cases not run: {HDF5}"),
        (session(reported(HDF5), reported(MPIIO), num_skipped=1), "1 check(s) skipped or aborted"),
        (session(reported(HDF5), reported(MPIIO), num_aborted=2), "2 check(s) skipped or aborted"),
        (session(reported(HDF5), reported(HDF5), reported(MPIIO)), "a case ran more than once"),
        (
            session(reported(HDF5), reported(MPIIO), versions=False),
            "LibraryVersions did not run on tmpfs+gnu",
        ),
    ],
)
def test_incomplete_night_is_red(found, problem):
    night = nightly.gate({HDF5, MPIIO}, found)
    assert problem in night.problems
    assert night.is_red


def test_night_that_asks_for_nothing_is_red():
    night = nightly.gate(set(), None)
    assert night.is_red
    assert "asks for no case" in night.problems[0]


def test_case_that_nobody_expected_is_red():
    night = nightly.gate({HDF5}, session(reported(HDF5), reported(MPIIO)))
    assert night.problems == [f"1 of 1 cases unexpected: {MPIIO}"]


def test_failed_fixture_says_why():
    reason = "sanity error: benchio\n does not build"
    fixture = {**FIXTURE, "result": "fail", "fail_reason": reason}
    night = nightly.gate({HDF5}, session(fixture))
    assert night.problems[0] == "BuiltBenchio: sanity error: benchio does not build"


def without(name):
    figures = reported(HDF5)["perfvalues"]
    del figures[f"local:tmpfs:{name}"]
    return figures


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        ({"result": "fail", "verdict": "regression", "sentence": "slow"}, "regression", "slow"),
        (
            {"result": "fail", "verdict": "", "sentence": "", "fail_reason": "job\ntimed out"},
            "invalid",
            f"{HDF5}: job timed out",
        ),
        ({"result": "skip", "verdict": "", "sentence": ""}, "invalid", f"{HDF5}: skip"),
        ({"verdict": "", "sentence": ""}, "invalid", f"{HDF5}: measured but not judged"),
        ({"perfvalues": without("ratio")}, "invalid", f"{HDF5}: no figure for ratio"),
        (
            {"perfvalues": {**without("close_s"), "local:tmpfs:close_s": [float("nan"), 0]}},
            "invalid",
            f"{HDF5}: no figure for close_s",
        ),
        (
            {"perfvalues": {**without("close_s"), "local:tmpfs:close_s": [None, 0]}},
            "invalid",
            f"{HDF5}: no figure for close_s",
        ),
    ],
)
def test_case_without_a_green_verdict_is_red(changes, kind, sentence):
    night = nightly.gate({HDF5}, session(reported(HDF5, **changes)))
    (row,) = night.red_rows
    assert (row.kind, row.sentence) == (kind, sentence)
    assert night.is_red


def test_table_fits_a_hundred_columns_and_explains_what_is_red():
    red = reported(HDF5, result="fail", verdict="regression", sentence="ratio is 0.1")
    night = nightly.gate({HDF5, MPIIO}, session(red, reported(MPIIO)))
    console = Console(width=100, record=True, file=io.StringIO())
    show_night(night, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 100
    where = next(number for number, line in enumerate(lines) if line.endswith("regression"))
    assert lines[where + 1].strip() == "ratio is 0.1"
    assert lines[-1].startswith("red: 2 case(s) measured, 1 with a red verdict, 0 problem(s)")


@pytest.mark.parametrize(
    ("night", "code"),
    [
        (nightly.gate({HDF5}, session(reported(HDF5))), 0),
        (nightly.gate({HDF5}, None), 1),
    ],
)
def test_exit_code_is_the_verdict_on_the_night(monkeypatch, night, code):
    monkeypatch.setattr(nightly, "run", lambda *arguments: night)
    assert CliRunner().invoke(app, ["nightly", "--system", "local"]).exit_code == code


def test_usage_error_is_one_line_and_exit_code_2(monkeypatch):
    def run(*arguments):
        raise nightly.UsageError("no such system")

    monkeypatch.setattr(nightly, "run", run)
    result = CliRunner().invoke(app, ["nightly", "--system", "local"])
    assert (result.exit_code, result.output) == (2, "iowatch: error: no such system\n")


@pytest.mark.parametrize(
    ("exit_code", "stored", "problem"),
    [
        (1, True, "reframe ended with exit code 1"),
        (0, False, "the session is not in ReFrame's results database"),
    ],
)
def test_green_report_is_not_enough(monkeypatch, exit_code, stored, problem):
    def reframe(command):
        report = Path(command[command.index("--report-file") + 1])
        report.write_text(json.dumps(session(reported(HDF5))))
        return subprocess.CompletedProcess(command, exit_code)

    monkeypatch.setattr(nightly, "expected_cases", lambda system, sweep: {HDF5})
    monkeypatch.setattr(nightly, "_is_stored", lambda system, uuid: stored)
    monkeypatch.setattr(nightly.subprocess, "run", reframe)
    assert nightly.run("local", "nightly", [], record=False).problems == [problem]
