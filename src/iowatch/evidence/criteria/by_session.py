"""Criteria to which each session gives one value.

A session is the unit and gives one value, since the repetitions of one job share whatever else was
at work. The interval is of the median over sessions. If a criterion is about several cases, the
first session chooses the best of them, and the others judge it. A number that chooses may not judge
as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist, median, stdev
from typing import ClassVar

import attrs

from iowatch.base.records import COUNT, Shape, key
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.parameters import FILES, MIB
from iowatch.evidence.criteria.criterion import (
    Certified,
    Criterion,
    Finding,
    Nights,
    Suite,
    refused,
)
from iowatch.evidence.exhibits import Condition, Evidence, Exhibit, Key, Session
from iowatch.evidence.terms import Rules, Storage, Terms
from iowatch.judge.change import interval_rank

MARGIN = 0.1  # how much better than committed a case is of which a plan gives the power
WANTED_POWER = 0.9
ASSUMED_SPREAD = 0.1  # between sessions, where too few are on record
_FEWEST_NIGHTS = 5  # on record, for a spread
_MOST_SESSIONS = 100  # more are not planned
_MOST_TIMES = 100  # so many times the sessions that there are: more will not be made


@attrs.frozen(kw_only=True)
class BySession(Criterion):
    """A criterion on the median over sessions of what one case, or some, came to in each."""

    #: Metrics that vary between sessions as the values do; empty: nobody knows.
    varies_like: ClassVar[Sequence[str]] = ()
    #: A file counts only if it is too large for the servers' memory.
    outgrows_memory: ClassVar[bool] = True

    files: str = key(
        Shape(
            "shared, process, node, gather or a number of files",
            lambda value: "shared" if value == "shared" else str(FILES.shape.read(value)),
        ),
        "The files that the ranks write; process: each rank has one.",
        default="shared",
    )
    nodes: int | None = key(COUNT, "The number of nodes; any number unless given.", default=None)

    @property
    def sizes(self) -> Sequence[int | None]:
        """The numbers of nodes that are compared, one case of each; None: any."""
        return (self.nodes,)

    @property
    def scope(self) -> str:
        """The numbers of nodes, in words; empty if they do not matter."""
        return counted(self.nodes, "node") if self.nodes else "best of all cases"

    def rate(self, run: Exhibit) -> float:
        """The rate of a run, by which a case is the best."""
        return median(run.rates[run.case.backend])

    def value(self, storage: Storage, runs: Sequence[Exhibit]) -> float:
        """The value that a session gives by its runs of the chosen cases."""
        return self.rate(runs[0])

    # Which cases it is about

    @property
    def ways(self) -> Sequence[tuple[str, str]]:
        """The ways in which the cases write or read, where they are not benchio's own."""
        return ()

    def concerns(self, case: Case) -> bool:
        """Return whether the criterion is about a case, by what the case writes or reads."""
        return (
            case.check.evidence_of == self.evidence_of
            and case.files == self.files
            and [(way.name, value) for way, value in case.ways] == [*self.ways]
            and bool(case.metrics)
        )

    @property
    def no_case(self) -> str:
        """The sentence for a suite that has no case of these."""
        nodes = f" with {counted(self.nodes, 'node')}" if self.nodes else ""
        return f"no such case was measured{nodes}"

    def conflicts(self, rules: Rules, storage: Storage) -> Iterator[str]:
        yield from super().conflicts(rules, storage)
        if self.outgrows_memory and rules.times_memory and storage.servers_memory is None:
            yield (
                f"times_memory is {rules.times_memory:g}, and filesystems has no servers_memory of "
                f"{self.filesystem}"
            )
        nodes = self.sizes[-1]
        if nodes and nodes < rules.least_nodes:
            yield (
                f"is about {counted(nodes, 'node')}, and by the rules fewer than "
                f"{rules.least_nodes} count for nothing"
            )

    def too_small(self, terms: Terms, case: Case, nodes: int) -> str:
        """Say why the rules leave a case out; empty if they do not.

        The few nodes that a comparison begins with are small on purpose.
        """
        if nodes in self.sizes[:-1]:
            return ""
        rules, storage = terms.rules, terms.filesystems[self.filesystem]
        if nodes < rules.least_nodes:
            least = rules.least_nodes
            return f"on {counted(nodes, 'node')}, and fewer than {least} count for nothing"
        memory = storage.servers_memory or 0
        if self.outgrows_memory and case.bytes < rules.times_memory * memory * 1024 * MIB:
            return (
                f"of {case.bytes / 2**30:.3g} GiB, and what is less than "
                f"{rules.times_memory:g} times the servers' memory of {memory:g} GiB counts for "
                "nothing"
            )
        return ""

    def groups(self, terms: Terms, suite: Suite) -> tuple[list[list[Case]], str]:
        """The cases that count, of which the best is chosen, for each number of nodes; and why some
        number has none, for want of which there is no verdict."""
        about = {
            case: self.too_small(terms, case, suite[case])
            for case in sorted(suite, key=str)
            if self.concerns(case)
        }
        groups = [
            [case for case, small in about.items() if not small and size in (None, suite[case])]
            for size in self.sizes
        ]
        if about and all(about.values()):
            first, small = next(iter(about.items()))
            return groups, f"no case counts by the rules: {first} is {small}"
        return groups, "" if all(groups) else self.no_case

    # The verdict

    @property
    def conditions(self) -> Sequence[Condition]:
        """The conditions under which a session each gives one value together."""
        return [(), self.condition] if self.condition else [()]

    def decide(self, terms: Terms, evidence: Evidence, suite: Suite) -> Finding:
        groups, why = self.groups(terms, suite)
        if why:
            return refused(why)
        cases = sorted({case for group in groups for case in group}, key=str)
        counting = [evidence.counting_with(condition) for condition in self.conditions]
        # Where OSTs are away, those runs are required, too, that show which they are.
        showing = sorted([*cases, *(case for case in suite if case.check.by_target)], key=str)
        keys = [
            (session.uuid, case)
            for condition, sessions in zip(self.conditions, counting, strict=True)
            for session in sessions
            for case in (showing if condition else cases)
        ]
        runs = {(exhibit.session, exhibit.case): exhibit for exhibit in evidence.exhibits}
        if lost := evidence.lost_of({case for _, case in keys} | {*cases}):
            return refused(
                f"of the run {lost} no session is on record: it was killed or deleted, or still "
                "runs"
            )
        if broken := [run for run in keys if run in evidence.failed]:
            return refused(f"failed: {_in_words(broken)}: {evidence.failed[broken[0]]}")
        if missing := [run for run in keys if run not in runs]:
            return refused(f"not measured: {_in_words(missing)}")
        turns = list(zip(*counting, strict=False))  # the sessions that together give one value
        finding = self._compare(terms, turns, groups, runs)
        for condition, sessions in zip(self.conditions, counting, strict=True):
            count, wanted = len(sessions), terms.rules.sessions
            if count < wanted and finding.verdict is not Certified.REFUSED:
                without = "".join(f" without {counted(away, 'OST')}" for _, away in condition)
                reason = f"{count} of the {wanted} sessions{without} were measured"
                return replace(finding, verdict=Certified.OPEN, reason=reason)
        return finding

    def _compare(
        self,
        terms: Terms,
        turns: Sequence[Sequence[Session]],
        groups: Sequence[Sequence[Case]],
        runs: Mapping[Key, Exhibit],
    ) -> Finding:
        """The verdict on the best case of each group."""
        if not turns:
            return Finding(verdict=Certified.OPEN)
        first = turns[0][0].uuid
        chosen = [max(group, key=lambda case: self.rate(runs[first, case])) for group in groups]
        has_choice = any(len(group) > 1 for group in groups)
        judging = turns[1:] if has_choice else turns
        by_turn = {
            turn[-1].uuid: [runs[session.uuid, case] for session in turn for case in chosen]
            for turn in judging
        }
        return replace(
            self.conclude(terms, by_turn),
            case=" and ".join(map(str, chosen)),
            chosen=first if has_choice else "",
            exhibits=[run for of_turn in by_turn.values() for run in of_turn],
        )

    def conclude(self, terms: Terms, by_turn: Mapping[str, Sequence[Exhibit]]) -> Finding:
        """The verdict by the runs that give a value each time."""
        storage = terms.filesystems[self.filesystem]
        values = {name: self.value(storage, runs) for name, runs in by_turn.items()}
        return judge_sessions(self, values, terms.confidence)

    # The plan

    def outlook(self, terms: Terms, suite: Suite, nights: Nights) -> tuple[str, bool]:
        groups, _ = self.groups(terms, suite)
        if not all(groups):
            return "the suite has no case that it is about and that counts by the rules", False
        return self.prospect(terms, groups, nights)

    def prospect(
        self, terms: Terms, groups: Sequence[Sequence[Case]], nights: Nights
    ) -> tuple[str, bool]:
        """Say in words what sessions of these cases can show, and whether they are enough."""
        cases = {case for group in groups for case in group}
        choosing = int(any(len(group) > 1 for group in groups))
        judging = terms.rules.sessions - choosing
        sentence = counted(len(cases), "case")
        sentence += "; the first session chooses one and " if choosing else "; "
        sentence += f"{counted(judging, 'session')} {'judges' if judging == 1 else 'judge'} it"
        if judging < fewest(terms.confidence):
            least = fewest(terms.confidence) + choosing
            return f"{sentence}, which is too few for a verdict: it takes {least} sessions", False
        if not self.varies_like:
            return sentence, True
        spread, source = _spread(self.varies_like, cases, nights)
        spread *= math.sqrt(len(self.conditions))
        chance = power(judging, terms.confidence, spread)
        sentence += (
            f". If it is {100 * MARGIN:.0f} % better than committed, it passes with a probability "
            f"of {100 * chance:.0f} %, where sessions vary by {100 * spread:.1f} % ({source})"
        )
        if chance < WANTED_POWER:
            enough = (
                count
                for count in range(judging, _MOST_SESSIONS)
                if power(count, terms.confidence, spread) >= WANTED_POWER
            )
            count = next(enough, None)
            most = f"more than {_MOST_SESSIONS}" if count is None else str(count + choosing)
            sentence += f"; for {100 * WANTED_POWER:.0f} % it takes {most} sessions"
        return sentence, True


