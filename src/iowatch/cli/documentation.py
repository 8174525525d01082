"""The command on the documentation itself: docs."""

from __future__ import annotations

import sys

from iowatch.cli.command import app, argument
from iowatch.files import UserError
from iowatch.places import DOCUMENTATION


@app.command("docs")
def docs_command(
    page: str = argument(
        "Page to open, such as runbook, or runbook#own_past.", default="index", metavar="PAGE"
    ),
) -> None:
    """Open a page of the documentation in a browser, and print its address.

    The pages need no network. Where there is no browser, read the manual pages: iowatch, benchio,
    iowatch-site, iowatch-contract and iowatch-runbook.
    """
    import difflib
    import webbrowser

    name, _, anchor = page.partition("#")
    files = sorted(DOCUMENTATION.rglob("*.html"))
    if not files:
        raise UserError(
            f"there is no documentation in {DOCUMENTATION}: run `make docs` in a checkout"
        )
    pages = [str(file.relative_to(DOCUMENTATION).with_suffix("")) for file in files]
    matching = [known for known in pages if f"/{known}".endswith(f"/{name}")]
    if not matching:
        near = difflib.get_close_matches(name, [known.rpartition("/")[2] for known in pages], 1)
        hint = f"is {near[0]} meant?" if near else f"there are {', '.join(pages)}"
        raise UserError(f"there is no page {name}: {hint}")
    address = (DOCUMENTATION / f"{matching[0]}.html").as_uri() + (f"#{anchor}" if anchor else "")
    print(address)
    if sys.stdout.isatty():
        webbrowser.open(address)
