"""What the detector made of a night is stored, and the next night goes on from there."""

import json
from dataclasses import replace
from random import Random
from statistics import median

import pytest
from attrs import evolve
from cases import changed
from nights import BLESSED, HDF5, OSTS, at, night_id, ran, unverified

from iowatch.cases.verdict import JOB_FAILED
from iowatch.judge.baseline import estimate
from iowatch.judge.bless import Blessed, samples_of
from iowatch.judge.groups import Group
from iowatch.judge.judge import by_past
from iowatch.judge.rules import Detector
from iowatch.judge.stored import judged_of
from iowatch.measure.kinds.slow_ost import OST
from iowatch.night.gate import night_of
from iowatch.night.record import SystemRecord

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


PLACES = ("archer:fs3/cray", "archer:fs2/cray")
TOGETHER = [
    changed(HDF5, backend=backend, place=place, ranks=96 * number)
    for backend in ("mpiio", "hdf5")
    for place in PLACES
    for number in range(1, 6)
]


def of_last_night(runs, ago, blessed, stored):
    """The last of these nights, which goes on from what is stored of those before."""
    record = SystemRecord(system="archer", runs=runs, now=at(24, ago), blessed=blessed)
    object.__setattr__(record, "groups", lambda night: stored.get(night, {}))
    return night_of(record, night_id(ago))


def measured_together(rng, ago, left):
    """A run or more of each case, on filesystems of which this part is left; some fail."""
    again = rng.choice([1, 1, 3])
    for of in TOGETHER:
        for number in range(again):
            hour = 1 + 4.1 * number
            control = 7700.0 * left[of.partition] * rng.lognormvariate(0, 0.1)
            rate = control * left[of.backend] * rng.lognormvariate(0, 0.1)
            more = {"control": control} if of.backend == "hdf5" else {}
            run = ran(of, ago, hour, rate=rate, session=f"{ago}-{number}", **more)
            is_lost = rng.random() < 0.002
            yield unverified(of, ago, hour, session=f"{ago}-{number}") if is_lost else run


@pytest.mark.parametrize("seed", [0, 1])
def test_groups_go_on_as_a_replay_of_all_nights_would(seed, monkeypatch):
    """Whatever fails, runs again, gets slow and well again, or is blessed or lost in between; a
    night costs no more than the one before."""
    judged, judge = [], Group.judge
    monkeypatch.setattr(
        Group, "judge", lambda *given, **how: judged.append(0) or judge(*given, **how)
    )
    rng, runs, stored, told, costs = Random(seed), [], {}, set(), []
    entry = evolve(BLESSED, first=night_id(110), last=night_id(81), blessed=at(0, 80).date())
    blessed = dict.fromkeys(TOGETHER, evolve(entry, spread=0.1, ratio_spread=0.1))
    left = dict.fromkeys(["fs3", "fs2", "mpiio", "hdf5"], 1.0)
    for ago in range(110, 0, -1):
        if ago < 80 and rng.random() < 0.15:
            left["hdf5"] = rng.choice([1.0, 1.0, 0.7])
            left |= {place: rng.choice([1.0, 1.0, 1.0, 0.5]) for place in ("fs3", "fs2")}
        if ago == 40:  # one is blessed anew, whose earlier nights say nothing any more
            blessed[TOGETHER[3]] = evolve(entry, first=night_id(75), last=night_id(45))
        if ago == 30:  # a night is taken out
            runs = [run for run in runs if run.night != night_id(31)]
        runs += measured_together(rng, ago, left)
        judged.clear()
        night = of_last_night(runs, ago, blessed, stored)
        costs.append(len(judged))
        if ago < 80 and rng.random() < 0.2:  # a state that is wrong stays so
            replay = of_last_night(runs, ago, blessed, {})
            assert night.groups == replay.groups
            assert [a.sentence for a in night.alarms] == [a.sentence for a in replay.alarms]
        stored[night.id] = json.loads(json.dumps(night.groups))
        told |= {str(alarm.outcome) for alarm in night.alarms}
        told |= {"a library" for alarm in night.alarms if alarm.subject.startswith("hdf5")}
    assert {"a library", "suspect (own_past)", "regression (own_past)", "ok (resolved)"} <= told
    assert len(night.groups) == 5
    assert median(costs[40:]) == 2 * len(night.groups), "tonight so far, and as it is left"
    assert max(costs) > 100, "all again, once"
