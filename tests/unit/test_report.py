"""What the report of a night says, from records of a few nights."""

import math
import re
from dataclasses import fields, replace
from datetime import date, timedelta

import pytest
from browser.simulated import Year
from unit.reported_nights import BLESSED, HDF5, MPIIO, NIGHT, invalid, record, red, report, well

from iowatch.case import Case
from iowatch.checks import short_names
from iowatch.references import ExpectedFailure
from iowatch.report.model import ReportError, report_of


def only_row(*records, **options):
    (row,) = report(*records, **options).rows
    return row


def test_close_path_is_told_from_the_filesystem():
    slow = red(rate=2100, close=0.91)
    row = only_row(*well(), slow, blessed={HDF5: BLESSED})
    assert row.sentence == (
        "hdf5 on fs3: total 2100 of expected 7700 MiB/s; 91 % of the time in close, usually 2 %; "
        "control mpiio normal: the library's close path, not the filesystem"
    )


def test_control_that_is_slow_too_means_the_filesystem():
    slow = red(rate=2100, control=2100)
    row = only_row(*well(), slow, blessed={HDF5: BLESSED})
    assert row.sentence == (
        "hdf5 on fs3: total 2100 of expected 7700 MiB/s; most of the time is lost in write: 3.73 s,"
        " usually 1.02 s; control mpiio slow too, 2100 of usual 7700 MiB/s: the filesystem, not the"
        " library"
    )


def test_both_may_be_at_fault():
    row = only_row(*well(), red(rate=1000, control=4000), blessed={HDF5: BLESSED})
    assert row.sentence.endswith("7700 MiB/s: the library's path and the filesystem")


def test_one_slow_night_blames_nobody():
    slow = record(rate=2100, verdict="suspect")
    row = only_row(*well(), slow, blessed={HDF5: BLESSED})
    assert row.sentence.endswith("control mpiio normal")
    assert not row.red


def test_fault_of_the_first_day_needs_no_history():
    defect = red(verdict="defect", rate=1000, control=4000, close=0.6)
    assert only_row(defect).sentence == (
        "hdf5 on fs3: total 1000 MiB/s; 60 % of the time in close; control mpiio at 4000 MiB/s in "
        "the same job: the library's close path, not the filesystem"
    )


def test_what_no_figure_shows_is_said_as_the_check_did():
    assert only_row(red()).sentence == "hdf5 on fs3: total 7700 MiB/s; bandwidth is lower"
    assert only_row(invalid()).sentence == "hdf5 on fs3: disk full"


def test_without_a_baseline_the_good_nights_before_count():
    nights = [*well(nights=9), red(ago=10, rate=100), invalid(ago=11)]
    expected = only_row(*nights, record()).expected
    assert (expected.value, expected.low) == (7700, None)
    assert expected.source == "median of 9 good night(s), not blessed"
    enough = only_row(*well(nights=25), record()).expected
    assert enough.low < 7700 < enough.high


def test_a_later_baseline_says_nothing_of_a_night():
    later = replace(BLESSED, blessed=NIGHT + timedelta(days=1))
    assert only_row(*well(), record(), blessed={HDF5: later}).expected.word == "usual"
    assert only_row(*well(), record(), blessed={HDF5: BLESSED}).expected.word == "expected"


def test_worst_first():
    cases = [replace(HDF5, writers=number) for number in range(1, 9)]
    kinds = ["ok", "suspect", "regression", "improvement", "invalid", "noisy", "severe", "defect"]
    red_kinds = {"regression", "invalid", "severe", "defect"}
    rows = report(
        *(
            record(case, verdict=kind, result="fail" if kind in red_kinds else "pass")
            for case, kind in zip(cases, kinds, strict=True)
        )
    ).rows
    assert [row.verdict for row in rows] == [
        *("invalid", "severe", "defect", "regression"),
        *("suspect", "improvement", "noisy", "ok"),
    ]


def test_of_two_the_slower_comes_first():
    other = replace(HDF5, partition="fs2")
    nights = [*well(), *well(other), red(rate=5000), red(other, rate=2000)]
    assert [row.case for row in report(*nights).rows] == [other, HDF5]


