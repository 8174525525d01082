"""The white paper's figures: every published value is on them, and a site's own beside it."""

import io
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from rich.console import Console

from iowatch.case import Case
from iowatch.commands.paper import show_table
from iowatch.paper import figures as paper
from iowatch.paper import plots as paper_plots
from iowatch.paper.figures import FIGURES, STATISTICS, of_table, own, published
from iowatch.paper.published import PublishedError, read_tables
from iowatch.past.history import Record

WHITE_PAPER = {str(number) for number in range(1, 22)}


def record(best=5000.0, day=1, system="archer", **changes):
    fields = {
        "partition": "fs3", "environ": "gnu", "operation": "write", "files": "shared",
        "backend": "mpiio", "stripe_count": -1, "stripe_size": 1, "local_size": (128, 128, 128),
        "writers": 48, **changes,
    }  # fmt: skip
    values = {f"total_{name}": best for name in STATISTICS}
    time = datetime(2026, 5, day, tzinfo=timezone.utc)
    return Record(Case(system, **fields), time, "ok", "", values, "a", "1")


def figure(number):
    return next(figure for figure in FIGURES if figure.number == number)


def drawn(drawing):
    """Every point of a drawing: (writers, MiB/s)."""
    (axes,) = drawing.axes
    return {(x, y) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}


def test_figures_4_to_21_show_all_tables():
    assert [figure.number for figure in FIGURES] == list(range(4, 22))
    assert {table for figure in FIGURES for table in figure.tables} == WHITE_PAPER


@pytest.mark.parametrize("number", range(4, 22))
def test_every_published_value_is_on_its_figure(number):
    shown = figure(number)
    rows = read_tables().to_dicts()
    expected = {
        (row["writers"], row[statistic])
        for row in rows
        if row["table"] in shown.tables
        for statistic in STATISTICS
        if row[statistic] is not None
    }
    drawing = paper_plots.draw(shown, published(shown))
    assert drawn(drawing) == expected
    (axes,) = drawing.axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("Writers", "log")
    assert axes.get_ylabel().lower().endswith("write bandwidth (mib/s)")
    paper_plots.plt.close(drawing)


def test_series_are_those_of_the_paper():
    assert [series.label for series in published(figure(15))] == [
        "MPI-IO, 1 stripe", "HDF5, 1 stripe", "NetCDF, 1 stripe",
        "MPI-IO, all stripes", "HDF5, all stripes", "NetCDF, all stripes",
    ]  # fmt: skip
    labels = [series.label for series in published(figure(14))]
    assert labels[:2] == ["1 benchmark", "2 at once, number 1"]
    hdf5 = published(figure(15))[4]
    assert hdf5.values["max"][hdf5.writers.index(576)] == pytest.approx(2096.1, abs=20)


def test_own_results_of_the_same_kind_lie_beside_them():
    records = [
        record(5000.0),
        record(6000.0, day=2),
        record(7000.0, writers=96),
        record(stripe_count=12),
        record(backend="hdf5"),
        record(local_size=(64, 64, 64)),
        record(files="process"),
        record(operation="read"),
        record(instances=2),
        replace(record(), figures={}),
    ]
    (series,) = own(figure(5), records)
    assert series.label == "archer:fs3, gnu, MPI-IO, all stripes of 1 MiB, 128x128x128"
    assert (series.is_own, series.writers) == (True, [48, 96])
    assert series.values["max"] == [6000.0, 7000.0], "the best night"
    assert series.values["median"] == [5500.0, 7000.0], "the median night"


def test_filesystem_without_stripes_lies_beside_any():
    plain = record(stripe_count=None, stripe_size=None, system="local", partition="disk")
    (series,) = own(figure(7), [plain])
    assert series.label == "local:disk, gnu, MPI-IO, 128x128x128"
    assert own(figure(10), [plain]) == [], "another library"


def test_files_are_the_same_each_time(tmp_path):
    files = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        shown = figure(20)
        files.append(paper_plots.save(paper_plots.draw(shown, published(shown)), shown, folder))
    assert [path.name for path in files[0]] == ["figure-20.svg", "figure-20.png"]
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()


def printed(table, records=()):
    console = Console(width=160, record=True, file=io.StringIO())
    show_table(of_table(table), list(records), console)
    return console.export_text()


def test_table_is_printed_beside_the_sites_own_numbers():
    text = printed("2", [record(5432.1)])
    assert "Table 2. ARCHER, MPI-IO, all stripes and 4; MiB/s" in text
    (row,) = [line for line in text.splitlines() if line.split()[1:2] == ["48"]]
    assert [word for word in row.split() if word.isdigit()] == [
        "48", "24", "581", "694", "1356", "5432", "5432", "5432", "5432",
    ]  # fmt: skip


def test_what_is_odd_about_a_table_is_said():
    assert "ARCHER's total for as many nodes" in " ".join(printed("15").split())


@pytest.mark.parametrize("table", ["0", "22", "E1", "x"])
def test_table_that_is_none_is_an_error(table):
    with pytest.raises(PublishedError, match="they are 1 to 21"):
        paper.of_table(table)


@pytest.mark.parametrize("table", sorted(WHITE_PAPER))
def test_every_table_can_be_printed(table):
    assert f"Table {table}. " in printed(table)
