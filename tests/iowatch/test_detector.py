"""The detector: its rules, its baseline, the alarm of a filesystem, what holds on any nights."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from detector_nights import (
    BASELINE,
    MPIIO,
    QUIET,
    START,
    judged,
    kinds,
    low,
    night,
    sample,
    well,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from iowatch.detector.baseline import (
    BaselineRefused,
    Sample,
    baseline_of,
    change_point,
    estimate,
    visible_drops,
)
from iowatch.detector.common import Common, Group, each, have_alarms
from iowatch.detector.rules import Detector, State
from iowatch.detector.settings import NORMAL, SETTINGS
from iowatch.verdict import Kind

# R1


def test_three_low_nights_are_a_regression_since_the_first():
    verdicts, state = judged([well(0), low(1), low(2), low(3)])
    assert [j.kind for j in verdicts] == ["ok", "suspect", "suspect", "regression"]
    alarm = verdicts[-1]
    assert (alarm.rule, alarm.is_red, alarm.runs) == ("R1", True, 5)
    assert alarm.drop == pytest.approx(0.5)
    assert (alarm.since, alarm.raised) == (low(1)[0].time, low(3)[0].time)
    assert alarm.sentence == ("bandwidth is 50% below its baseline of 1000 MiB/s since 2026-03-02")
    assert state.alarm == alarm


def test_size_and_date_of_a_regression_are_those_of_the_change():
    slight = [night(n, 880) for n in range(3)]  # 1.3 spreads: adds little and is no re-run's worth
    alarm = judged([*slight, well(3), low(4, 0.6), low(5, 0.6), low(6, 0.6)])[0][-1]
    assert alarm.kind == "regression"
    assert alarm.drop == pytest.approx(0.4)
    assert alarm.since == low(4)[0].time


def test_two_low_nights_are_no_alarm_however_low():
    assert "regression" not in kinds([low(0, 0.4), low(1, 0.4), well(2), low(3, 0.4), low(4, 0.4)])


def test_a_well_night_between_low_ones_begins_anew():
    assert kinds([low(0), low(1), well(2), low(3), low(4)])[-1] == "suspect"
    assert kinds([low(0), low(1), low(2)])[-1] == "regression"


def test_a_rerun_that_is_well_clears_the_night():
    nights = [night(n, 400, 400, 990) for n in range(20)]
    verdicts, state = judged(nights)
    assert verdicts[0].kind == "ok"
    assert {j.runs for j in verdicts} == {3}
    assert state.slow.level == 0


def test_runs_that_nobody_asked_for_are_not_looked_at():
    assert judged([night(0, 1000, 100, 100)])[0][0].runs == 1
    assert judged([night(0, 500, 1000, 100)])[0][0].runs == 2
    assert judged([night(0, *[500] * 9)])[0][0].runs == 5


def test_without_reruns_an_alarm_takes_a_dozen_nights():
    result = kinds([night(n, 500) for n in range(12)], MPIIO)
    assert result.index("regression") == 11


def test_with_each_rerun_a_night_counts_more():
    first = [
        kinds([low(n)[:runs] for n in range(20)], MPIIO).index("regression") for runs in range(1, 6)
    ]
    assert first == sorted(first, reverse=True)
    assert (first[0], first[-1]) == (11, 2)


def test_an_immediate_repetition_is_no_rerun_but_clears_if_it_is_well():
    at_once = [[sample(n, 500, hours=h / 2) for h in range(5)] for n in range(12)]
    assert kinds(at_once, MPIIO).index("regression") == 11
    assert judged([[sample(0, 500), sample(0, 1000, hours=0.5)]])[0][0].runs == 2
    assert kinds([[sample(0, 500), sample(0, 1000, hours=0.5)]], QUIET) == ["ok"]


def test_a_small_drop_of_a_quiet_case_is_found():
    assert kinds([low(n, 0.8) for n in range(3)], QUIET)[-1] == "regression"
    assert "regression" not in kinds([low(n, 0.95) for n in range(20)], QUIET)


# Suspicion and re-runs


def test_a_suspicious_night_asks_for_reruns_until_it_is_clear():
    detector = Detector(BASELINE)
    runs = low(0)
    for number in range(1, 5):
        state, verdict = detector.judge(State(), runs[:number], final=False)
        assert (verdict.kind, state) == ("suspect", State())
        assert verdict.rerun_at == runs[number - 1].time + timedelta(hours=4)
        assert not verdict.is_red
    state, verdict = detector.judge(State(), runs, final=False)
    assert verdict.rerun_at is None  # four re-runs are enough
    assert state.slow.level > 0
    assert detector.judge(State(), well(0), final=False)[1].rerun_at is None


def test_the_warn_line_is_higher_while_the_cusum_is_up():
    detector = Detector(MPIIO)
    state, _ = detector.judge(State(), low(0))
    mild = night(1, 860)  # 1.5 spreads
    assert detector.judge(State(), mild, final=False)[1].kind == "ok"
    assert detector.judge(state, mild, final=False)[1].kind == "suspect"


def test_a_suspicious_night_says_when_the_next_run_is_due():
    verdict = Detector(BASELINE).judge(State(), low(0)[:1], final=False)[1]
    assert verdict.sentence == (
        "bandwidth is 50% below its baseline, its ratio to MPI-IO is at its usual value, "
        "finishing the file takes 3% of the time, in its only run: "
        "a re-run is due from 2026-03-01 05:00"
    )


# R2


def test_a_ratio_below_half_in_every_run_is_a_regression_at_once():
    verdict = judged([low(0, 0.3, ratio=0.27)])[0][0]
    assert (verdict.kind, verdict.rule, verdict.since) == ("regression", "R2", START)
    assert verdict.drop == pytest.approx(0.7)
    assert "below its usual 0.90 of MPI-IO's in the same jobs" in verdict.sentence
    assert kinds([low(0, 0.3, ratio=0.27)[:4]]) == ["suspect"]  # a re-run is missing


def test_a_smaller_drop_of_the_ratio_takes_two_nights():
    verdicts = judged([low(n, 0.7, ratio=0.63) for n in range(2)])[0]
    assert [j.kind for j in verdicts] == ["suspect", "regression"]
    assert verdicts[1].rule == "R2"
    assert verdicts[1].drop == pytest.approx(0.3)


def test_what_is_slow_together_with_mpiio_is_not_the_ratio():
    verdicts = judged([low(n, 0.25) for n in range(3)])[0]
    assert [j.rule for j in verdicts] == ["R4", "R4", "R1"]


def test_a_run_without_its_control_leaves_the_ratio_as_it_was():
    state = judged([low(0, 0.7, ratio=0.63)])[1]
    after = judged([night(1, 1000, ratio=None)], state=state)[1]
    assert after.ratio == state.ratio
    assert after.ratio.level > 0


# R3


@pytest.mark.parametrize("is_final", [True, False])
def test_one_run_that_takes_most_of_its_time_to_finish_the_file_is_a_regression(is_final):
    runs = [sample(0, 300, 0.27, 0.8)]
    _, verdict = Detector(BASELINE).judge(State(), runs, final=is_final)
    assert (verdict.kind, verdict.rule, verdict.runs) == ("regression", "R3", 1)
    assert verdict.sentence == (
        "finishing the file takes 80% of the time, and 3% in its baseline; bandwidth is 70% below "
        "its baseline of 1000 MiB/s and 70% below its usual 0.90 of MPI-IO's in the same jobs"
    )
    without = Detector(None).judge(State(), runs, final=is_final)[1]
    assert (without.kind, without.rule, without.runs) == ("defect", "R3", 1)


def test_one_run_in_which_mpiio_is_slow_too_is_not_enough():
    """Whatever is wrong is not the library alone."""
    assert kinds([[sample(0, 60, 0.27, 0.8)]]) == ["suspect"]
    little = kinds([[sample(0, 100, 0.12, 0.9)]])  # of what the case has lost
    assert little == ["regression"]
    verdict = judged([low(0, 0.06, ratio=0.27, finish=0.8)])[0][0]
    assert (verdict.rule, verdict.runs) == ("R2", 5), "the ratio alone says so, after all re-runs"


@pytest.mark.parametrize("left", [0.7, 0.66, 0.5, 0.3])
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("finish", [0.3, 0.6, 0.9])
def test_a_slow_filesystem_is_never_the_library_however_long_its_files_take(left, spread, finish):
    """MPI-IO has lost as much, and the ratio hardly anything: whatever takes the time, all I/O
    does. Nights by chance a tenth better or worse beside MPI-IO say no more."""
    baseline = replace(BASELINE, s=spread, finish_fraction=0.05)
    nights = [
        low(n, left * 0.98, ratio=0.9 * 0.98 * (1 + 0.1 * (n % 3 - 1)), finish=finish)
        for n in range(20)
    ]
    verdicts = judged(nights, baseline)[0]
    assert not [one for one in verdicts if one.rule in ("R2", "R3")]
    assert not [one.sentence for one in verdicts if "MPI-IO's in the same jobs" in one.sentence]


def test_what_the_library_alone_has_lost_is_told_though_the_filesystem_is_slow_too():
    """To half by the filesystem, and to two thirds of that by the library: R2 has the ratio."""
    nights = [low(n, 0.33, ratio=0.6, finish=0.5) for n in range(2)]
    verdict = judged(nights, replace(BASELINE, s=0.3))[0][-1]
    assert (verdict.rule, verdict.drop) == ("R2", pytest.approx(1 / 3))
    assert "33% below its usual 0.90 of MPI-IO's in the same jobs" in verdict.sentence


def test_what_is_said_of_bandwidth_is_the_bandwidth():
    verdict = judged([[sample(0, 500, 0.27, 0.8)]], replace(BASELINE, s=0.5))[0][0]
    assert verdict.rule == "R3"
    assert "bandwidth is 50% below its baseline" in verdict.sentence
    assert "and 70% below its usual 0.90 of MPI-IO's" in verdict.sentence
    assert verdict.drop == pytest.approx(0.7)


def test_finish_that_takes_less_than_that_must_be_seen_in_two_runs():
    verdict = judged([low(0, 0.6, ratio=0.54, finish=0.4)])[0][0]
    assert (verdict.kind, verdict.rule, verdict.runs) == ("regression", "R3", 2)
    once = [sample(0, 600, 0.54, 0.4), *night(0, 0, 1000)[1:]]
    assert kinds([once]) == ["ok"]
    assert judged([once])[1].finish == 0
    assert kinds([[sample(0, 400, 0.4, 0.6)]], None) == ["suspect"]


def test_without_reruns_the_next_night_confirms_what_finishing_takes():
    nights = [[sample(n, 600, 0.54, 0.4)] for n in range(2)]
    assert kinds(nights) == ["suspect", "regression"]
    assert kinds([nights[0], well(1), [sample(2, 600, 0.54, 0.4)]])[-1] == "suspect"


@pytest.mark.parametrize(("usual", "finish"), [(0.03, 0.24), (0.5, 0.69)])
def test_a_finish_fraction_near_the_baseline_is_no_signature(usual, finish):
    baseline = replace(BASELINE, finish_fraction=usual)
    part = {"part": 0.6, "ratio": 0.54}
    assert judged([low(0, finish=finish, **part)], baseline)[0][0].rule is None
    assert judged([low(0, finish=finish + 0.02, **part)], baseline)[0][0].rule == "R3"


def test_a_write_phase_that_has_become_faster_is_no_close_signature():
    assert judged([low(0, 3, ratio=2.7, finish=0.4)])[0][0].rule is None


def test_the_defect_needs_no_baseline():
    verdict = judged([low(0, 0.3, ratio=0.27, finish=0.7)], None)[0][0]
    assert (verdict.kind, verdict.rule, verdict.drop) == ("defect", "R3", 0.73)
    assert verdict.sentence == (
        "bandwidth is 0.27 of MPI-IO's, and the time goes into finishing the file: "
        "that is a fault, whatever the past was"
    )
    for metrics in ({"ratio": 0.27, "finish": 0.4}, {"ratio": 0.6, "finish": 0.7}, {"ratio": None}):
        assert kinds([low(0, 0.3, **metrics)], None) == ["no_baseline"]


def test_what_nobody_notices_is_no_sign_of_a_slow_close():
    def slow(**changes):
        return [[replace(run, **changes) for run in low(0, 0.3, ratio=0.27, finish=0.7)]]

    assert kinds(slow(finish_s=0.1), None) == ["defect"]
    for change in ({"finish_s": 0.09}, {"ratio_median": 0.5}):
        assert kinds(slow(**change), None) == ["no_baseline"], change
    assert judged(slow())[0][0].rule == "R3"
    assert judged(slow(finish_s=0.09))[0][0].rule != "R3"


def test_a_defect_that_has_been_blessed_is_still_one():
    faulty = [low(n, 0.3, ratio=0.27, finish=0.7) for n in range(30)]
    assert judged([faulty[0]], baseline_of(faulty))[0][0].kind == "defect"


# R4, gains, the end of an alarm


def test_a_night_far_below_is_severe_tonight_and_no_more():
    verdicts, state = judged([low(0, 0.2), well(1)])
    assert (verdicts[0].kind, verdicts[0].rule, verdicts[0].is_red) == ("severe", "R4", True)
    assert verdicts[0].sentence == (
        "all 5 runs of the night are 80% or more below its baseline of 1000 MiB/s"
    )
    assert (verdicts[1].kind, state.alarm) == ("ok", None)
    assert kinds([low(0, 0.2)[:4]]) == ["suspect"]
    assert kinds([low(0, 0.2)], replace(MPIIO, s=0.45)) == ["suspect"]  # not beyond its reach


def test_a_gain_is_an_improvement_until_it_ends():
    gain = [night(n, 1500) for n in range(30)]
    verdicts, _ = judged([*gain, *[well(n) for n in range(30, 35)]], QUIET)
    result = [j.kind for j in verdicts]
    assert result[:4] == ["ok"] * 4
    assert set(result[4:30]) == {"improvement"}
    assert result[32:] == ["ok"] * 3
    assert verdicts[10].drop == pytest.approx(-0.5)
    assert not verdicts[10].is_red
    assert verdicts[10].sentence == (
        "bandwidth is 50% above its baseline of 1000 MiB/s since 2026-03-01: "
        "bless it if it is to stay"
    )


def test_an_alarm_stays_red_until_five_of_seven_nights_are_well():
    alarm = [low(n) for n in range(3)]
    after = [well(3), low(4), well(5), well(6), low(7), well(8)]
    verdicts, state = judged([*alarm, *after, well(9)], QUIET)
    assert [j.kind for j in verdicts[2:]] == ["regression"] * 7 + ["transient"]
    assert all(j.is_red for j in verdicts[2:-1])
    assert verdicts[3].sentence == (
        "bandwidth is at its baseline of 1000 MiB/s tonight (alarm of 2026-03-03, slow since "
        "2026-03-01, nights that were well since: 1)"
    )
    over = verdicts[-1]
    assert (over.rule, over.is_red, over.raised) == ("R1", False, low(2)[0].time)
    assert over.sentence == "the alarm of 2026-03-03 has gone: 5 of 7 nights were well"
    assert state.alarm is None
    assert kinds([well(10)], QUIET, state=state) == ["ok"]


def test_an_alarm_does_not_go_if_every_other_night_is_well():
    nights = [well(n) if n % 2 else low(n) for n in range(3, 40)]
    assert set(kinds([*[low(n) for n in range(3)], *nights], QUIET)[2:]) == {"regression"}


def opened(part=0.5, baseline=BASELINE, **metrics):
    """The state after three nights at this part, and so with an alarm of R1."""
    state = judged([low(n, part, **metrics) for n in range(3)], baseline)[1]
    assert state.alarm
    return state


def test_an_alarm_speaks_of_tonight():
    state = opened()
    was = "(alarm of 2026-03-03, slow since 2026-03-01, nights that were well since: 0)"
    for n, part in ((3, 0.5), (4, 0.7)):
        verdict = judged([low(n, part)], state=state)[0][0]
        assert verdict.sentence == (
            f"bandwidth is {1 - part:.0%} below its baseline of 1000 MiB/s tonight {was}"
        )
        assert verdict.drop == pytest.approx(1 - part)
        assert (verdict.kind, verdict.since, verdict.raised) == (
            "regression",
            START,
            low(2)[0].time,
        )
    ratio = judged([low(0, 0.3, ratio=0.27)])[1]
    verdict = judged([night(1, 1000, ratio=0.6)], state=ratio)[0][0]
    assert verdict.sentence.startswith(
        "bandwidth is 33% below its usual 0.90 of MPI-IO's in the same jobs tonight (alarm of "
    )
    finish = judged([[sample(0, 300, 0.27, 0.8)]])[1]
    verdict = judged([[sample(1, 400, 0.36, 0.7)]], state=finish)[0][0]
    assert verdict.sentence.startswith(
        "finishing the file takes 70% of the time, and 3% in its baseline; bandwidth is 60% below "
        "its baseline of 1000 MiB/s and 60% below its usual 0.90 of MPI-IO's in the same jobs "
        "tonight (alarm of 2026-03-01, slow since 2026-03-01, nights that were well since: 0)"
    )
    defect = judged([low(0, 0.3, ratio=0.27, finish=0.7)], None)[1]
    verdict = judged([low(1, 0.3, ratio=0.4, finish=0.6)[:1]], None, state=defect)[0][0]
    assert (verdict.kind, verdict.drop) == ("defect", pytest.approx(0.6))
    assert verdict.sentence.startswith(
        "bandwidth is 0.40 of MPI-IO's, and finishing the file takes 60% of the time tonight"
    )


def test_an_alarm_goes_the_night_whose_reruns_are_all_as_before():
    detector, state = Detector(BASELINE), opened()
    runs = night(3, *[1000] * 3)
    for number in (1, 2):
        after, verdict = detector.judge(state, runs[:number], final=False)
        assert (after, verdict.kind, verdict.runs) == (state, "regression", number)
        assert verdict.rerun_at == runs[number - 1].time + timedelta(hours=4)
    after, verdict = detector.judge(state, runs, final=False)
    assert (verdict.kind, verdict.rule, verdict.is_red) == ("transient", "R1", False)
    assert verdict.sentence == (
        "the alarm of 2026-03-03 has gone: all 3 runs of the night are as they were before it"
    )
    assert (after.alarm, after.level, after.beyond) == (None, None, None)
    assert detector.judge(state, [*runs[:2], sample(3, 500, hours=8)])[1].kind == "regression"
    assert detector.judge(state, runs[:2])[1].kind == "regression", "a re-run did not come"
    at_once = [sample(3, 1000, hours=number / 2) for number in range(5)]
    assert detector.judge(state, at_once)[1].kind == "regression", "none is a re-run"


def test_a_night_with_one_low_run_is_not_well():
    state = judged([night(n, 1000, 500) for n in range(3, 20)], state=opened())[1]
    assert state.alarm
    assert not any(state.recent)


def test_what_is_nearer_to_the_alarm_than_to_the_baseline_is_not_back():
    baseline, nights = replace(MPIIO, s=0.2), [low(n, 0.55) for n in range(3)]
    state = judged(nights, baseline)[1]
    assert state.alarm.drop == pytest.approx(0.45)
    near, far = (night(3, *[rate] * 5) for rate in (800, 720))  # neither is suspicious
    assert judged([near], baseline, state=state)[0][0].kind == "transient"
    assert judged([far], baseline, state=state)[0][0].kind == "regression"


def test_a_run_that_does_not_show_what_the_alarm_is_about_does_not_end_it():
    ratio = judged([low(0, 0.3, ratio=0.27)])[1]
    finish = judged([[sample(0, 300, 0.27, 0.8)]])[1]
    defect = judged([low(0, 0.3, ratio=0.27, finish=0.7)], None)[1]
    lost = {"ratio": None}, {"finish": None}
    for state, missing in ((ratio, lost[0]), (finish, lost[0]), (finish, lost[1])):
        nights = [night(n, *[1000] * 5, **missing) for n in range(1, 10)]
        assert set(kinds(nights, state=state)) == {"regression"}, missing
    nights = [night(n, *[1000] * 5, **lost[0]) for n in range(1, 10)]
    assert set(kinds(nights, None, state=defect)) == {"defect"}
    assert kinds([night(1, *[1000] * 3)], None, state=defect) == ["transient"]
    assert kinds([night(1, *[1000] * 3)], state=finish) == ["transient"]


def test_a_new_fault_under_an_open_alarm_has_its_own_sentence_and_rerun():
    detector, state = Detector(BASELINE), opened()
    close = [sample(3, 150, 0.27, 0.8)]  # HDF5's, while the filesystem is still at half
    verdict = detector.judge(state, close, final=False)[1]
    assert (verdict.kind, verdict.rule, verdict.raised) == ("regression", "R3", close[0].time)
    assert verdict.sentence.startswith(
        "finishing the file takes 80% of the time, and 3% at the alarm of 2026-03-03; bandwidth is "
        "70% below its 500 MiB/s at the alarm of 2026-03-03 and 70% below its 0.90 of MPI-IO's at "
        "the alarm of 2026-03-03; bandwidth is 85% below its baseline of 1000 MiB/s tonight (alarm"
    )
    assert verdict.drop == pytest.approx(0.7), "of the ratio, beside the baseline"
    deeper = [low(n, 0.2) for n in range(3, 6)]
    first = detector.judge(state, deeper[0][:1], final=False)
    assert first[0] == state
    assert (first[1].kind, first[1].rerun_at) == (
        "regression",
        deeper[0][0].time + timedelta(hours=4),
    )
    assert "; bandwidth is 60% below its level at the alarm of 2026-03-03" in first[1].sentence
    verdicts, after = judged(deeper, state=state)
    assert [verdict.raised.day for verdict in verdicts] == [3, 3, 6]
    assert verdicts[-1].sentence.startswith(
        "bandwidth is 60% below its 500 MiB/s at the alarm of 2026-03-03 since 2026-03-04; "
        "bandwidth is 80% below its baseline of 1000 MiB/s tonight (alarm of 2026-03-03, "
    )
    assert judged([low(6, 0.5)], state=after)[0][0].is_red
    assert judged([night(6, *[1000] * 5)], state=after)[0][0].kind == "transient", "all of it"


def test_what_an_alarm_is_about_is_no_new_fault():
    finish = judged([[sample(0, 300, 0.27, 0.8)]])[1]
    nights = [[sample(n, 310, 0.28, 0.82)] for n in range(1, 20)]
    verdicts = judged(nights, state=finish)[0]
    assert {verdict.kind for verdict in verdicts} == {"regression"}
    assert {verdict.raised for verdict in verdicts} == {START}


def test_an_open_alarm_asks_for_no_rerun():
    _, state = judged([low(n) for n in range(3)])
    verdict = Detector(BASELINE).judge(state, low(3)[:1], final=False)[1]
    assert (verdict.kind, verdict.rerun_at) == ("regression", None)


def test_an_alarm_on_the_ratio_does_not_go_while_the_ratio_is_low():
    _, state = judged([low(0, 0.3, ratio=0.27)])
    assert set(kinds([night(n, 1000, ratio=0.45) for n in range(1, 20)], state=state)) == {
        "regression"
    }
    assert "transient" in kinds([well(n) for n in range(1, 20)], state=state)


# Noise


def test_a_case_that_cannot_show_the_wanted_drop_is_noisy():
    assert kinds([well(0)], replace(MPIIO, s=0.1)) == ["ok"]
    verdict = judged([well(0)], replace(MPIIO, s=0.2))[0][0]
    assert (verdict.kind, verdict.is_red) == ("noisy", False)
    assert verdict.sentence == "drops of less than 50% cannot be seen within 7 nights"
    quiet_ratio = judged([well(0)], replace(BASELINE, s=0.2, s_r=0.05))[0][0]
    assert quiet_ratio.kind == "ok"
    assert quiet_ratio.sentence == (
        "drops of less than 50% (16% against MPI-IO) cannot be seen within 7 nights"
    )
    assert visible_drops(replace(MPIIO, s=0.2)) == pytest.approx([1 - math.exp(-0.7)])


def test_a_case_that_is_often_suspicious_is_noisy():
    nights = [night(n, *([500, 1000] if n % 3 == 0 else [1000])) for n in range(24)]
    verdicts = judged(nights, QUIET)[0]
    assert [j.kind for j in verdicts[:19]] == ["ok"] * 19
    assert verdicts[19].kind == "noisy"
    assert verdicts[19].sentence.startswith("7 of 20 nights were suspicious; ")


# The baseline

#: 0 to 20 in an order in which no night resembles the one before.
MIXED = [8 * n % 21 for n in range(21)]


def healthy(count=30, spread=0.1, seed=1, **metrics):
    rng = random.Random(seed)
    return [night(n, 1000 * math.exp(rng.gauss(0, spread)), **metrics) for n in range(count)]


def test_the_baseline_is_median_and_mad_of_the_first_runs():
    values = [990 + n for n in MIXED]
    nights = [[*night(n, value), sample(n, 9000, 9, 0.9, 4)] for n, value in enumerate(values)]
    baseline = baseline_of(nights)
    assert baseline.m == pytest.approx(math.log(1000))
    assert (baseline.s, baseline.s_r) == (0.05, 0.05)  # nothing is believed to be quieter
    assert baseline.m_r == pytest.approx(math.log(0.9))
    assert (baseline.finish_fraction, baseline.nights) == (0.03, 21)
    assert estimate(spread_over(MIXED)).s == pytest.approx(1.4826 * 0.5)


def spread_over(order):
    return [night(n, 1000 * math.exp((step - 10) / 10)) for n, step in enumerate(order)]


def test_spread_is_wider_where_contention_lasts_for_nights():
    free, lasting = (estimate(spread_over(order)) for order in (MIXED, range(21)))
    assert lasting.m == free.m
    # Of the values 0, 1, .. 20 in order, winsorised or not, a night resembles the next with 0.85.
    assert lasting.s / free.s == pytest.approx(1 + 1.5 * (0.85 - 0.2), abs=0.03)


def test_a_baseline_without_controls_has_no_ratio():
    baseline = baseline_of(healthy(ratio=None, finish=None))
    assert (baseline.m_r, baseline.s_r, baseline.finish_fraction) == (None, None, None)
    assert kinds([low(n) for n in range(3)], baseline)[-1] == "regression"
    few = [*healthy(ratio=None)[:15], *healthy()[15:]]
    assert baseline_of(few).m_r is None  # 15 controls are too few for one


def test_too_few_nights_are_refused():
    assert baseline_of(healthy(20)).nights == 20
    with pytest.raises(BaselineRefused, match=r"19 nights, and a baseline needs at least 20"):
        baseline_of(healthy(19))


def test_too_many_bad_nights_are_refused():
    nights = healthy(30)
    for number in range(0, 30, 5):
        nights[number] = night(number, 400)
    assert baseline_of(nights).s > 0.05
    nights[7] = night(7, 400)
    with pytest.raises(BaselineRefused, match="7 of 30 nights are below 50% of their median"):
        baseline_of(nights)


def test_a_change_inside_the_window_is_refused():
    before = healthy(18)
    nights = [*before, *([sample(n, 650)] for n in range(18, 30))]
    with pytest.raises(BaselineRefused, match=r"MiB/s changes from .* to 650 .* at night 19 of 30"):
        baseline_of(nights)
    ratio = [*before, *([sample(n, 1000, ratio=0.5)] for n in range(18, 30))]
    with pytest.raises(BaselineRefused, match=r"the ratio to MPI-IO changes from 0\.9 to 0\.5"):
        baseline_of(ratio)


def test_a_change_of_a_few_percent_is_none():
    values = [math.log(1000 if n < 15 else 930) for n in range(30)]
    assert change_point(values) is None
    assert change_point([value - 0.3 * (n >= 15) for n, value in enumerate(values)]) == 15


def test_gross_transients_hide_no_change():
    values = [math.log(night[0].best) - 0.4 * (n >= 20) for n, night in enumerate(healthy())]
    assert change_point(values) == 20
    values[2] = values[25] = 2  # ln MiB/s
    assert change_point(values) == 20


def test_gross_transients_are_no_change():
    nights = healthy(30)
    for number in (3, 9, 17, 26):
        nights[number] = night(number, 100)
    assert baseline_of(nights).m == pytest.approx(math.log(1000), abs=0.05)


# A filesystem, a library


def alarm_of(rule, raised=0, kind="regression", drop=0.5):
    time = START + timedelta(days=raised)
    verdict = judged([well(0)])[0][0]
    return replace(verdict, kind=kind, rule=rule, drop=drop, since=time, raised=time)


def test_alarms_of_half_of_the_cases_are_one():
    fine = judged([well(0)])[0][0]
    tonight = START + timedelta(days=2)
    cases = {"a": alarm_of("R1"), "b": alarm_of("R4", 2, "severe", 0.8), "c": fine, "d": fine}

    def slow(common=Common.FILESYSTEM, night=tonight, **more):
        return have_alarms(common, {**cases, **more}, night)

    assert slow() == ["a", "b"]
    assert slow(e=fine) == []  # less than half
    assert slow(night=tonight + timedelta(days=1)) == []  # four nights
    assert slow(b=alarm_of("R2", 2)) == []  # the library's
    assert slow(b=alarm_of("R1", 2, "transient")) == []
    assert have_alarms(Common.FILESYSTEM, {"a": alarm_of("R1")}, tonight) == []
    library = {"a": alarm_of("R2"), "b": alarm_of("R3", 2, "defect")}
    assert slow(Common.LIBRARY, **library) == ["a", "b"]


NOISY = replace(BASELINE, s=0.2, s_r=0.1)  # -30 % is 1.8 of its spreads
NAMES = [f"case {number}" for number in range(8)]


def nights_together(count, left=1.0, of_control=1.0, first=0, runs=1, seed=3, slow=NAMES):
    """Nights of eight cases that share a third of their variance, and so much of their bandwidth,
    and of MPI-IO's beside them, is left of those that are slow."""
    rng = random.Random(seed)
    for number in range(first, first + count):
        shared, together = rng.gauss(0, 0.115), {}
        for name in NAMES:
            own = [math.exp(shared + rng.gauss(0, 0.163)) for _ in range(runs)]
            part, control = (left, of_control) if name in slow else (1.0, 1.0)
            together[name] = [
                sample(number, 1000 * value * part, 0.9 * part / control, hours=4 * i)
                for i, value in enumerate(own)
            ]
        yield together


