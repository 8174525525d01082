"""The detector's benchmark: false alarms and detection, beside ReFrame's plain thresholds.

usage: detector.py [--write] [--year CSV] [--smallest]

Prints its tables; --write puts them into detector.txt, which the documentation includes. CSV is a
table of a real year (docs/explanation/evidence.md says where to find one), by default $YEAR;
without it the tables of the year stay as they are. --smallest shows in seconds that every table
still has its figures: a row of each, from a trial of one series.
"""

import argparse
import math
import os
import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from detector_model import HARDER, MAIN, PESSIMISTIC, Finish
from detector_trials import (
    CASES,
    FAULTS,
    MEMBERS,
    PLAIN,
    Trial,
    Whole,
    blamed,
    detection,
    detection_of_filesystems,
    false_alarms,
    false_alarms_of_filesystems,
    first_days,
    visible,
)
from detector_year import year_rows

from iowatch.judge.groups import Common
from iowatch.judge.settings import GAIN, R1, R2, R3, R4, SETTINGS

TABLES = Path(__file__).with_name("detector.txt")
#: Row -> trial of false alarms. Nights of each: 22 cases x series x 120.
FALSE = {
    "main": Trial(MAIN, 300),
    "pessimistic": Trial(PESSIMISTIC, 150),
    "harder": Trial(HARDER, 100),
    "main, stalls spare MPI-IO": Trial(MAIN, 100, finish=Finish(shared=0.0)),
    "main, without re-runs": Trial(MAIN, 100, runs=1),
    "pessimistic, without re-runs": Trial(PESSIMISTIC, 100, runs=1),
    "main, MPI-IO itself": Trial(MAIN, 100, mpiio=True),
    "pessimistic, MPI-IO itself": Trial(PESSIMISTIC, 100, mpiio=True),
    "main, `sensitive`": Trial(MAIN, 100, settings=SETTINGS["sensitive"]),
    "pessimistic, `sensitive`": Trial(PESSIMISTIC, 100, settings=SETTINGS["sensitive"]),
    "main, `quiet`": Trial(MAIN, 100, settings=SETTINGS["quiet"]),
    "pessimistic, `quiet`": Trial(PESSIMISTIC, 100, settings=SETTINGS["quiet"]),
}
WITHIN = (1, 2, 3, 7, 14)
NIGHTS = f"within {' / '.join(map(str, WITHIN))} nights"
#: Table -> trial of detection, and with the plain thresholds beside it or not.
FOUND = {
    "main": (Trial(MAIN, 100, 14), True),
    "pessimistic": (Trial(PESSIMISTIC, 60, 14), False),
    "harder": (Trial(HARDER, 60, 14), False),
    "main, without re-runs": (Trial(MAIN, 40, 14, runs=1), False),
    "main, `sensitive`": (Trial(MAIN, 40, 14, settings=SETTINGS["sensitive"]), False),
    "main, `quiet`": (Trial(MAIN, 40, 14, settings=SETTINGS["quiet"]), False),
}
SPREADS = (3, 3.5, 4, 4.5, 5, 6)
#: Row -> filesystems of one seed; each row has SEEDS of them.
WHOLE = {
    "main, 0.3": Whole(MAIN, 0.3, 25),
    "main, 0.5": Whole(MAIN, 0.5, 25),
    "pessimistic, 0.3": Whole(PESSIMISTIC, 0.3, 25),
    "pessimistic, 0.5": Whole(PESSIMISTIC, 0.5, 25),
    "harder, 0.5": Whole(HARDER, 0.5, 25),
    "main, 0.5, 5 cases": Whole(MAIN, 0.5, 25, cases=5),
    "pessimistic, 0.5, 5 cases": Whole(PESSIMISTIC, 0.5, 25, cases=5),
    "main, 0.5, without re-runs": Whole(MAIN, 0.5, 25, runs=1),
}
SEEDS = 12
#: Slow filesystems: the part of all bandwidth that is left, the spreads of the cases (None: the
#: model's), and the rise of the part of the time that finishes a file.
SLOW = (0.7, 0.5, 0.3)
SLOW_SPREADS = (0.1, 0.3, 0.5, None)
SLOW_FINISH = (0.1, 0.3)
#: Fault -> what is left of HDF5's bandwidth in all cases that are not MPI-IO's, and of MPI-IO's.
SHARED_FAULTS = {
    name: left for name, left in FAULTS.items() if left[1] is not None and name != "HDF5 only -70 %"
}
SMALLEST = "--smallest" in sys.argv
if SMALLEST:
    FALSE, FOUND, WHOLE, SHARED_FAULTS = (
        dict(list(table.items())[:2]) for table in (FALSE, FOUND, WHOLE, SHARED_FAULTS)
    )
    SEEDS, SPREADS = 1, SPREADS[-1:]
    SLOW, SLOW_SPREADS, SLOW_FINISH = SLOW[-1:], SLOW_SPREADS[:1], SLOW_FINISH[:1]


