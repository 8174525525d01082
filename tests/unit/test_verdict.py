from dataclasses import replace

import pytest

from iowatch.case import Case
from iowatch.detector.judgement import Judgement
from iowatch.metrics import figure_names
from iowatch.verdict import BadReference, Reference, in_force, judge, read_references, with_past

CASE = Case("local", "tmpfs", "gnu", "write", "shared", "hdf5", None, None, (64, 64, 64), 4)
FIGURES = {
    **dict.fromkeys(figure_names(CASE), 1.0),
    "total_max": 1000.0,
    "close_fraction": 0.1,
    "ratio": 0.9,
}
REFERENCES = {
    "total_max": [1000, -0.2, 0.5, "MiB/s"],
    "close_fraction": [0, None, 0.45, "1"],
    "ratio": [0.9, -0.5, None],
}


def verdict(record=False, references=REFERENCES, **changes):
    return judge(
        CASE,
        {**FIGURES, **changes},
        read_references(CASE, references),
        "reference_values/local.yaml",
        2000.0,
        record,
    )


def test_within_all_bounds_is_ok():
    assert (verdict().kind, verdict().red) == ("ok", False)


@pytest.mark.parametrize(
    ("changes", "kind", "failed"),
    [
        ({"total_max": 799.0}, "regression", ("total_max",)),
        ({"ratio": 0.44}, "regression", ("ratio",)),
        ({"close_fraction": 0.46}, "defect", ("close_fraction",)),
        ({"close_fraction": 0.46, "ratio": 0.2}, "regression", ("close_fraction", "ratio")),
        ({"total_max": 2001.0}, "too_fast", ("total_max",)),
    ],
)
def test_red_verdicts(changes, kind, failed):
    found = verdict(**changes)
    assert (found.kind, found.red) == (kind, True)
    assert sorted(found.failed) == sorted(failed)


@pytest.mark.parametrize("changes", [{"total_max": 800.0}, {"ratio": 0.45}, {"total_max": 1500.0}])
def test_a_figure_on_its_bound_is_ok(changes):
    assert verdict(**changes).kind == "ok"


def test_faster_than_the_upper_bound_is_an_improvement_and_green():
    for rate in (1501.0, 2000.0):  # up to the ceiling
        assert (verdict(total_max=rate).kind, verdict(total_max=rate).red) == ("improvement", False)


def test_an_improvement_does_not_hide_a_regression():
    assert verdict(total_max=1501.0, ratio=0.1).kind == "regression"


def test_seconds_get_worse_upwards():
    references = {"close_s": [1.0, -0.5, 0.5]}
    assert verdict(references=references, close_s=1.6).kind == "regression"
    assert verdict(references=references, close_s=0.4).kind == "improvement"


def test_no_reference_is_red_unless_recording():
    assert (verdict(references={}).kind, verdict(references={}).red) == ("no_baseline", True)
    recording = verdict(references={}, record=True)
    assert (recording.kind, recording.red) == ("no_baseline", False)


def test_recording_forgives_nothing_else():
    assert verdict(record=True, ratio=0.1).red
    assert verdict(record=True, references={}, total_max=2001.0).red


def test_sentence_names_case_figure_measured_bound_and_file():
    assert verdict(close_fraction=0.723).sentence == (
        f"{CASE}: close_fraction is 0.723, above its bound 0.45 in reference_values/local.yaml"
    )
    assert verdict(total_max=500.0).sentence == (
        f"{CASE}: total_max is 500 MiB/s, below its bound 800 in reference_values/local.yaml"
    )
    assert "no reference value in reference_values/local.yaml" in verdict(references={}).sentence
    assert (
        "2001 MiB/s, above the physical ceiling of 2000 MiB/s" in verdict(total_max=2001.0).sentence
    )


KNOWN = {"total_max", "ratio", "close_fraction", "finish_fraction"}


def past(kind, rule=None):
    return Judgement(kind, f"it is {kind}", 1, rule)


def together(changes, past, blessed, references=REFERENCES, record=False):
    present = judge(
        CASE,
        {**FIGURES, **changes},
        in_force(read_references(CASE, references), KNOWN if blessed else ()),
        "reference_values/local.yaml",
        2000.0,
        record,
    )
    return with_past(CASE, present, past, blessed)


