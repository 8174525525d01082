"""Nights that ReFrame's own storage puts into a results database, as one was really measured.

usage: year.py TEMPLATE DATABASE NIGHTS CASES [FIRST [TIMEOUT]]

Every case of every night is the first valid one of TEMPLATE's first session, with its bandwidths
and times varied by 10 %. FIRST is the number of the first night; the storage waits TIMEOUT seconds
for a lock. In a process of its own, since ReFrame has one configuration in each.
"""

import json
import random
import sqlite3
import sys
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from iowatch.run import night_id
from iowatch.verdict import Outcome

DAY = 86400
START = 1_790_000_000  # of night 0, in seconds since 1970


def read_template(database):
    """A session, and a test of it with metrics."""
    with closing(sqlite3.connect(database)) as connection:
        ((text,),) = connection.execute("SELECT json_blob FROM sessions ORDER BY rowid LIMIT 1")
    session = json.loads(text)
    tests = (test for run in session["runs"] for test in run["testcases"])
    return session, next(
        test for test in tests if test.get("perfvalues") and str(Outcome.read(test)) == "ok"
    )


def report(session, test, night, cases):
    """What ReFrame would store of a night."""
    rng = random.Random(night)
    name, start = str(uuid.UUID(int=rng.getrandbits(128))), START + night * DAY
    case, ranks = test["case_id"].rsplit("=", 1)
    tests = [
        {
            **test,
            "uuid": f"{name}:0:{number}",
            "session_uuid": name,
            "case_id": f"{case}={int(ranks) + number}",
            "job_completion_time_unix": start + number,
            "perfvalues": {
                key: [value * rng.uniform(0.9, 1.1), *rest]
                for key, (value, *rest) in test["perfvalues"].items()
            },
        }
        for number in range(cases)
    ]
    times = {"time_start_unix": start, "time_end_unix": start + cases}
    info = {**session["session_info"], **times, "uuid": name}
    info["night"] = night_id(datetime.fromtimestamp(start, tz=UTC))
    runs = [{**session["runs"][0], "testcases": tests, "num_cases": cases}]
    return {**session, "session_info": info, "runs": runs}


def main(template, database, nights, cases, first="0", timeout="60"):
    from reframe.core import config, runtime
    from reframe.frontend.reporting.storage import StorageBackend

    site = config.load_config()
    site.select_subconfig("generic")
    site.add_sticky_option("storage/sqlite_db_file", str(Path(database).absolute()))
    site.add_sticky_option("storage/sqlite_conn_timeout", float(timeout))
    runtime.init_runtime(site)
    session, test = read_template(template)
    for night in range(int(first), int(first) + int(nights)):
        StorageBackend.default().store(report(session, test, night, int(cases)))


if __name__ == "__main__":
    main(*sys.argv[1:])
