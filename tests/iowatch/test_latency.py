"""Single calls: the law of their results, the metrics, and the record of hours."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace

import pytest
from attrs import evolve
from cases import PLACE, case, metrics_of
from nights import LATENCY, at, month, night_id, ran, tonight
from result_file import CALL_SECONDS, make_result, turn_into_calls
from shown import html, prometheus

from iowatch.base.files import UserError
from iowatch.cases.verdict import Reason, State
from iowatch.judge.by_hour import HourValue, slow_hours
from iowatch.measure.checks import rate_name, rate_unit
from iowatch.measure.kinds.latency import CALLS, ENDS, QUANTILES
from iowatch.measure.law import require
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, read_result
from iowatch.night.gate import night_of
from iowatch.night.part_alarms import alarms_of_hours
from iowatch.night.record import SystemRecord
from iowatch.night.summary import call_hours
from iowatch.pages.plots import hour_map
from iowatch.past import hours
from iowatch.past.cost import costs
from iowatch.site.suites import read_suites

SECONDS = 120
FS3 = evolve(PLACE, system="archer", partition="fs3", name="fs3", path="/fs3")
NOW = datetime(2026, 11, 20, 1, tzinfo=UTC)
WRITE = ("write", "p99")


@pytest.fixture
def result(tmp_path):
    """result(change, slowdown=...): of LATENCY, spoiled by change."""

    def make(change=None, **how):
        data = make_result(["posix"], repeats=1, local_size=(1, 1, 1))
        data["run"]["ranks"] = 1
        turn_into_calls(data, SECONDS, **how)
        if change:
            change(data["cases"][0]["repetitions"][-1])
        path = tmp_path / "result.json"
        path.write_text(json.dumps(data))
        return read_result(path)

    return make


def lawful(found):
    require(found, LATENCY, 1, FS3)
    return found


# A result


def test_quantiles_come_with_their_intervals_as_far_as_calls_tell(result):
    values = metrics_of(lawful(result()), LATENCY)
    assert set(LATENCY.metrics) <= set(values)
    assert (values["write_p50_s"], values["write_p99_s"]) == pytest.approx((3e-3, 3e-2))
    assert values["write_p99_high_s"] == pytest.approx(3e-2)
    assert "write_p999_high_s" not in values, "an end that is not known"
    assert len(values) == 2 + len(CALLS) * (len(QUANTILES) * (1 + len(ENDS)) - 1) + len(CALLS) + 1
    assert values["cycles_max"] == pytest.approx(1 / sum(CALL_SECONDS.values()))
    assert values["write_s"] == pytest.approx(3e-3 * 1.18), "the mean"
    assert (rate_name(values), rate_unit(values)) == ("cycles_max", "cycles/s")
    parts = LATENCY.check.parts(values)
    assert {part.name: rate for part, rate in parts.items()} == pytest.approx(
        {call: 1 / seconds for call, seconds in CALL_SECONDS.items()}
    )
    warm = result(cold=False)
    assert provenance(warm)["witness"] == "through a page cache"
    with pytest.raises(InvalidResult, match="read may have come from a cache"):
        lawful(warm)
    require(warm, LATENCY, 1, evolve(FS3, cached_reads=True))


def one_byte_less(rep):
    rep["witness"]["bytes"] -= 1


def unread(rep):
    rep["file_bytes"] = rep["witness"]["bytes"] = 4096 * 999


def better(rep):
    rep["latency"]["calls"]["read"]["p99"][0] /= 2


def lost_call(rep):
    rep["latency"]["calls"]["read"]["buckets"][0] -= 1


def wrong_interval(rep):
    rep["latency"]["calls"]["open"]["p50"][1] *= 1.01


def half_a_cycle(rep):
    time = rep["phases"]["list"]
    time["operations"] -= 1
    time["rate"] = time["operations"] / time["window"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (one_byte_less, "confirmed more or less than all bytes"),
        (unread, "fewer bytes were confirmed than its calls have written"),
        (better, "not the one of its buckets"),
        (lost_call, "not the one of its buckets"),
        (wrong_interval, "not the one of its buckets"),
        (half_a_cycle, "not those of whole cycles"),
    ],
)
def test_law_refuses_figures_that_do_not_agree(result, change, said):
    with pytest.raises(InvalidResult, match=said):
        lawful(result(change))


def test_another_time_was_asked_for(result):
    with pytest.raises(InvalidResult, match="seconds: 120, where 5"):
        require(result(), case("Latency", "archer:fs3/cray", seconds=5), 1, FS3)


def test_hourly_suite_takes_what_disturbs_nobody():
    suites = {"nightly": {}, "acceptance": {}, "hourly": {"Latency": {"seconds": [120]}}}
    (setting,) = read_suites("here", evolve(FS3, suites=suites))["hourly"]["Latency"]
    assert (setting.nodes, setting.ranks_per_node, setting.text) == (1, 1, "seconds=120")
    site = SimpleNamespace(nodes=lambda suite: {LATENCY: 1}, filesystems=[FS3])
    assert costs(site, "hourly", [])["fs3"].minutes == SECONDS / 60
    suites["hourly"] = {"Metadata": {"items": [5], "files": ["shared"], "nodes": [1]}}
    with pytest.raises(UserError, match=r"hourly.*Metadata"):
        read_suites("here", evolve(FS3, suites=suites))


# Hours


def test_change_that_lasts_for_a_day_is_suspect_and_a_users_hours_are_not():
    (alarm,) = alarms_of_hours(month(), NOW)
    assert (alarm.outcome.state, alarm.outcome.reason) == (State.SUSPECT, Reason.SLOW_HOURS)
    assert alarm.sentence.startswith("access to fs3: the p99 of write is 2.0 times what is usual")
    assert alarm.since == NOW - timedelta(hours=23)
    assert not [*alarms_of_hours(month(since=12, factor=20.0), NOW)], "a user's long job"
    assert not [*alarms_of_hours(month(factor=1.2), NOW)], "too little to matter"
    assert not [*alarms_of_hours(month(days=13), NOW)], "too short a past"
    assert not [*alarms_of_hours(month(), NOW - timedelta(hours=12))], "as it was then"


def test_loss_of_all_calls_is_seen_through_the_noise_of_each():
    rng, noisy = Random(5), []
    for ago in reversed(range(24 * 30)):
        usual = 1.8 if ago < 24 else 1.0
        p99 = {call: {"p99": [usual * rng.lognormvariate(0, 0.5)] * 3} for call in CALLS}
        time = NOW - timedelta(hours=ago)
        noisy.append(hours.CaseHour(time=time, case=LATENCY, filesystem="fs3", calls=p99))
    (alarm,) = alarms_of_hours(noisy, NOW)
    assert "the p99 of all calls together is 1." in alarm.sentence


def test_hour_is_compared_with_its_own():
    """What is usual in the evening is slow in the morning, when it is four times as long."""

    def with_level(level):
        return [
            HourValue(h.time, level if NOW - h.time < timedelta(hours=24) else h.quantile(*WRITE))
            for h in month(factor=1.0)
        ]

    assert slow_hours(with_level(30e-3 * 2.0), NOW) is None, "in the evening it is usual"
    assert slow_hours(with_level(30e-3 * 4.5), NOW).slow == 24


def test_what_is_on_record_is_read_again_and_a_torn_line_is_none(tmp_path):
    made = month(days=2)
    hours.append(tmp_path, made)
    assert hours.read("archer", [tmp_path], NOW) == made
    assert hours.read("archer", [tmp_path], NOW - timedelta(hours=40)) == made[:8]
    (file,) = (tmp_path / "hours").iterdir()
    with file.open("a") as lines:
        lines.write('{"time": "2026-11-20T0')
    assert len(hours.read("archer", [tmp_path], NOW)) == 48
    later = [replace(hour, time=hour.time + timedelta(hours=1)) for hour in made[-1:]]
    lost = f"{file}: the last hour was cut off as it was written, and is lost"
    assert [hours.append(tmp_path, later) for _ in range(2)] == [[lost], []]
    assert hours.read("archer", [tmp_path], NOW + timedelta(hours=1)) == made + later
    file.write_text('{"time": 5}\n')
    with pytest.raises(UserError, match=r"archer-2026-11.jsonl: line 1 is no hour"):
        hours.read("archer", [tmp_path], NOW)
    record = SystemRecord(
        system="archer", runs=[ran()], now=at(24), databases=[tmp_path / "results.db"]
    )
    night = night_of(record, night_id())
    assert night.colour == "red", "the hours before it were compared with nothing"
    assert "line 1 is no hour" in night.problems[0]


def test_record_of_hours_that_cannot_be_listed_is_not_an_empty_one(tmp_path):
    assert hours.read("archer", [tmp_path], NOW) == []
    (tmp_path / hours.FOLDER).write_text("")
    with pytest.raises(UserError, match="hours: cannot be read: Not a directory"):
        hours.read("archer", [tmp_path], NOW)


def test_hours_that_come_to_an_end_make_the_night_amber_where_they_are_asked_for(tmp_path):
    hours.append(tmp_path, month(days=2))

    def night(later, asked):
        record = SystemRecord(
            system="archer", runs=[ran(hour=1 + later)], now=at(1100), databases=[tmp_path / "db"],
            hourly=asked,
        )  # fmt: skip
        return night_of(record, night_id())

    assert night(6, {LATENCY}).colour == "green"
    amber = night(7, {LATENCY})
    assert (amber.colour, night(7, None).colour, night(7, set()).colour) == (
        *("amber", "amber", "green"),
    )
    (alarm,) = amber.alarms
    assert amber.why == f"unjudged (no_hours): {alarm.sentence}"
    assert "hours of fs3: none is on record since 2026-11-20 01:00 UTC" in alarm.sentence
    assert amber.summary.headline.next_step == "iowatch run --system archer --suite hourly"
    assert amber.summary.headline.banner == "Amber · hours of fs3 · none since 20 Nov · cron"
    assert night(1000, {LATENCY}).colour == "amber", "however long ago"


# Page and export


def test_page_shows_each_call_in_words_too():
    maps = call_hours(month())
    assert [one.call for one in maps] == list(CALLS)
    one = maps[CALLS.index("write")]
    drawing = hour_map(one)
    assert drawing.count("<path class=") == 28 * 24
    assert "2026-11-20 01:00" in drawing
    assert "in the last hour (95 % within" in one.words
    assert "usually slowest at 22:00" in one.words
    assert f"<title>{one.words}</title>" in drawing, "for whoever does not see it"
    page = html(replace(tonight(ran()), hours=month()))
    assert page.count(" in the last hour (95") == 2 * len(CALLS)
    assert "Latency by hour" not in html(tonight(ran()))


def test_export_has_histograms_that_grow_within_a_month():
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

    night = replace(tonight(ran()), hours=month(factor=1.0))
    families = {family.name: family for family in openmetrics(prometheus([night]))}
    family = families["iowatch_latency_seconds"]
    assert (family.type, family.unit) == ("histogram", "seconds")
    of_write = [s for s in family.samples if s.labels["operation"] == "write"]
    buckets = [s for s in of_write if s.name.endswith("_bucket")]
    counts = [s.value for s in buckets]
    assert counts == sorted(counts)
    hours_of_month = 19 * 24 + 2
    (count,) = [s.value for s in of_write if s.name.endswith("_count")]
    assert counts[-1] == count == 1000 * hours_of_month
    assert {s.labels["le"] for s in buckets} >= {"1e-07", "1e-06", "100.0", "+Inf"}
