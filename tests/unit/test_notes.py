"""What is said of a night besides its verdicts."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from unit.nights import CASE, SLOW, USUAL, at, blessed, ran

from iowatch.night.gate import Known, Night, Row, add_notes, tonight
from iowatch.references import ExpectedFailure
from iowatch.site import Filesystem

DATABASE = Path("/results/results.db")
CASES = [replace(CASE, backend=name) for name in ("mpiio", "hdf5", "netcdf", "stream")]


def filesystem(partition, name):
    return Filesystem("archer", partition, ("gnu",), name, "/x", ("lustre",), 1e6, 4, False, 4, {})


FS3 = [filesystem("fs3", "fs3")]


def past(case, rates, verdict=None):
    """A month of usual nights, then one of each rate up to tonight; their verdicts."""
    first = 1 - 30 - len(rates)
    return [
        ran(24 * (first + number), rate, verdict, case)
        for number, rate in enumerate([*[USUAL] * 30, *rates])
    ]


def row(case, kind="ok", red=False, known=False):
    return Row(case, kind, f"{case}: said", red, {}, known)


def notes(rows, records=(), baselines=None, expected=(), places=FS3, now=None):
    """The notes of a night, and the cases whose sentences they take the place of."""
    night, now = Night(list(rows)), now or at(1)
    baselines = baselines or {}
    cases = tonight(records, baselines, now)
    add_notes(night, Known(places, cases, baselines, expected, DATABASE), now, "iowatch AGAIN")
    return night.notes, night.merged


def test_usual_night_needs_no_note():
    assert notes([row(CASE)], past(CASE, [USUAL]), blessed()) == ([], frozenset())


def common(slow, healthy=(), places=FS3, **changes):
    """Notes on cases that have been slow for two weeks, among others that have not.

    Without re-runs that is how long it takes; the alarm itself is two nights old.
    """
    baselines, records, rows = {}, [], []
    for case in (*slow, *healthy):
        rate, verdict = (SLOW, "regression") if case in slow else (USUAL, "ok")
        baselines |= blessed(case, last=at(-24 * 14).date())
        records += past(case, [rate] * 14, verdict)
        rows.append(row(case, verdict, red=case in slow))
    return notes([replace(r, **changes) for r in rows], records, baselines, places=places)


def test_alarm_of_a_filesystem_is_one():
    said, merged = common(CASES[:2], CASES[2:])
    assert merged == frozenset(CASES[:2])
    (note,) = said
    assert re.fullmatch(
        r"fs3: 2 of 4 cases are slow, by 60% \(median\) since 2026-\d\d-\d\d: the filesystem, not "
        r"one of its I/O paths",
        note,
    )


def test_one_slow_case_is_its_own_alarm():
    assert common(CASES[:1], CASES[1:]) == ([], frozenset())


def test_partitions_of_one_filesystem_are_taken_together():
    elsewhere = [replace(case, partition="fs3-big") for case in CASES[:1]]
    slow = [CASES[0], *elsewhere]
    together = [*FS3, filesystem("fs3-big", "fs3")]
    assert common(slow, places=together)[1] == frozenset(slow)
    apart = [*FS3, filesystem("fs3-big", "another")]
    assert common(slow, places=apart) == ([], frozenset())


def test_row_that_is_red_for_another_reason_keeps_its_sentence():
    assert common(CASES[:2], kind="too_fast")[1] == frozenset()
    assert common(CASES[:2], red=False, known=True)[1] == frozenset()


def test_suspects_and_when_they_are_due():
    records, baselines = past(CASE, [SLOW]), blessed()
    said = "1 case(s) suspect: re-runs are due"
    assert notes([], records, baselines)[0] == [f"{said} from 2026-03-02 02:00 UTC: iowatch AGAIN"]
    later = notes([], records, baselines, now=at(5))[0]
    assert later == [f"{said} now: iowatch AGAIN"]
    records += [ran(hours, SLOW) for hours in (4, 8, 12, 16)]
    over = notes([], records, baselines, now=at(17))[0]
    assert over == ["1 case(s) suspect, and no more re-runs tonight"]


def test_noisy_cases_are_counted():
    rows = [row(CASES[0], "noisy"), *map(row, CASES[1:])]
    assert notes(rows)[0] == [
        "1 of 4 case(s) noisy: they vary too much to show a drop of 30% within 7 nights"
    ]


def test_baseline_under_other_thresholds():
    (note,) = notes([row(CASE)], past(CASE, [USUAL]), blessed(settings="0" * 8))[0]
    assert note.startswith("1 case(s) blessed under other thresholds of the detector: ")
    assert notes([row(CASES[1])], [], blessed(settings="0" * 8))[0] == [], "not measured tonight"


def test_results_database_that_lost_the_past():
    kept = [record for record in past(CASE, [USUAL]) if record.time > at(-24 * 5)]
    (note,) = notes([row(CASE)], kept, blessed())[0]
    assert note.startswith(f"1 case(s) without their blessed nights in {DATABASE}, such as {CASE}")


TODAY = at(1).date()


def failure(case="archer:.*", until=TODAY):
    return ExpectedFailure(re.compile(case), until, "ticket 4711")


def test_expected_failure_that_does_not_show():
    well = (
        f"archer:.*: does not fail, though expected until {TODAY}: ticket 4711: remove the entry?"
    )
    rows = [row(CASES[0]), row(CASES[1])]
    assert notes(rows, expected=[failure()])[0] == [well]
    assert notes([*rows, row(CASES[2], "defect", known=True)], expected=[failure()])[0] == []
    assert notes([row(CASE, "invalid", red=True)], expected=[failure()])[0] == [], "cannot tell"
    assert notes(rows, expected=[failure("cirrus:.*")])[0] == []
    past_date = [failure(until=TODAY - timedelta(days=1))]
    assert notes(rows, expected=past_date)[0] == []


def test_runs_of_the_future_are_counted():
    night, known = Night([]), Known(FS3, {}, {}, (), DATABASE, future=2)
    add_notes(night, known, at(1), "iowatch AGAIN")
    assert night.notes == [
        f"2 run(s) in {DATABASE} are dated later than now: a clock was wrong; they count for "
        "nothing"
    ]
