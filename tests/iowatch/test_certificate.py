"""The certificate of a change: what nights and pairs say of it, and its evidence."""

import json
import math
import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from agreed import key_pair, remade, taken_apart
from attrs import evolve
from cases import PLACE, case, changed
from made_up import MadeUp
from reported import store
from typer.testing import CliRunner

from iowatch import cli
from iowatch.cases.run import night_id
from iowatch.evidence import accept
from iowatch.judge.change import (
    FEWEST,
    LEVEL,
    NIGHTS_SHARE,
    Decision,
    NightValue,
    Ruling,
    between,
    level_for,
    level_of,
    near,
    of_pairs,
    quantile,
    together,
)

MPIIO = case(backend="mpiio")
HDF5 = changed(MPIIO, backend="hdf5")
OTHER = "local:tmpfs/new"
CHANGED = datetime(2026, 11, 1, tzinfo=UTC)
DISK = evolve(PLACE, environs=("gnu", "new"))


def nights(*values, first=0, step=1):
    return [
        NightValue(first + step * number, value, str(first + step * number))
        for number, value in enumerate(values)
    ]


def noise(count, spread, seed):
    rng = random.Random(seed)
    return [rng.gauss(0, spread) for _ in range(count)]


# Statistics


def test_students_t_is_that_of_the_tables():
    assert quantile(0.025, 1) == pytest.approx(12.7062, abs=1e-4)
    assert quantile(0.025, 10) == pytest.approx(2.22814, abs=1e-5)
    assert quantile(0.0005, 4) == pytest.approx(8.610, abs=1e-3)


def test_nights_that_share_noise_say_less_than_as_many_that_do_not():
    values = noise(20, 0.1, 1)
    daily, monthly = (level_of(nights(*values, step=step), NIGHTS_SHARE) for step in (1, 30))
    assert daily.value == monthly.value
    assert daily.variance > 3 * monthly.variance
    assert daily.freedom < monthly.freedom / 1.5
    # Of so many in the same hour next to nothing is new.
    assert level_of(nights(*values, step=0.001), NIGHTS_SHARE).variance > 2 * daily.variance


def test_one_bad_night_moves_no_level():
    values = noise(20, 0.02, 2)
    well, one_bad = (level_of(nights(*v), NIGHTS_SHARE) for v in (values, [*values[1:], -3.0]))
    assert one_bad.value == pytest.approx(well.value, abs=0.01)
    assert one_bad.variance < 2 * well.variance


def test_all_hold_at_the_level_and_each_that_does_not_costs_the_others_a_part():
    assert level_for([0.02, 0.024]) == LEVEL
    assert level_for([0.01, 0.5]) == LEVEL / 2
    assert level_for([0.02, 0.5]) == LEVEL / 2, "none holds"
    assert level_for([0.001, 0.02, 0.5]) == LEVEL / 3, "0.02 is too much for half of the level"
    assert level_for([0.001, 0.008, 0.5, 0.5]) == LEVEL / 3


def test_no_loss_is_within_the_limit_and_a_loss_is_surely_one():
    steady, few = noise(30, 0.01, 3), noise(FEWEST - 1, 0.01, 3)
    for lost, limit, answer in (
        (0.0, 0.05, Ruling.NO_LOSS), (0.02, 0.05, Ruling.NO_LOSS), (0.2, 0.05, Ruling.LOSS),
        (0.05, 0.05, Ruling.LOSS), (0.0, 0.001, Ruling.OPEN),
    ):  # fmt: skip
        after = [value + math.log1p(-lost) for value in noise(30, 0.01, 4)]
        change = between(nights(*steady), nights(*after, first=40))
        decision = Decision.make([change], limit)
        assert decision.answer(change) is answer, (lost, limit)
        low, high = decision.bounds(change)
        assert low < 1 - lost < high
    at_once = of_pairs(nights(0, 5, -5, step=0.001))
    assert Decision.make([at_once], 0.05).bounds(at_once) == pytest.approx((1e-3, 1e3))
    assert between(nights(*few), nights(*steady)) is None
    assert of_pairs(nights(*few)) is None


def test_so_many_more_nights_would_tell():
    before, after = nights(*noise(20, 0.02, 5)), nights(*noise(12, 0.02, 5), first=20)
    change = between(before, after)
    for limit, more in ((0.04, 4), (0.03, None)):
        decision = Decision.make([change], limit)
        assert decision.answer(change) is Ruling.OPEN
        assert decision.nights_missing(change) == more, "only 8 more are near to those before"
    pairs = of_pairs(nights(*noise(6, 0.1, 6)))
    decision = Decision.make([pairs], 0.1)
    more = decision.nights_missing(pairs)
    least = math.log1p(-0.1)
    for count, tells in ((more - 1, False), (more, True)):
        after = pairs.after.with_nights(6 + count)
        low = after.value - math.sqrt(after.variance) * quantile(decision.low, after.freedom)
        assert (low > least) is tells, count


