"""Nights made up for the detector: spread 0.1, four re-runs."""

import itertools
import math
from dataclasses import replace
from datetime import datetime, timedelta

from iowatch.judge.baseline import Baseline, Sample
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import NORMAL

START = datetime(2026, 3, 1, 1)
BASELINE = Baseline(math.log(1000), 0.1, math.log(0.9), 0.1, 0.03, 30)
MPIIO = replace(BASELINE, m_r=None, s_r=None)
QUIET = replace(MPIIO, s=0.05)


def sample(best=1000.0, ratio=0.9, finish=0.03, hours=0.0, night=0):
    return Sample(START + timedelta(days=night, hours=hours), best, ratio, finish)


def night(*values, **metrics):
    """The first night: its runs, four hours apart, have these MiB/s."""
    return [sample(best, hours=4 * i, **metrics) for i, best in enumerate(values)]


def low(part=0.5, **metrics):
    """A night whose five runs are all this low, MPI-IO's likewise."""
    return night(*[1000 * part] * 5, **metrics)


WELL = night(1000)
LOW = low()


def dated(nights, first=0):
    """Nights of the first day as nights in a row."""
    return [
        [replace(run, time=run.time + timedelta(days=number)) for run in runs]
        for number, runs in enumerate(nights, first)
    ]


def judged(nights, baseline=BASELINE, rules=NORMAL):
    """The verdicts on nights in a row, and the state in the end."""
    detector, state, verdicts = Detector(baseline, rules), Memory(), []
    for runs in dated(nights):
        state, verdict = detector.judge(state, runs)
        verdicts.append(verdict)
    return verdicts, state


def told(nights, *how):
    """Each night's verdict and rule in one text: `2 suspect, regression R1`, without `own_past`."""
    verdicts, _ = judged(nights, *how)
    return in_a_row(f"{verdict.outcome} {verdict.rule or ''}".strip() for verdict in verdicts)


def in_a_row(outcomes):
    """Outcomes in one text, those alike together: `10 ok, 2 suspect`, without `own_past`."""
    words = [word.replace(" (own_past)", "") for word in outcomes]
    alike = [(word, len(list(group))) for word, group in itertools.groupby(words)]
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in alike)
