"""The detector: its rules, its baseline, the alarm of a filesystem, what holds on any nights."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from cases import outcome_of
from detector_nights import (
    BASELINE,
    LOW,
    MPIIO,
    QUIET,
    START,
    WELL,
    dated,
    judged,
    low,
    night,
    sample,
    told,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from iowatch.cases.verdict import NO_REFERENCE, OK, RESOLVED, SLOWER, SUSPECT, Verdict
from iowatch.judge.baseline import (
    BaselineRefused,
    Sample,
    baseline_of,
    change_point,
    estimate,
    visible_drops,
)
from iowatch.judge.groups import Common, Group, have_alarms
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import NORMAL, SETTINGS

UNKNOWN, LIBRARY = "unjudged (no_reference)", "regression (slow_library) R3"
# What nights come to. R1 has an open alarm after ALARM, R2 after RATIO, R3 after CLOSE. FAULT is a
# night with R3's fault that needs no baseline.

ALARM = [LOW] * 3
RATIO = [low(0.3, ratio=0.27)]
CLOSE = [night(300, ratio=0.27, finish=0.8)]
FAULT = low(0.3, ratio=0.27, finish=0.7)
SLOWER_CLOSE = night(600, ratio=0.54, finish=0.4)
AS_BEFORE = night(1000, 1000, 1000)
WIDE = replace(MPIIO, s=0.2)
BLESSED_FAULT = baseline_of(dated([FAULT] * 30))


def at_once(*values):
    """Runs without the hours between them that make a re-run."""
    return [sample(best, hours=number / 2) for number, best in enumerate(values)]


def fault(**metrics):
    return [[replace(run, **metrics) for run in FAULT]]


NIGHTS = {
    # R1: bandwidth
    "three low nights": ([WELL, *ALARM], "ok, 2 suspect, regression R1"),
    "two low nights, however low": ([low(0.4)] * 2, "2 suspect"),
    # 880 MiB/s add little, and are no re-run's worth.
    "a drop after slight ones": (
        [*[night(880)] * 3, WELL, *[low(0.6)] * 3],
        "ok, 2 suspect, ok, 2 suspect, regression R1",
    ),
    "runs that nobody asked for": ([night(1000, 100, 100), night(500, 1000, 100)], "2 ok"),
    "more re-runs than are asked for": ([night(*[500] * 9)], "suspect"),
    "a good night begins anew": ([LOW, LOW, WELL, LOW, LOW], "2 suspect, ok, 2 suspect"),
    "a good re-run each night": ([night(400, 400, 990)] * 19, "19 ok"),
    "no re-runs": ([night(500)] * 12, "11 suspect, regression R1", MPIIO),
    "immediate repetitions": ([at_once(*[500] * 5)] * 12, "11 suspect, regression R1", MPIIO),
    "a good immediate repetition": ([at_once(500, 1000)], "ok", QUIET),
    "a small drop of a quiet case": ([low(0.8)] * 3, "2 suspect, regression R1", QUIET),
    "too small a drop of a quiet case": ([low(0.95)] * 20, "20 ok", QUIET),
    # R2: the ratio to MPI-IO
    "the ratio below half in every run": (RATIO, "regression R2"),
    "the ratio below half, a re-run is missing": ([RATIO[0][:4]], "suspect"),
    "a smaller drop of the ratio": ([low(0.7, ratio=0.63)] * 2, "suspect, regression R2"),
    "MPI-IO is slow as well": ([low(0.25)] * 3, "2 regression R4, regression R1"),
    "a slow library on a slow filesystem": (
        [low(0.33, ratio=0.6, finish=0.5)] * 2, "suspect, regression R2", replace(BASELINE, s=0.3)
    ),
    # R3: finishing the file
    "finishing takes most of one run": (CLOSE, "regression R3"),
    "finishing takes most of one run, no baseline": (CLOSE, LIBRARY, None),
    "MPI-IO has lost most": ([night(60, ratio=0.27, finish=0.8)], "suspect"),
    "MPI-IO has lost little": ([night(100, ratio=0.12, finish=0.9)], "regression R3"),
    "MPI-IO and the ratio are low": ([low(0.06, ratio=0.27, finish=0.8)], "regression R2"),
    "finishing takes less in two runs": ([low(0.6, ratio=0.54, finish=0.4)], "regression R3"),
    "finishing takes less in one of two runs": ([SLOWER_CLOSE + night(0, 1000)[1:]], "ok"),
    "finishing takes less in one of two low runs": (
        [[sample(600, 0.54), sample(600, 0.54, 0.4, hours=4), sample(hours=8)]], "ok"
    ),
    "finishing takes less in two nights": ([SLOWER_CLOSE] * 2, "suspect, regression R3"),
    "a good night between": ([SLOWER_CLOSE, WELL, SLOWER_CLOSE], "suspect, ok, suspect"),
    "one run, no baseline": ([night(400, ratio=0.4, finish=0.6)], "suspect", None),
    "a write phase that has become faster": ([low(3, ratio=2.7, finish=0.4)], "ok"),
    "the fault without a baseline": ([FAULT], LIBRARY, None),
    "the fault was blessed": ([FAULT], LIBRARY, BLESSED_FAULT),
    "finishing takes too little for a fault": (fault(overhead_fraction=0.4), UNKNOWN, None),
    "the ratio is too good for a fault": (fault(ratio=0.6), UNKNOWN, None),
    "the median ratio is too good for a fault": (fault(ratio_median=0.5), UNKNOWN, None),
    "no ratio and no baseline": (fault(ratio=None), UNKNOWN, None),
    "finishing takes a tenth of a second": (fault(finish_s=0.1), LIBRARY, None),
    "finishing takes milliseconds": (fault(finish_s=0.09), UNKNOWN, None),
    "finishing takes milliseconds, with a baseline": (fault(finish_s=0.09), "regression R2"),
    # R4, gains
    "every run far below": ([low(0.2), WELL], "regression R4, ok"),
    "far below, a re-run is missing": ([low(0.2)[:4]], "suspect"),
    "far below, as the case varies": ([low(0.2)], "suspect", replace(MPIIO, s=0.45)),
    "a gain that ends": (
        [night(1500)] * 30 + [WELL] * 5, "4 ok, 27 improvement gain, 4 ok", QUIET
    ),
    # The end of an alarm
    "the first good night": ([*ALARM, WELL], "2 suspect, 2 regression R1", QUIET),
    "a night that is less low": ([*ALARM, low(0.7)], "2 suspect, 2 regression R1"),
    "a ratio that is less low": ([*RATIO, night(1000, ratio=0.6)], "2 regression R2"),
    "R3 the next night": (
        [*CLOSE, night(400, ratio=0.36, finish=0.7)], "2 regression R3"
    ),
    "a fault the next night": (
        [FAULT, night(300, ratio=0.4, finish=0.6)], "2 regression (slow_library) R3", None
    ),
    "R3 beside R1": (
        [*ALARM, night(150, ratio=0.27, finish=0.8)], "2 suspect, regression R1, regression R3"
    ),
    "five of seven nights end it": (
        [*ALARM, WELL, LOW, WELL, WELL, LOW, WELL, WELL],
        "2 suspect, 7 regression R1, ok (resolved) R1", QUIET,
    ),
    "five of seven nights are good": (
        [*ALARM, WELL, LOW, WELL, WELL, LOW, WELL, WELL, WELL],
        "2 suspect, 7 regression R1, ok (resolved) R1, ok", QUIET,
    ),
    "every other night is good": (
        [*ALARM, *[WELL, LOW] * 18], "2 suspect, 37 regression R1", QUIET
    ),
    "every re-run is low": ([*ALARM, *[night(1000, 500)] * 17], "2 suspect, 18 regression R1"),
    "re-runs as before": ([*ALARM, AS_BEFORE], "2 suspect, regression R1, ok (resolved) R1"),
    "a re-run is missing": ([*ALARM, night(1000, 1000)], "2 suspect, 2 regression R1"),
    "the last re-run is low": ([*ALARM, night(1000, 1000, 500)], "2 suspect, 2 regression R1"),
    "all at once": ([*ALARM, at_once(*[1000] * 5)], "2 suspect, 2 regression R1"),
    "near the baseline": (
        [*[low(0.55)] * 3, low(0.8)], "2 suspect, regression R1, ok (resolved) R1", WIDE
    ),
    "nearer to the alarm": ([*[low(0.55)] * 3, low(0.72)], "2 suspect, 2 regression R1", WIDE),
    "the ratio stays low": ([*RATIO, *[night(1000, ratio=0.45)] * 19], "20 regression R2"),
    "the ratio is good": ([*RATIO, *[WELL] * 5], "5 regression R2, ok (resolved) R2"),
    "R2 without MPI-IO": ([*RATIO, *[low(1, ratio=None)] * 9], "10 regression R2"),
    "R3 without MPI-IO": ([*CLOSE, *[low(1, ratio=None)] * 9], "10 regression R3"),
    "R3 without times": ([*CLOSE, *[low(1, finish=None)] * 9], "10 regression R3"),
    "R3, re-runs as before": ([*CLOSE, AS_BEFORE], "regression R3, ok (resolved) R3"),
    "a fault without MPI-IO": ([FAULT, *[low(1, ratio=None)] * 9], f"10 {LIBRARY}", None),
    "a fault, re-runs as before": ([FAULT, AS_BEFORE], f"{LIBRARY}, ok (resolved) R3", None),
    "worse than the alarm": ([*ALARM, *[low(0.2)] * 3], "2 suspect, 4 regression R1"),
    "worse than the alarm, then as at the alarm": (
        [*ALARM, *[low(0.2)] * 3, LOW], "2 suspect, 5 regression R1"
    ),
    "worse than the alarm, then as before": (
        [*ALARM, *[low(0.2)] * 3, AS_BEFORE], "2 suspect, 4 regression R1, ok (resolved) R1"
    ),
    # Noise
    "a case that varies a little": ([WELL], "ok", MPIIO),
    "a case that varies too much": ([WELL], "ok (low_sensitivity)", WIDE),
    "a ratio that varies less": ([WELL], "ok", replace(BASELINE, s=0.2, s_r=0.05)),
    "a gain": ([night(1500)] * 11, "4 ok, 7 improvement gain", QUIET),
    "bandwidth that varies more than it has lost": (
        [night(500, ratio=0.27, finish=0.8)], "regression R3", replace(BASELINE, s=0.5)
    ),
    "a case that is often suspicious": (
        [night(500, 1000), WELL, WELL] * 8, "19 ok, 5 ok (low_sensitivity)", QUIET
    ),
}  # fmt: skip


@pytest.mark.parametrize("fact", NIGHTS)
def test_what_nights_come_to(fact):
    nights, expected, *baseline = NIGHTS[fact]
    assert told(nights, *baseline) == expected


@pytest.mark.parametrize(("usual", "finish"), [(0.03, 0.25), (0.5, 0.7)])
def test_a_overhead_fraction_near_the_baseline_is_no_signature(usual, finish):
    baseline = replace(BASELINE, overhead_fraction=usual)
    for change, expected in ((-0.01, "suspect"), (0.01, "regression R3")):
        assert told([low(0.6, ratio=0.54, finish=finish + change)], baseline) == expected


def test_sentences_and_figures_of_the_last_night(golden):
    """And whether it is red, how many of its runs count, and what is lost since when."""
    lines = []
    for fact, (nights, _, *baseline) in NIGHTS.items():
        verdict = judged(nights, *baseline)[0][-1]
        days = [time and (time - START).days for time in (verdict.since, verdict.raised)]
        lost = None if verdict.drop is None else f"{verdict.drop:.3f}"
        figures = f"red {verdict.is_red}, runs {verdict.runs}, lost {lost}, since/raised {days}"
        lines.append(f"{fact}\n    {verdict.sentence}\n    {figures}\n")
    golden("detector.txt", "".join(lines))


# Suspicion and re-runs


def test_a_suspicious_night_asks_for_reruns_until_it_is_clear():
    detector = Detector(BASELINE)
    for number in range(1, 5):
        state, verdict = detector.judge(Memory(), LOW[:number], final=False)
        assert (verdict.outcome, verdict.is_red, state) == (SUSPECT, False, Memory())
        assert verdict.rerun_at == LOW[number - 1].time + timedelta(hours=4)
    assert detector.judge(Memory(), LOW[:1], final=False)[1].sentence == (
        "bandwidth is 50% below its baseline, its ratio to MPI-IO is at its usual value, "
        "finishing the file takes 3% of the time, in its only run: "
        "a re-run is due from 2026-03-01 05:00"
    )
    state, verdict = detector.judge(Memory(), LOW, final=False)
    assert verdict.rerun_at is None, "four re-runs are enough"
    assert state.slow.level > 0
    assert detector.judge(Memory(), WELL, final=False)[1].rerun_at is None
    assert judged([night(400, 400, 990)])[1].slow.level == 0


def test_the_warn_line_is_higher_while_the_cusum_is_up():
    mild = night(860)  # 1.5 spreads
    for state, outcome in ((Memory(), OK), (judged([LOW], MPIIO)[1], SUSPECT)):
        assert Detector(MPIIO).judge(state, mild, final=False)[1].outcome == outcome


def test_a_run_without_its_control_leaves_the_ratio_as_it_was():
    fell = low(0.7, ratio=0.63)
    before, after = (judged(nights)[1].ratio for nights in ([fell], [fell, night(1, ratio=None)]))
    assert before == after
    assert after.level > 0


def test_finish_in_one_of_two_runs_leaves_no_trace():
    assert judged([SLOWER_CLOSE + night(0, 1000)[1:]])[1].finish == 0


@pytest.mark.parametrize("baseline", [BASELINE, None])
def test_one_run_that_shows_the_fault_of_the_close_waits_for_no_rerun(baseline):
    verdict = Detector(baseline).judge(Memory(), CLOSE[0], final=False)[1]
    assert (verdict.rule, verdict.is_red, verdict.rerun_at) == ("R3", True, None)


@pytest.mark.parametrize("left", [0.7, 0.66, 0.5, 0.3])
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("finish", [0.3, 0.6, 0.9])
def test_a_slow_filesystem_is_never_the_library_however_long_its_files_take(left, spread, finish):
    """MPI-IO has lost as much, and the ratio hardly anything: whatever takes the time, all I/O
    does. Nights by chance a tenth better or worse beside MPI-IO say no more."""
    baseline = replace(BASELINE, s=spread, overhead_fraction=0.05)
    nights = [
        low(left * 0.98, ratio=0.9 * 0.98 * (1 + 0.1 * (n % 3 - 1)), finish=finish)
        for n in range(20)
    ]
    verdicts = judged(nights, baseline)[0]
    assert not {"R2", "R3"} & {verdict.rule for verdict in verdicts}
    assert not any("MPI-IO's in the same jobs" in verdict.sentence for verdict in verdicts)


# An open alarm


def test_an_open_alarm_asks_for_the_reruns_that_could_end_it():
    detector, state = Detector(BASELINE), judged(ALARM)[1]
    slow, good, deeper, close = dated([LOW, AS_BEFORE, low(0.2), *CLOSE], first=3)
    verdict = detector.judge(state, slow[:1], final=False)[1]
    assert (verdict.outcome, verdict.rerun_at) == (SLOWER, None)
    for runs in (good[:1], good[:2], deeper[:1]):
        after, verdict = detector.judge(state, runs, final=False)
        assert (after, verdict.outcome, verdict.runs) == (state, SLOWER, len(runs))
        assert verdict.rerun_at == runs[-1].time + timedelta(hours=4)
    assert "; bandwidth is 60% below its level at the alarm of 2026-03-03" in verdict.sentence
    after, verdict = detector.judge(state, good, final=False)
    assert (verdict.outcome, verdict.is_red) == (RESOLVED, False)
    assert (after.alarm, after.level, after.beyond) == (None, None, None)
    verdict = detector.judge(state, close, final=False)[1]
    assert (verdict.rule, verdict.raised, verdict.drop) == (
        "R3", close[0].time, pytest.approx(0.7)
    )  # fmt: skip


def test_what_an_alarm_is_about_is_no_new_fault():
    verdicts = judged([*CLOSE, *[night(310, ratio=0.28, finish=0.82)] * 19])[0]
    assert {(verdict.outcome, verdict.raised) for verdict in verdicts} == {(SLOWER, START)}


# The baseline

#: 0 to 20 in an order in which no night resembles the one before.
MIXED = [8 * n % 21 for n in range(21)]


def healthy(count=30, spread=0.1, **metrics):
    rng = random.Random(1)
    return [night(1000 * math.exp(rng.gauss(0, spread)), **metrics) for _ in range(count)]


def spread_over(order):
    return [night(1000 * math.exp((step - 10) / 10)) for step in order]


def test_the_baseline_is_median_and_mad_of_the_first_runs():
    baseline = baseline_of([[*night(990 + value), sample(9000, 9, 0.9, 4)] for value in MIXED])
    assert (baseline.m, baseline.m_r) == pytest.approx((math.log(1000), math.log(0.9)))
    assert (baseline.s, baseline.s_r) == (0.05, 0.05), "nothing is believed to be quieter"
    assert (baseline.overhead_fraction, baseline.nights) == (0.03, 21)
    assert estimate(spread_over(MIXED)).s == pytest.approx(1.4826 * 0.5)
    assert visible_drops(WIDE) == pytest.approx([1 - math.exp(-0.7)])


def test_spread_is_wider_where_contention_lasts_for_nights():
    free, lasting = (estimate(spread_over(order)) for order in (MIXED, range(21)))
    assert lasting.m == free.m
    # Of the values 0, 1, .. 20 in order, winsorised or not, a night resembles the next with 0.85.
    assert lasting.s / free.s == pytest.approx(1 + 1.5 * (0.85 - 0.2), abs=0.03)


def test_a_baseline_without_controls_has_no_ratio():
    baseline = baseline_of(healthy(ratio=None, finish=None))
    assert (baseline.m_r, baseline.s_r, baseline.overhead_fraction) == (None, None, None)
    assert told(ALARM, baseline) == "2 suspect, regression R1"
    few = [*healthy(ratio=None)[:15], *healthy()[15:]]
    assert baseline_of(few).m_r is None, "15 controls are too few"


def bad(value, *numbers):
    """Healthy nights, of which these have another value."""
    return [night(value) if n in numbers else runs for n, runs in enumerate(healthy())]


def test_nights_that_are_no_baseline_are_refused():
    for nights, why in (
        (healthy(19), "19 nights, and a baseline needs at least 20"),
        (bad(400, 0, 5, 7, 10, 15, 20, 25), "7 of 30 nights are below 50% of their median"),
        (bad(650, *range(18, 30)), "MiB/s changes from .* to 650 .* at night 19 of 30"),
        (
            [*healthy(18), *[night(1000, ratio=0.5)] * 12],
            r"the ratio to MPI-IO changes from 0\.9 to 0\.5",
        ),
    ):
        with pytest.raises(BaselineRefused, match=why):
            baseline_of(nights)
    assert baseline_of(healthy(20)).nights == 20
    assert baseline_of(bad(400, 0, 5, 10, 15, 20, 25)).s > 0.05
    transients = baseline_of(bad(100, 3, 9, 17, 26))
    assert transients.m == pytest.approx(math.log(1000), abs=0.05), "gross, and no change"


def test_a_change_point_is_a_change_of_more_than_a_few_percent():
    values = [math.log(1000 if n < 15 else 930) for n in range(30)]
    assert change_point(values) is None
    assert change_point([value - 0.3 * (n >= 15) for n, value in enumerate(values)]) == 15
    values = [math.log(runs[0].best) - 0.4 * (n >= 20) for n, runs in enumerate(healthy())]
    assert change_point(values) == 20
    values[2] = values[25] = 2  # ln MiB/s: gross transients hide no change
    assert change_point(values) == 20


# A filesystem, a library


def alarm_of(rule, raised=0, outcome="regression (own_past)"):
    time = START + timedelta(days=raised)
    return Verdict(outcome_of(outcome), "", rule=rule, drop=0.5, since=time, raised=time)


def test_alarms_of_half_of_the_cases_are_one():
    fine = Verdict(OK, "")
    cases = {"a": alarm_of("R1"), "b": alarm_of("R4", 2), "c": fine, "d": fine}

    def slow(common=Common.FILESYSTEM, day=2, **more):
        return have_alarms(common, {**cases, **more}, START + timedelta(days=day))

    assert slow() == ["a", "b"]
    assert slow(e=fine) == [], "less than half"
    assert slow(day=3) == [], "four nights"
    assert slow(b=alarm_of("R2", 2)) == [], "the library's"
    assert slow(b=alarm_of("R1", 2, "ok (resolved)")) == []
    assert have_alarms(Common.FILESYSTEM, {"a": alarm_of("R1")}, START) == []
    library = {"a": alarm_of("R2"), "b": alarm_of("R3", 2, "regression (slow_library)")}
    assert slow(Common.LIBRARY, **library) == ["a", "b"]


NOISY = replace(BASELINE, s=0.2, s_r=0.1)  # -30 % is 1.8 of its spreads
NAMES = [f"case {number}" for number in range(8)]


def nights_together(count, left=1.0, of_control=1.0, first=0, runs=1, seed=3, slow=NAMES):
    """Nights of eight cases that share a third of their variance, and so much of their bandwidth,
    and of MPI-IO's beside them, is left of those that are slow."""
    rng, nights = random.Random(seed), []
    for number in range(first, first + count):
        shared, together = rng.gauss(0, 0.115), {}
        for name in NAMES:
            part, control = (left, of_control) if name in slow else (1.0, 1.0)
            bests = [1000 * part * math.exp(shared + rng.gauss(0, 0.163)) for _ in range(runs)]
            together[name] = [
                sample(best, 0.9 * part / control, hours=4 * i, night=number)
                for i, best in enumerate(bests)
            ]
        nights.append(together)
    return nights


