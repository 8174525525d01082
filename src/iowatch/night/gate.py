"""The gate: a night's verdicts, and everything by which a check could have passed quietly."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from iowatch.bless import Blessed, settings_hash
from iowatch.case import Case
from iowatch.detector.judgement import NOISY, SUSPECT, Judgement, common_mode
from iowatch.detector.settings import NORMAL
from iowatch.history import UNFINISHED, Record, by_night, is_same_night
from iowatch.judge import judge_tonight
from iowatch.metrics import figure_names
from iowatch.references import EXCUSABLE, ExpectedFailure
from iowatch.site import Filesystem
from iowatch.verdict import INVALID, NO_BASELINE, RED

VERSIONS = "LibraryVersions"  # the check that has no case
SHOWN = 12  # cases that a sentence names at most

#: ReFrame's results of a test that has looked at what it was asked to look at.
FINISHED = ("pass", "fail", "xfail")


@dataclass(frozen=True)
class Row:
    """The verdict on one case."""

    case: Case
    kind: str
    sentence: str
    red: bool
    figures: dict[str, float]
    known: bool = False  # a failure that the site expects


@dataclass
class Night:
    """All verdicts, and what is wrong with the night as a whole."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # to be known, but not wrong
    merged: frozenset[Case] = frozenset()  # a note says it for all of these
    signal: int = 0  # that ended the night early
    page: Path | None = None  # its report

    @property
    def red_rows(self) -> list[Row]:
        return [row for row in self.rows if row.red]

    @property
    def is_red(self) -> bool:
        return bool(self.problems or self.red_rows)

    def add(self, part: Night) -> None:
        """Take in the verdicts of another session."""
        self.rows += part.rows
        self.problems += part.problems
        self.notes += part.notes


def gate(
    expected: set[Case],
    session: dict[str, Any] | None,
    versions: bool = True,
    profiles: Collection[Case] = (),
) -> Night:
    """Judge ReFrame's report of a session (None: it wrote none) against the expected cases.

    With `versions` the libraries must have been asked for theirs wherever a case is expected.
    `profiles` are the access patterns that must have been looked at.
    """
    run = session["runs"][-1] if session else {"testcases": []}
    night = Night(problems=_failed(run))
    for test in run["testcases"]:
        if test.get("case_id"):
            if test["result"] not in UNFINISHED:
                night.rows.append(_row(test))
        elif test["result"] == "xfail":
            place = f"{test['partition']}+{test['environ']}"
            night.notes.append(f"{test['display_name']} on {place} fails as expected")
    night.rows.sort(key=lambda row: _order(row.case))

    if not expected and not profiles:
        night.problems.append("the site's configuration asks for no case: nothing was measured")
    measured = {row.case for row in night.rows}
    for cases, what in ((expected - measured, "not run"), (measured - expected, "unexpected")):
        if cases:
            shown = _shown(map(str, cases))
            night.problems.append(f"{len(cases)} of {len(expected)} cases {what}: {shown}")
    profiled = {test.get("profile") for test in run["testcases"] if test["result"] in FINISHED}
    if unseen := {str(case) for case in profiles} - profiled:
        night.problems.append(
            f"{len(unseen)} of {len(profiles)} access patterns not looked at: {_shown(unseen)}"
        )
    if versions and (unknown := _places(expected) - _seen(run["testcases"])):
        night.problems.append(f"{VERSIONS} did not run on {', '.join(sorted(unknown))}")
    if len(night.rows) > len(measured):
        night.problems.append("a case ran more than once")
    night.problems += _lost(run)
    return night


def faults(session: Mapping[str, Any]) -> list[str]:
    """What is wrong with a session whatever it was asked for, besides the verdicts on its cases."""
    run = session["runs"][-1]
    return [*_failed(run), *_lost(run)]


def _failed(run: Mapping[str, Any]) -> list[str]:
    """Of tests that have no case: a fixture, or a check before it had one."""
    return [
        f"{test['display_name']}: {_reason(test)}"
        for test in run["testcases"]
        if not test.get("case_id") and test["result"] in ("fail", "xpass")
    ]


def _lost(run: Mapping[str, Any]) -> list[str]:
    lost = run.get("num_skipped", 0) + run.get("num_aborted", 0)
    return [f"{lost} check(s) skipped or aborted"] if lost else []


