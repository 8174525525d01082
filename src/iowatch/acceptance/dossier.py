"""The dossier as a page: HTML, and PDF made from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jinja2

from iowatch.acceptance.certify import FAIL, OPEN, PASS, REFUSED, Finding
from iowatch.acceptance.contract import KINDS, Contract, Criterion
from iowatch.acceptance.evidence import Evidence
from iowatch.files import UserError, brief, whole

FORMATS = (".html", ".pdf")
#: Worst first.
ORDER = (REFUSED, FAIL, OPEN, PASS)


def overall(findings: Mapping[Criterion, Finding]) -> str:
    """The verdict on the contract: the worst of any criterion."""
    return min((finding.verdict for finding in findings.values()), key=ORDER.index)


def render(
    contract: Contract,
    findings: Mapping[Criterion, Finding],
    evidence: Evidence,
    peaks: Mapping[str, float],
) -> str:
    """The dossier as one self-contained HTML page; `peaks` are the filesystems', MiB/s."""
    loader = jinja2.PackageLoader("iowatch", "templates")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("dossier.html.j2")
    verdicts = [finding.verdict for finding in findings.values()]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in ORDER if verdict in verdicts]
    conditions: dict[str, list[str]] = {}
    for exhibit in evidence.exhibits:
        for name, value in exhibit.conditions.items():
            values = conditions.setdefault(name, [])
            if value not in values:
                values.append(value)
    return template.render(
        contract=contract,
        findings=findings.items(),
        drawing=drawing(findings),
        overall=overall(findings),
        counts=", ".join(counts),
        conditions=dict(sorted(conditions.items())),
        sessions=evidence.sessions,
        unused=evidence.unused,
        invalid=evidence.invalid,
        faults=evidence.faults,
        builds=evidence.builds,
        exhibits=sorted(evidence.exhibits, key=lambda one: str(one.case)),
        peaks={name: peaks[name] for name in sorted({c.filesystem for c in findings} & set(peaks))},
        describe=describe,
        brief=brief,
        amount=amount,
    )


def summary(contract: Contract, findings: Mapping[Criterion, Finding]) -> Iterator[str]:
    """The title, and a line with the verdict on every criterion."""
    yield contract.title
    for criterion, finding in findings.items():
        bound = "at least" if criterion.at_least is not None else "at most"
        line = f"{finding.verdict}: {criterion.name}: {amount(criterion, finding.measured)}"
        if finding.low is not None:
            low, high = (amount(criterion, end) for end in (finding.low, finding.high))
            line += f" ({low} to {high})"
        line += f", {bound} {amount(criterion, criterion.committed)} committed"
        yield line + (f"; {finding.reason}" if finding.reason else "")


def describe(criterion: Criterion) -> str:
    """What a criterion is about, in words."""
    where = f"{criterion.operation} {criterion.files}, {criterion.backend}, {criterion.filesystem}"
    if criterion.kind == "scaling":
        where += f", {criterion.from_nodes} to {criterion.to_nodes} nodes"
    elif criterion.kind != "slow_ost":
        nodes = criterion.nodes
        where += f", {nodes} node{'s' * (nodes > 1)}" if nodes else ", best of all cases"
    return f"{criterion.kind.replace('_', ' ')} ({where}), {KINDS[criterion.kind]}"


def amount(criterion: Criterion, value: float | None) -> str:
    """A value as people write it."""
    if value is None:
        return "-"
    return f"{brief(value)} MiB/s" if criterion.kind == "bandwidth" else f"{100 * value:.1f} %"


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
            goodness(criterion, value)
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


def goodness(criterion: Criterion, value: float) -> float:
    """How many times as good as committed a value is: 1 is just enough."""
    ratio = min(max(value / criterion.committed, 1 / _FARTHEST), _FARTHEST)
    return ratio if criterion.at_least is not None else 1 / ratio


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
