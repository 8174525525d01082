"""What makes a night red besides its verdicts, and what is said of it."""

import re
from datetime import date, timedelta

import pytest
from attrs import evolve
from cases import case, changed
from nights import (
    BLESSED,
    MPIIO,
    NIGHT,
    OSTS,
    SLOW,
    USUAL,
    at,
    in_words,
    night_id,
    over_osts,
    ran,
    recorded,
    red,
    slow,
    tonight,
    unmeasured,
    unverified,
    well,
)
from nights import HDF5 as CASE
from refusals import assert_refused
from reported import FIXTURE, HDF5, reported, session

from iowatch.base.files import UserError
from iowatch.cases.metric import Reference
from iowatch.cases.run import Promise, day_of
from iowatch.night.gate import broken_promises, lost_guards, night_of, problems_of
from iowatch.night.night import Night
from iowatch.night.record import SystemRecord
from iowatch.past.history import faults, runs_of
from iowatch.site.declared import ExpectedFailure

OTHER = changed(HDF5, backend="mpiio")
VERSIONS = case("LibraryVersions")
PROFILE = case("IoProfile")
BOTH = {HDF5, OTHER}
MINE = {CASE: BLESSED}
#: A run in record mode.
RECORDED = {"verdict": "unjudged (no_reference)"}


# A session


def problems(expected, measured):
    return list(problems_of(expected, measured, list(runs_of(measured)) if measured else []))


def without(name, **values):
    """A run that lacks a metric, or has it as given."""
    measured = reported(HDF5)["perfvalues"]
    del measured[f"local:tmpfs:{name}"]
    return reported(HDF5, perfvalues=measured | values)


STOPPED = reported(OTHER, result="abort", verdict="", perfvalues={})
AMBER = reported(OTHER, result="skip", verdict="unjudged (maintenance)", perfvalues={})


def test_complete_night_has_no_problem():
    every = {HDF5, VERSIONS, PROFILE}
    assert problems(every, session(*map(reported, every))) == []
    for other, counts in (
        (reported(OTHER), {}),
        (AMBER, {"num_skipped": 1}),
        ({**AMBER, "verdict": "skipped (not_installed)"}, {"num_skipped": 1}),
        ({**STOPPED, "queued": "job 7 had no nodes"}, {"num_aborted": 1}),
    ):
        complete = session(FIXTURE, reported(HDF5), other, **counts)
        assert problems(BOTH, complete) == faults(complete) == []
    # What ReFrame has not counted as skipped explains nothing that it has.
    uncounted = {**STOPPED, "queued": "job 7 had no nodes", "result": "<unknown>"}
    assert faults(session(reported(HDF5), uncounted)) == []
    assert len(faults(session(reported(HDF5), uncounted, num_skipped=1))) == 1
    # It has a case, and nobody knows why it was not measured.
    for verdict in ("", "ok", "failed (io_error)"):
        skipped = reported(OTHER, result="skip", verdict=verdict)
        (lost,) = faults(session(reported(HDF5), skipped, num_skipped=1))
        assert lost == "1 check was skipped or aborted"


def test_incomplete_night_says_what_is_missing(golden):
    hdf5, other = reported(HDF5), reported(OTHER)
    broken = {**FIXTURE, "result": "fail", "fail_reason": "sanity error: benchio\n does not build"}
    empty = {"result": "fail", "verdict": "regression (own_past)", "perfvalues": {}}
    text = []
    for title, asked, measured in (
        ("no report", BOTH, None),
        ("one of two", BOTH, session(other)),
        ("skipped", BOTH, session(hdf5, other, num_skipped=1)),
        ("aborted", BOTH, session(hdf5, other, num_aborted=2)),
        ("stopped", BOTH, session(hdf5, STOPPED, num_aborted=1)),
        ("twice", BOTH, session(hdf5, hdf5, other)),
        ("one too many", {HDF5}, session(hdf5, other)),
        ("nothing asked for", set(), None),
        ("what was to be built is not", {HDF5}, session(broken)),
        ("no failure", {HDF5}, session({**FIXTURE, "result": "xpass"}, hdf5)),
        ("no versions", {HDF5, VERSIONS}, session(hdf5)),
        ("no profile", {HDF5, PROFILE}, session(hdf5)),
        ("no ratio", {HDF5}, session(without("ratio"))),
        ("ratio of nothing", {HDF5}, session(without("ratio", **{"local:tmpfs:ratio": [None, 0]}))),
        ("regression without a rate", {HDF5}, session(reported(HDF5, **empty))),
    ):
        wrong = problems(asked, measured)
        assert wrong, title
        text += [f"# {title}", *wrong]
    golden("problems.txt", "\n".join(text) + "\n")
    assert (
        problems({HDF5}, session(reported(HDF5, **(empty | {"verdict": "failed (io_error)"}))))
        == []
    )
    assert len(faults(session(broken, hdf5, num_skipped=1))) == 2, "of no case"


