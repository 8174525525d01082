"""Common slowness: cases that share a filesystem, a library or a node have one alarm."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from statistics import median
from typing import Any

from iowatch.cases.case import Case, Part
from iowatch.cases.run import began
from iowatch.cases.verdict import NO_REFERENCE, SLOWER, SUSPECT, Flag, Outcome, State, Verdict
from iowatch.judge import node_watch
from iowatch.judge.baseline import Sample
from iowatch.judge.bless import judged_by, samples_of
from iowatch.judge.explain import Layer
from iowatch.judge.groups import Common, Group, Runs, have_alarms
from iowatch.judge.rules import R1, R2, R3, R4, Memory
from iowatch.judge.settings import NORMAL
from iowatch.judge.stored import JudgedPart, LeftState, gone_on, restored
from iowatch.measure.kinds.slow_ost import OST_RATIO, osts_below, slow_osts
from iowatch.night.case_night import MAX_INVALID, CaseNight

#: The alarms of single cases that one on what they share takes the place of.
_REPLACED = {Common.FILESYSTEM: (R1, R4), Common.LIBRARY: (R1, R2, R3, R4)}
#: The yardstick of one case, and of all, in words.
_USUAL = {
    Common.FILESYSTEM: ("its baseline", "their baselines"),
    Common.LIBRARY: ("its usual ratio to MPI-IO", "their usual ratios to MPI-IO"),
}
_LAYERS = {Common.FILESYSTEM: Layer.STORAGE, Common.LIBRARY: Layer.LIBRARY}
_SOME = 2  # cases, at least, that were well on the nodes beside those that are named
_NODES = 2  # named at most: of more, nobody can say which


@dataclass(frozen=True)
class Alarm:
    """One sentence on what is slow as a whole, and the cases under it."""

    subject: str  # fs3, hdf5 on fs3, OST 2 of fs3, node n17
    outcome: Outcome  # suspect: it may be an alarm in a few nights
    words: str
    rows: Sequence[CaseNight]  # of the cases that are slow
    merged: frozenset[Case] = frozenset()  # of these it says why they are red
    known: str = ""  # why it is expected; empty: it is not
    #: When cases are to be run again to tell more of it, though they need not be suspect.
    due: Mapping[Case, datetime] = field(default_factory=dict)
    #: Suspects that are not run again: they are as slow as the whole, and would say no more of it.
    held: frozenset[Case] = frozenset()
    since: datetime | None = None
    layer: Layer | None = None
    extent: str = ""  # for a banner, if it is not the loss of these cases
    command: str = ""  # that comes next, if it is about no case

    @property
    def sentence(self) -> str:
        return f"{self.subject}: {self.words}" + (f" ({self.known})" if self.known else "")

    @property
    def is_red(self) -> bool:
        return self.outcome.is_red


def alarms_of(
    rows: Sequence[CaseNight], now: datetime, left: Callable[[str], Mapping[str, Any]]
) -> tuple[list[Alarm], dict[str, Any]]:
    """The alarms of a night on what its cases share, the worst first; of two as bad the
    filesystem's. A library is named beside it for a loss that MPI-IO does not have.

    Also the charts of what they share, as this night leaves them; `left` has those of a night.
    """
    measured = [row for row in rows if row.last_measured]
    filesystems = [
        CaseGroup(Common.FILESYSTEM, name, there, now, left)
        for name, there in sorted(_by_filesystem(measured).items())
    ]
    libraries = [*_libraries(measured, now, left)]
    alarms = [alarm for together in filesystems for alarm in _of_filesystem(together)]
    alarms += [alarm for library in libraries for alarm in library.alarms()]
    groups = [*filesystems, *(group for library in libraries for group in library.groups)]
    under = {row.case for alarm in alarms for row in alarm.rows}
    of_nodes = [row for row in measured if row.case.check.by_node]
    alarms += [alarm for row in of_nodes for alarm in _single_nodes(row, measured)]
    others = [row for row in measured if row not in of_nodes]
    alarms += _nodes([row for row in others if row.case not in under])
    alarms = [_excused(alarm) for alarm in alarms]
    alarms.sort(key=lambda alarm: (not alarm.is_red, alarm.outcome.rank))
    return alarms, {group.key: group.left_now.plain for group in groups if group.left_now}


def _excused(alarm: Alarm) -> Alarm:
    """The alarm, which is known if all of its cases are expected."""
    whys = [row.known or row.excuse for row in alarm.rows]
    if not (alarm.is_red and whys and all(whys)):
        return alarm
    return replace(alarm, outcome=alarm.outcome.flagged(Flag.KNOWN), known=str(whys[0]))


# A filesystem, a library


@dataclass(frozen=True)
class CaseGroup:
    """Cases that share something, on one night."""

    common: Common
    name: str  # of what they share: fs3, hdf5, hdf5 on fs3
    rows: Sequence[CaseNight]
    now: datetime
    left: Callable[[str], Mapping[str, Any]]  # the charts of all groups, as a night has left them

    @property
    def key(self) -> str:
        return f"{self.common.name.lower()} {self.name}"

    @cached_property
    def group(self) -> Group:
        by_name = {str(row.case): row for row in self.rows if row.blessed}
        baselines = {name: row.blessed.baseline for name, row in by_name.items() if row.blessed}
        return Group(self.common, baselines, [self._runs(night, True) for night in self._nights])

    @cached_property
    def _nights(self) -> list[str]:
        return sorted({night for row in self.rows for night in row.earlier})

    def _runs(self, night: str, is_blessed: bool) -> Runs:
        """Samples of the cases for which this night is a blessed one, or later."""
        runs: dict[str, list[Sample]] = {}
        for row in self.rows:
            entry = row.blessed
            is_of = entry and (entry.covers(night) if is_blessed else entry.is_before(night))
            if is_of and (samples := samples_of(row.runs_of(night))):
                runs[str(row.case)] = samples
        return runs

    @cached_property
    def tonight(self) -> Runs:
        return {str(row.case): samples_of(row.runs) for row in self.rows if row.last_measured}

    @cached_property
    def verdict(self) -> Verdict:
        if not self.group.baseline:
            return Verdict(NO_REFERENCE, "")
        return self.group.judge(self._before[0], self.tonight, final=False)[1]

    @cached_property
    def _by(self) -> str:
        entries = [(str(row.case), row.blessed) for row in self.rows if row.blessed]
        return judged_by(self.group.baseline, sorted(entries))

    @cached_property
    def _before(self) -> tuple[Memory, str]:
        """The state that the nights before have left, and the last of them."""
        return gone_on(
            self._newest_first(),
            lambda night, _: restored(LeftState, self.left(night).get(self.key, {})),
            self._by,
            self.group.judge,
        )[:2]

    def _newest_first(self) -> Iterator[tuple[str, int, Runs]]:
        for night in reversed(self._nights):
            if runs := self._runs(night, False):
                yield night, sum(map(len, runs.values())), runs

    @cached_property
    def left_now(self) -> LeftState | None:
        """The chart as this night leaves it; None: there is none, or this night is not on it."""
        night = self.rows[0].night
        if not (self.group.baseline and (runs := self._runs(night, False))):
            return None
        (state, before), count = self._before, sum(map(len, runs.values()))
        after, _ = self.group.judge(state, runs)
        return LeftState(by=self._by, runs=count, state=after, before=before)

    @cached_property
    def have_alarms(self) -> list[str]:
        """The cases whose own alarms say the same."""
        verdicts = {str(row.case): _verdict_of(row) for row in self.rows}
        return have_alarms(self.common, verdicts, self.now)

    @property
    def outcome(self) -> Outcome:
        outcome = self.verdict.outcome
        return SLOWER if self.have_alarms and not outcome.is_regression else outcome

    @cached_property
    def slow(self) -> list[CaseNight]:
        names = {*self.have_alarms}
        if self.group.baseline:
            names |= {*self.group.slow(self.tonight)}
        return [row for row in self.rows if str(row.case) in names]

    def alarm(self, is_why: str) -> Alarm:
        """`is_why` is what follows from it: "the filesystem, not one of its I/O paths"."""
        merged = frozenset(
            row.case for row in self.slow
            if self.outcome.is_red and row.outcome.is_alarm
            and row.outcome.is_absolute == _verdict_of(row).outcome.is_absolute
            and _verdict_of(row).rule in _REPLACED[self.common]
        )  # fmt: skip
        due, words = self._due(), [self._extent()]
        if self.outcome.is_red:
            is_part = 0 < 2 * len(self.slow) < len(self.rows)
            words.append(f": {'some of its cases, not all' if is_part else is_why}")
        if due:
            whole = "of them" if self.outcome.is_suspect else "of its cases"
            words.append(f"; {len(due)} {whole} are run again to tell whether it lasts")
        return Alarm(
            self.name, self.outcome, "".join(words), self.slow, merged, due=due, held=self._held(),
            since=self._since, layer=_LAYERS[self.common],
        )  # fmt: skip

    @property
    def _since(self) -> datetime | None:
        """When it began: by the group's own chart, else by the alarms of its cases."""
        if self.have_alarms and not self.verdict.outcome.is_regression:
            verdicts = [_verdict_of(row) for row in self.slow]
            return min((verdict.since for verdict in verdicts if verdict.since), default=None)
        return self.verdict.since

    def _extent(self) -> str:
        of_one, usual = _USUAL[self.common]
        verdict, many = self.verdict, f"{len(self.slow)} of {len(self.rows)} cases are slow"
        if verdict.outcome.is_resolved:
            return verdict.sentence
        if self.have_alarms and not verdict.outcome.is_regression:
            verdicts = [_verdict_of(row) for row in self.slow]
            drop = median(verdict.drop or 0 for verdict in verdicts)
            return f"{many}, {drop:.0%} (median) below {usual}" + _since(self._since)
        if is_far_below := self.group.is_far_below(self.tonight):
            part = f"{NORMAL.common_severe:.0%} of {of_one}"
            many = f"every one of its {len(self.tonight)} cases is below {part}"
        runs = f", in all {verdict.runs} runs" if verdict.rule == R4 else ""
        if verdict.rule == R4 or not verdict.outcome.is_regression:
            lost = f"{1 - self.group.reached(self.tonight):.0%} below"
            below = lost if is_far_below else f"{lost} {usual}"
            return f"{many} tonight{runs}; together they are {below}"
        reached, begun = f"{verdict.drop:.0%} below {usual}", _since(verdict.since)
        first = min(runs[0].time for runs in self.tonight.values() if runs)
        if not verdict.raised or verdict.raised >= first:
            return f"{many} tonight; together they have been {reached}{begun}"
        if (verdict.drop or 0) <= 0:
            reached = f"at {usual}"
        alarm = f"alarm of {verdict.raised:%Y-%m-%d}, slow{begun}"
        return f"{many} tonight; together they are {reached} ({alarm})"

    def _due(self) -> dict[Case, datetime]:
        """The cases that are run again to tell whether the group is slow."""
        at, rounds = self.verdict.rerun_at, self.verdict.runs
        if at is None:
            return {}
        panel = [row for row in self.rows if str(row.case) in self.group.panel]
        return {
            row.case: at for row in panel
            if row.measured_runs <= rounds and row.failed_runs <= MAX_INVALID
        }  # fmt: skip

    def _held(self) -> frozenset[Case]:
        """The suspects that are only as slow as their filesystem is."""
        is_chart = self.common is Common.FILESYSTEM and self.group.baseline
        if not (self.outcome.is_slow and is_chart):
            return frozenset()
        return frozenset(
            row.case for row in self.slow
            if row.is_suspect and row.blessed and str(row.case) not in self.group.panel
            and not row.is_slow_to_finish and self.group.says_no_more(str(row.case), self.tonight)
        )  # fmt: skip


