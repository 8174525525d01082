"""Blessed baselines: what is accepted, what is written, and what is not read again."""

import shutil
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
import yaml
from attrs import evolve
from cases import changed, outcome_of
from nights import HDF5, MPIIO, ran
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.cases.run import by_case, night_id
from iowatch.judge.bless import baselines_of, bless, objection, sample_of, spans, write
from iowatch.night.gate import night_of
from iowatch.night.record import SystemRecord
from iowatch.past import history
from iowatch.site.site import UnknownSystem

READ = changed(HDF5, "SharedFileRead")
FIRST = datetime(2026, 1, 1, 3, tzinfo=UTC)
MIXED = (1000.0, 1030.0, 980.0) * 10
BELOW_HALF = [1000.0] * 20 + [300.0] * 10
CHANGES = [1000.0] * 15 + [700.0] * 15
WILD = [10.0, 1000.0, 900_000.0, 1000.0, 900_000.0] * 6  # a fifth of them bad


def run_of(of, night, best=1000.0, hour=0, **changes):
    """The run of a night; without a rate it was not verified."""
    began = FIRST + timedelta(night)
    when = {"time": began + timedelta(hours=hour), "night": night_id(began)}
    if not best:
        return ran(of, **{"verdict": "failed (io_error)", "metrics": {}, **when, **changes})
    return ran(of, rate=best, control=best / 0.9, **when, **changes)


def runs_of(of=HDF5, bests=MIXED, *more):
    return [*(run_of(of, night, best) for night, best in enumerate(bests)), *more]


def nights(of=HDF5, bests=MIXED, *more):
    return by_case(sorted(runs_of(of, bests, *more), key=lambda run: run.time))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "archer.yaml").write_text("SharedFileWrite: {}\n")
    return tmp_path


@pytest.fixture
def baselines(folder):
    """The file with the baselines of two cases."""
    return blessing(folder, nights(HDF5) | nights(READ)).file


def blessing(folder, cases, count=30, first=None, last=None, dry_run=False, takes_red=False):
    who, why = "jane", "quiet weeks"
    return bless("archer", folder, cases, count, first, last, who, why, dry_run, takes_red)


def entry_of(folder, cases, **options):
    return blessing(folder, cases, **options).blessed[HDF5]


def test_baseline_says_what_who_when_and_why(folder):
    done = blessing(folder, nights())
    assert (done.before, done.refused) == ({}, {})
    assert done.file == folder / "baselines/archer.yaml"
    entry = done.blessed[HDF5]
    assert (entry.bandwidth, entry.ratio, entry.overhead_fraction) == (1000.0, 0.9, 0.02)
    assert (entry.nights, entry.first, entry.last) == (30, "2026-01-01T030000", "2026-01-30T030000")
    assert (entry.who, entry.why) == ("jane", "quiet weeks")
    assert baselines_of("archer", folder) == blessing(folder, nights()).before == done.blessed
    assert (folder / "archer.yaml").read_text() == "SharedFileWrite: {}\n", "it is not touched"
    assert entry.judged == {"ratio", "overhead_fraction"}
    assert evolve(entry, ratio=None).judged == {"overhead_fraction"}
    assert evolve(entry, ratio=None, overhead_fraction=None).judged == set(), "not known of them"


def test_writes_are_judged_with_their_sync_and_others_as_they_are():
    metrics = {"total_max": 3000.0, "total_median": 2000.0, "ratio": 0.5}
    assert sample_of(FIRST, metrics, {}).best == 3000.0, "a read, or imported"
    assert sample_of(FIRST, metrics | {"stable_max": 1000.0}, {}).best == 1000.0


def test_blessing_again_replaces_and_keeps_the_others(folder):
    assert baselines_of("archer", folder) == {}
    load = changed(HDF5, "SystemLoad", instances=2)
    for of, best in ((HDF5, 1000.0), (load, 1000.0), (HDF5, 2000.0)):
        blessing(folder, nights(of, [best] * 30))
    rates = {of: entry.bandwidth for of, entry in baselines_of("archer", folder).items()}
    assert rates == {HDF5: 2000.0, load: 1000.0}
    before = (folder / "baselines/archer.yaml").read_text()
    done = blessing(folder, nights(), dry_run=True)
    assert (done.blessed[HDF5].bandwidth, done.file) == (1000.0, None)
    assert (folder / "baselines/archer.yaml").read_text() == before


