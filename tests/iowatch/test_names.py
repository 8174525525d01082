"""What is made of a result on names: the law, its metrics, a past for each phase, and the page."""

import json
import random

import pytest
from attrs import evolve
from cases import PLACE, case, metrics_of
from nights import NIGHT, night_id, ran, tonight
from result_file import make_result, turn_into_names
from shown import html, markdown, prometheus

from iowatch.base.files import UserError
from iowatch.cases.verdict import NO_REFERENCE, SLOWER, SUSPECT
from iowatch.judge.baseline import estimate
from iowatch.judge.bless import Blessed, samples_of
from iowatch.judge.judge import Past, judge
from iowatch.measure.checks import kind_of, rate_name, rate_unit
from iowatch.measure.kinds.metadata import NAME_PHASES, NAME_RATES
from iowatch.measure.law import require
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, read_result
from iowatch.site.suites import read_suites

ITEMS, RANKS = 50, 4
NAMES = case("Metadata", "archer:fs3/cray", items=ITEMS, files="shared")
FS3 = evolve(PLACE, system="archer", partition="fs3", name="fs3", path="/fs3")


@pytest.fixture
def result(tmp_path):
    """result(change, slowdown=...): of NAMES, spoiled by change."""

    def make(change=None, **how):
        data = make_result(["posix"], repeats=NAMES.check.repeats, local_size=(1, 1, 1))
        turn_into_names(data, ITEMS, **how)
        if change:
            change(data)
        path = tmp_path / "result.json"
        path.write_text(json.dumps(data))
        return read_result(path)

    return make


def lawful(found):
    require(found, NAMES, NAMES.check.repeats, FS3)
    return found


# Metrics


def test_each_phase_has_its_best_rate_and_its_median_seconds(result):
    values = metrics_of(lawful(result()), NAMES)
    assert set(values) == set(NAMES.metrics)
    each = ITEMS * RANKS
    # Round 3 takes half of each phase's time, but twice that of stat.
    assert values["create_rate"] == pytest.approx(each / 0.25)
    assert values["list_rate"] == pytest.approx(2 * each / 0.025)
    assert values["stat_rate"] == pytest.approx(each / 0.1)
    assert (values["create_s"], values["stat_s"], values["sync_s"]) == (0.5, 0.1, 0.3)
    # All phases together, and not the sync.
    assert values["items_median"] == pytest.approx(each / 1.6)
    assert values["items_max"] == pytest.approx(each / (1.5 / 2 + 0.2))
    assert (rate_name(values), rate_unit(values)) == ("items_max", "items/s")
    found = kind_of(NAMES).measured(result(), NAMES)
    assert set(found.slowest(NAMES.check.phases)) == {*NAME_PHASES, "sync"}
    assert "MDT" in provenance(result(mdt=1))


# The law


def lose_names(rep):
    rep["witness"]["names"] -= 1


def one_less(phase):
    def change(rep):
        time = rep["phases"][phase]
        time["operations"] -= 1
        time["rate"] = time["operations"] / time["window"]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lose_names,
            "1 repetition of posix in which more or fewer names were confirmed",
        ),
        (one_less("rmdir"), "of which a phase has more or fewer operations than there were names"),
        (one_less("list"), "in which not every name was listed"),
    ],
)
def test_a_result_that_is_not_of_all_names_has_no_metric(result, change, said):
    spoilt = result(lambda data: change(data["cases"][0]["repetitions"][2]))
    with pytest.raises(InvalidResult, match=said):
        lawful(spoilt)


# The past


def metrics(**slower):
    """Of a run whose phases take this many times what they usually do."""
    seconds = dict.fromkeys(NAME_PHASES, 0.01) | {"create": 0.5, "unlink": 0.3}
    seconds = {phase: s * slower.get(phase, 1.0) for phase, s in seconds.items()}
    items = 200 / sum(seconds.values())
    values = {"items_max": items, "items_median": items, "sync_s": 0.1}
    values |= {rate: 200 / seconds[phase] for phase, rate in NAME_RATES.items()}
    return values | {f"{phase}_s": s for phase, s in seconds.items()}


def made(ago, hour=1.0, noise=None, verdict="ok", **slower):
    noise = noise or random.Random(ago)
    jitter = {phase: noise.gauss(1, 0.03) for phase in NAME_PHASES}
    slower = {phase: jitter[phase] * slower.get(phase, 1.0) for phase in NAME_PHASES}
    return ran(NAMES, ago, hour, metrics=metrics(**slower), verdict=verdict)