def _is_told(outcome: Outcome) -> bool:
    return outcome.is_slow or outcome.is_resolved


def _since(time: datetime | None) -> str:
    return f" since {time:%Y-%m-%d}" if time else ""


def _verdict_of(row: CaseNight) -> Verdict:
    """The detector's on the case alone: of one that is well it need not be asked."""
    judged = row.judged if row.is_red or row.known else None
    return judged.verdict if judged else Verdict(row.outcome, row.last_sentence)


def _of_filesystem(together: CaseGroup) -> Iterator[Alarm]:
    of_osts = [row for row in together.rows if row.case.check.by_target]
    osts = [row for row in of_osts if row.outcome.is_alarm]
    if _is_told(together.outcome):
        alarm = together.alarm("the filesystem, not one of its I/O paths")
        alarms = [_with_osts(alarm, osts)]
    else:
        alarms = [*_of_osts(together.name, together.rows, osts)]
    yield from alarms
    told = {row.case for alarm in alarms for row in osts if row in alarm.rows}
    yield from _osts(together.name, of_osts, told)


def _by_filesystem(rows: Sequence[CaseNight]) -> dict[str, list[CaseNight]]:
    filesystems: dict[str, list[CaseNight]] = {}
    for row in rows:
        filesystems.setdefault(row.last.filesystem, []).append(row)
    return filesystems