@pytest.mark.parametrize(
    ("changes", "past", "blessed", "expected", "red", "failed"),
    [
        # Without a baseline the references count, and a fault that needs no history.
        ({}, past("no_baseline"), False, "ok", False, ()),
        ({}, past("defect", "R3"), False, "defect", True, ("finish_fraction",)),
        ({"ratio": 0.1}, past("no_baseline"), False, "regression", True, ("ratio",)),
        # With one, a night below a bound may be noise, and one above it an alarm.
        ({"ratio": 0.1}, past("suspect"), True, "suspect", False, ()),
        ({"ratio": 0.1}, past("regression", "R2"), True, "regression", True, ("ratio",)),
        ({}, past("severe", "R4"), True, "severe", True, ("total_max",)),
        ({}, past("noisy"), True, "noisy", False, ()),
        # Nothing excuses what cannot be.
        ({"total_max": 2001.0}, past("ok"), True, "too_fast", True, ("total_max",)),
    ],
)
def test_past_and_present_together(changes, past, blessed, expected, red, failed):
    found = together(changes, past, blessed)
    assert (found.kind, found.red, found.failed) == (expected, red, failed)
    if expected == past.kind and blessed:
        assert found.sentence == f"{CASE}: it is {past.kind}"


def test_bound_that_the_detector_does_not_look_at_counts_with_a_baseline_too():
    references = {**REFERENCES, "data_median": [100, -0.5, None]}
    found = together({"data_median": 10.0}, past("ok"), True, references)
    assert (found.kind, found.failed) == ("regression", ("data_median",))
    both = together({"data_median": 10.0}, past("severe", "R4"), True, references)
    assert both.kind == "regression"
    assert both.sentence.endswith("below its bound 50 in reference_values/local.yaml; it is severe")


def test_defect_is_said_of_a_case_that_has_no_reference_either():
    found = together({}, past("defect", "R3"), False, {}, record=True)
    assert (found.kind, found.red) == ("defect", True)


def test_thresholds_of_a_zero_reference_are_absolute():
    assert Reference(0, None, 0.5).upper == 0.5
    assert Reference(10, -0.1, 0.5).lower == 9
    assert Reference(10, -0.1, 0.5).upper == 15


@pytest.mark.parametrize(
    ("backend", "entries", "sentence"),
    [
        (
            "hdf5",
            {"totl_max": [1, -0.1, None]},
            "totl_max: local:tmpfs.* no such figure",
        ),
        ("mpiio", {"ratio": [1, -0.1, None]}, "ratio: local:tmpfs/.*/mpiio/.* has no such figure"),
        ("hdf5", {"total_max": [1, -0.1, None, "GB/s"]}, "total_max: its unit is 'MiB/s'"),
        (
            "hdf5",
            {"total_max": ("a bug", [1, -0.1, None])},
            "expected stands in expected_failures/",
        ),
        ("hdf5", {"total_max": [0, None, None]}, "total_max: has no bound"),
        ("hdf5", {"total_max": [10, 9, None]}, "9 is not a lower threshold"),
        ("hdf5", {"total_max": [10, -20, None]}, "-20 is not a lower threshold"),
        ("hdf5", {"total_max": [10, None, -0.1]}, "-0.1 is not an upper threshold"),
        ("hdf5", {"total_max": [10, "a", None]}, "'a' is not a lower threshold"),
        ("hdf5", {"total_max": [None, -0.1, None]}, "None is not a reference value"),
        ("hdf5", {"total_max": [True, -0.1, None]}, "True is not a reference value"),
        ("hdf5", {"total_max": [-1, -0.1, None]}, "-1 is not a reference value"),
        ("hdf5", {"total_max": [float("nan"), -0.1, None]}, "nan is not a reference value"),
        ("hdf5", {"total_max": [1, None, float("nan")]}, "nan is not an upper threshold"),
        ("hdf5", {"total_max": [0, None, float("inf")]}, "inf is not an upper threshold"),
    ],
)
def test_reference_that_could_never_fail_is_refused(backend, entries, sentence):
    with pytest.raises(BadReference, match=sentence):
        read_references(replace(CASE, backend=backend), entries)
