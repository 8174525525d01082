"""The dossier as a page: HTML, and PDF made from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jinja2

from iowatch.acceptance.certify import WORST_FIRST, Judged
from iowatch.acceptance.criteria.base import FAIL, OPEN, PASS, Criterion, Finding
from iowatch.acceptance.evidence import away_in_words
from iowatch.files import UserError, brief, counted, one_line, whole

FORMATS = (".html", ".pdf")
SCRIPT = "rfm_job.sh"


@dataclass(frozen=True)
class Seal:
    """By what the evidence is known again."""

    manifest: str  # SHA-256 of the list of its files
    digests: Mapping[str, str]  # file -> SHA-256
    signers: Sequence[str] = ()  # a sentence on each


def render(judged: Judged, seal: Seal, scripts: Mapping[str, str]) -> str:
    """The dossier as one self-contained HTML page; `scripts` are job scripts by their names."""
    loader = jinja2.PackageLoader("iowatch", "templates")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("dossier.html.j2")
    findings, evidence = judged.findings, judged.evidence
    verdicts = [finding.verdict for finding in findings.values()]
    counts = [
        f"{verdicts.count(verdict)} {verdict}" for verdict in WORST_FIRST if verdict in verdicts
    ]
    conditions: dict[str, list[str]] = {}
    for exhibit in evidence.exhibits:
        for name, value in exhibit.conditions.items():
            values = conditions.setdefault(name, [])
            if value not in values:
                values.append(value)
    return template.render(
        contract=judged.contract,
        rules=judged.contract.rules,
        exclusions=judged.exclusions,
        findings=findings.items(),
        drawing=drawing(findings),
        charts={
            criterion: charts
            for criterion, finding in findings.items()
            if (charts := list(charts_of(judged, criterion, finding)))
        },
        overall=judged.overall,
        counts=", ".join(counts),
        conditions=dict(sorted(conditions.items())),
        evidence=evidence,
        seal=seal,
        files_of=lambda finding: files_of(finding, seal.digests),
        script_of=lambda finding: script_of(finding, scripts),
        brief=brief,
        amount=_amount,
        away_in_words=away_in_words,
        degraded=list(_degraded(judged)),
    )


def files_of(finding: Finding, digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """The files that a verdict rests on, with the SHA-256 of each."""
    folders = tuple(f"{one.folder}/" for one in finding.exhibits)
    return [(name, digest) for name, digest in digests.items() if name.startswith(folders)]


def script_of(finding: Finding, scripts: Mapping[str, str]) -> tuple[str, str] | None:
    """The name and text of the job script of the first run that a verdict rests on."""
    names = [f"{one.folder}/{SCRIPT}" for one in finding.exhibits]
    return next(((name, scripts[name]) for name in names if name in scripts), None)


def summary(judged: Judged) -> Iterator[str]:
    """The title, the sessions, and a line with the verdict on every criterion: what somebody else
    has written into the evidence makes no line of its own."""
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
        line = f"{finding.verdict}: {criterion.name}: {_amount(criterion, finding.measured)}"
        if finding.low is not None and finding.high is not None:
            line += f" ({criterion.amount(finding.low)} to {criterion.amount(finding.high)})"
        line += f", {criterion.bound} {criterion.amount(criterion.committed)} committed"
        yield line + (f"; {finding.reason}" if finding.reason else "")


def _degraded(judged: Judged) -> Iterator[str]:
    """How many sessions count that were without OSTs, a sentence for each number of these."""
    wanted, evidence = judged.contract.rules.sessions, judged.evidence
    for condition in sorted(
        {one.condition for one in evidence.sessions if one.counts and one.away}
    ):
        without = " and ".join(f"{counted(osts, 'OST')} of {name}" for name, osts in condition)
        count = len(evidence.counting_with(condition))
        yield f"{count} of {wanted} sessions count that were without {without}"


def _amount(criterion: Criterion, value: float | None) -> str:
    """A value as people write it; a dash for none."""
    return "-" if value is None else criterion.amount(value)


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


#: Told apart without colours, too; these are legible on white and on black (a PDF has no styles).
MARKERS = {
    PASS: ("M-2 0a2 2 0 0 0 4 0a2 2 0 0 0-4 0", "#009e73"),
    FAIL: ("M-3-3L3 3M-3 3L3-3", "#d55e00"),
    OPEN: ("M0-3L3 0L0 3L-3 0z", "#b07d00"),
}
_LONGEST = 20  # characters of a name
_FARTHEST = 32.0  # times as good, or as bad: what is beyond is drawn there
_LEFT, _RIGHT = 140, 392  # of the axis, in units of the drawing
_ROW = 18
_POWERS = 8  # of two, as many have room


@dataclass(frozen=True)
class Place:
    """Where on the drawing a criterion stands."""

    name: str
    y: float
    marker: str  # a path
    colour: str
    measured: float
    interval: Sequence[float]  # both ends, or nothing


@dataclass(frozen=True)
class Drawing:
    """Where on an axis of powers of two each measured value stands."""

    rows: Sequence[Place]
    ticks: Sequence[tuple[float, str]]
    committed: float
    left: ClassVar = _LEFT
    right: ClassVar = _RIGHT

    @property
    def axis(self) -> int:
        """Below the rows."""
        return _ROW * len(self.rows) + 6


def drawing(findings: Mapping[Criterion, Finding]) -> Drawing | None:
    """A row for each criterion with a measured value; None if none has one."""
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
    low, high = math.log2(min(0.5, *every)) - 0.2, math.log2(max(2, *every)) + 0.2

    def place(value: float) -> float:
        return round(_LEFT + (math.log2(value) - low) / (high - low) * (_RIGHT - _LEFT), 1)

    powers = range(math.ceil(low), math.floor(high) + 1)
    step = 1 if len(powers) <= _POWERS else 2
    rows = []
    for number, (criterion, values) in enumerate(times.items()):
        measured, *interval = map(place, values)
        marker, colour = MARKERS[findings[criterion].verdict]
        y = _ROW * (number + 0.5)
        rows.append(Place(_short(criterion.name), y, marker, colour, measured, interval))
    ticks = [(place(2.0**power), f"{2.0**power:g}") for power in powers if power % step == 0]
    return Drawing(rows, ticks, place(1))


def _goodness(criterion: Criterion, value: float) -> float:
    """How many times as good as committed a value is; 1 is just enough, and an axis has ends."""
    if value <= 0:
        return _FARTHEST if criterion.is_less_better else 1 / _FARTHEST
    return min(max(criterion.goodness(value), 1 / _FARTHEST), _FARTHEST)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


# Curves


@dataclass(frozen=True)
class Level:
    """A line that is not measured: committed, a peak, linear scaling."""

    name: str
    ends: tuple[tuple[float, float], tuple[float, float]]
    dashes: str
    label_y: float


@dataclass(frozen=True)
class Chart:
    """Measured points over sessions or over nodes, in units of the drawing."""

    title: str
    x_label: str
    points: Sequence[tuple[float, float]]
    colour: str
    levels: Sequence[Level]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    left: ClassVar = 62
    right: ClassVar = 300  # of the points; names of lines stand beside them
    top: ClassVar = 8
    bottom: ClassVar = 110

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{x} {y}" for x, y in self.points)


_DASHES = ("3.7 1.6", "1 2", "6 2 1 2")
_HIGHEST = 1.05  # of the axis, times the highest value
_NAME_HEIGHT = 11.0
_TICKS = 6  # of the axis of y, at most


def charts_of(judged: Judged, criterion: Criterion, finding: Finding) -> Iterator[Chart]:
    """What each session said against what was committed; of a scaling also the rate over nodes."""
    storage = judged.contract.filesystems[criterion.filesystem]
    colour = MARKERS.get(finding.verdict, MARKERS[OPEN])[1]
    values = [(float(n), value) for n, value in enumerate(finding.values.values(), start=1)]
    if values:
        lines = {"committed": (criterion.committed, criterion.committed)}
        if ceiling := criterion.ceiling(storage):
            lines["peak"] = (ceiling, ceiling)
        title = f"{criterion.name}: each session that judges"

        def number(value: float) -> str:
            return criterion.amount(value).split(" ")[0]

        yield _chart(title, "session", colour, values, (0.5, len(values) + 0.5), lines, number)
    if not values or not (curve := criterion.curve(judged.evidence, finding.values)):
        return
    ends = (curve.points[0][0], curve.points[-1][0])
    lines = {**curve.lines}
    if storage.peak:
        lines["peak"] = (storage.peak, storage.peak)
    title = f"{criterion.name}: MiB/s over the number of nodes"
    yield _chart(title, "nodes", colour, curve.points, ends, lines, brief)


def _chart(
    title: str,
    x_label: str,
    colour: str,
    points: Sequence[tuple[float, float]],
    ends: tuple[float, float],
    lines: Mapping[str, tuple[float, float]],
    in_words: Callable[[float], str],
) -> Chart:
    """From measured points, and from lines by their values at both ends of the axis of x; that of y
    begins at 0."""
    highest = _HIGHEST * max(*(y for _, y in points), *(max(line) for line in lines.values()))
    width = ends[1] - ends[0] or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - ends[0]) / width * (Chart.right - Chart.left)
        up = y / highest * (Chart.bottom - Chart.top)
        return round(Chart.left + right, 1), round(Chart.bottom - up, 1)

    levels: list[Level] = []
    highest_first = sorted(lines.items(), key=lambda line: -line[1][1])
    for (name, (left, right)), dashes in zip(highest_first, _DASHES, strict=False):
        first, last = place(ends[0], left), place(ends[1], right)
        above = levels[-1].label_y + _NAME_HEIGHT if levels else 0.0
        levels.append(Level(name, (first, last), dashes, max(last[1] + 3.5, above)))
    power = 10 ** math.floor(math.log10(highest))
    step = next(part * power for part in (0.2, 0.5, 1, 2) if highest / (part * power) <= _TICKS)
    y_ticks = [number * step for number in range(int(highest / step) + 1)]
    return Chart(
        title,
        x_label,
        [place(*point) for point in points],
        colour,
        levels,
        [(place(x, 0)[0], f"{x:g}") for x, _ in points],
        [(place(ends[0], y)[1], in_words(y)) for y in y_ticks],
    )