def _with_osts(alarm: Alarm, osts: Sequence[CaseNight]) -> Alarm:
    for row in osts:
        rows = alarm.rows if row in alarm.rows else [*alarm.rows, row]
        words = f"{alarm.words}; {_slow_osts(row)}"
        alarm = replace(alarm, words=words, rows=rows, merged=alarm.merged | {row.case})
    return alarm


def _of_osts(name: str, rows: Sequence[CaseNight], osts: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Slow OSTs, and the cases that are slow because they write to all of them."""
    slow = [row for row in rows if row not in osts and _is_slow(row)]
    if osts and slow and all(row.case.stripe_count == -1 for row in slow):
        words = f"{_slow_osts(osts[0])}; every case that is slow writes to all OSTs ({len(slow)})"
        under = [*osts, *slow]
        merged = frozenset(row.case for row in under if row.outcome.is_alarm)
        yield Alarm(f"OSTs of {name}", osts[0].outcome, words, under, merged, layer=Layer.OST)


def _slow_osts(row: CaseNight) -> str:
    words = []
    for operation in OST_RATIO:
        slow = slow_osts(row.metrics, operation, _bound(row, operation))
        words += [f"slow to {operation}: {slow}"] if slow else []
    return "; ".join(words) or row.last_sentence


def _bound(row: CaseNight, operation: str) -> float:
    """Below which part of its peers' rate an OST is slow, whatever its past."""
    reference = row.references.get(OST_RATIO[operation])
    return (reference and reference.lower) or 0.0


# An OST


@dataclass(frozen=True)
class _SlowOst:
    """The verdict of the nights on one OST, by one operation of one case."""

    row: CaseNight
    part: Part
    judged: JudgedPart  # by its rate over the median of its peers

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    @property
    def words(self) -> str:
        verdict, slow = self.verdict, f"slow to {self.part.operation}"
        if verdict.outcome.is_resolved:
            return f"{slow}: {verdict.sentence}"
        tonight, usual = self.judged.tonight, self.judged.usual
        now = f"tonight {tonight:.2f} of its peers' median, usually {usual:.2f}"
        if verdict.outcome.is_regression and verdict.rule != R4:
            since = _since(verdict.since)
            if verdict.raised and verdict.raised < self.row.runs[0].time:
                return f"{slow}{since} (alarm of {verdict.raised:%Y-%m-%d}): {now}"
            return f"{slow}: {verdict.drop:.0%} slower beside its peers than usual{since}; {now}"
        return f"{slow}: {now}" + (f", in all {verdict.runs} runs" if verdict.rule == R4 else "")

    @property
    def due(self) -> datetime | None:
        """When its case is to be run again: a run that it had no part in tells nothing of it."""
        row = self.row
        is_told = row.measured_runs > self.verdict.runs or row.failed_runs > MAX_INVALID
        return None if is_told else self.verdict.rerun_at


def _osts(name: str, rows: Sequence[CaseNight], told: Collection[Case]) -> Iterator[Alarm]:
    """Each OST of a filesystem that is not as it was beside its peers. `told` has the cases whose
    OSTs another alarm names."""
    slow: dict[str, list[_SlowOst]] = {}
    for row in rows:
        named = {ost for op in OST_RATIO for ost in _below(row, op)} if row.case in told else ()
        for ost in _judged_osts(row):
            if ost.part.name not in named:
                slow.setdefault(ost.part.name, []).append(ost)
    red = {number for number, every in slow.items() if any(ost.verdict.is_red for ost in every)}
    for number, every in sorted(slow.items(), key=lambda item: int(item[0])):
        worst = min((ost.verdict.outcome for ost in every), key=lambda outcome: outcome.rank)
        rows_of = {ost.row.case: ost.row for ost in every}
        due = {ost.row.case: ost.due for ost in every if ost.due}
        again = "; it is measured again to tell whether it lasts" if due else ""
        merged = frozenset(
            case for case, row in rows_of.items()
            if number in red and row.outcome.is_alarm and not _verdict_of(row).outcome.is_regression
            and {ost for op in OST_RATIO for ost in _below(row, op)} <= red
        )  # fmt: skip
        words = "; ".join(ost.words for ost in every) + again
        since = min((ost.verdict.since for ost in every if ost.verdict.since), default=None)
        rows = [*rows_of.values()]
        yield Alarm(
            f"OST {number} of {name}", worst, words, rows, merged, due=due, since=since,
            layer=Layer.OST,
        )  # fmt: skip


def _below(row: CaseNight, operation: str) -> list[str]:
    return [ost.name for ost in osts_below(row.metrics, operation, _bound(row, operation))]


def _judged_osts(row: CaseNight) -> Iterator[_SlowOst]:
    every = row.judged.parts if row.judged else {}
    for part in {part: None for run in row.runs for part in row.case.check.parts(run.metrics)}:
        judged = every.get(part.metric)
        if judged and _is_told(judged.verdict.outcome):
            yield _SlowOst(row, part, judged)


@dataclass(frozen=True)
class _Library:
    """The cases of a library, on each filesystem and on all."""

    there: Sequence[CaseGroup]
    every: CaseGroup

    @property
    def groups(self) -> list[CaseGroup]:
        return [*self.there, self.every]

    def alarms(self) -> Iterator[Alarm]:
        """Yield the alarm of a library on all filesystems, or else on those on which it is slow."""
        fault = "the library's path there, not the filesystem"
        alarms = [group.alarm(fault) for group in self.there if _is_told(group.outcome)]
        is_wide = len({row.last.filesystem for row in self.every.slow}) > 1
        if _is_told(self.every.outcome) and (is_wide or not alarms):
            alarms = [self.every.alarm("the library, not the filesystem")]
        for alarm in alarms:
            worst = sorted(alarm.rows, key=lambda row: row.severity)[:1]
            words = "".join(f"; the worst: {row.sentence}" for row in worst)
            yield replace(alarm, words=f"{alarm.words}{words}" if alarm.is_red else alarm.words)


def _libraries(
    rows: Sequence[CaseNight], now: datetime, left: Callable[[str], Mapping[str, Any]]
) -> Iterator[_Library]:
    libraries: dict[str, list[CaseNight]] = {}
    for row in rows:
        if "ratio" in row.metrics:
            libraries.setdefault(row.case.backend, []).append(row)
    for name, of_library in sorted(libraries.items()):
        places = sorted(_by_filesystem(of_library).items())
        there = [
            CaseGroup(Common.LIBRARY, f"{name} on {place}", of_place, now, left)
            for place, of_place in places
            if len(places) > 1
        ]
        yield _Library(there, CaseGroup(Common.LIBRARY, name, of_library, now, left))


# A node


def _single_nodes(row: CaseNight, rows: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Each node, or switch, that is slower than its peers by all runs of a partition; each node
    that has failed tonight; and those together that are only suspect."""
    there = [other for other in rows if other.case.partition == row.case.partition]
    runs = (run for r in there for night in (*r.earlier.values(), r.runs) for run in night)
    slow, name = node_watch.watch(runs).slow(), row.last.filesystem
    lost = {n: why for run in row.runs for n, why in run.by_node.get("lost", {}).items()}
    red = frozenset({row.case} if row.outcome.is_alarm else ())
    for node, why in lost.items():
        words = f"failed beside nodes that did not: {why}"
        yield Alarm(
            f"node {node} of {name}", node_watch.SLOW, words, [row], red,
            since=row.runs[0].time, layer=Layer.NODE, extent="failed", command=_drain(node),
        )  # fmt: skip
    for unit in slow:
        if unit.is_named and unit.name not in lost:
            yield Alarm(
                f"{unit.subject} of {name}", node_watch.SLOW, unit.words, [row], red,
                since=began(unit.since), layer=Layer.NODE, extent=unit.extent,
                command="" if unit.nodes else _drain(unit.name),
            )  # fmt: skip
    if suspects := [unit for unit in slow if not unit.is_named]:
        more = max(0, NORMAL.max_reruns + 1 - row.measured_runs)
        at = row.runs[-1].time + NORMAL.rerun_after
        is_due = more and row.failed_runs <= MAX_INVALID
        yield Alarm(
            f"nodes of {name}", node_watch.SUSPECT,
            "; ".join(node_watch.in_words(unit) for unit in suspects), [row],
            due={row.case: at} if is_due else {}, since=began(min(unit.since for unit in suspects)),
            layer=Layer.NODE, extent=f"({State.SUSPECT})",
        )  # fmt: skip


def _drain(node: str) -> str:
    return f"scontrol update nodename={shlex.quote(node)} state=drain reason='slow I/O'"


def _is_slow(row: CaseNight) -> bool:
    """Is its bandwidth itself low, whatever the library?"""
    rules = _REPLACED[Common.FILESYSTEM]
    return row.is_suspect or (row.outcome.is_alarm and _verdict_of(row).rule in rules)


def _nodes(rows: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Nodes on which every case is slow, while no other case of the same filesystems is."""
    slow = [row for row in rows if _is_slow(row)]
    places = {row.last.filesystem for row in slow}
    well = [row for row in rows if row not in slow and row.last.filesystem in places]
    if len(slow) < _SOME or len(well) < _SOME:
        return
    nodes = set.intersection(*map(_hosts, slow)).difference(*map(_hosts, well))
    if not 0 < len(nodes) <= _NODES:
        return
    names = " and ".join(sorted(nodes))
    words = f"the {len(slow)} cases that ran there are slow tonight, and none of the {len(well)} "
    words += "that ran elsewhere on the same filesystem: the node, not the filesystem"
    red = frozenset(row.case for row in slow if row.outcome.is_alarm)
    yield Alarm(f"node {names}", SLOWER if red else SUSPECT, words, slow, red, layer=Layer.NODE)


def _hosts(row: CaseNight) -> set[str]:
    return set(row.last.provenance.get("hosts", "").split())