def _in_words(keys: Sequence[Key]) -> str:
    (session, case), *others = keys
    return f"{case}{f' and {len(others)} more' if others else ''} of session {session}"


def judge_sessions(criterion: Criterion, values: Mapping[str, float], confidence: float) -> Finding:
    """The verdict on the median over sessions, by its exact interval (order statistics)."""
    ordered = sorted(values.values())
    count = len(ordered)
    if not count:
        reason = "the first session chose the case, and no other has judged it"
        return Finding(verdict=Certified.OPEN, reason=reason)
    finding = Finding(verdict=Certified.OPEN, measured=median(ordered), values=dict(values))
    rank = interval_rank(count, confidence)
    if not rank:
        least = fewest(confidence)
        reason = f"{counted(count, 'session', 'are')} too few to judge by: it takes {least}"
        return replace(finding, reason=reason)
    low, high = ordered[rank - 1], ordered[-rank]
    finding = replace(finding, low=low, high=high)
    is_kept = {criterion.is_kept(end) for end in (low, high)}
    if len(is_kept) == 1:
        return replace(finding, verdict=Certified.PASS if is_kept.pop() else Certified.FAIL)
    # How many sessions like these would settle it? The rank at the interval's end grows with them,
    # and the part on the wrong side of the committed value does not.
    is_right = criterion.is_kept(median(ordered))
    wrong = sum(criterion.is_kept(value) != is_right for value in ordered) / count
    for more in range(count + 1, _MOST_TIMES * count):
        if interval_rank(more, confidence) >= wrong * more + 1:
            reason = (
                f"the committed value is within the interval; a test of about {more} sessions "
                "like these would settle it"
            )
            return replace(finding, reason=reason)
    reason = "too near to the committed value for any number of sessions"
    return replace(finding, reason=reason)


