"""The verdict on each criterion of a contract, from the evidence.

A session is the unit: the repetitions of one job share whatever else was at work on the filesystem,
so that a session gives one value, and the interval is of the median over sessions. If a criterion
is about several cases, the first session chooses the best of them, and the others judge it: what
was chosen by a number may not be judged by the same number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median, stdev

from iowatch.acceptance.contract import OF_OSTS, Contract, Criterion, Storage, fewest
from iowatch.acceptance.evidence import Evidence, Exhibit, ReadBack
from iowatch.case import Case
from iowatch.checks import CONTROL, IO500, METADATA, OST
from iowatch.files import counted
from iowatch.metrics import Ost, osts_of
from iowatch.result import bytes_of, others_in_place
from iowatch.site import MIB, Filesystem

PASS, FAIL, OPEN, REFUSED = "pass", "fail", "not conclusive", "not certified"

_MOST = 100  # times the sessions that there are: more will not be made


@dataclass(frozen=True)
class Finding:
    """The verdict on one criterion."""

    verdict: str
    reason: str = ""  # of a verdict that is neither pass nor fail
    measured: float | None = None  # median over sessions, or the statistic that it is about
    low: float | None = None  # confidence interval; None: there is none
    high: float | None = None
    #: A value of each session that judges, by its id.
    values: Mapping[str, float] = field(default_factory=dict)
    case: str = ""  # that it is about
    chosen: str = ""  # the session that chose the case; empty: there was no choice
    exhibits: Sequence[Exhibit | ReadBack] = ()  # that it rests on

    def margin(self, criterion: Criterion) -> float | None:
        """How much better than committed, as a fraction of it; negative: worse."""
        if self.measured is None or not criterion.committed:
            return None
        excess = self.measured / criterion.committed - 1
        return excess if criterion.at_least is not None else -excess


def certify(contract: Contract, evidence: Evidence) -> dict[Criterion, Finding]:
    """The verdict on each criterion."""
    return {criterion: _certify(contract, criterion, evidence) for criterion in contract.criteria}


def concerns(criterion: Criterion, partitions: Collection[str], case: Case) -> bool:
    """Is a criterion about a case, by what it writes or reads, and where?"""
    check = case.check
    if criterion.kind == "ior":
        is_kind = "ior_median" in check.metrics
    elif criterion.kind == METADATA:
        is_kind = check.operation == METADATA and not check.has_mdtest
    else:
        is_kind = check.has_control and check.needs_stripes == (criterion.kind == "slow_ost")
    return (
        is_kind
        and case.partition in partitions
        and criterion.operation in check.operations
        and case.files == criterion.files
        and case.backend == criterion.backend
        and case.instances == criterion.instances
        and [(way.name, value) for way, value in case.ways] == _ways(criterion)
        and bool(case.metrics)
    )


def _ways(criterion: Criterion) -> list[tuple[str, str]]:
    """The ways in which its cases write or read, where they are not benchio's own."""
    return [(IO500.name, criterion.io500)] if criterion.io500 else []


def too_small(contract: Contract, criterion: Criterion, case: Case, nodes: int) -> str:
    """Why the contract's rules leave a case out; empty if they do not.

    The few nodes that a scaling begins with, and each OST by itself, are small on purpose.
    """
    if criterion.kind == "slow_ost" or nodes == criterion.from_nodes:
        return ""
    rules = contract.rules
    if nodes < rules.least_nodes:
        return f"on {counted(nodes, 'node')}, and fewer than {rules.least_nodes} count for nothing"
    if criterion.kind == METADATA:  # nobody reads it back from the servers' memory
        return ""
    storage = contract.filesystems.get(criterion.filesystem, Storage())
    least = rules.times_memory * (storage.servers_memory or 0) * 1024 * MIB
    if bytes_of(case) < least:
        return (
            f"of {bytes_of(case) / 2**30:.3g} GiB, and what is less than {rules.times_memory:g} "
            f"times the servers' memory of {storage.servers_memory:g} GiB counts for nothing"
        )
    return ""


