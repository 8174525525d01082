"""Slow OSTs: those that slow other cases, and each that is not as it was beside its peers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from iowatch.cases.case import Case, Part
from iowatch.judge.explain import Layer
from iowatch.judge.settings import R4
from iowatch.judge.stored import JudgedPart
from iowatch.measure.kinds.slow_ost import OST_RATIO, osts_below, slow_osts
from iowatch.night.alarm import Alarm, is_told, since_words
from iowatch.night.case_night import MAX_INVALID, CaseNight


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