def group_of(common=Common.FILESYSTEM, baseline=NOISY, names=NAMES, blessed=30):
    nights = list(nights_together(blessed, first=-40))
    return Group(common, dict.fromkeys(names, baseline), nights)


def judged_together(group, nights):
    state, verdicts = State(), []
    for runs in nights:
        state, verdict = group.judge(state, runs)
        verdicts.append(verdict)
    return verdicts


def test_a_filesystem_shows_what_none_of_its_cases_can():
    group = group_of()
    assert group.baseline.s < 0.8 * NOISY.s
    nights = list(nights_together(6, 0.7, 0.7, runs=5))
    verdicts = judged_together(group, nights)
    assert verdicts[-1].kind == "regression"
    assert 0.1 < verdicts[-1].drop < 0.35, "the best of five runs is less low"
    assert verdicts[-1].since == nights[0][group.panel[0]][0].time
    for name in NAMES:
        own = judged([runs[name] for runs in nights], replace(NOISY, m_r=None, s_r=None))[0]
        assert not any(verdict.is_red for verdict in own)
    healthy = judged_together(group, nights_together(200, runs=5, seed=4))
    assert not any(verdict.is_red for verdict in healthy)


def test_what_a_library_alone_has_lost_is_not_the_filesystems():
    filesystem, library = group_of(), group_of(Common.LIBRARY)
    for left, control, names in ((0.5, 1.0, NAMES), (0.5, 0.5, [])):
        nights = list(nights_together(4, left, control, runs=5))
        assert any(v.is_red for v in judged_together(filesystem, nights)) == (not names)
        assert any(v.is_red for v in judged_together(library, nights)) == bool(names)
        assert filesystem.slow(nights[-1]) == (NAMES if not names else []) or names
        assert library.slow(nights[-1]) == names
    assert group_of(Common.LIBRARY, baseline=MPIIO).baseline is None, "MPI-IO has no ratio"