def group_of(common=Common.FILESYSTEM, baseline=NOISY, names=NAMES):
    return Group(common, dict.fromkeys(names, baseline), nights_together(30, first=-40))


def judged_together(group, nights):
    state, verdicts = Memory(), []
    for runs in nights:
        state, verdict = group.judge(state, runs)
        verdicts.append(verdict)
    return verdicts


def is_red(group, nights):
    return any(verdict.is_red for verdict in judged_together(group, nights))


def test_a_filesystem_shows_what_none_of_its_cases_can():
    group = group_of()
    assert group.baseline.s < 0.8 * NOISY.s
    nights = nights_together(6, 0.7, 0.7, runs=5)
    alarm = judged_together(group, nights)[-1]
    assert (alarm.outcome, alarm.since) == (SLOWER, nights[0][group.panel[0]][0].time)
    assert 0.1 < alarm.drop < 0.35, "the best of five runs is less low"
    for name in NAMES:
        detector, state = Detector(replace(NOISY, m_r=None, s_r=None)), Memory()
        for runs in nights:
            state, verdict = detector.judge(state, runs[name])
            assert not verdict.is_red
    assert not is_red(group, nights_together(200, runs=5, seed=4)), "healthy"


def test_what_a_library_alone_has_lost_is_not_the_filesystems():
    filesystem, library = group_of(), group_of(Common.LIBRARY)
    for control, alone in ((1.0, True), (0.5, False)):
        nights = nights_together(4, 0.5, control, runs=5)
        assert (is_red(filesystem, nights), is_red(library, nights)) == (not alone, alone)
        assert library.slow(nights[-1]) == (NAMES if alone else [])
    assert filesystem.slow(nights[-1]) == NAMES
    assert group_of(Common.LIBRARY, baseline=MPIIO).baseline is None, "MPI-IO has no ratio"


