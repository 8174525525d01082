"""The white paper's figures, tables and reference values: `python scripts/paper/paper.py --help`.

It runs in iowatch's own environment, `.venv/bin/python` of a checkout. To draw, it needs matplotlib
besides: the extra `test` has it, or `pip install matplotlib` brings it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bounds
import exercise
import figures
import paper_tables
import typer

from iowatch.base.files import UserError
from iowatch.base.places import made, prepared, reference_folder
from iowatch.cli.command import (
    Databases,
    ReferenceValues,
    argument,
    commands,
    of_system,
    option,
    output,
    screen,
    selected,
)

app = commands(help="The white paper's figures, tables and reference values.")


@app.command("figures")
def figures_command(
    system: str = option(
        "Draw the results of this system, or of SYSTEM:PARTITION, on the figures as well.",
        default="",
        show_default="none",
    ),
    table: str = option(
        "Print this table, 1 to 21 of the paper or E1, IOR's in the exercises report, and "
        "draw nothing.",
        default="",
        show_default="none",
    ),
    folder: Path = output("Folder that the figures are written to.", default=Path("figures")),
    db: Databases = None,
) -> None:
    """Draw Figures 4 to 21 of the white paper as SVG and PNG, or print one of its tables."""
    runs = of_system(system, selected(db, "")) if system else []
    if table == exercise.TABLE:
        paper_tables.show_exercise(runs, screen())
        return
    if table:
        paper_tables.show_table(figures.of_table(table), runs, screen())
        return
    try:
        import drawings
    except ModuleNotFoundError as err:
        raise UserError(f"{err.name} is missing: pip install {err.name}") from None
    site_series = {figure: figures.site_series(figure, runs) for figure in figures.FIGURES}
    for path in drawings.draw_all(site_series, folder):
        print(path)
    if system:
        drawn = (figure for figure, series in site_series.items() if series)
        numbers = ", ".join(str(figure.number) for figure in drawn)
        where = f"on figures {numbers}" if numbers else "on no figure: they show no such cases"
        typer.echo(f"results of {system} are {where}", err=True)


@app.command("references")
def references_command(
    system: str = argument("System of the published tables, such as archer.", metavar="SYSTEM"),
    folder: ReferenceValues = None,
) -> None:
    """Write a system's reference values from the published tables."""
    print(bounds.write_references(system, folder or made(reference_folder())))


def main() -> None:
    """Run a command; what a user gets wrong is a line."""
    try:
        with prepared():
            app(prog_name="paper.py")
    except UserError as err:
        sys.exit(f"paper.py: error: {err}")


if __name__ == "__main__":
    main()
