"""Drawings of matplotlib as SVG to stand in a page, whose style sheet gives them their colours.

Nothing that a check imports may import this module: it needs matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

#: A stand-in, for matplotlib knows no names of a style sheet: one drawing serves light and dark.
TEXT = "#000001"

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": TEXT,
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.titley": 1.03,  # else looked for anew in each plot
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "path.simplify": False,  # every point stays
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def as_svg(figure: Figure, salt: str, names: Mapping[str, str] | None = None) -> str:
    """The figure as an element of a page.

    `salt` keeps its ids apart from those of others; `names` are the style sheet's, of stand-ins.
    """
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        FigureCanvasSVG(figure).print_svg(text, metadata=_NO_METADATA)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<defs>\s*<style.*?</defs>", "", svg, flags=re.DOTALL)  # of the whole page
    svg = re.sub(r' id="[a-z0-9.]+_\d+"', "", svg)  # matplotlib's own: the same in every plot
    svg = re.sub(r'<g id="([a-z-]+)"', r'<g class="\1"', svg)
    svg = re.sub(r' (d|x|y|transform)="[^"]*"', lambda place: _in_brief(place[0]), svg)
    svg = svg.replace("; font-family: 'DejaVu Sans', sans-serif", "")
    svg = re.sub(r">\s+<", "><", svg)
    for stand_in, name in {TEXT: "currentColor", **(names or {})}.items():
        svg = svg.replace(stand_in, name)
    return svg


def _in_brief(place: str) -> str:
    """The same place to a tenth of a point: half as long."""
    short = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", place)
    return short.replace(" \n", " ")