def test_a_filesystem_is_slow_if_most_of_its_cases_are():
    nights = [list(nights_together(8, 0.4, 0.4, runs=5, slow=NAMES[:count])) for count in (2, 6)]
    few, many = (judged_together(group_of(), each) for each in nights)
    assert not any(verdict.is_red for verdict in few)
    assert many[-1].kind == "regression"


def test_the_quietest_cases_run_again_and_most_of_them_must_have():
    quiet = dict.fromkeys(NAMES[3:], QUIET) | dict.fromkeys(NAMES[:3], NOISY)
    group = Group(Common.FILESYSTEM, quiet, [])
    assert group.panel == NAMES[3:]
    assert group.baseline.s == QUIET.s, "as wide as one case"
    (night,) = nights_together(1, 0.5, 0.5, runs=5)
    for again, runs in ((2, 1), (3, 5), (5, 5)):
        names = NAMES[3 : 3 + again]
        part = {name: own if name in names else own[:1] for name, own in night.items()}
        verdict = group.judge(State(), part, final=False)[1]
        assert (verdict.kind, verdict.runs) == ("suspect", runs), again
        assert (verdict.rerun_at is None) == (runs == 5)
    others = {name: own if name in NAMES[:3] else own[:1] for name, own in night.items()}
    assert group.judge(State(), others, final=False)[1].runs == 1
    cleared = {name: [own[0], sample(0, 1000, hours=4)] for name, own in night.items()}
    assert group.judge(State(), cleared, final=False)[1].kind == "ok"