def candidates(
    contract: Contract, criterion: Criterion, partitions: Collection[str], cases: Mapping[Case, int]
) -> dict[Case, int]:
    """The cases that a criterion is about, and that count, with their nodes."""
    if criterion.kind == "scaling":
        wanted: Collection[int | None] = (criterion.from_nodes, criterion.to_nodes)
    else:
        wanted = (criterion.nodes,)
    return {
        case: nodes
        for case, nodes in cases.items()
        if concerns(criterion, partitions, case)
        and (None in wanted or nodes in wanted)
        and not too_small(contract, criterion, case, nodes)
    }


def _certify(contract: Contract, criterion: Criterion, evidence: Evidence) -> Finding:
    """The verdict on one criterion; `not certified` if what it is about was not all measured."""
    places = [place for place in evidence.places if place.name == criterion.filesystem]
    mine = {place.partition for place in places}
    if not mine:
        names = ", ".join(sorted({place.name for place in evidence.places}))
        return Finding(REFUSED, f"no filesystem {criterion.filesystem!r}: there are {names}")
    if why := next(filter(None, (_other_than_agreed(contract, criterion, p) for p in places)), ""):
        return Finding(REFUSED, why)
    if criterion.kind == "survival":
        return _judge_deaths(contract, criterion, evidence, mine)
    cases = candidates(contract, criterion, mine, evidence.cases)
    if why := _no_case(contract, criterion, mine, evidence, cases):
        return Finding(REFUSED, why)
    counting = [session.uuid for session in evidence.counting]
    keys = [(session, case) for session in counting for case in sorted(cases, key=str)]
    degraded: list[str] = []
    if criterion.away is not None:
        each_ost = [
            case for case in evidence.cases if case.check.needs_stripes and case.partition in mine
        ]
        if not each_ost:
            return Finding(REFUSED, "the sweep has no SlowOst, which would show what is away")
        condition = ((criterion.filesystem, criterion.away),)
        degraded = [session.uuid for session in evidence.counting_with(condition)]
        every = sorted([*cases, *each_ost], key=str)
        keys += [(session, case) for session in degraded for case in every]
    found = {(one.session, one.case): one for one in evidence.exhibits}
    if lost := evidence.lost_of({case for _, case in keys} | set(cases)):
        return Finding(
            REFUSED,
            f"of the run {lost} no session is on record: it was killed or deleted, or still runs",
        )
    if broken := [key for key in keys if key in evidence.invalid]:
        session, case = broken[0]
        reason = evidence.invalid[session, case]
        return Finding(REFUSED, f"invalid: {_first(broken)} of session {session}: {reason}")
    if missing := [key for key in keys if key not in found]:
        return Finding(REFUSED, f"not measured: {_first(missing)} of session {missing[0][0]}")
    exhibits = [found[key] for key in keys]
    agreed = contract.rules.sessions
    if criterion.away is not None:
        finding = _judge_degraded(contract, criterion, exhibits, counting, degraded, cases)
        if len(counting) == agreed > len(degraded) and finding.verdict != REFUSED:
            without = counted(criterion.away, "OST")
            reason = f"{len(degraded)} of the {agreed} sessions without {without} were measured"
            return replace(finding, verdict=OPEN, reason=reason)
    else:
        finding = _judge(contract, criterion, exhibits, counting)
    if len(counting) < agreed and finding.verdict != REFUSED:
        reason = f"{len(counting)} of the {agreed} sessions were measured"
        return replace(finding, verdict=OPEN, reason=reason)
    return finding


def _other_than_agreed(contract: Contract, criterion: Criterion, place: Filesystem) -> str:
    """Why a place of the site's configuration is not the filesystem of the contract; empty if it
    is. Whoever runs the test writes that configuration."""
    agreed = contract.filesystems.get(criterion.filesystem, Storage())
    if agreed.type and {*place.types} != {agreed.type}:
        types = " or ".join(place.types)
        return f"{place.name} is {types} by the site's file, and {agreed.type} by the contract"
    if agreed.path and not Path(os.path.normpath(place.path)).is_relative_to(agreed.path):
        return f"{place.name} is at {place.path} by the site's file, and not below {agreed.path}"
    if agreed.osts and criterion.kind in OF_OSTS and len(place.targets) != agreed.osts:
        return (
            f"{place.name} has {counted(len(place.targets), 'OST')} by the site's file, and "
            f"{agreed.osts} by the contract"
        )
    if criterion.operation == "read" and contract.rules.times_memory and place.cached_reads:
        return (
            f"what is read of {place.name} may come from a client's cache, by 'cached_reads' of "
            "the site's file"
        )
    return ""


