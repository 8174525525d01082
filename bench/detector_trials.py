"""Trials of the detector on simulated nights: how often it is wrong, and how soon it is right.

A trial is on one of the model's 22 cases, or on filesystems of 16 of them; it runs
iowatch.detector itself.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from detector_model import (
    BLESSED,
    RUNS,
    Finish,
    Model,
    Nights,
    Weather,
    nights_of,
    normal_quantiles,
    quantiles,
)

from iowatch.cases.verdict import OK, Verdict
from iowatch.judge.baseline import estimate
from iowatch.judge.groups import Common, Group, have_alarms
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import GAIN, NORMAL, Settings

CASES = 22
MEMBERS = 16  # cases of a filesystem, of which every fourth is MPI-IO itself
PLAIN = (10, 20, 30, 50)  # ReFrame's lower threshold on the night's run, % below the reference
WARM_UP = 10  # nights between bless and fault
NEVER = 99
HEALTHY = Finish()
#: Name -> what is left of HDF5's bandwidth, and of MPI-IO's; None: the close phase is longer.
FAULTS = {
    "filesystem -30 %": (0.7, 0.7),
    "filesystem -50 %": (0.5, 0.5),
    "filesystem -70 %": (0.3, 0.3),
    "HDF5 only -30 %": (0.7, 1),
    "HDF5 only -50 %": (0.5, 1),
    "HDF5 only -70 %": (0.3, 1),
    "H5Fclose, 60 % left": (0.6, None),
    "H5Fclose, 40 % left": (0.4, None),
    "H5Fclose, 27 % left": (0.27, None),
}


@dataclass(frozen=True)
class Trial:
    """Which nights, and how many of them."""

    model: Model
    series: int  # of every case
    nights: int = 120  # judged
    settings: Settings = NORMAL
    runs: int = RUNS  # a night can have: 1 is a site that never re-runs
    mpiio: bool = False  # the case is MPI-IO: no ratio, no finish
    finish: Finish = HEALTHY
    seed: int = 1

    def simulate(self, index, nights):
        rng = np.random.default_rng([self.seed, index])
        table = quantiles(self.model.icc, index)
        return Nights(rng, table, self.model, self.series, BLESSED + nights, self.finish)

    def nights_of(self, y, control, finish, first=0):
        every = nights_of(control) if self.mpiio else nights_of(y, control, finish, first)
        return [night[: self.runs] for night in every]


def false_alarms(trial, index):
    """Counter: red nights by rule, improvements, runs and nights; plain thresholds by %.

    An alarm is followed by Memory(), as if the site had found nothing and kept the baseline.
    """
    count = Counter()
    sim = trial.simulate(index, trial.nights)
    for y, control, finish in zip(sim.y, sim.control, sim.finish, strict=True):
        nights = trial.nights_of(y, control, finish)
        detector = Detector(estimate(nights[:BLESSED]), trial.settings)
        state, better = Memory(), False
        for night in nights[BLESSED:]:
            state, verdict = detector.judge(state, night)
            count["nights"] += 1
            count["runs"] += verdict.runs
            if verdict.is_red:
                count["all"] += 1
                count[verdict.rule] += 1
            # A severe night is told, and over; a gain is told until it is blessed.
            count[GAIN] += verdict.rule == GAIN and not better
            better = verdict.rule == GAIN
            state = Memory() if state.alarm else state
        first = (control if trial.mpiio else y)[:, 0]
        for percent in PLAIN:
            count[percent] += int((first[BLESSED:] < _reference(first, percent)).sum())
    return count


def _reference(first, percent):
    return np.median(first[:BLESSED]) + np.log(1 - percent / 100)


def detection(trial, index, faults=FAULTS):
    """{fault: {rule: [the night of the first alarm, 1.., of each series]}}; NEVER if none.

    The rule is "all" (a severe night does not count) or a plain threshold in %.
    """
    sim = trial.simulate(index, WARM_UP + trial.nights)
    start = BLESSED + WARM_UP
    first_alarms = {fault: {rule: [] for rule in ("all", *PLAIN)} for fault in faults}
    after = {fault: _faulty(sim, start, *faults[fault]) for fault in faults}
    for series in range(trial.series):
        y, control, finish = sim.y[series], sim.control[series], sim.finish[series]
        nights = trial.nights_of(y[:start], control[:start], finish[:start])
        detector, state = Detector(estimate(nights[:BLESSED]), trial.settings), Memory()
        for night in nights[BLESSED:]:
            state, _ = detector.judge(state, night)
            state = Memory() if state.alarm else state
        for fault, arrays in after.items():
            values = [array[series] for array in arrays]
            nights = trial.nights_of(*values, first=start)
            first_alarms[fault]["all"].append(first_alarm(detector, state, nights))
            for percent in PLAIN:
                low = values[0][:, 0] < _reference(y[:, 0], percent)
                first_alarms[fault][percent].append(int(low.argmax()) + 1 if low.any() else NEVER)
    return first_alarms


def _faulty(sim, start, left, left_of_control):
    if left_of_control is None:
        y, finish = sim.h5fclose(left, start)
        return y, sim.control[:, start:], finish
    y = sim.y[:, start:] + np.log(left)
    return y, sim.control[:, start:] + np.log(left_of_control), sim.finish[:, start:]


def first_alarm(detector, state, nights):
    for number, night in enumerate(nights, 1):
        state, _ = detector.judge(state, night)
        if state.alarm:
            return number
    return NEVER


def first_days(trial, index, left=0.27):
    """No baseline: (nights to the first alarm with H5Fclose slow from the first day, nights judged
    without that fault, alarms on them)."""
    sim = trial.simulate(index, 0)
    y, finish = sim.h5fclose(left, 0)
    detector = Detector(None, trial.settings)
    first_alarms, nights_judged, alarms = [], 0, 0
    for series in range(trial.series):
        control = sim.control[series]
        first_alarms.append(
            first_alarm(detector, Memory(), trial.nights_of(y[series], control, finish[series]))
        )
        state = Memory()
        for night in trial.nights_of(sim.y[series], control, sim.finish[series]):
            state, _ = detector.judge(state, night)
            nights_judged += 1
            alarms += state.alarm is not None
            state = Memory() if state.alarm else state
    return first_alarms, nights_judged, alarms


def visible(trial, index, spreads, of_ratio):
    """Nights to the first alarm on a drop of so many of the case's own spreads, from tonight on."""
    sim = trial.simulate(index, trial.nights)
    first_alarms = []
    for y, control in zip(sim.y, sim.control, strict=True):
        nights = nights_of(y, control)
        baseline = estimate(nights[:BLESSED])
        drop = spreads * (baseline.s_r if of_ratio else baseline.s)
        after = control[BLESSED:] - (0 if of_ratio else drop)
        nights = nights_of(y[BLESSED:] - drop, after, first=BLESSED)
        first_alarms.append(first_alarm(Detector(baseline, trial.settings), Memory(), nights))
    return first_alarms


