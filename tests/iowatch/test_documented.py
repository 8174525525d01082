"""What the documents print does what they say."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reported import HDF5, reported, session, store

from iowatch.run import night_id

ROOT = Path(__file__).parents[2]


def run(commands, folder, **environment):
    """Commands as a reader types them, with this iowatch; what they print."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_iowatch_would_have_said_of_past_nights(tmp_path):
    """Also if several of them began on one day."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    commands = re.search(
        r"`(iowatch history [^`]*)` and `(iowatch backtest [^`]*)`", readme
    ).groups()
    last, database = datetime.now(UTC), tmp_path / "results.db"
    begun = [last - timedelta(hours=7 * ago) for ago in range(40, 0, -1)]
    store(database, *(
        session(reported(HDF5, time, 500.0), uuid=f"{time}", began=time, night=night_id(time))
        for time in begun
    ))  # fmt: skip
    said = run("\n".join(commands), tmp_path, RFM_SQLITE_DB_FILE=str(database))
    assert [json.loads(line)["night"] for line in said.splitlines()] == [
        night_id(time) for time in begun[30:]
    ]
