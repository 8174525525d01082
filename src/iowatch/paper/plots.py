"""The white paper's figures drawn: writers on a logarithmic axis, bandwidth in MiB/s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from iowatch.paper.figures import FIGURES, Figure, Series, own, published
from iowatch.past.history import Record

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
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "iowatch",  # the same file each time
    },
]
MOST_TICKS = 14  # else powers of two
FORMATS = ("svg", "png")


def draw_all(records: Sequence[Record], folder: Path) -> Iterator[Path]:
    """Draw every figure, with what these records say beside it; each path when it is written.

    OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        drawing = draw(figure, [*published(figure), *own(figure, records)])
        yield from save(drawing, figure, folder)


def draw(figure: Figure, series: Sequence[Series]) -> Drawing:
    """One figure with all its series; the site's own are dashed."""
    with plt.style.context(STYLE):
        drawing, axes = plt.subplots(layout="constrained")
        markers = cycle("osD^vP<>XhH8")  # besides colours, which a printer may not have
        for one, marker in zip(series, markers, strict=False):
            _add(axes, one, marker)
        axes.set_xscale("log", base=2)
        ticks = sorted({writers for one in series for writers in one.writers})
        if len(ticks) <= MOST_TICKS:
            axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.tick_params(axis="x", rotation=45)
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Writers")
        axes.set_ylabel(f"{_statistic(figure)} bandwidth (MiB/s)")
        tables = f"Table{'s' * (len(figure.tables) > 1)} {' and '.join(figure.tables)}"
        axes.set_title(f"Figure {figure.number}. {figure.title} ({tables})", fontsize="medium")
        axes.legend()
    return drawing


def _add(axes: Axes, series: Series, marker: str) -> None:
    style = "--" if series.is_own else "-"
    values = series.values
    if len(values) == 1:
        ((points),) = values.values()
        axes.plot(series.writers, points, marker=marker, linestyle=style, label=series.label)
        return
    (line,) = axes.plot(
        series.writers, values["median"], marker=marker, linestyle=style,
        label=f"{series.label}: median, from minimum to maximum",
    )  # fmt: skip
    colour = line.get_color()
    axes.vlines(series.writers, values["min"], values["max"], colors=colour, alpha=0.5)
    for end in ("min", "max"):
        axes.plot(series.writers, values[end], marker="_", linestyle="none", color=colour)
    axes.plot(
        series.writers, values["mean"], marker="x", linestyle="none", color=colour,
        label=f"{series.label}: mean",
    )  # fmt: skip


def _statistic(figure: Figure) -> str:
    if len(figure.statistics) > 1:
        return "Write"
    return {"max": "Maximum write", "mean": "Mean write"}[figure.statistics[0]]


def save(drawing: Drawing, figure: Figure, folder: Path) -> list[Path]:
    """Write the figure in all FORMATS; the paths."""
    paths = [folder / f"figure-{figure.number:02}.{form}" for form in FORMATS]
    with plt.style.context(STYLE):
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            drawing.savefig(path, metadata=metadata)
    plt.close(drawing)
    return paths
