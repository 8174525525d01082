"""A night's report as a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from iowatch import expected
from iowatch.files import whole
from iowatch.night import gate
from iowatch.past import baselines, history
from iowatch.reframe_site import reference_folder
from iowatch.report.model import NothingOnRecord, Report, report_of
from iowatch.report.pages import html


def read(
    system: str,
    databases: Sequence[Path],
    night: date | None = None,
    problems: Sequence[str] | None = None,
) -> Report:
    """The report of a system's night, the last one unless it is named; see `report_of`.

    Without `problems` those of the sessions on record count.
    ReportError, and what reading the databases and the site's files raises.
    """
    folder = reference_folder()
    report = report_of(
        history.read(databases),
        system,
        baselines.read(system, folder),
        expected.read(system, folder),
        night,
        problems,
    )
    if not report.gated:
        faults = _faults(databases, report.sessions)
        report = replace(report, problems=[*report.problems, *dict.fromkeys(faults)])
    return report


def _faults(databases: Sequence[Path], sessions: Collection[str]) -> Iterator[str]:
    for database in databases:
        for session in history.sessions(database, sessions):
            yield from gate.faults(session)


def page_of_tonight(
    system: str, database: Path, problems: Sequence[str], began: datetime
) -> Path | None:
    """Write the page of the night that began then, next to the database, and return its path.

    None if no run of it is on record: the last night there is another. Raises what `read` does.
    """
    try:
        report = read(system, [database], problems=problems)
    except NothingOnRecord:
        return None
    return write_page(report, database.parent) if report.ended >= began else None


def write_page(report: Report, folder: Path) -> Path:
    """Write the report as a page into a folder, and return its path."""
    # The page of the night itself knows more: it is not written over.
    kind = "report" if report.gated else "record"
    path = folder / f"{kind}-{report.system}-{report.night}.html"
    write(path, html(report))
    return path


def write(path: Path, text: str) -> None:
    """Write a file, all of it or nothing, over what is there; UserError."""
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")