def test_what_several_cases_rest_on_is_one_problem_with_its_cause():
    """Wherever it failed; cases elsewhere that were not run have another cause."""
    places = (("tmpfs", "gnu"), ("disk", "gnu"))
    why = {"result": "fail", "fail_reason": "sanity error: /b/.lock is held by process 7 on n1"}
    built = {**FIXTURE, **why, "fixture": True}
    failed = [{**built, "partition": p, "environ": e} for p, e in places]
    rest = {**FIXTURE, "result": "fail_deps", "fail_reason": None}
    asked = {HDF5, OTHER, changed(HDF5, place="local:disk/gnu")}
    elsewhere = changed(HDF5, place="local:else/gnu")
    measured = session(*failed, rest, rest, num_skipped=2)
    name = FIXTURE["display_name"]
    told = (
        f"3 of 3 cases were not run: {name}, {name}: "
        "sanity error: /b/.lock is held by process 7 on n1"
    )
    assert problems(asked, measured) == [told]
    assert problems(asked | {elsewhere}, measured) == [
        told.replace("of 3", "of 4"), f"1 of 4 cases was not run: {elsewhere}"
    ]  # fmt: skip
    assert problems(None, measured) == [told.partition("run: ")[2]], "names alone say which"
    assert problems(None, session()) == []
    alone = session({**failed[0], "fixture": False})  # a check that came to no case: only its own
    assert problems({HDF5}, alone)[1] == f"1 of 1 case was not run: {HDF5}"


def test_case_that_is_promised_and_not_asked_for_is_a_problem():
    def nights(*sources, of=(CASE, MPIIO)):
        """The last is tonight."""
        return [
            ran(one, len(sources) - 1 - number, promise=Promise(2, source) if source else None)
            for number, source in enumerate(sources)
            for one in of
        ]

    def same(ago=1, named=f": {MPIIO}"):
        file = f"the site's file is as it was in the night {night_id(ago)}, which promised 2 cases"
        return f"{file}, and not all are asked for now{named}"

    both, one, usual = {CASE, MPIIO}, {CASE}, nights("5e", "5e")
    fewer = "the site's file promises 2 cases, and 1 are asked for"
    more = "the site's file promises 1 case, and 2 are asked for"
    for asked, count, runs, wrong in (
        (both, 2, [], []),
        (both, 2, usual, []),
        (one, 2, [], [fewer]),
        (both, 1, [], [more]),
        (one, 1, usual, [same()]),
        (one, 2, usual, [fewer, same()]),
        (one, 1, nights("5e", "5e", of=one), [same(named="")]),  # it was not measured then
        ({CASE, changed(MPIIO, backend="posix")}, 2, usual, [same()]),
        (one, 1, nights("7a", "5e"), []),  # the site's file is another
        (one, 1, nights("", "5e"), []),  # nothing is known of the nights before
        (one, 1, nights("5e"), []),  # tonight is not the past
        (one, 1, nights("5e", "7a", "5e"), [same(ago=2)]),
    ):
        broken = list(broken_promises(Promise(count, "5e"), asked, night_id(), runs))
        assert [
            problem.partition(": another iowatch is at work: ")[0] for problem in broken
        ] == wrong


def test_of_many_cases_a_few_are_named():
    many = {changed(CASE, ranks=number) for number in range(2, 22)}
    for (message,) in (problems(many, None), recorded(*(ran(c, 1) for c in many), ran()).problems):
        assert message.startswith("20 ")
        assert (message.count("archer:"), message[-5:]) == (12, ", ...")


# Its colour, and the sentence that comes first