def test_nights_that_are_no_baseline_are_refused(folder):
    for bests, why in (
        ([1000.0] * 19, "19 nights, and a baseline needs at least 20"),
        (BELOW_HALF, "10 of 30 nights are below 50%"),
        (CHANGES, "MiB/s changes from 1000 to 700"),
        ([1000.0, 0.0, 1000.0] * 12, "12 of 36 nights have no valid run"),
        (WILD, "at most 2.261 is that of usual nights"),
    ):
        done = blessing(folder, nights(bests=bests), count=40)
        assert why in done.refused[HDF5]
        assert (done.blessed, done.file) == ({}, None)
        assert not (folder / "baselines").exists()


def test_red_night_is_taken_only_if_somebody_says_so(folder):
    for verdict, result in (
        ("regression (own_past)", "fail"),
        ("regression (absolute_bound)", "fail"),
        ("regression (own_past)", "xfail"),  # somebody expects it
    ):
        red = run_of(HDF5, 29, 850.0, verdict=verdict, result=result)
        cases, night = nights(HDF5, MIXED[:-1], red), f"2026-01-30 {red.outcome} 850"
        done = blessing(folder, cases)
        assert (done.blessed, done.file) == ({}, None), night
        assert done.refused[HDF5].startswith(f"it was red on 1 of 30 nights ({night}): ")
        done = blessing(folder, cases, takes_red=True)
        assert (done.refused, done.red) == ({}, {HDF5: [night]})
        assert blessing(folder, cases, last=date(2026, 1, 29)).red == {HDF5: []}
    for verdict in ("unjudged (no_reference)", "suspect (own_past)", "ok (resolved)"):
        other = run_of(HDF5, 29, 850.0, verdict=verdict)
        assert blessing(folder, nights(HDF5, MIXED[:-1], other)).red == {HDF5: []}
    # The last run of a night has its word; what it had measured before would be taken.
    broken = run_of(HDF5, 29, None, hour=4)
    refused = blessing(folder, nights(HDF5, MIXED, broken)).refused
    assert "2026-01-30 failed (io_error))" in refused[HDF5]
    amber = replace(broken, outcome=outcome_of("unjudged (quota)"))
    assert blessing(folder, nights(HDF5, MIXED, amber)).file


def test_window_is_of_the_last_nights_between_the_days(folder):
    cases = nights(bests=[500.0] * 25 + [1000.0] * 25 + [700.0] * 5)
    entry = entry_of(folder, cases, first=date(2026, 1, 26), last=date(2026, 2, 19))
    assert (entry.bandwidth, entry.nights) == (1000.0, 25)
    entry = entry_of(folder, cases, count=20, last=date(2026, 1, 25))
    assert (entry.first, entry.last) == ("2026-01-06T030000", "2026-01-25T030000")
    down = nights(bests=[0.0] * 30 + [1000.0] * 25)  # for a month, before the window
    assert entry_of(folder, down, count=25).nights == 25


def test_first_valid_run_of_a_night_counts_and_hand_runs_do_not(folder):
    again = [run_of(HDF5, night, 5000.0, hour=4) for night in range(30)]
    by_hand = [replace(run, night="") for run in again]
    broken = [run_of(HDF5, night, None, hour=-1) for night in range(30)]
    for more in (again, by_hand, broken):
        entry = entry_of(folder, nights(HDF5, MIXED, *more))
        assert (entry.bandwidth, entry.nights) == (1000.0, 30)


def test_two_nights_of_one_day_are_two(folder):
    late = run_of(HDF5, 29 + 20.9 / 24)
    entry = entry_of(folder, nights(HDF5, MIXED, late), count=40)
    assert (entry.nights, entry.last) == (31, "2026-01-30T235400")
    assert entry.covers("2026-01-30T030000")
    assert not evolve(entry, last="2026-01-30T030000").covers(entry.last)
    ((begin, end),) = spans([entry])
    assert begin == datetime(2026, 1, 1, tzinfo=UTC)
    assert end >= late.time + timedelta(days=1), "with its re-runs"


