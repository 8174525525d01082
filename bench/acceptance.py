"""How often a contract is passed by what is not good enough: prints a table.

usage: acceptance.py [TRIALS | --smallest]

A criterion is about 1, 12 or 54 cases, every one of them 3 % below its committed value. Seven
sessions are measured, ten repetitions each. Repetitions vary by 5 %. The shared part of all cases
of a session, and each case's own part, together vary by the spread in the table. `shared`: on every
fifth session somebody else is at work, and all rates are at 30 %.

`iowatch`: the criterion itself, in which the first session chooses the best case and
the others judge it. `same sessions`: all of them choose, and the same judge. `repetitions`: as if
the repetitions of the best case in one session were independent. Nominal, at most: 2.5 %.
"""

import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from agreed import RULES, agreed, criterion, session
from attrs import evolve
from cases import PLACE, case, changed

from iowatch.evidence.criteria.by_session import judge_sessions
from iowatch.evidence.criteria.criterion import Certified
from iowatch.evidence.exhibits import Evidence, Exhibit

SESSIONS, REPETITIONS = 7, 10
COMMITTED, TRUE = 100.0, 97.0
NUMBERS = (1, 12, 54)
SPREADS = (0.0, 0.05, 0.1, 0.2)
REPETITIONS_VARY = 0.05
TRIALS = 1000

CRITERION = criterion("bandwidth", at_least=COMMITTED)
CONTRACT = agreed(CRITERION, rules=evolve(RULES, sessions=SESSIONS))
FS3 = evolve(PLACE, system="archer", partition="fs3", name="fs3", path="/", types=("lustre",))
IDS = [str(number) for number in range(SESSIONS)]


def evidence(cases: int, spread: float, is_shared: bool, rng: random.Random) -> Evidence:
    """The runs of seven sessions of so many cases."""
    first = case(place="archer:fs3/cray", backend="mpiio")
    every = [changed(first, ranks=1 + number) for number in range(cases)]
    part = spread / math.sqrt(2)
    exhibits = []
    for name in IDS:
        load = 0.3 if is_shared and rng.random() < 0.2 else 1.0
        day = rng.gauss(0, part)
        for measured in every:
            level = TRUE * load * math.exp(day + rng.gauss(0, part))
            rates = [level * math.exp(rng.gauss(0, REPETITIONS_VARY)) for _ in range(REPETITIONS)]
            exhibits.append(Exhibit(case=measured, nodes=1, session=name, rates={"mpiio": rates}))
    sessions = [session(name) for name in IDS]
    return Evidence(
        sessions=sessions, exhibits=exhibits, cases=dict.fromkeys(every, 1), places=[FS3]
    )


def passes(runs: Evidence) -> dict[str, bool]:
    """By each way to judge, does the criterion pass?"""
    by_case: dict[str, list[list[float]]] = {}
    for run in runs.exhibits:
        by_case.setdefault(str(run.case), []).append(list(run.rates["mpiio"]))
    best = max(by_case.values(), key=lambda runs: median(map(median, runs)))
    same = dict(zip(IDS, map(median, best), strict=True))
    once = max((runs[0] for runs in by_case.values()), key=median)
    repetitions = {str(number): rate for number, rate in enumerate(once)}
    return {
        "iowatch": CRITERION.certify(CONTRACT, runs).verdict is Certified.PASS,
        "same sessions": judge_sessions(CRITERION, same, 0.95).verdict is Certified.PASS,
        "repetitions": judge_sessions(CRITERION, repetitions, 0.95).verdict is Certified.PASS,
    }


def false_passes(
    cases: int, spread: float, is_shared: bool, trials: int, seed: int = 1
) -> dict[str, float]:
    """By each way to judge, the part of the trials that pass."""
    rng = random.Random(seed)
    outcomes = [passes(evidence(cases, spread, is_shared, rng)) for _ in range(trials)]
    return {name: sum(outcome[name] for outcome in outcomes) / trials for name in outcomes[0]}


def rows(trials: int) -> Iterator[list[str]]:
    for spread in SPREADS:
        for is_shared in (False, True):
            for cases in NUMBERS:
                parts = false_passes(cases, spread, is_shared, trials)
                percents = [f"{100 * part:.1f} %" for part in parts.values()]
                yield [f"{spread:.0%}", "yes" if is_shared else "no", str(cases), *percents]


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else TRIALS
    trials = 1 if given == "--smallest" else int(given)
    table = Table(title=f"False passes in {trials} trials, every case 3 % too slow")
    for name in ("spread", "shared", "cases", "iowatch", "same sessions", "repetitions"):
        table.add_column(name, justify="right")
    measured = list(rows(trials))
    assert any(row[-1] != "0.0 %" for row in measured), "repetitions pass where sessions do not"
    for row in measured:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