PAST = [made(ago) for ago in range(40, 0, -1)]


def blessed():
    nights = {run.night: samples_of([run]) for run in PAST if run.night <= night_id(10)}
    return Blessed.make(estimate([*nights.values()]), nights, NIGHT, "ops", "quiet")


def verdict_of(*runs):
    """On the last run, by the nights before and the runs of its own."""
    own = {run.night for run in runs}
    before = [run for run in PAST if run.night not in own]
    row = tonight(*before, *runs, blessed={NAMES: blessed()}).cases[0]
    past = Past(row.judged.verdict, None, row.usual)
    return row, judge(NAMES, runs[-1].metrics, {}, "", 1.0, past, blessed(), {})


def test_a_slow_phase_is_found_and_named_though_it_takes_little_of_the_time():
    _, well = verdict_of(made(0))
    assert well.outcome.is_well
    for phase in ("stat", "rename"):
        runs = [made(0, hour=1 + 4 * number, **{phase: 5.0}) for number in range(5)]
        _, first = verdict_of(runs[0])
        assert first.outcome == SUSPECT
        assert f"the rate of {phase}" in first.sentence, first.sentence
        _, last = verdict_of(*runs)
        assert (last.outcome, last.rule) == (SLOWER, "R4")
        assert f"the rate of {phase}" in last.sentence, last.sentence
        assert "MiB/s" not in last.sentence
        assert "bandwidth" not in last.sentence
        assert last.failed == (NAME_RATES[phase],)
    # A smaller loss is an alarm once it lasts.
    lasting = [made(ago, hour=2 + 4 * number, stat=1.7) for ago in (3, 2, 1) for number in range(5)]
    _, last = verdict_of(*lasting, *(made(0, hour=2 + 4 * n, stat=1.7) for n in range(5)))
    assert (last.outcome, last.failed) == (SLOWER, ("stat_rate",))
    assert "the rate of stat is 4" in last.sentence
    assert "operations/s since 2026-11-1" in last.sentence
    # Where most of the time went, the whole is slow as well.
    _, whole = verdict_of(made(0, create=3.0, list=3.0, read=3.0))
    assert "the rate of all phases together is 5" in whole.sentence
    assert "so are those of create, list and read" in whole.sentence
    assert "most of the time is lost in create" in whole.sentence


def test_without_a_baseline_no_phase_has_a_past():
    row = tonight(*PAST, made(0, stat=3.0)).cases[0]
    assert row.judged.verdict.outcome == NO_REFERENCE


# What is shown


def test_page_report_and_export_have_operations_in_place_of_bytes():
    night = tonight(*PAST, made(0), blessed={NAMES: blessed()})
    page, text = html(night), prometheus([night])
    for words in ("items/s", "create, best", 'class="phase-create"'):
        assert words in page, words
    row = night.cases[0]
    assert [phase for phase, *_ in row.phases] == [*NAME_PHASES[:2], "sync", *NAME_PHASES[2:]]
    assert "items/s" in row.sentence
    assert "iowatch_metric_operations_per_second{" in text
    assert "iowatch_case_rate_bytes_per_second" not in text
    suspect = tonight(
        *PAST, made(0, verdict="suspect (own_past)", create=3.0), blessed={NAMES: blessed()}
    )
    assert "items/s" in markdown(suspect)


# What a site asks for


def test_a_site_names_the_mdts_that_its_suites_ask_for():
    names = {"items": [10], "files": ["shared"], "nodes": [1]}

    def suite(mdts=(), **more):
        suites = {"nightly": {"Metadata": {**names, **more}}, "acceptance": {}}
        settings = read_suites("x", evolve(FS3, suites=suites, mdts=mdts))["nightly"]["Metadata"]
        return [dict(setting.parameters).get("mdt") for setting in settings]

    assert suite() == [None]
    assert suite((0, 1, 2), mdt=[0, 2]) == [0, 2]
    for mdts, there in (((), "none"), ((0, 1), "0, 1")):
        said = f"^x: suites, nightly, Metadata: mdt has 2, and there are {there}: add it to 'mdts'$"
        with pytest.raises(UserError, match=said):
            suite(mdts, mdt=[2])
    with pytest.raises(UserError, match="each the number of a target, 0 or more"):
        suite((0,), mdt=[-1])