# Filesystems


@dataclass(frozen=True)
class Whole:
    """Which filesystems, and how many nights of each."""

    model: Model
    part: float  # of its cases' contention that is the same in all of them
    series: int
    nights: int = 120
    runs: int = RUNS
    cases: int = MEMBERS
    settings: Settings = NORMAL
    seed: int = 1
    spread: float | None = None  # of every case; None: that of the model's cases

    def filesystems(self, left=(1, 1), finish=0.0):
        """Yield for each its Groups, by the thing they share, its cases' Detectors, by name, and
        its nights after the bless. From the night WARM_UP on the cases have only these parts of
        HDF5's and MPI-IO's bandwidth left. Finishing the file takes so much more of the time."""
        rng = np.random.default_rng([self.seed, 77])
        nights = BLESSED + WARM_UP + self.nights
        weather = Weather(rng, self.model, self.part, self.series, nights)
        every = [
            Nights(rng, self._table(index), self.model, self.series, nights, weather=weather)
            for index in range(CASES)
        ]  # fmt: skip
        for case in every:
            case.y[:, BLESSED + WARM_UP :] += np.log(left[0])
            case.control[:, BLESSED + WARM_UP :] += np.log(left[1])
            case.finish[:, BLESSED + WARM_UP :] += finish
        for series in range(self.series):
            chosen = rng.choice(CASES, self.cases, replace=False)
            cases = {}
            for place, index in enumerate(chosen):
                case = every[index]
                y, control, part = (
                    values[series] for values in (case.y, case.control, case.finish)
                )
                part = np.minimum(part, 0.95)
                of_case = nights_of(control) if place % 4 == 0 else nights_of(y, control, part)
                cases[str(index)] = [night[: self.runs] for night in of_case]
            baselines = {name: estimate(of_case[:BLESSED]) for name, of_case in cases.items()}
            together = [
                {name: of_case[night] for name, of_case in cases.items()} for night in range(nights)
            ]
            groups = {
                common: Group(common, baselines, together[:BLESSED], self.settings)
                for common in Common
            }
            detectors = {
                name: Detector(baseline, self.settings) for name, baseline in baselines.items()
            }
            yield groups, detectors, together[BLESSED:]

    def _table(self, index):
        return (
            quantiles(self.model.icc, index)
            if self.spread is None
            else (normal_quantiles(self.spread))
        )