def test_a_filesystem_is_slow_if_most_of_its_cases_are():
    few, many = (nights_together(8, 0.4, 0.4, runs=5, slow=NAMES[:count]) for count in (2, 6))
    assert not is_red(group_of(), few)
    assert judged_together(group_of(), many)[-1].outcome == SLOWER


def test_the_quietest_cases_run_again_and_most_of_them_must_have():
    quiet = dict.fromkeys(NAMES[3:], QUIET) | dict.fromkeys(NAMES[:3], NOISY)
    group = Group(Common.FILESYSTEM, quiet, [])
    assert group.panel == NAMES[3:]
    assert group.baseline.s == QUIET.s, "as wide as one case"
    (runs,) = nights_together(1, 0.5, 0.5, runs=5)

    def tonight(*again):
        """What is said when these cases have run again."""
        part = {name: own if name in again else own[:1] for name, own in runs.items()}
        return group.judge(Memory(), part, final=False)[1]

    for again, count in ((2, 1), (3, 5), (5, 5)):
        verdict = tonight(*NAMES[3 : 3 + again])
        assert (verdict.outcome, verdict.runs) == (SUSPECT, count), again
        assert (verdict.rerun_at is None) == (count == 5)
    assert tonight(*NAMES[:3]).runs == 1, "no quiet case"
    cleared = {name: [own[0], sample(hours=4)] for name, own in runs.items()}
    assert group.judge(Memory(), cleared, final=False)[1].outcome == OK


