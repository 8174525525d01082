"""The report of a night: a page to look at, a text for chat or mail, JUnit XML for a dashboard; and
the pages of all systems of a centre."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import jinja2
from markupsafe import Markup, escape

from iowatch.base.bounded import regular_text
from iowatch.base.documents import document
from iowatch.base.files import UserError, whole
from iowatch.base.places import ROOT
from iowatch.base.text import brief, brief_bytes, brief_rate, brief_time, one_line
from iowatch.cases.metric import Reference
from iowatch.cases.run import is_night_id
from iowatch.measure.checks import metric
from iowatch.measure.job_folder import last_lines
from iowatch.measure.kinds.slow_ost import osts_of
from iowatch.measure.wrong_data import WrongData, wrong_data
from iowatch.night.case_night import CaseNight
from iowatch.night.headline import next_step
from iowatch.night.night import Night
from iowatch.night.on_record import night_on_record, record_of, systems
from iowatch.night.summary import marks
from iowatch.pages.heat_map import heat_maps
from iowatch.pages.overview import Standing, standing
from iowatch.pages.plots import (
    dates_of_nights,
    ost_plots,
    paper_plot,
    phase_plot,
    sparkline,
    trend_plot,
)
from iowatch.past.words import COLOURS
from iowatch.site.published import SlowClose, slow_close

_GROUPS = ("", "unjudged", "ok")  # of cases on the page; those with a title are folded
SITE_DAYS = 30  # that the index of all systems shows
LATEST = "latest.html"  # leads to the page of the last night
_NAV = re.compile(r'(?<=<nav class="nights" aria-label="Nights">).*?(?=</nav>)', re.DOTALL)
_HEAD = 2**12  # bytes of a page, in which its head begins
SITE_MARK = '<meta name="generator" content="iowatch">'  # by which it is known to be ours
MD_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def html(night: Night) -> str:
    """One self-contained page."""
    dates = dates_of_nights([night.day, *(day for row in night.cases for day in row.trend.nights)])
    env = templates(autoescape=True)
    worst_first = night.worst_first
    groups: dict[str, list[CaseNight]] = {title: [] for title in _GROUPS}
    for row in worst_first:
        title = "ok" if row.is_quiet else "unjudged" if row.is_amber or row.is_recorded else ""
        groups[title].append(row)
    shown = [row for rows in groups.values() for row in rows]
    reasons = {row.outcome.reason for row in shown if not row.is_quiet}
    reasons |= {alarm.outcome.reason for alarm in night.alarms}
    return env.get_template("report.html.j2").render(
        report=night,
        sparkline=sparkline,
        groups=groups,
        places={row.case: place for place, row in enumerate(shown, start=1)},
        marks=partial(marks, night),
        letters=ascii_lowercase,
        next_step=partial(next_step, night),
        runbook_sections={
            reason: as_html(text) for reason, text in sections().items() if reason in reasons
        },
        heat_maps=heat_maps(night.hours),
        trend_plot=partial(trend_plot, dates),
        phase_plot=phase_plot,
        paper_plot=paper_plot,
        finding_like=_finding_like,
        osts_of=osts_of,
        ost_plots=ost_plots,
        wrong_data_of=_wrong_data_of,
        printed_by=_printed_by,
        zip=zip,
    )


def _finding_like(row: CaseNight) -> SlowClose | None:
    """Return what the white paper measured of this library, if the case is slow to finish files and
    the paper measured it."""
    is_measured = row.case.backend in ("hdf5", "netcdf") and row.case.operation == "write"
    if not (is_measured and row.is_slow_to_finish):
        return None
    try:
        return slow_close()
    except UserError:  # iowatch without its checkout
        return None


def _wrong_data_of(row: CaseNight) -> WrongData | None:
    """Read the evidence of tonight's runs with wrong data, the last first; None: there is none."""
    folders = [Path(run.folder) for run in row.runs if run.outcome.is_corrupt and run.folder]
    return next(filter(None, map(wrong_data, reversed(folders))), None)


def _printed_by(row: CaseNight) -> list[str]:
    """Return the last lines that the job of a failed run has printed."""
    run = row.last
    return last_lines(Path(run.folder)) if run.outcome.is_failed and run.folder else []


def markdown(night: Night) -> str:
    """Write what is not as it should be, without plots."""
    env = templates(autoescape=False)
    env.filters["plain"] = lambda text: MD_SPECIAL.sub(r"\\\1", text)
    return env.get_template("report.md.j2").render(
        report=night,
    )


