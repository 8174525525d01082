"""What makes a night red besides its verdicts, and what is said of it."""

import re
from dataclasses import replace
from datetime import date, timedelta
from itertools import cycle

import pytest
from cases import case, changed
from nights import (
    BLESSED,
    MPIIO,
    NIGHT,
    SLOW,
    USUAL,
    at,
    invalid,
    night_id,
    ran,
    recorded,
    red,
    slow,
    tonight,
    well,
)
from nights import HDF5 as CASE
from reported import FIXTURE, HDF5, reported, session

from iowatch.files import UserError
from iowatch.history import runs_of
from iowatch.night.gate import (
    Known,
    Night,
    broken_promises,
    faults,
    lost_baselines,
    night_of,
    problems_of,
)
from iowatch.references import ExpectedFailure
from iowatch.run import Promise

OTHER = changed(HDF5, backend="mpiio")
VERSIONS = case("LibraryVersions")
PROFILE = case("IoProfile")
BOTH = {HDF5, OTHER}


def problems(expected, found):
    return list(problems_of(expected, found, list(runs_of(found)) if found else []))


def without(name, **values):
    measured = reported(HDF5)["perfvalues"]
    del measured[f"local:tmpfs:{name}"]
    return {"perfvalues": measured | values}


def test_complete_night_has_no_problem():
    complete = session(FIXTURE, reported(HDF5), reported(OTHER))
    assert problems(BOTH, complete) == faults(complete) == []
    every = {HDF5, VERSIONS, PROFILE}
    assert problems(every, session(*map(reported, every))) == []


def test_incomplete_night_says_what_is_missing():
    hdf5, other = reported(HDF5), reported(OTHER)
    broken = {**FIXTURE, "result": "fail", "fail_reason": "sanity error: benchio\n does not build"}
    builds = "BuiltBenchio: sanity error: benchio does not build"
    stopped = reported(OTHER, result="abort", verdict="", perfvalues={})
    lost = "its verdict is ok, and it has no"
    red_and_empty = {"result": "fail", "verdict": "regression", "perfvalues": {}}
    expected = [
        (BOTH, None, [f"2 of 2 cases were not run: {HDF5}, {OTHER}"]),
        (BOTH, session(other), [f"1 of 2 cases was not run: {HDF5}"]),
        (BOTH, session(hdf5, other, num_skipped=1), ["1 check was skipped or aborted"]),
        (BOTH, session(hdf5, other, num_aborted=2), ["2 checks were skipped or aborted"]),
        (
            BOTH,
            session(hdf5, stopped, num_aborted=1),
            [f"1 of 2 cases was not run: {OTHER}", "1 check was skipped or aborted"],
        ),
        (BOTH, session(hdf5, hdf5, other), ["a case ran more than once"]),
        ({HDF5}, session(hdf5, other), [f"1 case ran that nobody asked for: {OTHER}"]),
        (set(), None, ["the site's configuration asks for no case: nothing was measured"]),
        ({HDF5}, session(broken), [builds, f"1 of 1 case was not run: {HDF5}"]),
        (
            {HDF5},
            session({**FIXTURE, "result": "xpass"}, hdf5),
            ["BuiltBenchio: passed, and ReFrame expects it to fail"],
        ),
        ({HDF5, VERSIONS}, session(hdf5), [f"1 of 2 cases was not run: {VERSIONS}"]),
        ({HDF5, PROFILE}, session(hdf5), [f"1 of 2 cases was not run: {PROFILE}"]),
        ({HDF5}, session(reported(HDF5, **without("ratio"))), [f"{HDF5}: {lost} ratio"]),
        (
            {HDF5},
            session(reported(HDF5, **without("ratio", **{"local:tmpfs:ratio": [None, 0]}))),
            [f"{HDF5}: {lost} ratio"],
        ),
        (
            {HDF5},
            session(reported(HDF5, **red_and_empty)),
            [f"{HDF5}: its verdict is regression, and it has no {', '.join(HDF5.metrics)}"],
        ),
        ({HDF5}, session(reported(HDF5, **(red_and_empty | {"verdict": "invalid"}))), []),
    ]
    for asked, found, said in expected:
        assert problems(asked, found) == said
    of_build = session({**broken}, hdf5, num_skipped=1)
    assert faults(of_build) == [builds, "1 check was skipped or aborted"], "of no case"