def test_every_case_below_half_is_seen_the_same_night():
    group = group_of()
    (runs,) = nights_together(1, 0.2, 0.2, runs=5)
    first = {name: own[:1] for name, own in runs.items()}
    assert group.is_far_below(first)
    assert group.judge(Memory(), first, final=False)[1].outcome == SUSPECT
    verdict = group.judge(Memory(), runs)[1]
    assert (verdict.outcome, verdict.rule) == (SLOWER, "R4")
    assert verdict.drop == pytest.approx(0.75, abs=0.1)
    assert not group.is_far_below({**runs, NAMES[0]: [sample(600)]})
    # A group needs half of its cases each night, and four cases at all.
    one_failed = {**runs, NAMES[0]: []}
    assert group.judge(Memory(), one_failed)[1].outcome == SLOWER
    three = {name: runs[name] for name in NAMES[:3]}
    assert not group.is_far_below(three)
    assert group.judge(Memory(), three)[1].outcome == NO_REFERENCE
    few = group_of(names=NAMES[:3])
    assert few.baseline is None
    assert few.judge(Memory(), {})[1].outcome == NO_REFERENCE


def test_a_case_that_is_slower_than_its_filesystem_says_more():
    group, alike = group_of(), {name: [sample(700)] for name in NAMES}
    assert group.says_no_more(NAMES[0], alike)
    assert not group.says_no_more(NAMES[0], {**alike, NAMES[0]: [sample(350)]})
    ratio = {**alike, NAMES[0]: [sample(690, 0.6)]}
    assert not group.says_no_more(NAMES[0], ratio), "its library is slow as well"


