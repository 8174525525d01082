"""How often `iowatch compare` says "no loss" of what has lost, and what it can show: prints tables.

usage: compare.py [--write] [--year CSV] [--smallest]

--write puts them into compare.txt, which the documentation includes. CSV is a table of a real year,
as of detector.py, by default $YEAR; without it the table of the year stays as it is.
"""

import argparse
import math
import os
import sys
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from detector import header, row, write
from detector_model import HARDER, MAIN, PESSIMISTIC, Nights, Weather, normal_quantiles, quantiles
from year_table import read_year

from iowatch.judge.change import Decision, NightValue, Ruling, between, near, of_pairs, together

TABLES = Path(__file__).with_name("compare.txt")
MODELS = {"main": MAIN, "pessimistic": PESSIMISTIC, "harder": HARDER}
SHARED = 0.5  # of the contention of all cases of a filesystem
#: Nights before and after; None: nights of pairs.
SIDES = (
    (3, 3), (5, 5), (10, 10), (20, 20), (20, 5), (5, 20),
    (3, None), (5, None), (10, None), (20, None),
)  # fmt: skip
#: Of the real year, also nights of which not all are near to the other side; and days between.
FAR = (((30, 30), 0), ((20, 20), 7), ((20, 20), 14))
CASES = (1, 4, 16)
TRIALS = 1000
LIMIT = 0.05
#: What it can show: nights, the spread of a case's nights (None: the cases of the ARCHER tables),
#: cases, losses of all of them, and limits.
SHOWN = ((5, 5), (10, 10), (20, 20), (5, None), (10, None), (20, None))
SPREADS = (0.03, 0.08, None)
FAMILY = 8
LOSSES = (0.0, 0.02, 0.05, 0.1, 0.2)
LIMITS = (0.05, 0.1)
POWER_TRIALS = 250
SMALLEST = "--smallest" in sys.argv


def rates(rng, model, cases, trials, nights, spread):
    """Yields ln MiB/s of two runs of each night of a case: arrays of trials x nights x 2."""
    weather = Weather(rng, model, SHARED if cases > 1 else 0.0, trials, nights)
    for _ in range(cases):
        table = normal_quantiles(spread) if spread else quantiles(model.icc, rng.integers(22))
        yield Nights(rng, table, model, trials, nights, weather=weather).y[:, :, :2]


def changes(rng, model, lost, trials, sides, spread=None):
    """Yields the changes of each trial: those of cases that lose these parts, and of them all."""
    before, after = sides
    nights = before + (after or 0)
    sets = list(rates(rng, model, len(lost), trials, nights, spread))
    if after:
        values = np.stack([runs[:, :, 0] for runs in sets], axis=1)
    else:
        first = rng.integers(2, size=(trials, nights, 1))  # of a pair
        pairs = (np.where(first, runs, runs[:, :, ::-1]) for runs in sets)
        values = np.stack([runs[:, :, 1] - runs[:, :, 0] for runs in pairs], axis=1)
    values[:, :, before if after else 0 :] += np.log1p(-np.array(lost))[:, None]
    for trial in values.tolist():
        yield (
            [change_of(sides, trial[:1])]
            if len(lost) == 1
            else [
                *(change_of(sides, [case]) for case in trial),
                change_of(sides, trial),
            ]
        )


def change_of(sides, cases, gap=0):
    """The change of the nights of one case, or of several together; with so many days between."""
    before, after = sides
    nights = [
        [NightValue(float(n), value, str(n)) for n, value in enumerate(case)] for case in cases
    ]
    of_all = together(nights) if len(cases) > 1 else nights[0]
    return between(*near(of_all[:before], of_all[before + gap :])) if after else of_pairs(of_all)


def interval(count, trials):
    """The exact 95 % interval of a probability, in percent."""

    def at_most(most, p):
        return sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(most + 1))

    def solve(is_below):
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return 100 * high

    low = solve(lambda p: 1 - at_most(count - 1, p) < 0.025) if count else 0.0
    return low, solve(lambda p: at_most(count, p) > 0.025)


def in_words(sides):
    before, after = sides
    return f"{before} before, {after} after" if after else f"{before} of pairs"


def wrong(task):
    """In how many trials "no loss" is said of something that has lost the limit."""
    seed, name, sides, cases, losing = task
    rng = np.random.default_rng(seed)
    lost = [LIMIT] * losing + [0.0] * (cases - losing)
    trials = 5 if SMALLEST else TRIALS
    count = 0
    for known in changes(rng, MODELS[name], lost, trials, sides):
        decision = Decision.make(known, LIMIT)
        concerned = known[:losing] if losing < cases else known
        count += any(decision.answer(change) is Ruling.NO_LOSS for change in concerned)
    low, high = interval(count, trials)
    return f"{100 * count / trials:.1f} ({low:.1f} to {high:.1f})"


