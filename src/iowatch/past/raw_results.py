"""The folders of the raw results of every run, red or green: PREFIX/runs/NIGHT/CASE/.

A job leaves there what it wrote and said, before anyone judges it: result files, job script,
output. Hand runs have a folder of their own beside those of the nights.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

from iowatch.base.bounded import json_of
from iowatch.base.files import UserError, stabilize, whole
from iowatch.cases.case import Case
from iowatch.cases.run import day_of, is_night_id
from iowatch.measure.case_ids import known_case
from iowatch.measure.job_folder import COMPRESSED

FOLDER = "runs"
DONE = ".compressed"  # in the folder of a night
WAITS = "waits_for"  # likewise: what its resumed jobs wait for, besides their own end
#: In a job script: what stands above makes the environment, what follows is the check's own.
ENVIRONMENT_ENDS = "# iowatch: the environment ends here"
JOB_RECORD = "job.json"  # what its job was given, written before that is submitted
LOADED = "load.sh"  # what the job has loaded besides, if Spack built its benchio
#: Who looks at a recent run wants to read it as it is.
COMPRESS_AFTER = timedelta(days=30)


def new_folder(prefix: Path, night: str, case: Case) -> Path:
    """Make the folder of a run; each run of a case in one night has its own. UserError."""
    parent = prefix / FOLDER / night
    name = str(case).replace("/", ",")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        taken = sum(other.name.partition("+")[0] == name for other in parent.iterdir())
        folder = parent / (f"{name}+{taken + 1}" if taken else name)
        while folder.exists():  # one before it was taken away
            taken += 1
            folder = parent / f"{name}+{taken + 1}"
        folder.mkdir()
    except OSError as err:
        raise UserError(f"{parent}: raw results cannot be kept: {err.strerror}") from None
    return folder


def names_before(name: str) -> list[str]:
    """The folders of the runs of the case that came before the one with a folder of this name."""
    case, _, number = name.partition("+")
    last = int(number) if number.isdecimal() else 1
    return [case if n == 1 else f"{case}+{n}" for n in range(1, last)]


def keep(folder: Path) -> None:
    """Force the files of a run to stable storage, and their names: a session on record may not lose
    them when the power fails. UserError."""
    try:
        stabilize(*filter(Path.is_file, folder.iterdir()), folder, *list(folder.parents)[:3])
    except OSError as err:
        raise UserError(f"{folder}: raw results cannot be kept: {err.strerror}") from None


def folders(prefix: Path, night: str, case: Case) -> list[Path]:
    """Return the folders of the runs of a case in one night, the last first."""
    parent, name = prefix / FOLDER / night, str(case).replace("/", ",")
    every = [parent / name, *(parent / f"{name}+{n}" for n in range(2, count(prefix, night) + 2))]
    return [folder for folder in reversed(every) if folder.is_dir()]


class Moved:
    """The present places of raw results. If a prefix is gone, its results are beside the database,
    or where the site has its results."""

    def __init__(self, *prefixes: Path) -> None:
        self._prefixes = [*map(str, prefixes)]
        self._now: dict[str, str] = {}

    def folder(self, kept: str) -> str:
        """Return where the folder of a run is now; `kept` is as the session has it."""
        prefix, is_kept, rest = kept.rpartition(f"/{FOLDER}/")
        if not is_kept:
            return kept
        if prefix not in self._now:
            places = (prefix, *self._prefixes)
            there = (place for place in places if os.path.isdir(f"{place}/{FOLDER}"))  # noqa: PTH112
            self._now[prefix] = next(there, prefix)
        return f"{self._now[prefix]}{is_kept}{rest}"


def last_night(prefix: Path, system: str, suite: str) -> str:
    """The last night with runs of a system and a suite; empty: there is none. Runs by hand, or of
    an hour, have a folder, and a job that was told of no night."""
    for folder in sorted((prefix / FOLDER).glob("*"), reverse=True):
        jobs = [run / JOB_RECORD for run in folder.glob(f"{system}:*")]
        words = {(told(job, "night"), told(job, "suite")) for job in jobs if job.exists()}
        if is_night_id(folder.name) and jobs and words <= {(folder.name, suite)}:
            return folder.name
    return ""


def nights(prefix: Path, system: str, since: date) -> list[str]:
    """The nights, from this day on, in which the scheduler was given jobs of a system. Runs by hand
    have no night."""
    with_jobs = []
    for folder in sorted((prefix / FOLDER).glob("*")):
        if is_night_id(folder.name) and day_of(folder.name) >= since:
            jobs = (run / JOB_RECORD for run in folder.glob(f"{system}:*"))
            if any(told(job, "night") == folder.name for job in jobs):
                with_jobs.append(folder.name)
    return with_jobs


def told(job: Path, key: str) -> str:
    """Return what a job was told, `night` or `suite`; empty: nothing, or nobody knows."""
    try:
        return str(json_of(job)[key])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def count(prefix: Path, night: str) -> int:
    """Count the runs of a night with a folder: each has one as it is given to the scheduler."""
    try:
        with os.scandir(prefix / FOLDER / night) as entries:
            return sum(entry.is_dir() for entry in entries)
    except OSError:
        return 0


def count_by_hand(prefix: Path, since: str) -> int:
    """Count the runs with a folder in what was begun since then: a hand run names its own later."""
    folders = (prefix / FOLDER).glob("*")
    names = [folder.name for folder in folders if is_night_id(folder.name)]
    return sum(count(prefix, name) for name in names if name >= since)


def waits_for(prefix: Path, night: str) -> str:
    """Read what the resumed jobs of a night wait for, besides their own end; empty: nothing."""
    try:
        return (prefix / FOLDER / night / WAITS).read_text("utf-8").strip()
    except OSError:
        return ""


def tidy(prefix: Path, keep_days: Mapping[tuple[str, str], int], today: date) -> None:
    """Compress what is old, and remove what is older than its partition keeps; UserError.

    `keep_days` is by system and partition: what is of other systems, these do themselves, and of
    other partitions nothing is removed. Whoever runs this holds the lock of the system's night, and
    never meets a run that is still being written: those are of today.
    """
    folder, systems = prefix / FOLDER, {system for system, _ in keep_days}
    shortest = timedelta(days=min(keep_days.values(), default=0))
    try:
        for night in sorted(folder.iterdir()) if folder.is_dir() else ():
            try:
                age = today - day_of(night.name)
            except ValueError:  # not ours
                continue
            if keep_days and age > shortest and night.is_dir():
                _remove(night, keep_days, age)
            # A folder is looked into once: a year of them would take long on a shared filesystem.
            if age > COMPRESS_AFTER and night.is_dir() and not (night / DONE).exists():
                cases = {run: case for run in night.iterdir() if (case := _case_of(run))}
                for run, case in cases.items():
                    if case.system in systems:
                        _compress(run)
                if {case.system for case in cases.values()} <= systems:
                    (night / DONE).touch()
    except OSError as err:
        raise UserError(f"{err.filename}: old raw results stay: {err.strerror}") from None


def _remove(night: Path, keep_days: Mapping[tuple[str, str], int], age: timedelta) -> None:
    """The runs of a night that their partition does not keep for so long, and then the night."""
    for run in night.iterdir():
        case = _case_of(run)
        days = keep_days.get((case.system, case.partition)) if case else None
        if days is not None and age > timedelta(days=days):
            shutil.rmtree(run)
    if {file.name for file in night.iterdir()} <= {DONE, WAITS}:
        shutil.rmtree(night)


def _case_of(folder: Path) -> Case | None:
    return known_case(folder.name.partition("+")[0].replace(",", "/"))


def _compress(folder: Path) -> None:
    """Each file by itself, whole or not at all."""
    for file in folder.iterdir():
        if file.is_file() and file.suffix != COMPRESSED:
            with whole(file.with_name(file.name + COMPRESSED)) as packed:
                packed.write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()


def digest(program: Path) -> str:
    """Return the first 16 digits of a program's SHA-256, by which it is known again; OSError."""
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]