def test_case_that_is_promised_and_not_asked_for_is_a_problem():
    other = "if its changes do not say why, install that of before"

    def said(asked, count, *runs):
        found = list(broken_promises(Promise(count, "5e"), asked, night_id(), runs))
        assert all(problem.endswith(f": another iowatch is at work: {other}") for problem in found)
        return [problem.partition(": another")[0] for problem in found]

    def nights(*sources, of=(CASE, MPIIO), count=2):
        """The last is tonight."""
        return [
            ran(one, len(sources) - 1 - number, promise=Promise(count, source) if source else None)
            for number, source in enumerate(sources)
            for one in of
        ]

    both, last = {CASE, MPIIO}, night_id(1)
    same = f"the site's file is as it was in the night {last}, which promised 2 cases"
    gone = [f"{same}, and not all are asked for now: {MPIIO}"]
    unnamed = [f"{same}, and not all are asked for now"]
    fewer = ["the site's file promises 2 cases, and 1 are asked for"]
    assert said(both, 2) == said(both, 2, *nights("5e", "5e")) == []
    assert said({CASE}, 2) == fewer
    assert said(both, 1) == ["the site's file promises 1 case, and 2 are asked for"]
    assert said({CASE}, 1, *nights("5e", "5e")) == gone
    assert said({CASE}, 2, *nights("5e", "5e")) == fewer + gone
    assert said({CASE}, 1, *nights("5e", "5e", of=[CASE])) == unnamed, "it was not measured then"
    swapped = {CASE, changed(MPIIO, backend="posix")}
    assert said(swapped, 2, *nights("5e", "5e")) == gone
    assert said({CASE}, 1, *nights("7a", "5e")) == [], "the site's file is another"
    assert said({CASE}, 1, *nights("", "5e")) == [], "nothing is known of the nights before"
    assert said({CASE}, 1, *nights("5e")) == [], "tonight is not the past"
    assert said({CASE}, 1, *nights("5e", "7a", "5e")) == [
        g.replace(last, night_id(2)) for g in gone
    ]


def test_of_many_cases_a_few_are_named():
    many = {changed(CASE, writers=number) for number in range(2, 22)}
    for (said,) in (problems(many, None), recorded(*(ran(c, 1) for c in many), ran()).problems):
        assert said.startswith("20 ")
        assert (said.count("archer:"), said[-5:]) == (12, ", ...")


def test_problem_or_red_case_makes_the_night_red():
    assert not tonight(ran()).is_red
    assert tonight(ran(), problems=["no disk"]).is_red
    assert tonight(red()).is_red
    assert not tonight(red(result="xfail")).is_red
    assert Night("archer", night_id(), problems=["no disk"]).is_red
    found = tonight(ran(), problems=["no disk"])
    assert (found.brief, found.why) == ("Red: 1 case, 1 problem with the night", "no disk")


def test_only_who_ran_the_night_can_say_green():
    night = tonight(ran())
    assert (night.brief, night.why) == ("Green: 1 case", "Every case is as it should be.")
    night = recorded(ran())
    assert night.brief == "Green, as far as it is on record: 1 case"
    assert night.why == (
        "Every case on record is as it should be; what never ran is not on record."
    )
    for other, brief in (
        (ran(kind="no_baseline"), "Green, as far as it is on record: 1 case"),  # in record mode
        (red(kind="no_baseline"), "Red: 1 of 1 case"),
    ):
        assert recorded(other).brief == brief


def test_case_that_was_not_measured_makes_the_record_red():
    night = recorded(*well(), *well(MPIIO), ran())
    assert night.brief == "Red: 1 case, 1 problem with the night"
    assert night.problems == [f"1 case was not measured, unlike on most nights before: {MPIIO}"]
    assert night.why == night.problems[0]
    assert recorded(*well(), ran(MPIIO, 3), ran()).problems == [], "measured once only"


def test_night_or_system_that_is_not_on_record():
    night = recorded(*well(), red(rate=100), night=f"{NIGHT - timedelta(1)}")
    assert (night.id, night.brief) == (night_id(1), "Green, as far as it is on record: 1 case")
    assert max(night.cases[0].trend.nights) == NIGHT - timedelta(1)
    told = f"^no night of 2026-11-21 is on record for archer: the first is {night_id()}, the last "
    with pytest.raises(UserError, match=told):
        recorded(ran(), night="2026-11-21")
    with pytest.raises(UserError, match=r"^no night of system cirrus .* record: archer$"):
        recorded(ran(), system="cirrus")


def test_worst_first_and_of_two_the_slower():
    kinds = ["ok", "suspect", "regression", "improvement", "invalid", "noisy", "severe", "defect"]
    runs = [
        (red if kind in ("regression", "invalid", "severe", "defect") else ran)(
            changed(CASE, writers=number + 1), kind=kind
        )
        for number, kind in enumerate(kinds)
    ]
    assert [row.kind for row in tonight(*runs).worst_first] == [
        *("invalid", "severe", "defect", "regression"),
        *("suspect", "improvement", "noisy", "ok"),
    ]
    other = changed(CASE, place="archer:fs2/cray")
    night = tonight(*well(), *well(other), red(rate=5000), red(other, rate=2000))
    assert [row.case for row in night.worst_first] == [other, CASE]


# Notes

