"""Alarms on what a case has many of: slow OSTs, slow nodes, and the hours before a night."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from iowatch.cases.case import Case, Part
from iowatch.cases.run import began
from iowatch.cases.verdict import SLOWER, SUSPECT, Outcome, Reason, State
from iowatch.judge import node_watch
from iowatch.judge.by_hour import HourValue, SlowHours, slow_hours, together
from iowatch.judge.explain import Layer
from iowatch.judge.settings import NORMAL, R4
from iowatch.judge.stored import JudgedPart
from iowatch.measure.kinds.latency import CALLS
from iowatch.measure.kinds.slow_ost import OST_RATIO, osts_below, slow_osts
from iowatch.night.alarm import Alarm, is_told, since_words
from iowatch.night.case_night import MAX_INVALID, CaseNight
from iowatch.past.hours import CaseHour, by_case

_SOME = 2  # cases, at least, that were well on the nodes beside those that are named

_NODES = 2  # named at most: of more, nobody can say which


def single_nodes(row: CaseNight, rows: Sequence[CaseNight]) -> Iterator[Alarm]:
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


def shared_nodes(rows: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Nodes on which every case is slow, while no other case of the same filesystems is."""
    slow = [row for row in rows if row.is_low]
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


#: The quantile that is judged.
JUDGED = "p99"

#: Pooled, they show a loss that is lost in the noise of each.
TOGETHER = "all calls together"

#: After so long without an hour somebody has to look.
SILENT = timedelta(hours=6)


def alarms_of_hours(
    hours: Sequence[CaseHour], now: datetime, asked: Collection[Case] | None = None
) -> Iterator[Alarm]:
    """Yield an alarm for each case of which a call has been slow for nearly a day, and one if hours
    do not come any more.

    `asked` are the cases of the hourly suite; None: nobody knows here.
    """
    cases = by_case(hours)
    for of_case in cases.values():
        values = {
            call: [HourValue(hour.time, hour.quantile(call, JUDGED)) for hour in of_case]
            for call in CALLS
        }
        values[TOGETHER] = together(values.values())
        changes = {name: slow_hours(hours_of, now) for name, hours_of in values.items()}
        if slow := {name: change for name, change in changes.items() if change}:
            place = of_case[-1].filesystem
            outcome = Outcome(State.SUSPECT, Reason.SLOW_HOURS)
            since = min(change.since for change in slow.values())
            yield Alarm(f"access to {place}", outcome, _words(slow), (), since=since)
    last_hours = [of_case[-1] for case, of_case in cases.items() if asked is None or case in asked]
    if silent := [hour for hour in last_hours if now - hour.time > SILENT]:
        yield _silent(silent)


def _words(slow: dict[str, SlowHours]) -> str:
    """Say by how much the worst call is slow, in how many hours and since when; name the others."""
    calls = [call for call in slow if call != TOGETHER]
    worst = max(calls, key=lambda call: slow[call].factor, default=TOGETHER)
    change = slow[worst]
    others = [call for call in calls if call != worst]
    so = f"; likewise {', '.join(others)}" if others else ""
    return (
        f"the p99 of {worst} is {change.factor:.1f} times what is usual at that hour of the day, "
        f"in {change.slow} of {change.judged} hours, since {change.since:%Y-%m-%d %H:%M} UTC{so}"
    )


def _silent(last_hours: Sequence[CaseHour]) -> Alarm:
    """Name the filesystems that have no new hours."""
    places = ", ".join(dict.fromkeys(hour.filesystem for hour in last_hours))
    last = max(hour.time for hour in last_hours)
    command = f"iowatch run --system {last_hours[0].case.system} --suite hourly"
    words = (
        f"none is on record since {last:%Y-%m-%d %H:%M} UTC: see what cron mails of `{command}`, "
        "or take the suite `hourly` out of the site's file"
    )
    outcome = Outcome(State.UNJUDGED, Reason.NO_HOURS)
    return Alarm(
        *(f"hours of {places}", outcome, words, ()), since=last, extent="none", command=command
    )