def test_two_at_once_are_refused(folder, baselines, locked_elsewhere):
    with (
        locked_elsewhere(baselines.parent / ".lock"),
        pytest.raises(UserError, match=f"^{folder}: another bless is at work"),
    ):
        blessing(folder, nights())
    assert blessing(folder, nights()).file


# What is not read again


def refused(folder, *sentences):
    """Reading is an error of one line with these sentences, and so is blessing."""
    for attempt in (lambda: baselines_of("archer", folder), lambda: blessing(folder, nights())):
        with pytest.raises(UserError, match=r"^.+$") as raised:
            attempt()
        for sentence in (f"{folder}/baselines/archer.yaml: ", *sentences):
            assert sentence in str(raised.value)


def with_value(text, key, value):
    entries = yaml.safe_load(text)
    entries[str(READ)][key] = value
    return yaml.safe_dump(entries)


def test_value_that_was_never_blessed_is_named(folder, baselines):
    text = baselines.read_text()
    for key, value in (
        ("bandwidth", 0), ("bandwidth", True), ("spread", None), ("spread", 5), ("spread", 0.04),
        ("ratio", -1), ("ratio_spread", 0), ("overhead_fraction", 2), ("overhead_fraction", -0.1),
        ("nights", 1.5), ("nights", 19), ("first", "yesterday"), ("last", "2026-01-01T03:00:00"),
        ("blessed", datetime(2026, 1, 1)), ("settings", 1), ("who", None), ("why", 5),
    ):  # fmt: skip
        baselines.write_text(with_value(text, key, value))
        shown = value if isinstance(value, date) else repr(value)
        refused(folder, f": {READ}: {key} is {shown}, not ", ": restore the file")


def test_damaged_entry_is_named(folder, baselines):
    text = baselines.read_text()
    first = "first: 2026-01-01T030000"
    for old, new, sentence in (
        ("ratio: 0.9", "ratio: null", "only one of ratio and ratio_spread is null"),
        (first, "first: 2027-01-01T030000", "first is after last"),
        (f"{HDF5}:", "hdf5:", "not a case: 'hdf5'"),
        (text, "", "has no cases"),
        (text, "[", "while parsing"),
        (text, f"{HDF5}: 5", f"{HDF5}: is 5, not a mapping with bandwidth, spread,"),
    ):
        assert old in text
        baselines.write_text(text.replace(old, new))
        refused(folder, sentence, "remove it and bless again")
    baselines.write_bytes(b"\xff")
    refused(folder)


def test_values_at_their_limits_are_read(folder):
    entry = entry_of(folder, nights())
    bare = evolve(entry, ratio=None, ratio_spread=None, overhead_fraction=None)
    least = evolve(entry, overhead_fraction=0, bandwidth=1, nights=20, last=entry.first)
    now = datetime.now(UTC)
    wide = evolve(entry, spread=2.26, last=night_id(now), blessed=now.date())
    for given in (bare, least, wide):
        write("archer", folder, {READ: given})
        assert baselines_of("archer", folder) == {READ: given}


def test_entry_that_a_hand_or_a_merge_changed_is_refused(folder, baselines):
    text = baselines.read_text()
    later, changed_since = "which is yet to come", "was changed since it was blessed, by hand or"
    for key, value, sentence in (
        ("last", "2062-11-10T003000", later),
        ("last", "2062-11-10", later),
        ("blessed", date(2062, 11, 10), later),
        ("bandwidth", 10.0, changed_since),
        ("last", "2026-02-10T030000", changed_since),
        ("nights", 31, changed_since),
        ("runs", "0" * 16, changed_since),
        ("digest", "0" * 16, changed_since),
        ("why", "for no reason", changed_since),
    ):
        baselines.write_text(with_value(text, key, value))
        refused(folder, f"{READ}: ", sentence)
    entries = yaml.safe_load(text)
    del entries[f"{READ}"]["digest"]
    baselines.write_text(yaml.safe_dump(entries))
    refused(folder, f"{READ}: ", changed_since)
    entries = yaml.safe_load(text)
    of_another = {f"{READ}": entries[f"{HDF5}"], f"{HDF5}": entries[f"{READ}"]}
    baselines.write_text(yaml.safe_dump(of_another))
    refused(folder, changed_since)
    baselines.write_text(f"# from the archive\n{text}")
    assert len(baselines_of("archer", folder)) == 2
    shutil.copy(baselines, baselines.with_name("cirrus.yaml"))
    with pytest.raises(UserError, match=r"cirrus.yaml: .* archer:fs3/\S+ is a case of another sys"):
        baselines_of("cirrus", folder)