def test_red_is_what_reframe_failed_and_no_excuse_covers():
    assert report(record()).brief == "Nothing red on record: 1 case"
    assert report(record(verdict="no_baseline")).brief == "Nothing red on record: 1 case", (
        "in record mode"
    )
    assert report(red(verdict="no_baseline")).brief == "Red: 1 of 1 case"
    excuses = [ExpectedFailure(re.compile(".*"), NIGHT, "ticket 4711")]
    known = report(red(result="xfail"), excuses=excuses)
    assert not known.is_red
    assert known.rows[0].known == "expected until 2026-11-20: ticket 4711"


def test_case_that_was_not_measured_makes_the_night_red():
    night = report(*well(), *well(MPIIO), record())
    assert night.brief == "Red: 1 case, 1 problem(s) with the night"
    assert night.problems == [f"1 case not measured, unlike on most nights before: {MPIIO}"]
    assert night.why == night.problems[0]


def test_of_many_cases_a_few_are_named():
    gone = [replace(HDF5, writers=number) for number in range(2, 22)]
    (problem,) = report(*(record(case, ago=1) for case in gone), record()).problems
    assert problem.startswith("20 cases not measured, unlike on most nights before: archer:fs3/")
    assert (problem.count("archer:"), problem[-5:]) == (12, ", ...")


def test_case_measured_once_is_not_missed():
    assert report(*well(), record(MPIIO, ago=3), record()).problems == []


def test_who_ran_the_night_knows_its_problems():
    night = report(*well(MPIIO), record(), problems=["LibraryVersions did not run on fs3+cray"])
    assert len(night.problems) == 1
    assert night.is_red
    assert night.why == "LibraryVersions did not run on fs3+cray"


def test_conditions_that_changed_since_the_last_good_night():
    before = record(ago=2, conditions={"hdf5": "1.10.8", "hint cb_nodes": "4", "hosts": "n1 n2"})
    between = red(ago=1, conditions={"hdf5": "none of these"})
    now = red(conditions={"hdf5": "1.8.14", "hosts": "n2 n3", "modules": "cray"})
    row = only_row(before, between, now)
    assert row.last_good == date(2026, 11, 18)
    assert {change.what: (change.before, change.now) for change in row.changes} == {
        "hdf5": ("1.10.8", "1.8.14"),
        "hint cb_nodes": ("4", ""),
        "hosts": ("n1", "n3"),
        "modules": ("", "cray"),
    }


def test_conditions_that_are_not_on_record_are_not_unchanged():
    assert only_row(record(ago=1, conditions={}), record()).changes is None
    assert only_row(record()).changes is None
    assert only_row(record(ago=1), record()).changes == []


def test_best_run_of_the_night_counts_and_the_last_verdict():
    first = record(rate=3000, verdict="suspect")
    row = only_row(*well(), first, record(hour=5, rate=7000), record(hour=9, rate=6000))
    assert (row.verdict, row.figures["total_max"], row.runs) == ("ok", 7000, 3)


def test_invalid_run_is_seen_though_a_later_one_is_well():
    row = only_row(*well(), invalid(), record(hour=5))
    assert (row.verdict, row.invalid_runs, row.is_quiet) == ("ok", 1, False)
    assert row.figures
    row = only_row(*well(), record(), invalid(hour=5))
    assert (row.verdict, row.figures) == ("invalid", {})


def test_what_reframe_failed_is_not_quiet_whatever_its_verdict():
    rows = [
        only_row(record(verdict=kind, result=result))
        for kind, result in (("ok", "pass"), ("noisy", "pass"), ("ok", "fail"), ("ok", "xfail"))
    ]
    assert [row.is_quiet for row in rows] == [True, True, False, False]
    assert [row.is_ok for row in rows] == [True, False, False, False]


def test_night_across_midnight_is_one():
    before = [record(MPIIO, ago=2, hour=23.5), record(ago=1, hour=0.5)]
    night = report(*before, record(MPIIO, ago=1, hour=23.5), record(hour=0.5))
    assert night.night == NIGHT - timedelta(days=1)
    assert {row.case for row in night.rows} == {HDF5, MPIIO}


