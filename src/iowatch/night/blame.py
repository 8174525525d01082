"""Find the change of a case's environment that carries its loss. One job runs the environments of a
good night and of a red one in turn, change by change.

The job scripts that are kept with the raw results say what both environments were.
"""

from __future__ import annotations

import json
import math
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.locks import locked
from iowatch.base.text import brief, counted
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.run import Run, night_id
from iowatch.measure.case_ids import find_case, known_case
from iowatch.measure.causes import cause_of
from iowatch.measure.checks import kind_of, physical_rate, rate_name
from iowatch.measure.job_folder import find, printed, read_text
from iowatch.measure.law import require, require_of_job
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, Result, read_result
from iowatch.night.case_night import CaseNight
from iowatch.night.finding import GOOD, RED, Culprit, Tried, worse
from iowatch.night.gate import night_of
from iowatch.night.job_script import Difference, Script, as_planned, environment_of, read_script
from iowatch.night.record import SystemRecord
from iowatch.night.session import Interrupted, run_session, temporary_folder
from iowatch.night.trend import Change
from iowatch.past import raw_results
from iowatch.past.history import read, reason
from iowatch.past.reframe_database import tests_of
from iowatch.site.site import Site, bare_configuration, read_site, results_database

MIN_ROUNDS = 6  # of fewer, not even all together have a 95 % interval of their median
REPEATS = 2  # of each environment in a round, after one that warms up
LIMIT = timedelta(hours=20)  # with the time in the queue, as a night has it
RESULT, SAID = "result.{}.{}.json", "said.{}.{}"  # of a round and an environment


#: Provenance that no environment makes, and those that a job script says better.
_NOT_MADE = (
    *("iowatch", "hosts", "free space", "witness"),
    *("launcher", "program", "modules", "spack"),
)


# Raw results of both nights


@dataclass(frozen=True)
class KeptRun:
    """A run of the case whose raw results are kept."""

    run: Run
    script: Script
    result: Result

    @property
    def night(self) -> str:
        return self.run.night


def kept_of(run: Run) -> KeptRun:
    """The raw results of a run; UserError says what is missing."""
    folder = Path(run.folder or "-")
    script = find(folder, "rfm_job.sh")
    result = find(folder, "result.json")
    loaded = find(folder, raw_results.LOADED)
    if not (run.folder and script and result):
        raise UserError(f"{folder}: the raw results of {run.night} are no longer there")
    try:
        spack = read_text(loaded) if loaded else ""
        text = read_text(script)
        known = read_script(text, spack, run.provenance.get("spack", ""))
        return KeptRun(run, known, read_result(result))
    except (OSError, ValueError, InvalidResult) as err:
        raise UserError(f"{script}: cannot be run again: {err}") from None


def good_before(row: CaseNight) -> KeptRun:
    """The last good run before what the verdict speaks of, with its raw results; UserError."""
    verdict = row.judged.verdict if row.judged else None
    since = (verdict.since or verdict.raised) if verdict else None
    nights = [night for night in row.good if since is None or row.earlier[night][-1].time < since]
    for night in reversed(nights):
        for run in reversed(row.earlier[night]):
            if run.is_measured:
                try:
                    return kept_of(run)
                except UserError:
                    continue
    why = (
        f"of the {counted(len(nights), 'good night')} before it no raw results are left "
        "('keep_days' of the site says for how long they are kept)"
        if nights
        else "no night before it was good"
    )
    raise UserError(f"{row.case}: nothing to compare {row.night} with: {why}")


# The run


@dataclass(frozen=True)
class Asked:
    site: Site
    place: Filesystem
    row: CaseNight  # the last night of the case
    red: KeptRun
    good: KeptRun
    metric: str
    rounds: int


