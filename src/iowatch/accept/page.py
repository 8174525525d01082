"""The dossier as a page: HTML, and PDF made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import jinja2

from iowatch.accept.criteria import KINDS, Contract, Criterion
from iowatch.accept.evidence import Evidence
from iowatch.accept.judge import FAIL, OPEN, PASS, REFUSED, Finding
from iowatch.accept.plot import drawing
from iowatch.errors import UserError
from iowatch.files import whole
from iowatch.numbers import brief

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
