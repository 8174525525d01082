"""The detector on a real year of nightly I/O benchmarks: what would have been reported?"""

import math
import random
from dataclasses import replace
from datetime import timedelta

from detector_trials import PLAIN

from iowatch.detector.backtest import Backtest, PastNight, backtest, persists, read, replay
from iowatch.detector.baseline import estimate
from iowatch.detector.settings import SETTINGS

BLESS = 30
SEEDS = 5
SAME = 0.45  # a re-run is like its night: the probability that the study took from same-day runs
NEAR = [shift for shift in range(-5, 6) if shift]


def with_reruns(nights, rng):
    """Four re-runs for every night: its own value again, or that of one of the nights around it."""
    out = []
    for index, past in enumerate(nights):
        first = past.samples[0]
        samples = [first]
        for number in range(1, 5):
            other = min(max(index + rng.choice(NEAR), 0), len(nights) - 1)
            again = first if rng.random() < SAME else nights[other].samples[0]
            samples.append(replace(again, time=first.time + timedelta(hours=4 * number)))
        out.append(PastNight(past.night, samples))
    return out


def plain(series, percent):
    """(nights, alarms, persisted) of a plain threshold, blessed anew after each alarm."""
    judged = alarms = persisted = 0
    for nights in series:
        index = BLESS
        while index < len(nights):
            baseline = estimate([past.samples for past in nights[index - BLESS : index]])
            limit = math.log(1 - percent / 100)
            while index < len(nights):
                judged += 1
                low = math.log(nights[index].samples[0].best) < baseline.m + limit
                index += 1
                if low:
                    alarms += 1
                    persisted += persists(baseline, nights[index:])
                    index += BLESS
                    break
    return judged, alarms, persisted


def year_rows(path):
    series = read(path)
    runs = sum(len(past.samples) for nights in series.values() for past in nights)
    yield f"{len(series)} series, {sum(map(len, series.values()))} nights, {runs} runs. Per 1000:"
    yield ""
    yield "| rules | nights | alarms | persisted | transient | severe nights | runs a night |"
    yield "|---|---|---|---|---|---|---|"
    for name, settings in SETTINGS.items():
        yield _row(f"iowatch `{name}`, the re-runs that there are", backtest(path, BLESS, settings))
        drawn = Backtest()
        for seed in range(SEEDS):
            for case, nights in series.items():
                rng = random.Random(f"{seed} {case}")
                replay(case, with_reruns(nights, rng), BLESS, settings, drawn)
        yield _row(f"iowatch `{name}`, re-runs drawn ({SEEDS} times)", drawn)
    for percent in PLAIN:
        judged, alarms, persisted = plain(series.values(), percent)
        result = Backtest(judged=judged, runs=judged, alarms=alarms, persisted=persisted)
        yield _row(f"ReFrame -{percent} %", result)


def _row(name, result):
    rate = 1000 / result.judged
    return (
        f"| {name} | {result.judged} | {result.alarms * rate:.2f} | "
        f"{result.persisted / max(result.alarms, 1):.0%} | {result.transients * rate:.2f} | "
        f"{result.severe * rate:.2f} | {result.runs / result.judged:.2f} |"
    )
