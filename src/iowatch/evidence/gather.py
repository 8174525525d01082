"""The evidence of an acceptance test, gathered at the site: one folder has all that it rests on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from iowatch import __version__
from iowatch.base import build
from iowatch.base.bounded import decoded
from iowatch.base.files import UserError
from iowatch.cases.filesystem import ACCEPTANCE, Filesystem
from iowatch.cases.run import day_of
from iowatch.evidence.contract import Contract
from iowatch.evidence.evidence import CONTRACT, EXCLUSIONS, is_acceptance, start_of
from iowatch.evidence.exhibits import case_in
from iowatch.evidence.stored_run import PLAIN, SESSIONS, SITE, Stored, place_of
from iowatch.evidence.terms import Rules
from iowatch.measure.job_folder import COMPRESSED, EXIT_CODE, find, read_bytes, read_text
from iowatch.past import raw_results
from iowatch.past.history import sessions
from iowatch.past.raw_results import FOLDER, JOB_RECORD, Moved
from iowatch.past.reframe_database import tests_of
from iowatch.site.site import Site

#: In the folder of the evidence, with those that are read again:
CONFIGURATION, BUILDS = "site", "builds"
SPACK_FILES = ("spack.lock", "spack.yaml")
#: Fields of a filesystem's configuration that the evidence leaves out.
_NOT_EVIDENCE = ("suites", "archived")


def gather(
    folder: Path,
    contract: Path,
    agreed: Contract,
    exclusions: Path | None,
    site: Site,
    databases: Sequence[Path],
) -> None:
    """Copy everything that the test rests on into a new folder; UserError."""
    # No session is left out here: what does not count is to be seen with its reason.
    on_record, claimed = dict[str, Stored](), set[str]()
    for session in chain.from_iterable(map(sessions, databases)):
        tests = tests_of(session)
        claimed |= {test["kept"] for test in tests if test.get("kept")}
        if any(is_acceptance(test, agreed.system) for test in tests):
            on_record[session["session_info"]["uuid"]] = session
    if not on_record:
        names = ", ".join(map(str, databases))
        raise UserError(
            f"{names}: no acceptance session of {agreed.system} is on record: run "
            f"`iowatch run --system {agreed.system} --suite acceptance`"
        )
    with gathering(folder):
        shutil.copyfile(contract, folder / CONTRACT)
        if exclusions:
            shutil.copyfile(exclusions, folder / EXCLUSIONS)
        cut, lost = _unclaimed(site, agreed.rules, claimed)
        kept = {site.prefix / FOLDER / run for run in cut}
        moved = Moved(site.prefix, *(file.absolute().parent for file in databases))
        for session in on_record.values():
            is_of_test = start_of(session) >= agreed.rules.begins
            copy_session(folder, session, with_builds=is_of_test)
            if is_of_test:
                kept |= raw_results_of(session, agreed.system, moved)
        copy_raw_results(folder, kept)
        cases = {str(case): nodes for case, nodes in site.nodes(ACCEPTANCE).items()}
        copy_site(folder, site, cases=cases, cut=cut, lost=lost)


@contextmanager
def gathering(folder: Path) -> Iterator[None]:
    """UserError if what is gathered into a folder cannot be read, or has no room there."""
    try:
        yield
    except OSError as err:
        where = err.filename or folder  # of a file that is written, no name is known
        raise UserError(f"{where}: cannot be gathered as evidence: {err.strerror}") from None


def copy_session(folder: Path, session: Stored, *, with_builds: bool = True) -> None:
    """Write a session as it is on record, with Spack's files of the benchio that it built."""
    uuid = session["session_info"]["uuid"]
    write(folder / SESSIONS / f"{uuid}.json", session)
    for test in tests_of(session) if with_builds else ():
        if not test.get("case_id") and test.get("outputdir"):  # a fixture that built benchio
            for name in SPACK_FILES:
                for file in sorted(Path(test["outputdir"]).rglob(name)):
                    _copy(file, folder / BUILDS / uuid / file.parent.name / file.name)


def copy_raw_results(folder: Path, kept: Iterable[Path]) -> None:
    """Copy the raw results of runs from where they are now."""
    for source in kept:
        for file in sorted(source.iterdir()) if place_of(source) and source.is_dir() else ():
            if file.is_file() and PLAIN.fullmatch(file.name):
                _copy(file, folder / place_of(source) / file.name.removesuffix(COMPRESSED))


def copy_site(folder: Path, site: Site, **more: Any) -> None:
    """Copy the configuration of the system, and what verdicts rest on of it, with more facts."""
    files = [Path(file) for file in site.sources]
    files = [file for file in files if file.stem == site.system] or files
    for number, file in enumerate(files, start=1):
        _copy(file, folder / CONFIGURATION / f"{number}-{file.name}")
    names = [f.name for f in attrs.fields(Filesystem) if f.name not in _NOT_EVIDENCE]
    facts = {
        "iowatch": build.version(__version__),
        "gathered": datetime.now(UTC).isoformat(),
        "system": site.system,
        "filesystems": [{name: getattr(p, name) for name in names} for p in site.filesystems],
    }
    write(folder / SITE, {**facts, **more})


def raw_results_of(session: Stored, system: str, moved: Moved) -> set[Path]:
    """The place of each run's raw results now."""
    tests = (test for test in tests_of(session) if is_acceptance(test, system))
    return {Path(moved.folder(test["kept"])) for test in tests if test.get("kept")}


def _unclaimed(site: Site, rules: Rules, claimed: set[str]) -> tuple[list[str], list[str]]:
    """Runs since the test began of which no session is on record. Some were cut off with a session
    that another may resume; some have ended, or are gone."""
    names = {Path(kept).parts[-2:] for kept in claimed}
    cut: set[str] = set()
    lost: set[str] = set()
    folder = site.prefix / FOLDER
    for night in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            is_before = day_of(night.name) < rules.begins.date()
        except ValueError:  # not ours
            continue
        runs = [] if is_before or not night.is_dir() else sorted(night.iterdir())
        known = {run.name for run in runs} | {name for when, name in names if when == night.name}
        for run in runs:
            gone = {name for name in raw_results.names_before(run.name) if name not in known}
            is_unclaimed = (night.name, run.name) not in names
            if not (gone or is_unclaimed) or not _is_of_test(run, site.system):
                continue
            lost |= {f"{night.name}/{name}" for name in gone}
            if is_unclaimed:
                has_ended = find(run, EXIT_CODE)
                (lost if has_ended else cut).add(f"{night.name}/{run.name}")
    return sorted(cut), sorted(lost)


def _is_of_test(run: Path, system: str) -> bool:
    """Did the acceptance suite of this system ask for a run? A job that does not say may be
    evidence."""
    case = case_in(run.name)
    if case is None or case.system != system:
        return False
    try:
        file = find(run, JOB_RECORD)
        return not file or decoded(read_text(file))["suite"] == ACCEPTANCE
    except (OSError, ValueError, LookupError, TypeError):
        return True


def _copy(file: Path, target: Path) -> None:
    """As it was before it was compressed: evidence does not change with its age."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.write_bytes(read_bytes(file))
    except ValueError:  # cut off: as it is, and the law will say so
        shutil.copyfile(file, target)


def write(file: Path, data: Any) -> None:
    """Write a file of the evidence."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