def junit(night: Night) -> str:
    """Write a test case for each case, each red alarm of several, and the night. Red ones fail, but
    cases under an alarm are skipped."""
    under = night.merged
    red = len(night.red) - len(under) + len(night.red_alarms) + bool(night.problems)
    suite = ET.Element(
        "testsuite",
        name=f"iowatch {night.system} {night.day}",
        timestamp=f"{night.runs[0].time if night.runs else night.ended:%Y-%m-%dT%H:%M:%S}",
        tests=str(len(night.cases) + len(night.red_alarms) + 1),
        failures=str(red),
        errors="0",
    )
    whole_night = ET.SubElement(suite, "testcase", classname=night.system, name="night")
    if problems := [_clean(problem) for problem in night.problems]:
        failure = ET.SubElement(whole_night, "failure", type="night", message=problems[0])
        failure.text = "\n".join(problems)
    for alarm in night.red_alarms:
        test = ET.SubElement(suite, "testcase", classname=night.system, name=_clean(alarm.subject))
        lines = "\n".join(_clean(row.in_brief) for row in alarm.rows)
        message = _clean(alarm.sentence)
        ET.SubElement(test, "failure", type=str(alarm.outcome), message=message).text = lines
    for row in night.worst_first:
        alarm_of = under.get(row.case)
        _test(suite, row, alarm_of.subject if alarm_of else "")
    ET.indent(suite)
    return ET.tostring(suite, "unicode", xml_declaration=True) + "\n"


def _test(suite: ET.Element, row: CaseNight, under: str) -> None:
    case, sentence, last = row.case, _clean(row.sentence), _clean(row.last.sentence)
    place = f"{case.system}.{case.partition}.{case.environ}"
    test = ET.SubElement(suite, "testcase", classname=place, name=str(case))
    if row.is_red and under:
        ET.SubElement(test, "skipped", message=_clean(f"{row.outcome}, see {under}"))
    elif row.is_red:
        ET.SubElement(test, "failure", type=str(row.outcome), message=sentence).text = last
    elif row.is_amber:
        ET.SubElement(test, "skipped", message=sentence)
    elif row.known:
        ET.SubElement(test, "skipped", message=f"{row.outcome}, {_clean(row.known)}")
    metrics = [f"{name} = {value:.6g}" for name, value in row.metrics.items()]
    ET.SubElement(test, "system-out").text = "\n".join([f"{row.outcome}: {sentence}", *metrics])


FORMATS: Mapping[str, Callable[[Night], str]] = {
    "html": html,
    "md": markdown,
    "junit": junit,
    "json": lambda night: f"{document(night=night.document)}\n",
}


@cache
def templates(autoescape: bool) -> jinja2.Environment:
    """Compile each template once: that takes longer than a page."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("iowatch"),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_unbroken if autoescape else _clean,
    )
    env.filters |= {
        "number": _number,
        "bytes": brief_bytes,
        "time": lambda seconds: "-" if seconds is None else brief_time(seconds),
        "percent": _percent,
        "bounds": _bounds,
        "rate": _rate,
        "expected": lambda row: _number(row.expected and row.expected.value),
        "change": lambda row: "-" if row.drop is None else _percent(-row.drop, "+"),
    }
    return env


def _number(value: float | None, form: str = "") -> str:
    """Write a number in this form; without one, as a rate."""
    if value is None:
        return "-"
    return format(value, form) if form else brief_rate(value)


def _rate(row: CaseNight) -> str:
    """Write the rate of a case; MiB/s go without saying."""
    return _number(row.rate) + (f" {row.unit}" if row.rate and row.unit != "MiB/s" else "")


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
    """Put a text, which may quote a job or an administrator, on one line that prints. Our own
    markup, what is no text, and blanks at both ends stay."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return one_line(re.sub(r"\s+", " ", value))


def _unbroken(value: Any) -> Any:
    """Clean a text of a page, where no line ends between a number and its unit."""
    text = _clean(value)
    if not isinstance(text, str) or isinstance(text, Markup):
        return text
    return Markup(re.sub(r"(?<=\d) (?=%|min\b)", "&nbsp;", escape(text)))


# The pages of all systems


@dataclass(frozen=True)
class Square:
    """A night of a system on the index, or a day that has none."""

    day: date
    night: Night | None = None
    page: str = ""

    @property
    def sign(self) -> str:
        """The letter by which it is known without its colour."""
        return "-" if self.night is None else self.night.colour[0].upper()

    @property
    def text(self) -> str:
        words = self.night.headline.banner if self.night else "no night is on record"
        return f"{self.day}: {words}"


