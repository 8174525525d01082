"""Nights made up for the detector: spread 0.1, four re-runs."""

import math
from dataclasses import replace
from datetime import datetime, timedelta

from iowatch.detector.baseline import Baseline, Sample
from iowatch.detector.rules import Detector, State
from iowatch.detector.settings import NORMAL

START = datetime(2026, 3, 1, 1)
BASELINE = Baseline(math.log(1000), 0.1, math.log(0.9), 0.1, 0.03, 30)
MPIIO = replace(BASELINE, m_r=None, s_r=None)
QUIET = replace(MPIIO, s=0.05)


def sample(night=0, best=1000.0, ratio=0.9, finish=0.03, hours=0.0):
    return Sample(START + timedelta(days=night, hours=hours), best, ratio, finish)


def night(number, *values, **metrics):
    """A night whose runs, four hours apart, have these MiB/s."""
    return [sample(number, best, hours=4 * i, **metrics) for i, best in enumerate(values)]


def low(number, part=0.5, **metrics):
    """A night whose five runs are all this low, MPI-IO's likewise."""
    return night(number, *[1000 * part] * 5, **metrics)


def well(number):
    return night(number, 1000)


def judged(nights, baseline=BASELINE, rules=NORMAL, state=None):
    """The verdicts, and the state in the end."""
    detector, state, verdicts = Detector(baseline, rules), state or State(), []
    for runs in nights:
        state, verdict = detector.judge(state, runs)
        verdicts.append(verdict)
    return verdicts, state


def kinds(nights, baseline=BASELINE, **more):
    return [verdict.kind for verdict in judged(nights, baseline, **more)[0]]