def _no_case(
    contract: Contract,
    criterion: Criterion,
    partitions: Collection[str],
    evidence: Evidence,
    cases: Mapping[Case, int],
) -> str:
    """Why a criterion is about no case; empty if it is about some."""
    if criterion.kind == "scaling":
        if {criterion.from_nodes, criterion.to_nodes} <= set(cases.values()):
            return ""
    elif cases:
        return ""
    about = {c: n for c, n in evidence.cases.items() if concerns(criterion, partitions, c)}
    small = {c: too_small(contract, criterion, c, n) for c, n in about.items()}
    if about and all(small.values()):
        first = min(about, key=str)
        return f"no case counts by the rules: {first} is {small[first]}"
    if criterion.kind == "scaling":
        return "no case has these numbers of nodes"
    nodes = f" with {counted(criterion.nodes, 'node')}" if criterion.nodes else ""
    return f"no such case was measured{nodes}"


def _first(keys: Sequence[tuple[str, Case]]) -> str:
    return str(keys[0][1]) + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


def _judge(
    contract: Contract, criterion: Criterion, exhibits: Sequence[Exhibit], sessions: Sequence[str]
) -> Finding:
    """The verdict on a criterion all of whose cases were measured in each of these sessions."""
    if not sessions:
        return Finding(OPEN)
    of_first = [one for one in exhibits if one.session == sessions[0]]
    groups = [of_first]
    if criterion.kind == "scaling":
        ends = (criterion.from_nodes, criterion.to_nodes)
        groups = [[one for one in of_first if one.nodes == nodes] for nodes in ends]
    chosen = [max(group, key=lambda one: _rate(criterion, one)).case for group in groups]
    has_choice = any(len(group) > 1 for group in groups)
    judging = sessions[1:] if has_choice else sessions
    by_key = {(one.session, one.case): one for one in exhibits}
    own = [by_key[session, case] for session in judging for case in chosen]
    if criterion.kind == "slow_ost":
        finding = judge_slowest(criterion, own)
    else:
        storage = contract.filesystems.get(criterion.filesystem, Storage())
        values = {
            session: _value(criterion, storage, *(by_key[session, case] for case in chosen))
            for session in judging
        }
        finding = judge_sessions(criterion, values, contract.confidence)
    return replace(
        finding,
        case=" and ".join(map(str, chosen)),
        chosen=sessions[0] if has_choice else "",
        exhibits=own,
    )


