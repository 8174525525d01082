"""The verdict on a run: by references, and by these and the case's past together."""

from datetime import datetime

from cases import case

from iowatch.bless import Blessed
from iowatch.judge import Past, by_references, in_force, judge
from iowatch.references import read_references
from iowatch.verdict import EXCUSABLE, GOOD, RED, WORTHLESS, Kind, Verdict

CASE = case()
READ = case("SharedFileRead")
FILE = "reference_values/local.yaml"
CEILING = 2000.0
METRICS = {
    **dict.fromkeys(CASE.metrics, 1.0),
    "total_max": 1000.0,
    "stable_max": 900.0,
    "close_fraction": 0.1,
    "ratio": 0.9,
}
REFERENCES = {
    "total_max": [1000, -0.2, 0.5, "MiB/s"],
    "close_fraction": [0, None, 0.45, "1"],
    "ratio": [0.9, -0.5, None],
}
BLESSED = Blessed(
    *(1000.0, 0.1, 0.9, 0.05, 0.1, 30, "2026-01-01", "2026-01-30", "0123", "abcdef01"),
    *(datetime(2026, 2, 1).date(), "ops", "quiet weeks"),
)
ONLY_BANDWIDTH = Blessed(
    *(1000.0, 0.1, None, None, None, 30, "2026-01-01", "2026-01-30", "0123", "abcdef01"),
    *(datetime(2026, 2, 1).date(), "ops", "imported nights"),
)


def verdict(references=REFERENCES, **changes):
    entries = read_references(CASE, references)
    return by_references(CASE, {**METRICS, **changes}, entries, FILE, CEILING)


def test_kinds_are_words_worst_first():
    assert [str(kind) for kind in Kind] == [
        "invalid", "too_fast", "severe", "defect", "regression", "no_baseline", "suspect",
        "transient", "improvement", "noisy", "ok", "imported",
    ]  # fmt: skip
    assert [kind.rank for kind in Kind] == list(range(len(Kind)))
    assert {kind for kind in Kind if kind.is_red} == RED
    assert RED > EXCUSABLE | WORTHLESS
    assert not EXCUSABLE & WORTHLESS, "nobody excuses what was not verified"
    assert not GOOD & (RED - {Kind.NO_BASELINE})


def test_verdicts_by_references():
    close = {"close_s": [1.0, -0.5, 0.5]}
    wrong = []
    for references, changes, kind, failed in (
        (REFERENCES, {}, "ok", ()),
        # On its bound a metric is fine.
        (REFERENCES, {"total_max": 800.0}, "ok", ()),
        (REFERENCES, {"total_max": 1500.0}, "ok", ()),
        (REFERENCES, {"ratio": 0.45}, "ok", ()),
        (REFERENCES, {"total_max": 799.0}, "regression", ("total_max",)),
        (REFERENCES, {"ratio": 0.44}, "regression", ("ratio",)),
        # An absolute bound needs no history.
        (REFERENCES, {"close_fraction": 0.46}, "defect", ("close_fraction",)),
        (
            REFERENCES,
            {"close_fraction": 0.46, "ratio": 0.2},
            "regression",
            ("close_fraction", "ratio"),
        ),
        # Faster than the upper bound, up to the ceiling; and it hides nothing.
        (REFERENCES, {"total_max": 1501.0}, "improvement", ()),
        (REFERENCES, {"total_max": 2000.0}, "improvement", ()),
        (REFERENCES, {"total_max": 1501.0, "ratio": 0.1}, "regression", ("ratio",)),
        # Without the sync a cache may be faster than that.
        (REFERENCES, {"total_max": 2001.0}, "improvement", ()),
        (REFERENCES, {"stable_max": 2000.0}, "ok", ()),
        (REFERENCES, {"stable_max": 2001.0}, "too_fast", ("stable_max",)),
        ({}, {"stable_max": 2001.0}, "too_fast", ("stable_max",)),
        # Seconds get worse upwards.
        (close, {"close_s": 1.6}, "regression", ("close_s",)),
        (close, {"close_s": 0.4}, "improvement", ()),
        ({}, {}, "no_baseline", ()),
    ):
        found = verdict(references, **changes)
        if (found.kind, sorted(found.failed)) != (kind, sorted(failed)):
            wrong.append(f"{changes}: {found}, and not {kind} for {failed}")
        if found.is_red != (Kind(kind) in RED):
            wrong.append(f"{changes}: {found.kind} is_red is {found.is_red}")
    assert not wrong, "\n".join(wrong)


