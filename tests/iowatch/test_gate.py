"""What makes a night red besides its verdicts, and what is said of it."""

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from cases import case, changed
from nights import (
    BLESSED,
    MPIIO,
    NIGHT,
    OSTS,
    SLOW,
    USUAL,
    at,
    invalid,
    night_id,
    over_osts,
    ran,
    recorded,
    red,
    slow,
    tonight,
    unmeasured,
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
from iowatch.references import ExpectedFailure, Reference
from iowatch.run import Promise, day_of

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
    amber = {"verdict": "not_measured", "result": "skip", "perfvalues": {}}
    complete = session(reported(HDF5), reported(OTHER, **amber), num_skipped=1)
    assert problems(BOTH, complete) == faults(complete) == []
    absent = {**amber, "verdict": "left_out"}
    complete = session(reported(HDF5), reported(OTHER, **absent), num_skipped=1)
    assert problems(BOTH, complete) == faults(complete) == []
    waited = {"result": "abort", "verdict": "", "perfvalues": {}, "queued": "job 7 had no nodes"}
    complete = session(reported(HDF5), reported(OTHER, **waited), num_aborted=1)
    assert problems(BOTH, complete) == faults(complete) == []
    # What ReFrame has not counted as skipped explains nothing that it has.
    uncounted = {**waited, "result": "<unknown>"}
    for count, said in ((0, []), (1, ["1 check was skipped or aborted"])):
        incomplete = session(reported(HDF5), reported(OTHER, **uncounted), num_skipped=count)
        assert faults(incomplete) == said


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


def test_night_of_which_not_all_is_known_is_amber():
    night = tonight(*well(), *well(MPIIO), ran(), unmeasured(MPIIO))
    assert (night.colour, night.is_red) == ("amber", False)
    assert (night.brief, night.why) == (
        "Amber: 2 cases, 1 not measured",
        "not_measured: mpiio on fs3: in maintenance",
    )
    assert tonight(red(), unmeasured(MPIIO)).brief == "Red: 1 of 2 cases, 1 not measured"
    assert tonight(slow(), unmeasured(MPIIO)).why.startswith("not_measured: ")
    assert recorded(unmeasured()).brief == "Amber: 1 case, 1 not measured"
    for runs, colour in (
        ([invalid(hour=1), unmeasured(hour=5)], "red"),
        ([red(hour=1), unmeasured(hour=5)], "red"),
        ([ran(hour=1), unmeasured(hour=5)], "green"),
        ([unmeasured(hour=1), ran(hour=5)], "green"),
        ([unmeasured(hour=1), invalid(hour=5)], "red"),
    ):
        assert tonight(*runs).colour == colour, "what was tried counts"


def test_amber_night_is_no_past():
    before = [*well()[:-1], unmeasured(ago=1, rate=1)]
    (with_it,), (without_it,) = tonight(*before, ran()).cases, tonight(*well(), ran()).cases
    assert night_id(1) in without_it.good
    assert night_id(1) not in with_it.good
    assert with_it.usual == without_it.usual
    assert with_it.expected.value == pytest.approx(USUAL)
    (row,) = tonight(*well(), unmeasured(rate=1)).cases
    assert (row.rate, row.metrics, row.past, row.trend.rates[-1]) == (None, {}, None, None)


def test_case_that_nobody_guards_is_a_problem():
    def said(*runs, **known):
        night = night_of("archer", night_id(), sorted(runs, key=lambda run: run.time),
                         Known(**known), at(24))  # fmt: skip
        return [problem for problem in night.problems if "nobody" in problem]

    two = [*well(nights=5)[:4], unmeasured(ago=1), unmeasured()]
    assert said(*two) == []
    assert said(*two, unmeasured(ago=2, hour=9)) == [], "it was measured that night"
    three = [*well(nights=6)[:3], unmeasured(ago=2), unmeasured(ago=1), unmeasured()]
    assert said(*three) == [
        f"nobody guards 1 case, not measured on 3 nights in a row: {CASE}: find out why, or raise "
        "`amber_nights` in the site's file"
    ]
    assert said(*three, amber_nights={"fs3": 4}) == []
    assert said(*two, amber_nights={"fs3": 2})
    assert said(*three, ran(hour=5)) == []
    again = [unmeasured(ago=1, hour=h, night=f"{day_of(night_id(1))}T0{h}0000") for h in (2, 3)]
    assert said(*two, *again) == [], "all nights of a day are as one"


def test_what_was_left_out_is_a_note_and_no_past():
    """Its program has never been there; then it comes, and then it is lost."""
    none = {"kind": "left_out", "metrics": {}, "sentence": f"{MPIIO}: there is no ior"}
    before = [*well(), *(unmeasured(MPIIO, ago, **none) for ago in range(10, 0, -1))]
    night = tonight(*before, ran(), unmeasured(MPIIO, **none))
    assert (night.brief, night.colour) == ("Green: 1 case", "green")
    assert night.notes == ["1 case is left out (SharedFileWrite): there is no ior"]
    assert recorded(*before, ran()).problems == [], "nobody has ever measured it"
    (new,) = [row for row in tonight(*before, ran(), ran(MPIIO)).cases if row.case == MPIIO]
    assert new.earlier == {}
    assert tonight(*before, ran(), unmeasured(MPIIO)).problems == []


def test_ost_that_nobody_guards_is_a_problem():
    """Its case is measured, and green with a note, without it."""

    def without(*lost, **when):
        lost = {"OSTs not measured": " ".join(lost)} if lost else {}
        return ran(OSTS, metrics={"total_max": 700, "stable_max": 700}, conditions=lost, **when)

    def said(*runs, **known):
        runs = sorted([without(ago=9), *runs], key=lambda run: run.time)
        night = night_of("archer", night_id(), runs, Known(**known), at(24))
        return [problem for problem in night.problems if "nobody" in problem]

    two = [without("3", ago=1), without("3", "12")]
    assert said(*two) == []
    night = f"{day_of(night_id(1))}T050000"
    assert said(*two, without("3", ago=1, hour=5, night=night)) == [], "of the same day"
    three = [without("12", "3", ago=2), *two]
    assert said(*three) == [
        f"nobody guards 1 OST, not measured on 3 nights in a row: OST 3 of {OSTS}: find out why, "
        "or raise `amber_nights` in the site's file"
    ]
    assert said(*three, amber_nights={OSTS.partition: 4}) == []
    assert said(*three, without(hour=5)) == said(*three, without("12", ago=1, hour=5)) == []
    for missing in (unmeasured(OSTS), unmeasured(OSTS, hour=5), invalid(OSTS)):
        assert len(said(*three[:-1], missing)) == 1, "whatever else that night was"


def test_only_who_ran_the_night_can_say_green():
    night = tonight(ran(), blessed={CASE: BLESSED})
    assert (night.brief, night.why) == ("Green: 1 case", "Every case is as it should be.")
    night = replace(night, is_gated=False)
    assert night.brief == "Green, as far as it is on record: 1 case"
    assert night.why == (
        "Every case on record is as it should be; what never ran is not on record."
    )
    for other, brief in (
        (ran(kind="no_baseline"), "Green, as far as it is on record: 1 case"),  # in record mode
        (red(kind="no_baseline"), "Red: 1 of 1 case"),
    ):
        assert recorded(other).brief == brief


def test_night_without_a_baseline_does_not_say_that_all_is_well():
    night = tonight(ran(), ran(MPIIO), ran(OSTS), blessed={CASE: BLESSED})
    assert night.why == "No past judges 2 of 3 cases yet: bless good nights."
    assert recorded(ran()).why == (
        "No past judges 1 of 1 case yet: bless good nights; what never ran is not on record."
    )


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
    assert (night.notes, night.alarms) == ([], [])


def together(parts, nights=1, reruns=0, spread=0.1, more=(), expected=()):
    """Suspicious nights, with as many re-runs, in which these parts of HDF5's and of MPI-IO's
    bandwidth were left: {case: parts}. None of them is slow enough for an alarm of its own."""
    entry = replace(BLESSED, first=night_id(44), last=night_id(10), nights=34, spread=spread)
    blessed, runs = {}, []
    for one, (own, control) in parts.items():
        alone = {"ratio": None, "ratio_spread": None} if one.backend == "mpiio" else {}
        blessed[one] = replace(entry, **alone)
        runs += [ran(one, ago) for ago in range(44, nights - 1, -1)]
        is_low = {"kind": "suspect"} if own < 1 else {}
        values = {"rate": own * USUAL, "control": control * USUAL, **is_low}
        runs += [
            ran(one, ago, 1 + 4.1 * number, **values)
            for ago in range(nights - 1, -1, -1)
            for number in range(1 + reruns if is_low else 1)
        ]
    runs = [run for run in runs if not any((run.case, run.time) == (m.case, m.time) for m in more)]
    options = {"again": "iowatch AGAIN", "now": at(2), "expected": expected}
    return tonight(*runs, *more, blessed=blessed, **options)


PAIRS = [changed(one, writers=writers) for one in CASES for writers in (48, 96)]


def test_filesystem_that_is_slow_tonight_is_one_suspicion_and_a_few_cases_tell():
    night = together(dict.fromkeys(PAIRS, (0.6, 0.6)))
    (alarm,) = night.alarms
    assert alarm.sentence == (
        "fs3: 8 of 8 cases are slow tonight; together they are 40% below their baselines; 5 of "
        "them are run again to tell whether it lasts"
    )
    assert (alarm.kind, {row.case for row in alarm.rows}) == ("suspect", {*PAIRS})
    assert (night.brief, night.why) == (
        "Green: fs3 is slow tonight, 8 cases", f"suspect: {alarm.sentence}"
    )  # fmt: skip
    assert len(night.reruns) == 5
    assert alarm.held == {*PAIRS} - {*night.reruns}
    due = "5 cases are suspect, and re-runs are due from 2026-11-20 05:00 UTC: iowatch AGAIN"
    assert night.notes == [due], "the others wait for what these five say"
    much = together({**dict.fromkeys(PAIRS, (0.6, 0.6)), PAIRS[-1]: (0.2, 0.2)})
    assert PAIRS[-1] in much.reruns, "it is slower than its filesystem"
    (word,) = together(dict.fromkeys(PAIRS, (0.4, 0.4))).alarms
    assert word.said.startswith("every one of its 8 cases is below 50% of its baseline tonight;")


def test_rerun_that_was_not_measured_tells_nothing_of_a_filesystem():
    away = [make(PAIRS[0], hour=1.5) for make in (unmeasured, invalid)]
    (first,) = together(dict.fromkeys(PAIRS, (0.6, 0.6))).alarms
    assert PAIRS[0] in first.due
    (again,) = together(dict.fromkeys(PAIRS, (0.6, 0.6)), more=away).alarms
    assert again.due == first.due, "its re-run is still due"


def test_what_is_not_measured_is_no_member_of_an_alarm():
    away = [unmeasured(one, rate=0.6 * USUAL) for one in PAIRS[:2]]
    night = together(dict.fromkeys(PAIRS, (0.6, 0.6)), more=away)
    (alarm,) = night.alarms
    assert alarm.said.startswith("6 of 6 cases are slow tonight; together they are 40% below ")
    assert {row.case for row in alarm.rows} == {*PAIRS[2:]}
    assert not {*PAIRS[:2]} & {*night.reruns, *alarm.held}
    assert night.brief == "Amber: fs3 is slow tonight, 8 cases, 2 not measured"


def test_filesystem_that_stays_slow_is_one_red_alarm():
    night = together(dict.fromkeys(PAIRS, (0.7, 0.7)), 4, 4, spread=0.2)
    (alarm,) = night.alarms
    assert alarm.sentence == (
        "fs3: 8 of 8 cases are slow tonight; together they have been 30% below their baselines "
        "since 2026-11-17 (alarm of 2026-11-19): the filesystem, not one of its I/O paths"
    )
    assert night.is_red
    assert not night.red
    assert (night.brief, night.why) == ("Red: fs3 is slow, 8 cases", alarm.sentence)
    fault = ExpectedFailure(re.compile(".*writers=(48|96)"), NIGHT, "ticket 4711")
    known = together(dict.fromkeys(PAIRS, (0.7, 0.7)), 4, 4, spread=0.2, expected=[fault])
    assert not known.is_red
    assert known.alarms[0].sentence == f"{alarm.sentence} (expected until 2026-11-20: ticket 4711)"
    severe = together(dict.fromkeys(PAIRS, (0.4, 0.4)), 1, 4)
    assert [str(alarm.kind) for alarm in severe.alarms] == ["severe"]
    assert severe.is_red


def test_alarm_of_a_case_is_not_hidden_by_a_suspicion_of_its_filesystem():
    before = [slow(PAIRS[0], ago, 1 + 4.1 * number) for ago in (3, 2, 1) for number in range(5)]
    now = red(PAIRS[0], rate=SLOW, sentence=f"{PAIRS[0]}: has been slow for long")
    night = together(dict.fromkeys(PAIRS, (0.6, 0.6)), more=[*before, now])
    assert [(str(alarm.kind), alarm.merged) for alarm in night.alarms] == [("suspect", frozenset())]
    assert "mpiio" in night.why, "the red case comes first"
    assert night.is_red


def test_one_slow_case_is_its_own_alarm():
    night = together({**dict.fromkeys(PAIRS, (1, 1)), PAIRS[0]: (0.5, 0.5)}, 6, 4)
    assert (night.alarms, night.merged) == ([], {})


def test_library_that_is_slow_is_named_with_where_it_is():
    at_fs2 = [changed(one, place="archer:fs2/cray") for one in PAIRS]
    parts = {one: (0.6, 1) if one.backend == "hdf5" else (1, 1) for one in (*PAIRS, *at_fs2)}
    night = together(parts, 3, 4)
    (alarm,) = night.alarms
    assert (alarm.what, len(alarm.rows)) == ("hdf5", 4)
    assert alarm.said.startswith(
        "4 of 4 cases are slow tonight; together they have been 40% below their usual ratios to "
        "MPI-IO since 2026-11-18 (alarm of 2026-11-19): the library, not the filesystem; the "
        "worst: hdf5 on fs2, 48 writers: the stable rate is 4620 of the expected 7700 MiB/s"
    )
    well_again = [ran(one) for one in at_fs2 if one.backend == "hdf5"]
    (alarm,) = together(parts, 3, 4, more=well_again).alarms
    assert alarm.what == "hdf5", "it was slow on both, and on neither are there cases for a chart"
    sizes = [changed(one, writers=writers) for one in CASES for writers in (48, 96, 144, 192)]
    at_fs2 = [changed(one, place="archer:fs2/cray") for one in sizes]
    parts = dict.fromkeys((*sizes, *at_fs2), (1, 1))
    parts |= {one: (0.6, 1) for one in sizes if one.backend == "hdf5"}
    (alarm,) = together(parts, 3, 4).alarms
    assert alarm.what == "hdf5 on fs3"
    assert ": the library's path there, not the filesystem; the worst: hdf5 on fs3" in alarm.said


def test_nodes_on_which_every_case_is_slow():
    def on(host, cases, **told):
        return [ran(one, conditions={"hosts": f"n1 {host}"}, **told) for one in cases]

    slow_there = on("n7", PAIRS[:2], kind="suspect", rate=SLOW)
    (alarm,) = tonight(*slow_there, *on("n8", PAIRS[2:])).alarms
    assert alarm.sentence == (
        "node n7: the 2 cases that ran there are slow tonight, and none of the 6 that ran "
        "elsewhere on the same filesystem: the node, not the filesystem"
    )
    assert (alarm.kind, alarm.merged) == ("suspect", frozenset())
    assert tonight(*slow_there, *on("n7", PAIRS[2:])).alarms == [], "others were well there"
    assert tonight(*slow_there).alarms == [], "nothing ran elsewhere"


def test_slow_ost_and_the_cases_over_all_of_them():
    osts = changed(MPIIO, "SlowOst")
    metrics = {"total_max": 700, "ost_ratio": 0.3, "ost_0": 600, "ost_1": 200, "ost_2": 700}
    bound = {"ost_ratio": Reference(1.0, -0.5, None)}
    of_osts = red(osts, metrics=metrics, kind="defect", references=bound)
    one = PAIRS[0]
    night = tonight(of_osts, ran(PAIRS[1]), slow(one))
    (alarm,) = night.alarms
    assert alarm.sentence == (
        "OSTs of fs3: slow to write: OST 1 (200 MiB/s, 0.31 of its peers); every case "
        "that is slow writes to all OSTs (1)"
    )
    assert [row.case for row in alarm.rows] == [osts, one]


def test_ost_that_gets_slow_over_weeks_is_named_before_it_is_half_as_fast():
    def one(ost, operation, ago):
        return 0.975 ** max(0, 20 - ago) if (ost, operation) == (2, "write") else 1.0

    night = over_osts(1, one)
    (alarm,) = night.alarms
    said = re.fullmatch(
        r"OST 2 of fs3: slow to write: (\d\d)% slower beside its peers than usual since "
        r"2026-11-(\d\d); tonight 0\.[56]\d of its peers' median, usually (0\.99|1\.0\d)",
        alarm.sentence,
    )
    assert said, alarm.sentence
    assert 15 < int(said[1]) < 35
    assert 1 <= int(said[2]) <= 8, "it began on the 1st"
    assert (str(alarm.kind), night.is_red, night.why) == ("regression", True, alarm.sentence)
    assert ([row.case for row in alarm.rows], alarm.merged, night.reruns) == ([OSTS], {*()}, {})
    assert night.brief == "Red: OST 2 of fs3 is slow, 1 case"


def test_ost_that_is_slow_tonight_has_its_case_run_again():
    def only_tonight(ost, operation, ago):
        return 0.7 if (ost, operation, ago) == (4, "read", 0) else 1.0

    night = over_osts(1, only_tonight)
    (alarm,) = night.alarms
    assert re.fullmatch(
        r"OST 4 of fs3: slow to read: tonight 0\.\d\d of its peers' median, usually \d\.\d\d; "
        "it is measured again to tell whether it lasts",
        alarm.sentence,
    )
    assert (str(alarm.kind), night.is_red) == ("suspect", False)
    assert night.reruns == {OSTS: at(5)}
    assert night.notes == [
        "1 case can tell whether a suspicion lasts, and re-runs are due from 2026-11-20 05:00 UTC: "
        "iowatch AGAIN"
    ]

    def for_five_nights(ost, operation, ago):
        return 0.7 if (ost, operation) == (4, "read") and ago < 5 else 1.0

    (alarm,) = over_osts(5, for_five_nights).alarms
    assert alarm.said.startswith("slow to read: 28% slower beside its peers than usual since 2026")

    def to_a_third(ost, operation, ago):
        return for_five_nights(ost, operation, ago) ** 3

    told = {"kind": "defect", "result": "fail"}
    told["references"] = {"ost_read_ratio": Reference(1.0, -0.5, None)}
    (third,) = over_osts(5, to_a_third, **told).alarms
    assert (third.what, third.merged) == ("OST 4 of fs3", {OSTS}), "it says why the case is red"
    over_all = slow(PAIRS[0])
    (both,) = over_osts(5, to_a_third, over_all, ran(PAIRS[1]), **told).alarms
    assert both.what == "OSTs of fs3", "said once"
    assert "slow to read: OST 4 (" in both.said


def test_osts_that_come_or_go_are_no_alarm():
    def grown(ost, operation, ago):
        """The first three go, and the last three come, which are three times as fast."""
        new = 3.0 if ago < 12 else 0.0
        return [1.0 if ago else 0.0, 1.0, 1.0, new, new, new][ost]

    assert over_osts(1, grown).alarms == []

    def gone(ost, operation, ago):
        """Three of them are always slower; of the others, all but one go, and come again."""
        return 0.6 if ost < 3 else 0.0 if ost > 3 and ago < 12 else 1.0

    assert over_osts(1, gone).alarms == []


def test_alarms_of_half_of_the_cases_are_one_without_a_chart():
    def alarms(cases, healthy=(), **changes):
        """The last of two weeks. Without re-runs an alarm takes so long; it is two nights old."""
        entry = replace(BLESSED, last=night_id(14), ratio=None, ratio_spread=None)
        runs = [ran(one, ago) for one in (*cases, *healthy) for ago in range(27, 13, -1)]
        for one in (*cases, *healthy):
            told = {"rate": SLOW, **changes} if one in cases else {}
            runs += [(red if told else ran)(one, ago, **told) for ago in range(13, -1, -1)]
        return tonight(*runs, blessed=dict.fromkeys((*cases, *healthy), entry))

    night = alarms(CASES[:2], CASES[2:3])
    (alarm,) = night.alarms
    assert {*night.merged} == {*CASES[:2]}
    assert re.fullmatch(
        r"fs3: 2 of 3 cases are slow, 61% \(median\) below their baselines since 2026-11-\d\d: "
        r"the filesystem, not one of its I/O paths",
        alarm.sentence,
    )
    assert night.why == alarm.sentence
    partitions = [CASES[0], changed(CASES[0], place="archer:fs3-big/cray")]
    assert {*alarms(partitions, filesystem="fs3").merged} == {*partitions}
    assert alarms(CASES[:2], kind="defect").merged == {}, "it is red for another reason"
    (known,) = alarms(CASES[:2], result="xfail").alarms
    assert (known.is_red, known.label, known.merged) == (False, "regression (known)", frozenset())


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
    nights_before = [ran(ago=3), ran(ago=2, metrics=judged), unmeasured(ago=1, metrics={})]
    assert said(*nights_before, ran()), "nobody could know last night"
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
    assert said(invalid()) == said(unmeasured()) == [], "cannot tell"
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
