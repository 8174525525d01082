"""What the detector made of a run is stored with it, and the next night goes on from there."""

import json
from dataclasses import replace
from random import Random

import pytest
from attrs import evolve
from nights import BLESSED, HDF5, OSTS, at, night_id, ran

from iowatch.cases.verdict import JOB_FAILED
from iowatch.judge.baseline import estimate
from iowatch.judge.bless import Blessed, samples_of
from iowatch.judge.judge import by_past
from iowatch.judge.rules import Detector
from iowatch.judge.stored import judged_of
from iowatch.measure.kinds.slow_ost import OST

NIGHTS = 130


def asked(of, nights, run, blessed):
    """What the detector says of a run that has just ended."""
    *earlier, so_far = nights
    return by_past(of.check, earlier, so_far, blessed, run.time, run.metrics, run.control)


def forgotten(nights):
    """The nights as an iowatch has left them that stored nothing."""
    return [[replace(run, detector={}) for run in runs] for runs in nights]


def measured(of, rng, ago, hour, left):
    """A run with this part of its rate left; of OSTs one may be away."""
    rate = 7700.0 * left * rng.lognormvariate(0, 0.05)
    finish = 0.6 if rng.random() < 0.05 else 0.02
    run = ran(of, ago, hour, rate=rate, control=7700.0 * rng.lognormvariate(0, 0.05), finish=finish)
    if of is HDF5:
        return run
    rates = {
        f"{name}{ost}": 500 * rng.lognormvariate(0, 0.05) * (left if ost == 2 else 1)
        for name in OST.values()
        for ost in range(6 if rng.random() < 0.97 else 5)
    }
    return replace(run, metrics=run.metrics | rates)


def bless(nights, day):
    samples = {runs[0].night: samples_of(runs) for runs in nights if samples_of(runs)}
    return Blessed.make(estimate([*samples.values()]), samples, day, "ops", "quiet")


@pytest.mark.parametrize("of", [HDF5, OSTS])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_stored_state_is_that_of_a_replay_of_all_nights(of, seed):
    """Whatever fails, runs again, gets slow and well again, or is blessed in between."""
    rng, nights, blessed, left, told = Random(seed), [], None, 1.0, []
    for ago in range(NIGHTS, 0, -1):
        if ago in (NIGHTS - 34, NIGHTS - 80):
            blessed = bless(nights[-30:-4], at(0, ago).date())
        if ago < NIGHTS - 34 and rng.random() < 0.15:
            left = rng.choice([1.0, 1.0, 1.0, 0.8, 0.5, 1.2])
        nights.append([])
        for number in range(rng.choice([1, 1, 1, 3, 5])):
            run = measured(of, rng, ago, 1 + 4.1 * number, left)
            past = asked(of, nights, run, blessed)
            if rng.random() < 0.15:  # a state that is wrong stays so
                assert past == asked(of, forgotten(nights), run, blessed)
            stored = json.loads(json.dumps(past.judged.stored(past.verdict)))
            run = replace(run, detector=stored)
            assert judged_of(run) == past.judged, "as it was stored"
            told.append(str(past.verdict.outcome))
            if rng.random() < 0.1:
                run = replace(run, outcome=JOB_FAILED, detector=rng.choice([{}, stored]))
            nights[-1].append(run)
        nights = [runs for runs in nights if runs]
    assert {"ok", "suspect (own_past)", "regression (own_past)", "ok (resolved)"} <= {*told}


def test_a_night_costs_as_much_after_a_year_as_after_a_week(monkeypatch):
    judged = []
    judge = Detector.judge

    def counted(*given, **how):
        judged.append(given)
        return judge(*given, **how)

    monkeypatch.setattr(Detector, "judge", counted)
    costs, nights = [], []
    entry = evolve(BLESSED, first=night_id(300), last=night_id(270))
    for ago in range(250, 0, -1):
        run, count = ran(ago=ago), len(judged)
        past = asked(HDF5, [*nights, []], run, entry)
        costs.append(len(judged) - count)
        nights.append([replace(run, detector=past.judged.stored(past.verdict))])
    assert {*costs} == {costs[0]}
    # A bless, a run of an iowatch that stored nothing, a night that was taken out, a run that was
    # judged without another of its night: once all again.
    lost = [*nights[:-1], *forgotten(nights[-1:]), []]
    for these, blessed in (
        ([*nights, []], evolve(entry, why="louder")),
        (lost, entry),
        ([*nights[:-2], nights[-1], []], entry),
        ([*nights[:-1], [*nights[-2], *nights[-1]], []], entry),
    ):
        count = len(judged)
        asked(HDF5, these, ran(), blessed)
        assert len(judged) - count > 200
