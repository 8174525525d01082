"""The dossier as a page: HTML, and PDF made from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from iowatch.acceptance.bundle import Seal
from iowatch.acceptance.criteria.criterion import FAIL, OPEN, PASS, WORST_FIRST, Criterion, Finding
from iowatch.acceptance.evidence import away_in_words
from iowatch.files import UserError, brief, counted, one_line, whole
from iowatch.pages import svg
from iowatch.pages.svg import Axis, element, path, text

if TYPE_CHECKING:
    from iowatch.acceptance.accept import Judged

FORMATS = (".html", ".pdf")
SCRIPT = "rfm_job.sh"


def render(judged: Judged, seal: Seal, scripts: Mapping[str, str]) -> str:
    """The dossier as one self-contained HTML page; `scripts` are job scripts by their names."""
    loader = jinja2.PackageLoader("iowatch", "templates")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("dossier.html.j2")
    verdicts = [finding.verdict for finding in judged.findings.values()]
    provenance: dict[str, dict[str, None]] = {}
    for exhibit in judged.evidence.exhibits:
        for name, value in exhibit.provenance.items():
            provenance.setdefault(name, {})[value] = None

    def files_of(finding: Finding) -> list[tuple[str, str]]:
        """The files that a verdict rests on, with the SHA-256 of each."""
        folders = tuple(f"{run.folder}/" for run in finding.exhibits)
        return [(name, digest) for name, digest in seal.digests.items() if name.startswith(folders)]

    def script_of(finding: Finding) -> tuple[str, str] | None:
        """The name and text of the job script of the first run that a verdict rests on."""
        names = (f"{run.folder}/{SCRIPT}" for run in finding.exhibits)
        return next(((name, scripts[name]) for name in names if name in scripts), None)

    return template.render(
        judged=judged,
        contract=judged.contract,
        rules=judged.contract.rules,
        evidence=judged.evidence,
        drawing=drawing(judged.findings),
        counts=", ".join(f"{verdicts.count(v)} {v}" for v in WORST_FIRST if v in verdicts),
        provenance=dict(sorted(provenance.items())),
        seal=seal,
        files_of=files_of,
        script_of=script_of,
        brief=brief,
        away_in_words=away_in_words,
        degraded=list(_degraded(judged)),
    )


def summary(judged: Judged) -> Iterator[str]:
    """The title, the sessions, and a line with the verdict on every criterion. Text from the
    evidence makes no line of its own."""
    return map(one_line, _summary(judged))


def _summary(judged: Judged) -> Iterator[str]:
    yield judged.contract.title
    counting, others = judged.evidence.counting, judged.evidence.sessions
    wanted, began = judged.contract.rules.sessions, "%Y-%m-%d %H:%M UTC"
    yield f"{len(counting)} of {wanted} sessions count, of {len(others)} on record"
    yield from _degraded(judged)
    for session in others:
        if not session.counts:
            when = f"{session.began:{began}}"
            yield f"session {session.uuid} of {when} does not count: {session.why_not}"
    if replaced := judged.evidence.replaced:
        yield f"{counted(len(replaced), 'run', 'were')} replaced by re-runs; the dossier names them"
    for criterion, finding in judged.findings.items():
        line = f"{finding.verdict}: {criterion.name}: {criterion.in_words(finding.measured)}"
        if finding.low is not None and finding.high is not None:
            line += f" ({criterion.amount(finding.low)} to {criterion.amount(finding.high)})"
        line += f", {criterion.bound} {criterion.amount(criterion.committed)} committed"
        yield line + (f"; {finding.reason}" if finding.reason else "")


def _degraded(judged: Judged) -> Iterator[str]:
    """Say how many sessions count that were without OSTs, a sentence for each number of these."""
    wanted, evidence = judged.contract.rules.sessions, judged.evidence
    for condition in sorted({s.condition for s in evidence.sessions if s.counts and s.away}):
        without = " and ".join(f"{counted(osts, 'OST')} of {name}" for name, osts in condition)
        count = len(evidence.counting_with(condition))
        yield f"{count} of {wanted} sessions count that were without {without}"


def write(page: str, paths: Sequence[Path]) -> None:
    """Write the page as each suffix says: all of these files whole, or none; UserError."""
    with ExitStack() as files:
        for path in paths:
            _write(page, path, files.enter_context(whole(path)))


def _write(page: str, path: Path, temporary: Path) -> None:
    if path.suffix == ".html":
        temporary.write_text(page, "utf-8")
        return
    try:
        import weasyprint  # half a second that HTML does not need
    except ModuleNotFoundError as err:
        raise UserError(
            f"{path}: {err.name} is missing: pip install {err.name}, or iowatch with its extra "
            "'report'; the same dossier as .html needs neither"
        ) from None
    except OSError as err:  # a package of the system
        raise UserError(f"{path}: no PDF without the library Pango: {err}") from None
    weasyprint.HTML(string=page).write_pdf(temporary)


# Drawings. A PDF gives them no style sheet: what they look like stands in them.

#: Told apart without colours, too; these are legible on white and on black.
MARKERS = {
    PASS: ("M-2 0a2 2 0 0 0 4 0a2 2 0 0 0-4 0", "#009e73"),
    FAIL: ("M-3-3L3 3M-3 3L3-3", "#d55e00"),
    OPEN: ("M0-3L3 0L0 3L-3 0z", "#b07d00"),
}
_LOOK = {"fill": "currentColor", "font_family": "DejaVu Sans, sans-serif", "font_size": 10}
_STROKE = {"fill": "none", "stroke": "currentColor"}
_LONGEST = 20  # characters of a name
_FARTHEST = 32.0  # times as good, or as bad: what is beyond is drawn there
_LEFT, _RIGHT = 140, 392  # of the axis
_ROW = 18
_MARGIN = 1.15  # from the farthest values to the ends of the axis
_POWERS = 8  # of two, as many have room


def drawing(findings: Mapping[Criterion, Finding]) -> Markup | None:
    """Draw how many times as good as committed each measured value is, a row for each criterion
    with one; None if none has one."""
    times = {
        criterion: [
            _goodness(criterion, value)
            for value in (finding.measured, finding.low, finding.high)
            if value is not None
        ]
        for criterion, finding in findings.items()
        if finding.measured is not None
    }
    if not times:
        return None
    every = [value for values in times.values() for value in values]
    low, high = min(0.5, *every) / _MARGIN, max(2, *every) * _MARGIN
    place = Axis(low=low, high=high, begin=_LEFT, end=_RIGHT, scale=math.log2).place
    below = _ROW * len(times) + 6
    shapes = [
        path(f"M{place(1)} 0V{below}", class_="committed", stroke_dasharray="3.7 1.6", **_STROKE)
    ]
    for number, (criterion, values) in enumerate(times.items()):
        measured, *interval = map(place, values)
        marker, colour = MARKERS[findings[criterion].verdict]
        y = _ROW * (number + 0.5)
        shapes.append(text(_LEFT - 6, y + 3.5, _short(criterion.name), text_anchor="end"))
        marks = [path(marker, class_="measured", transform=f"translate({measured} {y})")]
        if interval:
            marks.insert(0, path(f"M{interval[0]} {y}H{interval[1]}", class_="interval"))
        shapes.append(element("g", *marks, fill=colour, stroke=colour, stroke_width=2))
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = 1 if len(powers) <= _POWERS else 2
    ticks = [(place(2.0**power), f"{2.0**power:g}") for power in powers if power % step == 0]
    axis = f"M{_LEFT} {below}H{_RIGHT}" + "".join(f"M{x} {below}v3" for x, _ in ticks)
    numbers = (text(x, below + 14, number) for x, number in ticks)
    unit = "times as good as committed (dashed), with the confidence interval"
    shapes += [
        path(axis, stroke_width=0.8, **_STROKE),
        element("g", *numbers, class_="ticks", text_anchor="middle"),
        text(_RIGHT, below + 28, unit, text_anchor="end", font_size=9),
    ]
    title = (
        "Each measured value against the committed one, with its confidence interval; the table "
        "has the numbers"
    )
    return svg.drawing(title, 400, below + 32, *shapes, **_LOOK)


def _goodness(criterion: Criterion, value: float) -> float:
    """Return how many times as good as committed a value is. 1 is just enough, and the axis ends at
    a very good or very bad value."""
    if value <= 0:
        return _FARTHEST if criterion.is_less_better else 1 / _FARTHEST
    return min(max(criterion.goodness(value), 1 / _FARTHEST), _FARTHEST)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