def _judge_deaths(
    contract: Contract, criterion: Criterion, evidence: Evidence, partitions: Collection[str]
) -> Finding:
    """The verdict on how many deaths have cost nothing: what was kept last before one, or in the
    same session if it came to that, is read back in the next session, byte by byte; and if it came
    to that, the session itself has read what was kept before it."""
    cases = {one.case for one in evidence.read_back if one.case.partition in partitions}
    cases |= {
        case
        for case in evidence.cases
        if case.check.reads_existing and case.partition in partitions
    }
    if not cases:
        return Finding(REFUSED, "the sweep has no ReadBack, which would read what was kept")
    if lost := evidence.lost_of(cases):
        return Finding(REFUSED, f"of the run {lost} no session is on record")
    sessions = {one.session.uuid: one.session for one in evidence.read_back}
    deaths = [
        session
        for session in sessions.values()
        if session.death.rpartition(":")[0] == criterion.filesystem
    ]
    survived, waiting = 0, ""
    exhibits: list[ReadBack] = []
    for death in deaths:
        if death.death.endswith(":client") and criterion.filesystem not in death.has_failed:
            return Finding(
                REFUSED, f"no run has failed in session {death.uuid}: nothing died in it"
            )
        for case in sorted(cases, key=str):
            runs = [one for one in evidence.read_back if one.case == case]
            kept = [one for one in runs if one.session.began <= death.began and one.has_kept]
            before = [one for one in kept if one.session.began < death.began]
            # What it replaces by files of its own, nobody reads after it.
            own = [one for one in runs if one.session.uuid == death.uuid and one.has_kept]
            later = [
                one for one in runs if one.session.began > death.began and one.read is not None
            ]
            if not kept:
                why = f"nothing was kept before session {death.uuid}"
                return Finding(REFUSED, f"{case}: {why}: measure one without --death first")
            readers = [(one, before[-1]) for one in own if before]
            for one, wanted in [*readers, *((one, kept[-1]) for one in later[:1])]:
                if one not in exhibits:  # it may be the session of the next death
                    exhibits.append(one)
                where = f"{case} of session {one.session.uuid}"
                if one.why_not and not one.is_lost:
                    return Finding(REFUSED, f"invalid: {where}: {one.why_not}")
                why = one.why_not
                if not why and one.read != wanted.night:
                    why = f"what {wanted.night} kept is gone"
                elif not why and one.read_id != wanted.id:
                    why = others_in_place(wanted.night, one.read_id)
                if why:
                    return Finding(FAIL, f"{where}: {why}", survived, exhibits=exhibits)
            if not later:
                waiting = f"; no session has read since what was kept before {death.uuid}"
                break
        else:
            survived += 1
    if criterion.is_kept(survived):
        return Finding(PASS, measured=survived, exhibits=exhibits)
    seen = counted(survived, "death", "were", math.ceil(criterion.committed))
    return Finding(OPEN, f"{seen} seen and survived{waiting}", survived, exhibits=exhibits)


def _judge_degraded(
    contract: Contract,
    criterion: Criterion,
    exhibits: Sequence[Exhibit],
    whole: Sequence[str],
    degraded: Sequence[str],
    cases: Collection[Case],
) -> Finding:
    """The verdict on what is left of the bandwidth: the n-th session without the OSTs is compared
    with the n-th that had all of them, so that nobody can choose which."""
    pairs = list(zip(whole, degraded, strict=False))
    if not pairs:
        return Finding(OPEN)
    first = [one for one in exhibits if one.session == whole[0] and one.case in cases]
    case = max(first, key=lambda one: _rate(criterion, one)).case
    has_choice = len(first) > 1
    by_key = {(one.session, one.case): one for one in exhibits}
    judging = pairs[1:] if has_choice else pairs
    values = {
        without: _rate(criterion, by_key[without, case]) / _rate(criterion, by_key[all_, case])
        for all_, without in judging
    }
    finding = judge_sessions(criterion, values, contract.confidence)
    return replace(
        finding,
        case=str(case),
        chosen=whole[0] if has_choice else "",
        exhibits=[by_key[session, case] for pair in judging for session in pair],
    )


def _rate(criterion: Criterion, one: Exhibit) -> float:
    """MiB/s, or operations/s, by which a case is the best."""
    if criterion.kind == "ior":
        return median(one.ior)
    if criterion.kind == METADATA:
        return median(one.rates[criterion.phase])
    rates = [rate for each in one.osts.get(criterion.operation, {}).values() for rate in each]
    return median(rates or one.rates[one.case.backend])


def _value(criterion: Criterion, storage: Storage, *exhibits: Exhibit) -> float:
    """What a session says: of one run, or of the two that a scaling compares."""
    one = exhibits[0]
    rate = _rate(criterion, one)
    if criterion.kind == "peak":
        assert storage.peak is not None
        return rate / storage.peak
    if criterion.kind == "ratio":
        pairs = zip(one.rates[one.case.backend], one.rates[CONTROL], strict=True)
        return median(own / control for own, control in pairs)
    if criterion.kind == "scaling":
        many = exhibits[1]
        return _rate(criterion, many) / rate / (many.nodes / one.nodes)
    if criterion.kind == "repeatability":
        return variation(one.rates[one.case.backend])
    return rate


