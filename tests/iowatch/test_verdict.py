"""The verdict on a run: by references, and by these and the case's past together."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter

import pytest
from attrs import evolve
from cases import case, changed, metrics_of, outcome_of

from iowatch.cases.verdict import NO_REFERENCE, Flag, Outcome, Reason, State, Verdict
from iowatch.judge.baseline import baseline_of
from iowatch.judge.bless import Blessed, sample_of
from iowatch.judge.judge import Past, by_past, by_references, in_force, judge, medians
from iowatch.measure.kinds.array import GENERAL_BOUNDS
from iowatch.site.references import read_references

CASE = case()
NIGHT = datetime(2026, 5, 1, tzinfo=UTC)
FILE = "reference_values/local.yaml"
CEILING = 2000.0
METRICS = {
    **dict.fromkeys(CASE.metrics, 1.0),
    "total_max": 1000.0,
    "stable_max": 900.0,
    "overhead_fraction": 0.1,
    "ratio": 0.9,
}
MPIIO = {"open": 0.1, "write": 0.8, "close": 0.1}  # its seconds
USUAL = METRICS | {"close_s": 0.005, "overhead_fraction": 0.04, "open_s": 0.01, "define_s": 0.01}
REFERENCES = {
    "total_max": [1000, -0.2, 0.5, "MiB/s"],
    "overhead_fraction": [0, None, 0.45, "1"],
    "ratio": [0.9, -0.5, None],
}
BLESSED = Blessed(
    bandwidth=1000.0, spread=0.1, ratio=0.9, ratio_spread=0.05, overhead_fraction=0.1, nights=30,
    first="2026-01-01", last="2026-01-30", runs="0123", settings="abcdef01",
    blessed=date(2026, 2, 1), who="ops", why="quiet weeks",
)  # fmt: skip
ONLY_BANDWIDTH = evolve(BLESSED, ratio=None, ratio_spread=None, overhead_fraction=None)


def bounds(references):
    return read_references(CASE, references)


def general(**references):
    """Bounds that know neither machine nor size."""
    entries = bounds(references)
    return {name: replace(entry, is_general=True) for name, entry in entries.items()}


def verdict(references=REFERENCES, **changes):
    return by_references({**METRICS, **changes}, bounds(references), FILE, CEILING)


EVERY = [Outcome(state, reason) for state in State for reason in (None, *Reason)]


def test_what_an_outcome_means_is_law():
    assert min(EVERY, key=lambda outcome: outcome.rank) == outcome_of("failed (corrupt)")
    for outcome in EVERY:
        is_fault = outcome.state in ("failed", "regression")
        assert outcome.is_fault is is_fault
        assert outcome.is_red is (is_fault or outcome == NO_REFERENCE), outcome
        amber = outcome.state == "unjudged" and outcome != NO_REFERENCE
        assert (outcome.is_amber, outcome.is_untried) == (amber, amber or outcome.is_skipped)
        assert outcome.counts is not (outcome.is_failed or outcome.is_untried), (
            "as past or evidence"
        )
        known = outcome.flagged(Flag.KNOWN)
        assert known.is_known is (outcome.state == "regression")
        assert (outcome.is_red and not known.is_red) is (outcome.state == "regression"), (
            "nobody excuses what was not verified"
        )
        good = outcome.state in ("ok", "improvement") or outcome == NO_REFERENCE
        assert outcome.is_good == good
        for one in (outcome, known):
            assert Outcome.read(one.fields) == outcome_of(str(one)) == one


def test_outcomes_sort_worst_first():
    words = [
        *("failed (corrupt)", "failed (no_output)", "failed (above_ceiling)"),
        *("regression (absolute_bound)", "regression (slow_library)", "regression (own_past)"),
        *("unjudged (no_reference)", "unjudged (queued)", "skipped (not_installed)"),
        *("suspect (own_past)", "ok (resolved)", "improvement (own_past)"),
        *("ok (low_sensitivity)", "ok"),
    ]
    outcomes, rank = [outcome_of(text) for text in words], attrgetter("rank")
    assert sorted(random.Random(1).sample(outcomes, len(outcomes)), key=rank) == outcomes


def test_record_without_a_verdict_has_none():
    for stored in ({}, {"state": ""}, {"state": "fine"}, {"state": "ok", "flags": "<undefined>"}):
        assert Outcome.read(stored) is None


CLOSE = {"close_s": [1.0, -0.5, 0.5]}


def test_verdicts_by_references(golden):
    texts = []
    for references, changes, kind, *failed in (
        (REFERENCES, {}, "ok"),
        # On its bound a metric is fine.
        (REFERENCES, {"total_max": 800.0}, "ok"),
        (REFERENCES, {"total_max": 1500.0}, "ok"),
        (REFERENCES, {"ratio": 0.45}, "ok"),
        (REFERENCES, {"total_max": 799.0}, "regression (reference)", "total_max"),
        (REFERENCES, {"ratio": 0.44}, "regression (reference)", "ratio"),
        # An absolute bound needs no history.
        (REFERENCES, {"overhead_fraction": 0.46}, "regression (absolute_bound)",
         "overhead_fraction"),
        (REFERENCES, {"overhead_fraction": 0.723, "ratio": 0.2}, "regression (reference)",
         "overhead_fraction", "ratio"),
        # Faster than the upper bound, up to the ceiling; and it hides nothing.
        (REFERENCES, {"total_max": 1501.0}, "improvement (reference)"),
        (REFERENCES, {"total_max": 2000.0}, "improvement (reference)"),
        (REFERENCES, {"total_max": 1501.0, "ratio": 0.1}, "regression (reference)", "ratio"),
        # Without the sync a cache may be faster than that.
        (REFERENCES, {"total_max": 2001.0}, "improvement (reference)"),
        (REFERENCES, {"stable_max": 2000.0}, "ok"),
        (REFERENCES, {"stable_max": 2001.0}, "failed (above_ceiling)", "stable_max"),
        ({}, {"stable_max": 2001.0}, "failed (above_ceiling)", "stable_max"),
        # Seconds get worse upwards.
        (CLOSE, {"close_s": 1.6}, "regression (reference)", "close_s"),
        (CLOSE, {"close_s": 0.4}, "improvement (reference)"),
        ({}, {}, "unjudged (no_reference)"),
    ):  # fmt: skip
        judged = verdict(references, **changes)
        assert (str(judged.outcome), sorted(judged.failed)) == (kind, failed), changes
        texts.append(f"{changes}\n{judged.sentence}\n")
    golden("verdicts.txt", "".join(texts))


def test_ceiling_of_a_read_is_of_what_was_read():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("stable")}
    metrics["total_max"] = 2001.0
    judged = by_references(metrics, {}, FILE, CEILING)
    assert (str(judged.outcome), judged.failed) == ("failed (above_ceiling)", ("total_max",))


def detected(outcome, rule=None):
    return Verdict(outcome_of(outcome), f"it is {outcome}", rule=rule)


NONE, OK, SUSPECT, SEVERE = (
    detected("unjudged (no_reference)"),
    detected("ok"),
    detected("suspect (own_past)"),
    detected("regression (own_past)", "R4"),
)
LOST, SLOW = detected("regression (own_past)", "R1"), detected("regression (own_past)", "R2")


def together(changes, past, blessed, references=REFERENCES, usual=(), control=MPIIO, waited=""):
    """The verdict; `references` may be bounds that were read."""
    is_read = not any(isinstance(entry, list) for entry in references.values())
    entries = references if is_read else bounds(references)
    past = Past(past, None, dict(usual))
    metrics = {**METRICS, **changes}
    return judge(CASE, metrics, entries, FILE, CEILING, past, blessed, control, waited)


LOW, TOO_FAST, SLOWER = {"ratio": 0.1}, {"stable_max": 2001.0}, {"total_max": 500.0}


@pytest.mark.parametrize(
    ("changes", "past", "blessed", "kind", "failed"),
    [
        # Without a baseline the references count, and a fault that needs no history.
        ({}, NONE, None, "ok", ()),
        (
            {},
            detected("regression (slow_library)", "R3"),
            None,
            "regression (slow_library)",
            ("overhead_fraction",),
        ),
        (LOW, NONE, None, "regression (reference)", ("ratio",)),
        # With one, a night below a bound may be noise, and one above it an alarm.
        (LOW, SUSPECT, BLESSED, "suspect (own_past)", ()),
        (LOW, SLOW, BLESSED, "regression (own_past)", ("ratio",)),
        ({}, LOST, BLESSED, "regression (own_past)", ("stable_max",)),
        ({}, SEVERE, BLESSED, "regression (own_past)", ("stable_max",)),
        ({}, detected("ok (low_sensitivity)"), BLESSED, "ok (low_sensitivity)", ()),
        ({}, detected("ok (resolved)", "R1"), BLESSED, "ok (resolved)", ()),
        # What the baseline does not know its references still bound.
        (LOW, OK, ONLY_BANDWIDTH, "regression (reference)", ("ratio",)),
        # The site's bound on bandwidth stands whatever the baseline says.
        (SLOWER, OK, BLESSED, "regression (reference)", ("total_max",)),
        (
            SLOWER,
            detected("improvement (own_past)"),
            ONLY_BANDWIDTH,
            "regression (reference)",
            ("total_max",),
        ),
        # Nothing excuses what cannot be.
        (TOO_FAST, OK, BLESSED, "failed (above_ceiling)", ("stable_max",)),
        (TOO_FAST, SEVERE, BLESSED, "failed (above_ceiling)", ("stable_max",)),
    ],
)
def test_past_and_present_together(changes, past, blessed, kind, failed):
    judged = together(changes, past, blessed)
    assert (str(judged.outcome), judged.failed) == (kind, failed)
    if kind == str(past.outcome) and blessed:
        assert judged.sentence.split("; ")[0] == f"it is {past.outcome}"


def test_what_the_detector_says_besides_is_kept():
    """When to run again, and since when: the night asks for it."""
    due = datetime(2026, 6, 1, 7)
    past = Verdict(SUSPECT.outcome, "low", rule="R1", drop=0.3, since=due, rerun_at=due, runs=2)
    judged = together({}, past, BLESSED)
    assert (judged.drop, judged.since, judged.rerun_at, judged.runs) == (0.3, due, due, 2)


def test_bound_of_which_the_detector_knows_nothing_counts_with_a_baseline_too():
    entries = bounds({**REFERENCES, "data_median": [100, -0.5, None]})
    assert set(in_force(entries, BLESSED)) == {"total_max", "data_median"}
    assert in_force(entries, ONLY_BANDWIDTH) == in_force(entries, None) == entries
    below = {"data_median": 10.0}
    judged = together(below, OK, BLESSED, entries)
    assert (str(judged.outcome), judged.failed) == ("regression (reference)", ("data_median",))
    both = together(below, SEVERE, BLESSED, entries)
    assert str(both.outcome) == "regression (reference)"
    assert f"below its bound of 50 in {FILE}; it is regression (own_past); " in both.sentence


def test_bound_that_knows_neither_machine_nor_size_makes_nothing_red():
    half = general(ratio=[0.9, -0.5, None], overhead_fraction=[0, None, 0.45])
    both = half | bounds({"total_max": [1000, -0.2, None]})
    for metrics, references, kind, failed in (
        (LOW, half, "suspect (general_bound)", ("ratio",)),
        ({"overhead_fraction": 0.9}, half, "suspect (general_bound)", ("overhead_fraction",)),
        ({"ratio": 0.5}, half, "ok", ()),
        ({"total_max": 1.0}, both, "regression (reference)", ("total_max",)),
        # What the site says counts, and what holds on any machine is said beside it.
        ({"total_max": 1.0, "ratio": 0.1}, both, "regression (reference)", ("total_max",)),
    ):
        judged = by_references(METRICS | metrics, references, FILE, CEILING)
        assert (str(judged.outcome), judged.failed) == (kind, failed), metrics
    assert "ratio is 0.1, below its bound of 0.45" in judged.sentence
    low = general(data_median=[100, -0.5, None])
    for past, blessed, kind in (
        (OK, BLESSED, "suspect (general_bound)"),
        (detected("ok (low_sensitivity)"), BLESSED, "suspect (general_bound)"),
        (LOST, BLESSED, "regression (own_past)"),
        (NONE, None, "suspect (general_bound)"),
    ):
        judged = together({"data_median": 1.0}, past, blessed, low, control={})
        assert str(judged.outcome) == kind, past
        assert not judged.is_red or judged.failed == ("stable_max",)


#: HDF5 on all stripes of Cirrus: it loses most of its time in H5Fclose.
FAULT = {"overhead_fraction": 0.71, "close_s": 3.02, "stable_max": 25.0, "ratio": 0.03}


def test_founding_fault_is_red_on_the_first_night_where_it_is_unmistakable():
    trifle = {name: 1e-3 for name in METRICS if name.endswith("_s")}
    for changes, references, kind in (
        ({}, {}, "regression (slow_library)"),
        ({}, {"total_max": [1, 0, None]}, "regression (slow_library)"),
        ({}, {"total_max": [2000, -0.1, None]}, "regression (slow_library)"),
        (trifle, {}, "unjudged (no_reference)"),
        (TOO_FAST, {}, "failed (above_ceiling)"),
    ):
        judged = together(FAULT | changes, NONE, None, references)
        assert str(judged.outcome) == kind, changes
        if kind == "regression (slow_library)":
            assert judged.failed[-1] == "overhead_fraction"
            assert "hdf5 has less than half of MPI-IO's bandwidth in the same" in judged.sentence
    median = together(FAULT, NONE, None, {}, control={"write": 5.0})
    assert median.outcome == NO_REFERENCE, "in the median round MPI-IO is not twice as fast"
    assert str(together(FAULT, OK, BLESSED, {}).outcome) == "ok", "its past knows it"
    assert str(together(FAULT, OK, ONLY_BANDWIDTH, {}).outcome) == "regression (slow_library)"


def test_run_whose_ranks_waited_for_processors_says_nothing_of_being_slow():
    waited = "its ranks waited"

    def judged(past, blessed, references=REFERENCES, **changes):
        return together(changes, past, blessed, references, control={}, waited=waited)

    amber = judged(NONE, None, ratio=0.1)
    assert (str(amber.outcome), amber.failed) == ("unjudged (node_busy)", ())
    assert amber.sentence == (
        f"{waited}; as it was measured, ratio is 0.1, below its bound of 0.45 in {FILE}"
    )
    for past in (SUSPECT, SEVERE, LOST):
        assert judged(past, BLESSED).outcome == amber.outcome
    # It was fast enough all the same; what a cache has measured is no matter of processors.
    assert judged(OK, BLESSED).outcome == judged(NONE, None).outcome == OK.outcome
    assert judged(NONE, None, {}).outcome == NO_REFERENCE
    assert judged(OK, BLESSED, stable_max=2001.0).outcome.is_too_fast


def test_why_it_is_slow_is_told_whoever_finds_it():
    """By a bound, by the past, and by the rule that needs no past."""
    lost = "; it spends 71 % of the time finishing its file"
    for past, blessed, usual, outcome, why in (
        (NONE, None, {}, "regression (slow_library)", "overhead_fraction is 0.71, above its bound"),
        (detected("regression (own_past)", "R3"), BLESSED, USUAL, "regression (own_past)", ""),
        (detected("regression (slow_library)", "R3"), BLESSED, USUAL,
         "regression (slow_library)", ""),
        (SUSPECT, BLESSED, USUAL, "suspect (own_past)", ""),
        (SEVERE, BLESSED, USUAL, "regression (own_past)", ""),
    ):  # fmt: skip
        judged = together(FAULT, past, blessed, {"overhead_fraction": [0, None, 0.45]}, usual)
        assert str(judged.outcome) == outcome
        assert judged.sentence.startswith(why or past.sentence), judged.sentence
        # R3's own sentence has the part of the time.
        assert (lost in judged.sentence) is (
            (past.rule, outcome) != ("R3", "regression (own_past)")
        )
        assert "; most of the extra time is in close (" in judged.sentence
        assert judged.sentence.endswith("not the filesystem") is (judged.is_red and bool(usual))

    slow = together({"write_s": 9.0, "stable_max": 25.0}, LOST, BLESSED, usual=USUAL)
    begin = f"{LOST.sentence}; most of the time is lost in write: 9 s, usually 1 s; MPI-IO"
    assert slow.sentence.startswith(begin)


#: Seconds on a real Lustre of four OSTs, stripes over all of them: medians of four rounds of 64^3
#: elements on each of 4 ranks, HDF5 1.10.8 and netCDF 4.9. The sync was recorded in other rounds.
PHASES = ("open", "define", "write", "close", "sync", "total")
LUSTRE = {
    "mpiio": dict(zip(PHASES, (0.146, 0.007, 0.484, 0.004, 0.033, 0.698), strict=True)),
    "hdf5": dict(zip(PHASES, (0.305, 0.035, 0.677, 0.200, 0.140, 1.223), strict=True)),
    "netcdf": dict(zip(PHASES, (0.259, 0.376, 0.565, 0.071, 0.013, 1.445), strict=True)),
}


def on_lustre(spoil, backend, rng, phase="close", more=0.0):
    """The metrics of a night there, whose phases vary by a tenth; one takes so much more."""

    def change(result):
        common = rng.lognormvariate(0, 0.1)
        for of in result["cases"]:
            usual = LUSTRE[of["backend"]]
            for rep in of["repetitions"]:
                seconds = {p: s * common * rng.lognormvariate(0, 0.1) for p, s in usual.items()}
                seconds[phase] += more if of["backend"] == backend else 0
                moved = [seconds[p] - common * usual[p] for p in PHASES[:4]]
                seconds["total"] = usual["total"] * common + sum(moved)
                seconds["stable"] = seconds["total"] + seconds["sync"]
                for name, value in seconds.items():
                    rep["phases"][name].update(window=value, file_window=value)
                rep["rates"].update({span: 8 / seconds[span] for span in ("total", "stable")})

    result = spoil(change, backends=["mpiio", backend], repeats=4)
    return metrics_of(result, changed(CASE, backend=backend))


@pytest.mark.parametrize(("backend", "phase"), [("hdf5", "close"), ("netcdf", "define")])
def test_lustre_in_good_health_is_quiet_and_loud_when_it_finishes_later(spoil, backend, phase):
    one, rng = changed(CASE, backend=backend), random.Random(1)
    general_bounds = read_references(one, GENERAL_BOUNDS[backend])
    nights = [on_lustre(spoil, backend, rng) for _ in range(30)]
    times = [NIGHT + timedelta(number) for number in range(31)]
    usual = medians(nights[:20])
    assert 0.25 < medians(nights)["overhead_fraction"] < 0.4, "what it takes there in good health"

    first = {
        f"{time:%F}": [sample_of(time, night, {})]
        for time, night in zip(times[:20], nights[:20], strict=True)
    }
    blessed = Blessed.make(baseline_of([*first.values()]), first, NIGHT.date(), "ops", "quiet")

    def judged(number, metrics, blessed=None):
        past = by_past(CASE.check, [], [], blessed, times[number], metrics, {})
        past = replace(past, usual=usual if blessed else {})
        return judge(one, metrics, general_bounds, FILE, CEILING, past, blessed, {})

    alone = [judged(number, night) for number, night in enumerate(nights)]
    assert not any(each.is_red or "overhead_fraction" in each.failed for each in alone)
    assert sum(each.outcome == OK.outcome for each in alone) > 24, "the ratio is near its bound"
    later = [str(judged(number, nights[number], blessed).outcome) for number in range(20, 30)]
    assert set(later) <= {"ok", "suspect (own_past)"}
    assert later.count("ok") > 6

    slow = on_lustre(spoil, backend, rng, phase, 1.0)  # about half as fast
    assert judged(30, slow).outcome.is_regression
    quiet = judged(30, slow, blessed)
    assert (str(quiet.outcome), quiet.rule) == ("suspect (own_past)", None), "not so much more"
    slow = on_lustre(spoil, backend, rng, phase, 8.0)
    loud = judged(30, slow, blessed)
    assert (str(loud.outcome), loud.rule, loud.runs) == ("regression (own_past)", "R3", 1)
    assert f"; most of the extra time is in {phase} (" in loud.sentence
