"""Common slowness: cases that share a filesystem, a library or a node have one alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from statistics import median
from typing import Any

from iowatch.cases.case import Case
from iowatch.cases.verdict import NO_REFERENCE, SLOWER, Flag, Outcome, Verdict
from iowatch.judge.baseline import Sample
from iowatch.judge.bless import judged_by, samples_of
from iowatch.judge.explain import Layer
from iowatch.judge.groups import Common, Group, Runs, have_alarms
from iowatch.judge.rules import Memory
from iowatch.judge.settings import NORMAL, R1, R2, R3, R4
from iowatch.judge.stored import LeftState, gone_on, restored
from iowatch.night.alarm import Alarm, is_told, since_words
from iowatch.night.case_night import MAX_INVALID, CaseNight
from iowatch.night.part_alarms import of_striped, shared_nodes, single_nodes, single_osts, with_osts

#: The alarms of single cases that one on what they share takes the place of.
_REPLACED = {Common.FILESYSTEM: (R1, R4), Common.LIBRARY: (R1, R2, R3, R4)}
#: The yardstick of one case, and of all, in words.
_USUAL = {
    Common.FILESYSTEM: ("its baseline", "their baselines"),
    Common.LIBRARY: ("its usual ratio to MPI-IO", "their usual ratios to MPI-IO"),
}
_LAYERS = {Common.FILESYSTEM: Layer.STORAGE, Common.LIBRARY: Layer.LIBRARY}


def alarms_of(
    rows: Sequence[CaseNight], now: datetime, left: Callable[[str], Mapping[str, Any]]
) -> tuple[list[Alarm], dict[str, Any]]:
    """The alarms of a night on what its cases share, the worst first; of two as bad the
    filesystem's. A library is named beside it for a loss that MPI-IO does not have.

    Also the charts of what they share, as this night leaves them; `left` has those of a night.
    """
    measured = [row for row in rows if row.last_measured]
    together = partial(CaseGroup, now=now, left=left)
    filesystems = [
        together(Common.FILESYSTEM, name, there) for name, there in _by_filesystem(measured)
    ]
    libraries = [*_libraries(measured, together)]
    alarms = [alarm for group in filesystems for alarm in _of_filesystem(group)]
    alarms += [alarm for library in libraries for alarm in _of_library(*library)]
    groups = [*filesystems, *(group for library in libraries for group in library)]
    under = {row.case for alarm in alarms for row in alarm.rows}
    of_nodes = [row for row in measured if row.case.check.by_node]
    alarms += [alarm for row in of_nodes for alarm in single_nodes(row, measured)]
    others = [row for row in measured if row not in of_nodes]
    alarms += shared_nodes([row for row in others if row.case not in under])
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

        def stored(night: str, _: Runs) -> LeftState | None:
            return restored(LeftState, self.left(night).get(self.key, {}))

        every = ((night, self._runs(night, False)) for night in reversed(self._nights))
        nights = ((night, _count(runs), runs) for night, runs in every if runs)
        return gone_on(nights, stored, self._by, self.group.judge)[:2]

    @cached_property
    def left_now(self) -> LeftState | None:
        """The chart as this night leaves it; None: there is none, or this night is not on it."""
        runs = self._runs(self.rows[0].night, False)
        if not (self.group.baseline and runs):
            return None
        state, before = self._before
        after, _ = self.group.judge(state, runs)
        return LeftState(by=self._by, runs=_count(runs), state=after, before=before)

    @cached_property
    def have_alarms(self) -> list[str]:
        """The cases whose own alarms say the same."""
        verdicts = {str(row.case): row.alone for row in self.rows}
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
            and row.outcome.is_absolute == row.alone.outcome.is_absolute
            and row.alone.rule in _REPLACED[self.common]
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
            return min((at for row in self.slow if (at := row.alone.since)), default=None)
        return self.verdict.since

    def _extent(self) -> str:
        of_one, usual = _USUAL[self.common]
        verdict, many = self.verdict, f"{len(self.slow)} of {len(self.rows)} cases are slow"
        if verdict.outcome.is_resolved:
            return verdict.sentence
        if self.have_alarms and not verdict.outcome.is_regression:
            drop = median(row.alone.drop or 0 for row in self.slow)
            return f"{many}, {drop:.0%} (median) below {usual}" + since_words(self._since)
        if is_far_below := self.group.is_far_below(self.tonight):
            part = f"{NORMAL.common_severe:.0%} of {of_one}"
            many = f"every one of its {len(self.tonight)} cases is below {part}"
        runs = f", in all {verdict.runs} runs" if verdict.rule == R4 else ""
        if verdict.rule == R4 or not verdict.outcome.is_regression:
            lost = f"{1 - self.group.reached(self.tonight):.0%} below"
            below = lost if is_far_below else f"{lost} {usual}"
            return f"{many} tonight{runs}; together they are {below}"
        reached, begun = f"{verdict.drop:.0%} below {usual}", since_words(verdict.since)
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


def _count(runs: Runs) -> int:
    return sum(map(len, runs.values()))


def _of_filesystem(together: CaseGroup) -> Iterator[Alarm]:
    of_osts = [row for row in together.rows if row.case.check.by_target]
    osts = [row for row in of_osts if row.outcome.is_alarm]
    if is_told(together.outcome):
        alarm = together.alarm("the filesystem, not one of its I/O paths")
        alarms = [with_osts(alarm, osts)]
    else:
        alarms = [*of_striped(together.name, together.rows, osts)]
    yield from alarms
    told = {row.case for alarm in alarms for row in osts if row in alarm.rows}
    yield from single_osts(together.name, of_osts, told)


def _of_library(every: CaseGroup, *there: CaseGroup) -> Iterator[Alarm]:
    """Yield the alarm of a library on all filesystems, or else on those on which it is slow."""
    fault = "the library's path there, not the filesystem"
    alarms = [group.alarm(fault) for group in there if is_told(group.outcome)]
    is_wide = len({row.last.filesystem for row in every.slow}) > 1
    if is_told(every.outcome) and (is_wide or not alarms):
        alarms = [every.alarm("the library, not the filesystem")]
    for alarm in alarms:
        worst = sorted(alarm.rows, key=lambda row: row.severity)[:1]
        words = "".join(f"; the worst: {row.sentence}" for row in worst)
        yield replace(alarm, words=f"{alarm.words}{words}" if alarm.is_red else alarm.words)


def _libraries(
    rows: Sequence[CaseNight], together: Callable[..., CaseGroup]
) -> Iterator[list[CaseGroup]]:
    """The cases of each library: on all filesystems, and if these are several, on each."""
    for name in sorted({row.case.backend for row in rows if "ratio" in row.metrics}):
        of_library = [r for r in rows if r.case.backend == name and "ratio" in r.metrics]
        places = _by_filesystem(of_library)
        there = [(f"{name} on {place}", of_place) for place, of_place in places]
        every = [(name, of_library), *(there if len(there) > 1 else ())]
        yield [together(Common.LIBRARY, *group) for group in every]


def _by_filesystem(rows: Sequence[CaseNight]) -> list[tuple[str, list[CaseNight]]]:
    names = sorted({row.last.filesystem for row in rows})
    return [(name, [row for row in rows if row.last.filesystem == name]) for name in names]