def test_every_case_below_half_is_seen_the_same_night():
    group = group_of()
    (night,) = nights_together(1, 0.2, 0.2, runs=5)
    first = {name: own[:1] for name, own in night.items()}
    assert group.is_far_below(first)
    assert group.judge(State(), first, final=False)[1].kind == "suspect"
    verdict = group.judge(State(), night)[1]
    assert (verdict.kind, verdict.rule) == ("severe", "R4")
    assert verdict.drop == pytest.approx(0.75, abs=0.1)
    assert not group.is_far_below({**night, NAMES[0]: [sample(0, 600)]})
    assert not group.is_far_below({name: night[name] for name in NAMES[:3]}), "half must say so"


def test_a_case_that_is_slower_than_its_filesystem_says_more():
    group = group_of()
    alike = {name: [sample(0, 700)] for name in NAMES}
    assert group.says_no_more(NAMES[0], alike)
    assert not group.says_no_more(NAMES[0], {**alike, NAMES[0]: [sample(0, 350)]})
    ratio = {**alike, NAMES[0]: [sample(0, 690, 0.6)]}
    assert not group.says_no_more(NAMES[0], ratio), "its library is slow as well"


def test_a_group_needs_cases_and_half_of_them_each_night():
    assert group_of(names=NAMES[:3]).baseline is None
    assert group_of(names=NAMES[:3]).judge(State(), {})[1].kind == "no_baseline"
    group = group_of()
    (night,) = nights_together(1, 0.2, 0.2, runs=5)
    some = {name: night[name] for name in NAMES[:3]}
    assert group.judge(State(), some)[1].kind == "no_baseline"
    assert group.judge(State(), {**night, NAMES[0]: []})[1].kind == "severe", "one has failed"


