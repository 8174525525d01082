"""Certifying a change: the runs before and after it are gathered, judged and sealed; or, elsewhere,
judged again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iowatch.base.bounded import json_of
from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.evidence import bundle, dossier, sheet
from iowatch.evidence.gather import copy_raw_results, copy_session, copy_site, gathering
from iowatch.evidence.question import Chosen, Question, read_question
from iowatch.evidence.rows import Judgement, rows_of
from iowatch.evidence.stored_run import SESSIONS, SITE, StoredRun, filesystems_in, reading
from iowatch.judge.change import Decision
from iowatch.measure.checks import rate_name
from iowatch.measure.result import InvalidResult
from iowatch.past.history import runs_of, sessions
from iowatch.past.raw_results import Moved
from iowatch.past.reframe_database import starts, tests_of
from iowatch.site.site import read_site

PAGE, SEALED = "certificate.html", "evidence.tar"  # in the folder that is written
#: Provenance that differs from run to run, whatever was changed.
_PASSING = ("hosts", "free space", "witness")
_MOST_VALUES = 3  # of a provenance on one side that is told


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
        bundle.close(folder, lines, keys)
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise UserError(f"{output}: cannot be made: {err.strerror}") from None
        with bundle.packed(output / SEALED, folder) as seal:
            dossier.write(sheet.render(judged, seal), [output / PAGE])
    return judged, [*lines, *seal.lines]


def verify(
    sealed: Path, allowed: Path | None, outputs: Sequence[Path]
) -> tuple[Judgement, list[str], bool]:
    """Judge a change by its evidence alone, and say so in lines; is it what its maker was told?

    UserError if the evidence was changed since it was made.
    """
    with bundle.opened(sealed, allowed) as (folder, seal):
        judged = judge(folder)
        dossier.write(sheet.render(judged, seal), outputs)
        return judged, *bundle.compared(folder, seal, list(sheet.summary(judged)))


def _gather(folder: Path, question: Question, databases: Sequence[Path]) -> None:
    """Copy the sessions that a question is about, and the raw results of the runs that count."""
    runs: dict[tuple[str, Case, str], Run] = {}
    for database in databases:
        wanted = {uuid for uuid, start in starts(database).items() if question.may_have(start)}
        for session in sessions(database, wanted):
            runs |= {(run.session, run.case, run.folder): run for run in runs_of(session)}
    chosen = question.chosen(runs.values())
    measured = {item.side for item in chosen}
    if missing := [words for side, words in enumerate(question.sides) if side not in measured]:
        cases = f" of a case that matches {pattern}" if (pattern := question.case.pattern) else ""
        raise UserError(
            f"{question.system}: there is no measured run{cases} of {' nor of '.join(missing)}: "
            f"`iowatch nights --system {question.system}` lists what is on record"
        )
    units = question.units(runs.values()).values()
    asked = {run.session for by_unit in units for of_unit in by_unit.values() for run in of_unit}
    for database in databases:
        for session in sessions(database, asked):
            copy_session(folder, session)
    moved = Moved(*(file.absolute().parent for file in databases))
    kept = {item.run.folder for item in chosen if item.run.folder}
    copy_raw_results(folder, {Path(moved.folder(run)) for run in kept})


def judge(folder: Path) -> Judgement:
    """Judge a change by the evidence in a folder; UserError."""
    with reading(folder):
        return _judge(folder, read_question(folder))


def _judge(folder: Path, question: Question) -> Judgement:
    facts = json_of(folder / SITE)
    places = {(place.system, place.partition): place for place in filesystems_in(facts)}
    stored: dict[Run, tuple[StoredRun, Mapping[str, Any]]] = {}
    for file in folder.glob(f"{SESSIONS}/*.json"):
        session = json_of(file)
        tests = {
            (str(test.get("case_id")), test.get("kept") or ""): test for test in tests_of(session)
        }
        for run in runs_of(session):
            read = StoredRun.read(folder, tests[str(run.case), run.folder])
            stored[run] = (read, session["session_info"])
    values, refused, rounds = dict[Chosen, float](), dict[Case, list[str]](), dict[Case, int]()
    met: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for item in question.chosen(stored):
        read, info = stored[item.run]
        case, count = item.run.case, read.entry["repeats"]
        try:
            place = places.get((case.system, case.partition))
            measured = read.measured(folder, case, place, info, None)
            if (first := rounds.setdefault(item.case, count)) != count:
                raise InvalidResult(
                    f"it has {counted(count, 'round')}, and the first run had {first}"
                )
        except InvalidResult as err:
            refused.setdefault(case, []).append(f"{item.unit}: {err}")
            continue
        values[item] = math.log(measured.metrics[rate_name(measured.metrics)])
        for name, value in {**measured.provenance, **read.provenance}.items():
            met.setdefault(name, (Counter(), Counter()))[item.side][value] += 1
    if not values:
        raise UserError(
            f"no run counts: {next(iter(refused.values()))[0] if refused else 'there is none'}"
        )
    series = question.series(values)
    groups, rows = rows_of(question, series, question.units(stored))
    decision = Decision.make([row.change for row in [*groups, *rows]], question.limit)
    return Judgement(
        question=question,
        groups=[row.judged(decision, question.remedy) for row in groups],
        cases=[row.judged(decision, question.remedy) for row in rows],
        differs={
            name: (" or ".join(before) or "none", " or ".join(after) or "none")
            for name, (before, after) in sorted(met.items())
            if len({item.side for item in values}) == 2
            and name not in _PASSING
            and before.keys() != after.keys()
            and max(len(before), len(after)) <= _MOST_VALUES
        },
        notes=[
            *question.notes(values, series),
            *(
                f"{counted(len(runs), 'run')} of {case} left out, such as that of {runs[0]}"
                for case, runs in refused.items()
            ),
        ],
    )
