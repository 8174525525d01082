"""The documentation site, of the pages in this folder and of the code itself: `make docs`."""

import sys
from pathlib import Path

from docutils import nodes

from iowatch import __version__

sys.path.insert(0, str(Path(__file__).parent))  # generated.py

project = "iowatch"
author = "iowatch developers"
release = __version__
extensions = ["myst_parser", "generated"]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4  # as a forge gives them
smartquotes = False  # two hyphens are an option

html_theme = "furo"
html_title = f"iowatch {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
html_static_path = ["static"]
html_css_files = ["tables.css"]

man_make_section_directory = True
man_pages = [
    ("reference/cli", "iowatch", "guards the parallel I/O of an HPC centre", author, 1),
    ("reference/benchio", "benchio", "measures parallel I/O, and verifies it", author, 1),
    ("reference/site", "iowatch-site", "keys of a site's file", author, 5),
    ("reference/contract", "iowatch-contract", "keys of a contract", author, 5),
    ("howto/runbook", "iowatch-runbook", "what to do about each verdict", author, 7),
]


def without_links(app, doctree, name):
    """A manual page names other pages, and leads to none."""
    if app.builder.name == "man":
        for link in [*doctree.findall(nodes.reference)]:
            if not link.get("refuri", "").startswith("http"):
                link.replace_self(link.children)


def setup(app):
    app.connect("doctree-resolved", without_links)