def call(task):
    function, (trial, *more) = task
    if SMALLEST:
        trial = replace(trial, series=1, nights=14)
    return function(trial, *more)


def over_cases(pool, function, trial, *more):
    """The function's results, one for each case."""
    return pool.imap(
        call, [(function, (trial, index, *more)) for index in range(1 if SMALLEST else CASES)]
    )


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def header(*cells):
    return ["", row(*cells), "|" + "---|" * len(cells)]


def rate_of(count, key="all"):
    """In 1000 nights, with its standard error; a dash if there are too few cases for a chart."""
    if not count["nights"]:
        return "-", ""
    rate = 1000 / count["nights"]
    return f"{count[key] * rate:.2f}", f" ± {math.sqrt(count[key]) * rate:.2f}"


def false_table(pool):
    yield "False alarms per 1000 case-nights (red nights), and by rule:"
    plain = [f"ReFrame -{percent} %" for percent in PLAIN]
    yield from header("model", "iowatch", R1, R2, R3, R4, "gains", "runs a night", *plain)
    for name, trial in FALSE.items():
        count = sum(over_cases(pool, false_alarms, trial), Counter())
        every, error = rate_of(count)
        rules = [rate_of(count, rule)[0] for rule in (R1, R2, R3, R4, GAIN)]
        runs = f"{count['runs'] / count['nights']:.2f}"
        low = [f"{1000 * count[percent] / count['nights']:.0f}" for percent in PLAIN]
        yield row(name, f"**{every}**{error}", *rules, runs, *low)


def percent_within(nights):
    return [100 * np.mean(np.array(nights) <= within) for within in WITHIN]


def shown(percents):
    return " / ".join("100" if p == 100 else f"{min(p, 99.9):.1f}" for p in percents)


def mean_and_worst(cases):
    """Two cells of what each case comes to within so many nights."""
    return shown(np.mean(cases, 0)), shown(np.min(cases, 0))


def found_tables(pool):
    for name, (trial, with_plain) in FOUND.items():
        cases = list(over_cases(pool, detection, trial))
        yield f"Alarms in % {NIGHTS}, {name}:"
        plain = PLAIN if with_plain else ()
        names = [f"ReFrame -{percent} %" for percent in plain]
        yield from header("fault", "iowatch", "worst case", *names)
        for fault in FAULTS:
            cells = {
                rule: mean_and_worst([percent_within(case[fault][rule]) for case in cases])
                for rule in ("all", *plain)
            }
            yield row(fault, *cells["all"], *(cells[percent][0] for percent in plain))
        yield ""


def first_days_lines(pool):
    results = list(over_cases(pool, first_days, Trial(MAIN, 100)))
    within = np.mean([percent_within(nights) for nights, _, _ in results], 0)
    nights, alarms = (sum(result[index] for result in results) for index in (1, 2))
    yield "Without a baseline, H5Fclose slow from the first day (27 % left): alarms in"
    yield f"{shown(within)} % {NIGHTS};"
    yield f"{1000 * alarms / nights:.2f} false alarms per 1000."
    yield ""


def visible_table(pool):
    yield "Alarms in % within 3 / 7 / 14 nights on a drop of so many of the case's own spreads:"
    yield from header("spreads", "bandwidth", "worst case", "ratio to MPI-IO", "worst case")
    for spreads in SPREADS:
        cells = []
        for of_ratio in (False, True):
            cases = over_cases(pool, visible, Trial(MAIN, 50, 14), spreads, of_ratio)
            cells += mean_and_worst([percent_within(nights)[2:] for nights in cases])
        yield row(spreads, *cells)


def over_seeds(pool, function, trial, *more):
    tasks = [(function, (replace(trial, seed=seed), *more)) for seed in range(1, SEEDS + 1)]
    return pool.imap(call, tasks)