def _shown(cases: Iterable[str]) -> str:
    """The first of these cases, by name."""
    names = sorted(cases)
    return ", ".join(names[:SHOWN] + ["..."] * (len(names) > SHOWN))


def _places(cases: set[Case]) -> set[str]:
    return {f"{case.partition}+{case.environ}" for case in cases}


def _seen(tests: list[dict[str, Any]]) -> set[str]:
    """Where the libraries said which versions they are."""
    return {
        f"{test['partition']}+{test['environ']}"
        for test in tests
        if test["name"] == VERSIONS and test["result"] in FINISHED
    }


def _order(case: Case) -> tuple[Any, ...]:
    """A backend next to its control, and small before large."""
    check = (
        case.operation != "write",
        case.files,
        case.instances or 0,
        case.each_ost,
        case.ior_peer,
    )
    stripes = (case.stripe_count or 0, case.stripe_size or 0)
    return (
        case.partition,
        case.environ,
        *check,
        case.local_size,
        case.writers,
        *stripes,
        str(case),
    )


def _row(test: dict[str, Any]) -> Row:
    """The row of a test that has a case: green only if ReFrame, figures and verdict all say so."""
    case = Case.parse(test["case_id"])
    values = {key.rsplit(":", 1)[-1]: entry[0] for key, entry in test["perfvalues"].items()}
    figures = {name: value for name, value in values.items() if _is_finite(value)}
    result, verdict, sentence = test["result"], test["verdict"], test["sentence"]

    def invalid(why: str) -> Row:
        return Row(case, INVALID, f"{case}: {why}", True, figures)

    if result == "fail" and verdict in RED | {NO_BASELINE}:
        return Row(case, verdict, sentence or f"{case}: {_reason(test)}", True, figures)
    if result not in ("pass", "xfail"):
        return invalid(_reason(test))
    if missing := [name for name in figure_names(case) if name not in figures]:
        return invalid(f"no figure for {', '.join(missing)}")
    if not verdict:
        return invalid("measured but not judged")
    if result == "xfail" and verdict not in EXCUSABLE:
        return invalid(f"its failure was expected, and its verdict is {verdict}")
    if result == "pass" and verdict in RED:
        return invalid(f"passed with a red verdict, {verdict}")
    return Row(case, verdict, sentence, False, figures, known=result == "xfail")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _reason(test: dict[str, Any]) -> str:
    """One line on why a test did not pass."""
    if test["result"] == "xpass":
        return "passed, and ReFrame expects it to fail"
    return " ".join((test.get("fail_reason") or test["result"]).split())


#: Runs of a night that may fail before a suspicious case is left alone. They are no re-runs: the
#: detector sees nothing of them.
MAX_INVALID = NORMAL.max_reruns


@dataclass(frozen=True)
class Tonight:
    """One case and what its night says so far."""

    runs: Sequence[Record]  # of this night, oldest first
    valid: Sequence[Record]  # of these, the ones with figures
    judgement: Judgement | None  # of the detector; None: no run was valid
    first_night: date  # on record

    @property
    def is_suspect(self) -> bool:
        return bool(self.valid) and self.valid[-1].verdict == SUSPECT

    @property
    def rerun_at(self) -> datetime | None:
        """When the case is to be run again; None: not tonight."""
        if not (self.is_suspect and self.judgement and self.judgement.rerun_at):
            return None
        if len(self.runs) - len(self.valid) > MAX_INVALID:
            return None
        due = self.judgement.rerun_at
        return due if is_same_night(self.runs, due) else None


def tonight(
    records: Iterable[Record], blessed: Mapping[Case, Blessed], now: datetime
) -> dict[Case, Tonight]:
    """Every case that was run in the night that `now` is in; runs of the future are none."""
    found = {}
    for case, nights in by_night(record for record in records if record.time <= now).items():
        last = max(nights)
        runs = nights[last]
        if not is_same_night(runs, now):
            continue
        valid = [run for run in runs if run.figures.get("total_max")]
        judgement = None
        if valid:
            # As the check saw it: the last run has just ended, and is not yet on record.
            run = valid[-1]
            before = {**nights, last: [other for other in runs if other is not run]}
            before = {night: others for night, others in before.items() if others}
            judgement = judge_tonight(before, blessed.get(case), run.time, run.figures).judgement
        found[case] = Tonight(runs, valid, judgement, min(nights))
    return found


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