def test_one_of_many_charts_is_seldom_suspicious_by_chance():
    """48 charts on the same runs, of 24 OSTs written and read, over 30 nights."""
    rng = random.Random(18)
    nights = [
        {f"{n}": [Sample(START + timedelta(days=day), rng.lognormvariate(0, 0.1))]
         for n in range(48)}
        for day in range(60)
    ]  # fmt: skip
    limits, suspects = NORMAL.for_one_of(48), 0
    for name in nights[0]:
        detector, state = Detector(estimate([n[name] for n in nights[:30]]), limits), Memory()
        for runs in nights[30:]:
            suspects += detector.judge(state, runs[name], final=False)[1].outcome == SUSPECT
            state, _ = detector.judge(state, runs[name])
    assert suspects < 15, "of 1440, a chart alone would be in 33"
    slow = [Sample(START + timedelta(days=60), 0.6)]
    assert detector.judge(Memory(), slow, final=False)[1].outcome == SUSPECT


# What holds on any nights


def series(seed, count=60, spread=0.25):
    """Nights of all sorts: slow spells, jumps, missing controls and re-runs."""
    rng = random.Random(seed)
    nights, shift = [], 0.0
    for _ in range(count):
        shift = rng.choice([0, -0.3, -1, 0.4]) if rng.random() < 0.1 else shift
        runs = []
        for i in range(rng.randint(1, 6)):
            best = 1000 * math.exp(shift + rng.gauss(0, spread))
            ratio = None if rng.random() < 0.1 else 0.9 * math.exp(rng.gauss(0, 0.3))
            runs.append(sample(best, ratio, rng.random() ** 4, hours=i * rng.choice([1, 4, 5])))
        nights.append(sorted(runs, key=lambda run: run.time))
    return nights


