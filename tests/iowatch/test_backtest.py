import json
import math
import os
import random

import pytest
from typer.testing import CliRunner

from iowatch.cli import app
from iowatch.detector import backtest as replayed
from iowatch.detector.backtest import read
from iowatch.detector.settings import SETTINGS
from iowatch.files import UserError

HEADER = "case,night,run,max_mib_s,control_max_mib_s,finish_fraction"


@pytest.fixture
def table(tmp_path):
    """table(lines): a file with these lines, under the header unless another is given."""

    def write(lines, header=HEADER):
        path = tmp_path / "past.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write


def healthy(case="a", nights=range(60), runs=1, spread=0.03):
    """Lines of a case that is well."""
    rng = random.Random(case)
    return [
        f"{case},{night},{run},{1000 * math.exp(rng.gauss(0, spread)):.2f},1100,0.03"
        for night in nights
        for run in range(runs)
    ]


def faulty(case, nights, part, ratio=0.9, finish=0.03, runs=5):
    """Lines of all runs at this part of the usual bandwidth."""
    return [
        f"{case},{night},{run},{1000 * part},{1000 * part / ratio},{finish}"
        for night in nights
        for run in range(runs)
    ]


def backtest(*arguments, **options):
    """Of the cases."""
    return replayed.backtest(*arguments, **options)[0]


def verdicts(result, case="a"):
    return {row.night: row.verdict for row in result.rows if row.case == case}


def test_a_healthy_case_is_judged_from_the_blessed_nights_on(table):
    result = backtest(table(healthy()))
    assert verdicts(result) == dict.fromkeys(range(30, 60), "ok")
    assert (result.judged, result.runs, result.alarms) == (30, 30, 0)
    assert backtest(table(healthy()), bless_nights=20).judged == 40
    assert result.summary == (
        "1 case, 30 nights judged: 0 alarms (0.00 per 1000), 0 persisted, 0 transient "
        "(0.00 per 1000); 0 severe nights; 30 runs used (1.00 a night)"
    )


def test_a_slow_down_is_told_once_and_the_nights_after_it_are_blessed(table):
    result = backtest(table([*healthy(nights=range(40)), *faulty("a", range(40, 90), 0.5)]))
    said = verdicts(result)
    assert [said[night] for night in range(39, 43)] == ["ok", "suspect", "suspect", "regression"]
    assert {said[night] for night in range(43, 73)} == {"no_baseline"}
    assert {said[night] for night in range(73, 90)} == {"ok"}  # the new level is the baseline
    assert (result.alarms, result.persisted, result.transients) == (1, 1, 0)
    assert (result.judged, result.runs) == (10 + 3 + 17, 10 + 15 + 17)


def test_a_line_of_json_for_every_judged_night(table):
    result = backtest(table([*healthy(nights=range(30)), *faulty("a", range(30, 33), 0.5)]))
    alarm = json.loads(result.rows[-1].json())
    assert alarm.pop("drop") == pytest.approx(0.5, abs=0.02)
    assert alarm == {
        "case": "a", "night": 32, "verdict": "regression", "rule": "R1", "runs_used": 5,
    }  # fmt: skip
    assert list(json.loads(result.rows[0].json())) == [
        "case", "night", "verdict", "rule", "runs_used", "drop",
    ]  # fmt: skip


def test_an_alarm_that_goes_is_transient_and_keeps_the_baseline(table):
    lines = [*healthy(nights=range(40)), *faulty("a", range(40, 43), 0.5)]
    result = backtest(table([*lines, *healthy(nights=range(43, 80))]))
    said = verdicts(result)
    assert [said[night] for night in range(42, 49)] == [
        "regression", *["no_baseline"] * 4, "transient", "ok",
    ]  # fmt: skip
    assert (result.alarms, result.persisted, result.transients) == (1, 0, 1)
    gain = [f"a,{night},0,1500,,0.03" for night in range(43, 90)]
    assert verdicts(backtest(table([*lines, *gain])))[89] == "improvement"  # not blessed
    again = [*lines, *healthy(nights=range(43, 60)), *faulty("a", range(60, 63), 0.5)]
    assert backtest(table(again)).alarms == 2


