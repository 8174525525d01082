"""The verdicts of a night: its cases, alarms and colour, and the sentence that comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.run import Run, began, day_of
from iowatch.cases.verdict import Outcome
from iowatch.night.alarm import Alarm
from iowatch.night.case_night import CaseNight
from iowatch.night.document import SkippedCase
from iowatch.past.hours import CaseHour
from iowatch.past.words import GateRecord
from iowatch.site.declared import Event, ExpectedFailure, Maintenance, UserOutput


@dataclass(frozen=True, kw_only=True)
class NightVerdicts:
    """All verdicts of a night, and what is wrong with the night as a whole."""

    system: str
    id: str
    cases: Sequence[CaseNight] = ()
    problems: Sequence[str] = ()  # with the night as a whole: they make it red
    notes: Sequence[str] = ()  # to be known, but not wrong
    alarms: Sequence[Alarm] = ()  # on what is slow as a whole, the worst first
    groups: Mapping[str, Any] = field(default_factory=dict)  # the charts of what cases share
    is_gated: bool = True  # whoever ran the night has said its problems; else the record speaks
    signal: int = 0  # that ended it early
    page: Path | None = None  # its report
    is_by_hand: bool = False  # no night at all, but a session that somebody asks about
    later: str = ""  # the last night on record, dated later than now, that was not asked for
    judged: GateRecord | None = None  # the word of the gate on the whole night; it holds
    basis: str = ""  # digest of what it is shown by, if that is on record
    skipped: Sequence[SkippedCase] = ()  # cases that need what has never been there
    expected: Sequence[ExpectedFailure] = ()
    events: Sequence[Event] = ()
    maintenance: Sequence[Maintenance] = ()
    outputs: Sequence[UserOutput] = ()
    hours: Sequence[CaseHour] = ()  # before its end, of single calls

    @property
    def day(self) -> date:
        return day_of(self.id)

    @cached_property
    def runs(self) -> list[Run]:
        return sorted((run for row in self.cases for run in row.runs), key=lambda run: run.time)

    @cached_property
    def ended(self) -> datetime:
        """The end of the last run; the beginning of the night if nothing ran."""
        return self.runs[-1].time if self.runs else began(self.id)

    @cached_property
    def sessions(self) -> set[str]:
        return {run.session for run in self.runs}

    @cached_property
    def red(self) -> list[CaseNight]:
        return [case for case in self.cases if case.is_red]

    @cached_property
    def amber(self) -> list[CaseNight]:
        return [case for case in self.cases if case.is_amber]

    @property
    def measured(self) -> int:
        return len(self.cases) - len(self.amber)

    @property
    def is_red(self) -> bool:
        return self.colour == "red"

    @cached_property
    def red_alarms(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if alarm.is_red]

    @cached_property
    def merged(self) -> Mapping[Case, Alarm]:
        """The red cases of which an alarm says why."""
        return {case: alarm for alarm in self.red_alarms for case in alarm.merged}

    @cached_property
    def reruns(self) -> Mapping[Case, datetime]:
        held = {case for alarm in self.alarms for case in alarm.held}
        alone = {r.case: r.rerun_at for r in self.cases if r.rerun_at and r.case not in held}
        return {case: at for alarm in self.alarms for case, at in alarm.due.items()} | alone

    @cached_property
    def colour(self) -> str:
        """Red if something is wrong, amber if not all is known, else green.

        The word of the gate holds, whatever has become of the site's files since.
        """
        if self.judged:
            return self.judged.colour
        is_red = self.problems or self.red or self.red_alarms
        is_amber = self.amber or any(alarm.outcome.is_amber for alarm in self.alarms)
        return "red" if is_red else "amber" if is_amber else "green"

    @cached_property
    def promised(self) -> int | None:
        """The cases that the site's file promised, but for the skipped; None: nobody knows."""
        promises = [run.promise.cases for run in self.runs if run.promise]
        promises += [self.judged.promised] if self.judged else []
        return max(promises) - len(self.skipped) if promises else None

    @cached_property
    def worst_first(self) -> list[CaseNight]:
        return sorted(self.cases, key=lambda case: case.severity)

    @cached_property
    def why(self) -> str:
        """The sentence that comes first."""
        rows = self.worst_first
        worst = [row.sentence for row in rows if row.outcome.is_corrupt]
        worst += [alarm.sentence for alarm in self.red_alarms]
        worst += [*(row.sentence for row in rows if row.is_red), *self.problems]
        worst += [f"{alarm.outcome}: {alarm.sentence}" for alarm in self.alarms]
        open_rows = [row for row in rows if not (row.is_quiet or row.is_recorded)]
        worst += [f"{row.outcome}: {row.sentence}" for row in open_rows]
        if worst:
            return worst[0]
        if self.judged and self.judged.colour != "green":  # as the site's files were then
            return self.judged.why
        measured = [row for row in self.cases if row.case.metrics]
        well = f"Every case{'' if self.is_gated else ' on record'} is as it should be"
        if rest := sum(not row.blessed for row in measured):
            have = "has" if rest == 1 else "have"
            cases = counted(len(measured), "case")
            well = f"{rest} of {cases} {have} no baseline yet: bless good nights"
        return well + ("." if self.is_gated else "; what never ran is not on record.")

    @cached_property
    def counts(self) -> list[tuple[Outcome, int]]:
        return list(Counter(row.outcome for row in self.worst_first).items())

    def measured_in(self, sessions: Collection[str]) -> Self:
        """The part of the night that ran in these sessions; its colour is that of the whole."""
        cases = [c for c in self.cases if any(run.session in sessions for run in c.runs)]
        part = replace(self, cases=cases)
        if replace(part, judged=None).colour == self.colour:
            return part
        note = f"the night as a whole is {self.colour}: {self.why}"
        return replace(part, notes=[*self.notes, note])
