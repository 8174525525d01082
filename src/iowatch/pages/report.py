"""The report of a night: a page to look at, a text for chat or mail, JUnit XML for a dashboard; and
the pages of all systems of a centre."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

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
from iowatch.measure.kinds.slow_ost import osts_of
from iowatch.night.document import SITE_DAYS, CaseEntry, NightDocument, SystemEntry
from iowatch.night.night import CasePage, Night, NightPage
from iowatch.night.public_status import PublicState, StatusPage
from iowatch.pages.plots import (
    dates_of_nights,
    hour_map,
    ost_plots,
    paper_plot,
    phase_plot,
    sparkline,
    trend_plot,
)
from iowatch.past.words import COLOURS

_GROUPS = ("", "unjudged", "ok")  # of cases on the page; those with a title are folded
LATEST = "latest.html"  # leads to the page of the last night
_NAV = re.compile(r'(?<=<nav class="nights" aria-label="Nights">).*?(?=</nav>)', re.DOTALL)
_HEAD = 2**12  # bytes of a page, in which its head begins
SITE_MARK = '<meta name="generator" content="iowatch">'  # by which it is known to be ours
MD_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def html(page: NightPage) -> str:
    """One self-contained page."""
    dates = dates_of_nights([page.day, *(day for row in page.cases for day in row.trend.nights)])
    groups: dict[str, list[CasePage]] = {title: [] for title in _GROUPS}
    for row in page.cases:
        groups["ok" if row.quiet else "unjudged" if row.is_open else ""].append(row)
    shown = [row for rows in groups.values() for row in rows]
    reasons = {entry.reason for entry in (*shown, *page.alarms) if entry.state != "ok"}
    return (
        templates(autoescape=True)
        .get_template("report.html.j2")
        .render(
            report=page,
            sparkline=sparkline,
            groups=groups,
            rows={row.case: row for row in shown},
            places={row.case: place for place, row in enumerate(shown, start=1)},
            letters=ascii_lowercase,
            runbook_sections={
                reason: as_html(text) for reason, text in sections().items() if reason in reasons
            },
            hour_map=hour_map,
            trend_plot=partial(trend_plot, dates),
            phase_plot=phase_plot,
            paper_plot=paper_plot,
            osts_of=osts_of,
            ost_plots=ost_plots,
            zip=zip,
        )
    )


def markdown(page: NightPage) -> str:
    """Write what is not as it should be, without plots."""
    env = templates(autoescape=False)
    env.filters["plain"] = lambda text: MD_SPECIAL.sub(r"\\\1", text)
    rows = {row.case: row for row in page.cases}
    return env.get_template("report.md.j2").render(report=page, rows=rows)


def junit(night: NightDocument) -> str:
    """Write a test case for each case, each red alarm of several, and the night. Red ones fail, but
    cases under an alarm are skipped."""
    return templates(autoescape=True).get_template("junit.xml.j2").render(report=night)


def as_json(night: NightDocument) -> str:
    return f"{document(night=night)}\n"


FORMATS: Mapping[str, Callable[[Night], str]] = {
    "html": lambda night: html(night.for_page),
    "md": lambda night: markdown(night.for_page),
    "junit": lambda night: junit(night.document),
    "json": lambda night: as_json(night.document),
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
        "xml": lambda text: escape(_clean(str(text))),
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


def _rate(row: CaseEntry) -> str:
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


class Square(NamedTuple):
    """A night of a system on the index, or a day that has none."""

    day: date
    page: str = ""
    sign: str = "-"  # by which it is known without its colour
    words: str = "no night is on record"


def write_site(systems: Iterable[tuple[SystemEntry, Sequence[Night]]], folder: Path) -> Path:
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
    rows = list[tuple[SystemEntry, Sequence[Square]]]()
    for latest, nights in systems:
        squares = [_square(night, folder) for night in nights]
        pages = _pages(folder, f"{latest.system}-")
        for place in range(len(pages)):
            _lead_on(pages, place)
        first = min(now.date() - timedelta(days=SITE_DAYS - 1), latest.day)
        shown = {square.day for square in squares}
        days = (first + timedelta(days=ago) for ago in range((now.date() - first).days + 1))
        squares += [Square(day) for day in days if day not in shown]
        rows.append((latest, sorted(squares)[-SITE_DAYS:]))
    rows.sort(key=lambda row: (-COLOURS.index(row[0].shown_colour), row[0].colour != "red"))
    template = templates(autoescape=True).get_template("index.html.j2")
    write(index, template.render(rows=rows, now=now, mark=SITE_MARK))
    return index


def _square(night: Night, folder: Path) -> Square:
    summary = night.summary
    path = folder / f"{summary.system}-{summary.id}.html"
    changed = max(summary.ended, night.judged.time) if night.judged else summary.ended
    is_current = path.exists() and path.stat().st_mtime >= changed.timestamp()
    if is_current:  # and by what is on record of the night now
        with path.open("rb") as stream:
            is_current = f'content="{night.basis}"'.encode() in stream.read(_HEAD)
    if not is_current:
        _write_both(path, night)
    return Square(summary.day, path.name, summary.colour[0].upper(), summary.headline.banner)


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
    write(path, html(night.for_page))
    write(path.with_suffix(".json"), as_json(night.document))


def write_status_page(page: StatusPage, path: Path) -> Path:
    """Write the page for users; UserError."""
    template = templates(autoescape=True).get_template("status.html.j2")
    write(path, template.render(page=page, states=PublicState))
    return path


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