CASES = [changed(CASE, backend=name) for name in ("mpiio", "hdf5", "netcdf", "pnetcdf")]
MONTH = [*well(nights=40), ran()]


def test_usual_night_needs_no_note():
    night = tonight(*MONTH, blessed={CASE: BLESSED}, again="iowatch AGAIN")
    assert (night.notes, night.merged) == ([], frozenset())


def common(low, healthy=(), filesystems=("fs3",), **changes):
    """The last of two weeks in which these cases were slow, among others that were not.

    Without re-runs it takes so long; the alarm itself is two nights old.
    """
    cases = (*low, *healthy)
    blessed = {one: replace(BLESSED, last=night_id(14), ratio=None) for one in cases}
    runs = [ran(one, ago) for one in cases for ago in range(27, 13, -1)]
    for one, name in zip(cases, cycle(filesystems), strict=False):
        for ago in range(13, -1, -1):
            told = {"rate": SLOW, **changes} if one in low else {}
            runs.append((red if told else ran)(one, ago, filesystem=name, **told))
    night = tonight(*runs, blessed=blessed)
    return night, [note for note in night.notes if "the filesystem" in note]


def test_alarm_of_a_filesystem_is_one():
    night, (note,) = common(CASES[:2], CASES[2:])
    assert night.merged == frozenset(CASES[:2])
    assert re.fullmatch(
        r"fs3: 2 of 4 cases are slow, by 61% \(median\) since 2026-11-\d\d: the filesystem, not "
        r"one of its I/O paths",
        note,
    )
    assert night.why == note
    assert common(CASES[:1], CASES[1:])[1] == [], "one slow case is its own alarm"
    partitions = [CASES[0], changed(CASES[0], place="archer:fs3-big/cray")]
    assert common(partitions)[0].merged == frozenset(partitions)
    assert common(partitions, filesystems=["fs3", "another"])[1] == []


def test_row_that_is_red_for_another_reason_keeps_its_sentence():
    assert common(CASES[:2])[0].merged == frozenset(CASES[:2])
    assert common(CASES[:2], kind="defect")[0].merged == frozenset()
    night, notes = common(CASES[:2], result="xfail")
    assert (night.merged, len(notes)) == (frozenset(), 1)


def test_suspects_and_when_they_are_due():
    def said(*hours, now):
        runs = [*MONTH[:-1], *(slow(hour=hour) for hour in hours)]
        return tonight(*runs, blessed={CASE: BLESSED}, now=at(now), again="iowatch AGAIN").notes

    due = "1 case is suspect, and re-runs are due"
    assert said(1, now=2) == [f"{due} from 2026-11-20 05:00 UTC: iowatch AGAIN"]
    assert said(1, now=6) == [f"{due} now: iowatch AGAIN"]
    over = "1 case is suspect, and will not run again tonight"
    assert said(1, 5, 9, 13, 17, now=18) == [over]


def test_noisy_cases_are_counted():
    runs = [ran(CASES[0], kind="noisy"), *map(ran, CASES[1:])]
    assert tonight(*runs).notes == [
        "1 of 4 cases is noisy, with too much variation to show a drop of 30% within 7 nights"
    ]


def test_baselines_that_are_not_what_the_detector_takes_them_for():
    other = replace(BLESSED, settings="0" * 8)
    (note,) = tonight(*MONTH, blessed={CASE: other}).notes
    assert note.startswith("1 case was blessed under other thresholds of the detector: ")
    assert tonight(*MONTH, blessed={MPIIO: other}).notes == [], "not measured tonight"
    same_day = replace(other, blessed=NIGHT)
    assert tonight(*MONTH, blessed={CASE: same_day}).notes == [note], "in force from its day on"
    later = replace(BLESSED, settings="0" * 8, blessed=NIGHT + timedelta(1))
    assert tonight(*MONTH, blessed={CASE: later}).notes == [], "not in force yet"


