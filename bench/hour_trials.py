"""The judging of hours: false alarms under users' load, and how soon a change is found.

usage: hour_trials.py [--smallest]

Prints the table of docs/explanation/evidence.md. A series is the p99 of six calls of a case by
hour: a shape of the day, weekends, days and hours that differ, and bursts of users. Some bursts
are very large, and some last for long. --smallest shows in a second that the table still has its
figures.
"""

import argparse
import math
import random
from datetime import UTC, datetime, timedelta

from iowatch.judge.by_hour import HourValue, slow_hours, together

FIRST = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
CALLS = 6
PAST = 29  # days before the first night that is judged
#: Spread of an hour, the natural logarithm.
NOISE = (0.15, 0.25, 0.4)
FACTORS = (1.5, 2.0, 4.0)


def bursts(rng, hours):
    """The natural logarithm of what users' bursts add to each hour: one begins in 20 hours, lasts 3
    on average, and is as much as Pareto's law has it."""
    added, left, size = [], 0, 0.0
    for _ in range(hours):
        if left <= 0 and rng.random() < 0.05:
            left, size = 1, math.log(min(50.0, rng.paretovariate(1.2)))
            while rng.random() < 2 / 3:
                left += 1
        added.append(size if left > 0 else 0.0)
        left -= 1
    return added


def series(rng, days, noise, change=None, factor=1.0):
    """The hours of each call, all of which meet the same users; `change` is the first hour of a
    level that stays."""
    load = []
    for day, added in enumerate(zip(*[iter(bursts(rng, 24 * days))] * 24, strict=True)):
        level = rng.gauss(0, 0.1) - (0.3 if day % 7 >= 5 else 0.0)
        load += [
            level + 0.6 * math.sin((hour - 8) / 12 * math.pi) + more
            for hour, more in enumerate(added)
        ]
    calls = []
    for _ in range(CALLS):
        lasting, values = 0.0, []
        for hour, common in enumerate(load):
            lasting = 0.6 * lasting + rng.gauss(0, 0.8 * noise)
            new = math.log(factor) if change is not None and hour >= change else 0.0
            time = FIRST + timedelta(hours=hour)
            values.append(HourValue(time, 1e-3 * math.exp(common + lasting + new)))
        calls.append(values)
    return calls


def is_suspect(calls, hour):
    """Whether any call is, or all together are, judged at this hour."""
    judged = [values[max(0, hour - 24 * PAST) : hour + 1] for values in calls]
    return any(slow_hours(values, values[-1].time) for values in [*judged, together(judged)])


def false_alarms(rng, noise, trials, nights):
    """Suspect nights for 1000 hours of a case."""
    suspect = 0
    for _ in range(trials):
        calls = series(rng, PAST + nights, noise)
        suspect += sum(is_suspect(calls, 24 * (PAST + night) + 1) for night in range(nights))
    return 1000 * suspect / (trials * nights * 24)


def detected(rng, noise, factor, trials):
    """The part of changes that are suspect when they are a day old."""
    count = 0
    for _ in range(trials):
        change = 24 * PAST + rng.randrange(24 * 7)
        count += is_suspect(series(rng, PAST + 9, noise, change, factor), change + 23)
    return count / trials


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smallest", action="store_true", help="a few trials")
    few = parser.parse_args().smallest
    print("| spread of an hour | false alarms | x1.5 | x2 | x4 |")
    print("|---|---|---|---|---|")
    for noise in NOISE[: 1 if few else None]:
        rng = random.Random(1)
        alarms = false_alarms(rng, noise, 1 if few else 80, 2 if few else 60)
        parts = (f"{detected(rng, noise, factor, 1 if few else 100):.0%}" for factor in FACTORS)
        print(f"| {noise} | {alarms:.3f} | {' | '.join(parts)} |")


if __name__ == "__main__":
    main()