def false_alarms_of_filesystems(trial):
    """{what is shared: Counter of red nights by rule, re-runs and nights}."""
    counts = {common: Counter() for common in Common}
    for groups, _, nights in trial.filesystems():
        for common, group in groups.items():
            if not group.baseline:
                continue
            state, count = Memory(), counts[common]
            for runs in nights:
                state, verdict = group.judge(state, runs)
                count["nights"] += 1
                count["reruns"] += (verdict.runs - 1) * len(group.panel)
                if verdict.is_red:
                    count["all"] += 1
                    count[verdict.rule] += 1
                state = Memory() if state.alarm else state
    return counts


def detection_of_filesystems(trial, left):
    """{what is shared: [the night of the first alarm, 1.., of each filesystem]}, and the same under
    "word" for the first night on which every case was below half at once; NEVER if none."""
    first_alarms = {common: [] for common in Common} | {"word": []}
    for groups, _, nights in trial.filesystems(left):
        for common, group in groups.items():
            if not group.baseline:
                continue
            state, alarm = Memory(), NEVER
            for number, runs in enumerate(nights, 1 - WARM_UP):
                state, _ = group.judge(state, runs)
                if state.alarm and number >= 1:
                    alarm = number
                    break
                state = Memory() if state.alarm else state
            first_alarms[common].append(alarm)
        group = groups[Common.FILESYSTEM]
        first = [{name: of_case[:1] for name, of_case in runs.items()} for runs in nights[WARM_UP:]]
        words = [n for n, runs in enumerate(first, 1) if group.is_far_below(runs)]
        first_alarms["word"].append(words[0] if words else NEVER)
    return first_alarms


def blamed(trial, left, finish):
    """Judge filesystems that are slow, whatever the library, and take so much more of the time to
    finish files. Return {what is shared: [the night on which it is first named]}, NEVER if it is
    not. Also return a Counter of the nights of cases with a library, and of their alarms that name
    it.

    A shared thing is named by its chart, or by the alarms of half of its cases.
    """
    first_alarms, count = {common: [] for common in Common}, Counter()
    for groups, detectors, nights in trial.filesystems((left, left), finish):
        whole, states = dict.fromkeys(Common, Memory()), dict.fromkeys(detectors, Memory())
        libraries = {name for name, case in detectors.items() if case.baseline.m_r is not None}
        members = {Common.FILESYSTEM: {*detectors}, Common.LIBRARY: libraries}
        alarms = dict.fromkeys(detectors, Verdict(OK, ""))  # the last of each case
        first = dict.fromkeys(Common, NEVER)
        for number, runs in enumerate(nights, 1 - WARM_UP):
            for name, detector in detectors.items():
                states[name], verdict = detector.judge(states[name], runs[name])
                if verdict.is_red:
                    alarms[name], states[name] = verdict, Memory()
                if number >= 1 and name in libraries:
                    count["nights"] += 1
                    count["library"] += verdict.is_red and verdict.rule in Common.LIBRARY.rules
            time = max(of_case[0].time for of_case in runs.values())
            for common, group in groups.items():
                whole[common], _ = group.judge(whole[common], runs)
                of_members = {name: alarms[name] for name in members[common]}
                if number >= 1 and (whole[common].alarm or have_alarms(common, of_members, time)):
                    first[common] = min(first[common], number)
                whole[common] = Memory() if whole[common].alarm else whole[common]
        for common, night in first.items():
            first_alarms[common].append(night)
    return first_alarms, count