def test_a_night_counts_if_the_other_side_has_one_within_twenty_days():
    for count, gap, left in ((30, 0, 20), (20, 14, 6), (5, 0, 5), (20, 20, 0)):
        before, after = near(nights(*[1.0] * count), nights(*[1.0] * count, first=count + gap))
        assert (len(before), len(after)) == (left, left), (count, gap)
        assert not before or before[-1].day == count - 1, "the nearest"
    assert near([], nights(1.0)) == ([], nights(1.0))


def test_a_case_that_was_not_measured_leaves_its_group_where_it_is():
    group = together([nights(1.0, 2.0, 3.0), nights(10.0, 12.0)])
    assert [night.value for night in group] == pytest.approx([5.5, 7.0, 7.5])


# The command


class History(MadeUp):
    """A site with nights."""

    def run(self, began, of, speed, verdict="ok"):
        """The test of a run with this speed that began then."""
        return self.end(
            self.begin(began, of), of, began, repeats=2, speed=speed,
            ended=began + timedelta(minutes=1), verdict=verdict,
            result="fail" if "failed" in verdict else "pass",
            provenance={"firmware": "2" if began > CHANGED else "1"},
        )  # fmt: skip

    def session(self, began, *tests, night=None, uuid=""):
        """Put a session on record, by default as a night of its own."""
        name = night_id(began)
        self.store(*tests, uuid=uuid or name, began=began, night=name if night is None else night)

    def nights(self, count, cost, spread=0.002):
        """So many nights before and after the change, which leaves HDF5 this part less."""
        rng = random.Random(count)
        for day in range(-count, count):
            began = CHANGED + timedelta(days=day, hours=1)
            left = {MPIIO: 1.0, HDF5: 1 - cost if day >= 0 else 1.0}
            tests = [
                self.run(began, of, part * math.exp(rng.gauss(0, spread)))
                for of, part in left.items()
            ]
            self.session(began, *tests)


@pytest.fixture
def history(tmp_path, monkeypatch):
    made = History(tmp_path / "results", DISK)
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    monkeypatch.setattr(accept, "read_site", lambda system: made.site)
    return made


