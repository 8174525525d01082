"""The benches still measure what their tables have."""

import subprocess
import sys
from pathlib import Path

import pytest
from year_table import read_year

BENCHES = Path(__file__).parents[1] / "bench"


EVERY = (
    *("acceptance", "compare", "database", "detector"),
    *("detector_nodes", "hour_trials", "scale", "speed"),
)


@pytest.mark.parametrize("bench", EVERY)
def test_bench_measures(bench, benchio):
    command = [sys.executable, BENCHES / f"{bench}.py", "--smallest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|" in done.stdout or "│" in done.stdout, "a table"


def test_runs_of_one_day_are_its_reruns(tmp_path):
    table = tmp_path / "year.csv"
    table.write_text(
        "system,filesystem,application,start_utc,mib_s\n"
        "cori,fs1,ior,2017-02-19T21:00:00Z,700\n"
        "cori,fs1,ior,2017-02-19T01:24:03Z,500\n"
        "cori,fs1,ior,2017-02-18T01:28:03Z,900\n"
        "cori,fs1,hacc,2017-02-18T01:28:03Z,100\n"
    )
    series = read_year(table)
    assert {name: past.filesystem for name, past in series.items()} == {
        "cori/fs1/hacc": "cori/fs1", "cori/fs1/ior": "cori/fs1",
    }  # fmt: skip
    nights = [(past.night, [run.best for run in past.samples])
              for past in series["cori/fs1/ior"].nights]  # fmt: skip
    assert nights == [("2017-02-18", [900]), ("2017-02-19", [500, 700])]
