"""The command on the documentation itself: docs."""

from __future__ import annotations

import sys

from iowatch.base.files import UserError
from iowatch.base.places import DOCUMENTATION, PAGES
from iowatch.cli.command import app, argument


@app.command("docs")
def docs_command(
    page: str = argument(
        "Page to open, such as runbook, or runbook#own_past.", default="index", metavar="PAGE"
    ),
) -> None:
    """Open a page of the documentation in a browser, and print its address.

    The pages need no network. Where there is no browser, read the manual pages: iowatch, benchio,
    iowatch-site, iowatch-contract and iowatch-runbook. Where `make docs` has built neither, the
    command prints the path of the page's Markdown.
    """
    import difflib
    import webbrowser

    name, _, anchor = page.partition("#")
    folder = DOCUMENTATION if [*DOCUMENTATION.glob("*.html")] else PAGES
    suffix = ".html" if folder == DOCUMENTATION else ".md"
    pages = [str(f.relative_to(folder).with_suffix("")) for f in folder.rglob(f"*{suffix}")]
    matching = [known for known in pages if f"/{known}".endswith(f"/{name}")]
    if not matching:
        near = difflib.get_close_matches(name, [known.rpartition("/")[2] for known in pages], 1)
        hint = f"is {near[0]} meant?" if near else f"there are {', '.join(sorted(pages))}"
        raise UserError(f"there is no page {name}: {hint}")
    file = folder / f"{matching[0]}{suffix}"
    if folder == PAGES:
        print(file)
        return
    address = file.as_uri() + (f"#{anchor}" if anchor else "")
    print(address)
    if sys.stdout.isatty():
        webbrowser.open(address)