def write_site(databases: Sequence[Path], folder: Path) -> Path:
    """Write a page for each of the last nights of each system into a folder, and an index of them,
    whose path is returned. A page that is there is written anew only if its night has had further
    runs, or is on record otherwise than it was. UserError."""
    index, now = folder / "index.html", datetime.now(UTC)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if index.exists() and SITE_MARK not in regular_text(index, errors="replace"):
            raise UserError(f"{index}: is none of iowatch's: name a folder of its own")
    except OSError as err:
        raise UserError(f"{folder}: no pages can be written there: {err.strerror}") from None
    rows = list[tuple[Standing, Sequence[Square]]]()
    for system in systems(databases):
        record = record_of(system, databases)
        latest = standing(record)
        last = latest.night
        first = min(now.date() - timedelta(days=SITE_DAYS - 1), last.day)
        names = [name for name in sorted(record.nights) if f"{first}" <= name <= last.id]
        squares = [
            _square(last if name == last.id else night_on_record(record, name), folder)
            for name in names
        ]
        pages = _pages(folder, f"{system}-")
        for place in range(len(pages)):
            _lead_on(pages, place)
        days = {square.day for square in squares}
        month = (first + timedelta(days=ago) for ago in range((now.date() - first).days + 1))
        squares += [Square(day) for day in month if day not in days]
        shown = sorted(squares, key=lambda square: (square.day, square.page))[-SITE_DAYS:]
        rows.append((latest, shown))
    rows.sort(key=lambda row: (-COLOURS.index(row[0].colour), not row[0].night.is_red))
    template = templates(autoescape=True).get_template("index.html.j2")
    write(index, template.render(rows=rows, now=now, mark=SITE_MARK))
    return index


def _square(night: Night, folder: Path) -> Square:
    path = folder / f"{night.system}-{night.id}.html"
    changed = night.ended
    if night.judged:
        changed = max(changed, night.judged.time)
    if not path.exists() or path.stat().st_mtime < changed.timestamp() or not _is_of(path, night):
        _write_both(path, night)
    return Square(night.day, night, path.name)


def _is_of(page: Path, night: Night) -> bool:
    """Was the page made by what is on record of the night now?"""
    with page.open("rb") as stream:
        return f'content="{night.basis}"'.encode() in stream.read(_HEAD)


def write_page(night: Night, folder: Path) -> Path:
    """Write a night as a page into a folder, and return its path; UserError."""
    # The page of the night itself knows more: it is not written over.
    kind = "hand" if night.is_by_hand else "report" if night.is_gated else "record"
    path = folder / f"{kind}-{night.system}-{night.id}.html"
    _write_both(path, night)
    pages = _pages(folder, f"{kind}-{night.system}-")
    place = pages.index(path)
    for number in range(max(place - 1, 0), min(place + 2, len(pages))):
        _lead_on(pages, number)
    if kind == "report" and path == pages[-1]:
        template = templates(autoescape=True).get_template("latest.html.j2")
        write(folder / LATEST, template.render(system=night.system, page=path.name))
    return path


def _write_both(path: Path, night: Night) -> None:
    """Write a night as a page, and as JSON beside the page; UserError."""
    write(path, html(night))
    write(path.with_suffix(".json"), FORMATS["json"](night))


def _pages(folder: Path, prefix: str) -> list[Path]:
    """List the pages of the nights of a system, oldest first."""
    files = folder.glob(f"{prefix}*.html")
    return sorted(file for file in files if is_night_id(file.stem.removeprefix(prefix)))


def _lead_on(pages: Sequence[Path], place: int) -> None:
    """Let one of the pages lead to the nights before and after it, and to its JSON; UserError."""
    page = pages[place]
    around = [("prev", "the night before", pages[max(place - 1, 0) : place])]
    around += [("next", "the next night", pages[place + 1 : place + 2])]
    words = [
        Markup('<a rel="{}" href="{}">{}, {}</a>').format(rel, file.name, name, file.stem[-17:-7])
        for rel, name, files in around
        for file in files
    ]
    words.append(Markup('<a href="{}">as JSON</a>').format(page.with_suffix(".json").name))
    text = page.read_text("utf-8", "replace")
    if (linked := _NAV.sub(lambda _: " ".join(words), text, count=1)) != text:
        times = page.stat()  # a page whose night has had further runs must still look old
        write(page, linked)
        os.utime(page, ns=(times.st_atime_ns, times.st_mtime_ns))


def write(path: Path, text: str) -> None:
    """Write a file, all of it or nothing, over what is there; UserError."""
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")


FILE = ROOT / "docs" / "howto" / "runbook.md"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@cache
def sections() -> dict[str, str]:
    """Read the Markdown of each reason's section; none without the file."""
    try:
        text = FILE.read_text("utf-8")
    except OSError:
        return {}
    parts = re.split(r"^## `(\w+)`\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def as_html(markdown: str) -> Markup:
    """Write the paragraphs of a section; other pages are not beside the page, so links are text."""
    paragraphs = re.split(r"\n\s*\n", _LINK.sub(r"\1", markdown))
    return Markup("\n").join(Markup("<p>{}</p>").format(_paragraph(text)) for text in paragraphs)


def _paragraph(text: str) -> Markup:
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(" ".join(text.split()))))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code))