def ask(text: str, rounds: int) -> Asked:
    """The runs to compare for the case with this id, or the only one with this in it; UserError."""
    if rounds < MIN_ROUNDS:
        raise UserError(f"--rounds {rounds}: an interval needs {MIN_ROUNDS} rounds or more")
    case = _find(text)
    if not (case.check.starts_once and case.check.metrics):
        raise UserError(
            f"{case}: environments take turns only in a job that starts benchio once, to write or "
            f"read an array: that of {case.check.name} is another"
        )
    site = read_site(case.system)
    place = next((p for p in site.filesystems if p.partition == case.partition), None)
    if place is None:
        raise UserError(f"{case}: the site's configuration no longer has its partition")
    if not site.database.is_file():
        raise UserError(f"{case}: nothing is on record yet: there is no {site.database}")
    record = SystemRecord.load(site.system, [site.database], site=site)
    nights = {run.night for run in record.runs if run.case == case and run.night}
    if not nights:
        raise UserError(f"{case}: no night of it is on record in {site.database}")
    night = max(nights)
    (row,) = (row for row in night_of(record, night).cases if row.case == case)
    if not row.last.is_measured or not row.judged:
        raise UserError(
            f"{case}: its run of {night} is {row.outcome}: there is nothing to compare: "
            f"{row.last_sentence}"
        )
    metric = next(iter(row.judged.verdict.failed), rate_name(row.last.metrics))
    red, good = kept_of(row.last), good_before(row)
    asked = Asked(site, place, row, red, good, metric, rounds)
    if worse(metric, red.run.metrics[metric], good.run.metrics.get(metric, math.nan)) > 0:
        return asked
    raise UserError(
        f"{case}: {metric} was no worse on {red.night} than on {good.night}, the last good night: "
        "there is nothing to look for"
    )


def _find(text: str) -> Case:
    if case := known_case(text):
        return case
    database = results_database()
    runs = read([database]) if database.is_file() else []
    return find_case(text, {run.case for run in runs}, {})


def plan(asked: Asked) -> tuple[Difference, list[str]]:
    """The difference, and notes on it before anything has run."""
    notes: list[str] = []
    then, now = asked.good.script, asked.red.script
    lost = set()
    for kept in (asked.good, asked.red):
        recorded, present = kept.run.provenance.get("program"), None
        with suppress(OSError):
            present = raw_results.digest(Path(kept.script.program.text))
        if recorded in (None, present):
            continue
        state = "is gone" if present is None else f"was replaced ({recorded} then, {present} now)"
        is_good = kept is asked.good
        notes.append(
            f"the benchio of {kept.night}, {kept.script.program.text}, {state}"
            + (f": that of {asked.red.night} is run in its place" if is_good else "")
        )
        if is_good:
            lost.add(kept.script.program.name)
    if then.asked != now.asked:
        gone, new = (
            ", ".join(line for line in script.asked if line not in other.asked) or "nothing"
            for script, other in ((then, now), (now, then))
        )
        notes.append(
            f"one job cannot try both of what was asked of the scheduler: {gone} then, {new} now"
        )
    return Difference.compare(then, now, lost), notes


def turns(variants: int, rounds: int) -> list[list[int]]:
    """The order of the environments in each round: one drawn by lot, then the same backwards, so
    that a steady decline is as bad for all."""
    orders: list[list[int]] = []
    for number in range(rounds):
        is_back = number % 2 == 1
        orders.append(orders[-1][::-1] if is_back else random.sample(range(variants), variants))
    return orders


@dataclass(frozen=True, kw_only=True)
class TurnsJob:
    run_id: str
    made: datetime
    folder: Path
    variants: Sequence[Change | None]


def blame(asked: Asked, tell: Callable[[str], None]) -> Culprit:
    """Run the environments in turn, and say which change it was; UserError, Interrupted.

    `tell` is told what is about to run.
    """
    difference, notes = plan(asked)
    case, good, red = asked.row.case, asked.good.run, asked.red.run
    changes = difference.changes
    if not changes:
        notes += _other_provenance(good.provenance, red.provenance, good.night, f" on {red.night}")
        return Culprit(case, asked.metric, good, red, (), notes)
    site = asked.site
    with locked(site.system, site.own_folders) as locks:
        night = night_id(datetime.now(UTC))
        folder = raw_results.new_folder(site.prefix, night, case)
        # With one change alone, the red environment is the one with it.
        only = changes[0] if len(changes) == 1 else None
        variants = [None, only, *(changes if not only else ())]
        made, run_id = datetime.now(UTC), secrets.token_hex(8)
        job = TurnsJob(run_id=run_id, made=made, folder=folder, variants=variants)
        tell(
            f"{case}: {len(variants)} environments take turns in one job, {asked.rounds} rounds of "
            f"{REPEATS} repetitions, as of {good.night} (good) and {red.night}"
        )
        _run(asked, difference, job, locks)
    tried = [_tried(asked, job, number) for number in range(len(variants))]
    for kept, number in ((asked.good, GOOD), (asked.red, RED)):
        if not tried[number].fault:
            now = provenance(read_result(folder / RESULT.format(1, number)))
            notes += _other_provenance(kept.run.provenance, now, kept.night, " now")
    return Culprit(case, asked.metric, good, red, tried, notes, folder)