def test_reruns_are_used_only_if_they_are_asked_for(table):
    lines = [line for line in healthy(runs=5) if not line.startswith("a,45,")]
    lines += ["a,45,0,500,550,0.03", "a,45,1,600,650,0.03", "a,45,2,1000,1100,0.03"]
    result = backtest(table([*lines, "a,45,3,1,1,0.03"]))
    used = {row.night: row.runs_used for row in result.rows}
    assert used.pop(45) == 3
    assert set(used.values()) == {1}
    assert verdicts(result)[45] == "ok"


def test_the_ratio_and_the_finish_of_the_file_are_judged(table):
    lines = healthy(nights=range(30))
    r2 = backtest(table([*lines, *faulty("a", [30], 0.3, ratio=0.27)])).rows[-1]
    assert (r2.verdict, r2.rule, r2.runs_used) == ("regression", "R2", 5)
    r3 = backtest(table([*lines, *faulty("a", [30], 0.3, ratio=0.27, finish=0.8)])).rows[-1]
    assert (r3.verdict, r3.rule, r3.runs_used) == ("regression", "R3", 1)
    assert r3.drop == pytest.approx(0.7, abs=0.03)


def test_a_defect_from_the_first_day_is_told_before_and_after_the_bless(table):
    result = backtest(table(faulty("a", range(40), 0.3, ratio=0.27, finish=0.8)))
    defects = [night for night, verdict in verdicts(result).items() if verdict == "defect"]
    assert defects == [0, 30]
    assert (result.alarms, result.transients) == (2, 0)


def test_a_severe_night_is_no_alarm(table):
    lines = [*healthy(nights=range(30)), *faulty("a", [30], 0.1), *healthy(nights=range(31, 40))]
    result = backtest(table(lines))
    assert verdicts(result)[30] == "severe"
    assert (result.severe, result.alarms) == (1, 0)


def test_lines_may_stand_in_any_order_with_gaps(table):
    lines = [*healthy("a", range(0, 200, 3)), *healthy("b"), *faulty("a", [999, 1000, 1005], 0.5)]
    random.Random(1).shuffle(lines)
    result = backtest(table(lines))
    assert [row.night for row in result.rows if row.verdict == "regression"] == [1005]
    assert [row.case for row in result.rows] == sorted(row.case for row in result.rows)
    nights = [row.night for row in result.rows if row.case == "a"]
    assert nights == sorted(nights)


def test_a_case_with_few_nights_is_not_judged(table):
    result = backtest(table([*healthy("a", range(12)), *healthy("b")]))
    assert {row.case for row in result.rows} == {"b"}
    assert (result.cases, result.short) == (2, 1)
    assert result.summary.endswith("; 1 case with too few nights")
    nothing = backtest(table([]))
    assert (nothing.judged, nothing.rows) == (0, [])


def test_empty_cells(table):
    lines = [
        "a,0,0,1000,,",
        "a,1,0,,1100,0.1",  # the nightly run failed: no night
        "a,1,1,1000,1100,0.1",
        "a,2,0,1000,1100,",
        "a,2,1,,,",
        "a,2,2, 900 ,nan,0.2",
    ]
    nights = read(table(lines))["a"].nights
    assert [(past.night, len(past.samples)) for past in nights] == [(0, 1), (2, 2)]
    assert [(run.best, run.ratio, run.finish_fraction) for run in nights[1].samples] == [
        (1000, pytest.approx(10 / 11), None),
        (900, None, 0.2),
    ]
    assert (nights[0].samples[0].ratio, nights[0].samples[0].finish_fraction) == (None, None)


