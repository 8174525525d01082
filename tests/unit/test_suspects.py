"""What is offered for a re-run, and when."""

from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner
from unit.nights import BEGIN, CASE, SLOW, USUAL, at, blessed, ran

from iowatch.case import Case
from iowatch.cli import app
from iowatch.commands import night
from iowatch.night.suspects import due, rerun_script
from iowatch.night.tonight import tonight

PAST = [ran(-24 * days, USUAL) for days in range(40, 0, -1)]


def rerun_at(*runs, now=None):
    """When the case is to be run again, in hours after tonight's first run."""
    records = [*PAST, *runs]
    night = tonight(records, blessed(), now or records[-1].time)[CASE]
    return night.rerun_at and (night.rerun_at - BEGIN) / timedelta(hours=1)


def test_suspicious_case_is_due_four_hours_later():
    assert rerun_at(ran(0, SLOW)) == 4
    assert rerun_at(ran(0, USUAL)) is None


def test_four_reruns_at_most():
    runs = [ran(hours, SLOW) for hours in (0, 4, 8, 12, 16)]
    assert [rerun_at(*runs[:count]) for count in range(1, 6)] == [4, 8, 12, 16, None]


def test_every_run_counts_once():
    runs = [ran(0, SLOW), ran(4, SLOW), ran(8, None)]
    night = tonight([*PAST, *runs], blessed(), at(8))[CASE]
    assert (night.judgement.kind, night.judgement.jobs) == ("suspect", 2)


def test_case_that_is_well_again_is_left_alone():
    assert rerun_at(ran(0, SLOW), ran(4, USUAL)) is None


def test_last_verdict_decides():
    """The reference values may say more than the detector."""
    assert rerun_at(ran(0, SLOW), ran(4, SLOW, verdict="regression")) is None
    assert rerun_at(ran(0, SLOW, verdict="no_baseline")) is None


def test_invalid_run_is_no_rerun():
    assert rerun_at(ran(0, SLOW), ran(4, None)) == 4
    assert rerun_at(ran(0, None), ran(4, SLOW)) == 8
    runs = [ran(0, SLOW), ran(4, None), ran(5, SLOW), ran(9, SLOW), ran(13, SLOW)]
    assert rerun_at(*runs) == 17
    assert rerun_at(ran(0, None)) is None


def test_invalid_runs_do_not_go_on_for_ever():
    broken = [ran(hours, None) for hours in (4, 5, 6, 7, 8)]
    assert [rerun_at(ran(0, SLOW), *broken[:count]) for count in range(6)] == [4] * 5 + [None]


def test_run_too_early_is_no_rerun():
    """Somebody tried at once: it meets the same contention."""
    assert rerun_at(ran(0, SLOW), ran(1, SLOW)) == 4


def test_no_rerun_when_the_night_is_over():
    assert rerun_at(ran(0, SLOW), ran(17, SLOW)) is None


def test_yesterdays_suspect_is_not_of_tonight():
    records = [*PAST, ran(0, SLOW)]
    assert CASE in tonight(records, blessed(), at(19))
    assert tonight(records, blessed(), at(21)) == {}


OTHER = Case("archer", "fs3", "cray+debug", "write", "shared", "hdf5", 4, 1, (64, 64, 64), 4)


def test_a_session_for_each_partition_and_environment():
    records = [
        *PAST, ran(0, SLOW), ran(0, SLOW, case=OTHER, test="b2"),
        *(ran(-24 * days, USUAL, case=OTHER) for days in range(40, 0, -1)),
    ]  # fmt: skip
    cases = tonight(records, {**blessed(), **blessed(OTHER)}, at(1))
    assert due(cases, at(3.9)) == []
    first, second = due(cases, at(4))
    assert (first.cases, second.cases) == ({OTHER}, {CASE})
    assert first.options == ["--system", "archer:fs3", "-p", r"^cray\+debug$", "--name=/b2"]
    assert second.options == ["--system", "archer:fs3", "-p", "^gnu$", "--name=/a1"]


@pytest.mark.parametrize(
    ("hours", "lines"),
    [
        (1, [f"# {CASE}: said", "#   due from 02:00 UTC"]),
        (5, [f"# {CASE}: said", "reframe -c "]),
    ],
)
def test_script(hours, lines):
    cases = tonight([*PAST, ran(0, SLOW)], blessed(), at(1))
    script = list(rerun_script(cases, at(hours)))
    assert len(script) == len(lines)
    assert all(map(str.startswith, script, lines)), script


def test_script_selects_in_a_shell():
    cases = tonight([*PAST, ran(0, SLOW)], blessed(), at(1))
    *_, line = rerun_script(cases, at(5))
    assert line.endswith("-r --system archer:fs3 -p '^gnu$' --name=/a1")


FS4 = replace(CASE, partition="fs4")


@pytest.fixture
def suspects(monkeypatch, tmp_path):
    """suspects(system): the command, with two partitions of one system on record."""
    records = [ran(0, SLOW), ran(0, SLOW, case=FS4)]
    monkeypatch.setattr(night, "selected", lambda db, case: records)
    monkeypatch.setattr(night, "tonight", lambda records, *rest: {r.case: r for r in records})
    monkeypatch.setattr(night, "rerun_script", lambda cases, now: map(str, cases))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    def invoke(system):
        return CliRunner().invoke(app, ["suspects", "--system", system])

    return invoke


def test_suspects_of_a_system_or_of_a_partition(suspects):
    assert suspects("archer").stdout.splitlines() == [str(CASE), str(FS4)]
    assert suspects("archer:fs3").stdout.splitlines() == [str(CASE)]


@pytest.mark.parametrize(
    ("system", "only"),
    [("nosuch", "archer"), ("arche", "archer"), ("archer:nosuch", "archer:fs3, archer:fs4")],
)
def test_suspects_of_what_is_not_on_record(suspects, system, only):
    done = suspects(system)
    sentence = f"--system {system}: nothing is on record of it, only of {only}"
    assert (done.exit_code, done.output) == (2, f"iowatch: error: {sentence}\n")


def test_run_of_the_future_hides_no_suspect():
    """A clock that was wrong has dated it."""
    assert rerun_at(ran(0, SLOW), ran(24 * 365, USUAL), now=at(1)) == 4
