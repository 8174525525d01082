"""A run that a session has on record, and its raw results: read from a folder of evidence, and held
to the law.

Whoever judges it elsewhere has that folder and no more: no site, no database, no network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from iowatch import __version__
from iowatch.base.bounded import decoded, regular_text
from iowatch.base.files import UserError
from iowatch.base.text import brief
from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.verdict import JOB_FAILED, Outcome
from iowatch.measure.case_ids import known_case
from iowatch.measure.checks import kind_of, physical_rate
from iowatch.measure.law import Job
from iowatch.measure.measured import Measured
from iowatch.measure.result import InvalidResult
from iowatch.past.history import read_metrics
from iowatch.past.raw_results import FOLDER, JOB_RECORD
from iowatch.past.reframe_database import tests_of

Stored = dict[str, Any]  # a session as ReFrame stores it
#: In the folder of the evidence:
SITE, SESSIONS = "site.json", "sessions"
SKEW_S = 300.0  # between the clocks of login and compute nodes
#: A name that may stand in the evidence.
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:=,+-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run, as its session has it on record."""

    evidence: Path  # its folder
    entry: Mapping[str, Any]
    info: Mapping[str, Any]  # of the session
    case: Case | None
    name: str  # of the folder of its raw results, in the evidence; empty: it was given no job
    outcome: Outcome  # a job that did not end has failed
    #: When its job was made, and what it was given. Empty: it left no record, or a power cut
    #: emptied the record.
    jobs: Sequence[tuple[datetime, Mapping[str, Any]]]

    @classmethod
    def read_all(cls, folder: Path, session: Stored) -> list[Self]:
        """Read what the evidence in a folder has of the tests of a session."""
        return [cls._read(folder, test, session["session_info"]) for test in tests_of(session)]

    @classmethod
    def _read(cls, folder: Path, entry: Mapping[str, Any], info: Mapping[str, Any]) -> Self:
        name = place_of(Path(entry.get("kept") or ""))
        file = folder / name / JOB_RECORD
        texts = [regular_text(file)] if file.is_file() else []
        records = [decoded(text) for text in texts if text]
        return cls(
            evidence=folder,
            entry=entry,
            info=info,
            case=known_case(entry.get("case_id") or ""),
            name=name,
            outcome=Outcome.read(entry) or JOB_FAILED,
            jobs=[(datetime.fromisoformat(record["made"]), record) for record in records],
        )

    @property
    def provenance(self) -> Mapping[str, str]:
        """The provenance of the run, as on record."""
        return self.entry.get("provenance") or {}

    def job(
        self, case: Case, place: Filesystem, made: datetime, away: Sequence[int] | None = None
    ) -> Job:
        """The job of the run, whose results the law is asked about."""
        return Job(
            folder=self.evidence / self.name,
            case=case,
            filesystem=place,
            run_id=self.entry["run_id"],
            made=made,
            nodes=self.entry["nodes"],
            spec=self.provenance.get("spack", ""),
            away=away,
        )

    def measured(
        self, case: Case, place: Filesystem | None, away: Mapping[str, Sequence[int]] | None = None
    ) -> Measured:
        """Read the raw results of the run again. InvalidResult if they are no evidence.

        `away` has the OSTs that its session was declared to be without; None: nothing was declared.
        """
        test, name, info = self.entry, self.name, self.info
        if place is None:
            raise InvalidResult("the site's configuration no longer has its partition")
        if self.outcome.is_failed:
            raise InvalidResult(test["sentence"] or f"the job did not end: {test['fail_reason']}")
        if not name or not (self.evidence / name).is_dir():
            raise InvalidResult(f"{test['kept']}: its raw results are no longer there")
        began = datetime.fromtimestamp(info["time_start_unix"], UTC)
        made = min([began, *(made for made, _ in self.jobs)])
        gone = None if away is None else away.get(place.name, ())
        job = self.job(case, place, made, gone)
        measured = kind_of(case).read(job, test["repeats"])
        for result in measured.results:
            there = str(Path(result.run["directory"]).parent)
            # Where everybody may write, each user has a place apart, with his number; what an
            # earlier night has kept has one in it.
            path = re.escape(str(Path(place.path)))
            if not re.fullmatch(rf"{path}(\.[0-9]+)?(/kept\.[0-9]+/[^/]+/[^/]+)?", there):
                raise InvalidResult(
                    f"{name}: its files were in {there}, and {place.name} is at {place.path}"
                )
            ended = began + timedelta(seconds=info["time_elapsed"])
            skew = timedelta(seconds=SKEW_S)
            if not made - skew < result.started < ended + skew:
                raise InvalidResult(f"{name}: another session wrote it, at {result.started}")
        stored = read_metrics(test.get("perfvalues") or {})
        for metric, value in measured.metrics.items():
            on_record = stored.get(metric, math.nan)
            if not math.isclose(value, on_record, rel_tol=1e-9):
                raise InvalidResult(
                    f"{name}: {metric} of its results is {brief(value)}, and {brief(on_record)} is "
                    "on record: changed, or a later session wrote over them"
                )
        if (best := physical_rate(measured.metrics)) > place.peak:
            raise InvalidResult(f"{name}: {brief(best)} MiB/s is above the peak of {place.name}")
        return measured


def place_of(kept: Path) -> str:
    """The folder of a run in the evidence; empty if it has none, for it was never given a job."""
    names = kept.parts[-2:]
    is_ours = len(names) == 2 and all(PLAIN.fullmatch(name) for name in names)
    return "/".join((FOLDER, *names)) if is_ours else ""


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """UserError if what is read from a folder is no evidence of this iowatch's."""
    try:
        yield
    except (
        *(OSError, ValueError, TypeError, LookupError, AttributeError),
        *(ArithmeticError, RecursionError),
    ) as err:
        raise UserError(
            f"{folder}: is no evidence that this iowatch, {__version__}, can read: {err!r}"
        ) from None


def filesystems_in(facts: Mapping[str, Any]) -> list[Filesystem]:
    """The filesystems of a site, as the evidence has them."""
    return [Filesystem(**_as_it_was(entry), suites={}) for entry in facts["filesystems"]]


def _as_it_was(value: Any) -> Any:
    """Make tuples of lists: JSON knows no tuples."""
    if isinstance(value, dict):
        return {name: _as_it_was(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value