def test_earlier_night_is_reported_as_it_was():
    nights = [*well(), red(rate=100)]
    earlier = report(*nights, night=NIGHT - timedelta(days=1))
    assert earlier.brief == "Nothing red on record: 1 case"
    assert max(earlier.rows[0].trend.nights) == NIGHT - timedelta(days=1)


def test_night_or_system_that_is_not_on_record():
    with pytest.raises(
        ReportError, match=r"^no night of 2026-11-21 is on record for archer: the f"
    ):
        report(record(), night=NIGHT + timedelta(days=1))
    with pytest.raises(ReportError, match=r"^no night of system cirrus .* record: archer$"):
        report_of([record()], "cirrus", {}, [])


def test_slow_filesystem_is_one_alarm():
    cases = [replace(HDF5, writers=2**n) for n in range(4)]
    nights = [record(case, ago) for case in cases for ago in range(10, 3, -1)]
    nights += [
        red(case, ago, rate=1500, control=1500) for case in cases for ago in range(3, -1, -1)
    ]
    baseline = replace(BLESSED, ratio=None, ratio_spread=None)
    again = [
        red(case, ago, hour, rate=1500, control=1500)
        for case in cases
        for ago in range(3, -1, -1)
        for hour in (5.1, 9.2, 13.3, 17.4)
    ]
    night = report(*nights, *again, blessed=dict.fromkeys(cases, baseline))
    (note,) = night.notes
    assert note.startswith("fs3: 4 of 4 cases are slow, by 81% (median) since 2026-11-17")
    assert night.why == note


def test_slowest_osts_come_first():
    osts = replace(MPIIO, each_ost=True)
    figures = {"total_max": 700, "ost_ratio": 0.5, "ost_0": 600, "ost_1": 300, "ost_2": 700}
    assert only_row(record(osts, figures=figures)).osts == [
        ("1", 300, 0.5), ("0", 600, 1), ("2", 700, 700 / 600),
    ]  # fmt: skip


def test_level_changes_are_where_they_are():
    rates = [7700 * math.exp(0.03 * math.sin(7 * n)) for n in range(40)]
    nights = [record(ago=39 - n, rate=rate / (1 + (n >= 35))) for n, rate in enumerate(rates)]
    (level,) = only_row(*nights).trend.levels
    assert level.night == NIGHT - timedelta(days=4)
    assert level.after / level.before == pytest.approx(0.5, rel=0.05)
    assert only_row(*(record(ago=39 - n, rate=r) for n, r in enumerate(rates))).trend.levels == []


@pytest.mark.parametrize("field", [f.name for f in fields(Case) if f.name != "system"])
def test_cases_that_differ_have_other_names(field):
    others = {
        "partition": "fs2", "environ": "gnu", "operation": "read", "files": "node",
        "backend": "netcdf", "stripe_count": 4, "stripe_size": 8, "local_size": (64, 64, 64),
        "writers": 4, "instances": 2, "each_ost": True, "ior_peer": True,
    }  # fmt: skip
    names = short_names([HDF5, replace(HDF5, **{field: others[field]})])
    assert len(set(names.values())) == 2


def test_names_say_what_differs_and_are_never_the_same():
    cases = Year(1, 200, NIGHT).all_cases()
    names = short_names(cases)
    assert len(set(names.values())) == len(cases) == 200
    assert (
        short_names([HDF5, replace(HDF5, stripe_count=4)])[HDF5]
        == "hdf5 on fs3, stripes -1 x 1 MiB"
    )
    gnu = replace(HDF5, environ="gnu")
    assert set(short_names([HDF5, gnu]).values()) == {"hdf5 on fs3, cray", "hdf5 on fs3, gnu"}


def test_only_who_ran_the_night_can_say_green():
    ungated = report(record())
    assert ungated.why == "what was asked for and never ran is not on record"
    gated = replace(ungated, gated=True)
    assert (gated.brief, gated.why) == ("Green: 1 case", "every case is as it should be")
