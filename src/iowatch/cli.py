"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

import typer

from iowatch.commands import accept, night, paper, past, report
from iowatch.onboarding.command import site

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def iowatch() -> None:
    """Guard the parallel I/O of an HPC centre."""


app.command()(night.nightly)
app.command()(night.suspects)
app.command()(past.history)
app.command("import")(past.import_)
app.command()(past.bless)
app.command("backtest")(past.backtest_)
app.command()(report.report)
app.command()(paper.references)
app.command()(paper.figures)
app.command()(accept.accept)
app.add_typer(site, name="site")
