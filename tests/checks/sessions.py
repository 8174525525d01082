"""Sessions of other nights, made from one that the real ReFrame stored."""

import json
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta

from iowatch.run import night_id

DAY = 86400


def store(database, days, speed=1.0, environs=None, night=None, **changes):
    """Store the first session once more, as of now and so many days, and as a night of its own or
    as this one; hdf5 had `speed` times its bandwidth, and so many times its ratio to MPI-IO.

    Only what ran in these environments, if any are named.
    """
    then = time.time() + days * DAY
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT json_blob FROM sessions ORDER BY rowid LIMIT 1"
        session = json.loads(connection.execute(query).fetchone()[0])
        run = session["runs"][0]
        run["testcases"] = [
            test for test in run["testcases"] if not environs or test["environ"] in environs
        ]
        for test in run["testcases"]:
            test["job_completion_time_unix"] = then
            for name, entry in test["perfvalues"].items():
                if name.endswith((":ratio", ":total_max", ":stable_max")) and entry[0]:
                    entry[0] *= speed
            test.update(changes)
        name = str(uuid.uuid4())
        if night is None:
            night = night_id(datetime.fromtimestamp(then, tz=UTC))
        session["session_info"].update(uuid=name, time_start_unix=then, night=night)
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
    forget_first(site.database)
    done = site._run(
        "iowatch", "bless", "--system", "small", "--why", "quiet weeks", "--folder", site.folder,
        "--to", datetime.now(UTC).date() - timedelta(days=20),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
