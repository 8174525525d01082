"""The dossier as a page: HTML, and PDF made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import jinja2
import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from iowatch.acceptance.certify import FAIL, OPEN, PASS, REFUSED, Finding
from iowatch.acceptance.contract import KINDS, Contract, Criterion
from iowatch.acceptance.evidence import Evidence
from iowatch.files import UserError, brief, whole
from iowatch.svg import STYLE, TEXT, as_svg

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
    for job in evidence.jobs:
        for name, value in job.conditions.items():
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
        jobs=sorted(evidence.jobs, key=lambda job: str(job.case)),
        peaks={name: peaks[name] for name in sorted({c.filesystem for c in findings} & set(peaks))},
        describe=describe,
        brief=brief,
        figure=figure,
    )


def summary(contract: Contract, findings: Mapping[Criterion, Finding]) -> Iterator[str]:
    """The title, and a line with the verdict on every criterion."""
    yield contract.title
    for criterion, finding in findings.items():
        bound = "at least" if criterion.at_least is not None else "at most"
        line = f"{finding.verdict}: {criterion.name}: {figure(criterion, finding.measured)}"
        if finding.low is not None:
            low, high = (figure(criterion, end) for end in (finding.low, finding.high))
            line += f" ({low} to {high})"
        line += f", {bound} {figure(criterion, criterion.committed)} committed"
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


def figure(criterion: Criterion, value: float | None) -> str:
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
MARKERS = {PASS: ("o", "#009e73"), FAIL: ("X", "#d55e00"), OPEN: ("D", "#b07d00")}
_LONGEST = 20  # characters of a name
_FARTHEST = 32.0  # times as good, or as bad: what is beyond is drawn there


def drawing(findings: Mapping[Criterion, Finding]) -> str:
    """A row for each criterion with a measured value, as SVG; empty if none has one."""
    rows = {criterion: finding for criterion, finding in findings.items() if finding.measured}
    if not rows:
        return ""
    with matplotlib.rc_context(STYLE):
        height = 0.75 + 0.26 * len(rows)  # inches
        figure = Figure(figsize=(6.4, height))
        axes = figure.add_axes((0.3, 0.55 / height, 0.66, 1 - 0.6 / height))
        axes.axvline(1, color=TEXT, lw=1, ls="--", gid="committed")
        for place, (criterion, finding) in enumerate(rows.items()):
            marker, colour = MARKERS[finding.verdict]
            interval = [
                goodness(criterion, value)
                for value in (finding.low, finding.high)
                if value is not None
            ]
            axes.plot(interval, [place] * len(interval), color=colour, lw=2, gid="interval")
            assert finding.measured is not None
            measured = goodness(criterion, finding.measured)
            axes.plot([measured], [place], marker, color=colour, ms=7, gid="measured")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([_short(criterion.name) for criterion in rows], parse_math=False)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("log", base=2)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0.45), max(high, 2.2))
        axes.xaxis.set_major_locator(LogLocator(2, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(
            "times as good as committed (dashed), with the confidence interval", fontsize=9
        )
        return as_svg(figure, "margins")


def goodness(criterion: Criterion, value: float) -> float:
    """How many times as good as committed a value is: 1 is just enough."""
    ratio = max(value / criterion.committed, 1 / _FARTHEST)
    return min(ratio if criterion.at_least is not None else 1 / ratio, _FARTHEST)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
