"""One case in one night: its past, its re-runs, and what is said of it."""

import math
from datetime import date, timedelta

import pytest
from attrs import evolve
from cases import changed
from nights import (
    BLESSED,
    HDF5,
    MPIIO,
    NIGHT,
    SLOW,
    at,
    night_id,
    ran,
    red,
    row_of,
    slow,
    tonight,
    unverified,
    well,
)

from iowatch.cases.run import nights_of
from iowatch.judge.judge import by_past
from iowatch.night.nightly import _again

KNOWN = {HDF5: BLESSED}
MONTH = well(nights=40)

# The past


def judged(*before, rate=SLOW, hour=1.0, blessed=BLESSED):
    """What is said of tonight's run, which ends at this hour."""
    nights = nights_of(sorted(before, key=lambda run: run.time))
    so_far = nights.pop(night_id(), [])
    run = ran(rate=rate, hour=hour)
    return by_past(
        run.case.check, list(nights.values()), so_far, blessed, run.time, run.metrics, {}
    )


def test_only_nights_after_the_blessed_ones_add_to_the_drift():
    alone = judged().drift
    assert 0 < alone < 1
    for ago, counts in ((11, False), (10, False), (9, True), (1, True)):
        assert (judged(slow(ago=ago)).drift > alone) is counts, ago
    assert judged(unverified(ago=1)).drift == alone
    by_days = evolve(BLESSED, first=BLESSED.first[:10], last=BLESSED.last[:10])
    assert judged(slow(ago=10), blessed=by_days).drift == alone
    assert judged(slow(ago=9), blessed=by_days).drift > alone


def test_rerun_is_judged_with_the_runs_of_its_night():
    verdict = judged(slow(), unverified(hour=5), hour=9).verdict
    assert (str(verdict.outcome), verdict.runs) == ("suspect (own_past)", 2)
    verdict = judged(slow(), hour=5, rate=7700).verdict
    assert (str(verdict.outcome), verdict.runs) == ("ok", 2)


def test_what_is_usual_is_of_the_blessed_nights():
    before = [ran(ago=ago, rate=5000.0 + ago) for ago in (42, 41, 40, 11, 10, 9, 3, 2, 1)]
    row = row_of(*before, ran(), blessed=KNOWN)
    assert row.usual["stable_max"] == 5011
    assert row_of(*before, ran()).usual["stable_max"] == 5010, "of the good nights without a bless"


# Re-runs


def rerun_at(*runs, now=24, **options):
    """When the case is to be run again, in hours after tonight's first run."""
    due = row_of(*MONTH, *runs, blessed=KNOWN, now=at(now), **options).rerun_at
    return due and (due - at()) / timedelta(hours=1)


def lows(*hours):
    return [slow(hour=1 + hour) for hour in hours]


def broken(*hours):
    return [unverified(hour=1 + hour) for hour in hours]


def test_when_a_rerun_is_due():
    said = [
        ("well", [ran()], None),
        ("a suspect, four hours later", lows(0), 4),
        ("the first re-run was low too", lows(0, 4), 8),
        ("the second", lows(0, 4, 8), 12),
        ("the third", lows(0, 4, 8, 12), 16),
        ("four re-runs at most", lows(0, 4, 8, 12, 16), None),
        ("well again", [*lows(0), ran(hour=5)], None),
        ("too early to be a re-run: it met the same contention", lows(0, 1), 4),
        ("after midnight", lows(0, 30), 34),
        ("no re-run: it was invalid", [*lows(0), *broken(4)], 4),
        ("invalid, then low", [*broken(0), *lows(4)], 8),
        ("one of them was invalid", [*lows(0), *broken(4), *lows(5, 9, 13)], 17),
        ("only invalid", broken(0), None),
        (
            "the reference values say more",
            [*lows(0), slow(hour=5, verdict="regression (own_past)")],
            None,
        ),
        ("the check said another thing", [slow(verdict="unjudged (no_reference)")], None),
    ]
    for what, runs, hours in said:
        assert rerun_at(*runs, now=48) == hours, what
    for count in range(6):
        hours = 4 if count < 5 else None  # not for ever
        assert rerun_at(*lows(0), *broken(4, 5, 6, 7, 8)[:count]) == hours, count


def test_suspect_of_another_night_is_not_of_this_one():
    before = [*MONTH[:-1], slow(ago=1)]
    assert row_of(*before, ran(), blessed=KNOWN).rerun_at is None
    assert tonight(*before, blessed=KNOWN).cases == []
    ahead = [ran(ago=-365), slow(ago=-1)]
    assert rerun_at(*lows(0), *ahead, now=2) == 4, "nor one that a wrong clock has dated"


def test_reruns_are_a_session_for_each_partition_and_environment():
    debug = changed(HDF5, place="archer:fs3/cray+debug")
    fs2 = changed(HDF5, place="archer:fs2/cray")
    low = [slow(), slow(MPIIO, test="c3"), slow(debug, test="b2"), slow(fs2, test="d4")]
    runs = [*low, *(run for of in (HDF5, MPIIO, debug, fs2) for run in well(of, 40))]
    rows = tonight(*runs, blessed=dict.fromkeys((HDF5, MPIIO, debug, fs2), BLESSED)).cases
    assert all(row.rerun_at for row in rows)
    parts = [(part.options, part.expected) for part in _again(rows)]
    fs3 = ["--system", "archer:fs3", "-p"]
    assert parts == [
        (["--system", "archer:fs2", "-p", "^cray$", "--name=/d4"], {fs2}),
        ([*fs3, "^cray$", "--name=/a1", "--name=/c3"], {HDF5, MPIIO}),
        ([*fs3, r"^cray\+debug$", "--name=/b2"], {debug}),
    ]