def iowatch(*words):
    done = CliRunner().invoke(cli.app, [*map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def compare(history, *words):
    database = ("--db", history.site.database, "--system", "local")
    return iowatch("compare", *words, *database)


AT = ("--at", f"{CHANGED:%Y-%m-%d}", "--change", "firmware 2")


def test_nights_before_and_after_certify_a_change_and_anyone_can_check_it(
    history, tmp_path, documented
):
    history.nights(6, cost=0.0)
    key, known = key_pair(tmp_path, "centre")
    done = compare(history, *AT, "-o", tmp_path / "out", "--sign", key)
    assert done.exit_code == 0, done.output
    title, conclusion, *rows = done.output.splitlines()
    assert title == (
        "firmware 2: local, nights from 2026-11-01 to 2026-11-20 compared with nights from "
        "2026-10-12 to 2026-10-31"
    )
    assert conclusion.startswith("No loss above 5 % in any of 2 cases. ")
    assert [re.match(r"[^:]+: [^:]+", row)[0] for row in rows[:3]] == [
        "no loss above 5 %: all cases (2 cases)",
        "no loss above 5 %: hdf5 on tmpfs", "no loss above 5 %: mpiio on tmpfs",
    ]  # fmt: skip
    assert "changed: firmware: 1 before, 2 after" in rows
    page = (tmp_path / "out/certificate.html").read_text()
    assert conclusion in page
    assert page.count("<svg") == 3

    # Elsewhere.
    (tmp_path / "known").write_text(known)
    sealed = tmp_path / "out/evidence.tar"
    verify = ("accept", "verify", sealed, "--signers", tmp_path / "known")
    done = iowatch(*verify, "--json")
    assert done.exit_code == 0, done.output
    told = documented(done.output)["certificate"]
    assert told["as_told"]
    assert told["verdict"] == "no loss"
    assert [row["kind"] for row in told["rows"]] == ["group", "case", "case"]
    assert iowatch("accept", "sign", sealed, key).exit_code == 0

    # A byte that is changed, and numbers that are made up.
    data = sealed.read_bytes()
    place = data.index(b'"stable"')
    sealed.write_bytes(data[: place + 1] + b"S" + data[place + 2 :])
    done = iowatch(*verify)
    assert done.exit_code == 2
    assert "was changed since it was made" in done.output
    sealed.write_bytes(data)
    folder = taken_apart(sealed, tmp_path / "forged")
    for file in folder.glob("sessions/2026-11-*.json"):
        file.write_text(re.sub(r'("local:tmpfs:stable_max": \[\s*)', r"\g<1>9", file.read_text()))
    for file in folder.glob("runs/2026-11-*/*/result.json"):
        file.write_text(file.read_text().replace('"stable": 4', '"stable": 9'))
    done = iowatch("accept", "verify", remade(folder))
    assert done.exit_code != 0
    assert "stable_max of its results is 6.398, and 96.4 is on record: changed" in done.output


def test_a_loss_is_told_with_its_case_and_size(history):
    history.nights(6, cost=0.2)
    done = compare(history, *AT)
    assert done.exit_code == 1, done.output
    conclusion = done.output.splitlines()[1]
    lost = r"Loss in 1 of 2 cases; the largest is that of hdf5 on tmpfs, -(19|20)\.\d %"
    assert re.match(lost, conclusion), conclusion


def test_what_fails_or_is_no_longer_measured_after_a_change_has_no_certificate(history):
    history.nights(6, cost=0.0)
    began = CHANGED + timedelta(days=6, hours=1)
    history.session(began, history.run(began, HDF5, 1.0, "failed (corrupt)"))
    began -= timedelta(days=20)
    history.session(began, history.run(began, changed(HDF5, place=OTHER), 1.0))
    done = compare(history, *AT)
    assert done.exit_code == 4, done.output
    assert "Cannot tell: no loss above 5 % is certain in 1 of 3 cases" in done.output
    assert "it failed on 1 of 7 nights after the change, and on 0 of 6 before" in done.output
    assert "nights on record: 1 and 0; at least 3 are needed" in done.output
    done = compare(history, *AT, "--case", "new")
    assert done.exit_code == 2, done.output
    assert "no measured run of a case that matches new of nights from 2026-11-01" in done.output


def test_only_the_first_run_of_a_night_counts_and_lost_results_count_for_nothing(history):
    history.nights(6, cost=0.0)
    rerun = CHANGED + timedelta(days=1, hours=5)
    again = history.run(rerun, HDF5, 100.0)
    history.session(rerun, again, uuid="again", night=night_id(rerun - timedelta(hours=4)))
    done = compare(history, *AT, "--case", "hdf5", "--json")
    (row,) = json.loads(done.output)["certificate"]["rows"]
    assert row["ratio"] == pytest.approx(1, abs=0.03)
    assert row["nights"] == "6 and 6"
    for file in history.folder.glob("runs/2026-11-02*/*hdf5*/result.json"):
        file.unlink()
    done = compare(history, *AT, "--case", "hdf5")
    assert "6 and 5 nights" in done.output
    assert re.search("1 run of .*hdf5.* left out, .* 2026-11-02T010000: .*result.json", done.output)
    for file in history.folder.glob("runs/2026-11-*/*/result.json"):
        file.unlink()
    assert "changed:" not in compare(history, *AT).output, "one side cannot tell"


def test_two_ways_in_turn_are_compared_in_pairs_of_the_same_session(history):
    new = changed(MPIIO, place=OTHER)
    rng = random.Random(7)
    for day in range(8):
        load = math.exp(rng.gauss(0, 0.5))
        began = CHANGED + timedelta(days=day)
        tests = [
            history.run(began + timedelta(minutes=number), of, load * math.exp(rng.gauss(0, 0.01)))
            for number, of in enumerate((MPIIO, new, MPIIO, new, MPIIO))
        ]
        history.session(began, *tests, night="")
    done = compare(history, "tmpfs/gnu", "tmpfs/new")
    assert done.exit_code == 0, done.output
    assert "no loss above 5 %: mpiio on tmpfs" in done.output
    assert "8 nights" in done.output
    assert "tmpfs/gnu was always measured first" in done.output
    done = compare(history, "gnu", "gn")
    assert done.exit_code == 2
    assert "there is no measured run of gn: `iowatch nights" in done.output


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "give one of these: --at EVENT"),
        (("gnu",), "name two ways to measure"),
        (("--at", "firmware"), "no event on record has this in its text"),
        (("--at", "2026-11-01"), "--change: say what was changed"),
        (("--before", "2026-10-01", "--change", "x"), "--before 2026-10-01: give the first and"),
        ((*AT, "--no-loss-above", "5"), "--no-loss-above 5: is no percentage"),
        ((*AT, "--case", "("), "case is '(', not a regular expression"),
        ((*AT, "--sign", "key"), "there is no evidence to sign without --output"),
        (
            ("--before", "2026-10-01..2026-10-30", "--after", "2026-10-30..2026-11-03",
             "--change", "x"),
            "the first must end before the second begins",
        ),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_answered_is_refused(history, words, error):
    store(history.site.database)
    done = compare(history, *words)
    assert done.exit_code == 2, done.output
    assert error in done.output
