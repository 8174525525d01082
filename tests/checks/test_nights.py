"""The story of a case over its nights, the whole way: ReFrame, its database, the case's own past.

Each environment is a story of its own, so that all of them need a few sessions only:

- a month of good nights, blessed; then, by hand, a healthy run, a few hours ago at most;
- what else happened before tonight, by environment, below;
- tonight, by `iowatch run`; hours later its re-runs; then a night by plain ReFrame.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from attrs import evolve
from cases import verdict_of
from checks import replay
from checks.conftest import new_site
from checks.replay import HOUR, bless_a_month, store

from iowatch.cases.run import night_id
from iowatch.judge import bless
from iowatch.past import history

TOMORROW = datetime.now(UTC).date() + timedelta(days=1)
CASE = "small:memory/{}/SharedFileWrite/backend=hdf5/local_size=8x8x8/ranks=2"
SLOW = "slow hdf5"  # a tenth of its bandwidth

# Environment -> tonight's fault, exit status of the test, verdict, what its sentence says.
STORIES = {
    "usual": ("none", "pass", "ok", "drops of less than "),
    "first_slow": (SLOW, "pass", "suspect (own_past)", "bandwidth is 90% below its baseline"),
    "slow_for_long": (SLOW, "fail", "regression (own_past)", "90% below its usual 1.01 of MPI-"),
    "excused": (SLOW, "xfail", "regression (own_past, known)", f"until {TOMORROW}: ticket 4711)"),
    # Bounds: a baseline takes the place of those that it knows of, and of no others.
    "bound_unknown": ("none", "fail", "regression (reference)", "data_median is"),
    "bound_judged": ("none", "pass", "ok", ""),
}
LONG = ["slow_for_long", "excused"]

REFERENCES = """
SharedFileWrite:
  small:memory/bound_unknown/.*: {data_median: [1.0e+9, -0.5, null, MiB/s]}
  small:memory/bound_.*: {ratio: [1.0e+9, -0.5, null, '1']}
