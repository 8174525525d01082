"""Sessions that ReFrame stored, as of other times: past nights, earlier runs of a night.

They become nights of plain ReFrame: no word of `iowatch run` holds for what was changed since.
"""

import json
import shutil
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta

from iowatch.cases.run import night_id
from iowatch.past.history import PROMISE_KEY
from iowatch.past.words import FOLDER

STAMP = "%Y-%m-%dT%H%M%S"
HOUR = 3600
DAY = 24 * HOUR


def _run(database, statement, values=()):
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        return connection.execute(statement, values).fetchall()


def _read(database, session):
    ((text,),) = _run(database, "SELECT json_blob FROM sessions WHERE uuid = ?", [session])
    return json.loads(text)


def _unjudged(database, session):
    """What is stored of a session that nobody judged."""
    shutil.rmtree(database.parent / FOLDER, ignore_errors=True)
    return json.dumps(session)


def _add(database, session):
    name = session["session_info"]["uuid"] = str(uuid.uuid4())
    start = session["session_info"]["time_start_unix"]
    row = (name, start, start, _unjudged(database, session), "")
    _run(database, "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)


def _tests(session):
    return [test for run in session["runs"] for test in run["testcases"]]


def sessions(database):
    """The sessions' names, oldest first."""
    rows = _run(database, "SELECT uuid FROM sessions ORDER BY session_start_unix")
    return [name for (name,) in rows]


def forget(database, session):
    """Remove a session."""
    _run(database, "DELETE FROM sessions WHERE uuid = ?", [session])


def move(database, session, seconds):
    """Make a session one of so many seconds later, earlier if they are negative."""
    later = _read(database, session)
    info = later["session_info"]
    info["time_start_unix"] += seconds
    for test in _tests(later):
        test["job_completion_time_unix"] += seconds
        told = test.get("detector", {}).get("verdict", {})
        for name in told.keys() & {"since", "raised", "rerun_at"}:
            then = datetime.fromisoformat(told[name]) + timedelta(seconds=seconds)
            told[name] = then.isoformat()
        if test.get("kept") and not info.get("night"):
            # A session without an id is known by the name of its raw results.
            prefix, kept, case = test["kept"].rsplit("/", 2)
            then = datetime.strptime(f"{kept}+0000", f"{STAMP}%z") + timedelta(seconds=seconds)
            test["kept"] = f"{prefix}/{then:{STAMP}}/{case}"
    _add(database, later)
    forget(database, session)


def rewrite(database, session, change):
    """Store a session anew, after `change` was called with each of its tests."""
    stored = _read(database, session)
    stored["session_info"].pop(PROMISE_KEY, None)
    for test in _tests(stored):
        change(test)
    values = [_unjudged(database, stored), session]
    _run(database, "UPDATE sessions SET json_blob = ? WHERE uuid = ?", values)


def store(database, days, speed=1.0, environs=None, **changes):
    """Store the first session once more, as of now and so many days, as a night of its own;
    hdf5 had `speed` times its bandwidth, and so many times its ratio to MPI-IO.

    Only what ran in these environments, if any are named.
    """
    then = time.time() + days * DAY
    ((first,),) = _run(database, "SELECT uuid FROM sessions ORDER BY rowid LIMIT 1")
    session = _read(database, first)
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
    night = night_id(datetime.fromtimestamp(then, tz=UTC))
    session["session_info"].pop(PROMISE_KEY, None)
    session["session_info"].update(time_start_unix=then, night=night)
    _add(database, session)


def bless_a_month(site):
    """Make of the only session a month of nights, a month ago, and bless them; no night since."""
    (only,) = sessions(site.database)
    for days in range(-60, -30):
        store(site.database, days, speed=1 + 0.01 * (days % 3))
    forget(site.database, only)
    bless(site, -20)


def bless(site, days):
    """Bless all nights up to so many days from now."""
    done = site._run(
        "iowatch", "bless", "--system", "small", "--why", "quiet weeks", "--folder", site.folder,
        "--until", datetime.now(UTC).date() + timedelta(days),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