def test_sentence_names_case_metric_measured_bound_and_file():
    for changes, sentence in (
        ({"close_fraction": 0.723}, f"close_fraction is 0.723, above its bound 0.45 in {FILE}"),
        ({"total_max": 500.0}, f"total_max is 500 MiB/s, below its bound 800 in {FILE}"),
        ({"total_max": 1600.0}, f"total_max is 1600 MiB/s, above its bound 1500 in {FILE}"),
        ({}, f"3 metric(s) within {FILE}"),
        (
            {"total_max": 500.0, "ratio": 0.1},
            f"total_max is 500 MiB/s, below its bound 800 in {FILE}; "
            f"ratio is 0.1, below its bound 0.45 in {FILE}",
        ),
        (
            {"stable_max": 2001.0},
            "stable_max is 2001 MiB/s, above the physical ceiling of 2000 MiB/s in the site's "
            "configuration: a cache or a bug was measured",
        ),
    ):
        assert verdict(**changes).sentence == f"{CASE}: {sentence}"
    assert verdict({}).sentence == f"{CASE}: no reference value in {FILE}"


def test_ceiling_of_a_read_is_of_what_was_read():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("stable")}
    found = by_references(READ, {**metrics, "total_max": 2001.0}, {}, FILE, CEILING)
    assert (found.kind, found.failed) == ("too_fast", ("total_max",))


def said(kind, rule=None):
    return Verdict(Kind(kind), f"it is {kind}", rule=rule)


def together(changes, past, blessed, references=REFERENCES):
    return judge(
        CASE,
        {**METRICS, **changes},
        read_references(CASE, references),
        FILE,
        CEILING,
        Past(past, None, {}),
        blessed,
    )


def test_past_and_present_together():
    low = {"ratio": 0.1}
    wrong = []
    for changes, past, blessed, kind, failed in (
        # Without a baseline the references count, and a fault that needs no history.
        ({}, said("no_baseline"), None, "ok", ()),
        ({}, said("defect", "R3"), None, "defect", ("finish_fraction",)),
        (low, said("no_baseline"), None, "regression", ("ratio",)),
        # With one, a night below a bound may be noise, and one above it an alarm.
        (low, said("suspect"), BLESSED, "suspect", ()),
        (low, said("regression", "R2"), BLESSED, "regression", ("ratio",)),
        ({}, said("regression", "R1"), BLESSED, "regression", ("stable_max",)),
        ({}, said("severe", "R4"), BLESSED, "severe", ("stable_max",)),
        ({}, said("noisy"), BLESSED, "noisy", ()),
        ({}, said("transient", "R1"), BLESSED, "transient", ()),
        # What the baseline does not know its references still bound.
        (low, said("ok"), ONLY_BANDWIDTH, "regression", ("ratio",)),
        # The site's bound on bandwidth stands whatever the baseline says.
        ({"total_max": 500.0}, said("ok"), BLESSED, "regression", ("total_max",)),
        ({"total_max": 500.0}, said("improvement"), ONLY_BANDWIDTH, "regression", ("total_max",)),
        # Nothing excuses what cannot be.
        ({"stable_max": 2001.0}, said("ok"), BLESSED, "too_fast", ("stable_max",)),
        ({"stable_max": 2001.0}, said("severe", "R4"), BLESSED, "too_fast", ("stable_max",)),
    ):
        found = together(changes, past, blessed)
        if (found.kind, found.failed) != (kind, failed):
            wrong.append(f"{changes}, {past.kind} ({past.rule}): {found}, not {kind} for {failed}")
        if kind == past.kind and blessed and found.sentence != f"{CASE}: it is {past.kind}":
            wrong.append(f"{changes}, {past.kind}: {found.sentence}")
    assert not wrong, "\n".join(wrong)


def test_what_the_detector_says_besides_is_kept():
    """When to run again, and since when: the night asks for it."""
    due = datetime(2026, 6, 1, 7)
    past = Verdict(Kind.SUSPECT, "low", rule="R1", drop=0.3, since=due, rerun_at=due, runs=2)
    found = together({}, past, BLESSED)
    assert (found.drop, found.since, found.rerun_at, found.runs) == (0.3, due, due, 2)


def test_bound_of_which_the_detector_knows_nothing_counts_with_a_baseline_too():
    references = {**REFERENCES, "data_median": [100, -0.5, None]}
    entries = read_references(CASE, references)
    assert set(in_force(entries, BLESSED)) == {"total_max", "data_median"}
    assert in_force(entries, ONLY_BANDWIDTH) == entries
    assert in_force(entries, None) == entries
    found = together({"data_median": 10.0}, said("ok"), BLESSED, references)
    assert (found.kind, found.failed) == ("regression", ("data_median",))
    both = together({"data_median": 10.0}, said("severe", "R4"), BLESSED, references)
    assert both.kind == "regression"
    assert both.sentence.endswith(f"below its bound 50 in {FILE}; it is severe")


def test_defect_is_said_of_a_case_that_has_no_reference_either():
    assert together({}, said("defect", "R3"), None, {}).kind is Kind.DEFECT
