"""What an acceptance test will cost, and what it will be able to show: before it begins."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median, stdev

from iowatch.acceptance.certify import candidates, interval_rank
from iowatch.acceptance.contract import Contract, Criterion, fewest
from iowatch.acceptance.gather import sweep
from iowatch.application import control
from iowatch.case import Case
from iowatch.files import counted
from iowatch.result import bytes_of
from iowatch.run import Run, by_case
from iowatch.site import MIB, Filesystem, Site

MARGIN = 0.1  # by which a case is better than committed, of which the power is said
WANTED_POWER = 0.9
ASSUMED_SPREAD = 0.1  # between sessions, where too few are on record
_FEWEST_NIGHTS = 5  # on record, for a spread
_MOST_SESSIONS = 100
_WARMUPS = 1  # of benchio, and of IOR: every start of them writes once more than it counts
#: Of each kind that rates make up, the metric that says how much sessions vary.
_VARIES = {
    "bandwidth": ("stable_median", "total_median"),
    "peak": ("stable_median", "total_median"),
    "scaling": ("stable_median", "total_median"),
    "ratio": ("ratio",),
    "ior": ("ior_median",),
    "metadata": ("items_median",),
    "degraded": ("stable_median", "total_median"),
}


@dataclass(frozen=True)
class Plan:
    """A test that has not begun: in sentences, and whether all of it can be decided."""

    lines: Sequence[str]
    is_decidable: bool


def plan(contract: Contract, site: Site, runs: Iterable[Run]) -> Plan:
    """What the test of a contract costs at a site, and what it can show; `runs` are on record."""
    cases = sweep(site)
    places = {(place.system, place.partition): place for place in site.filesystems}
    nights = by_case(run for run in runs if run.case in cases and run.is_measured)
    lines = [contract.title, *_cost(contract, cases, places, nights)]
    is_decidable = True
    for criterion in contract.criteria:
        partitions = {p.partition for p in site.filesystems if p.name == criterion.filesystem}
        if criterion.kind == "survival":
            deaths = counted(math.ceil(criterion.committed), "session")
            lines.append(f"{criterion.name}: {deaths} with --death, and one after each")
            continue
        about = candidates(contract, criterion, partitions, cases)
        ends = {criterion.from_nodes, criterion.to_nodes} - {None}
        if not about or not ends <= set(about.values()):
            said = "the sweep has no case that it is about and that counts by the rules"
            is_decidable = False
        elif criterion.kind == "slow_ost":
            said = (
                f"{counted(len(about), 'case')}; the best rate of each OST over all sessions counts"
            )
        else:
            said, is_enough = _power(contract, criterion, about, nights)
            is_decidable &= is_enough
        lines.append(f"{criterion.name}: {said}")
    if not is_decidable:
        lines.append("not all of this can be decided: change the contract, or the site's sweep")
    return Plan(lines, is_decidable)


# What it costs


def _cost(
    contract: Contract,
    cases: Mapping[Case, int],
    places: Mapping[tuple[str, str], Filesystem],
    nights: Mapping[Case, Mapping[str, Sequence[Run]]],
) -> Iterator[str]:
    agreed, apart = contract.rules.sessions, contract.rules.hours_apart
    without = {(one.filesystem, one.away) for one in contract.criteria if one.away is not None}
    sessions = agreed * (1 + len(without))
    size = hours = 0.0
    unknown = 0
    for case, nodes in cases.items():
        if case.items:  # a minute at most, and next to no bytes
            continue
        place = places[case.system, case.partition]
        written = bytes_written(case, place)
        rate = _usual_rate(nights.get(case, {}))
        unknown += rate is None and bool(written)
        size += written
        # What is written is read again by the witness.
        hours += nodes * 2 * written / MIB / (rate or place.peak / 2) / 3600
    jobs = len(cases)
    yield f"jobs: {sessions} sessions of {jobs}, that is {sessions * jobs}"
    yield f"written: {sessions * size / 2**40:.3g} TiB, and as much is read by the witness"
    said = f"node-hours: about {sessions * hours:.2g} of moving data"
    if unknown:
        said += (
            f"; of {counted(unknown, 'case')} no rate is on record, and half of what the site's "
            "file says that nothing can exceed is assumed: on few nodes it will be more"
        )
    yield said
    yield (
        f"nights: {agreed}, which begin {apart:g} h apart or more, so that the last begins "
        f"{apart * (agreed - 1) / 24:.3g} days after the first or later"
    )
    for name, away in sorted(without):
        yield f"and as many sessions without {counted(away, 'OST')} of {name}"


def bytes_written(case: Case, place: Filesystem) -> int:
    """That a job of a case writes."""
    check, repeats = case.check, case.check.repeats
    if check.application_mib:
        return repeats * ((1 + _WARMUPS) * bytes_of(control(case)) + check.application_mib * MIB)
    rounds = (repeats + _WARMUPS) * len(case.backends)
    if check.needs_stripes:  # each of them to every OST
        rounds *= len(place.targets)
    elif not check.has_control:  # benchio and IOR start in each round
        rounds = repeats * 2 * (1 + _WARMUPS)
    return rounds * bytes_of(case)


def _usual_rate(nights: Mapping[str, Sequence[Run]]) -> float | None:
    rates = [run.rate for runs in nights.values() for run in runs if run.rate]
    return median(rates) if rates else None


# What it can show


def _power(
    contract: Contract,
    criterion: Criterion,
    about: Mapping[Case, int],
    nights: Mapping[Case, Mapping[str, Sequence[Run]]],
) -> tuple[str, bool]:
    """In words, and whether there are sessions enough for a verdict."""
    sessions, confidence = contract.rules.sessions, contract.confidence
    ends = {criterion.from_nodes, criterion.to_nodes} - {None}
    choosing = int(len(about) > max(1, len(ends)))
    judging = sessions - choosing
    said = counted(len(about), "case")
    said += "; the first session chooses one and " if choosing else "; "
    said += f"{counted(judging, 'session')} {'judges' if judging == 1 else 'judge'} it"
    if judging < fewest(confidence):
        least = fewest(confidence) + choosing
        return f"{said}, which is too few for a verdict: it takes {least} sessions", False
    if criterion.kind not in _VARIES:
        return said, True
    spread, source = _spread(_VARIES[criterion.kind], about, nights)
    if criterion.kind == "degraded":  # each value is of two sessions
        spread *= math.sqrt(2)
    chance = power(judging, confidence, spread)
    said += (
        f". If it is {100 * MARGIN:.0f} % better than committed, it passes with a probability of "
        f"{100 * chance:.0f} %, where sessions vary by {100 * spread:.1f} % ({source})"
    )
    if chance < WANTED_POWER:
        enough = (
            number
            for number in range(judging, _MOST_SESSIONS)
            if power(number, confidence, spread) >= WANTED_POWER
        )
        needed = next(enough, None)
        most = f"more than {_MOST_SESSIONS}" if needed is None else str(needed + choosing)
        said += f"; for {100 * WANTED_POWER:.0f} % it takes {most} sessions"
    return said, True


def power(sessions: int, confidence: float, spread: float, margin: float = MARGIN) -> float:
    """The probability that a criterion passes whose median is so much better than committed, where
    the logarithms of the sessions' values have this standard deviation and are normal."""
    below = NormalDist(math.log1p(margin), spread).cdf(0) if spread else 0.0
    return sum(
        math.comb(sessions, bad) * below**bad * (1 - below) ** (sessions - bad)
        for bad in range(interval_rank(sessions, confidence))
    )


def _spread(
    metrics: Sequence[str],
    about: Collection[Case],
    nights: Mapping[Case, Mapping[str, Sequence[Run]]],
) -> tuple[float, str]:
    """Of the logarithms of a metric between nights, median over the cases; and how it is known."""
    found, counts = [], []
    for case in about:
        name = next((name for name in metrics if name in case.metrics), "")
        first = [runs[0].metrics for runs in nights.get(case, {}).values()]
        values = [run[name] for run in first if run.get(name)]
        if len(values) >= _FEWEST_NIGHTS:
            found.append(stdev(map(math.log, values)))
            counts.append(len(values))
    if not found:
        return ASSUMED_SPREAD, "assumed, for there are too few nights on record"
    return median(found), f"as in {min(counts)} nights or more on record"
