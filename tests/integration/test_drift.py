"""A night against the case's own past, in the checks: the whole way from ReFrame's database."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import date, timedelta

import pytest
from integration.sessions import bless_a_month, store

NEWEST = "SELECT max(rowid) FROM sessions"
LAST = f"SELECT json_blob FROM sessions WHERE rowid = ({NEWEST})"
CASE = "small:memory/gnu/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2"


@pytest.fixture(scope="module")
def first_night(module_site):
    """The results of one night, in which all was well."""
    module_site.faults = {"gnu": "none"}
    module_site.write["backend"] = ["hdf5"]
    assert module_site.reframe("-r", "--mode=record").returncode == 0
    return module_site.folder / "run" / "results.db"


@pytest.fixture
def blessed(site, first_night):
    """A site whose nights of a month ago were blessed; no night since."""
    site.faults = {"gnu": "none"}
    site.write["backend"] = ["hdf5"]
    site.database = site.folder / "run" / "results.db"
    site.database.parent.mkdir()
    shutil.copy(first_night, site.database)
    bless_a_month(site)
    return site


def tonight(site):
    """The exit code of tonight's run and its only case."""
    code = site.reframe("-r").returncode
    (test,) = site.report()
    assert test["case_id"] == CASE
    return code, test["verdict"], test["sentence"]


def test_night_like_those_that_were_blessed_is_ok(blessed):
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (0, "ok")
    assert sentence.startswith(f"{CASE}: drops under ")


def test_first_slow_night_is_suspect_and_green(blessed):
    blessed.faults = {"gnu": "slow hdf5"}
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (0, "suspect"), sentence
    assert "bandwidth -90% from its baseline, its ratio to MPI-IO -90%" in sentence
    assert "a re-run is due from " in sentence
    assert "; most of the time is lost in write: 5 s, usually 0.5 s; rank 0 on node1 is" in sentence
    (test,) = blessed.report()
    assert 0 < test["figures"]["drift"][0] < 1


def test_drift_is_a_figure_of_a_case_with_a_baseline(blessed):
    assert tonight(blessed)[1] == "ok"
    (test,) = blessed.report()
    assert test["figures"]["drift"] == [0, 0, None, None, "1", "pass"]


def test_bound_on_what_the_detector_does_not_know_stays_in_force(blessed):
    bound = "data_median: [1.0e+9, -0.5, null, MiB/s]"
    blessed.references = re.sub("total_max: [^]]*]", bound, blessed.references)
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (1, "regression"), sentence
    assert "data_median is" in sentence


def test_bound_of_ratio_stays_in_force_if_the_baseline_has_none(blessed):
    """As one of imported nights, of which only the bandwidth is known."""
    bound = "ratio: [1.0e+9, -0.5, null, '1']"
    blessed.references = re.sub("total_max: [^]]*]", bound, blessed.references)
    assert tonight(blessed)[:2] == (0, "ok"), "the baseline judges it"
    file = blessed.folder / "baselines" / "small.yaml"
    text = re.sub("(ratio|ratio_spread|finish_fraction): .*", r"\1: null", file.read_text())
    file.write_text(text)
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (1, "regression"), sentence
    assert "ratio is" in sentence


EXPECTED = """\
- case: small:memory/gnu/.*/hdf5/.*
  until: {until}
  why: ticket 4711
"""


def test_expected_failure_is_green_until_its_last_day(blessed):
    for days in range(-12, 0):
        store(blessed.database, days, speed=0.1)
    blessed.faults = {"gnu": "slow hdf5"}
    folder = blessed.folder / "expected_failures"
    folder.mkdir()
    today = date.today()
    (folder / "small.yaml").write_text(EXPECTED.format(until=today))
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (0, "regression"), sentence
    assert sentence.endswith(f" (expected until {today}: ticket 4711)")
    (test,) = blessed.report()
    assert (test["result"], test["figures"]["ratio"][-1]) == ("xfail", "xfail")
    assert test["figures"]["total_max"][0] > 0, "its figures are kept"

    yesterday = today - timedelta(days=1)
    (folder / "small.yaml").write_text(EXPECTED.format(until=yesterday))
    assert tonight(blessed)[:2] == (1, "regression")


def test_broken_file_of_expected_failures_is_named_before_anything_is_measured(blessed):
    folder = blessed.folder / "expected_failures"
    folder.mkdir()
    (folder / "small.yaml").write_text(EXPECTED.format(until="soon"))
    assert blessed.reframe("-r").returncode == 1
    (test,) = blessed.report()
    assert test["fail_phase"] == "setup"
    assert f"{folder}/small.yaml, entry 1: until is 'soon'" in test["fail_reason"]


def test_night_after_slow_nights_is_a_regression_and_red(blessed):
    for days in range(-12, 0):
        store(blessed.database, days, speed=0.1)
    blessed.faults = {"gnu": "slow hdf5"}
    code, verdict, sentence = tonight(blessed)
    assert (code, verdict) == (1, "regression"), sentence
    assert "bandwidth is 90% below its usual 1.01 of MPI-IO's in the same jobs since" in sentence


def test_one_slow_night_is_forgotten(blessed):
    store(blessed.database, -1, speed=0.1)
    assert tonight(blessed)[:2] == (0, "ok")


def test_damaged_history_is_an_error_and_no_verdict(blessed):
    blessed.database.write_bytes(b"SQLite" * 1000)
    code, verdict, _ = tonight(blessed)
    assert (code, verdict) == (1, "")
    (test,) = blessed.report()
    assert f"{blessed.database}: damaged, or no SQLite database" in test["fail_reason"]
    assert CASE not in test["fail_reason"], "who shows the reason names the case before it"


def test_lost_baseline_is_an_error_and_no_verdict(blessed):
    baselines = blessed.folder / "baselines" / "small.yaml"
    baselines.unlink()
    code, verdict, _ = tonight(blessed)
    assert (code, verdict) == (1, "")
    (test,) = blessed.report()
    assert f"{baselines}: either it or the blessed block of " in test["fail_reason"]
    assert test["fail_reason"].count(CASE) == 1


def test_suspicious_case_is_run_again_hours_later(blessed):
    blessed.faults = {"gnu": "slow hdf5"}
    assert tonight(blessed)[1] == "suspect"
    suspects = ["iowatch", "suspects", "--system", "small"]
    early = blessed._run(*suspects).stdout
    assert re.search(rf"^# {CASE}: bandwidth -90%.*\n#   due from \d\d:\d\d UTC$", early, re.M)
    assert "reframe" not in early

    with closing(sqlite3.connect(blessed.database)) as connection, connection:
        (blob,) = connection.execute(LAST).fetchone()
        session = json.loads(blob)
        for test in session["runs"][0]["testcases"]:
            test["job_completion_time_unix"] -= 5 * 3600
        connection.execute(
            f"UPDATE sessions SET json_blob = ? WHERE rowid = ({NEWEST})", [json.dumps(session)]
        )
    script = blessed._run(*suspects).stdout.splitlines()
    assert len(script) == 2
    again = blessed._run("bash", "-c", script[1])
    assert "Ran 2/2 test case(s)" in again.stdout, again.stdout
    (test,) = blessed.report()
    assert test["verdict"] == "suspect"
    assert "in the best of 2 job(s)" in test["sentence"]
