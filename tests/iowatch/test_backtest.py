import json
import math
import os
import random
from datetime import UTC, datetime, timedelta

import pytest
from cases import changed
from detector_nights import in_a_row
from refusals import assert_refused, refusals
from reported import HDF5, reported, session, store
from typer.testing import CliRunner

from iowatch.base.files import UserError
from iowatch.cases.run import by_case, night_id
from iowatch.cases.verdict import SLOWER
from iowatch.cli import app
from iowatch.judge import backtest as replayed
from iowatch.judge.backtest import past_of_table
from iowatch.judge.bless import samples_of
from iowatch.judge.settings import SETTINGS
from iowatch.past import history

MPIIO = changed(HDF5, backend="mpiio")
HEADER = "case,night,run,max_mib_s,control_max_mib_s,overhead_fraction"


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


def backtest(path, *arguments, **options):
    """Of the cases."""
    return replayed.backtest(past_of_table(path), *arguments, **options)[0]


def verdicts(result):
    return in_a_row(str(row.outcome) for row in result.rows)


def gain(nights):
    return [f"a,{night},0,1500,,0.03" for night in nights]


WELL, SLOW = healthy(nights=range(40)), faulty("a", range(40, 43), 0.5)
FAULT = {"part": 0.3, "ratio": 0.27, "finish": 0.8}
#: Lines of nights, of which the first 30 are blessed; their verdicts; alarms: all, those that
#: persisted, transient ones; severe nights.
PASTS = {
    "the nights after a slow-down are blessed": (
        [*WELL, *faulty("a", range(40, 90), 0.5)],
        "10 ok, 2 suspect, regression, 30 unjudged (no_reference), 17 ok", (1, 1, 0, 0),
    ),
    "an alarm that goes is transient": (
        [*WELL, *SLOW, *healthy(nights=range(43, 80))],
        "10 ok, 2 suspect, regression, 4 unjudged (no_reference), ok (resolved), 32 ok",
        (1, 0, 1, 0),
    ),
    "an alarm that goes keeps the baseline": (
        [*WELL, *SLOW, *gain(range(43, 90))],
        "10 ok, 2 suspect, regression, 4 unjudged (no_reference), ok (resolved), 4 ok, "
        "38 improvement",
        (1, 0, 1, 0),
    ),
    "a fault from the first day is told before and after the bless": (
        faulty("a", range(40), **FAULT), "2 regression (slow_library), 9 unjudged (no_reference)",
        (2, 2, 0, 0),
    ),
    "a severe night is no alarm": (
        [*WELL, *faulty("a", [40], 0.1)], "10 ok, regression", (0, 0, 0, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("past", PASTS)
def test_what_a_past_comes_to(table, past):
    lines, expected, counts = PASTS[past]
    result = backtest(table(lines))
    assert verdicts(result) == expected
    assert (result.alarms, result.persisted, result.transients, result.severe) == counts
    if past == "the nights after a slow-down are blessed":
        assert (result.judged, result.runs) == (10 + 3 + 17, 10 + 15 + 17)


def test_lines_may_stand_in_any_order_with_gaps_and_few_nights_are_not_judged(table):
    lines = [*healthy("a", range(0, 200, 3)), *healthy("b"), *faulty("a", [999, 1000, 1005], 0.5)]
    lines += healthy("c", range(12))
    random.Random(1).shuffle(lines)
    result = backtest(table(lines))
    assert [row.night for row in result.rows if row.outcome == SLOWER] == [1005]
    order = [(row.case, row.night) for row in result.rows]
    assert order == sorted(order)
    assert {row.case for row in result.rows} == {"a", "b"}
    assert (result.cases, result.short) == (3, 1)
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
    nights = past_of_table(table(lines))["a"].nights
    runs = [(past.night, run.best, run.ratio, run.overhead_fraction)
            for past in nights for run in past.samples]  # fmt: skip
    third = pytest.approx(10 / 11)
    assert runs == [(0, 1000, None, None), (2, 1000, third, None), (2, 900, None, 0.2)]


def test_nights_of_one_day_are_two_by_their_ids(table):
    nights = [f"a,2026-01-0{day}T0{hour}0000,0,5,," for day in (2, 1) for hour in (1, 3)]
    ids = [past.night for past in past_of_table(table(nights))["a"].nights]
    assert ids == [f"2026-01-0{day}T0{hour}0000" for day in (1, 2) for hour in (1, 3)]
    other = table(["a,0,0,1000,x"], header="case,night,run,max_mib_s,comment")
    assert past_of_table(other)["a"].nights[0].samples[0].best == 1000, (
        "some columns may be missing"
    )


MALFORMED = [
    *("a,0,0,fast,,", "a,0,0,1,,\na,1,0,0,,", "a,0,0,-5,,", "a,0,0,inf,,", "a,0,0,1,0,"),
    *("a,0,0,1,1,1.5", "a,1.5,0,1,1,", "a,,0,1,1,", ",1,0,1,1,", "a,0,-1,1,1,", "a,1_0,0,1,1,"),
    *("a,0,0,1,,\na,0,0,2,,", "a,2026-1-1,0,1,1,", "a,2026-01-01,0,1,1,\na,1,0,1,1,"),
    *("a,0,0,1,,,,,", "a,0,0,1", 'a,0,0,"1'),
]
OTHERS = [
    ("a,1,2", "case,night,max_mib_s"),
    ("1;2", "case;night"),
    ("a,0,b", "case,run,case"),
]


def test_what_is_no_table_is_one_line_of_error(table, tmp_path, golden):
    wrong = [(lines,) for lines in MALFORMED] + OTHERS
    text = refusals(UserError, lambda line, *header: past_of_table(table([line], *header)), wrong)
    golden("backtest-tables.txt", text.replace(str(tmp_path), ""))
    binary, missing = tmp_path / "x.csv", tmp_path / "missing.csv"
    binary.write_bytes(b"\xff\xfe\x00a,b\n\x81")
    odd = tmp_path / os.fsdecode(b"\xe9t\xe9.csv")  # a name that is no UTF-8
    wanted = [(path, f"^{path}") for path in (binary, tmp_path, missing)]
    wanted += [(odd, r"\?t\?.csv: cannot be read as a CSV table: No such file")]
    assert_refused(UserError, past_of_table, wanted)
    odd.write_text(f"{HEADER}\na,0,0,1000,,\n")
    assert list(past_of_table(odd)) == ["a"]


def test_the_settings_are_used(table):
    lines = [*healthy(nights=range(30)), *faulty("a", range(30, 40), 0.5)]
    first = {
        name: next(row.night for row in backtest(table(lines), 30, rules).rows if row.verdict.rule)
        for name, rules in SETTINGS.items()
    }
    assert first == {"normal": 32, "sensitive": 32, "quiet": 33}
    with pytest.raises(UserError, match="10 nights to bless: a baseline needs at least 20"):
        backtest(table(lines), bless_nights=10)


def test_command_prints_the_sum_and_every_night_as_json(tmp_path, documented):
    file = tmp_path / "nights.csv"
    lines = [f"a,2026-01-{day:02},0,{1000 if day < 26 else 100}" for day in range(1, 32)]
    file.write_text("\n".join(["case,night,run,max_mib_s", *lines, ""]))
    done = CliRunner().invoke(app, ["backtest", str(file), "--bless-nights", "20"])
    assert done.exit_code == 0, done.output
    assert "1 case, 11 nights judged: 0 alarms" in done.stdout
    done = CliRunner().invoke(app, ["backtest", str(file), "--bless-nights", "20", "--json"])
    rows = documented(done.stdout)["backtest"][0]["nights"]
    assert len(rows) == 11, "the blessed nights are not judged"
    assert rows[-1] == {
        "case": "a", "night": "2026-01-31", "state": "suspect", "reason": "own_past",
        "flags": [], "rule": None, "runs_used": 1, "drop": None,
    }  # fmt: skip
    done = CliRunner().invoke(app, ["backtest", str(file), "--rules", "loud"])
    assert (done.exit_code, done.output) == (
        2,
        "iowatch: error: --rules loud: there are normal, sensitive, quiet\n",
    )


def test_replay_of_the_past_has_the_runs_that_the_detector_had(tmp_path):
    """Also if several nights began on one day, and with re-runs; what failed is none."""
    database, began = tmp_path / "results.db", datetime(2026, 11, 1, tzinfo=UTC)
    tests = {
        0: [reported(HDF5, began, 500.0), reported(MPIIO, began, 900.0)],
        7: [reported(HDF5, began + timedelta(hours=n), 500.0 + n) for n in (7, 9)],
        14: [reported(HDF5, began, perfvalues={}, verdict="failed (io_error)", result="fail")],
    }
    for hours, of_night in tests.items():
        start = began + timedelta(hours=hours)
        store(database, session(*of_night, uuid=f"{hours}", began=start, night=night_id(start)))
    runs = history.read([database])
    past = replayed.past_of(runs)
    assert list(past) == [str(HDF5), str(MPIIO)]
    assert [night.night for night in past[str(HDF5)].nights] == [
        "2026-11-01T000000", "2026-11-01T070000",
    ]  # fmt: skip
    assert past[str(HDF5)].filesystem == HDF5.partition
    for case, nights in by_case(runs).items():
        kept = [samples for of_night in nights.values() if (samples := samples_of(of_night))]
        assert [night.samples for night in past[str(case)].nights] == kept
    assert len(past[str(HDF5)].nights[1].samples) == 2
    words = ["backtest", "--db", str(database), "--json"]
    for more, count in ([], 2), (["--case", "=mpiio/"], 1):
        done = CliRunner().invoke(app, [*words, *more])
        assert json.loads(done.stdout)["backtest"][0]["cases"] == count, done.output
    for more, why in (
        (["--case", "=posix/"], "no valid run in the results database matches"),
        (["x.csv"], "x.csv: a table is replayed whole, without --case and --db"),
    ):
        done = CliRunner().invoke(app, [*words, *more])
        assert (done.exit_code, done.output) == (2, f"iowatch: error: {why}\n")


def test_a_filesystem_is_replayed_like_one_more_case(table):
    """Four noisy cases that are 30 % slow together: their filesystem says so first."""
    rng = random.Random(5)
    lines = []
    for night in range(60):
        shared = rng.gauss(0, 0.05)
        for name in "abcd":
            for run in range(5):
                best = 1000 * math.exp(shared + rng.gauss(0, 0.12)) * (0.7 if night >= 50 else 1)
                lines.append(f"{name},{night},{run},{best},,,fs3")
    header = f"{HEADER},filesystem"
    cases, whole = replayed.backtest(past_of_table(table(lines, header=header)))
    assert (cases.cases, whole.cases, whole.judged) == (4, 1, 24)
    alarm = next(row for row in whole.rows if row.verdict.rule)
    assert (alarm.case, alarm.verdict.rule, alarm.night) == ("fs3", "R1", 53)
    first = [row.night for row in cases.rows if row.verdict.rule]
    assert sum(night <= 53 for night in first) < 2, "most of its cases say so later"
    assert whole.summary.startswith("1 filesystem, 24 nights judged: 1 alarm")
    three = [line for line in lines if line[0] != "d"]
    nowhere = [line.removesuffix(",fs3") for line in lines]
    for few, columns in ((three, header), (nowhere, HEADER)):
        assert replayed.backtest(past_of_table(table(few, header=columns)))[1].cases == 0
