"""The benches still measure what their tables have."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize(
    "bench",
    [
        "acceptance",
        "compare",
        "database",
        "detector",
        "detector_nodes",
        "hour_trials",
        "scale",
        "speed",
    ],
)
def test_bench_measures(bench, benchio):
    command = [sys.executable, BENCHES / f"{bench}.py", "--smallest"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|" in done.stdout or "│" in done.stdout, "a table"
