"""The white paper's figures drawn: ranks on a logarithmic axis, bandwidth in MiB/s."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figures import FIGURES, Figure, Series, published
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from iowatch.base.files import UserError, whole

mpl.use("Agg")
STYLE: list[Any] = [
    "tableau-colorblind10",
    {
        "figure.figsize": (7.5, 4.6),
        "figure.dpi": 150,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "axes.axisbelow": True,
        "legend.fontsize": "small",
        "legend.title_fontsize": "small",
        "legend.handlelength": 3,  # in which dashes can be seen
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "iowatch",  # the same file each time
    },
]
MOST_TICKS = 14  # else powers of two
MOST_COLUMNS = 4  # of the legend
TITLE_WIDTH = 90  # characters of the legend's title that fit into a line
FORMATS = ("svg", "png")


def draw_all(site_series: Mapping[Figure, Sequence[Series]], folder: Path) -> Iterator[Path]:
    """Draw every figure with the site's own series; each path when it is written.

    UserError if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UserError(f"{folder} cannot be made: {err.strerror}") from None
    for figure in FIGURES:
        drawing = draw(figure, [*published(figure), *site_series[figure]])
        yield from save(drawing, figure, folder)


def draw(figure: Figure, series: Sequence[Series]) -> Drawing:
    """One figure with all its series; the site's own are dashed."""
    with plt.style.context(STYLE):
        drawing, axes = plt.subplots(layout="constrained")
        markers = cycle("osD^vP<>XhH8")  # besides colours, which a printer may not have
        for curve, marker in zip(series, markers, strict=False):
            _add(axes, curve, marker)
        axes.set_xscale("log", base=2)
        ticks = sorted({ranks for curve in series for ranks in curve.ranks})
        if len(ticks) <= MOST_TICKS:
            axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.tick_params(axis="x", rotation=45)
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Ranks")
        axes.set_ylabel(f"{_statistic(figure)} bandwidth (MiB/s)")
        tables = f"Table{'s' * (len(figure.tables) > 1)} {' and '.join(figure.tables)}"
        axes.set_title(f"Figure {figure.number}. {figure.title} ({tables})", fontsize="medium")
        _add_legend(drawing, figure, series)
    return drawing


def _add_legend(drawing: Drawing, figure: Figure, series: Sequence[Series]) -> None:
    """Below the axes; the drawing grows with it, so that they keep their size."""
    explained = []
    if len(figure.statistics) > 1:
        explained.append("line: median, bar: from minimum to maximum, cross: mean")
    if of_site := [curve for curve in series if curve.is_own]:
        explained.append(", ".join(filter(None, ["dashed: own results", of_site[0].shared])))
    title = "\n".join(textwrap.fill(text, TITLE_WIDTH) for text in explained)
    for columns in range(MOST_COLUMNS, 0, -1):
        legend = drawing.legend(loc="outside lower center", ncols=columns, title=title)
        box = legend.get_window_extent()
        if box.width <= drawing.bbox.width or columns == 1:
            break
        legend.remove()
    drawing.set_figheight(drawing.get_figheight() + box.height / drawing.dpi)


def _add(axes: Axes, series: Series, marker: str) -> None:
    style = "--" if series.is_own else "-"
    values = series.values
    if len(values) == 1:
        ((points),) = values.values()
        axes.plot(series.ranks, points, marker=marker, linestyle=style, label=series.label)
        return
    (line,) = axes.plot(
        series.ranks, values["median"], marker=marker, linestyle=style, label=series.label
    )
    colour = line.get_color()
    axes.vlines(series.ranks, values["min"], values["max"], colors=colour, alpha=0.5)
    for end in ("min", "max"):
        axes.plot(series.ranks, values[end], marker="_", linestyle="none", color=colour)
    axes.plot(series.ranks, values["mean"], marker="x", linestyle="none", color=colour)


def _statistic(figure: Figure) -> str:
    if len(figure.statistics) > 1:
        return "Write"
    return {"max": "Maximum write", "mean": "Mean write"}[figure.statistics[0]]


def save(drawing: Drawing, figure: Figure, folder: Path) -> list[Path]:
    """Write the figure in all FORMATS, each file whole or not at all; the paths.

    UserError if one cannot be written.
    """
    paths = [folder / f"figure-{figure.number:02}.{form}" for form in FORMATS]
    with plt.style.context(STYLE):
        for path, form in zip(paths, FORMATS, strict=True):
            metadata = {"Date": None} if form == "svg" else {"Software": None}
            with whole(path) as temporary:
                drawing.savefig(temporary, format=form, metadata=metadata)
    plt.close(drawing)
    return paths