# Against the record


def test_baseline_is_what_the_record_makes_of_its_nights(folder):
    usual = nights()[HDF5]
    entry = entry_of(folder, {HDF5: usual})
    later = nights(bests=[*MIXED, 10.0])[HDF5]
    again = {
        night: [*runs, run_of(HDF5, number, 5000.0, hour=4)]
        for number, (night, runs) in enumerate(usual.items())
    }

    def why_not(record=usual, **values):
        return objection("archer", folder, HDF5, evolve(entry, **values), record)

    for record in (usual, later, again, dict(list(usual.items())[:15]), {}):
        assert why_not(record) == ""
    assert why_not(settings="0" * 8, spread=0.1) == "", "other thresholds made it"
    other = nights(bests=[*MIXED[:-1], 981.0])[HDF5]
    for objected, sentence in (
        (why_not(bandwidth=10.0), "bandwidth is 10.0, and that of the nights on record is 1000.0"),
        (why_not(ratio=9.0), "ratio is 9.0, and that"),
        (why_not(ratio=None, ratio_spread=None), "ratio is None, and that"),
        (why_not(overhead_fraction=0.5), "overhead_fraction is 0.5, and"),
        (why_not(spread=0.1), "spread is 0.1, and"),
        (why_not(later, last="2026-01-31T030000"), "it is of 30 nights, and 31 are on record"),
        (why_not(other), "the runs on record are not those of its nights"),
    ):
        assert sentence in objected
        assert objected.startswith(f"{folder}/baselines/archer.yaml: the baseline of {HDF5} does ")