def changed_runs(nights, change):
    """The nights with what `change` says of each run."""
    return [[replace(run, **change(run)) for run in runs] for runs in nights]


SEEDS, RULES = st.integers(), st.sampled_from(sorted(SETTINGS))
FEW = settings(max_examples=30)  # each is 60 nights of several runs


@FEW
@given(SEEDS, RULES)
def test_a_replay_says_what_the_nights_said_one_by_one(seed, name):
    """Before its last run a night leaves no trace, and nothing is red but an open alarm, or R3."""
    replayed, end = judged(series(seed), rules=SETTINGS[name])
    detector, state = Detector(BASELINE, SETTINGS[name]), Memory()
    for runs, verdict in zip(dated(series(seed)), replayed, strict=True):
        for count in range(1, len(runs)):
            early = detector.judge(state, runs[:count], final=False)[1]
            assert count > 1 or not early.is_red or state.alarm or early.rule == "R3"
        state, again = Detector(BASELINE, SETTINGS[name]).judge(state, runs)
        assert again == verdict
    assert state == end


@given(st.floats(1, 1e6), st.floats(0.01, 10), st.floats(0, 1), st.integers(1, 6), RULES)
def test_a_constant_series_never_alarms(best, ratio, finish, runs, name):
    nights = [night(*[best] * runs, ratio=ratio, finish=finish)] * 60
    defect = NORMAL.is_defect(finish, ratio)
    verdicts = judged(nights, baseline_of(nights[:30]), SETTINGS[name])[0]
    kinds = {str(verdict.outcome) for verdict in verdicts}
    assert kinds <= ({"regression (slow_library)", "suspect (own_past)"} if defect else {"ok"})


