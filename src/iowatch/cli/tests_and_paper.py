"""The commands of acceptance tests and of the white paper: accept, figures and references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iowatch import tables
from iowatch.cli.command import (
    Databases,
    ReferenceValues,
    app,
    of_system,
    one_line_errors,
    selected,
)
from iowatch.files import UserError
from iowatch.paper import published
from iowatch.places import made, reference_folder

TESTS_AND_PAPER = "Acceptance, and the white paper"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """What the block imports belongs to one of the package's extras."""
    try:
        yield
    except ModuleNotFoundError as err:
        raise UserError(
            f"{err.name} is missing: pip install {err.name}, or iowatch with its extra {extra!r}"
        ) from None


def _require_fitting(mode: str, given: Mapping[str, object]) -> None:
    """UserError if an option would be read and have no effect."""
    only, never = {"--contract", "--signers"}, set[str]()
    why = ""
    if mode == "--verify":
        only, never = set(), {"--exclusions", "--db", "--bundle"}
        why = "a bundle is judged by what is in it alone"
    elif mode == "--plan":
        never, why = {"--exclusions", "--bundle", "--sign", "--output"}, "nothing is judged"
    for option, value in given.items():
        if value and option in only:
            raise UserError(f"{option} goes with --verify: leave it out")
        if value and option in never:
            raise UserError(f"{option} does not go with {mode}: {why}: leave it out")


@app.command("accept", rich_help_panel=TESTS_AND_PAPER)
def accept_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CONTRACT",
            help="YAML file of what was agreed; docs/acceptance.md has its form. With --verify, "
            "the bundle of an acceptance test.",
        ),
    ],
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Say what the test will cost, and what it will be able to show. Nothing is run.",
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Judge a bundle again, by what is in it alone: no site, database or network.",
        ),
    ] = False,
    exclusions: Annotated[
        Path | None,
        typer.Option(help="YAML file of sessions that both sides exclude.", show_default="none"),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--sign",
            metavar="KEY",
            help="Sign the evidence with this file of an SSH key. May be repeated; with --verify, "
            "a signature is added.",
            show_default="nobody signs",
        ),
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option(
            help="With --verify: your own copy of the contract. The bundle's must be the same.",
            show_default="the bundle's own, whatever it says",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            help="With --verify: file of the keys that are known, as in ssh-keygen's ALLOWED "
            "SIGNERS. Whoever has signed must be in it.",
            show_default="any key may sign",
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="File to write the evidence to, one archive.", show_default="evidence.tar"
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            help="File to write the dossier to, .html or .pdf. May be repeated.",
            show_default="dossier.html and dossier.pdf; none with --verify",
        ),
    ] = None,
    db: Databases = None,
) -> None:
    """Judge an acceptance test by its contract: write the evidence and the dossier.

    Which sessions count is a matter of the contract's rules. The evidence is one archive with
    everything that the verdicts rest on. Whoever has it and iowatch comes to the same verdicts with
    --verify, and sees whether a byte of it was changed.

    The exit code is 0 if all criteria pass, 1 if not all of them do or if the verdicts on a bundle
    are not those that its maker was told, and 2 if nothing was judged, such as a bundle that was
    changed. With --plan it is 0 if the test can decide every criterion, and else 1.
    """
    from iowatch.acceptance import accept, dossier
    from iowatch.acceptance.criteria.base import PASS

    default = [] if verify else [Path("dossier.html"), Path("dossier.pdf")]
    outputs = output or default
    with one_line_errors():
        if plan and verify:
            raise UserError("--plan and --verify exclude each other: leave one of them out")
        _require_fitting(
            "--verify" if verify else "--plan" if plan else "",
            {
                "--contract": contract,
                "--signers": signers,
                "--exclusions": exclusions,
                "--db": db,
                "--bundle": bundle,
                "--sign": key,
                "--output": output,
            },
        )
        bundle = bundle or Path("evidence.tar")
        if plan:
            raise typer.Exit(0 if accept.plan(file, db or [], print) else 1)
        if wrong := [path for path in outputs if path.suffix not in dossier.FORMATS]:
            raise UserError(f"--output {wrong[0]}: is neither .html nor .pdf")
        if verify:
            judged, is_same = accept.verify(file, contract, signers, key or [], outputs, print)
        else:
            judged = accept.accept(file, exclusions, db or [], key or [], bundle, outputs, print)
            is_same = True
        for path in [*outputs, *([] if verify and not key else [file if verify else bundle])]:
            print(f"written: {path}")
    raise typer.Exit(0 if is_same and judged.overall == PASS else 1)


@app.command("figures", rich_help_panel=TESTS_AND_PAPER)
def figures_command(
    system: Annotated[
        str,
        typer.Option(
            help="Draw the results of this system, or of SYSTEM:PARTITION, on the figures as well.",
            show_default="none",
        ),
    ] = "",
    table: Annotated[
        str,
        typer.Option(
            help="Print this table, 1 to 21 of the paper or E1, IOR's in the exercises report, and "
            "draw nothing.",
            show_default="none",
        ),
    ] = "",
    output: Annotated[Path, typer.Option(help="Folder that the figures are written to.")] = Path(
        "figures"
    ),
    db: Databases = None,
) -> None:
    """Draw Figures 4 to 21 of the white paper as SVG and PNG, or print one of its tables."""
    from iowatch.paper import exercise, figures

    with one_line_errors():
        runs = of_system(system, selected(db, "")) if system else []
        if table == exercise.TABLE:
            tables.show_exercise(runs, Console(highlight=False))
            return
        if table:
            tables.show_table(figures.of_table(table), runs, Console(highlight=False))
            return
        with needs_extra("report"):
            from iowatch.paper import drawings
        own = {figure: figures.own(figure, runs) for figure in figures.FIGURES}
        for path in drawings.draw_all(own, output):
            print(path)
        if system:
            numbers = ", ".join(str(figure.number) for figure, series in own.items() if series)
            where = f"on figures {numbers}" if numbers else "on no figure: they show no such cases"
            typer.echo(f"results of {system} are {where}", err=True)


@app.command("references", rich_help_panel=TESTS_AND_PAPER)
def references_command(
    system: Annotated[str, typer.Argument(help="System of the published tables, such as archer.")],
    folder: ReferenceValues = None,
) -> None:
    """Write a system's reference values from the published tables."""
    with one_line_errors():
        print(published.write_references(system, folder or made(reference_folder())))