@pytest.mark.parametrize("zone", ["EAST-14", "WEST+12"])  # in one of them it is another day
def test_day_of_a_bless_is_that_of_the_nights_in_utc(folder, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        blessed = entry_of(folder, nights()).blessed
    finally:
        monkeypatch.undo()
        time.tzset()
    assert blessed == datetime.now(UTC).date()


# The command


@pytest.fixture
def command(monkeypatch, folder):
    """The command's exit code and output, with these runs on record."""

    def run(**changes):
        options = {"system": "archer", "why": "quiet", "folder": folder, **changes}
        pairs = ((f"--{key}", value) for key, value in options.items())
        words = [str(word) for pair in pairs for word in pair if word is not None]
        done = CliRunner().invoke(cli.app, ["bless", *words])
        return done.exit_code, done.output

    run.runs = runs_of()
    run.suite = None
    monkeypatch.setattr(cli.earlier, "selected", lambda db, case, since: run.runs)
    monkeypatch.setattr(cli.earlier, "nightly_suite", lambda system: run.suite)
    return run


def blessed_by(command, folder, **options):
    code, output = command(**options)
    assert code == 0, output
    return baselines_of("archer", folder)


def test_command_prints_what_it_did_and_its_exit_code(command, folder):
    few = [1000.0] * 3
    command.runs += runs_of(READ, few)
    code, output = command()
    assert code == 1
    assert output.splitlines()[1].split()[:5] == ["1000", "-", "0.05", "0.90", "2.0"]
    assert output.splitlines()[2:] == [
        f"refused: {READ}: 3 nights, and a baseline needs at least 20",
        f"written: {folder}/baselines/archer.yaml",
        "1 case blessed, 1 refused",
    ]
    other = changed(READ, backend="mpiio")
    command.runs = runs_of(READ, few) + runs_of(other, few)
    why, done = command()[1].splitlines()
    assert (why[:26], why.endswith(f": {READ}, {other}")) == ("refused: 2 cases: 3 nights", True)
    assert done == "0 cases blessed, 2 refused"
    command.runs = runs_of(bests=[500.0] * 30)
    code, output = command()
    assert (code, output.splitlines()[1].split()[:2]) == (0, ["500", "1000"])
    command.runs = runs_of(bests=MIXED[:-1])
    command.runs.append(
        run_of(HDF5, 29, 850.0, verdict="regression (absolute_bound)", result="fail")
    )
    assert command()[0] == 1
    code, output = command(**{"take-red": None})
    assert code == 0
    assert f"taken although red: {HDF5}: 2026-01-30 regression (absolute_bound) 850\n" in output


def test_case_that_the_suite_has_no_more_is_left_out(command, folder):
    """Else it would be refused for ever, of which the exit code is 1."""
    command.runs += runs_of(READ, [1000.0] * 3)
    command.suite = {HDF5}
    assert set(blessed_by(command, folder)) == {HDF5}
    assert f": {READ}\n" in command()[1].removeprefix("left out: 1 case")
    command.suite = {MPIIO}
    assert command()[0] == 2


def test_suite_of_a_system_that_is_not_configured_here_is_not_known(monkeypatch):
    def read_site(system):
        raise error("no")

    monkeypatch.setattr("iowatch.site.site.read_site", read_site)
    error = UnknownSystem
    assert cli.earlier.nightly_suite("old") is None
    error = UserError  # such as a file that cannot be read
    with pytest.raises(UserError):
        cli.earlier.nightly_suite("old")


def test_one_partition_of_a_system_is_blessed(command, folder):
    other = changed(HDF5, place="archer:fs2/cray")
    command.runs += runs_of(other)
    assert set(blessed_by(command, folder, system="archer:fs2")) == {other}
    assert set(blessed_by(command, folder)) == {HDF5, other}


def test_wrong_use_of_the_command_is_one_line(command, folder):
    closed = folder / "closed"
    closed.mkdir()
    (closed / "archer.yaml").write_text("")
    (closed / "baselines").write_text("")
    nothing = "--system {}: nothing is on record of it, only of archer"
    for changes, message in (
        ({"why": ""}, "--why is empty"),
        ({"why": "  "}, "--why is empty"),
        ({"system": "cirrus", "until": "0001-01-01"}, nothing.format("cirrus")),
        ({"system": "archer:fs4"}, nothing.format("archer:fs4")),
        ({"folder": folder / "nosuch"}, f"{folder}/nosuch: no folder that can be read"),
        ({"folder": folder / "archer.yaml"}, f"{folder}/archer.yaml: no folder that can be read"),
        ({"folder": folder.parent}, f"{folder.parent}/archer.yaml: there is no such file"),
        ({"folder": closed}, f"{closed}/baselines/.lock: cannot be written, nothing was run: "),
    ):
        code, output = command(**changes)
        assert (code, output.count("\n")) == (2, 1), changes
        assert output.startswith(f"iowatch: error: {message}")
    assert command()[0] == 0


def test_nights_of_the_future_are_not_blessed(command, folder):
    ahead = (datetime.now(UTC) - FIRST).days + 2
    early = replace(run_of(HDF5, 30, 5000.0), night=night_id(FIRST + timedelta(days=ahead)))
    command.runs += [*(run_of(HDF5, n, 5000.0) for n in (ahead, ahead + 1)), early]
    assert blessed_by(command, folder)[HDF5].last == "2026-01-30T030000"


def test_an_acceptance_test_is_no_past(command, folder, tmp_path):
    """It has the machine for itself, or goes without an OST."""
    began = [FIRST + timedelta(night) for night in range(30, 35)]
    for number, when in enumerate(began):
        test = reported(HDF5, when, rate=5000.0, suite="acceptance")
        of_contract = session(test, uuid=str(number), began=when, night=night_id(when))
        store(tmp_path / "results.db", of_contract)
    for _ in range(2):  # the second time in brief
        runs = history.read([tmp_path / "results.db"])
        assert [run.of_contract for run in runs] == [True] * 5
    usual = command.runs
    command.runs = usual + runs
    assert blessed_by(command, folder)[HDF5].last == "2026-01-30T030000"
    now = began[-1] + timedelta(1)
    record = SystemRecord(system="archer", runs=command.runs, now=now)
    tonight = night_of(record, night_id(began[-1]))
    assert {*tonight.cases[0].earlier} == {run.night for run in usual}