def fewest(confidence: float) -> int:
    """The number of sessions that the exact interval of a median needs. The median of all possible
    sessions lies beyond all of them with half of the probability that is left."""
    return math.ceil(1 - math.log2(1 - confidence) - 1e-9)


def power(sessions: int, confidence: float, spread: float, margin: float = MARGIN) -> float:
    """The probability that a criterion passes with a median so much better than committed. The
    logarithms of the sessions' values are normal with this standard deviation."""
    below = NormalDist(math.log1p(margin), spread).cdf(0) if spread else 0.0
    return sum(
        math.comb(sessions, bad) * below**bad * (1 - below) ** (sessions - bad)
        for bad in range(interval_rank(sessions, confidence))
    )


def _spread(metrics: Sequence[str], cases: Iterable[Case], nights: Nights) -> tuple[float, str]:
    """The spread between nights of the logarithms of a metric, median over the cases; and how it is
    known."""
    spreads, counts = [], []
    for case in cases:
        name = next((name for name in metrics if name in case.metrics), "")
        first = [runs[0].metrics for runs in nights.get(case, {}).values()]
        values = [run[name] for run in first if run.get(name)]
        if len(values) >= _FEWEST_NIGHTS:
            spreads.append(stdev(map(math.log, values)))
            counts.append(len(values))
    if not spreads:
        return ASSUMED_SPREAD, "assumed, for there are too few nights on record"
    return median(spreads), f"as in {min(counts)} nights or more on record"