def test_nights_of_one_day_are_two_by_their_ids(table):
    nights = [f"a,2026-01-0{day}T0{hour}0000,0,5,," for day in (2, 1) for hour in (1, 3)]
    ids = [past.night for past in read(table(nights))["a"].nights]
    assert ids == [f"2026-01-0{day}T0{hour}0000" for day in (1, 2) for hour in (1, 3)]


def test_control_and_finish_columns_may_be_missing_and_others_there(table):
    path = table(["a,0,0,1000,x"], header="case,night,run,max_mib_s,comment")
    assert read(path)["a"].nights[0].samples[0].best == 1000


def test_runs_of_one_day_are_its_reruns(table):
    header = "system,application,start_utc,mib_s"
    runs = [
        "cori,ior,2017-02-19T21:00:00Z,700",
        "cori,ior,2017-02-19T01:24:03Z,500",
        "cori,ior,2017-02-18T01:28:03Z,900",
        "cori,hacc,2017-02-18T01:28:03Z,100",
    ]
    series = read(table(runs, header))
    assert sorted(series) == ["cori/hacc", "cori/ior"]
    nights = series["cori/ior"].nights
    assert [past.night for past in nights] == ["2017-02-18", "2017-02-19"]
    assert [run.best for run in nights[1].samples] == [500, 700]
    assert f"{nights[1].samples[1].time:%Y-%m-%d %H:%M}" == "2017-02-19 21:00"


def test_a_malformed_table_is_one_line_of_error(table):
    for lines, said in (
        (["a,0,0,fast,,"], "line 2: max_mib_s is 'fast'"),
        (["a,0,0,1,,", "a,1,0,0,,"], "line 3: max_mib_s is '0'"),
        (["a,0,0,-5,,"], "line 2: max_mib_s is '-5'"),
        (["a,0,0,inf,,"], "line 2: max_mib_s is 'inf'"),
        (["a,0,0,1,0,"], "line 2: control_max_mib_s is '0'"),
        (["a,0,0,1,1,1.5"], "line 2: finish_fraction is '1.5'"),
        (["a,1.5,0,1,1,"], "line 2: night is '1.5'"),
        (["a,,0,1,1,"], "line 2: night is empty"),
        ([",1,0,1,1,"], "line 2: case is empty"),
        (["a,0,-1,1,1,"], "line 2: run is '-1'"),
        (["a,0,0,1,,", "a,0,0,2,,"], "case a, night 0, run 0 is there twice"),
        (["a,1_0,0,1,1,"], "line 2: night is '1_0'"),
        (["a,2026-1-1,0,1,1,"], "line 2: night is '2026-1-1'"),
        (["a,2026-01-01,0,1,1,", "a,1,0,1,1,"], "some nights are numbers and others ids: use one"),
        (
            ["a,0,0,1,,,,,"],
            "cannot be read as a CSV table: line 2 has 9 cells, and the first line 6",
        ),
        (["a,0,0,1"], "cannot be read as a CSV table: line 2 has 4 cells"),
        (['a,0,0,"1'], "cannot be read as a CSV table"),
    ):
        path = table(lines)
        with pytest.raises(UserError) as error:
            read(path)
        assert said in str(error.value)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)


def test_what_is_no_table_is_one_line_of_error(tmp_path):
    path = tmp_path / "x.csv"
    for content in (b"", b"case;night\n1;2\n", b"\xff\xfe\x00a,b\n\x81", b"case,run,case\na,0,b\n"):
        path.write_bytes(content)
        for bad in (path, tmp_path, tmp_path / "missing.csv"):
            with pytest.raises(UserError) as error:
                read(bad)
            assert str(error.value).startswith(str(bad))
            assert "\n" not in str(error.value)
    odd = tmp_path / os.fsdecode(b"\xe9t\xe9.csv")  # a name that is no UTF-8
    with pytest.raises(UserError, match=r"\?t\?.csv: cannot be read as a CSV table: No such file"):
        read(odd)
    odd.write_text(f"{HEADER}\na,0,0,1000,,\n")
    assert list(read(odd)) == ["a"]


