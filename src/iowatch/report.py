"""The report of a night: a page to look at, a text for chat or mail, JUnit XML for a dashboard."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from iowatch import bless, history, references
from iowatch.checks import metric
from iowatch.files import UserError, brief, brief_rate, one_line, whole
from iowatch.history import year_before
from iowatch.metrics import osts_of
from iowatch.night.case_night import CaseNight
from iowatch.night.comparison import comparisons
from iowatch.night.gate import Known, Night, by_hand, faults, on_record
from iowatch.paper.published import SlowClose, slow_close
from iowatch.places import reference_folder
from iowatch.plots import Trends, paper_plot, phase_plot
from iowatch.references import Reference
from iowatch.run import day_of
from iowatch.site import read_site

MD_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def html(night: Night) -> str:
    """One self-contained page."""
    days = [day for row in night.cases for day in row.trend.nights]
    trends = Trends(min(days), max(days))
    env = _environment(autoescape=True)
    env.globals |= {
        "trend_plot": trends.plot,
        "phase_plot": phase_plot,
        "paper_plot": paper_plot,
        "finding_like": _finding_like,
        "osts_of": osts_of,
        "zip": zip,
    }
    return env.get_template("report.html.j2").render(
        report=night, comparisons=comparisons(night.cases)
    )


def _finding_like(row: CaseNight) -> SlowClose | None:
    """What the white paper measured of a library that is slow to finish its files, if this is one
    that it measured."""
    is_measured = row.case.backend in ("hdf5", "netcdf") and row.case.operation == "write"
    if not (is_measured and row.is_slow_to_finish):
        return None
    try:
        return slow_close()
    except UserError:  # iowatch without its checkout
        return None


def markdown(night: Night) -> str:
    """What is not as it should be, and no plots."""
    env = _environment(autoescape=False)
    env.filters["plain"] = lambda text: MD_SPECIAL.sub(r"\\\1", text)
    return env.get_template("report.md.j2").render(
        report=night, comparisons=comparisons(night.cases)
    )


def junit(night: Night) -> str:
    """A test case for each case, and one for the night; red ones fail."""
    red = len(night.red) + bool(night.problems)
    suite = ET.Element(
        "testsuite",
        name=f"iowatch {night.system} {night.day}",
        timestamp=f"{night.runs[0].time:%Y-%m-%dT%H:%M:%S}",
        tests=str(len(night.cases) + 1),
        failures=str(red),
        errors="0",
    )
    whole_night = ET.SubElement(suite, "testcase", classname=night.system, name="night")
    if problems := [_clean(problem) for problem in night.problems]:
        failure = ET.SubElement(whole_night, "failure", type="night", message=problems[0])
        failure.text = "\n".join(problems)
    for row in night.worst_first:
        _test(suite, row)
    ET.indent(suite)
    return ET.tostring(suite, "unicode", xml_declaration=True) + "\n"


def _test(suite: ET.Element, row: CaseNight) -> None:
    case, sentence, said = row.case, _clean(row.sentence), _clean(row.last.sentence)
    place = f"{case.system}.{case.partition}.{case.environ}"
    test = ET.SubElement(suite, "testcase", classname=place, name=str(case))
    if row.is_red:
        ET.SubElement(test, "failure", type=row.kind, message=sentence).text = said
    elif row.known:
        ET.SubElement(test, "skipped", message=f"{row.kind}, {_clean(row.known)}")
    metrics = [f"{name} = {value:.6g}" for name, value in row.metrics.items()]
    ET.SubElement(test, "system-out").text = "\n".join([f"{row.kind}: {sentence}", *metrics])


FORMATS: Mapping[str, Callable[[Night], str]] = {
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
        finalize=_clean,
    )
    env.filters |= {"number": _number, "percent": _percent, "bounds": _bounds}
    return env


def _number(value: float | None, form: str = "") -> str:
    """In this form; else as a rate."""
    if value is None:
        return "-"
    return format(value, form) if form else brief_rate(value)


def _percent(part: float | None, sign: str = "") -> str:
    return "-" if part is None else f"{round(100 * part):{sign}d} %"


def _bounds(references: Mapping[str, Reference]) -> str:
    """Such as `ratio at least 0.9; sync_s at most 1.2 s`."""
    return "; ".join(
        f"{name} {word} {brief(bound)} {metric(name).unit.removeprefix('1')}".rstrip()
        for name, entry in references.items()
        for word, bound in (("at least", entry.lower), ("at most", entry.upper))
        if bound is not None
    )


def _clean(value: Any) -> Any:
    """A text on one line and free of what does not print: it may quote what a job or an
    administrator wrote. Our own markup, what is no text, and a space that a template begins or ends
    a piece with, stays."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return one_line(re.sub(r"\s+", " ", value))


# Files


def read(system: str, databases: Sequence[Path], night: str = "", session: str = "") -> Night:
    """A night of a system on record, the last one unless its day or id is given; or a session that
    was run by hand.

    UserError, and what reading the databases and the site's files raises.
    """
    folder, now = reference_folder(), datetime.now(UTC)
    blessed = bless.read(system, folder)
    expected = references.read_expected(system, folder)
    known = Known(blessed, expected, archived=_archived(system))
    until = datetime.combine(day_of(night), now.timetz()) if night else now
    runs = history.read(databases, year_before(min(until, now)), bless.spans(blessed.values()))
    if session:
        found = by_hand(system, session, runs, known, now)
    else:
        found = on_record(system, night, runs, known, now)
    said = [
        fault
        for database in databases
        for session in history.sessions(database, found.sessions)
        for fault in faults(session)
    ]
    for row in found.cases:
        if row.blessed:
            said.append(bless.objection(system, folder, row.case, row.blessed, row.earlier))
    return replace(found, problems=[*found.problems, *filter(None, dict.fromkeys(said))])


def _archived(system: str) -> Mapping[str, date]:
    """What the site's file says; nothing where the system is not configured, as on another host."""
    try:
        return read_site(system).archived
    except UserError:
        return {}


def write_page(night: Night, folder: Path) -> Path:
    """Write a night as a page into a folder, and return its path; UserError."""
    # The page of the night itself knows more: it is not written over.
    kind = "report" if night.is_gated else "hand" if night.is_by_hand else "record"
    path = folder / f"{kind}-{night.system}-{night.id}.html"
    write(path, html(night))
    return path


def write(path: Path, text: str) -> None:
    """Write a file, all of it or nothing, over what is there; UserError."""
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")
