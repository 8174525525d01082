"""The white paper's figures and tables: every published value is there, and a site's own beside it;
scripts/paper draws and prints them."""

import io
import re
from dataclasses import replace
from datetime import UTC, datetime

import drawings
import paper
import pytest
from cases import case
from figures import FIGURES, STATISTICS, of_table, published, site_series
from paper_tables import show_exercise, show_table
from refusals import assert_refused
from reported import reported, session, store
from rich.console import Console
from typer.testing import CliRunner

from iowatch.base.files import UserError
from iowatch.cases.run import Run
from iowatch.cases.verdict import OK, TOO_FAST
from iowatch.site.published import read_tables

ARE = "those of the white paper are 1 to 21, that of the exercises is E1"
WHITE_PAPER = {str(number) for number in range(1, 22)}
STRIPES = {"stripe_count": -1, "stripe_size": 1}


def run(best=5000.0, day=1, place="archer:fs3/gnu", check="SharedFileWrite", **values):
    """A run on all stripes, of MPI-IO and 48 ranks; None for a value: its case has none."""
    given = {"backend": "mpiio", "local_size": (128, 128, 128), "ranks": 48, **STRIPES, **values}
    measured = case(check, place, **{k: v for k, v in given.items() if v is not None})
    metrics = {f"total_{name}": best for name in STATISTICS}
    time = datetime(2026, 5, day, tzinfo=UTC)
    return Run(measured, time, OK, "", metrics, f"2026-05-{day:02}", "session")


def figure(number):
    return next(figure for figure in FIGURES if figure.number == number)


def test_every_published_value_is_on_its_figure():
    assert [shown.number for shown in FIGURES] == list(range(4, 22))
    assert {table for shown in FIGURES for table in shown.tables} == WHITE_PAPER
    kinds = {4: "Write", 5: "Write", 14: "Mean write"}
    for shown in FIGURES:
        expected = {
            (row["ranks"], row[statistic])
            for row in read_tables()
            if row["table"] in shown.tables
            for statistic in STATISTICS
            if row[statistic] is not None
        }
        points = {
            (ranks, rate)
            for series in published(shown)
            for rates in series.values.values()
            for ranks, rate in zip(series.ranks, rates, strict=True)
        }
        assert points == expected, shown.number
    for number in (5, 14, 21):  # the last has too many ranks for a tick each
        drawing = drawings.draw(figure(number), published(figure(number)))
        (axes,) = drawing.axes
        rates = {
            rate for one in published(figure(number)) for v in one.values.values() for rate in v
        }
        assert {y for line in axes.lines for y in line.get_ydata()} == rates
        assert (axes.get_xlabel(), axes.get_xscale()) == ("Ranks", "log")
        assert len(axes.get_xticks()) <= 14 + 2
        kind = kinds.get(number, "Maximum write")
        assert axes.get_ylabel() == f"{kind} bandwidth (MiB/s)"
        assert {line.get_linestyle() for line in axes.lines} <= {"-", "None"}, "of the paper"
        drawings.plt.close(drawing)


def test_series_are_those_of_the_paper(golden):
    lines = []
    for shown in FIGURES:
        labels = "; ".join(series.label for series in published(shown))
        titles = "; ".join(of_table(table).title for table in shown.tables)
        lines.append(f"Figure {shown.number}, {shown.title}\n    {labels}\n    tables: {titles}\n")
    golden("series.txt", "".join(lines))


