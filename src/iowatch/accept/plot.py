"""How far each criterion is from what was committed, in one drawing.

Nothing that a check imports may import this module: it needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from iowatch.accept.criteria import Criterion
from iowatch.accept.judge import FAIL, OPEN, PASS, Finding
from iowatch.svg import STYLE, TEXT, as_svg

#: Told apart without colours, too; these are legible on white and on black (a PDF has no styles).
MARKERS = {PASS: ("o", "#009e73"), FAIL: ("X", "#d55e00"), OPEN: ("D", "#b07d00")}
_LONGEST = 20  # characters of a name
_FARTHEST = 32.0  # times as good, or as bad: what is beyond is drawn there


def drawing(findings: Mapping[Criterion, Finding]) -> str:
    """A row for each criterion with a measured value, as SVG; empty if none has one."""
    rows = {criterion: finding for criterion, finding in findings.items() if finding.measured}
    if not rows:
        return ""
    with matplotlib.rc_context(STYLE):
        height = 0.75 + 0.26 * len(rows)  # inches
        figure = Figure(figsize=(6.4, height))
        axes = figure.add_axes((0.3, 0.55 / height, 0.66, 1 - 0.6 / height))
        axes.axvline(1, color=TEXT, lw=1, ls="--", gid="committed")
        for place, (criterion, finding) in enumerate(rows.items()):
            marker, colour = MARKERS[finding.verdict]
            interval = [
                goodness(criterion, value)
                for value in (finding.low, finding.high)
                if value is not None
            ]
            axes.plot(interval, [place] * len(interval), color=colour, lw=2, gid="interval")
            assert finding.measured is not None
            measured = goodness(criterion, finding.measured)
            axes.plot([measured], [place], marker, color=colour, ms=7, gid="measured")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([_short(criterion.name) for criterion in rows], parse_math=False)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("log", base=2)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0.45), max(high, 2.2))
        axes.xaxis.set_major_locator(LogLocator(2, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(
            "times as good as committed (dashed), with the confidence interval", fontsize=9
        )
        return as_svg(figure, "margins")


def goodness(criterion: Criterion, value: float) -> float:
    """How many times as good as committed a value is: 1 is just enough."""
    ratio = max(value / criterion.committed, 1 / _FARTHEST)
    return min(ratio if criterion.at_least is not None else 1 / ratio, _FARTHEST)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
