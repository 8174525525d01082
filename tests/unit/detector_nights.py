"""Nights made up for the detector: spread 0.1, four re-runs."""

import math
from dataclasses import replace
from datetime import datetime, timedelta

from iowatch.detector.baseline import Baseline, Job
from iowatch.detector.rules import Detector, State
from iowatch.detector.settings import NORMAL

START = datetime(2026, 3, 1, 1)
BASELINE = Baseline(math.log(1000), 0.1, math.log(0.9), 0.1, 0.03, 30, START, START)
MPIIO = replace(BASELINE, m_r=None, s_r=None)
QUIET = replace(MPIIO, s=0.05)


def job(night=0, best=1000.0, ratio=0.9, close=0.03, hours=0.0):
    return Job(START + timedelta(days=night, hours=hours), best, ratio, close)


def night(number, *values, **figures):
    """A night whose jobs, four hours apart, have these MiB/s."""
    return [job(number, best, hours=4 * i, **figures) for i, best in enumerate(values)]


def low(number, part=0.5, **figures):
    """A night whose five jobs are all this low, MPI-IO's likewise."""
    return night(number, *[1000 * part] * 5, **figures)


def well(number):
    return night(number, 1000)


def run(nights, baseline=BASELINE, rules=NORMAL, state=None):
    """The judgements, and the state in the end."""
    detector, state, judgements = Detector(baseline, rules), state or State(), []
    for jobs in nights:
        state, judgement = detector.judge(state, jobs)
        judgements.append(judgement)
    return judgements, state


def kinds(nights, baseline=BASELINE, **more):
    return [judgement.kind for judgement in run(nights, baseline, **more)[0]]
