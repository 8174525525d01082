"""Certifying a change: the runs before and after it are gathered, judged and sealed; or, elsewhere,
judged again."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch import __version__
from iowatch.acceptance import bundle, dossier
from iowatch.acceptance.bundle import Seal
from iowatch.acceptance.gather import copy_raw_results, copy_session, copy_site, gathering
from iowatch.acceptance.stored_run import (
    SESSIONS,
    SITE,
    StoredRun,
    filesystems_in,
    place_of,
)
from iowatch.case import Case
from iowatch.certificate import sheet
from iowatch.certificate.question import Chosen, Question, read_question
from iowatch.certificate.rows import JudgedRow, rows_of, verdicts
from iowatch.detector.change import Decision, Ruling
from iowatch.files import UserError, counted
from iowatch.filesystem import Filesystem
from iowatch.history import runs_of, sessions, starts, tests_of
from iowatch.kinds import rate_name
from iowatch.raw_results import Moved
from iowatch.result import InvalidResult
from iowatch.run import Run
from iowatch.site import read_site

PAGE, SEALED = "certificate.html", "evidence.tar"  # in the folder that is written
#: Provenance that differs from run to run, whatever was changed.
_PASSING = ("hosts", "free space", "witness")
_MOST_VALUES = 3  # of a provenance on one side that is told


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The judgement on a change, by its evidence."""

    question: Question
    groups: Sequence[JudgedRow]
    cases: Sequence[JudgedRow]
    decision: Decision
    differs: Mapping[str, tuple[str, str]]  # provenance that the change has changed
    notes: Sequence[str] = ()

    @property
    def answer(self) -> Ruling:
        """The answer on the change: a loss if anything has lost, and none if no case has."""
        answers = {verdict.answer for verdict in self.cases}
        if Ruling.LOSS in answers | {verdict.answer for verdict in self.groups}:
            return Ruling.LOSS
        return Ruling.NO_LOSS if answers == {Ruling.NO_LOSS} else Ruling.OPEN


def certify(
    question: Question,
    databases: Sequence[Path],
    keys: Sequence[str],
    output: Path | None,
) -> tuple[Judgement, list[str]]:
    """Judge a change by what is on record of it here, and say so in lines. With an output, that
    folder gets the page and the evidence, signed with each of these keys. UserError."""
    site = read_site(question.system)
    with bundle.work_folder() as folder:
        question.write(folder)
        with gathering(folder):
            _gather(folder, question, databases or [site.database])
            copy_site(folder, site)
        judged = judge(folder)
        lines = list(sheet.summary(judged))
        if not output:
            return judged, lines
        bundle.close(folder, lines)
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise UserError(f"{output}: cannot be made: {err.strerror}") from None
        with bundle.signed(output / SEALED, folder, keys) as seal:
            _write(judged, seal, [output / PAGE])
    return judged, [*lines, *seal.lines]


def verify(
    sealed: Path, allowed: Path | None, outputs: Sequence[Path]
) -> tuple[Judgement, list[str], bool]:
    """Judge a change by its evidence alone, and say so in lines; is it what its maker was told?

    UserError if the evidence was changed since it was made.
    """
    with bundle.opened(sealed, allowed) as (folder, seal):
        judged = judge(folder)
        lines, told = list(sheet.summary(judged)), bundle.told(folder)
        _write(judged, seal, outputs)
    return judged, [*lines, *seal.lines, *bundle.differing(told, lines)], {*lines} == {*told}


def _write(judged: Judgement, seal: Seal, outputs: Sequence[Path]) -> None:
    if outputs:
        dossier.write(sheet.render(judged, seal), outputs)