@FEW
@given(SEEDS, st.floats(-8, 8), st.floats(-2, 2))
def test_units_change_no_verdict(seed, unit, of_ratio):
    """Neither of bandwidth nor, where no fault is absolute, of the ratio to MPI-IO."""

    def scaled(run):
        ratio = run.ratio and run.ratio * math.exp(of_ratio)
        best = run.best * math.exp(unit)
        return {"best": best, "ratio": ratio, "overhead_fraction": None}

    nights = changed_runs(series(seed), lambda run: {"overhead_fraction": None})
    (plain, end), (other, end_scaled) = (
        judged(some[30:], estimate(some[:30])) for some in (nights, changed_runs(nights, scaled))
    )
    assert [(str(v.outcome), v.rule, v.runs) for v in plain] == [
        (str(v.outcome), v.rule, v.runs) for v in other
    ]
    assert end.slow.level == pytest.approx(end_scaled.slow.level)


@FEW
@given(SEEDS, RULES)
def test_a_slow_down_needs_three_nights(seed, name):
    nights = changed_runs(series(seed), lambda run: {"ratio": None, "overhead_fraction": None})
    detector, state = Detector(MPIIO, SETTINGS[name]), Memory()
    for runs in dated(nights):
        state, verdict = detector.judge(state, runs)
        if state.alarm and verdict.raised == runs[0].time:
            assert verdict.rule == "R1"
            assert (verdict.raised - verdict.since) >= timedelta(days=2)