# What holds on any nights


def test_one_of_many_charts_is_seldom_suspicious_by_chance():
    """48 charts on the same runs, of 24 OSTs written and read, over 30 nights."""
    rng = random.Random(18)

    def night(day):
        return {f"{n}": [Sample(START + timedelta(days=day), rng.lognormvariate(0, 0.1))]
                for n in range(48)}  # fmt: skip

    blessed, later = [night(day) for day in range(30)], [night(day) for day in range(30, 60)]
    suspects = [
        name
        for count, tonight in enumerate(later)
        for name, (_, verdict) in each(blessed, later[:count], tonight).items()
        if verdict.kind is Kind.SUSPECT
    ]
    assert len(suspects) < 15, "of 1440, a chart alone would be in 33"
    slow = later[0] | {"7": [Sample(START + timedelta(days=60), 0.6)]}
    assert each(blessed, later[:1], slow)["7"][1].kind is Kind.SUSPECT
    few = {name: value for name, value in slow.items() if name != "8"}
    assert {*each([runs if n < 19 else few for n, runs in enumerate(blessed)], [], slow)} == {*few}


def series(seed, count=60, spread=0.25):
    """Nights of all sorts: slow spells, jumps, missing controls and re-runs."""
    rng = random.Random(seed)
    nights, shift = [], 0.0
    for n in range(count):
        shift = rng.choice([0, -0.3, -1, 0.4]) if rng.random() < 0.1 else shift
        runs = []
        for i in range(rng.randint(1, 6)):
            best = 1000 * math.exp(shift + rng.gauss(0, spread))
            ratio = None if rng.random() < 0.1 else 0.9 * math.exp(rng.gauss(0, 0.3))
            runs.append(sample(n, best, ratio, rng.random() ** 4, hours=i * rng.choice([1, 4, 5])))
        nights.append(sorted(runs, key=lambda each: each.time))
    return nights