PLAIN = {"stripe_count": None, "stripe_size": None}
OTHERS = [
    run(stripe_count=12),
    run(backend="hdf5"),
    run(local_size=(64, 64, 64)),
    run(check="FilePerProcess", files="process"),
    run(check="SharedFileRead"),
    run(check="SystemLoad", instances=2),
    run(check="IorPeer", files="shared"),
    run(collective=False),
    run(hints=(("cb_nodes", "4"),)),
    replace(run(), metrics={}),
    replace(run(9000.0), outcome=TOO_FAST),
]
#: A figure, and own results that may lie on it.
OWN = {
    "of the same kind in two nights": (
        5,
        [run(5000.0), run(6000.0, day=2), run(7000.0, ranks=96)],
    ),
    "of other kinds": (5, OTHERS),
    "not striped": (7, [run(place="local:disk/gnu", **PLAIN)]),
    "not striped, another library": (10, [run(place="local:disk/gnu", **PLAIN)]),
    "the default layout is none of the stripes of a row": (5, [run(**PLAIN, layout="default")]),
    "the default layout where a row states none": (18, [run(**PLAIN, layout="default")]),
    "what tells them apart": (
        18,
        [
            run(place=f"archer:{partition}/gnu", backend=backend, stripe_size=size, pool=pool)
            for partition, backend, size, pool in (
                ("fs2", "hdf5", 1, None),
                ("fs3", "hdf5", 1, None),
                ("fs3", "mpiio", 4, None),
                ("fs3", "mpiio", 4, "flash"),
            )
        ],
    ),
    "no mean": (14, [replace(run(local_size=(256,) * 3), metrics={"total_max": 5000.0})]),
    "a maximum": (9, [replace(run(local_size=(256,) * 3), metrics={"total_max": 5000.0})]),
}


def test_own_results_of_the_same_kind_lie_beside_them(golden):
    """The least minimum of all nights, the greatest maximum, and the median night."""
    lines = []
    for name, (number, runs) in OWN.items():
        lines.append(f"{name}, on figure {number}:\n")
        for series in site_series(figure(number), runs):
            assert series.is_own
            lines.append(f"    {series.label} (in common: {series.shared}) {series.ranks}\n")
            lines += [f"        {name} {values}\n" for name, values in series.values.items()]
    golden("own-series.txt", "".join(lines))


def test_own_series_are_dashed_and_the_legend_lies_below_axes_that_keep_their_size():
    """However many series there are."""
    shown, sizes = figure(18), []
    many = [
        run(place=f"archer:filesystem-{n}/environ-{n}", backend=backend)
        for n in range(30)
        for backend in ("mpiio", "hdf5")
    ]
    for runs in ([], many):
        theirs = site_series(shown, runs)
        series = [*published(shown), *theirs]
        drawing = drawings.draw(shown, series)
        drawing.canvas.draw()
        (axes,), (legend,) = drawing.axes, drawing.legends
        below, box = axes.get_tightbbox(), legend.get_window_extent()
        assert box.y1 <= below.y0
        assert box.y0 >= 0
        assert 0 <= box.x0 < box.x1 <= drawing.bbox.width
        assert [text.get_text() for text in legend.get_texts()] == [one.label for one in series]
        styles = [line.get_linestyle() for line in axes.lines]
        assert styles == ["-"] * len(published(shown)) + ["--"] * len(theirs)
        title = legend.get_title().get_text()
        assert title.startswith("dashed: own results, all stripes") == bool(theirs)
        sizes.append(axes.get_window_extent().size)
        drawings.plt.close(drawing)
    assert len(series) > 30
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)


def test_files_are_the_same_each_time(tmp_path):
    shown, files = figure(20), []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        paths = drawings.save(drawings.draw(shown, published(shown)), shown, folder)
        files.append({path.name: path.read_bytes() for path in paths})
    assert files[0] == files[1]
    assert list(files[0]) == ["figure-20.svg", "figure-20.png"]


# Tables


def printed(table, runs=(), width=160):
    console = Console(width=width, record=True, file=io.StringIO())
    show_table(of_table(table), list(runs), console)
    return console.export_text()


def test_tables_are_printed_beside_the_sites_own_numbers(golden):
    """Table 15 has an odd row; nothing of Table 14's kind has been measured."""
    tables = {"2": [run(5432.1)], "15": [], "14": [run(backend="posix", files="process",
              check="FilePerProcess")]}  # fmt: skip
    golden("tables.txt", "\n".join(printed(table, runs) for table, runs in tables.items()))