def whole_tables(pool):
    yield f"Filesystems of {MEMBERS} cases, unless the row says otherwise, with so much of their"
    yield "contention in common. Where all is well, alarms in 1000 nights of a filesystem, and the"
    yield "jobs of a night that run again for its sake:"
    yield from header("model, shared", "filesystem", "library", "jobs")
    for name, trial in WHOLE.items():
        counts = {common: Counter() for common in Common}
        for seed_counts in over_seeds(pool, false_alarms_of_filesystems, trial):
            for common, count in seed_counts.items():
                counts[common].update(count)
        whole = counts[Common.FILESYSTEM]
        rates = ["".join(rate_of(count)) for count in counts.values()]
        yield row(name, *rates, f"{whole['reruns'] / whole['nights']:.2f}")
    yield ""
    yield f"What is named, in % {NIGHTS}, and in how many every case is below half"
    yield "in its first job of the first night:"
    yield from header("fault; model, shared", "the filesystem", "the library", "below half")
    for fault, left in SHARED_FAULTS.items():
        for name, trial in WHOLE.items():
            trial = replace(trial, nights=14, series=10)
            seeds = list(over_seeds(pool, detection_of_filesystems, trial, left))
            nights = {key: [n for seed in seeds for n in seed[key]] for key in seeds[0]}
            named = [nights[common] for common in Common]
            cells = [shown(percent_within(numbers)) if numbers else "-" for numbers in named]
            word = 100 * np.mean(np.array(nights["word"]) == 1)
            yield row(f"{fault}; {name}", *cells, f"{word:.1f}")


def blamed_table(pool):
    yield f"A filesystem of {MEMBERS} cases that is slow, and slower still to finish a file: all of"
    yield "its bandwidth is less by so much, and so much is added to the part of the time that"
    yield "finishes the file, though no library is at fault. What is named as a whole, in % within"
    of_cases = "the alarms of single cases that name the library, in 1000 nights of"
    yield f"{NIGHTS.removeprefix('within ')}, and {of_cases}"
    yield "a case with one (model main, shared 0.5):"
    yield from header("slow by; spread; finishing", "the filesystem", "the library", "single cases")
    for left, spread, finish in product(SLOW, SLOW_SPREADS, SLOW_FINISH):
        trial = Whole(MAIN, 0.5, 10, 14, spread=spread)
        results = list(over_seeds(pool, blamed, trial, left, finish))
        count = sum((count for _, count in results), Counter())
        named = [[n for nights, _ in results for n in nights[common]] for common in Common]
        yield row(
            f"-{1 - left:.0%}; {spread or 'as the cases'}; +{finish}".replace("%", " %"),
            *(shown(percent_within(nights)) for nights in named),
            rate_of(count, "library")[0],
        )


def simulated():
    with Pool(2) as pool:
        yield from false_table(pool)
        yield ""
        yield from whole_tables(pool)
        yield ""
        yield from blamed_table(pool)
        yield ""
        yield from found_tables(pool)
        yield from first_days_lines(pool)
        yield from visible_table(pool)


def check(text):
    """Stops unless every table has a figure, other than its rows' names, that is not nought."""
    tables = re.findall(r"^\|[-|]+\|\n((?:\|.*\n)+)", text + "\n", re.MULTILINE)
    assert tables, text
    for table in tables:
        cells = " ".join(line.partition(" | ")[2] for line in table.splitlines())
        assert any(map(float, re.findall(r"[\d.]*\d", cells))), table


def write(section, lines, tables=TABLES):
    """Replace what stands in the file between the markers of a section."""
    start, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    text = tables.read_text("utf-8")
    body = "\n".join([start, "", *lines, "", end])
    changed, count = re.subn(rf"{start}.*{end}", lambda _: body, text, flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{tables}: needs the markers {start} and {end} once")
    tables.write_text(changed, "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put the tables into {TABLES.name}")
    parser.add_argument("--year", type=Path, default=os.environ.get("YEAR"))
    parser.add_argument("--smallest", action="store_true", help="of each a row or two")
    options = parser.parse_args()
    if options.smallest and options.write:
        parser.error("--smallest is nothing to write")
    sections = {"simulated nights": simulated()}
    if options.year:
        sections["real year"] = year_rows(Path(options.year))
    for section, lines in sections.items():
        written = []
        for line in lines:
            print(line, flush=True)
            written.append(line)
        check("\n".join(written))
        if options.write:
            write(section, "\n".join(written).strip().split("\n"))


if __name__ == "__main__":
    main()
