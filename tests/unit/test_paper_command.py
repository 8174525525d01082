"""`iowatch figures`: the tables it prints, and what it says."""

import io
import re
from datetime import date

import pytest
from browser.simulated import SYSTEM, Year
from rich.console import Console
from typer.testing import CliRunner
from unit.test_paper import WHITE_PAPER, record

from iowatch.cli import app
from iowatch.paper import drawings as paper_plots
from iowatch.paper import figures as paper
from iowatch.paper.figures import FIGURES, STATISTICS, of_table
from iowatch.paper.published import PublishedError
from iowatch.tables import show_table


def printed(table, records=(), width=160):
    console = Console(width=width, record=True, file=io.StringIO())
    show_table(of_table(table), list(records), console)
    return console.export_text()


def test_table_is_printed_beside_the_sites_own_numbers():
    text = printed("2", [record(5432.1)])
    assert "Table 2. ARCHER, MPI-IO, all stripes; MiB/s" in text
    assert "a: all stripes\nb: archer\n" in text
    (row,) = [line for line in text.splitlines() if line.split()[:1] == ["48"]]
    assert row.split() == ["48", "24", "581", "694", "1356", "5432", "5432", "5432", "5432"]
    assert "none" not in text


def test_table_says_that_no_own_results_are_of_its_kind():
    assert "own results: none is of this table's kind" in printed("2", [record(backend="hdf5")])


@pytest.mark.parametrize("width", [20, 80])
def test_numbers_are_never_cut(width):
    records = [record(1e6 + n, partition=f"filesystem-{n}") for n in range(30)]
    text = printed("2", records, width)
    assert "…" not in text
    for n in range(30):
        assert text.split().count(f"{1e6 + n:.0f}") == len(STATISTICS)
    headings = re.findall(r"^ +(a .*|[b-z] .*|a[a-e] .*)$", text, re.MULTILINE)
    letters = [letter for line in headings for letter in line.split()]
    listed = re.findall(r"^([a-z]+): (?:archer: filesystem-\d+|all stripes)$", text, re.MULTILINE)
    assert letters == [letter for letter in listed for _ in STATISTICS]
    assert len(set(letters)) == 31
    rows = [line for line in text.splitlines() if line.startswith(" ")]
    assert max(map(len, rows)) <= max(width, 7 + 4 * 9)


def test_title_is_that_of_the_table():
    assert "Table 14. Cirrus, all stripes; MiB/s" in printed("14")
    for shown in FIGURES:
        titles = {of_table(table).title for table in shown.tables}
        assert len(titles) == len(shown.tables)
        assert len(shown.tables) == 1 or shown.title not in titles


def test_what_is_odd_about_a_table_is_said():
    assert "ARCHER's total for as many nodes" in " ".join(printed("15").split())


@pytest.mark.parametrize("table", ["0", "22", "E1", "x"])
def test_table_that_is_none_is_an_error(table):
    with pytest.raises(PublishedError, match="they are 1 to 21"):
        paper.of_table(table)


@pytest.mark.parametrize("table", sorted(WHITE_PAPER))
def test_every_table_can_be_printed(table):
    assert f"Table {table}. " in printed(table)


@pytest.fixture
def year(tmp_path):
    database = tmp_path / "year.db"
    Year(2, 4, date(2026, 5, 31), has_faults=False).store(database)
    return database


def run(*words):
    return CliRunner().invoke(app, ["figures", *map(str, words)])


@pytest.mark.parametrize("table", [(), ("--table", "2")])
def test_unknown_system_is_an_error_in_one_line(year, tmp_path, table):
    done = run("--system", "nosuch", "--db", year, "--output", tmp_path / "drawn", *table)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "iowatch: error: --system nosuch: nothing is on record of it, only of archer\n"
    )
    assert not (tmp_path / "drawn").exists()


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("mpiio", "on figures 5, 7, 16, 18, 19, 21"),
        ("pnetcdf", "on no figure: they show no such cases"),
    ],
)
def test_it_says_which_figures_have_own_results(monkeypatch, tmp_path, kind, where):
    records = [record(backend=kind), record(system="other", backend="netcdf")]
    monkeypatch.setattr("iowatch.cli.selected", lambda db, case: records)
    monkeypatch.setattr(paper_plots, "draw_all", lambda own, folder: iter([folder]))
    done = run("--system", "archer", "--output", tmp_path)
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}\n")
    assert done.stderr == f"results of archer are {where}\n"


def test_all_figures_are_drawn(year, tmp_path):
    done = run("--system", SYSTEM, "--db", year, "--output", tmp_path / "drawn")
    assert done.exit_code == 0
    drawn_files = {str(path) for path in (tmp_path / "drawn").iterdir()}
    assert set(done.stdout.split()) == drawn_files
    assert len(drawn_files) == 2 * len(FIGURES)


def test_folder_that_cannot_be_made_is_an_error_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = run("--output", tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr == f"iowatch: error: {tmp_path / 'file'} cannot be made: File exists\n"