"""


@dataclass(frozen=True)
class Story:
    """What came of each part."""

    site: Any
    by_hand: CompletedProcess[str]
    night: CompletedProcess[str]
    tests: dict[str, Any]  # tonight's, by environment
    early: CompletedProcess[str]
    again: CompletedProcess[str]
    runs: list[Any]  # of tonight and later, as history reads them


def by_environ(site):
    return {test["environ"]: test for test in site.report()}


@pytest.fixture(scope="module")
def story(tmp_path_factory, benchio):
    with new_site(tmp_path_factory.mktemp("story"), benchio) as site:
        site.faults = dict.fromkeys(STORIES, "none")
        site.write["backend"] = ["hdf5"]
        site.references = REFERENCES
        done = site.reframe("-r", "-n", "SharedFileWrite", "--mode=record")
        bounded = {environ for environ in STORIES if environ.startswith("bound_")}
        failed = {test["environ"] for test in site.report() if test["result"] != "pass"}
        assert failed <= bounded, done.stdout
        make_good(site)
        bless_a_month(site)
        yield tell(site)


def make_good(site):
    """The first session as it would be without the bounds: those of its tests all passed."""
    (name,) = replay.sessions(site.database)
    replay.rewrite(
        site.database, name, lambda test: test.update(result="pass", state="ok", reason="")
    )


def tell(site):
    # Only healthy runs so far, the last of them by hand, and just now.
    some = "^(usual|first_slow|bound_unknown)$"
    by_hand = site.reframe("-r", "-n", "SharedFileWrite", "-p", some)
    replay.move(site.database, replay.sessions(site.database)[-1], -HOUR)
    for days in range(-12, 0):
        store(site.database, days, speed=0.1, environs=LONG)
    site.expect_failures((CASE.format("excused"), TOMORROW, "ticket 4711"))

    site.faults = {environ: fault for environ, (fault, *_) in STORIES.items()}
    night = site.iowatch("--quiet")
    tests = by_environ(site)
    early = site.iowatch("--again")
    last = replay.sessions(site.database)[-1]
    replay.move(site.database, last, -5 * HOUR)
    again = site.iowatch("--again", "--quiet")
    site.faults = dict.fromkeys(STORIES, "none")
    site.reframe("-r")
    runs = history.read([site.database])
    return Story(site, by_hand, night, tests, early, again, runs)


def test_verdict_of_each_story(story):
    assert set(story.tests) == set(STORIES), story.night.stdout
    for environ, (_, result, verdict, says) in STORIES.items():
        test = story.tests[environ]
        assert (test["result"], verdict_of(test)) == (result, verdict), (environ, test["sentence"])
        assert says in test["sentence"], environ
    assert story.night.returncode == 1
    assert "known)\n" in story.night.stdout
    assert f"red: {2 * len(STORIES)} cases measured, 2 with a red verdict" in story.night.stdout
    suspect = story.tests["first_slow"]["sentence"]
    assert ", its ratio to MPI-IO is 90% below its usual value" in suspect
    assert "a re-run is due from " in suspect
    assert "; most of the time is lost in write: 9 s, usually 900 ms; MPI-IO in " in suspect
    assert " is as fast as always; rank 0 on node1 is" in suspect


def test_every_session_of_the_night_says_what_the_site_promised(story):
    tonight = [run for run in story.runs if str(run.outcome) == "suspect (own_past)"]
    assert len({run.promise for run in tonight}) == 1
    assert {run.promise.cases for run in tonight} == {2 * len(STORIES)}
    last = replay.sessions(story.site.database)[-1]
    assert {run.promise for run in story.runs if run.session == last} == {None}


def test_drift_and_bounds_are_on_record(story):
    assert story.tests["usual"]["metrics"]["drift"] == [0, 0, None, None, "1", "pass"]
    assert 0 < story.tests["first_slow"]["metrics"]["drift"][0] < 1
    excused = story.tests["excused"]["metrics"]
    assert excused["ratio"][-1] == "xfail"
    assert excused["total_max"][0] > 0, "its metrics are kept"


def test_suspicious_cases_are_run_again_when_they_are_due(story):
    assert story.early.returncode == 0
    assert re.fullmatch(r"small: no re-run is due: the next from \S+ \S+ UTC\n", story.early.stdout)
    assert story.again.returncode == 1, "the night is red"
    assert "note: the night as a whole is red: " in story.again.stdout
    assert len(re.findall(r" hdf5 .* suspect \(own_past\)$", story.again.stdout, re.M)) >= 1


def test_night_and_its_reruns_are_one_and_what_ran_by_hand_is_in_none(story):
    assert story.by_hand.returncode == 1, "bounds are bounds"
    case = CASE.format("first_slow")
    own = [run for run in story.runs if str(run.case) == case][-4:]
    by_time = sorted(own, key=lambda run: run.folder)
    nights = [run.night for run in own]
    hand = [run for run in own if not run.night]
    assert len(hand) == 1, nights
    tonight = [run for run in own if str(run.outcome) == "suspect (own_past)"]
    assert len(tonight) == 2, [str(run.outcome) for run in by_time]
    assert len({run.night for run in tonight}) == 1
    assert len({run.session for run in tonight}) == 2
    assert "in the best of 2 runs" in tonight[1].sentence
    folders = [Path(run.folder) for run in tonight]
    assert {folder.parent for folder in folders} == {story.site.kept / tonight[0].night}
    assert {folder.name.partition("+")[2] for folder in folders} == {"", "2"}
    for folder in folders:
        assert json.loads((folder / "result.json").read_text())["status"] == "ok"

    plain = [run for run in own if run not in (*hand, *tonight)]
    assert len(plain) == 1
    assert plain[0].night == Path(plain[0].folder).parent.name, "cron's own"
    since = began(story.site, plain[0].session) - timedelta(seconds=60)
    assert night_id(since) <= plain[0].night <= night_id(since + timedelta(seconds=120))
    assert plain[0].night != tonight[0].night


def began(site, session):
    (found,) = history.sessions(site.database, [session])
    return datetime.fromtimestamp(found["session_info"]["time_start_unix"], tz=UTC)


def test_acceptance_run_is_no_past_of_nights(story):
    """Its contract alone judges it: the baseline still follows from the nights around it."""
    site = story.site
    store(site.database, -45, speed=0.1, suite="acceptance")
    done = site.reframe("-r", "-n", "SharedFileWrite", "-p", "usual")
    assert done.returncode == 0, done.stdout


def test_baseline_that_the_record_contradicts_is_refused(story):
    """As of a merge that took its numbers from one side and its nights from the other."""
    site, usual = story.site, CASE.format("usual")
    baselines = bless.baselines_of("small", site.folder)
    ((case, entry),) = [(case, entry) for case, entry in baselines.items() if str(case) == usual]
    wrong = evolve(entry, bandwidth=entry.bandwidth / 100)
    bless.write("small", site.folder, baselines | {case: wrong})
    refused = (
        f"{site.folder}/baselines/small.yaml: the baseline of {case} does not follow from the "
        f"nights of {entry.first} to {entry.last}: its bandwidth is "
    )
    page = site._run("iowatch", "report", "--system", "small", "--format", "junit")
    assert refused in page.stdout, "of the night that was judged by the right one"
    assert site.reframe("-r", "-n", "SharedFileWrite", "-p", "usual").returncode == 1
    (test,) = site.report()
    assert refused in test["fail_reason"]
    assert test["perfvalues"], "what was measured is on record"
