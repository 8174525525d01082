"""Sessions that ReFrame stored, as of other times: past nights, earlier jobs of a night."""

import json
import sqlite3
import uuid
from contextlib import closing
from statistics import median

HOUR = 3600
DAY = 24 * HOUR


def sessions(database):
    """The sessions' names, oldest first."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT uuid FROM sessions ORDER BY session_start_unix")
        return [name for (name,) in rows.fetchall()]


def copy(database, session, seconds):
    """Store a session once more, so many seconds later; earlier if they are negative."""
    with closing(sqlite3.connect(database)) as connection, connection:
        start, end, blob, site = connection.execute(
            "SELECT session_start_unix, session_end_unix, json_blob, report_file FROM sessions"
            " WHERE uuid = ?",
            [session],
        ).fetchone()
        row = (str(uuid.uuid4()), start + seconds, end + seconds, later(blob, seconds), site)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)


def move(database, session, seconds):
    """Make a session one of so many seconds later."""
    copy(database, session, seconds)
    forget(database, session)


def forget(database, session):
    """Remove a session."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM sessions WHERE uuid = ?", [session])


def later(blob, seconds):
    """A session's JSON with the times of its jobs so many seconds later."""
    session = json.loads(blob)
    for run in session["runs"]:
        for test in run["testcases"]:
            test["job_completion_time_unix"] += seconds
    return json.dumps(session)


def undisturbed(sessions):
    """The sessions, name -> case -> MiB/s, in which no case was below half of its median: `iowatch
    bless` would refuse many of the others."""
    rates = dict(sessions)
    while True:
        cases = {case for session in rates.values() for case in session}
        usual = {case: median(session[case] for session in rates.values()) for case in cases}
        worst = {
            name: min(session[case] / usual[case] for case in cases)
            for name, session in rates.items()
        }
        slowest = min(worst, key=worst.get)
        if worst[slowest] >= 0.5:
            return list(rates)
        del rates[slowest]
