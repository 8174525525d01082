"""`iowatch nightly` as cron runs it: never twice at once, ended in time, with the real ReFrame."""

import json
import os
import re
import sqlite3
import sys
import time
from contextlib import closing
from datetime import datetime, timezone
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from integration.sessions import bless_a_month

from iowatch.history import read

CASE = "small:memory/{}/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2"
NIGHTLY = ["iowatch", "nightly", "--system", "small"]


@pytest.fixture
def hanging(site):
    """A site with two environments: the jobs of one never end."""
    site.faults = {"fine": "none", "hangs": "hangs"}
    site.write["backend"] = ["hdf5"]
    return site


def wait_for_job(site, process, file):
    """Wait until the job has written this file."""
    for _ in range(1200):
        if list(site.scratch.glob(f"iowatch.*/{file}")):
            return
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    pytest.fail("the job never ran")


def processes_of(site):
    """The command lines of all processes that know the site's folders."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_text()
        except OSError:  # it has just ended
            continue
        if str(site.folder) in line or str(site.scratch) in line:
            found.append(line)
    return found


def test_interrupted_night(hanging):
    process = hanging.start(*NIGHTLY)
    try:
        wait_for_job(hanging, process, "hangs")
        second = hanging.iowatch("--quiet")
        process.terminate()
        output, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:  # killed, it would leave its ReFrame behind
            process.terminate()
            process.wait(100)
    assert process.returncode == 143, output
    # The case that was measured is shown and on record; nothing else is left.
    assert re.search(r"^memory .* hdf5 .* ok$", output, re.M), output
    assert "\nproblem: interrupted by SIGTERM\n" in output
    assert f"\nproblem: 1 of 2 cases not run: {CASE.format('hangs')}\n" in output
    assert "\nred: 1 case(s) measured, 0 with a red verdict, " in output
    assert "is not in ReFrame's results database" not in output
    measured = [r.case for r in read([hanging.folder / "run" / "results.db"]) if r.figures]
    assert list(map(str, measured)) == [CASE.format("fine")]
    assert list(hanging.scratch.iterdir()) == []
    assert processes_of(hanging) == []

    assert second.returncode == 2
    assert re.fullmatch(
        r"iowatch: error: small: a night is still at work, since \S+ \S+ UTC, "
        rf"process {process.pid} on \S+; nothing was run\n",
        second.stdout,
    )


def test_interrupted_night_leaves_no_data(site):
    """The real benchio: mpirun takes longer to end it than ReFrame by itself allows a job."""
    site.write["local_size"] = [192]
    process = site.start(*NIGHTLY)
    try:
        wait_for_job(site, process, "benchio.*")
        process.terminate()
        output, _ = process.communicate(timeout=90)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(100)
    assert process.returncode == 143, output
    assert list(site.scratch.iterdir()) == []
    assert processes_of(site) == []


def test_time_limit(site):
    """So short that ReFrame may not even have begun."""
    site.faults = {"gnu": "hangs"}
    done = site.iowatch("--quiet", "--time-limit", "1s")
    assert done.returncode == 1, done.stdout
    assert "\nproblem: the time limit was reached\nproblem: 1 of 1 cases not run" in done.stdout
    assert done.stdout.startswith("\npartition "), "nothing of ReFrame's own"
    assert list(site.scratch.iterdir()) == []
    assert processes_of(site) == []


def test_night_leaves_no_temporary_files(site):
    """ReFrame leaves a log in TMPDIR whenever it starts; jobs need theirs as it was."""
    folder = site.folder / "tmp"
    folder.mkdir()
    site.environment["TMPDIR"] = str(folder)
    site.partition["prepare_cmds"] = [f'echo "$TMPDIR" >> {site.folder}/tmpdirs']
    site.faults = {"gnu": "none"}
    done = site.iowatch("--quiet", "--record")
    assert done.returncode == 0, done.stdout
    assert set((site.folder / "tmpdirs").read_text().split()) == {str(folder)}
    assert list(folder.iterdir()) == []


SENDMAIL = """\
#!/bin/sh
# Stands in for sendmail: keeps the last mail.
cat > {mail}
"""


@pytest.fixture
def blessed(site):
    """A site with a month of blessed nights, none since, and a sendmail."""
    site.faults = {"gnu": "none"}
    site.write["backend"] = ["hdf5"]
    assert site.iowatch("--record").returncode == 0
    site.database = site.folder / "run" / "results.db"
    bless_a_month(site)
    site.mail = site.folder / "mail"
    sendmail = site.folder / "sendmail"
    sendmail.write_text(SENDMAIL.format(mail=site.mail))
    sendmail.chmod(0o755)
    site.environment["PATH"] = f"{site.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return site


def move_last(database, seconds):
    """The session that came last was so many seconds later."""
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT rowid, json_blob FROM sessions ORDER BY rowid DESC LIMIT 1"
        row, blob = connection.execute(query).fetchone()
        session = json.loads(blob)
        for test in session["runs"][0]["testcases"]:
            test["job_completion_time_unix"] += seconds
        connection.execute(
            "UPDATE sessions SET json_blob = ? WHERE rowid = ?", [json.dumps(session), row]
        )


def test_suspicious_case_is_run_again_when_it_is_due(blessed):
    blessed.faults = {"gnu": "slow hdf5"}
    night = blessed.iowatch("--quiet", "--mail", "io@example.org")
    assert night.returncode == 0, night.stdout
    assert re.search(
        r"^note: 1 case\(s\) suspect: re-runs are due from \S+ \S+ UTC: "
        r"iowatch nightly --system small --again$",
        night.stdout,
        re.M,
    )
    mail = message_from_bytes(blessed.mail.read_bytes(), policy=policy.default)
    assert mail["Subject"] == f"iowatch small {datetime.now(timezone.utc):%Y-%m-%d}: green, 1 cases"
    assert mail.get_content().strip() == night.stdout.strip()

    early = blessed.iowatch("--again")
    assert early.returncode == 0
    assert re.fullmatch(r"small: no re-run is due: the next from \S+ \S+ UTC\n", early.stdout)

    move_last(blessed.database, -5 * 3600)
    again = blessed.iowatch("--again", "--quiet")
    assert again.returncode == 0, again.stdout
    assert re.search(r"^memory .* hdf5 .* suspect$", again.stdout, re.M)
    assert again.stdout.endswith(
        "\ngreen: 1 case(s) measured, 0 with a red verdict, 0 problem(s) with the night\n"
    )
    last = read([blessed.database])[-1]
    assert (str(last.case), last.verdict) == (CASE.format("gnu"), "suspect")
    assert "in the best of 2 job(s)" in last.sentence