def _run(asked: Asked, difference: Difference, job: TurnsJob, locks: Sequence[int]) -> None:
    """Have ReFrame run it to its end; UserError if it does not."""
    case = asked.row.case
    every = [change.name for change in difference.changes]
    taken = [[], every, *([name] for name in every)][: len(job.variants)]
    hosts = asked.red.result.run["hosts"]
    planned = {
        "case": str(case),
        "ranks_per_node": case.ranks // len(hosts),
        "kept": str(job.folder),
        "run_id": job.run_id,
        "repeats": REPEATS,
        "result": RESULT.format("$IOWATCH_ROUND", "$IOWATCH_VARIANT"),
        "turns": turns(len(taken), asked.rounds),
        "variants": [
            as_planned(asked.red.script.shell, difference.parts(whats)) for whats in taken
        ],
    }
    with temporary_folder() as folder:
        file, config = folder / "plan.json", folder / "bare.py"
        file.write_text(json.dumps(planned), "utf-8")
        bare = bare_configuration(case.system, case.partition, case.environ)
        config.write_text(f"site_configuration = {bare!r}\n", "utf-8")
        # An option takes the place of the environment variable.
        configs = [*filter(None, os.environ.get("RFM_CONFIG_FILES", "").split(":")), str(config)]
        options = [
            *(f"--config-file={name}" for name in configs),
            "--system", f"{case.system}:{case.partition}",
            "--name", "^EnvironmentsInTurn$", "--setvar", f"EnvironmentsInTurn.plan={file}",
            "--timestamp=blame",
        ]  # fmt: skip
        deadline = time.monotonic() + LIMIT.total_seconds()
        session = run_session(options, "", deadline, lambda lines: None, locks, is_stored=False)
    if session.signal:
        raise Interrupted(session.signal)
    tests = tests_of(session.report) if session.report else []
    if session.stopped or not tests or tests[0]["result"] != "pass":
        why = session.stopped or (reason(tests[0]) if tests else session.error or "nothing ran")
        raise UserError(f"{case}: the job did not come to its end: {why}; see {job.folder}")
    if brought := environment_of((job.folder / "rfm_job.sh").read_text("utf-8", "replace")):
        raise UserError(
            f"{case}: the job brought an environment of its own to all that it compared: "
            f"{brought[0]}"
        )


def _tried(asked: Asked, job: TurnsJob, number: int) -> Tried:
    change, case, metrics = job.variants[number], asked.row.case, list[Mapping[str, float]]()
    for round_ in range(1, asked.rounds + 1):
        name = RESULT.format(round_, number)
        try:
            if (job.folder / f"failed.{number}").exists():
                raise InvalidResult(_last_error(job.folder, number))
            result = read_result(job.folder / name)
            require_of_job(result, name, job.run_id, job.made)
            require(result, case, REPEATS, asked.place)
        except InvalidResult as err:
            return Tried(change, fault=str(err))
        metrics.append(kind_of(case).metrics_of(result, case))
    rates = [values[rate_name(values)] for values in metrics]
    if (best := max(map(physical_rate, metrics))) > asked.place.peak:
        fault = f"{brief(best)} MiB/s are above the filesystem's peak: a cache was measured"
        return Tried(change, fault=fault)
    return Tried(change, [values[asked.metric] for values in metrics], rates)


def _last_error(folder: Path, number: int) -> str:
    """The output of an environment in the round in which it failed, its last."""
    files = sorted(
        folder.glob(SAID.format("*", number)), key=lambda file: int(file.suffixes[-2][1:])
    )
    text = printed(files[-1]) if files else ""
    return cause_of(text).sentence or "it failed, and said nothing"


def _other_provenance(
    before: Mapping[str, str], now: Mapping[str, str], night: str, then: str
) -> Iterator[str]:
    """Changes that no script shows: a default has moved, or something was replaced in its place."""
    other = [
        f"{name} was {before.get(name, 'not there')} on {night} and is {now.get(name, 'not there')}"
        for name in {**before, **now}
        if name not in _NOT_MADE and before.get(name) != now.get(name)
    ]
    if other:
        yield (
            f"although the script is the same, {', '.join(other)}{then}: a default has moved, or "
            "something was replaced, and what was there before cannot be brought back: load it by "
            "its version in the site's configuration"
        )
