"""The verdict on a run: by references, and by these and the case's past together."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
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
READ = case("SharedFileRead")
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
USUAL = METRICS | {"close_s": 0.005, "finish_fraction": 0.04}
USUAL |= {"open_s": 0.01, "define_s": 0.01}
REFERENCES = {
    "total_max": [1000, -0.2, 0.5, "MiB/s"],
    "finish_fraction": [0, None, 0.45, "1"],
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
        "invalid", "too_fast", "severe", "defect", "regression", "no_baseline", "not_measured",
        "left_out", "suspect", "transient", "improvement", "noisy", "ok", "imported",
    ]  # fmt: skip
    assert [kind.rank for kind in Kind] == list(range(len(Kind)))
    assert {kind for kind in Kind if kind.is_red} == RED
    assert {*UNTRIED, *RED} > EXCUSABLE | WORTHLESS
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
        (REFERENCES, {"finish_fraction": 0.46}, "defect", ("finish_fraction",)),
        (
            REFERENCES,
            {"finish_fraction": 0.46, "ratio": 0.2},
            "regression",
            ("finish_fraction", "ratio"),
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
        (
            {"finish_fraction": 0.723},
            f"finish_fraction is 0.723, above its bound of 0.45 in {FILE}",
        ),
        ({"total_max": 500.0}, f"total_max is 500 MiB/s, below its bound of 800 in {FILE}"),
        ({"total_max": 1600.0}, f"total_max is 1600 MiB/s, above its bound of 1500 in {FILE}"),
        ({}, f"3 metrics are within {FILE}"),
        (
            {"total_max": 500.0, "ratio": 0.1},
            f"total_max is 500 MiB/s, below its bound of 800 in {FILE}; "
            f"ratio is 0.1, below its bound of 0.45 in {FILE}",
        ),
        (
            {"stable_max": 2001.0},
            "stable_max is 2001 MiB/s, above the physical ceiling of 2000 MiB/s in the site's "
            "configuration: a cache or a bug was measured",
        ),
    ):
        assert verdict(**changes).sentence == f"{CASE}: {sentence}"
    assert verdict({}).sentence == f"{CASE}: there is no reference value for it in {FILE}"


def test_ceiling_of_a_read_is_of_what_was_read():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("stable")}
    found = by_references(READ, {**metrics, "total_max": 2001.0}, {}, FILE, CEILING)
    assert (found.kind, found.failed) == ("too_fast", ("total_max",))


def said(kind, rule=None):
    return Verdict(Kind(kind), f"it is {kind}", rule=rule)


def together(changes, past, blessed, references=REFERENCES, usual=(), control=MPIIO):
    return judge(
        CASE,
        {**METRICS, **changes},
        read_references(CASE, references),
        FILE,
        CEILING,
        Past(past, None, dict(usual)),
        blessed,
        control,
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
        begin = f"{CASE}: it is {past.kind}"
        if kind == past.kind and blessed and found.sentence.split("; ")[0] != begin:
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
    assert f"below its bound of 50 in {FILE}; it is severe; " in both.sentence


def test_defect_is_said_of_a_case_that_has_no_reference_either():
    assert together({}, said("defect", "R3"), None, {}).kind is Kind.DEFECT


def general(**references):
    entries = read_references(CASE, references)
    return {name: replace(entry, is_general=True) for name, entry in entries.items()}


def test_bound_that_knows_neither_machine_nor_size_makes_nothing_red():
    own = read_references(CASE, {"total_max": [1000, -0.2, None]})
    half = general(ratio=[0.9, -0.5, None], finish_fraction=[0, None, 0.45])
    for metrics, references, kind, failed in (
        ({"ratio": 0.1}, half, "suspect", ("ratio",)),
        ({"finish_fraction": 0.9}, half, "suspect", ("finish_fraction",)),
        ({"ratio": 0.5}, half, "ok", ()),
        ({"total_max": 1.0}, half | own, "regression", ("total_max",)),
        # What the site says counts, and what holds on any machine is said beside it.
        ({"total_max": 1.0, "ratio": 0.1}, half | own, "regression", ("total_max",)),
    ):
        found = by_references(CASE, METRICS | metrics, references, FILE, CEILING)
        assert (found.kind, found.failed) == (kind, failed), metrics
    assert "ratio is 0.1, below its bound of 0.45" in found.sentence
    for past, blessed, kind in (
        (said("ok"), BLESSED, "suspect"),
        (said("noisy"), BLESSED, "suspect"),
        (said("regression", "R1"), BLESSED, "regression"),
        (said("no_baseline"), None, "suspect"),
    ):
        low = general(data_median=[100, -0.5, None])
        past = Past(past, None, {})
        found = judge(CASE, METRICS | {"data_median": 1.0}, low, FILE, CEILING, past, blessed, {})
        assert found.kind == kind, past
        assert not found.is_red or found.failed == ("stable_max",)


#: HDF5 on all stripes of Cirrus: it loses most of its time in H5Fclose.
FAULT = {"finish_fraction": 0.71, "close_s": 3.02, "stable_max": 25.0}
FAULT |= {"ratio": 0.03}


def test_founding_fault_is_red_on_the_first_night_where_it_is_unmistakable():
    for changes, references, kind in (
        ({}, {}, "defect"),
        ({}, {"total_max": [1, 0, None]}, "defect"),
        ({}, {"total_max": [2000, -0.1, None]}, "defect"),
        ({name: 1e-3 for name in METRICS if name.endswith("_s")}, {}, "no_baseline"),
        ({"stable_max": 2001.0}, {}, "too_fast"),
    ):
        found = together(FAULT | changes, said("no_baseline"), None, references)
        assert found.kind == kind, changes
        if kind == "defect":
            assert found.failed[-1] == "finish_fraction"
            assert "hdf5 has less than half of MPI-IO's bandwidth in the same" in found.sentence
    median = together(FAULT, said("no_baseline"), None, {}, control={"write": 5.0})
    assert median.kind == "no_baseline", "in the median round MPI-IO is not twice as fast"
    assert together(FAULT, said("ok"), BLESSED, {}).kind == "ok", "its past knows it"
    assert together(FAULT, said("ok"), ONLY_BANDWIDTH, {}).kind == "defect"


WAITED = "node_busy: its ranks waited"


def test_run_whose_ranks_waited_for_processors_says_nothing_of_being_slow():
    def judged(past, blessed, references=REFERENCES, **changes):
        return judge(
            CASE,
            METRICS | changes,
            read_references(CASE, references),
            FILE,
            CEILING,
            Past(past, None, {}),
            blessed,
            {},
            WAITED,
        )

    red = judged(said("no_baseline"), None, ratio=0.1)
    assert red.kind is Kind.NOT_MEASURED
    begin = f"{CASE}: {WAITED}; as it was measured, ratio is 0.1, below its bound of 0.45 in {FILE}"
    assert red.sentence == begin
    assert red.failed == ()
    for past in (said("suspect"), said("severe", "R4"), said("regression", "R1")):
        assert judged(past, BLESSED).kind is Kind.NOT_MEASURED
    # It was fast enough all the same; what a cache has measured is no matter of processors.
    assert judged(said("ok"), BLESSED).kind is Kind.OK
    assert judged(said("no_baseline"), None).kind is Kind.OK
    assert judged(said("no_baseline"), None, {}).kind is Kind.NO_BASELINE
    assert judged(said("ok"), BLESSED, stable_max=2001.0).kind is Kind.TOO_FAST


def test_why_it_is_slow_is_told_whoever_finds_it():
    """By a bound, by the past, and by the rule that needs no past."""
    lost = "; it spends 71 % of the time finishing its file"
    for past, blessed, usual, kind, why in (
        (said("no_baseline"), None, {}, "defect", "finish_fraction is 0.71, above its bound of "),
        (said("regression", "R3"), BLESSED, USUAL, "regression", "it is regression"),
        (said("defect", "R3"), BLESSED, USUAL, "defect", "it is defect"),
        (said("suspect"), BLESSED, USUAL, "suspect", "it is suspect"),
        (said("severe", "R4"), BLESSED, USUAL, "severe", "it is severe"),
    ):
        references = {"finish_fraction": [0, None, 0.45]}
        found = together(FAULT, past, blessed, references, usual)
        assert found.kind == kind
        assert found.sentence.startswith(f"{CASE}: {why}"), found.sentence
        # R3's own sentence has the part of the time.
        assert (lost in found.sentence) is ((past.rule, kind) != ("R3", "regression"))
        assert "; most of the extra time is in close (" in found.sentence
        assert found.sentence.endswith("not the filesystem") is (found.is_red and bool(usual))

    write = {"write_s": 9.0, "stable_max": 25.0}
    found = together(write, said("regression", "R1"), BLESSED, usual=USUAL)
    lost = "most of the time is lost in write: 9 s, usually 1 s"
    assert found.sentence.startswith(f"{CASE}: it is regression; {lost}; MPI-IO in the same rounds")


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
                for name, value in seconds.items():
                    rep["phases"][name].update(window=value, file_window=value)
                stable = 8 / (seconds["total"] + seconds["sync"])
                rep["rates"].update(total=8 / seconds["total"], stable=stable)

    result = spoil(change, backends=["mpiio", backend], repeats=4)
    return metrics_of(result, changed(CASE, backend=backend))


@pytest.mark.parametrize(("backend", "phase"), [("hdf5", "close"), ("netcdf", "define")])
def test_lustre_in_good_health_is_quiet_and_loud_when_it_finishes_later(spoil, backend, phase):
    own, rng = changed(CASE, backend=backend), random.Random(1)
    bounds = read_references(own, GENERAL_BOUNDS[backend])
    nights = [on_lustre(spoil, backend, rng) for _ in range(30)]
    times = [NIGHT + timedelta(number) for number in range(31)]
    assert 0.25 < medians(nights)["finish_fraction"] < 0.4, "what it takes there in good health"

    first = {
        f"{time:%F}": [sample_of(time, night, {})]
        for time, night in zip(times[:20], nights[:20], strict=True)
    }
    baseline = baseline_of([*first.values()])
    blessed = Blessed.of(baseline, first, NIGHT.date(), "ops", "quiet")
    usual = medians(nights[:20])

    def judged(number, metrics, blessed=None):
        past = by_past([], [], blessed, times[number], metrics, {})
        past = replace(past, usual=usual if blessed else {})
        return judge(own, metrics, bounds, FILE, CEILING, past, blessed, {})

    alone = [judged(number, night) for number, night in enumerate(nights)]
    assert not [one for one in alone if one.kind == "defect" or "finish_fraction" in one.failed]
    assert sum(one.kind == "ok" for one in alone) > 24, "its ratio is not far from its bound"
    later = [judged(number, nights[number], blessed).kind for number in range(20, 30)]
    assert set(later) <= {"ok", "suspect"}
    assert later.count("ok") > 6

    slow = on_lustre(spoil, backend, rng, phase, 1.0)  # about half as fast
    assert judged(30, slow).kind in ("defect", "regression")
    found = judged(30, slow, blessed)
    assert (found.kind, found.rule) == ("suspect", None), "not so much more"
    slow = on_lustre(spoil, backend, rng, phase, 8.0)
    found = judged(30, slow, blessed)
    assert (found.kind, found.rule, found.runs) == ("regression", "R3", 1)
    assert f"; most of the extra time is in {phase} (" in found.sentence
