"""A report as a page to look at, a text for chat or mail, or a CI dashboard's JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import jinja2

from iowatch import bless, history, references
from iowatch.checks import shape, size_name, striping
from iowatch.files import brief, whole
from iowatch.metrics import unit
from iowatch.night import gate
from iowatch.report.model import NothingOnRecord, Report, report_of
from iowatch.report.row import Row
from iowatch.site import reference_folder
from iowatch.verdict import Reference

MD_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def html(report: Report) -> str:
    """One self-contained page."""
    # Not above: the other forms need no matplotlib, which takes a second to load.
    from iowatch.report.plots import TrendPlot, phase_plot

    report = _clean(report)
    nights = [night for row in report.rows for night in row.trend.nights]
    trends = TrendPlot(min(nights), max(nights))
    env = _environment(autoescape=True)
    env.globals |= {"trend": trends.svg, "phases": phase_plot}
    return env.get_template("report.html.j2").render(report=report)


def markdown(report: Report) -> str:
    """What is not as it should be, and no plots."""
    report = _clean(report)
    env = _environment(autoescape=False)
    env.filters["plain"] = lambda text: MD_SPECIAL.sub(r"\\\1", text)
    return env.get_template("report.md.j2").render(report=report)


def junit(report: Report) -> str:
    """A test case for each case, and one for the night; red ones fail."""
    report = _clean(report)
    red = len(report.red_rows) + bool(report.problems)
    suite = ET.Element(
        "testsuite",
        name=f"iowatch {report.system} {report.night}",
        timestamp=f"{report.began:%Y-%m-%dT%H:%M:%S}",
        tests=str(len(report.rows) + 1),
        failures=str(red),
        errors="0",
    )
    night = ET.SubElement(suite, "testcase", classname=report.system, name="night")
    if report.problems:
        failure = ET.SubElement(night, "failure", type="night", message=report.problems[0])
        failure.text = "\n".join(report.problems)
    for row in report.rows:
        _test(suite, row)
    ET.indent(suite)
    return ET.tostring(suite, "unicode", xml_declaration=True) + "\n"


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "html": html,
    "md": markdown,
    "junit": junit,
}


def _environment(autoescape: bool) -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("iowatch"),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {"number": _number, "percent": _percent}
    env.filters["bounds"] = _bounds
    env.filters |= {"shape": shape, "striping": striping, "size": size_name}
    return env


def _number(value: float | None, form: str = ".0f") -> str:
    return "-" if value is None else format(value, form)


def _percent(part: float | None, sign: str = "") -> str:
    return "-" if part is None else f"{round(100 * part):{sign}d} %"


def _bounds(references: Mapping[str, Reference]) -> str:
    """Such as `ratio at least 0.9; sync_s at most 1.2 s`."""
    return "; ".join(
        f"{name} {word} {brief(bound)} {unit(name).removeprefix('1')}".rstrip()
        for name, entry in references.items()
        for word, bound in (("at least", entry.lower), ("at most", entry.upper))
        if bound is not None
    )


def _test(suite: ET.Element, row: Row) -> None:
    case = row.case
    place = f"{case.system}.{case.partition}.{case.environ}"
    test = ET.SubElement(suite, "testcase", classname=place, name=str(case))
    if row.red:
        ET.SubElement(test, "failure", type=row.verdict, message=row.sentence).text = row.said
    elif row.known:
        ET.SubElement(test, "skipped", message=f"{row.verdict}, {row.known}")
    figures = [f"{name} = {value:.6g}" for name, value in row.figures.items()]
    lines = [f"{row.verdict}: {row.sentence}", *figures]
    ET.SubElement(test, "system-out").text = "\n".join(lines)


def _clean(value: Any) -> Any:
    """A report, or part of one, with every text in it on one line and free of what does not print.

    Any of them may quote what a job or an administrator wrote.
    """
    if isinstance(value, str):
        return "".join(c if c.isprintable() else "?" for c in " ".join(value.split()))
    if isinstance(value, Mapping):
        return {_clean(key): _clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_clean, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _clean(getattr(value, f.name)) for f in fields(value)})
    return value


def read_report(
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
        bless.read(system, folder),
        references.read_expected(system, folder),
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
        report = read_report(system, [database], problems=problems)
    except NothingOnRecord:
        return None
    return write_page(report, database.parent) if report.ended >= began else None


def write_page(report: Report, folder: Path) -> Path:
    """Write the report as a page into a folder, and return its path."""
    # The page of the night itself knows more: it is not written over.
    kind = "report" if report.gated else "record"
    path = folder / f"{kind}-{report.system}-{report.night}.html"
    write_report(path, html(report))
    return path


def write_report(path: Path, text: str) -> None:
    """Write a file, all of it or nothing, over what is there; UserError."""
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")