def test_a_missing_column_is_named_with_what_is_needed(table):
    with pytest.raises(UserError, match=r"has no column run; it needs case, night, run, .* or"):
        read(table(["a,1,2"], header="case,night,max_mib_s"))
    with pytest.raises(UserError, match="has no column mib_s"):
        read(table(["2017-02-18T01:28:03Z"], header="start_utc"))
    with pytest.raises(UserError, match="line 2: start_utc is 'yesterday'"):
        read(table(["yesterday,5"], header="start_utc,mib_s"))


def test_too_few_nights_to_bless_are_refused(table):
    with pytest.raises(UserError, match="10 nights to bless: a baseline needs at least 20"):
        backtest(table(healthy()), bless_nights=10)


def test_the_settings_are_used(table):
    lines = [*healthy(nights=range(30)), *faulty("a", range(30, 40), 0.5)]
    first = {
        name: next(row.night for row in backtest(table(lines), 30, rules).rows if row.rule)
        for name, rules in SETTINGS.items()
    }
    assert first == {"normal": 32, "sensitive": 32, "quiet": 33}


def test_command_prints_a_line_for_each_night_and_the_sum(tmp_path):
    file = tmp_path / "nights.csv"
    lines = [f"2026-01-{day:02}T02:00:00Z,{1000 if day < 26 else 100}" for day in range(1, 32)]
    file.write_text("\n".join(["start_utc,mib_s", *lines, ""]))
    done = CliRunner().invoke(app, ["backtest", str(file), "--bless-nights", "20"])
    assert done.exit_code == 0, done.output
    verdicts = [json.loads(line)["verdict"] for line in done.stdout.splitlines()]
    assert verdicts[-1] == "suspect"
    assert len(verdicts) == 11, "the blessed nights are not judged"
    assert "1 case, 11 nights judged: 0 alarms" in done.stderr
    done = CliRunner().invoke(app, ["backtest", str(file), "--rules", "loud"])
    assert (done.exit_code, done.output) == (
        2,
        "iowatch: error: --rules loud: there are normal, sensitive, quiet\n",
    )


def test_a_filesystem_is_replayed_like_one_more_case(table):
    """Four noisy cases that are 30 % slow together: their filesystem says so first."""
    rng, names = random.Random(5), ["a", "b", "c", "d"]
    lines = []
    for night in range(60):
        shared = rng.gauss(0, 0.05)
        for name in names:
            for run in range(5):
                best = 1000 * math.exp(shared + rng.gauss(0, 0.12)) * (0.7 if night >= 50 else 1)
                lines.append(f"{name},{night},{run},{best},,,fs3")
    cases, whole = replayed.backtest(table(lines, header=f"{HEADER},filesystem"))
    assert (cases.cases, whole.cases, whole.judged) == (4, 1, 24)
    alarm = next(row for row in whole.rows if row.rule)
    assert (alarm.case, alarm.rule, alarm.night) == ("fs3", "R1", 53)
    first = [row.night for row in cases.rows if row.rule]
    assert sum(night <= 53 for night in first) < 2, "most of its cases say so later"
    assert whole.summary.startswith("1 filesystem, 24 nights judged: 1 alarm")
    for few in (lines, [line for line in lines if line[0] != "d"]):
        header = HEADER if few is lines else f"{HEADER},filesystem"
        few = [line.removesuffix(",fs3") for line in few] if few is lines else few
        assert replayed.backtest(table(few, header=header))[1].cases == 0
    runs = ["cori,scratch,ior,2017-02-19T21:00:00Z,700", "cori,home,ior,2017-02-19T21:00:00Z,7"]
    series = read(table(runs, "system,filesystem,application,start_utc,mib_s"))
    assert [own.filesystem for own in series.values()] == ["cori/home", "cori/scratch"]
