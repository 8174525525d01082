"""Sessions that ReFrame stored, as of other times: past nights, earlier runs of a night."""

import json
import sqlite3
import uuid
from contextlib import closing
from datetime import datetime, timedelta

STAMP = "%Y-%m-%dT%H%M%S"
HOUR = 3600
DAY = 24 * HOUR


def sessions(database):
    """The sessions' names, oldest first."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT uuid FROM sessions ORDER BY session_start_unix")
        return [name for (name,) in rows.fetchall()]


def copy(database, session, seconds, night=None):
    """Store a session once more, so many seconds later, earlier if they are negative; as a part of
    this night if one is named."""
    with closing(sqlite3.connect(database)) as connection, connection:
        start, end, blob, site = connection.execute(
            "SELECT session_start_unix, session_end_unix, json_blob, report_file FROM sessions"
            " WHERE uuid = ?",
            [session],
        ).fetchone()
        later_blob = later(blob, seconds, night)
        row = (str(uuid.uuid4()), start + seconds, end + seconds, later_blob, site)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)


def move(database, session, seconds, night=None):
    """Make a session one of so many seconds later."""
    copy(database, session, seconds, night)
    forget(database, session)


def forget(database, session):
    """Remove a session."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM sessions WHERE uuid = ?", [session])


def later(blob, seconds, night=None):
    """A session's JSON with its times so many seconds later."""
    session = json.loads(blob)
    session["session_info"]["time_start_unix"] += seconds
    if night:
        session["session_info"]["night"] = night
    for run in session["runs"]:
        for test in run["testcases"]:
            test["job_completion_time_unix"] += seconds
            if test.get("kept") and not session["session_info"].get("night"):
                # A session without an id is known by the name of its raw results.
                prefix, kept, case = test["kept"].rsplit("/", 2)
                then = datetime.strptime(f"{kept}+0000", f"{STAMP}%z") + timedelta(seconds=seconds)
                test["kept"] = f"{prefix}/{then:{STAMP}}/{case}"
    return json.dumps(session)


def rewrite(database, session, change):
    """Store a session anew, after `change` was called with each of its tests."""
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT json_blob FROM sessions WHERE uuid = ?"
        stored = json.loads(connection.execute(query, [session]).fetchone()[0])
        for run in stored["runs"]:
            for test in run["testcases"]:
                change(test)
        connection.execute(
            "UPDATE sessions SET json_blob = ? WHERE uuid = ?", [json.dumps(stored), session]
        )


def undisturbed(sessions):
    """The sessions, name -> case -> MiB/s, in which no case was below half of its best in these:
    `iowatch bless` would refuse many of the others."""
    rates = dict(sessions)
    while True:
        cases = {case for session in rates.values() for case in session}
        best = {case: max(session[case] for session in rates.values()) for case in cases}
        worst = {
            name: min(session[case] / best[case] for case in cases)
            for name, session in rates.items()
        }
        slowest = min(worst, key=worst.get)
        if worst[slowest] >= 0.5:
            return list(rates)
        del rates[slowest]