def false_rows(pool):
    yield (
        'False "no loss above 5 %" in percent, with exact 95 % intervals: of one case that has\n'
        "lost 5 % while others have lost nothing, and of any where all have lost 5 %:"
    )
    yield from header("model", "nights", *(f"{n} of {k}" for k in CASES for n in lost_of(k)))
    rows = [(name, sides) for name in MODELS for sides in SIDES][: 2 if SMALLEST else None]
    tasks = [
        (number, name, sides, cases, losing)
        for number, (name, sides) in enumerate(rows)
        for cases in CASES
        for losing in lost_of(cases)
    ]
    cells = pool.imap(wrong, tasks)
    for name, sides in rows:
        yield row(name, in_words(sides), *(next(cells) for k in CASES for _ in lost_of(k)))


def lost_of(cases):
    return (1, cases) if cases > 1 else (1,)


def shown(task):
    """Cells of a table: the verdicts on a case, and on all together."""
    seed, spread, sides, loss = task
    rng = np.random.default_rng(seed)
    trials = 3 if SMALLEST else POWER_TRIALS
    counts = np.zeros((2, len(LIMITS) + 1))
    for known in changes(rng, MAIN, [loss] * FAMILY, trials, sides, spread):
        for place, limit in enumerate(LIMITS):
            decision = Decision.make(known, limit)
            answers = [decision.answer(change) for change in known]
            for line, part in enumerate((answers[:-1], answers[-1:])):
                counts[line, place] += part.count(Ruling.NO_LOSS) / len(part)
                if place == 0:
                    counts[line, -1] += part.count(Ruling.LOSS) / len(part)
    return [" / ".join(f"{100 * count / trials:.0f}" for count in line) for line in counts]


def power_rows(pool):
    yield ""
    yield (
        f"What is said of {FAMILY} cases of a filesystem that all lose so much, in percent: no\n"
        "loss above 5 % / above 10 % / loss. Model main, by the spread of a night:"
    )
    yield from header("spread", "nights", "of", *(f"{100 * loss:.0f} %" for loss in LOSSES))
    rows = [(spread, sides) for spread in SPREADS for sides in SHOWN][: 2 if SMALLEST else None]
    tasks = [(n, *pair, loss) for n, pair in enumerate(rows) for loss in LOSSES]
    cells = pool.imap(shown, tasks)
    for spread, sides in rows:
        name = f"{100 * spread:.0f} %" if spread else "ARCHER"
        both = zip(*(next(cells) for _ in LOSSES), strict=True)
        for subject, line in zip(("a case", "all together"), both, strict=True):
            yield row(name, in_words(sides), subject, *line)


def year_rows(path):
    """The same of the nights of a real year, in which some things have really changed."""
    series = [
        [math.log(night.samples[0].best) for night in past.nights]
        for past in read_year(path).values()
    ]
    yield from header("nights", "windows", 'false "no loss above 5 %"', "no loss above 20 %")
    for sides, gap in [*((pair, 0) for pair in SIDES if pair[1]), *FAR]:
        count, false, none = 0, [], []
        for values in series:
            windows = range(0, len(values) - sum(sides) - gap, 3)
            told = {0.05: 0, 0.2: 0}
            for first in windows:
                window = values[first : first + sum(sides) + gap]
                for lost, limit in ((0.05, 0.05), (0.0, 0.2)):
                    after = [value + math.log1p(-lost) for value in window[sides[0] :]]
                    change = change_of(sides, [window[: sides[0]] + after], gap)
                    told[limit] += Decision.make([change], limit).answer(change) is Ruling.NO_LOSS
            if windows:
                count += len(windows)
                false.append(100 * told[0.05] / len(windows))
                none.append(100 * told[0.2] / len(windows))
        words = in_words(sides) + (f", {gap} days between" if gap else "")
        yield row(words, count, f"{np.mean(false):.1f}", f"{np.mean(none):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into compare.txt")
    parser.add_argument("--year", type=Path, default=os.environ.get("YEAR"))
    parser.add_argument("--smallest", action="store_true", help="of each a row or two")
    options = parser.parse_args()
    with Pool() as pool:
        sections = {"changes": [*false_rows(pool), *power_rows(pool)]}
    if options.year:
        sections["changes of the year"] = [*year_rows(Path(options.year))]
    for section, lines in sections.items():
        print(*lines, sep="\n")
        if options.write:
            write(section, lines, TABLES)


if __name__ == "__main__":
    main()
