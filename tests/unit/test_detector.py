"""The detector's rules."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from unit.detector_nights import BASELINE, MPIIO, QUIET, START, job, kinds, low, night, run, well

from iowatch.detector.baseline import baseline_of, visible_drops
from iowatch.detector.rules import Detector, State

# R1


def test_three_low_nights_are_a_regression_since_the_first():
    judgements, state = run([well(0), low(1), low(2), low(3)])
    assert [j.kind for j in judgements] == ["ok", "suspect", "suspect", "regression"]
    alarm = judgements[-1]
    assert (alarm.rule, alarm.red, alarm.jobs) == ("R1", True, 5)
    assert alarm.drop == pytest.approx(0.5)
    assert (alarm.since, alarm.raised) == (low(1)[0].time, low(3)[0].time)
    assert alarm.sentence == ("bandwidth is 50% below its baseline of 1000 MiB/s since 2026-03-02")
    assert state.alarm == alarm


def test_size_and_date_of_a_regression_are_those_of_the_change():
    slight = [night(n, 880) for n in range(3)]  # 1.3 spreads: adds little and is no re-run's worth
    alarm = run([*slight, well(3), low(4, 0.6), low(5, 0.6), low(6, 0.6)])[0][-1]
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
    judgements, state = run(nights)
    assert judgements[0].kind == "ok"
    assert {j.jobs for j in judgements} == {3}
    assert state.slow.level == 0


def test_jobs_that_nobody_asked_for_are_not_looked_at():
    assert run([night(0, 1000, 100, 100)])[0][0].jobs == 1
    assert run([night(0, 500, 1000, 100)])[0][0].jobs == 2
    assert run([night(0, *[500] * 9)])[0][0].jobs == 5


def test_without_reruns_an_alarm_takes_a_dozen_nights():
    result = kinds([night(n, 500) for n in range(12)], MPIIO)
    assert result.index("regression") == 11


def test_with_each_rerun_a_night_counts_more():
    first = [
        kinds([low(n)[:jobs] for n in range(20)], MPIIO).index("regression") for jobs in range(1, 6)
    ]
    assert first == sorted(first, reverse=True)
    assert (first[0], first[-1]) == (11, 2)


def test_an_immediate_repetition_is_no_rerun_but_clears_if_it_is_well():
    at_once = [[job(n, 500, hours=h / 2) for h in range(5)] for n in range(12)]
    assert kinds(at_once, MPIIO).index("regression") == 11
    assert run([[job(0, 500), job(0, 1000, hours=0.5)]])[0][0].jobs == 2
    assert kinds([[job(0, 500), job(0, 1000, hours=0.5)]], QUIET) == ["ok"]


def test_a_small_drop_of_a_quiet_case_is_found():
    assert kinds([low(n, 0.8) for n in range(3)], QUIET)[-1] == "regression"
    assert "regression" not in kinds([low(n, 0.95) for n in range(20)], QUIET)


# Suspicion and re-runs


def test_a_suspicious_night_asks_for_reruns_until_it_is_clear():
    detector = Detector(BASELINE)
    jobs = low(0)
    for number in range(1, 5):
        state, judgement = detector.judge(State(), jobs[:number], final=False)
        assert (judgement.kind, state) == ("suspect", State())
        assert judgement.rerun_at == jobs[number - 1].time + timedelta(hours=4)
        assert not judgement.red
    state, judgement = detector.judge(State(), jobs, final=False)
    assert judgement.rerun_at is None  # four re-runs are enough
    assert state.slow.level > 0
    assert detector.judge(State(), well(0), final=False)[1].rerun_at is None


def test_the_warn_line_is_higher_while_the_cusum_is_up():
    detector = Detector(MPIIO)
    state, _ = detector.judge(State(), low(0))
    mild = night(1, 860)  # 1.5 spreads
    assert detector.judge(State(), mild, final=False)[1].kind == "ok"
    assert detector.judge(state, mild, final=False)[1].kind == "suspect"


def test_a_suspicious_night_says_when_the_next_job_is_due():
    judgement = Detector(BASELINE).judge(State(), low(0)[:1], final=False)[1]
    assert judgement.sentence == (
        "bandwidth -50% from its baseline, its ratio to MPI-IO +0%, 3% of the time to finish the "
        "file in the best of 1 job(s): a re-run is due from 2026-03-01 05:00"
    )


# R2


def test_a_ratio_below_half_in_every_job_is_a_regression_at_once():
    judgement = run([low(0, 0.3, ratio=0.27)])[0][0]
    assert (judgement.kind, judgement.rule, judgement.since) == ("regression", "R2", START)
    assert judgement.drop == pytest.approx(0.7)
    assert "below its usual 0.90 of MPI-IO's in the same jobs" in judgement.sentence
    assert kinds([low(0, 0.3, ratio=0.27)[:4]]) == ["suspect"]  # a re-run is missing


def test_a_smaller_drop_of_the_ratio_takes_two_nights():
    judgements = run([low(n, 0.7, ratio=0.63) for n in range(2)])[0]
    assert [j.kind for j in judgements] == ["suspect", "regression"]
    assert judgements[1].rule == "R2"
    assert judgements[1].drop == pytest.approx(0.3)


def test_what_is_slow_together_with_mpiio_is_not_the_ratio():
    judgements = run([low(n, 0.25) for n in range(3)])[0]
    assert [j.rule for j in judgements] == ["R4", "R4", "R1"]


def test_a_job_without_its_control_leaves_the_ratio_as_it_was():
    state = run([low(0, 0.7, ratio=0.63)])[1]
    after = run([night(1, 1000, ratio=None)], state=state)[1]
    assert after.ratio == state.ratio
    assert after.ratio.level > 0


# R3


def test_the_close_signature_in_two_jobs_is_a_regression():
    judgement = run([low(0, 0.3, ratio=0.27, close=0.7)])[0][0]
    assert (judgement.kind, judgement.rule, judgement.jobs) == ("regression", "R3", 2)
    assert judgement.sentence == (
        "70% of the time is spent finishing the file in 2 jobs, 3% in its baseline; bandwidth is "
        "70% lower"
    )


def test_the_close_signature_in_one_job_is_none():
    jobs = [job(0, 300, 0.27, 0.7), *night(0, 0, 1000)[1:]]
    assert kinds([jobs]) == ["ok"]
    assert run([jobs])[1].close == 0


def test_without_reruns_the_next_night_confirms_the_close_signature():
    nights = [[job(n, 300, 0.27, 0.7)] for n in range(2)]
    assert kinds(nights) == ["suspect", "regression"]
    assert kinds([nights[0], well(1), [job(2, 300, 0.27, 0.7)]])[-1] == "suspect"


@pytest.mark.parametrize(("phi0", "close"), [(0.03, 0.24), (0.5, 0.69)])
def test_a_close_fraction_near_the_baseline_is_no_signature(phi0, close):
    baseline = replace(BASELINE, phi0=phi0)
    assert run([low(0, 0.9, close=close)], baseline)[0][0].rule is None
    assert run([low(0, 0.9, close=close + 0.02)], baseline)[0][0].rule == "R3"


def test_a_write_phase_that_has_become_faster_is_no_close_signature():
    assert run([low(0, 3, ratio=2.7, close=0.4)])[0][0].rule is None


def test_the_defect_needs_no_baseline():
    judgement = run([low(0, 0.3, ratio=0.27, close=0.7)], None)[0][0]
    assert (judgement.kind, judgement.rule, judgement.drop) == ("defect", "R3", 0.73)
    assert judgement.sentence == (
        "70% of the time is spent finishing the file in 2 jobs, and bandwidth is 0.27 of MPI-IO's: "
        "a fault, whatever the history"
    )
    for figures in ({"ratio": 0.27, "close": 0.4}, {"ratio": 0.6, "close": 0.7}, {"ratio": None}):
        assert kinds([low(0, 0.3, **figures)], None) == ["no_baseline"]


def test_a_defect_that_has_been_blessed_is_still_one():
    faulty = [low(n, 0.3, ratio=0.27, close=0.7) for n in range(30)]
    assert run([faulty[0]], baseline_of(faulty))[0][0].kind == "defect"


# R4, gains, the end of an alarm


def test_a_night_far_below_is_severe_tonight_and_no_more():
    judgements, state = run([low(0, 0.2), well(1)])
    assert (judgements[0].kind, judgements[0].rule, judgements[0].red) == ("severe", "R4", True)
    assert judgements[0].sentence == (
        "all 5 jobs of the night are 80% or more below its baseline of 1000 MiB/s"
    )
    assert (judgements[1].kind, state.alarm) == ("ok", None)
    assert kinds([low(0, 0.2)[:4]]) == ["suspect"]
    assert kinds([low(0, 0.2)], replace(MPIIO, s=0.45)) == ["suspect"]  # not beyond its reach


def test_a_gain_is_an_improvement_until_it_ends():
    gain = [night(n, 1500) for n in range(30)]
    judgements, _ = run([*gain, *[well(n) for n in range(30, 35)]], QUIET)
    result = [j.kind for j in judgements]
    assert result[:4] == ["ok"] * 4
    assert set(result[4:30]) == {"improvement"}
    assert result[32:] == ["ok"] * 3
    assert judgements[10].drop == pytest.approx(-0.5)
    assert not judgements[10].red
    assert judgements[10].sentence == (
        "bandwidth is 50% above its baseline of 1000 MiB/s since 2026-03-01: "
        "bless it if it is to stay"
    )


def test_an_alarm_stays_red_until_five_of_seven_nights_are_well():
    alarm = [low(n) for n in range(3)]
    after = [well(3), low(4), well(5), well(6), low(7), well(8)]
    judgements, state = run([*alarm, *after, well(9)], QUIET)
    assert [j.kind for j in judgements[2:]] == ["regression"] * 7 + ["transient"]
    assert all(j.red for j in judgements[2:-1])
    assert judgements[3].sentence.endswith("(alarm of 2026-03-03, 1 nights well since)")
    over = judgements[-1]
    assert (over.rule, over.red, over.raised) == ("R1", False, low(2)[0].time)
    assert over.sentence == "the alarm of 2026-03-03 has gone: 5 of 7 nights are well"
    assert state.alarm is None
    assert kinds([well(10)], QUIET, state=state) == ["ok"]


def test_an_alarm_does_not_go_if_every_other_night_is_well():
    nights = [well(n) if n % 2 else low(n) for n in range(3, 40)]
    assert set(kinds([*[low(n) for n in range(3)], *nights], QUIET)[2:]) == {"regression"}


def test_an_open_alarm_asks_for_no_rerun():
    _, state = run([low(n) for n in range(3)])
    judgement = Detector(BASELINE).judge(state, low(3)[:1], final=False)[1]
    assert (judgement.kind, judgement.rerun_at) == ("regression", None)


def test_an_alarm_on_the_ratio_does_not_go_while_the_ratio_is_low():
    _, state = run([low(0, 0.3, ratio=0.27)])
    assert set(kinds([night(n, 1000, ratio=0.45) for n in range(1, 20)], state=state)) == {
        "regression"
    }
    assert "transient" in kinds([well(n) for n in range(1, 20)], state=state)


# Noise


def test_a_case_that_cannot_show_the_wanted_drop_is_noisy():
    assert kinds([well(0)], replace(MPIIO, s=0.1)) == ["ok"]
    judgement = run([well(0)], replace(MPIIO, s=0.2))[0][0]
    assert (judgement.kind, judgement.red) == ("noisy", False)
    assert judgement.sentence == "drops under 50% cannot be seen in 7 nights"
    quiet_ratio = run([well(0)], replace(BASELINE, s=0.2, s_r=0.05))[0][0]
    assert quiet_ratio.kind == "ok"
    assert quiet_ratio.sentence == (
        "drops under 50% (16% against MPI-IO) cannot be seen in 7 nights"
    )
    assert visible_drops(replace(MPIIO, s=0.2)) == pytest.approx([1 - math.exp(-0.7)])


def test_a_case_that_is_often_suspicious_is_noisy():
    nights = [night(n, *([500, 1000] if n % 3 == 0 else [1000])) for n in range(24)]
    judgements = run(nights, QUIET)[0]
    assert [j.kind for j in judgements[:19]] == ["ok"] * 19
    assert judgements[19].kind == "noisy"
    assert judgements[19].sentence.startswith("7 of 20 nights were suspicious; ")
