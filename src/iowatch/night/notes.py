"""What is to be known of a night besides its verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from iowatch.case import Case
from iowatch.detector.judgement import NOISY, common_mode
from iowatch.detector.settings import NORMAL
from iowatch.expected import ExpectedFailure
from iowatch.night.gate import Night
from iowatch.night.tonight import Tonight
from iowatch.past.baselines import Blessed, settings_hash
from iowatch.site import Filesystem
from iowatch.verdict import INVALID


@dataclass(frozen=True)
class Known:
    """What is known beyond tonight's own figures."""

    filesystems: Sequence[Filesystem]
    cases: Mapping[Case, Tonight]
    blessed: Mapping[Case, Blessed]
    expected: Sequence[ExpectedFailure]
    database: Path  # ReFrame's results
    future: int = 0  # runs on record that are dated later than now


def add_notes(night: Night, known: Known, now: datetime, again: str) -> None:
    """Add all notes to a night; `again` is the command that runs what is suspicious again."""
    night.merged, merged = _merge(night, known, now)
    night.notes += [
        *merged,
        *_reruns(known.cases.values(), now, again),
        *_noisy(night),
        *_baselines(night, known),
        *_well(night, known.expected, now.date()),
    ]
    if known.future:
        night.notes.append(
            f"{known.future} run(s) in {known.database} are dated later than now: a clock was "
            "wrong; they count for nothing"
        )


def _merge(night: Night, known: Known, now: datetime) -> tuple[frozenset[Case], list[str]]:
    """The cases that share one alarm, of their filesystem, and its sentence."""
    shared = {(fs.system, fs.partition): fs.name for fs in known.filesystems}
    judgements: dict[str, dict[str, Case]] = {}
    for case, tonight in known.cases.items():
        name = shared.get((case.system, case.partition))
        if name and tonight.judgement:
            judgements.setdefault(name, {})[str(case)] = case
    kinds = {row.case: row.kind for row in night.rows if row.red}
    merged, sentences = set(), []
    for name, cases in sorted(judgements.items()):
        judged = {text: j for text, case in cases.items() if (j := known.cases[case].judgement)}
        if alarm := common_mode(judged, now):
            sentences.append(f"{name}: {alarm.sentence}")
            slow = {text: cases[text] for text in alarm.cases}
            merged |= {c for text, c in slow.items() if kinds.get(c) == judged[text].kind}
    return frozenset(merged), sentences


def _reruns(cases: Iterable[Tonight], now: datetime, again: str) -> Iterator[str]:
    suspects = [case for case in cases if case.is_suspect]
    times = sorted(case.rerun_at for case in suspects if case.rerun_at)
    if times:
        when = "now" if times[0] <= now else f"from {times[0]:%Y-%m-%d %H:%M} UTC"
        yield f"{len(times)} case(s) suspect: re-runs are due {when}: {again}"
    if rest := len(suspects) - len(times):
        yield f"{rest} case(s) suspect, and no more re-runs tonight"


def _noisy(night: Night) -> Iterator[str]:
    if noisy := sum(row.kind == NOISY for row in night.rows):
        yield (
            f"{noisy} of {len(night.rows)} case(s) noisy: they vary too much to show a drop of "
            f"{NORMAL.wanted_drop:.0%} within {NORMAL.visible_nights} nights"
        )


def _baselines(night: Night, known: Known) -> Iterator[str]:
    """Baselines that are not what the detector takes them for."""
    entries = {row.case: known.blessed[row.case] for row in night.rows if row.case in known.blessed}
    in_force = settings_hash(NORMAL)
    if stale := sum(entry.settings != in_force for entry in entries.values()):
        yield (
            f"{stale} case(s) blessed under other thresholds of the detector: see whether `iowatch "
            "bless` still accepts their nights"
        )
    lost = [
        case
        for case, entry in entries.items()
        if case in known.cases and known.cases[case].first_night > entry.last
    ]
    if lost:
        yield (
            f"{len(lost)} case(s) without their blessed nights in {known.database}, such as "
            f"{lost[0]}: if it was moved or lost, slow nights since the bless are forgotten"
        )


def _well(night: Night, expected: Iterable[ExpectedFailure], today: date) -> Iterator[str]:
    """Failures that were expected and did not come."""
    for entry in expected:
        rows = [row for row in night.rows if entry.excuses(str(row.case), today)]
        if rows and not any(row.known or row.kind == INVALID for row in rows):
            yield f"{entry.case.pattern}: does not fail, though {entry}: remove the entry?"
