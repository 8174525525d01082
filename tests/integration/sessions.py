"""Sessions of other nights, made from one that the real ReFrame stored."""

import json
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import date, timedelta

DAY = 86400


def store(database, days, speed=1.0, **changes):
    """Store the first session once more, as of now and so many days; hdf5 had `speed` times its
    bandwidth, and so many times its ratio to MPI-IO."""
    then = time.time() + days * DAY
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT json_blob FROM sessions ORDER BY rowid LIMIT 1"
        session = json.loads(connection.execute(query).fetchone()[0])
        for test in session["runs"][0]["testcases"]:
            test["job_completion_time_unix"] = then
            for name, entry in test["perfvalues"].items():
                if name.endswith((":ratio", ":total_max")) and entry[0]:
                    entry[0] *= speed
            test.update(changes)
        name = str(uuid.uuid4())
        session["session_info"].update(uuid=name, time_start_unix=then)
        row = (name, then, then, json.dumps(session), "")
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)


def forget_first(database):
    """Remove the session that the others were made from; the first of them takes its place."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM sessions WHERE rowid = (SELECT min(rowid) FROM sessions)")


def bless_a_month(site):
    """Make of the only session a month of nights, a month ago, and bless them; no night since."""
    for days in range(-60, -30):
        store(site.database, days, speed=1 + 0.01 * (days % 3))
    forget_first(site.database)  # or tonight would have two jobs, and the best of them counts
    (site.folder / "small.yaml").write_text("SharedFileWrite: {$index: [case_id]}\n")
    done = site._run(
        "iowatch", "bless", "--system", "small", "--why", "quiet weeks", "--folder", site.folder,
        "--to", date.today() - timedelta(days=20),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    site.references = (site.folder / "small.yaml").read_text()