@given(st.integers(), st.sampled_from(sorted(SETTINGS)))
def test_a_replay_says_what_the_nights_said_one_by_one(seed, name):
    nights = series(seed)
    replayed, end = judged(nights, rules=SETTINGS[name])
    detector, state = Detector(BASELINE, SETTINGS[name]), State()
    for runs, verdict in zip(nights, replayed, strict=True):
        for count in range(1, len(runs)):  # after each run of the night; leaves no trace
            detector.judge(state, runs[:count], final=False)
        state, again = Detector(BASELINE, SETTINGS[name]).judge(state, runs)
        assert again == verdict
    assert state == end


@given(st.integers())
def test_what_is_said_before_the_last_run_is_not_red_unless_an_alarm_is_open_or_close_is_sure(seed):
    detector, state = Detector(BASELINE), State()
    for runs in series(seed):
        early = detector.judge(state, runs[:1], final=False)[1]
        assert not early.is_red or state.alarm or early.rule == "R3"
        state, _ = detector.judge(state, runs)


@given(
    st.floats(1, 1e6),
    st.floats(0.01, 10),
    st.floats(0, 1),
    st.integers(1, 6),
    st.sampled_from(sorted(SETTINGS)),
)
def test_a_constant_series_never_alarms(best, ratio, finish, runs, name):
    nights = [[sample(n, best, ratio, finish, 4 * i) for i in range(runs)] for n in range(60)]
    baseline = baseline_of(nights[:30])
    defect = NORMAL.is_defect(finish, ratio)
    said = {verdict.kind for verdict in judged(nights, baseline, SETTINGS[name])[0]}
    assert said <= ({"defect", "suspect"} if defect else {"ok"})


