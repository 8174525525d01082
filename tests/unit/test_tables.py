import io

from rich.console import Console
from unit.reported import HDF5, MPIIO, reported, session

from iowatch.night.gate import gate
from iowatch.tables import as_text, in_brief, show_night


def test_table_fits_a_hundred_columns_and_explains_what_is_red():
    red = reported(HDF5, result="fail", verdict="regression", sentence="ratio is 0.1")
    night = gate({HDF5, MPIIO}, session(red, reported(MPIIO)))
    console = Console(width=100, record=True, file=io.StringIO())
    show_night(night, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 100
    where = next(number for number, line in enumerate(lines) if line.endswith("regression"))
    assert lines[where + 1].strip() == "ratio is 0.1"
    assert lines[-1].startswith("red: 2 case(s) measured, 1 with a red verdict, 0 problem(s)")


def red_night():
    """HDF5 has regressed."""
    red = reported(HDF5, result="fail", verdict="regression", sentence="ratio is 0.1")
    return gate({HDF5, MPIIO}, session(red, reported(MPIIO)))


def test_known_failure_says_so_and_why():
    known = reported(HDF5, result="xfail", verdict="defect", sentence="slow (until 2027)")
    lines = as_text(gate({HDF5}, session(known))).splitlines()
    assert lines[1].endswith(" defect (known)")
    assert lines[2] == "    slow (until 2027)"
    assert lines[-1].startswith("green: ")


def test_one_alarm_takes_the_place_of_many_sentences():
    night = red_night()
    night.merged, night.notes = frozenset({HDF5}), ["fs3: 1 of 2 cases are slow"]
    text = as_text(night)
    assert "ratio is 0.1" not in text
    assert "\nnote: fs3: 1 of 2 cases are slow\n" in text
    assert " regression\n" in text


def test_text_has_no_control_characters():
    night = red_night()
    night.problems.append("[red]not[/red] markup")
    assert "[red]not[/red] markup" in as_text(night)
    assert as_text(night).replace("\n", "").isprintable()


def test_brief():
    night = red_night()
    assert in_brief(gate({MPIIO}, session(reported(MPIIO)))) == "green, 1 cases"
    assert in_brief(night) == "red, 1 of 2 cases"
    night.signal = 15
    night.problems.append("interrupted by SIGTERM")
    assert in_brief(night) == "red, interrupted, 1 of 2 cases, 1 problem(s)"
