"""The white paper's figures: every published value is on them, and a site's own beside it."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from iowatch.case import Case
from iowatch.files import UserError
from iowatch.history import Record
from iowatch.importers.runs import IMPORTED
from iowatch.paper import drawings as paper_plots
from iowatch.paper.figures import FIGURES, STATISTICS, own, published
from iowatch.paper.published import read_tables

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
    kind = {4: "Write", 5: "Write", 14: "Mean write"}.get(number, "Maximum write")
    assert axes.get_ylabel() == f"{kind} bandwidth (MiB/s)"
    assert {line.get_linestyle() for line in axes.lines} <= {"-", "None"}, "of the paper"
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
    assert series.label == "archer"
    assert series.shared == "fs3, gnu, MPI-IO, all stripes, stripe size 1 MiB, 128x128x128"
    assert (series.is_own, series.writers) == (True, [48, 96])
    assert series.values["min"] == [5000.0, 7000.0], "the worst night"
    assert series.values["max"] == [6000.0, 7000.0], "the best night"
    assert series.values["median"] == [5500.0, 7000.0], "the median night"


def test_filesystem_without_stripes_lies_beside_any():
    plain = record(stripe_count=None, stripe_size=None, system="local", partition="disk")
    (series,) = own(figure(7), [plain])
    assert (series.label, series.shared) == (
        "local",
        "disk, gnu, MPI-IO, not striped, 128x128x128",
    )
    assert own(figure(10), [plain]) == [], "another library"


def test_labels_say_what_tells_own_series_apart():
    records = [
        record(partition=partition, backend=backend, stripe_size=size)
        for partition, backend, size in (
            ("fs2", "hdf5", 1),
            ("fs3", "hdf5", 1),
            ("fs3", "mpiio", 4),
        )
    ]
    series = own(figure(18), records)
    assert [one.label for one in series] == [
        "archer: fs2, HDF5, stripe size 1 MiB",
        "archer: fs3, HDF5, stripe size 1 MiB",
        "archer: fs3, MPI-IO, stripe size 4 MiB",
    ]
    assert {one.shared for one in series} == {"gnu, all stripes, 128x128x128"}


def test_imported_results_are_a_series_of_their_own():
    old = replace(record(9000.0), verdict=IMPORTED)
    verified, imported = own(figure(5), [old, record(5000.0, day=2)])
    assert (verified.label, verified.values["max"]) == ("archer", [5000.0])
    assert (imported.label, imported.values["max"]) == ("archer, imported", [9000.0])
    (alone,) = own(figure(5), [old])
    assert alone.label == "archer, imported"


def test_results_without_the_figures_statistic_are_not_on_it():
    old = replace(record(local_size=(256, 256, 256)), figures={"total_max": 5000.0})
    assert own(figure(9), [old])
    assert own(figure(14), [old]) == [], "it shows means"


@pytest.mark.parametrize("number", [5, 20])
def test_own_series_are_dashed(number):
    case = record(local_size=(256, 256, 256) if number == 20 else (128, 128, 128))
    (series,) = own(figure(number), [case])
    drawing = paper_plots.draw(figure(number), [series])
    (axes,) = drawing.axes
    assert {line.get_linestyle() for line in axes.lines} - {"None"} == {"--"}
    (legend,) = drawing.legends
    assert f"dashed: own results, {series.shared}" in legend.get_title().get_text()
    paper_plots.plt.close(drawing)


@pytest.mark.parametrize("number", [5, 18, 21])
def test_legend_lies_below_axes_that_keep_their_size(number):
    """However many series there are."""
    shown, sizes = figure(number), []
    many = [
        record(partition=f"filesystem-{n}", environ=f"environ-{n}", backend=backend)
        for n in range(30)
        for backend in ("mpiio", "hdf5")
    ]
    for records in ([], many):
        series = [*published(shown), *own(shown, records)]
        drawing = paper_plots.draw(shown, series)
        drawing.canvas.draw()
        (axes,), (legend,) = drawing.axes, drawing.legends
        below, box = axes.get_tightbbox(), legend.get_window_extent()
        assert box.y1 <= below.y0
        assert box.y0 >= 0
        assert 0 <= box.x0 < box.x1 <= drawing.bbox.width
        assert [text.get_text() for text in legend.get_texts()] == [one.label for one in series]
        sizes.append(axes.get_window_extent().size)
        paper_plots.plt.close(drawing)
    assert len(series) > 30
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)


def test_files_are_the_same_each_time(tmp_path):
    files = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        shown = figure(20)
        files.append(paper_plots.save(paper_plots.draw(shown, published(shown)), shown, folder))
    assert [path.name for path in files[0]] == ["figure-20.svg", "figure-20.png"]
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("message", [(27, "File too large"), ("no more",)])
def test_file_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path, message):
    (tmp_path / "figure-20.png").write_text("old")
    drawing = paper_plots.draw(figure(20), published(figure(20)))
    savefig = drawing.savefig

    def fail_half_way(path, **options):
        if options["format"] == "svg":
            savefig(path, **options)
            return
        path.write_text("half")
        raise OSError(*message)

    drawing.savefig = fail_half_way
    with pytest.raises(UserError, match=rf"figure-20\.png: cannot be written: {message[-1]}$"):
        paper_plots.save(drawing, figure(20), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"figure-20.svg", "figure-20.png"}
    assert (tmp_path / "figure-20.png").read_text() == "old"
    paper_plots.plt.close(drawing)