@settings(max_examples=30)
@given(st.integers(), st.floats(-8, 8))
def test_the_unit_of_bandwidth_changes_nothing(seed, exponent):
    factor = math.exp(exponent)
    nights = series(seed)
    scaled = [[replace(each, best=each.best * factor) for each in runs] for runs in nights]
    plain, end = judged(nights[30:], estimate(nights[:30]))
    other, end_scaled = judged(scaled[30:], estimate(scaled[:30]))
    assert [(j.kind, j.rule, j.runs) for j in plain] == [(j.kind, j.rule, j.runs) for j in other]
    assert end.slow.level == pytest.approx(end_scaled.slow.level)


@given(st.integers(), st.sampled_from(sorted(SETTINGS)))
def test_a_slow_down_needs_three_nights(seed, name):
    mpiio = [
        [replace(each, ratio=None, finish_fraction=None) for each in runs] for runs in series(seed)
    ]
    detector, state = Detector(MPIIO, SETTINGS[name]), State()
    for runs in mpiio:
        state, verdict = detector.judge(state, runs)
        if state.alarm and verdict.raised == runs[0].time:
            assert verdict.rule == "R1"
            assert (verdict.raised - verdict.since) >= timedelta(days=2)


@given(st.integers())
def test_without_reruns_better_metrics_never_raise_an_alarm_earlier(seed):
    # With re-runs they may: a slightly better night may be spared the re-run that clears it.
    nights = [[replace(runs[0], finish_fraction=None, ratio=None)] for runs in series(seed)]
    better = [[replace(each, best=each.best * 1.3) for each in runs] for runs in nights]

    def first_alarm(each):
        said = kinds(each, MPIIO)
        return said.index("regression") if "regression" in said else len(said)

    assert first_alarm(better) >= first_alarm(nights)