def _gather(folder: Path, question: Question, databases: Sequence[Path]) -> None:
    """Copy the sessions that a question is about, and the raw results of the runs that count."""
    runs: dict[tuple[str, Case, str], Run] = {}
    for database in databases:
        began = starts(database)
        wanted = {uuid for uuid, start in began.items() if question.may_have(start)}
        for session in sessions(database, wanted):
            runs |= {(run.session, run.case, run.folder): run for run in runs_of(session)}
    chosen = question.chosen(runs.values())
    units = question.units(runs.values()).values()
    asked = {run.session for by_unit in units for of_unit in by_unit.values() for run in of_unit}
    measured = {item.side for item in chosen}
    if missing := [words for side, words in enumerate(question.sides) if side not in measured]:
        raise UserError(
            f"{question.system}: nothing was measured of {' and of '.join(missing)} to compare: "
            "`iowatch nights` and `iowatch history` list what is on record"
        )
    moved = Moved(*(file.absolute().parent for file in databases))
    for database in databases:
        for session in sessions(database, asked):
            copy_session(folder, session)
    kept = {Path(item.run.folder) for item in chosen if item.run.folder}
    copy_raw_results(
        folder,
        {Path(moved.folder(str(path))): Path(name) for path in kept if (name := place_of(path))},
    )


def judge(folder: Path) -> Judgement:
    """Judge a change by the evidence in a folder; UserError."""
    question = read_question(folder)
    try:
        facts = json.loads((folder / SITE).read_text("utf-8"))
        places = {(place.system, place.partition): place for place in filesystems_in(facts)}
        stored = [json.loads(file.read_text("utf-8")) for file in folder.glob(f"{SESSIONS}/*.json")]
        return _SideReader(folder, question, places).judge(stored)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as err:
        raise UserError(
            f"{folder}: is no evidence that this iowatch, {__version__}, can read: {err!r}"
        ) from None


class _SideReader:
    """Take what counts of stored sessions."""

    def __init__(
        self, folder: Path, question: Question, places: Mapping[tuple[str, str], Filesystem]
    ) -> None:
        self._folder, self._question, self._places = folder, question, places
        self._stored: dict[Run, tuple[StoredRun, Mapping[str, Any]]] = {}
        self._rounds: dict[Case, int] = {}
        self._met: dict[str, tuple[Counter[str], Counter[str]]] = {}

    def judge(self, stored: Sequence[dict[str, Any]]) -> Judgement:
        """Judge these sessions."""
        for session in stored:
            entries = {_key(test): test for test in tests_of(session)}
            for run in runs_of(session):
                read = StoredRun.read(self._folder, entries[str(run.case), run.folder])
                self._stored[run] = (read, session["session_info"])
        question, runs = self._question, [*self._stored]
        values, refused = dict[Chosen, float](), list[str]()
        for item in question.chosen(runs):
            try:
                values[item] = self._value(item)
            except InvalidResult as err:
                refused.append(f"{item.run.case} of {item.unit} does not count: {err}")
        if not values:
            raise UserError(f"no run counts: {refused[0] if refused else 'there is none'}")
        series = question.series(values)
        units = question.units(runs)
        names = {
            case: self._places[case.system, case.partition].name
            for case, _ in units
            if (case.system, case.partition) in self._places
        }
        groups, rows = rows_of(question, series, units, names)
        decision = Decision.make([row.change for row in [*groups, *rows]], question.limit)
        return Judgement(
            question=question,
            groups=verdicts(groups, decision, question.remedy),
            cases=verdicts(rows, decision, question.remedy),
            decision=decision,
            differs=dict(self._differing()),
            notes=[*question.notes(values), *refused],
        )

    def _value(self, item: Chosen) -> float:
        """The logarithm of the rate of a run; InvalidResult."""
        run, info = self._stored[item.run]
        place = self._places.get((item.run.case.system, item.run.case.partition))
        measured = run.measured(self._folder, item.run.case, place, info, None)
        rounds = run.entry["repeats"]
        if (first := self._rounds.setdefault(item.case, rounds)) != rounds:
            raise InvalidResult(f"it has {counted(rounds, 'round')}, and the first run had {first}")
        for name, value in {**measured.provenance, **run.provenance}.items():
            self._met.setdefault(name, (Counter(), Counter()))[item.side][value] += 1
        return math.log(measured.metrics[rate_name(measured.metrics)])

    def _differing(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the provenance of which both sides have nothing in common."""
        for name, (before, after) in sorted(self._met.items()):
            few = max(len(before), len(after)) <= _MOST_VALUES
            if name not in _PASSING and few and not set(before) & set(after):
                yield name, (" or ".join(before) or "none", " or ".join(after) or "none")


def _key(test: Mapping[str, Any]) -> tuple[str, str]:
    """Return the case of a test, and where its raw results were kept; empty: it had no job."""
    return str(test.get("case_id")), test.get("kept") or ""
