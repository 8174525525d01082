"""What holds of the detector on any nights."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.detector_nights import BASELINE, MPIIO, job, kinds, run

from iowatch.detector.baseline import baseline_of, estimate
from iowatch.detector.rules import Detector, State
from iowatch.detector.settings import SETTINGS


def series(seed, count=60, spread=0.25):
    """Nights of all sorts: slow spells, jumps, missing controls and re-runs."""
    rng = random.Random(seed)
    nights, shift = [], 0.0
    for n in range(count):
        shift = rng.choice([0, -0.3, -1, 0.4]) if rng.random() < 0.1 else shift
        jobs = []
        for i in range(rng.randint(1, 6)):
            best = 1000 * math.exp(shift + rng.gauss(0, spread))
            ratio = None if rng.random() < 0.1 else 0.9 * math.exp(rng.gauss(0, 0.3))
            jobs.append(job(n, best, ratio, rng.random() ** 4, hours=i * rng.choice([1, 4, 5])))
        nights.append(sorted(jobs, key=lambda each: each.time))
    return nights


@given(st.integers(), st.sampled_from(sorted(SETTINGS)))
def test_a_replay_says_what_the_nights_said_one_by_one(seed, name):
    nights = series(seed)
    replayed, end = run(nights, rules=SETTINGS[name])
    detector, state = Detector(BASELINE, SETTINGS[name]), State()
    for jobs, judgement in zip(nights, replayed, strict=True):
        for count in range(1, len(jobs)):  # after each job of the night; leaves no trace
            detector.judge(state, jobs[:count], final=False)
        state, again = Detector(BASELINE, SETTINGS[name]).judge(state, jobs)
        assert again == judgement
    assert state == end


@given(st.integers())
def test_what_is_said_before_the_last_job_is_not_red_unless_an_alarm_is_open_or_close_is_sure(seed):
    detector, state = Detector(BASELINE), State()
    for jobs in series(seed):
        early = detector.judge(state, jobs[:1], final=False)[1]
        assert not early.red or state.alarm or early.rule == "R3"
        state, _ = detector.judge(state, jobs)


@given(
    st.floats(1, 1e6),
    st.floats(0.01, 10),
    st.floats(0, 1),
    st.integers(1, 6),
    st.sampled_from(sorted(SETTINGS)),
)
def test_a_constant_series_never_alarms(best, ratio, close, jobs, name):
    nights = [[job(n, best, ratio, close, 4 * i) for i in range(jobs)] for n in range(60)]
    baseline = baseline_of(nights[:30])
    defect = close > 0.45 and ratio < 0.5
    said = {judgement.kind for judgement in run(nights, baseline, SETTINGS[name])[0]}
    assert said <= ({"defect", "suspect"} if defect else {"ok"})


@settings(max_examples=30)
@given(st.integers(), st.floats(-8, 8))
def test_the_unit_of_bandwidth_changes_nothing(seed, exponent):
    factor = math.exp(exponent)
    nights = series(seed)
    scaled = [[replace(each, best=each.best * factor) for each in jobs] for jobs in nights]
    plain, end = run(nights[30:], estimate(nights[:30]))
    other, end_scaled = run(scaled[30:], estimate(scaled[:30]))
    assert [(j.kind, j.rule, j.jobs) for j in plain] == [(j.kind, j.rule, j.jobs) for j in other]
    assert end.slow.level == pytest.approx(end_scaled.slow.level)


@given(st.integers(), st.sampled_from(sorted(SETTINGS)))
def test_a_slow_down_needs_three_nights(seed, name):
    mpiio = [[replace(each, ratio=None, close=None) for each in jobs] for jobs in series(seed)]
    detector, state = Detector(MPIIO, SETTINGS[name]), State()
    for jobs in mpiio:
        state, judgement = detector.judge(state, jobs)
        if state.alarm and judgement.raised == jobs[0].time:
            assert judgement.rule == "R1"
            assert (judgement.raised - judgement.since) >= timedelta(days=2)


@given(st.integers())
def test_without_reruns_better_figures_never_raise_an_alarm_earlier(seed):
    # With re-runs they may: a slightly better night may be spared the re-run that clears it.
    nights = [[replace(jobs[0], close=None, ratio=None)] for jobs in series(seed)]
    better = [[replace(each, best=each.best * 1.3) for each in jobs] for jobs in nights]

    def first_alarm(each):
        said = kinds(each, MPIIO)
        return said.index("regression") if "regression" in said else len(said)

    assert first_alarm(better) >= first_alarm(nights)
