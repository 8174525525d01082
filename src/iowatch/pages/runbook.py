"""The runbook's sections on the reasons of a night, which stand on the page itself: a link to them
works in a mail, on a web server and without a network."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

from iowatch.base.places import ROOT

FILE = ROOT / "docs" / "howto" / "runbook.md"
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@cache
def sections() -> dict[str, str]:
    """Read the Markdown of each reason's section; none without the file."""
    try:
        text = FILE.read_text("utf-8")
    except OSError:
        return {}
    parts = re.split(r"^## `(\w+)`\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def as_html(markdown: str) -> Markup:
    """Write the paragraphs of a section; other pages are not beside the page, so links are text."""
    paragraphs = re.split(r"\n\s*\n", _LINK.sub(r"\1", markdown))
    return Markup("\n").join(Markup("<p>{}</p>").format(_paragraph(text)) for text in paragraphs)


def _paragraph(text: str) -> Markup:
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(" ".join(text.split()))))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code))
