"""The detector on a real year of nightly I/O benchmarks: what would have been reported?"""

import math
import random
from dataclasses import replace
from datetime import timedelta
from functools import partial

from detector_trials import NEVER, PLAIN, WARM_UP
from year_table import read_year

from iowatch.judge.backtest import (
    Backtest,
    PastNight,
    bless_case,
    bless_filesystem,
    filesystems,
    persists,
    replay,
)
from iowatch.judge.baseline import estimate
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import SETTINGS

BLESS = 30
SEEDS = 5
SAME = 0.45  # a re-run is like its night: the probability that the study took from same-day runs
NEAR = [shift for shift in range(-5, 6) if shift]


def drawn(nights, rng):
    """Which nights stand for the four re-runs of each: itself again, or one of those around it."""
    for index in range(len(nights)):
        others = []
        for _ in range(4):
            other = min(max(index + rng.choice(NEAR), 0), len(nights) - 1)
            others.append(index if rng.random() < SAME else other)
        yield others


def again(first, others):
    """A run, and these as its re-runs."""
    later = [first.time + timedelta(hours=4 * number) for number in range(1, 5)]
    return [first, *(replace(o, time=at) for o, at in zip(others, later, strict=True))]


def with_reruns(nights, rng):
    """Four re-runs for every night of a case."""
    for past, others in zip(nights, drawn(nights, rng), strict=True):
        first = [nights[other].samples[0] for other in others]
        yield PastNight(past.night, again(past.samples[0], first))


def with_reruns_together(nights, rng):
    """The same for a filesystem: whatever a re-run meets, all of its cases meet."""
    for past, others in zip(nights, drawn(nights, rng), strict=True):
        runs = {
            case: again(drawn_for[0], [nights[o].samples.get(case, drawn_for)[0] for o in others])
            for case, drawn_for in past.samples.items()
        }
        yield PastNight(past.night, runs)


def slowed(samples, left):
    """The runs of a night with this part of their bandwidth."""
    if isinstance(samples, dict):
        return {case: slowed(of_case, left) for case, of_case in samples.items()}
    return [replace(sample, best=sample.best * left) for sample in samples]


def injected(nights, bless, left):
    """(nights from a loss to the first alarm of each window of the year, windows with an alarm
    before it). A window is a bless, nights that warm up, and two weeks with the loss."""
    delays, false, warm = [], 0, BLESS + WARM_UP
    for start in range(0, len(nights) - warm - 14 + 1, 14):
        window = [past.samples for past in nights[start : start + warm + 14]]
        judge, state, alarm = bless(window[:BLESS]), Memory(), NEVER
        for number, samples in enumerate(window[BLESS:], 1 - WARM_UP):
            state, _ = judge.judge(state, slowed(samples, left) if number > 0 else samples)
            if state.alarm:
                alarm = number
                break
        if alarm > 0:
            delays.append(alarm)
        else:
            false += 1
    return delays, false


def plain(series, percent):
    """(nights, alarms, persisted) of a plain threshold, blessed anew after each alarm."""
    judged = alarms = persisted = 0
    for nights in series:
        index = BLESS
        while index < len(nights):
            judge = Detector(estimate([past.samples for past in nights[index - BLESS : index]]))
            limit = math.log(1 - percent / 100)
            while index < len(nights):
                judged += 1
                low = judge.value(nights[index].samples) < limit
                index += 1
                if low:
                    alarms += 1
                    persisted += persists(judge, nights[index:])
                    index += BLESS
                    break
    return judged, alarms, persisted


def year_rows(path):
    read_series = read_year(path)
    series = {case: of_case.nights for case, of_case in read_series.items()}
    whole = filesystems(read_series)
    runs = sum(len(past.samples) for nights in series.values() for past in nights)
    yield (
        f"{len(series)} series on {len(whole)} filesystems, {sum(map(len, series.values()))} "
        f"nights, {runs} runs. Per 1000:"
    )
    yield ""
    yield "| rules | nights | alarms | persisted | transient | severe nights | runs a night |"
    yield "|---|---|---|---|---|---|---|"
    kinds = (("", series, with_reruns, bless_case), (
        ", filesystems", whole, with_reruns_together, bless_filesystem
    ))  # fmt: skip
    for suffix, every, more, bless in kinds:
        for name, settings in SETTINGS.items():
            there, made = Backtest(), Backtest()
            of_settings = partial(bless, settings=settings)
            for case, nights in every.items():
                replay(case, nights, BLESS, of_settings, there)
                for seed in range(SEEDS):
                    rng = random.Random(f"{seed} {case}")
                    replay(case, list(more(nights, rng)), BLESS, of_settings, made)
            yield _row(f"iowatch `{name}`{suffix}, the re-runs that there are", there)
            yield _row(f"iowatch `{name}`{suffix}, re-runs drawn ({SEEDS} times)", made)
    for percent in PLAIN:
        judged, alarms, persisted = plain(series.values(), percent)
        result = Backtest(judged=judged, runs=judged, alarms=alarms, persisted=persisted)
        yield _row(f"ReFrame -{percent} %", result)
    yield ""
    yield f"With a loss on all cases after {BLESS} blessed nights and {WARM_UP} more, in windows of"
    yield "the year; alarms before the loss, and in % within 1 / 2 / 3 / 7 / 14 nights of it:"
    yield ""
    yield "| loss | of | re-runs | windows | alarms before | found |"
    yield "|---|---|---|---|---|---|"
    for percent in (30, 50):
        for noun, (_, every, more, bless) in zip(("a case", "a filesystem"), kinds, strict=True):
            for reruns in ("those that there are", "drawn"):
                yield _injected_row(percent, noun, every, more, bless, reruns)


def _injected_row(percent, noun, every, more, bless, reruns):
    delays, false = [], 0
    for name, nights in every.items():
        if reruns == "drawn":
            nights = list(more(nights, random.Random(name)))
        late, before = injected(nights, bless, 1 - percent / 100)
        delays += late
        false += before
    within = [100 * sum(n <= limit for n in delays) / len(delays) for limit in (1, 2, 3, 7, 14)]
    shown = " / ".join(f"{part:.0f}" for part in within)
    return f"| -{percent} % | {noun} | {reruns} | {len(delays) + false} | {false} | {shown} |"


def _row(name, result):
    rate = 1000 / result.judged
    return (
        f"| {name} | {result.judged} | {result.alarms * rate:.2f} | "
        f"{result.persisted / max(result.alarms, 1):.0%} | {result.transients * rate:.2f} | "
        f"{result.severe * rate:.2f} | {result.runs / result.judged:.2f} |"
    )
