"""The headline of a night: what is worst, where, since when, which layer, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from statistics import median

from iowatch.base.text import counted
from iowatch.cases.metric import PLAIN
from iowatch.cases.parameters import TITLES
from iowatch.cases.run import Run, deciding
from iowatch.cases.verdict import Flag, Outcome, State
from iowatch.judge.explain import Layer, likely_layer
from iowatch.judge.settings import NORMAL
from iowatch.night.alarm import Alarm
from iowatch.night.case_night import CaseNight
from iowatch.night.document import Headline
from iowatch.night.verdicts import NightVerdicts

ACKNOWLEDGED = timedelta(days=14)  # the time that a command to copy asks for
_NAMED = 2  # filesystems and libraries at most
#: An alarm of no case, in a word.
_STATES = {State.SUSPECT: "slow", State.REGRESSION: "alarm", State.OK: "alarm"}
#: How MPI-IO is, if this layer is the cause.
_CONTROLS: Mapping[str, str] = {
    Layer.LIBRARY: "MPI-IO fine",
    Layer.STORAGE: "MPI-IO slow too",
    Layer.BOTH: "MPI-IO slow too",
}
_LEAST = 0.05  # a smaller loss is not what a verdict is about


def headline(night: NightVerdicts) -> Headline:
    """Make the headline of a night by its worst alarm or case."""
    status = night.colour.capitalize()
    if not (night.is_gated or night.colour != "green"):
        status += ", as far as it is on record"
    status += ", interrupted" if night.signal else ""
    status += ", run by hand" if night.is_by_hand else ""
    rows = [row for row in night.worst_first if not (row.is_quiet or row.is_recorded)]
    is_whole = night.is_red and not (night.red or night.red_alarms)
    if is_whole or not (rows or night.alarms):
        return _of_night(night, status)
    alarms = [alarm for alarm in night.alarms if alarm.is_red == night.is_red]
    if alarms and not (rows and rows[0].outcome.is_corrupt):
        return _of_alarm(night, alarms[0], status)
    return _of_cases(night, rows, status)


def _of_night(night: NightVerdicts, status: str) -> Headline:
    problems = counted(len(night.problems), "problem")
    subject = counted(len(night.cases), "case")
    if night.problems:
        subject = f"{problems} with the night as a whole"
    elif recorded := sum(row.is_recorded for row in night.cases):
        subject = f"{counted(recorded, 'case', total=len(night.cases))} recorded and not yet judged"
    elif night.cases and all(row.blessed for row in night.cases if row.rate):
        subject += " as usual"
    return Headline(status=status, subject=subject, sentence=night.why)


def _of_alarm(night: NightVerdicts, alarm: Alarm, status: str) -> Headline:
    """Name the cases that are slow; none is if all have mended, and the alarm is not yet over."""
    rows = sorted(alarm.rows, key=lambda row: row.severity)
    since = alarm.since or (since_of(rows[0]) if rows else None)
    subject = _libraries(alarm.rows) or _STATES.get(alarm.outcome.state, "")
    is_part = alarm.layer in (Layer.NODE, Layer.OST)
    reason = alarm.outcome.reason
    return Headline(
        status=status,
        where=_places(rows) if rows else alarm.subject,
        subject=alarm.subject.partition(" of ")[0] if is_part else subject,
        extent=alarm.extent or _extent(rows, alarm.outcome, alarm.is_red),
        since=since and since.date(),
        number=_nights(rows, since) if rows else 0,
        layer=alarm.layer or (reason.place if reason and not rows else ""),
        control="MPI-IO fine" if alarm.layer is Layer.LIBRARY else "",
        sentence=alarm.sentence,
        next_step=alarm.command or _after(night, rows, is_due=bool(alarm.due)),
        reason=reason or "",
        case=rows[0].case if rows else None,
    )


def _of_cases(night: NightVerdicts, rows: Sequence[CaseNight], status: str) -> Headline:
    """Name all cases that are as bad as the worst, for the same reason."""
    row = rows[0]
    alike = [other for other in rows if _kind(other) == _kind(row)]
    layer, since = layer_of(row), since_of(row)
    is_told = likely_layer(row.metrics, row.usual) is not None
    return Headline(
        status=status,
        where=_places(alike),
        subject=_libraries(alike),
        extent=_extent(alike, row.outcome, row.is_red),
        since=since and since.date(),
        number=_nights([row], since),
        layer=layer,
        control=_CONTROLS.get(layer, "") if is_told else "",
        sentence=row.sentence,
        next_step=next_step(night, row),
        reason=row.outcome.reason or "",
        case=row.case,
    )


def _kind(row: CaseNight) -> tuple[State, str | None, bool]:
    return row.outcome.state, row.outcome.reason, row.is_red


def _places(rows: Sequence[CaseNight]) -> str:
    names = sorted({row.last.filesystem for row in rows})
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} filesystems"


def _libraries(rows: Sequence[CaseNight]) -> str:
    """Write `HDF5 writes`, or `HDF5 writes and reads (12 cases)`."""
    parts = (row.case.backend or row.case.shape for row in rows)
    names = list(dict.fromkeys(TITLES.get(name, name) for name in parts))
    verbs = {row.case.check.verbs or f"{row.case.operation}s" for row in rows}
    operations = " and ".join(sorted(verbs, reverse=True))
    words = f"{' and '.join(names)} {operations}".strip() if len(names) <= _NAMED else operations
    return f"{words} ({len(rows)} cases)" if len(rows) > 1 else words


def _extent(rows: Sequence[CaseNight], outcome: Outcome, is_red: bool) -> str:
    """Write how much is lost, or why nothing is known."""
    words = list[str]()
    if not outcome.counts or outcome.is_unreferenced:
        return f"{outcome.state}: {(outcome.reason or '').replace('_', ' ')}".removesuffix(": ")
    drops = [row.drop for row in rows if row.drop is not None]
    lost = median(drops) if drops else 0.0
    ratios = [row.metrics["ratio"] for row in rows if "ratio" in row.metrics]
    if abs(lost) >= _LEAST:
        words.append(signed(-lost))
    elif outcome.is_slow and ratios:
        words.append(f"at {median(ratios):.2f} of MPI-IO")
    if not is_red:
        remark = Flag.KNOWN if outcome.is_known else Flag.RESOLVED if outcome.is_resolved else ""
        words.append(f"({remark or outcome.state})")
    return " ".join(words)


def signed(part: float) -> str:
    """Write a change in percent."""
    return f"{round(100 * part):+d} %"


# Since when


def since_of(row: CaseNight) -> datetime | None:
    """Tell when a case began to be as it is; None: it is well."""
    if row.outcome.state in (State.OK, State.IMPROVEMENT) or row.outcome.is_unreferenced:
        return None

    def is_same(runs: Sequence[Run]) -> bool:
        outcome = deciding(runs).outcome
        return outcome.is_amber if row.is_amber else outcome.is_fault or outcome.is_suspect

    newest_first = (row.earlier[night] for night in sorted(row.earlier, reverse=True))
    same = [*takewhile(is_same, newest_first)]
    first = min(run.time for run in (same[-1] if same else row.runs))
    judged = row.judged.verdict.since if row.outcome.is_regression and row.judged else None
    return min(first, judged) if judged else first


def _nights(rows: Sequence[CaseNight], since: datetime | None) -> int:
    """Count the nights since then, tonight included."""
    nights = (item for row in rows for item in row.earlier.items())
    return 1 + len({night for night, runs in nights if since and runs[-1].time >= since})


# Which layer, and what to do


def layer_of(row: CaseNight) -> str:
    """Name the layer that most likely is the cause; empty: nobody can tell."""
    outcome = row.outcome
    if outcome.reason and outcome.reason.place:
        return outcome.reason.place
    if not outcome.is_slow:
        return ""
    if row.case.check.by_target:
        return Layer.OST
    if layer := likely_layer(row.metrics, row.usual):
        return layer
    if row.is_slow_to_finish and row.case.backend not in PLAIN:
        return Layer.LIBRARY
    return Layer.STORAGE if row.case.backend in PLAIN else ""


def next_step(night: NightVerdicts, row: CaseNight) -> str:
    """Write the command that comes next for a case; empty: there is none."""
    outcome = row.outcome
    if outcome.is_unverified:
        return f"ls -l {shlex.quote(row.last.folder)}" if row.last.folder else ""
    if outcome.is_unreferenced:
        many = len(row.good) + 1 >= NORMAL.min_nights
        blessing = f"iowatch bless --system {night.system} --why '…'"
        return blessing if many else f"iowatch run --system {night.system} --record"
    return _after(night, [row], is_due=row.rerun_at is not None)


def _after(night: NightVerdicts, rows: Sequence[CaseNight], is_due: bool) -> str:
    """Run again what is due, find which change is guilty, or else say who looks after it."""
    if is_due:
        return f"iowatch run --system {night.system} --again"
    if not any(row.outcome.is_alarm for row in rows):
        return ""
    row = min(rows, key=lambda row: row.severity)
    if row.outcome.is_alarm and row.changes and row.metrics:
        return f"iowatch blame {shlex.quote(str(row.case))}"
    return acknowledging(night, rows)


def acknowledging(night: NightVerdicts, rows: Sequence[CaseNight]) -> str:
    """Write the command that acknowledges the fault of these cases."""
    place = f"{night.system}:{rows[0].case.partition}/"
    pattern = str(rows[0].case)
    if len(rows) > 1:
        backends = {row.case.backend for row in rows}
        same = f".*backend={rows[0].case.backend}/" if len(backends) == 1 else ""
        pattern = f"{place}{same}"
    return f"iowatch ack {shlex.quote(pattern)} --until {night.day + ACKNOWLEDGED} --why '…'"