def test_colour_and_first_sentence_of_a_night(golden):
    """Only who ran the night can say green; what never ran is not on record."""
    both = [*well(), *well(MPIIO)]
    left_out = {
        "verdict": "skipped (not_installed)",
        "metrics": {},
        "sentence": "there is no ior",
    }
    never = [unmeasured(MPIIO, ago, **left_out) for ago in range(10, -1, -1)]
    nights = {
        "green well": tonight(ran(), blessed=MINE),
        "green on record": recorded(ran(), blessed=MINE, archived={CASE.partition: NIGHT}),
        "green some unguarded": tonight(ran(), ran(MPIIO), ran(OSTS), blessed=MINE),
        "green unguarded on record": recorded(ran()),
        "green recorded": recorded(ran(**RECORDED)),
        "red recorded, and ReFrame fails it": recorded(red(**RECORDED)),
        "green known": tonight(red(result="xfail")),
        "green left out": tonight(*well(), *never, ran()),
        "green left out on record": recorded(*well(), *never[:-1], ran()),
        "green measured once only": recorded(*well(), ran(MPIIO, 3), ran()),
        "amber": tonight(*both, ran(), unmeasured(MPIIO)),
        "amber on record": recorded(unmeasured()),
        "amber and slow": tonight(slow(), unmeasured(MPIIO)),
        "red and amber": tonight(red(), unmeasured(MPIIO)),
        "red case": tonight(red()),
        "red problem": tonight(ran(), problems=["no disk"]),
        "red nothing ran": Night(system="archer", id=night_id(), problems=["no disk"]),
        "red unlike most nights": recorded(*both, ran()),
    }
    for title, night in nights.items():
        assert night.colour == title.split()[0], title
        assert night.is_red is (night.colour == "red")
    golden("colours.txt", in_words(nights))
    for runs, colour in (
        ([unverified(hour=1), unmeasured(hour=5)], "red"),
        ([red(hour=1), unmeasured(hour=5)], "red"),
        ([ran(hour=1), unmeasured(hour=5)], "green"),
        ([unmeasured(hour=1), ran(hour=5)], "green"),
        ([unmeasured(hour=1), unverified(hour=5)], "red"),
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
    assert (row.rate, row.metrics, row.judged, row.trend.rates[-1]) == (None, {}, None, None)


def test_what_was_left_out_is_no_past():
    """Its program has never been there; then it comes, and then it is lost."""
    none = {"verdict": "skipped (not_installed)", "metrics": {}}
    before = [*well(), *(unmeasured(MPIIO, ago, **none) for ago in range(10, 0, -1))]
    (new,) = [row for row in tonight(*before, ran(), ran(MPIIO)).cases if row.case == MPIIO]
    assert new.earlier == {}
    assert tonight(*before, ran(), unmeasured(MPIIO)).problems == []


def nobody_guards(*runs, **known):
    ordered = sorted(runs, key=lambda run: run.time)
    record = SystemRecord(system="archer", runs=ordered, now=at(24), **known)
    night = night_of(record, night_id())
    return [problem for problem in night.problems if problem.startswith("nobody guards 1 ")]


def earlier_that_day(hour):
    """The night before had another one, of the same day."""
    return {"ago": 1, "hour": hour, "night": f"{day_of(night_id(1))}T0{hour}0000"}


def test_case_that_nobody_guards_is_a_problem():
    two = [*well(nights=5)[:4], unmeasured(ago=1), unmeasured()]
    assert nobody_guards(*two) == []
    assert nobody_guards(*two, unmeasured(ago=2, hour=9)) == [], "it was measured that night"
    three = [*well(nights=6)[:3], unmeasured(ago=2), unmeasured(ago=1), unmeasured()]
    (message,) = nobody_guards(*three)
    assert f"not measured on 3 nights in a row: {CASE}: " in message
    assert nobody_guards(*three, amber_nights={"fs3": 4}) == []
    assert nobody_guards(*two, amber_nights={"fs3": 2})
    assert nobody_guards(*three, ran(hour=5)) == []
    again = [unmeasured(**earlier_that_day(hour)) for hour in (2, 3)]
    assert nobody_guards(*two, *again) == [], "all nights of a day are as one"


def test_ost_that_nobody_guards_is_a_problem():
    """Its case is measured, and green with a note, without it."""

    def without(*lost, **when):
        lost = {"OSTs not measured": " ".join(lost)} if lost else {}
        return ran(OSTS, metrics={"total_max": 700, "stable_max": 700}, provenance=lost, **when)

    two = [without(ago=9), without("3", ago=1), without("3", "12")]
    assert nobody_guards(*two) == []
    assert nobody_guards(*two, without("3", **earlier_that_day(5))) == []
    three = [*two[:1], without("12", "3", ago=2), *two[1:]]
    (message,) = nobody_guards(*three)
    assert f"not measured on 3 nights in a row: OST 3 of {OSTS}: " in message
    assert nobody_guards(*three, amber_nights={OSTS.partition: 4}) == []
    assert nobody_guards(*three, without(hour=5)) == []
    assert nobody_guards(*three, without("12", ago=1, hour=5)) == []
    for missing in (unmeasured(OSTS), unmeasured(OSTS, hour=5), unverified(OSTS)):
        assert nobody_guards(*three[:-1], missing), "whatever else that night was"


def test_night_or_system_that_is_not_on_record():
    night = recorded(*well(), red(rate=100), night=f"{NIGHT - timedelta(1)}")
    assert (night.id, night.colour) == (night_id(1), "green")
    assert max(night.cases[0].trend.nights) == NIGHT - timedelta(1)
    wanted = [
        ({"night": "2026-11-21"}, f"for archer: the first is {night_id()}, the last "),
        ({"system": "cirrus"}, r"^no night of system cirrus .* record: archer$"),
    ]
    assert_refused(UserError, lambda asked: recorded(ran(), **asked), wanted)


def test_worst_first_and_of_two_the_slower():
    outcomes = [
        *("failed (corrupt)", "failed (io_error)"),
        *("regression (absolute_bound)", "regression (own_past)"),
        *("suspect (own_past)", "improvement (own_past)", "ok (low_sensitivity)", "ok"),
    ]
    runs = [
        (red if verdict.startswith(("failed", "regression")) else ran)(
            changed(CASE, ranks=number + 1), verdict=verdict
        )
        for number, verdict in enumerate(reversed(outcomes))
    ]
    assert [str(row.outcome) for row in tonight(*runs).worst_first] == outcomes
    other = changed(CASE, place="archer:fs2/cray")
    night = tonight(*well(), *well(other), red(rate=5000), red(other, rate=2000))
    assert [row.case for row in night.worst_first] == [other, CASE]


def test_wrong_data_stay_the_verdict_and_come_first():
    """No re-run takes them back, and no alarm stands before them."""
    corrupt = unverified(verdict="failed (corrupt)", sentence="the data differ")
    night = tonight(corrupt, ran(hour=5), problems=["another"])
    assert (night.colour, str(night.cases[0].outcome)) == ("red", "failed (corrupt)")
    assert night.why.endswith(": the data differ")
    assert tonight(unverified(), ran(hour=5)).colour == "green", "any other failure may be mended"


# Alarms of several cases

CASES = [changed(CASE, backend=name) for name in ("mpiio", "hdf5", "netcdf", "pnetcdf")]
PAIRS = [changed(one, ranks=ranks) for one in CASES for ranks in (48, 96)]
MONTH = [*well(nights=40), ran()]


def together(parts, nights=1, reruns=0, spread=0.1, more=(), expected=()):
    """Suspicious nights, with as many re-runs, in which these parts of HDF5's and of MPI-IO's
    bandwidth were left: {case: parts}. None of them is slow enough for an alarm of its own."""
    entry = evolve(BLESSED, first=night_id(44), last=night_id(10), nights=34, spread=spread)
    blessed, runs = {}, []
    for one, (part, control) in parts.items():
        alone = {"ratio": None, "ratio_spread": None} if one.backend == "mpiio" else {}
        blessed[one] = evolve(entry, **alone)
        runs += [ran(one, ago) for ago in range(44, nights - 1, -1)]
        is_low = {"verdict": "suspect (own_past)"} if part < 1 else {}
        values = {"rate": part * USUAL, "control": control * USUAL, **is_low}
        runs += [
            ran(one, ago, 1 + 4.1 * number, **values)
            for ago in range(nights - 1, -1, -1)
            for number in range(1 + reruns if is_low else 1)
        ]
    runs = [run for run in runs if not any((run.case, run.time) == (m.case, m.time) for m in more)]
    options = {"again": "iowatch AGAIN", "now": at(2), "expected": expected}
    return tonight(*runs, *more, blessed=blessed, **options)


def every_pair(part, *nights, **more):
    """All cases of the filesystem are as slow as this."""
    return together(dict.fromkeys(PAIRS, (part, part)), *nights, **more)


def hdf5_slow(cases, *nights, **more):
    """HDF5 is slow in these of all cases, and MPI-IO in the same rounds as fast as ever."""
    every = [*PAIRS, *(changed(one, place="archer:fs2/cray") for one in PAIRS)]
    parts = dict.fromkeys({*every, *cases}, (1, 1))
    return together(parts | dict.fromkeys(cases, (0.6, 1)), *nights, **more)


def mended(reruns):
    """A filesystem that was slow for three nights, and has been run again so often tonight."""
    entry = evolve(BLESSED, first=night_id(44), last=night_id(10), nights=34, spread=0.2)
    runs = [ran(one, ago) for one in PAIRS for ago in range(44, 3, -1)]
    hours = [1 + 4.1 * number for number in range(5)]
    part = {"rate": 0.7 * USUAL}
    runs += [slow(one, ago, h, **part) for one in PAIRS for ago in (3, 2, 1) for h in hours]
    runs += [ran(one, hour=hour) for one in PAIRS for hour in hours[: 1 + reruns]]
    return tonight(*runs, blessed=dict.fromkeys(PAIRS, entry), now=at(2))


def on_nodes(**hosts):
    """Two cases are slow on n7, the others are as said."""

    def on(host, cases, **told):
        return [ran(one, provenance={"hosts": f"n1 {host}"}, **told) for one in cases]

    others = [run for host, cases in hosts.items() for run in on(host, cases)]
    return tonight(*on("n7", PAIRS[:2], verdict="suspect (own_past)", rate=SLOW), *others)


def test_filesystem_that_is_slow_tonight_is_one_suspicion_and_a_few_cases_tell(golden):
    night = every_pair(0.6)
    (alarm,) = night.alarms
    assert (str(alarm.outcome), {row.case for row in alarm.rows}) == (
        "suspect (own_past)",
        {*PAIRS},
    )
    assert (night.colour, len(night.reruns)) == ("green", 5)
    assert alarm.held == {*PAIRS} - {*night.reruns}, "the others wait for what these five say"
    much = together({**dict.fromkeys(PAIRS, (0.6, 0.6)), PAIRS[-1]: (0.2, 0.2)})
    assert PAIRS[-1] in much.reruns, "it is slower than its filesystem"
    golden("suspicions.txt", in_words({"all slow": night, "all at 40 %": every_pair(0.4)}))

    away = [make(PAIRS[0], hour=1.5) for make in (unmeasured, unverified)]
    assert PAIRS[0] in alarm.due
    (again,) = every_pair(0.6, more=away).alarms
    assert again.due == alarm.due, "a re-run that was not measured is still due"

    away = [unmeasured(one, rate=0.6 * USUAL) for one in PAIRS[:2]]
    night = every_pair(0.6, more=away)
    (alarm,) = night.alarms
    assert {row.case for row in alarm.rows} == {*PAIRS[2:]}, "what is not measured is no member"
    assert not {*PAIRS[:2]} & {*night.reruns, *alarm.held}
    assert night.colour == "amber"


def test_filesystem_that_stays_slow_is_one_red_alarm(golden):
    fault = ExpectedFailure(case=re.compile(".*ranks=(48|96)"), until=NIGHT, why="ticket 4711")
    night, known, severe = (
        every_pair(0.7, 4, 4, spread=0.2),
        every_pair(0.7, 4, 4, spread=0.2, expected=[fault]),
        every_pair(0.4, 1, 4),
    )
    assert (night.is_red, night.red, known.is_red, severe.is_red) == (True, [], False, True)
    half = evolve(fault, case=re.compile(".*ranks=48"))
    assert every_pair(0.7, 4, 4, spread=0.2, expected=[half]).is_red, "half of them is not known"
    assert [str(alarm.outcome) for alarm in severe.alarms] == ["regression (own_past)"]
    assert night.why == night.alarms[0].sentence
    nights = {
        "slow": night,
        "known": known,
        "regression (own_past)": severe,
        "well again": mended(0),
    }
    golden("alarms.txt", in_words(nights))
    assert nights["well again"].is_red, "it is run again, and its alarm goes the same night"
    assert len(mended(1).reruns) == 5
    (over,) = mended(2).alarms
    assert (str(over.outcome), over.is_red) == ("ok (resolved)", False)


def test_filesystem_is_named_before_a_library_that_has_lost_more():
    work = [changed(one, place="archer:work/cray") for one in PAIRS]
    more = [changed(work[0], backend="hdf5", ranks=ranks) for ranks in (144, 192)]
    parts = {one: (0.3 if one.backend == "hdf5" else 0.5, 0.5) for one in (*work, *more)}
    night = together(parts, 4, 4)
    assert [(a.subject, a.is_red) for a in night.alarms] == [("work", True), ("hdf5", True)]
    assert night.why.startswith("work: ")


def test_alarm_of_a_case_is_not_hidden_by_a_suspicion_of_its_filesystem():
    before = [slow(PAIRS[0], ago, 1 + 4.1 * number) for ago in (3, 2, 1) for number in range(5)]
    now = red(PAIRS[0], rate=SLOW, sentence=f"{PAIRS[0]}: has been slow for long")
    night = every_pair(0.6, more=[*before, now])
    assert [(str(alarm.outcome), alarm.merged) for alarm in night.alarms] == [
        ("suspect (own_past)", frozenset())
    ]
    assert (night.is_red, "mpiio" in night.why) == (True, True), "the red case comes first"
    night = together({**dict.fromkeys(PAIRS, (1, 1)), PAIRS[0]: (0.5, 0.5)}, 6, 4)
    assert (night.alarms, night.merged) == ([], {}), "one slow case is its own alarm"


def test_library_or_node_that_is_slow_is_named_with_where_it_is(golden):
    of_hdf5 = [one for one in PAIRS if one.backend == "hdf5"]
    at_fs2 = [changed(one, place="archer:fs2/cray") for one in of_hdf5]
    everywhere = hdf5_slow([*of_hdf5, *at_fs2], 3, 4)
    more = [changed(of_hdf5[0], ranks=ranks) for ranks in (144, 192)]
    nights = {
        "a library": everywhere,
        "a library on one filesystem": hdf5_slow([*of_hdf5, *more], 3, 4),
        "a node": on_nodes(n8=PAIRS[2:]),
    }
    subjects = [night.alarms[0].subject for night in nights.values()]
    assert subjects == ["hdf5", "hdf5 on fs3", "node n7"]
    assert [len(night.alarms[0].rows) for night in nights.values()] == [4, 4, 2]
    golden("libraries_and_nodes.txt", in_words(nights))
    (alarm,) = hdf5_slow([*of_hdf5, *at_fs2], 3, 4, more=[ran(one) for one in at_fs2]).alarms
    assert alarm.subject == "hdf5", "slow on both, and on neither are there cases for a chart"
    assert on_nodes(n7=PAIRS[2:]).alarms == [], "others were well there"
    assert on_nodes().alarms == [], "nothing ran elsewhere"


def test_alarms_of_half_of_the_cases_are_one_without_a_chart():
    def alarms(cases, healthy=(), **changes):
        """The last of two weeks. Without re-runs an alarm takes so long; it is two nights old."""
        entry = evolve(BLESSED, last=night_id(14), ratio=None, ratio_spread=None)
        runs = [ran(one, ago) for one in (*cases, *healthy) for ago in range(27, 13, -1)]
        for one in (*cases, *healthy):
            told = {"rate": SLOW, **changes} if one in cases else {}
            runs += [(red if told else ran)(one, ago, **told) for ago in range(13, -1, -1)]
        return tonight(*runs, blessed=dict.fromkeys((*cases, *healthy), entry))

    night = alarms(CASES[:2], CASES[2:3])
    (alarm,) = night.alarms
    assert {*night.merged} == {*CASES[:2]}
    assert alarm.sentence.startswith("fs3: 2 of 3 cases are slow, 61% (median) below their bas")
    assert night.why == alarm.sentence
    partitions = [CASES[0], changed(CASES[0], place="archer:fs3-big/cray")]
    assert {*alarms(partitions, filesystem="fs3").merged} == {*partitions}
    assert alarms(CASES[:2], verdict="regression (slow_library)").merged == {}, (
        "it is red for another reason"
    )
    (known,) = alarms(CASES[:2], result="xfail").alarms
    assert (known.is_red, str(known.outcome), known.merged) == (
        False,
        "regression (own_past, known)",
        frozenset(),
    )


# OSTs


def test_slow_ost_and_the_cases_over_all_of_them():
    metrics = {"total_max": 700, "ost_ratio": 0.3, "ost_0": 600, "ost_1": 200, "ost_2": 700}
    bound = {"ost_ratio": Reference(1.0, -0.5, None)}
    of_osts = red(OSTS, metrics=metrics, verdict="regression (slow_library)", references=bound)
    (alarm,) = tonight(of_osts, ran(PAIRS[1]), slow(PAIRS[0])).alarms
    assert alarm.sentence == (
        "OSTs of fs3: slow to write: OST 1 (200 MiB/s, 0.31 of its peers); every case "
        "that is slow writes to all OSTs (1)"
    )
    assert [row.case for row in alarm.rows] == [OSTS, PAIRS[0]]


def test_ost_that_gets_slow_over_weeks_is_named_before_it_is_half_as_fast():
    def one(ost, operation, ago):
        return 0.975 ** max(0, 20 - ago) if (ost, operation) == (2, "write") else 1.0

    night = over_osts(1, one)
    (alarm,) = night.alarms
    since = re.fullmatch(
        r"OST 2 of fs3: slow to write since 2026-11-(\d\d) \(alarm of 2026-11-18\): tonight "
        r"0\.[56]\d of its peers' median, usually (0\.99|1\.0\d)",
        alarm.sentence,
    )
    assert since, alarm.sentence
    assert 1 <= int(since[1]) <= 8, "it began on the 1st"
    assert (str(alarm.outcome), night.is_red, night.why) == (
        "regression (own_past)",
        True,
        alarm.sentence,
    )
    assert ([row.case for row in alarm.rows], alarm.merged, night.reruns) == ([OSTS], {*()}, {})


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
    assert (str(alarm.outcome), night.is_red) == ("suspect (own_past)", False)
    assert night.reruns == {OSTS: at(5)}
    (note,) = night.notes
    assert note.startswith("1 case can tell whether a suspicion lasts, and re-runs are due from ")

    def for_five_nights(ost, operation, ago):
        return 0.7 if (ost, operation) == (4, "read") and ago < 5 else 1.0

    (alarm,) = over_osts(5, for_five_nights).alarms
    assert alarm.words.startswith("slow to read since 2026-11-16 (alarm of 2026-11-19): tonight 0.")

    def to_a_third(ost, operation, ago):
        return for_five_nights(ost, operation, ago) ** 3

    told = {"verdict": "regression (slow_library)", "result": "fail"}
    told["references"] = {"ost_read_ratio": Reference(1.0, -0.5, None)}
    (third,) = over_osts(5, to_a_third, **told).alarms
    assert (third.subject, third.merged) == ("OST 4 of fs3", {OSTS}), "it says why the case is red"
    (both,) = over_osts(5, to_a_third, slow(PAIRS[0]), ran(PAIRS[1]), **told).alarms
    assert both.subject == "OSTs of fs3", "said once"
    assert "slow to read: OST 4 (" in both.words


def test_osts_that_come_or_go_are_no_alarm():
    def grown(ost, operation, ago):
        """The first three go, and the last three come, which are three times as fast."""
        new = 3.0 if ago < 12 else 0.0
        return [1.0 if ago else 0.0, 1.0, 1.0, new, new, new][ost]

    def gone(ost, operation, ago):
        """Three of them are always slower; of the others, all but one go, and come again."""
        return 0.6 if ost < 3 else 0.0 if ost > 3 and ago < 12 else 1.0

    assert over_osts(1, grown).alarms == over_osts(1, gone).alarms == []


# Notes


def failure(pattern="archer:fs3/.*", until=NIGHT):
    return ExpectedFailure(case=re.compile(pattern), until=until, why="ticket 4711")


FOREVER = failure("archer:.*", date(9999, 12, 31))
#: The last in the midst of its night.
AHEAD = ran(ago=-400), ran(MPIIO, ago=-3), ran(ago=1, time=at(ago=-400))
STALE = evolve(BLESSED, settings="0" * 8)


def with_suspects(*hours, now):
    runs = [*MONTH[:-1], *(slow(hour=hour) for hour in hours)]
    return tonight(*runs, blessed=MINE, now=at(now), again="iowatch AGAIN")


def test_notes_of_a_night(golden):
    other = ran(changed(CASE, ranks=5))
    kept = [ran(CASE, ago, **RECORDED) for ago in range(4)]
    enough = [ran(MPIIO, ago, **RECORDED) for ago in range(20)]
    nights = {
        "suspect (own_past)": with_suspects(1, now=2),
        "suspect and due": with_suspects(1, now=6),
        "suspect and run again": with_suspects(1, 5, 9, 13, 17, now=18),
        "ok (low_sensitivity)": tonight(
            ran(CASES[0], verdict="ok (low_sensitivity)"), *map(ran, CASES[1:])
        ),
        "other thresholds": tonight(*MONTH, blessed={CASE: STALE}),
        "only recorded": tonight(*kept, other),
        "almost enough nights": tonight(*kept, *enough[:19], other),
        "nights enough": tonight(*kept, *enough, other),
        "too much is excused": tonight(red(result="xfail"), expected=[FOREVER]),
        "no failure": tonight(ran(CASES[0]), ran(CASES[1]), expected=[failure()]),
        "a wrong clock": tonight(*MONTH, *AHEAD, blessed=MINE),
    }
    golden("notes.txt", in_words(nights))
    for title, blessed in (
        ("usual", MINE),
        ("not measured tonight", {MPIIO: STALE}),
        ("not in force yet", {CASE: evolve(STALE, blessed=NIGHT + timedelta(1))}),
    ):
        night = tonight(*MONTH, blessed=blessed, again="iowatch AGAIN")
        assert (night.notes, night.alarms) == ([], []), title
    in_force = {CASE: evolve(STALE, blessed=NIGHT)}
    assert tonight(*MONTH, blessed=in_force).notes == nights["other thresholds"].notes


def test_blessed_nights_that_are_not_on_record_are_a_problem():
    """Unless the site said that they were archived."""
    blessed = evolve(BLESSED, nights=31)  # on record, of the last 40 nights

    def is_missed(runs, archived, blessed):
        days = {CASE.partition: NIGHT - timedelta(archived)} if archived else {}
        known = {"blessed": {CASE: blessed}, "archived": days}
        ordered = sorted(runs, key=lambda run: run.time)
        record = SystemRecord(system="archer", runs=ordered, now=at(24), **known)
        night = night_of(record, night_id())
        assert {*night.problems} <= {*recorded(*runs, **known).problems}
        assert all(CASE.partition in problem for problem in night.problems)
        return [problem[:47] for problem in night.problems] == [
            "the blessed nights of 1 case are not on record,"
        ]

    complete, begun_anew, first = MONTH, MONTH[-6:], MONTH[-1:]
    part, torn = MONTH[-20:], [run for run in MONTH if run.night != night_id(25)]
    older = [ran(CASE, ago) for ago in range(80, 40, -1)]
    no_rate = [run if run.night != night_id(25) else unverified(ago=25) for run in MONTH]
    only_days = evolve(blessed, first=night_id(40)[:10], last=night_id(10)[:10])
    blessed_since = evolve(BLESSED, last=night_id(), blessed=NIGHT)
    for runs, archived, entry, wanted in (
        (begun_anew, None, blessed, True),
        (first, None, blessed, True),
        (part, None, blessed, True),
        (torn, None, blessed, True),
        (older + begun_anew, None, blessed, True),  # as many, from before those that were blessed
        (no_rate, None, blessed, True),  # another night than the one that was blessed
        (complete, None, blessed, False),
        # Up to which night they were archived: the last blessed one was the tenth before tonight.
        (first, 10, blessed, False),
        (first, 11, blessed, True),
        (part, 20, blessed, False),
        (begun_anew, 20, blessed, True),
        (complete, 41, blessed, False),
        (torn, 41, blessed, True),
        (complete, None, only_days, False),
        (first, 10, only_days, False),
        (first, 11, only_days, True),
        (first, None, blessed_since, False),  # by this night, too
    ):
        assert is_missed(runs, archived, entry) is wanted


@pytest.mark.parametrize(
    ("what", "judged", "now"),
    [
        ("baseline", {"metrics": {**ran().metrics, "drift": 0.1}}, {}),
        ("reference value", {"references": {"ratio": Reference(0, 0.5, None)}}, RECORDED),
    ],
)  # fmt: skip
def test_baseline_or_reference_value_that_was_lost_is_a_problem(what, judged, now):
    """Once: what was never judged is green for that, and so is this from the next night on."""

    def messages(*runs, **options):
        return [each.partition(":")[0] for each in lost_guards(tonight(*runs, **options).cases)]

    gone = f"the {what} of 1 case is gone since the night before"
    before, tried = ran(ago=2, **judged), ran(ago=1, **now)
    assert messages(before, ran(**now)) == [gone]
    assert messages(before, unmeasured(ago=1, metrics={}), ran(**now)) == [gone], (
        "nobody could know"
    )
    assert messages(before, unverified(ago=2, hour=5), ran(**now)) == [gone], "a re-run failed"
    assert messages(before, tried, ran(**now)) == [], "known since the night before"
    assert messages(tried, ran(**now)) == messages(ran(**judged)) == [], "it never had one"
    many = [changed(CASE, ranks=n) for n in (1, 2)]
    runs = [run for one in many for run in (ran(one, 1, **judged), ran(one, **now))]
    assert messages(*runs) == [gone.replace("1 case", "2 cases")]
    if now:
        assert messages(before, ran(**judged)) == messages(before, red(**now)) == []
    else:
        assert messages(before, ran(), blessed=MINE) == []


def test_expected_failure_that_does_not_show_is_a_note():
    two, known = (
        [ran(CASES[0]), ran(CASES[1])],
        red(CASES[2], verdict="regression (slow_library)", result="xfail"),
    )
    for count, runs, entry in (
        (1, two, failure()),
        (0, [*two, known], failure()),
        (0, [known], failure()),
        (0, [unverified()], failure()),  # nobody can tell
        (0, [unmeasured()], failure()),
        (0, two, failure("cirrus:.*")),
        (0, two, failure(until=NIGHT - timedelta(1))),
    ):
        assert len(tonight(*runs, expected=[entry]).notes) == count
