"""The exercises of the report "IO Benchmarks", as docs/explanation/papers.md has them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_exercises_run_as_they_are_written(tmp_path):
    """On this machine, with real benchio, and with IOR and Darshan where they are."""
    page = (ROOT / "docs/explanation/papers.md").read_text()
    exercises = re.findall(r"^```sh\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert len(exercises) == 4
    prefix = tmp_path / "run"
    (prefix / "runs").mkdir(parents=True)
    environment = {**os.environ, "RFM_PREFIX": str(prefix)}
    said = []
    for exercise in exercises:
        commands = exercise.replace("results/runs", f"{prefix}/runs")
        done = subprocess.run(
            ["bash", "-c", f"source env.sh && set -e\n{commands}"],
            cwd=ROOT, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, exercise + done.stdout + done.stderr
        assert "0 failure(s)" in done.stdout
        said.append(done.stdout)
    gathered, posix, ior, darshan = said
    # And benchio itself, which is built first.
    for output, cases in ((gathered, 4), (posix, 2)):
        assert f"Ran {cases + 1}/{cases + 1} test case(s)" in output
    results = sorted(prefix.glob("runs/*/*/result.json"))
    assert len(results) >= 6, "what each of them has written is kept"
    assert re.search(r"c3hpc:lustre \(report\).*N to N.*748.*674", ior), ior
    if shutil.which("ior"):
        assert re.search(r"local:disk.*N to 1.*NCMPI", ior), ior
    else:
        assert "there is no ior" in ior
    if not (shutil.which("darshan-config") or os.environ.get("DARSHAN_LIBRARY")):
        assert "there is no darshan-config" in darshan
