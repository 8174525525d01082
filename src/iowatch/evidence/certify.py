"""The evidence on a change: the runs before and after it are gathered, and judged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from iowatch.base.bounded import json_of
from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.evidence.exhibits import Evidence
from iowatch.evidence.gather import copy_raw_results, copy_session, copy_site, gathering
from iowatch.evidence.question import LONGEST_S, Chosen, Question, read_question
from iowatch.evidence.sheet import ChangeJudged, rows_of
from iowatch.evidence.stored_run import SESSIONS, SITE, StoredRun, filesystems_in, reading
from iowatch.judge.change import Decision
from iowatch.measure.checks import rate_name
from iowatch.measure.result import InvalidResult
from iowatch.past.history import runs_of, sessions
from iowatch.past.raw_results import Moved
from iowatch.past.reframe_database import starts
from iowatch.site.site import Site

#: Provenance that differs from run to run, whatever was changed.
_PASSING = ("hosts", "free space", "witness")
_MOST_VALUES = 3  # of a provenance on one side that is told


def gather_runs(folder: Path, question: Question, site: Site, databases: Sequence[Path]) -> None:
    """Copy the sessions that a question is about, and the raw results of the runs that count, into
    a new folder; UserError."""
    question.write(folder)
    first, last = (moment.timestamp() for moment in question.span)
    first, last = first - LONGEST_S, last + LONGEST_S
    with gathering(folder):
        runs: dict[tuple[str, Case, str], Run] = {}
        for database in databases:
            wanted = {uuid for uuid, start in starts(database).items() if first <= start <= last}
            for session in sessions(database, wanted):
                runs |= {(run.session, run.case, run.folder): run for run in runs_of(session)}
        chosen = question.chosen(runs.values())
        measured = {item.side for item in chosen}
        if missing := [words for side, words in enumerate(question.sides) if side not in measured]:
            cases = (
                f" of a case that matches {pattern}" if (pattern := question.case.pattern) else ""
            )
            sides = " nor of ".join(missing)
            raise UserError(
                f"{question.system}: there is no measured run{cases} of {sides}: "
                f"`iowatch nights --system {question.system}` lists what is on record"
            )
        units = question.units(runs.values()).values()
        asked = {
            run.session for by_unit in units for of_unit in by_unit.values() for run in of_unit
        }
        for database in databases:
            for session in sessions(database, asked):
                copy_session(folder, session)
        moved = Moved(*(file.absolute().parent for file in databases))
        kept = {item.run.folder for item in chosen if item.run.folder}
        copy_raw_results(folder, {Path(moved.folder(run)) for run in kept})
        copy_site(folder, site)


def answered(folder: Path) -> ChangeJudged:
    """Judge a change by the evidence in a folder; UserError."""
    with reading(folder):
        question = read_question(folder)
        evidence = Evidence(places=filesystems_in(json_of(folder / SITE)))
        stored: dict[Run, StoredRun] = {}
        for file in folder.glob(f"{SESSIONS}/*.json"):
            session = json_of(file)
            kept = {
                (str(run.case), run.entry.get("kept") or ""): run
                for run in StoredRun.read_all(folder, session)
            }
            stored |= {run: kept[str(run.case), run.folder] for run in runs_of(session)}
        values, refused, rounds = dict[Chosen, float](), dict[Case, list[str]](), dict[Case, int]()
        met: dict[str, tuple[Counter[str], Counter[str]]] = {}
        for item in question.chosen(stored):
            case, read = item.run.case, stored[item.run]
            count = read.entry["repeats"]
            try:
                measured = read.measured(case, evidence.place_of(case))
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
        groups, rows = rows_of(series, question.units(stored))
        decision = Decision.make([row.change for row in [*groups, *rows]], question.limit)
        return ChangeJudged(
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
