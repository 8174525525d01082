"""The verdict on a run: by references, and by these and the case's past together."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from attrs import evolve
from cases import case, changed

from iowatch.bless import Blessed, sample_of
from iowatch.checks import GENERAL_BOUNDS
from iowatch.detector.baseline import baseline_of
from iowatch.judge import Past, by_past, by_references, in_force, judge, medians
from iowatch.metrics import metrics_of
from iowatch.references import read_references
from iowatch.verdict import EXCUSABLE, GOOD, RED, UNTRIED, WORTHLESS, Kind, Verdict

CASE = case()
NIGHT = datetime(2026, 5, 1, tzinfo=UTC)
FILE = "reference_values/local.yaml"
CEILING = 2000.0
METRICS = {
    **dict.fromkeys(CASE.metrics, 1.0),
    "total_max": 1000.0,
    "stable_max": 900.0,
    "finish_fraction": 0.1,
    "ratio": 0.9,
}
MPIIO = {"open": 0.1, "write": 0.8, "close": 0.1}  # its seconds
USUAL = METRICS | {"close_s": 0.005, "finish_fraction": 0.04, "open_s": 0.01, "define_s": 0.01}
REFERENCES = {
    "total_max": [1000, -0.2, 0.5, "MiB/s"],
    "finish_fraction": [0, None, 0.45, "1"],
    "ratio": [0.9, -0.5, None],
}
BLESSED = Blessed(
    bandwidth=1000.0, spread=0.1, ratio=0.9, ratio_spread=0.05, finish_fraction=0.1, nights=30,
    first="2026-01-01", last="2026-01-30", runs="0123", settings="abcdef01",
    blessed=date(2026, 2, 1), who="ops", why="quiet weeks",
)  # fmt: skip
ONLY_BANDWIDTH = evolve(BLESSED, ratio=None, ratio_spread=None, finish_fraction=None)


def bounds(references):
    return read_references(CASE, references)


def general(**references):
    """Bounds that know neither machine nor size."""
    entries = bounds(references)
    return {name: replace(entry, is_general=True) for name, entry in entries.items()}


def verdict(references=REFERENCES, **changes):
    return by_references(CASE, {**METRICS, **changes}, bounds(references), FILE, CEILING)


def test_kinds_are_words_worst_first():
    assert [str(kind) for kind in Kind] == [
        "invalid", "too_fast", "severe", "defect", "regression", "no_baseline", "not_measured",
        "left_out", "suspect", "transient", "improvement", "noisy", "ok", "imported",
    ]  # fmt: skip
    assert [kind.rank for kind in Kind] == list(range(len(Kind)))
    assert {kind for kind in Kind if kind.is_red} == RED
    assert {*UNTRIED, *RED} > EXCUSABLE | WORTHLESS
    assert not EXCUSABLE & WORTHLESS, "nobody excuses what was not verified"
    assert not GOOD & (RED - {Kind.NO_BASELINE})


CLOSE = {"close_s": [1.0, -0.5, 0.5]}


def test_verdicts_by_references(golden):
    texts = []
    for references, changes, kind, *failed in (
        (REFERENCES, {}, "ok"),
        # On its bound a metric is fine.
        (REFERENCES, {"total_max": 800.0}, "ok"),
        (REFERENCES, {"total_max": 1500.0}, "ok"),
        (REFERENCES, {"ratio": 0.45}, "ok"),
        (REFERENCES, {"total_max": 799.0}, "regression", "total_max"),
        (REFERENCES, {"ratio": 0.44}, "regression", "ratio"),
        # An absolute bound needs no history.
        (REFERENCES, {"finish_fraction": 0.46}, "defect", "finish_fraction"),
        (REFERENCES, {"finish_fraction": 0.723, "ratio": 0.2}, "regression", "finish_fraction",
         "ratio"),
        # Faster than the upper bound, up to the ceiling; and it hides nothing.
        (REFERENCES, {"total_max": 1501.0}, "improvement"),
        (REFERENCES, {"total_max": 2000.0}, "improvement"),
        (REFERENCES, {"total_max": 1501.0, "ratio": 0.1}, "regression", "ratio"),
        # Without the sync a cache may be faster than that.
        (REFERENCES, {"total_max": 2001.0}, "improvement"),
        (REFERENCES, {"stable_max": 2000.0}, "ok"),
        (REFERENCES, {"stable_max": 2001.0}, "too_fast", "stable_max"),
        ({}, {"stable_max": 2001.0}, "too_fast", "stable_max"),
        # Seconds get worse upwards.
        (CLOSE, {"close_s": 1.6}, "regression", "close_s"),
        (CLOSE, {"close_s": 0.4}, "improvement"),
        ({}, {}, "no_baseline"),
    ):  # fmt: skip
        judged = verdict(references, **changes)
        assert (judged.kind, sorted(judged.failed)) == (kind, failed), changes
        assert judged.is_red is (Kind(kind) in RED)
        texts.append(f"{changes}\n{judged.sentence}\n")
    golden("verdicts.txt", "".join(texts))


def test_ceiling_of_a_read_is_of_what_was_read():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("stable")}
    metrics["total_max"] = 2001.0
    judged = by_references(case("SharedFileRead"), metrics, {}, FILE, CEILING)
    assert (judged.kind, judged.failed) == ("too_fast", ("total_max",))


def detected(kind, rule=None):
    return Verdict(Kind(kind), f"it is {kind}", rule=rule)


NONE, OK, SUSPECT, SEVERE = (
    detected("no_baseline"),
    detected("ok"),
    detected("suspect"),
    detected("severe", "R4"),
)
LOST, SLOW = detected("regression", "R1"), detected("regression", "R2")


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
        ({}, detected("defect", "R3"), None, "defect", ("finish_fraction",)),
        (LOW, NONE, None, "regression", ("ratio",)),
        # With one, a night below a bound may be noise, and one above it an alarm.
        (LOW, SUSPECT, BLESSED, "suspect", ()),
        (LOW, SLOW, BLESSED, "regression", ("ratio",)),
        ({}, LOST, BLESSED, "regression", ("stable_max",)),
        ({}, SEVERE, BLESSED, "severe", ("stable_max",)),
        ({}, detected("noisy"), BLESSED, "noisy", ()),
        ({}, detected("transient", "R1"), BLESSED, "transient", ()),
        # What the baseline does not know its references still bound.
        (LOW, OK, ONLY_BANDWIDTH, "regression", ("ratio",)),
        # The site's bound on bandwidth stands whatever the baseline says.
        (SLOWER, OK, BLESSED, "regression", ("total_max",)),
        (SLOWER, detected("improvement"), ONLY_BANDWIDTH, "regression", ("total_max",)),
        # Nothing excuses what cannot be.
        (TOO_FAST, OK, BLESSED, "too_fast", ("stable_max",)),
        (TOO_FAST, SEVERE, BLESSED, "too_fast", ("stable_max",)),
    ],
)
def test_past_and_present_together(changes, past, blessed, kind, failed):
    judged = together(changes, past, blessed)
    assert (judged.kind, judged.failed) == (kind, failed)
    if kind == past.kind and blessed:
        assert judged.sentence.split("; ")[0] == f"{CASE}: it is {past.kind}"


def test_what_the_detector_says_besides_is_kept():
    """When to run again, and since when: the night asks for it."""
    due = datetime(2026, 6, 1, 7)
    past = Verdict(Kind.SUSPECT, "low", rule="R1", drop=0.3, since=due, rerun_at=due, runs=2)
    judged = together({}, past, BLESSED)
    assert (judged.drop, judged.since, judged.rerun_at, judged.runs) == (0.3, due, due, 2)


def test_bound_of_which_the_detector_knows_nothing_counts_with_a_baseline_too():
    entries = bounds({**REFERENCES, "data_median": [100, -0.5, None]})
    assert set(in_force(entries, BLESSED)) == {"total_max", "data_median"}
    assert in_force(entries, ONLY_BANDWIDTH) == in_force(entries, None) == entries
    below = {"data_median": 10.0}
    judged = together(below, OK, BLESSED, entries)
    assert (judged.kind, judged.failed) == ("regression", ("data_median",))
    both = together(below, SEVERE, BLESSED, entries)
    assert both.kind == "regression"
    assert f"below its bound of 50 in {FILE}; it is severe; " in both.sentence


def test_bound_that_knows_neither_machine_nor_size_makes_nothing_red():
    half = general(ratio=[0.9, -0.5, None], finish_fraction=[0, None, 0.45])
    both = half | bounds({"total_max": [1000, -0.2, None]})
    for metrics, references, kind, failed in (
        (LOW, half, "suspect", ("ratio",)),
        ({"finish_fraction": 0.9}, half, "suspect", ("finish_fraction",)),
        ({"ratio": 0.5}, half, "ok", ()),
        ({"total_max": 1.0}, both, "regression", ("total_max",)),
        # What the site says counts, and what holds on any machine is said beside it.
        ({"total_max": 1.0, "ratio": 0.1}, both, "regression", ("total_max",)),
    ):
        judged = by_references(CASE, METRICS | metrics, references, FILE, CEILING)
        assert (judged.kind, judged.failed) == (kind, failed), metrics
    assert "ratio is 0.1, below its bound of 0.45" in judged.sentence
    low = general(data_median=[100, -0.5, None])
    for past, blessed, kind in (
        (OK, BLESSED, "suspect"),
        (detected("noisy"), BLESSED, "suspect"),
        (LOST, BLESSED, "regression"),
        (NONE, None, "suspect"),
    ):
        judged = together({"data_median": 1.0}, past, blessed, low, control={})
        assert judged.kind == kind, past
        assert not judged.is_red or judged.failed == ("stable_max",)


#: HDF5 on all stripes of Cirrus: it loses most of its time in H5Fclose.
FAULT = {"finish_fraction": 0.71, "close_s": 3.02, "stable_max": 25.0, "ratio": 0.03}


def test_founding_fault_is_red_on_the_first_night_where_it_is_unmistakable():
    trifle = {name: 1e-3 for name in METRICS if name.endswith("_s")}
    for changes, references, kind in (
        ({}, {}, "defect"),
        ({}, {"total_max": [1, 0, None]}, "defect"),
        ({}, {"total_max": [2000, -0.1, None]}, "defect"),
        (trifle, {}, "no_baseline"),
        (TOO_FAST, {}, "too_fast"),
    ):
        judged = together(FAULT | changes, NONE, None, references)
        assert judged.kind == kind, changes
        if kind == "defect":
            assert judged.failed[-1] == "finish_fraction"
            assert "hdf5 has less than half of MPI-IO's bandwidth in the same" in judged.sentence
    median = together(FAULT, NONE, None, {}, control={"write": 5.0})
    assert median.kind == "no_baseline", "in the median round MPI-IO is not twice as fast"
    assert together(FAULT, OK, BLESSED, {}).kind == "ok", "its past knows it"
    assert together(FAULT, OK, ONLY_BANDWIDTH, {}).kind == "defect"


def test_run_whose_ranks_waited_for_processors_says_nothing_of_being_slow():
    waited = "node_busy: its ranks waited"

    def judged(past, blessed, references=REFERENCES, **changes):
        return together(changes, past, blessed, references, control={}, waited=waited)

    amber = judged(NONE, None, ratio=0.1)
    assert (amber.kind, amber.failed) == ("not_measured", ())
    assert amber.sentence == (
        f"{CASE}: {waited}; as it was measured, ratio is 0.1, below its bound of 0.45 in {FILE}"
    )
    for past in (SUSPECT, SEVERE, LOST):
        assert judged(past, BLESSED).kind is Kind.NOT_MEASURED
    # It was fast enough all the same; what a cache has measured is no matter of processors.
    assert judged(OK, BLESSED).kind is Kind.OK
    assert judged(NONE, None).kind is Kind.OK
    assert judged(NONE, None, {}).kind is Kind.NO_BASELINE
    assert judged(OK, BLESSED, stable_max=2001.0).kind is Kind.TOO_FAST


def test_why_it_is_slow_is_told_whoever_finds_it():
    """By a bound, by the past, and by the rule that needs no past."""
    lost = "; it spends 71 % of the time finishing its file"
    for past, blessed, usual, kind, why in (
        (NONE, None, {}, "defect", "finish_fraction is 0.71, above its bound of "),
        (detected("regression", "R3"), BLESSED, USUAL, "regression", "it is regression"),
        (detected("defect", "R3"), BLESSED, USUAL, "defect", "it is defect"),
        (SUSPECT, BLESSED, USUAL, "suspect", "it is suspect"),
        (SEVERE, BLESSED, USUAL, "severe", "it is severe"),
    ):
        judged = together(FAULT, past, blessed, {"finish_fraction": [0, None, 0.45]}, usual)
        assert judged.kind == kind
        assert judged.sentence.startswith(f"{CASE}: {why}"), judged.sentence
        # R3's own sentence has the part of the time.
        assert (lost in judged.sentence) is ((past.rule, kind) != ("R3", "regression"))
        assert "; most of the extra time is in close (" in judged.sentence
        assert judged.sentence.endswith("not the filesystem") is (judged.is_red and bool(usual))

    slow = together({"write_s": 9.0, "stable_max": 25.0}, LOST, BLESSED, usual=USUAL)
    begin = f"{CASE}: it is regression; most of the time is lost in write: 9 s, usually 1 s; MPI-IO"
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
    assert 0.25 < medians(nights)["finish_fraction"] < 0.4, "what it takes there in good health"

    first = {
        f"{time:%F}": [sample_of(time, night, {})]
        for time, night in zip(times[:20], nights[:20], strict=True)
    }
    blessed = Blessed.of(baseline_of([*first.values()]), first, NIGHT.date(), "ops", "quiet")

    def judged(number, metrics, blessed=None):
        past = by_past([], [], blessed, times[number], metrics, {})
        past = replace(past, usual=usual if blessed else {})
        return judge(one, metrics, general_bounds, FILE, CEILING, past, blessed, {})

    alone = [judged(number, night) for number, night in enumerate(nights)]
    assert not any(each.kind == "defect" or "finish_fraction" in each.failed for each in alone)
    assert sum(each.kind == "ok" for each in alone) > 24, "its ratio is not far from its bound"
    later = [judged(number, nights[number], blessed).kind for number in range(20, 30)]
    assert set(later) <= {"ok", "suspect"}
    assert later.count("ok") > 6

    slow = on_lustre(spoil, backend, rng, phase, 1.0)  # about half as fast
    assert judged(30, slow).kind in ("defect", "regression")
    quiet = judged(30, slow, blessed)
    assert (quiet.kind, quiet.rule) == ("suspect", None), "not so much more"
    slow = on_lustre(spoil, backend, rng, phase, 8.0)
    loud = judged(30, slow, blessed)
    assert (loud.kind, loud.rule, loud.runs) == ("regression", "R3", 1)
    assert f"; most of the extra time is in {phase} (" in loud.sentence
