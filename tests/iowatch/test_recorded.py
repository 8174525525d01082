"""What iowatch wrote before, in tests/data/recorded, is read as it was judged then."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from typer.testing import CliRunner

from iowatch import cli
from iowatch.past import hours

RECORDED = Path(__file__).parents[1] / "data/recorded"
NIGHTS = ["2026-11-27T215003", "2026-11-27T214932", "2026-11-27T214904"]  # the last one first
WHY = (
    "mpiio on memory: the stable rate is 10 of the usual 14 MiB/s; total_max is 10.83 MiB/s, below "
    "its bound of 900000 in small/small.yaml"
)
BEST = {"hdf5": [2.786, 2.819, 3.433], "mpiio": [10.948, 16.086, 10.433]}  # MiB/s


@pytest.fixture(params=["with runs in brief", "without"])
def iowatch(request, tmp_path, monkeypatch):
    """iowatch(*words): a command in the morning after; its exit code, and what it prints."""
    folder = shutil.copytree(RECORDED, tmp_path / "small")
    monkeypatch.setenv("RFM_PREFIX", str(folder / "run"))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(folder))
    if request.param == "without":
        (folder / "run/results.db.runs").unlink()

    def run(*words):
        with time_machine.travel(datetime(2026, 11, 28, 4, tzinfo=UTC)):
            done = CliRunner().invoke(cli.app, [*words, "--db", str(folder / "run/results.db")])
        assert not done.stderr
        return done.exit_code, done.stdout

    return run


def test_nights_are_as_they_were_judged(iowatch):
    code, text = iowatch("nights", "--system", "small", "--json")
    nights = json.loads(text)["nights"]
    assert (code, [night["id"] for night in nights]) == (0, NIGHTS)
    assert [night["colour"] for night in nights] == ["red", "green", "green"]
    assert [(night["measured"], night["red"]) for night in nights] == [(3, 2), (3, 0), (3, 0)]
    assert nights[0]["why"] == WHY
    assert iowatch("nights", "--check") == (0, "small: 3 nights checked, 0 faults\n")


def test_status_is_that_of_the_last_night(iowatch):
    code, text = iowatch("status")
    first, second = text.splitlines()
    assert code == 1
    assert first.startswith(f"small, night {NIGHTS[0]}: Red · memory · MPI-IO and HDF5 writes")
    assert second.strip() == WHY


def test_history_has_every_case_with_its_best_rate(iowatch):
    code, text = iowatch("history", "--json")
    assert code == 0
    rows = json.loads(text)["cases"]
    for backend, best in BEST.items():
        (row,) = (row for row in rows if f"/backend={backend}/" in row["case"])
        assert (row["nights"], round(row["best"], 3)) == (3, max(best))


def test_hours_have_all_calls():
    of_system = hours.read("small", [RECORDED / "run"], datetime(2026, 11, 28, tzinfo=UTC))
    assert [f"{hour.time:%H:%M:%S}" for hour in of_system] == ["21:49:25", "21:49:59"]
    assert [hour.filesystem for hour in of_system] == ["memory"] * 2
    assert {*of_system[0].calls} == {"create", "write", "stat", "open", "read", "list"}
