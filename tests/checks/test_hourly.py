"""An hour and a night of `Latency` with the real ReFrame and benchio."""

import json

import pytest
from cases import verdict_of

from iowatch.base.locks import locked
from iowatch.measure.kinds.latency import CALLS

CASE = "small:memory/real/Latency/seconds=1"
SUITE = {"Latency": {"seconds": [1]}}

pytestmark = pytest.mark.long


def test_an_hour_runs_beside_a_night_and_is_none(site):
    site.extras["suites"] = {"nightly": SUITE, "acceptance": {}, "hourly": SUITE}
    site.references = "Latency: {'small:.*': {cycles_max: [1, 0, null, 1/s]}}"
    # As a night that is at work.
    with locked("small", [site.database.parent, site.folder / "run"]):
        done = site.iowatch("--suite", "hourly")
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("memory: p99 of ")]
    assert all(f"{call} " in line for call in CALLS)
    assert not site.database.exists(), "no session is stored"
    assert not list(site.database.parent.glob("*.html"))
    (file,) = (site.database.parent / "hours").iterdir()
    (hour,) = map(json.loads, file.read_text().splitlines())
    assert (hour["case"], set(hour["calls"])) == (CASE, set(CALLS))
    assert list(site.scratch.iterdir()) == []
    (kept,) = site.kept.glob("*/*/result.json")
    assert json.loads(kept.read_text())["run"]["seconds"] == 1

    done = site.iowatch()
    assert done.returncode == 0, done.stdout
    tests = site.report()
    assert [test["case_id"] for test in tests] == [CASE]
    assert verdict_of(tests[0]) == "ok", tests[0]["sentence"]
    assert tests[0]["metrics"]["cycles_max"][1:] == [1, 0, None, "1/s", "pass"]
    assert tests[0]["metrics"]["write_p99_s"][0] > 0
    (page,) = site.database.parent.glob("report-small-*.html")
    assert "Latency by hour" in page.read_text()
    resumed = site.iowatch("--resume")
    assert "nothing of it was lost" in resumed.stdout, "an hour is no night that was killed"


def test_an_hour_that_cannot_be_verified_is_an_error(site):
    site.extras["suites"] = {"nightly": {}, "acceptance": {}, "hourly": SUITE}
    site.extras["type"] = "lustre"
    done = site.iowatch("--suite", "hourly")
    assert done.returncode == 1, done.stdout
    assert f"{CASE}: failed (wrong_filesystem)" in done.stdout
    assert not (site.database.parent / "hours").exists()
