"""The command line: `iowatch nightly --system local`."""

from __future__ import annotations

from collections.abc import Callable

import typer

from iowatch.commands import accept, night, paper, past, report
from iowatch.onboarding.command import site

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # which fills paragraphs
)


@app.callback()
def iowatch() -> None:
    """Guard the parallel I/O of an HPC centre: measure, verify, judge, report.

    A new site: iowatch site new, then iowatch nightly --record; iowatch bless once a case has 20
    good nights.

    Every night, from cron: iowatch nightly, and some hours later iowatch nightly --again. Each ends
    with the path of a page; iowatch report makes one of an earlier night.

    A procurement: iowatch nightly --sweep acceptance, then iowatch accept.

    Environment: RFM_CONFIG_FILES names the configuration of the site (env.sh sets it), RFM_PREFIX
    the folder of results, RFM_REFERENCE_PREFIX that of reference values.

    Exit code: 0 all is well, 1 something is red or refused, 2 a mistake in what was given; each
    command says what else.
    """


#: Panel of the help -> its commands.
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Every night": {
        "nightly": night.nightly,
        "suspects": night.suspects,
        "report": report.report,
    },
    "The past": {
        "history": past.history,
        "import": past.import_,
        "bless": past.bless,
        "backtest": past.backtest_,
    },
    "Acceptance, and the white paper": {
        "accept": accept.accept,
        "figures": paper.figures,
        "references": paper.references,
    },
}
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
app.add_typer(site, name="site", rich_help_panel="Sites")