def with_osts(alarm: Alarm, osts: Sequence[CaseNight]) -> Alarm:
    for row in osts:
        rows = alarm.rows if row in alarm.rows else [*alarm.rows, row]
        words = f"{alarm.words}; {_slow_osts(row)}"
        alarm = replace(alarm, words=words, rows=rows, merged=alarm.merged | {row.case})
    return alarm


def of_striped(name: str, rows: Sequence[CaseNight], osts: Sequence[CaseNight]) -> Iterator[Alarm]:
    """Slow OSTs, and the cases that are slow because they write to all of them."""
    slow = [row for row in rows if row not in osts and row.is_low]
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


@dataclass(frozen=True)
class _SlowOst:
    """The verdict of the nights on one OST, by one operation of one case."""

    row: CaseNight
    part: Part
    judged: JudgedPart  # by its rate over the median of its peers

    @property
    def words(self) -> str:
        verdict, slow = self.judged.verdict, f"slow to {self.part.operation}"
        if verdict.outcome.is_resolved:
            return f"{slow}: {verdict.sentence}"
        tonight, usual = self.judged.tonight, self.judged.usual
        now = f"tonight {tonight:.2f} of its peers' median, usually {usual:.2f}"
        if verdict.outcome.is_regression and verdict.rule != R4:
            since = since_words(verdict.since)
            if verdict.raised and verdict.raised < self.row.runs[0].time:
                return f"{slow}{since} (alarm of {verdict.raised:%Y-%m-%d}): {now}"
            return f"{slow}: {verdict.drop:.0%} slower beside its peers than usual{since}; {now}"
        return f"{slow}: {now}" + (f", in all {verdict.runs} runs" if verdict.rule == R4 else "")


def single_osts(name: str, rows: Sequence[CaseNight], told: Collection[Case]) -> Iterator[Alarm]:
    """Each OST of a filesystem that is not as it was beside its peers. `told` has the cases whose
    OSTs another alarm names."""
    slow: dict[str, list[_SlowOst]] = {}
    for row in rows:
        named = _below(row) if row.case in told else ()
        every = row.judged.parts if row.judged else {}
        for part in {part: None for run in row.runs for part in row.case.check.parts(run.metrics)}:
            judged = every.get(part.metric)
            if judged and is_told(judged.verdict.outcome) and part.name not in named:
                slow.setdefault(part.name, []).append(_SlowOst(row, part, judged))
    red = {
        number for number, every in slow.items() if any(ost.judged.verdict.is_red for ost in every)
    }
    for number, osts in sorted(slow.items(), key=lambda item: int(item[0])):
        verdicts = [ost.judged.verdict for ost in osts]
        rows_of = {ost.row.case: ost.row for ost in osts}
        # A run that it had no part in tells nothing of it.
        due = {
            ost.row.case: at for ost in osts
            if ost.row.measured_runs <= ost.judged.verdict.runs
            and ost.row.failed_runs <= MAX_INVALID and (at := ost.judged.verdict.rerun_at)
        }  # fmt: skip
        merged = frozenset(
            case for case, row in rows_of.items()
            if number in red and row.outcome.is_alarm and not row.alone.outcome.is_regression
            and _below(row) <= red
        )  # fmt: skip
        again = "; it is measured again to tell whether it lasts" if due else ""
        yield Alarm(
            f"OST {number} of {name}",
            min((verdict.outcome for verdict in verdicts), key=lambda outcome: outcome.rank),
            "; ".join(ost.words for ost in osts) + again,
            [*rows_of.values()],
            merged,
            due=due,
            since=min((verdict.since for verdict in verdicts if verdict.since), default=None),
            layer=Layer.OST,
        )


def _below(row: CaseNight) -> set[str]:
    """The OSTs of a case that are below its bounds."""
    every = (osts_below(row.metrics, op, _bound(row, op)) for op in OST_RATIO)
    return {ost.name for osts in every for ost in osts}