# The sentence


def test_sentence_says_what_was_reached_and_what_the_check_said():
    rate = "the stable rate is {} of the expected 7700 MiB/s"
    why = "bandwidth is lower; it spends 91 % of the time finishing its file"
    said = [
        (red(rate=2100, sentence=why), f"{rate.format(2100)}; {why}"),
        (slow(rate=2100), f"{rate.format(2100)}; fine"),
        (ran(), rate.format(7700)),
        (red(), f"{rate.format(7700)}; bandwidth is lower"),
        (ran(verdict="ok (low_sensitivity)"), f"{rate.format(7700)}; fine"),
        (unverified(), "disk full"),
        (unverified(sentence=""), "the job did not end well, and said nothing"),
    ]
    for run, sentence in said:
        row = row_of(*well(), run, blessed=KNOWN)
        assert row.sentence == f"hdf5 on fs3: {sentence}"
        assert row.is_red is (run.result == "fail")


# Tonight's numbers and those to compare them with


def test_without_a_baseline_the_good_nights_before_count():
    nights = [*well(nights=9), red(ago=10, rate=100), unverified(ago=11), slow(ago=12)]
    expected = row_of(*nights, ran()).expected
    assert (expected.value, expected.low) == (7700, None)
    assert expected.source == "median of 9 good nights, not blessed"
    enough = row_of(*well(nights=25), ran()).expected
    assert enough.low < 7700 < enough.high


def test_later_baseline_says_nothing_of_a_night():
    later = evolve(BLESSED, blessed=NIGHT + timedelta(days=1))
    assert row_of(*well(), ran(), blessed={HDF5: later}).expected.word == "usual"
    expected = row_of(*well(), ran(), blessed=KNOWN).expected
    assert expected.word == "expected"
    assert expected.source == "baseline of 2026-10-11 to 2026-11-10: quiet (ops)"


def test_best_run_of_the_night_counts_and_the_last_verdict():
    first = slow()
    row = row_of(*well(), first, ran(hour=5, rate=7000), ran(hour=9, rate=6000))
    assert (str(row.outcome), row.rate, len(row.runs)) == ("ok", 7000, 3)
    assert row.drop == pytest.approx(1 - 7000 / 7700)


def test_red_case_is_run_again_only_to_tell_whether_its_alarm_has_gone():
    hours = (1, 5.1, 9.2, 13.3, 17.4)
    nights = [*well(nights=40)[:-3], *(slow(ago=ago, hour=h) for ago in (3, 2, 1) for h in hours)]
    fast = row_of(*nights, red(rate=7700.0), blessed=KNOWN)
    assert fast.rerun_at == at(5)
    assert row_of(*nights, red(rate=3000.0), blessed=KNOWN).rerun_at is None, "it is no better"
    assert row_of(*well(), red(rate=3000.0), blessed=KNOWN).rerun_at is None, "by a reference"


def test_invalid_run_is_seen_though_a_later_one_is_well():
    row = row_of(*well(), unverified(), ran(hour=5))
    assert (str(row.outcome), row.failed_runs, row.is_quiet) == ("ok", 1, False)
    assert row.metrics
    row = row_of(*well(), ran(), unverified(hour=5))
    assert (str(row.outcome), row.metrics, row.drop) == ("failed (io_error)", {}, None)


def test_what_reframe_failed_is_not_quiet_whatever_its_verdict():
    said = [
        (ran(verdict="ok"), (True, True)),
        (ran(verdict="ok (low_sensitivity)"), (True, False)),
        (red(), (False, False)),
        (red(result="xfail"), (False, False)),
        (slow(), (False, False)),
    ]
    for run, wanted in said:
        row = row_of(run)
        assert (row.is_quiet, row.is_ok) == wanted, str(run.outcome)


def test_conditions_that_changed_since_the_last_good_night():
    before = ran(ago=2, provenance={"hdf5": "1.10.8", "hint cb_nodes": "4", "hosts": "n1 n2"})
    between = red(ago=1, provenance={"hdf5": "none of these"})
    now = red(provenance={"hdf5": "1.8.14", "hosts": "n2 n3", "modules": "cray"})
    row = row_of(before, between, now)
    assert row.last_good == date(2026, 11, 18)
    assert {change.name: (change.before, change.now) for change in row.changes} == {
        "hdf5": ("1.10.8", "1.8.14"),
        "hint cb_nodes": ("4", ""),
        "hosts": ("n1", "n3"),
        "modules": ("", "cray"),
    }
    assert row_of(ran(ago=1, provenance={}), ran()).changes is None, "not on record"
    assert row_of(ran()).changes is None
    assert row_of(ran(ago=1), ran()).changes == []
    many = {"hosts": " ".join(f"n{number:02}" for number in range(20))}
    (change,) = row_of(ran(ago=1, provenance=many), ran(provenance={"hosts": "x"})).changes
    assert change.before == "n00 n01 n02 n03 n04 n05 n06 n07 and 12 more"


def test_level_changes_are_where_they_are():
    rates = [7700 * math.exp(0.03 * math.sin(7 * n)) for n in range(40)]
    nights = [ran(ago=39 - n, rate=rate / (1 + (n >= 35))) for n, rate in enumerate(rates)]
    (level,) = row_of(*nights).trend.levels
    assert level.night == NIGHT - timedelta(days=4)
    assert level.after / level.before == pytest.approx(0.5, rel=0.05)
    assert row_of(*(ran(ago=39 - n, rate=r) for n, r in enumerate(rates))).trend.levels == []
