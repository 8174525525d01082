"""What the report of a night says: everything but how it looks.

Nothing is measured or judged here: verdicts are those that the checks stored that night. What is
compared with is the case's blessed baseline as it was in force then, else its good nights so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from iowatch.bless import Blessed
from iowatch.case import Case
from iowatch.checks import short_names
from iowatch.detector.judgement import (
    Judgement,
    common_mode,
)
from iowatch.files import UserError
from iowatch.history import Record, by_night, nights_of
from iowatch.judge import judge_tonight
from iowatch.references import ExpectedFailure
from iowatch.report.row import Past, Row, row_of, severity

SHOWN = 365  # nights of a trend
NAMED = 12  # cases that a sentence names at most
RECENT = 7  # nights of the system: a case that most of them measured is expected tonight


class ReportError(UserError):
    """There is no report; the message says why in one line."""


class NothingOnRecord(ReportError):
    """The system has no night yet."""


@dataclass(frozen=True)
class Report:
    """A night of a system."""

    system: str
    night: date
    began: datetime
    ended: datetime
    rows: Sequence[Row]  # worst first
    problems: Sequence[str]  # with the night as a whole: they make it red
    notes: Sequence[str]
    sessions: Collection[str]  # of ReFrame, in which the night was measured
    gated: bool  # whoever ran the night has said its problems; else only the record speaks

    @property
    def red_rows(self) -> list[Row]:
        return [row for row in self.rows if row.red]

    @property
    def is_red(self) -> bool:
        return bool(self.problems or self.red_rows)

    @property
    def brief(self) -> str:
        """Red or green, and of how many cases."""
        red = len(self.red_rows)
        count = f"{red} of {cases(len(self.rows))}" if red else cases(len(self.rows))
        problems = f", {len(self.problems)} problem(s) with the night" if self.problems else ""
        well = "Green" if self.gated else "Nothing red on record"
        return f"{'Red' if self.is_red else well}: {count}{problems}"

    @property
    def why(self) -> str:
        """The sentence that comes first."""
        if self.notes and self.red_rows:
            return self.notes[0]
        worst = [*(row.sentence for row in self.red_rows), *self.problems]
        loud = [f"{row.label}: {row.sentence}" for row in self.rows if not row.is_quiet]
        if not self.gated:
            loud.append("what was asked for and never ran is not on record")
        return [*worst, *loud, "every case is as it should be"][0]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many cases have each label, worst first."""
        return list(Counter(row.label for row in self.rows).items())


def cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"


def report_of(
    records: Iterable[Record],
    system: str,
    blessed: Mapping[Case, Blessed],
    excuses: Sequence[ExpectedFailure],
    night: date | None = None,
    problems: Sequence[str] | None = None,
) -> Report:
    """The report of a system's night, the last one unless it is named; ReportError.

    `problems` are what who ran the night has found. None: that was not said, and a case that was
    not measured is one, if the nights before measured it.
    """
    records = list(records)
    own = [record for record in records if record.case.system == system]
    if not own:
        names = ", ".join(sorted({record.case.system for record in records})) or "none"
        raise NothingOnRecord(
            f"no night of system {system} is on record; systems on record: {names}"
        )
    nights = nights_of(own)  # one that begins before midnight may measure cases after it
    last = night or max(nights)
    if last not in nights:
        raise ReportError(
            f"no night of {last} is on record for {system}: the first is {min(nights)}, the last "
            f"{max(nights)}"
        )
    runs = nights[last]
    known = {case: entry for case, entry in blessed.items() if entry.blessed <= last}
    past = by_night(record for record in own if record.time <= runs[-1].time)
    tonight = {record.case for record in runs}
    short = short_names(tonight)
    first = last - timedelta(days=SHOWN - 1)
    rows = [
        row_of(case, short[case], Past.of(past[case], known.get(case)), excuses, last, first)
        for case in tonight
    ]
    gated = problems is not None
    if problems is None:
        problems = list(_missing({day: nights[day] for day in nights if day < last}, tonight))
    return Report(
        system,
        last,
        runs[0].time,
        runs[-1].time,
        sorted(rows, key=severity),
        problems,
        list(_notes(rows, past, known, runs[-1].time)),
        {record.session for record in runs},
        gated,
    )


def _missing(earlier: Mapping[date, Sequence[Record]], tonight: set[Case]) -> Iterator[str]:
    """A sentence on the cases that most of the nights before measured, and this one did not."""
    recent = sorted(earlier)[-RECENT:]
    measured = Counter(case for day in recent for case in {record.case for record in earlier[day]})
    missing = sorted(
        str(case)
        for case, count in measured.items()
        if case not in tonight and count > len(recent) / 2
    )
    if missing:
        names = ", ".join(missing[:NAMED] + ["..."] * (len(missing) > NAMED))
        yield f"{cases(len(missing))} not measured, unlike on most nights before: {names}"


def _notes(
    rows: Sequence[Row],
    past: Mapping[Case, Mapping[date, Sequence[Record]]],
    blessed: Mapping[Case, Blessed],
    now: datetime,
) -> Iterator[str]:
    """One sentence for a partition, if it is slow as a whole."""
    partitions: dict[str, list[Row]] = {}
    for row in rows:
        partitions.setdefault(row.case.partition, []).append(row)
    for partition, members in sorted(partitions.items()):
        if sum(row.red for row in members) > 1:
            judgements = {
                str(row.case): _judgement(past[row.case], blessed.get(row.case))
                for row in members
                if row.figures
            }
            if alarm := common_mode(judgements, now):
                yield f"{partition}: {alarm.sentence}"


def _judgement(nights: Mapping[date, Sequence[Record]], blessed: Blessed | None) -> Judgement:
    """What the detector says of a case that has figures tonight."""
    last = max(nights)
    *before, run = [record for record in nights[last] if record.figures.get("total_max")]
    earlier = {day: runs for day, runs in nights.items() if day != last}
    if before:
        earlier[last] = before
    return judge_tonight(earlier, blessed, run.time, run.figures).judgement