@pytest.mark.parametrize("width", [20, 80])
def test_numbers_are_never_cut(width):
    """There is a column of each filesystem, below a letter that the list explains."""
    runs = [run(1e6 + n, place=f"archer:filesystem-{n}/gnu") for n in range(30)]
    text = printed("2", runs, width)
    for n in range(30):
        assert text.split().count(f"{1e6 + n:.0f}") == len(STATISTICS)
    headings = re.findall(r"^ +(a .*|[b-z] .*|a[a-e] .*)$", text, re.MULTILINE)
    listed = re.findall(r"^([a-z]+): (?:archer: filesystem-\d+|all stripes)$", text, re.MULTILINE)
    assert " ".join(headings).split() == [letter for letter in listed for _ in STATISTICS]
    assert len(set(listed)) == 31
    rows = [line for line in text.splitlines() if line.startswith(" ")]
    assert max(map(len, rows)) <= max(width, 7 + 4 * 9)


def test_every_table_can_be_printed_and_no_other():
    for table in WHITE_PAPER:
        assert of_table(table).tables == (table,)
    wanted = [
        (table, "are 1 to 21, that of the exercises is E1$") for table in ("0", "22", "E2", "x")
    ]
    assert_refused(UserError, of_table, wanted)


def test_exercise_3_is_one_table_with_the_sites_own_rows(golden):
    """The best of each program over the nights, what it writes beside what it reads."""
    where = {"place": "c3hpc:nfs/gnu", "stripe_count": None, "stripe_size": None}

    def peer(check, ior, rate, day=1, **values):
        given = {"check": check, "day": day, "files": "shared", **where, **values}
        name = "stable_max" if check == "IorPeer" else "total_max"
        return replace(run(**given), metrics={"ior_max": ior, name: rate})

    runs = [
        peer("IorPeer", 310.0, 320.0),
        peer("IorPeer", 340.0, 300.0, day=2),
        peer("IorPeerRead", 410.0, 420.0),
        peer("IorPeer", 610.0, 620.0, backend="posix", files="process"),
        peer("IorPeer", 11.0, 12.0, backend="posix", local_size=(5876, 8, 8), io500="hard"),
        replace(peer("IorPeer", 9e9, 9e9), outcome=TOO_FAST),
        run(**where),
    ]
    shown = io.StringIO()
    for measured in (runs, [run()]):
        show_exercise(measured, Console(file=shown, width=100))
    golden("exercise-3.txt", shown.getvalue())


# The command


def draw(*words):
    return CliRunner().invoke(paper.app, ["figures", *map(str, words)])


def test_figures_are_drawn_and_a_table_is_printed(tmp_path, monkeypatch):
    """What a user gets wrong is one line, and nothing is drawn."""
    database, folder, file = tmp_path / "nights.db", tmp_path / "drawn", tmp_path / "file"
    shown = [run(day=day, ranks=ranks) for day in (1, 2) for ranks in (48, 96)]
    store(database, session(*(reported(made.case, made.time, 5000.0) for made in shown)))
    file.touch()
    unknown = ("--system", "nosuch", "--db", database, "--output", folder)
    nothing = "--system nosuch: nothing is on record of it, only of archer"
    for words, why in (
        (unknown, nothing),
        ((*unknown, "--table", "2"), nothing),
        (("--table", "22"), f"no table '22': {ARE}"),
        ((*unknown, "--table", "E1"), nothing),
        (("--output", file), f"{file} cannot be made: File exists"),
    ):
        done = draw(*words)
        assert (str(done.exception), done.stdout) == (why, ""), words
    assert not folder.exists()
    monkeypatch.setattr(drawings, "FIGURES", [figure(18), figure(20)])
    done = draw("--system", "archer", "--db", database, "--output", folder)
    assert done.exit_code == 0
    files = {str(path) for path in folder.iterdir()}
    assert set(done.stdout.split()) == files
    assert len(files) == 2 * 2
    assert done.stderr == "results of archer are on figures 5, 7, 16, 17, 18, 19, 21\n"
    done = draw("--system", "archer:fs3", "--db", database, "--table", "2")
    assert (done.exit_code, "b: archer\n" in done.stdout) == (0, True)
    other = run(backend="pnetcdf"), run(place="other:fs3/gnu", backend="netcdf")
    monkeypatch.setattr(paper, "selected", lambda db, case: other)
    done = draw("--system", "archer", "--output", folder)
    assert done.stderr == "results of archer are on no figure: they show no such cases\n"