@FEW
@given(SEEDS, RULES)
def test_what_is_never_worse_than_usual_never_alarms(seed, name):
    def bettered(run):
        ratio, finish = run.ratio and max(run.ratio, 0.9), min(run.overhead_fraction, 0.03)
        return {"best": max(run.best, 1000), "ratio": ratio, "overhead_fraction": finish}

    nights = changed_runs(series(seed), bettered)
    verdicts = judged(nights, BASELINE, SETTINGS[name])[0]
    assert {str(verdict.outcome) for verdict in verdicts} <= {"ok", "improvement (own_past)"}


@FEW
@given(SEEDS)
def test_without_reruns_better_metrics_never_raise_an_alarm_earlier(seed):
    # With re-runs they may: a slightly better night may be spared the re-run that clears it.
    first = [runs[:1] for runs in series(seed)]
    nights = changed_runs(first, lambda run: {"overhead_fraction": None, "ratio": None})
    better = changed_runs(nights, lambda run: {"best": run.best * 1.3})
    before, after = (
        [verdict.rule for verdict in judged(some, MPIIO)[0]] + ["R1"] for some in (nights, better)
    )
    assert after.index("R1") >= before.index("R1")


@FEW
@given(st.randoms(use_true_random=False), st.sampled_from(Common))
def test_the_order_of_cases_changes_no_verdict(rng, common):
    names = rng.sample(NAMES, len(NAMES))
    baselines = {name: replace(NOISY, s=0.1 + 0.01 * n) for n, name in enumerate(NAMES)}
    blessed, nights = nights_together(30, first=-40), nights_together(6, 0.6, 0.8, runs=5)

    def in_order(values):
        return {name: values[name] for name in names}

    plain, mixed = (
        judged_together(Group(common, order(baselines), map(order, blessed)), map(order, nights))
        for order in (dict, in_order)
    )
    assert plain == mixed
    verdicts = {name: alarm_of(rule) for name, rule in zip(NAMES, ["R1", "R2"] * 4, strict=True)}
    assert have_alarms(common, verdicts, START) == have_alarms(common, in_order(verdicts), START)