def test_blessed_nights_that_are_not_on_record_are_a_problem():
    """Unless the site said that they were archived."""
    lost = "the blessed nights of 1 case are not on record, and slow nights since then may be "
    lost += f"missing too: {CASE}"
    blessed = replace(BLESSED, nights=31)  # on record, of the last 40 nights

    def said(runs, archived=None, blessed=blessed):
        days = {CASE.partition: NIGHT - timedelta(archived)} if archived else {}
        known = {"blessed": {CASE: blessed}, "archived": days}
        ordered = sorted(runs, key=lambda run: run.time)
        night = night_of("archer", night_id(), ordered, Known(**known), at(24))
        assert list(recorded(*runs, **known).problems) == list(night.problems)
        assert [problem[: len(lost)] for problem in night.problems] in ([], [lost])
        return bool(night.problems)

    complete, begun_anew, first = MONTH, MONTH[-6:], MONTH[-1:]
    part, torn = MONTH[-20:], [run for run in MONTH if run.night != night_id(25)]
    assert not said(complete)
    for runs in (begun_anew, first, part, torn):
        assert said(runs)
    older = [ran(CASE, ago) for ago in range(80, 40, -1)]
    assert said(older + begun_anew), "as many nights, from before those that were blessed"
    no_rate = [run if run.night != night_id(25) else invalid(ago=25) for run in MONTH]
    assert said(no_rate), "another night than the one that was blessed"
    # Up to which night they were archived: the last blessed one was the tenth before tonight.
    assert not said(first, archived=10)
    assert said(first, archived=11)
    assert not said(part, archived=20)
    assert not said(complete, archived=41)
    assert said(begun_anew, archived=20)
    assert said(torn, archived=41)
    only_days = replace(blessed, first=night_id(40)[:10], last=night_id(10)[:10])
    assert not said(complete, blessed=only_days)
    assert not said(first, archived=10, blessed=only_days)
    assert said(first, archived=11, blessed=only_days)
    blessed_since = replace(BLESSED, last=night_id(), blessed=NIGHT)
    assert not said(first, blessed=blessed_since), "by this night, too"


def test_baseline_that_was_lost_is_a_problem():
    judged = {**ran().metrics, "drift": 0.1}  # as of a case that has one

    def said(*runs, **options):
        return list(lost_baselines(tonight(*runs, **options).cases))

    before = [ran(ago=2), ran(ago=1, metrics=judged)]
    assert said(*before, ran()) == [
        f"the baseline of 1 case is gone since the night before: {CASE}: restore "
        "reference_values/baselines, or bless again"
    ]
    assert said(*before, ran(), blessed={CASE: BLESSED}) == []
    assert said(ran(metrics=judged)) == [], "its first night"
    assert said(ran(ago=2, metrics=judged), ran(ago=1), ran()) == [], "known since the night before"
    assert said(*before, invalid(ago=1, hour=5), ran()), "a re-run failed"
    many = [changed(CASE, writers=n) for n in (1, 2)]
    runs = [r for c in many for r in (ran(c, 1, metrics=judged), ran(c))]
    assert said(*runs)[0].startswith("the baseline of 2 cases is gone")


def test_expected_failure_of_too_much_is_a_note_of_every_night():
    forever = ExpectedFailure(re.compile("archer:.*"), date(9999, 12, 31), "ticket 4711")
    for runs in ([red(result="xfail")], [red()], [invalid()], [red(result="xfail"), ran(MPIIO)]):
        assert tonight(*runs, expected=[forever]).notes[-1] == (
            "archer:.*: excuses until 9999-12-31, more than a year ahead and cases that it does "
            "not name: give its entry in expected_failures/ a day within a year, and a case "
            "that names a filesystem, environment, check or backend"
        )
    found = recorded(*well(), ran(), expected=[forever]).notes
    assert any("excuses until 9999-12-31" in note for note in found)
    one = ExpectedFailure(re.compile("archer:fs3/.*"), NIGHT, "ticket 4711")
    assert tonight(red(result="xfail"), expected=[one]).notes == []


def test_expected_failure_that_does_not_show():
    def failure(pattern="archer:fs3/.*", until=NIGHT):
        return ExpectedFailure(re.compile(pattern), until, "ticket 4711")

    def said(*runs, entry=None):
        return tonight(*runs, expected=[entry or failure()]).notes

    two = [ran(CASES[0]), ran(CASES[1])]
    well = f"it does not fail, although it is expected until {NIGHT}: ticket 4711: "
    well += "remove the entry if the fault is mended"
    assert said(*two) == [f"archer:fs3/.*: {well}"]
    assert said(*two, red(CASES[2], kind="defect", result="xfail")) == []
    assert said(invalid()) == [], "cannot tell"
    assert said(*two, entry=failure("cirrus:.*")) == []
    assert said(*two, entry=failure(until=NIGHT - timedelta(1))) == []
    night = tonight(red(result="xfail"), expected=[failure()])
    assert not night.is_red
    assert night.cases[0].known == "expected until 2026-11-20: ticket 4711"
    assert night.cases[0].label == "regression (known)"


def test_runs_of_the_future_are_counted():
    future = [ran(ago=-400), ran(MPIIO, ago=-3)]
    assert tonight(*MONTH, *future, blessed={CASE: BLESSED}).notes == [
        "2 runs are on record with a time later than now: a clock was wrong, and what it dated "
        "does not count"
    ]
    jumped = [*future, ran(ago=1, time=at(ago=-400))]  # in the midst of its night
    assert tonight(*MONTH, *jumped, blessed={CASE: BLESSED}).notes[-1].startswith("3 runs are on")
    rate = tonight(*MONTH, *future).cases[0].expected.value
    assert rate == pytest.approx(USUAL)
