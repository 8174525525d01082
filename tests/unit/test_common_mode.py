"""Many slow cases of one filesystem are one alarm."""

from dataclasses import replace
from datetime import timedelta

import pytest
from unit.detector_nights import START, run, well

from iowatch.detector.judgement import common_mode


def judged(rule, raised=0, kind="regression", drop=0.5):
    time = START + timedelta(days=raised)
    judgement = run([well(0)])[0][0]
    return replace(judgement, kind=kind, rule=rule, drop=drop, since=time, raised=time)


def test_half_of_the_cases_of_a_filesystem_are_one_alarm():
    fine = run([well(0)])[0][0]
    tonight = START + timedelta(days=2)
    cases = {"a": judged("R1"), "b": judged("R4", 2, "severe", 0.8), "c": fine, "d": fine}
    alarm = common_mode(cases, tonight)
    assert alarm.cases == ("a", "b")
    assert alarm.drop == pytest.approx(0.65)
    assert alarm.sentence == (
        "2 of 4 cases are slow, by 65% (median) since 2026-03-01: the filesystem, not one of its "
        "I/O paths"
    )
    assert common_mode({**cases, "e": fine}, tonight) is None  # less than half
    assert common_mode(cases, tonight + timedelta(days=1)) is None  # four nights
    assert common_mode({**cases, "b": judged("R2", 2)}, tonight) is None  # the library's
    assert common_mode({**cases, "b": judged("R1", 2, "transient")}, tonight) is None
    assert common_mode({"a": judged("R1")}, tonight) is None  # one case is no filesystem
