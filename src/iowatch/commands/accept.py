"""`iowatch accept`: the dossier of a procurement's acceptance test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from iowatch.commands.common import Databases, needs_extra, one_line_errors
from iowatch.reframe_site import UsageError, cases, filesystems, results_database
from iowatch.sweep import ACCEPTANCE

if TYPE_CHECKING:
    from iowatch.accept.criteria import Contract, Criterion
    from iowatch.accept.judge import Finding


def accept(
    contract: Annotated[Path, typer.Argument(help="YAML of the contractual criteria.")],
    session: Annotated[
        list[str] | None,
        typer.Option(
            help="UUID of an acceptance session (`reframe --list-stored-sessions`), may be "
            "repeated: their repetitions add up.",
            show_default="the last one",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(help=".html or .pdf, may be repeated.", show_default="dossier.html, .pdf"),
    ] = None,
    db: Databases = None,
) -> None:
    """Judge an acceptance run by a contract, and write the dossier.

    Exit code: 0 all criteria pass, 1 not all, 2 no dossier was written.
    """
    outputs = output or [Path("dossier.html"), Path("dossier.pdf")]
    with one_line_errors(), needs_extra("report"):
        from iowatch.accept import certify, criteria, evidence
        from iowatch.accept import page as dossier_page
        from iowatch.accept.judge import PASS

        if wrong := [path for path in outputs if path.suffix not in dossier_page.FORMATS]:
            raise UsageError(f"--output {wrong[0]}: is neither .html nor .pdf")
        agreed = criteria.read(contract)
        places = filesystems(agreed.system)
        databases = db or [results_database()]
        used, unused = evidence.acceptance_sessions(databases, agreed.system, session or [])
        found = evidence.collect(used, places, unused)
        findings = certify.certify(agreed, found, cases(places, ACCEPTANCE), places)
        show(agreed, findings, Console(highlight=False))
        peaks = {place.name: place.peak for place in places}
        dossier_page.write(dossier_page.render(agreed, findings, found, peaks), outputs)
        for path in outputs:
            print(f"written: {path}")
    raise typer.Exit(0 if dossier_page.overall(findings) == PASS else 1)


def show(
    contract: Contract,
    findings: dict[Criterion, Finding],
    console: Console,
) -> None:
    """Print the verdict on every criterion."""
    from iowatch.accept.page import figure

    console.print(contract.title, style="bold", markup=False)
    for criterion, finding in findings.items():
        bound = "at least" if criterion.at_least is not None else "at most"
        line = f"{finding.verdict}: {criterion.name}: {figure(criterion, finding.measured)}"
        if finding.low is not None:
            low, high = (figure(criterion, end) for end in (finding.low, finding.high))
            line += f" ({low} to {high})"
        line += f", {bound} {figure(criterion, criterion.committed)} committed"
        line += f"; {finding.reason}" if finding.reason else ""
        console.print(line, soft_wrap=True, markup=False)
