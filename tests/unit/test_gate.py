from dataclasses import replace

import pytest
from unit.reported import FIXTURE, HDF5, LIBRARY_VERSIONS, MPIIO, reported, session

from iowatch.night.gate import gate
from iowatch.verdict import RED


def test_complete_night_is_green():
    night = gate({HDF5, MPIIO}, session(FIXTURE, reported(HDF5), reported(MPIIO)))
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
    night = gate({HDF5, MPIIO}, found)
    assert problem in night.problems
    assert night.is_red


def test_night_that_asks_for_nothing_is_red():
    night = gate(set(), None)
    assert night.is_red
    assert "asks for no case" in night.problems[0]


def test_case_that_nobody_expected_is_red():
    night = gate({HDF5}, session(reported(HDF5), reported(MPIIO)))
    assert night.problems == [f"1 of 1 cases unexpected: {MPIIO}"]


def test_failed_fixture_says_why():
    reason = "sanity error: benchio\n does not build"
    fixture = {**FIXTURE, "result": "fail", "fail_reason": reason}
    night = gate({HDF5}, session(fixture))
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
    night = gate({HDF5}, session(reported(HDF5, **changes)))
    (row,) = night.red_rows
    assert (row.kind, row.sentence) == (kind, sentence)
    assert night.is_red


@pytest.mark.parametrize("verdict", sorted(RED))
def test_red_verdict_that_passed_is_invalid(verdict):
    (row,) = gate({HDF5}, session(reported(HDF5, verdict=verdict))).red_rows
    assert (row.kind, row.sentence) == (
        "invalid",
        f"{HDF5}: passed with a red verdict, {verdict}",
    )


@pytest.mark.parametrize("verdict", ["ok", "suspect", "noisy", "improvement", "transient", ""])
def test_failure_with_a_green_verdict_is_invalid_and_says_why(verdict):
    test = reported(HDF5, result="fail", verdict=verdict, fail_reason="cannot copy\nresult.json")
    (row,) = gate({HDF5}, session(test)).red_rows
    assert (row.kind, row.sentence) == ("invalid", f"{HDF5}: cannot copy result.json")


@pytest.mark.parametrize("verdict", [*sorted(RED), "no_baseline"])
def test_failure_with_a_red_verdict_keeps_it(verdict):
    test = reported(HDF5, result="fail", verdict=verdict, sentence="slow")
    (row,) = gate({HDF5}, session(test)).red_rows
    assert (row.kind, row.sentence) == (verdict, "slow")


def test_expected_failure_is_known_and_not_red():
    test = reported(HDF5, result="xfail", verdict="defect", sentence="close takes 90 %")
    night = gate({HDF5}, session(test))
    assert not night.is_red
    (row,) = night.rows
    assert (row.kind, row.sentence, row.known) == ("defect", "close takes 90 %", True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"verdict": "invalid"}, "its failure was expected, and its verdict is invalid"),
        ({"verdict": "too_fast"}, "its failure was expected, and its verdict is too_fast"),
        ({"verdict": "ok"}, "its failure was expected, and its verdict is ok"),
        ({"verdict": ""}, "measured but not judged"),
        ({"verdict": "defect", "perfvalues": {}}, "no figure for total_max"),
    ],
)
def test_expected_failure_does_not_excuse_what_was_not_verified(changes, sentence):
    (row,) = gate({HDF5}, session(reported(HDF5, result="xfail", **changes))).red_rows
    assert row.kind == "invalid"
    assert row.sentence.startswith(f"{HDF5}: {sentence}")


def test_unexpected_pass_is_red():
    night = gate({HDF5}, session(reported(HDF5, result="xpass")))
    (row,) = night.red_rows
    assert row.sentence == f"{HDF5}: passed, and ReFrame expects it to fail"
    fixture = {**FIXTURE, "result": "xpass"}
    night = gate({HDF5}, session(fixture, reported(HDF5)))
    assert night.problems == ["BuiltBenchio: passed, and ReFrame expects it to fail"]


@pytest.mark.parametrize("result", ["abort", "<unknown>"])
def test_case_that_did_not_come_to_an_end_was_not_run(result):
    """A session that was stopped reports all its cases, those without figures as well."""
    unfinished = reported(MPIIO, result=result, verdict="", sentence="", perfvalues={})
    night = gate({HDF5, MPIIO}, session(reported(HDF5), unfinished, num_aborted=1))
    assert [row.case for row in night.rows] == [HDF5]
    assert night.problems == [
        f"1 of 2 cases not run: {MPIIO}",
        "1 check(s) skipped or aborted",
    ]


@pytest.mark.parametrize("result", ["skip", "abort", "fail_deps", "<unknown>"])
def test_versions_that_were_not_asked_for_are_missing(result):
    versions = {**LIBRARY_VERSIONS, "result": result}
    night = gate({HDF5}, session(reported(HDF5), versions, versions=False))
    assert night.problems == ["LibraryVersions did not run on tmpfs+gnu"]


@pytest.mark.parametrize(
    ("result", "problems", "notes"),
    [
        ("fail", ["LibraryVersions: HDF5 1.8.14 is slow"], []),
        ("xfail", [], ["LibraryVersions on tmpfs+gnu fails as expected"]),
    ],
)
def test_versions_that_fail(result, problems, notes):
    versions = {**LIBRARY_VERSIONS, "result": result, "fail_reason": "HDF5 1.8.14 is slow"}
    night = gate({HDF5}, session(reported(HDF5), versions, versions=False))
    assert (night.problems, night.notes) == (problems, notes)


def test_rerun_needs_no_versions():
    assert not gate({HDF5}, session(reported(HDF5), versions=False), versions=False).is_red


PROFILE = replace(HDF5, operation="profile")


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ("pass", []),
        ("fail", ["IoProfile: hdf5 does not write collectively"]),
        ("xfail", []),
        ("skip", [f"1 of 1 access patterns not looked at: {PROFILE}"]),
        ("abort", [f"1 of 1 access patterns not looked at: {PROFILE}"]),
        (None, [f"1 of 1 access patterns not looked at: {PROFILE}"]),
    ],
)
def test_access_pattern_is_looked_at(result, problems):
    """It has no case: nothing else would miss it."""
    reason = "hdf5 does not write collectively"
    seen = {**FIXTURE, "name": "IoProfile", "display_name": "IoProfile", "fail_reason": reason}
    seen |= {"case_id": "", "profile": str(PROFILE), "result": result}
    night = gate({HDF5}, session(reported(HDF5), *([seen] if result else [])), profiles={PROFILE})
    assert night.problems == problems
    assert [row.case for row in night.rows] == [HDF5]


def test_another_access_pattern_does_not_stand_for_one():
    other = {**FIXTURE, "name": "IoProfile", "case_id": "", "profile": str(MPIIO)}
    night = gate({HDF5}, session(reported(HDF5), other), profiles={PROFILE})
    assert night.problems == [f"1 of 1 access patterns not looked at: {PROFILE}"]