def curve(
    contract: Contract, criterion: Criterion, evidence: Evidence, sessions: Collection[str]
) -> list[tuple[float, float]]:
    """MiB/s over nodes of what a scaling is about: of each number of nodes the median over these
    sessions, of the case that the first session finds best."""
    any_nodes = replace(criterion, kind="bandwidth", from_nodes=None, to_nodes=None)
    mine = {place.partition for place in evidence.places if place.name == criterion.filesystem}
    found = [one for one in evidence.exhibits if concerns(any_nodes, mine, one.case)]
    first = [one for one in found if one.session == evidence.counting[0].uuid]
    points: list[tuple[float, float]] = []
    for nodes in sorted({one.nodes for one in first}):
        best = max(
            (one for one in first if one.nodes == nodes), key=lambda one: _rate(criterion, one)
        )
        own = [one for one in found if one.case == best.case and one.session in sessions]
        if own:
            points.append((nodes, median(_rate(criterion, one) for one in own)))
    return points


def variation(rates: Sequence[float]) -> float:
    """Standard deviation over mean of these, as of log-normal rates."""
    return math.sqrt(math.expm1(stdev(map(math.log, rates)) ** 2)) if len(rates) > 1 else 0.0


def judge_sessions(criterion: Criterion, values: Mapping[str, float], confidence: float) -> Finding:
    """The verdict on the median over sessions, by its exact interval (order statistics)."""
    ordered = sorted(values.values())
    count = len(ordered)
    if not count:
        return Finding(OPEN, "the first session chose the case, and no other has judged it")
    finding = Finding(OPEN, measured=median(ordered), values=dict(values))
    rank = interval_rank(count, confidence)
    if not rank:
        least = fewest(confidence)
        reason = f"{counted(count, 'session', 'are')} too few to judge by: it takes {least}"
        return replace(finding, reason=reason)
    low, high = ordered[rank - 1], ordered[-rank]
    finding = replace(finding, low=low, high=high)
    is_kept = {criterion.is_kept(end) for end in (low, high)}
    if len(is_kept) == 1:
        return replace(finding, verdict=PASS if is_kept.pop() else FAIL)
    needed = _needed(criterion, ordered, confidence)
    return replace(finding, reason=needed)


@cache
def interval_rank(count: int, confidence: float) -> int:
    """Of so many values in their order, which one from either end ends the interval of their
    median; 0: they are too few.

    The median lies below the k-th smallest of n values with the probability that fewer than k of n
    coins show heads.
    """
    below, rank, left = 0, 0, (1 - confidence) / 2
    while rank < count:
        below += math.comb(count, rank)
        if below / 2**count > left * (1 + 1e-12):
            break
        rank += 1
    return rank


def _needed(criterion: Criterion, values: Sequence[float], confidence: float) -> str:
    """How many sessions like these would settle it, in words: the rank at the interval's end grows
    with them, and the part of them on the wrong side of the committed value does not."""
    is_kept = criterion.is_kept(median(values))
    wrong = sum(criterion.is_kept(value) != is_kept for value in values) / len(values)
    for number in range(len(values) + 1, _MOST * len(values)):
        if interval_rank(number, confidence) >= wrong * number + 1:
            return (
                f"the committed value is within the interval; a test of about {number} sessions "
                "like these would settle it"
            )
    return "too near to the committed value for any number of sessions"


def judge_slowest(criterion: Criterion, exhibits: Sequence[Exhibit]) -> Finding:
    """The verdict on the slowest OST: the best rate of each counts, so there is no interval."""
    operation = criterion.operation
    rates: dict[int, list[float]] = {}
    for one in exhibits:
        for ost, values in one.osts[operation].items():
            rates.setdefault(ost, []).extend(values)
    if len(rates) < 2:
        return Finding(REFUSED, "fewer than two OSTs can be compared")
    slowest = _slowest(rates, operation)
    verdict = PASS if criterion.is_kept(slowest.to_peers) else FAIL
    each = {one.session: _slowest(one.osts[operation], operation).to_peers for one in exhibits}
    return Finding(verdict, f"the slowest is OST {slowest.name}", slowest.to_peers, values=each)


def _slowest(rates: Mapping[int, Sequence[float]], operation: str) -> Ost:
    return osts_of({f"{OST[operation]}{ost}": max(of) for ost, of in rates.items()}, operation)[0]
