"""Blessed baselines: what is accepted, what is written, and what is not read again."""

import errno
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cases import changed
from nights import HDF5, MPIIO, ran
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch import cli, history
from iowatch.bless import bless, objection, read, sample_of, spans, write
from iowatch.files import UserError
from iowatch.night.gate import Known, night_of
from iowatch.run import by_case, night_id
from iowatch.site import UnknownSystem
from iowatch.verdict import Kind

READ = changed(HDF5, "SharedFileRead")
FIRST = datetime(2026, 1, 1, 3, tzinfo=UTC)
MIXED = (1000.0, 1030.0, 980.0) * 10


def run_of(of, night, best=1000.0, hour=0, ratio=0.9):
    began = FIRST + timedelta(night)
    if not best:
        return ran(of, kind="invalid", metrics={}, time=began, night=night_id(began))
    time = began + timedelta(hours=hour)
    return ran(of, rate=best, control=best / ratio, time=time, night=night_id(began))


def runs_of(*cases, bests=MIXED):
    return [run_of(of, night, best) for of in cases for night, best in enumerate(bests)]


def nights(*cases, bests=MIXED):
    return by_case(runs_of(*cases or (HDF5,), bests=bests))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "archer.yaml").write_text("SharedFileWrite: {}\n")
    return tmp_path


@pytest.fixture
def baselines(folder):
    """The file with the baselines of two cases."""
    assert blessing(folder, nights(HDF5, READ)).file == folder / "baselines/archer.yaml"
    return folder / "baselines/archer.yaml"


def blessing(folder, cases, count=30, first=None, last=None, dry_run=False, takes_red=False):
    who, why = "jane", "quiet weeks"
    return bless("archer", folder, cases, count, first, last, who, why, dry_run, takes_red)


def test_baseline_says_what_who_when_and_why(folder):
    done = blessing(folder, nights())
    assert (done.before, done.refused) == ({}, {})
    entry = done.blessed[HDF5]
    assert (entry.bandwidth, entry.ratio, entry.finish_fraction) == (1000.0, 0.9, 0.02)
    assert (entry.nights, entry.first, entry.last) == (30, "2026-01-01T030000", "2026-01-30T030000")
    assert (entry.who, entry.why) == ("jane", "quiet weeks")
    assert entry.blessed == datetime.now(UTC).date()
    assert read("archer", folder) == done.blessed
    assert blessing(folder, nights()).before == done.blessed
    assert (folder / "archer.yaml").read_text() == "SharedFileWrite: {}\n", "it is not touched"


def test_what_was_not_known_of_the_nights_is_not_judged(folder):
    entry = blessing(folder, nights()).blessed[HDF5]
    fractions = {"finish_fraction"}
    assert entry.judged == {"ratio", *fractions}
    assert replace(entry, ratio=None, finish_fraction=None).judged == set()
    assert replace(entry, ratio=None).judged == fractions


def test_writes_are_judged_with_their_sync_and_others_as_they_are():
    found = {"total_max": 3000.0, "total_median": 2000.0, "ratio": 0.5}
    assert sample_of(FIRST, found, {}).best == 3000.0, "a read, or imported"
    assert sample_of(FIRST, found | {"stable_max": 1000.0}, {}).best == 1000.0


def test_blessing_again_replaces_and_keeps_the_others(folder):
    load = changed(HDF5, "SystemLoad", instances=2)
    for of, best in ((HDF5, 1000.0), (load, 1000.0), (HDF5, 2000.0)):
        blessing(folder, nights(of, bests=[best] * 30))
    found = read("archer", folder)
    assert {of: entry.bandwidth for of, entry in found.items()} == {HDF5: 2000.0, load: 1000.0}


def test_nights_that_are_no_baseline_are_refused(folder):
    for bests, sentence in (
        ([1000.0] * 19, "19 nights, and a baseline needs at least 20"),
        ([1000.0] * 20 + [300.0] * 10, "10 of 30 nights are below 50%"),
        ([1000.0] * 15 + [700.0] * 15, "MiB/s changes from 1000 to 700"),
        ([1000.0, 0.0, 1000.0] * 12, "12 of 36 nights have no valid run"),
    ):
        done = blessing(folder, nights(bests=bests), count=40)
        assert sentence in done.refused[HDF5]
        assert (done.blessed, done.file) == ({}, None)
        assert not (folder / "baselines").exists()


def test_red_night_is_taken_only_if_somebody_says_so(folder):
    runs = {night: [run] for night, run in enumerate(runs_of(HDF5))}

    def of(**changes):
        """The last night is another one."""
        last = [replace(run_of(HDF5, 29, 850.0), **changes)]
        return by_case(run for own in (runs | {29: last}).values() for run in own)

    for changes in (
        {"kind": Kind.REGRESSION, "result": "fail"},
        {"kind": Kind.SEVERE, "result": "fail"},
        {"kind": Kind.DEFECT, "result": "fail"},
        {"kind": Kind.REGRESSION, "result": "xfail"},  # somebody expects it
    ):
        kind, (night,) = changes["kind"], [f"2026-01-30 {changes['kind']} 850"]
        done = blessing(folder, of(**changes))
        assert (done.blessed, done.file) == ({}, None), kind
        assert done.refused[HDF5] == (
            f"it was red on 1 of 30 nights ({night}): choose others with --from and --to, or take "
            "these with --take-red"
        )
        done = blessing(folder, of(**changes), takes_red=True)
        assert (done.refused, done.red) == ({}, {HDF5: [night]})
        assert blessing(folder, of(**changes), last=date(2026, 1, 29)).red == {HDF5: []}
    for kind in (Kind.NO_BASELINE, Kind.SUSPECT, Kind.TRANSIENT):  # the first for want of a bless
        assert blessing(folder, of(kind=kind)).red == {HDF5: []}
    # The last run of a night has its word; what it had measured before would be taken.
    broken = replace(run_of(HDF5, 29, hour=4), kind=Kind.INVALID, metrics={}, result="fail")
    ended = by_case([*runs_of(HDF5), broken])
    assert "2026-01-30 invalid)" in blessing(folder, ended).refused[HDF5]
    assert blessing(folder, by_case([*runs_of(HDF5), replace(broken, kind=Kind.NOT_MEASURED)])).file


def test_window_is_of_the_last_nights_between_the_days(folder):
    cases = nights(bests=[500.0] * 25 + [1000.0] * 25 + [700.0] * 5)
    entry = blessing(folder, cases, first=date(2026, 1, 26), last=date(2026, 2, 19)).blessed[HDF5]
    assert (entry.bandwidth, entry.nights) == (1000.0, 25)
    entry = blessing(folder, cases, count=20, last=date(2026, 1, 25)).blessed[HDF5]
    assert (entry.first, entry.last) == ("2026-01-06T030000", "2026-01-25T030000")
    down = nights(bests=[0.0] * 30 + [1000.0] * 25)  # for a month, before the window
    assert blessing(folder, down, count=25).blessed[HDF5].nights == 25


def test_first_valid_run_of_a_night_counts_and_hand_runs_do_not(folder):
    runs = runs_of(HDF5)
    again = [run_of(HDF5, night, 5000.0, hour=4) for night in range(30)]
    by_hand = [replace(run, night="") for run in again]
    broken = [
        replace(run, time=run.time - timedelta(hours=1), kind="invalid", metrics={}) for run in runs
    ]
    for more in (again, by_hand, broken):
        ordered = sorted([*runs, *more], key=lambda run: run.time)
        entry = blessing(folder, by_case(ordered)).blessed[HDF5]
        assert (entry.bandwidth, entry.nights) == (1000.0, 30)


def test_two_nights_of_one_day_are_two(folder):
    late = run_of(HDF5, 29 + 20.9 / 24)
    entry = blessing(folder, by_case([*runs_of(HDF5), late]), count=40).blessed[HDF5]
    assert (entry.nights, entry.last) == (31, "2026-01-30T235400")
    assert entry.covers("2026-01-30T030000")
    assert not replace(entry, last="2026-01-30T030000").covers(entry.last)
    ((begin, end),) = spans([entry])
    assert begin == datetime(2026, 1, 1, tzinfo=UTC)
    assert end >= late.time + timedelta(days=1), "with its re-runs"


def test_dry_run_writes_nothing(folder):
    done = blessing(folder, nights(), dry_run=True)
    assert done.blessed
    assert done.file is None
    assert not (folder / "baselines").exists()


def test_interrupted_write_leaves_the_old_file_whole(folder, baselines, monkeypatch):
    before = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    blessed = blessing(folder, nights(bests=[2000.0] * 30), dry_run=True).blessed
    for raised, error in (
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), UserError),
    ):

        def fail(path, target, raised=raised):
            raise raised

        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(error):
            write("archer", folder, blessed)
        assert {path: path.read_text() for path in folder.rglob("*") if path.is_file()} == before


def test_two_at_once_are_refused(folder, baselines):
    hold = (
        "import sys; from fasteners import InterProcessLock; "
        f"lock = InterProcessLock({str(baselines.parent / '.lock')!r}); lock.acquire(False); "
        "print(flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold], **pipes) as other:
        other.stdout.readline()
        with pytest.raises(UserError, match=f"^{folder}: another bless is at work: try again$"):
            blessing(folder, nights())
        other.stdin.close()
    assert blessing(folder, nights()).file


def test_missing_reference_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"archer.yaml: there is no such file"):
        blessing(tmp_path, nights())


# What is not read again


def refused(folder, *sentences):
    """Reading is an error of one line with these sentences, and so is blessing."""
    for attempt in (lambda: read("archer", folder), lambda: blessing(folder, nights())):
        with pytest.raises(UserError, match=r"^.+$") as raised:
            attempt()
        for sentence in sentences:
            assert sentence in str(raised.value)


def test_value_that_was_never_blessed_is_named(folder, baselines):
    text = baselines.read_text()
    for key, value in (
        ("bandwidth", "x"), ("bandwidth", 0), ("bandwidth", True), ("bandwidth", float("nan")),
        ("bandwidth", 10**400), ("spread", 0), ("spread", None), ("spread", 5), ("spread", 0.04),
        ("ratio_spread", 5), ("ratio", -1), ("ratio", "1"),
        ("ratio_spread", 0), ("ratio_spread", float("inf")), ("finish_fraction", "y"),
        ("finish_fraction", 2), ("finish_fraction", -0.1), ("nights", 1.5), ("nights", 0),
        ("nights", 19),
        ("first", "yesterday"), ("first", date(2026, 1, 1)), ("last", datetime(2026, 1, 1)),
        ("last", "2026-01-01T03:00:00"), ("blessed", None), ("blessed", datetime(2026, 1, 1)),
        ("settings", 1), ("who", None), ("why", 5),
    ):  # fmt: skip
        entries = yaml.safe_load(text)
        entries[str(READ)][key] = value
        baselines.write_text(yaml.safe_dump(entries))
        refused(folder, f"{baselines}: ", f": {READ}: {key} is {value!r}: restore the file")


def test_damaged_entry_is_named(folder, baselines):
    text = baselines.read_text()
    first = "first: 2026-01-01T030000"
    for old, new, sentence in (
        ("ratio: 0.9", "ratio: null", "only one of ratio and ratio_spread is null"),
        (first, "first: 2027-01-01T030000", "first is after last"),
        ("who: jane", "whom: jane", "needs bandwidth, spread,"),
        ("who: jane", "who: jane\n  who: john", "key 'who' stands in line"),
        (f"{HDF5}:", f"{READ}:", f"key '{READ}' stands in line"),
        (f"{HDF5}:", "hdf5:", "not a case: 'hdf5'"),
        (text, "", "it has no cases"),
        (text, "[", "while parsing"),
        (text, "5", "it has no cases"),
        (text, "a: 1", "not a case: 'a'"),
        (text, f"{HDF5}: {{bandwidth: 1}}", "needs bandwidth, spread,"),
    ):
        assert old in text
        baselines.write_text(text.replace(old, new))
        refused(folder, f"{baselines}: not the baselines that `iowatch bless` writes: ", sentence)
        refused(folder, "remove it and bless again")
    baselines.write_bytes(b"\xff")
    refused(folder, f"{baselines}: ")


def test_values_at_their_limits_are_read(folder):
    entry = blessing(folder, nights()).blessed[HDF5]
    bare = replace(entry, ratio=None, ratio_spread=None, finish_fraction=None)
    least = replace(entry, finish_fraction=0, bandwidth=1, nights=20, last=entry.first)
    now = datetime.now(UTC)
    wide = replace(entry, spread=2.26, last=night_id(now), blessed=now.date())
    for given in (bare, least, wide):
        write("archer", folder, {READ: given})
        assert read("archer", folder) == {READ: given}


def test_days_may_stand_for_nights(folder):
    """Those of imported data."""
    days = {night[:10]: runs for night, runs in nights()[HDF5].items()}
    done = blessing(folder, {HDF5: days})
    entry = read("archer", folder)[HDF5]
    assert (entry, entry.last) == (done.blessed[HDF5], "2026-01-30")
    covered = [n for n in nights()[HDF5] if entry.covers(n)]
    assert (len(covered), covered[0], covered[-1]) == (30, "2026-01-01T030000", "2026-01-30T030000")


def test_entry_that_a_hand_or_a_merge_changed_is_refused(folder, baselines):
    text = baselines.read_text()
    for key, value, sentence in (
        ("last", "2062-11-10T003000", "last is 2062-11-10T003000, which is yet to come"),
        ("last", "2062-11-10", "last is 2062-11-10, which is yet to come"),
        ("blessed", date(2062, 11, 10), "blessed is 2062-11-10, which is yet to come"),
        ("bandwidth", 10.0, "was changed since it was blessed, by hand or in a merge"),
        ("last", "2026-02-10T030000", "was changed since"),
        ("nights", 31, "was changed since"),
        ("runs", "0" * 16, "was changed since"),
        ("digest", "0" * 16, "was changed since"),
        ("why", "for no reason", "was changed since"),
    ):
        entries = yaml.safe_load(text)
        entries[str(READ)][key] = value
        baselines.write_text(yaml.safe_dump(entries))
        refused(folder, f"{baselines}: ", f"{READ}: {sentence}")
    entries = yaml.safe_load(text)
    entries[str(READ)], entries[str(HDF5)] = entries[str(HDF5)], entries[str(READ)]
    baselines.write_text(yaml.safe_dump(entries))
    refused(folder, "was changed since")  # one is of another case
    baselines.write_text(text)
    shutil.copy(baselines, baselines.with_name("cirrus.yaml"))
    with pytest.raises(
        UserError, match=r"cirrus.yaml: .* archer:fs3/\S+ is a case of another system"
    ):
        read("cirrus", folder)
    baselines.write_text(f"# from the archive\n{text}")
    assert len(read("archer", folder)) == 2


def test_nights_that_vary_beyond_all_use_are_no_baseline(folder):
    few = [10.0, 1000.0, 900_000.0, 1000.0, 900_000.0]  # a fifth of them bad
    done = blessing(folder, nights(bests=few * 6))
    assert done.refused[HDF5].startswith("the spread of the nights is 6.8")
    assert "and at most 2.261 is that of usual nights" in done.refused[HDF5]


# Against the record


def test_baseline_is_what_the_record_makes_of_its_nights(folder):
    own = nights()[HDF5]
    entry = blessing(folder, {HDF5: own}).blessed[HDF5]

    def said(entry=entry, nights=own):
        return objection("archer", folder, HDF5, entry, nights)

    later = {**own, **nights(bests=[*MIXED, 10.0])[HDF5]}
    again = {
        night: [*runs, run_of(HDF5, number, 5000.0, hour=4)]
        for number, (night, runs) in enumerate(own.items())
    }
    half = dict(list(own.items())[:15])
    for record in (own, later, again, half, {}):
        assert said(nights=record) == ""
    assert said(replace(entry, settings="0" * 8, spread=0.1)) == "", "other thresholds made it"

    other = nights(bests=[*MIXED[:-1], 981.0])[HDF5]
    wrong = {
        "bandwidth is 10.0, and that of the nights on record is 1000.0": (
            replace(entry, bandwidth=10.0),
        ),
        "ratio is 9.0, and that": (replace(entry, ratio=9.0),),
        "ratio is None, and that": (replace(entry, ratio=None, ratio_spread=None),),
        "finish_fraction is 0.5, and": (replace(entry, finish_fraction=0.5),),
        "spread is 0.1, and": (replace(entry, spread=0.1),),
        "it is of 30 nights, and 31 are on record": (
            replace(entry, last="2026-01-31T030000"),
            later,
        ),
        "the runs on record are not those of its nights": (entry, other),
    }
    for sentence, given in wrong.items():
        found = said(*given)
        assert sentence in found
        assert found.startswith(f"{folder}/baselines/archer.yaml: the baseline of {HDF5} does not")
        assert found.endswith(": restore the file or the results database, or bless again")


def test_system_without_any_bless_has_no_baselines(folder):
    assert read("archer", folder) == {}


@pytest.mark.parametrize("zone", ["EAST-14", "WEST+12"])  # in one of them it is another day
def test_day_of_a_bless_is_that_of_the_nights_in_utc(folder, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        blessed = blessing(folder, nights()).blessed[HDF5].blessed
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

    run.runs = runs_of(HDF5)
    run.suite = None
    monkeypatch.setattr(cli.earlier, "selected", lambda db, case, since: run.runs)
    monkeypatch.setattr(cli.earlier, "nightly_suite", lambda system: run.suite)
    return run


def test_command_prints_what_it_did_and_its_exit_code(command, folder):
    command.runs += runs_of(READ, bests=[1000.0] * 3)
    code, output = command()
    assert code == 1
    assert f"refused: {READ}: it has 3 nights" in output
    assert f"written: {folder}/baselines/archer.yaml" in output
    assert output.splitlines()[-1] == "1 case blessed, 1 refused"
    assert output.splitlines()[1].split()[:5] == ["1000", "-", "0.05", "0.90", "2.0"]
    other = changed(READ, backend="mpiio")
    command.runs = [run for each in (READ, other) for run in runs_of(each, bests=[1000.0] * 3)]
    code, output = command()
    refused, done = output.splitlines()
    assert refused.startswith("refused: 2 cases: it has 3 nights")
    assert refused.endswith(f": {READ}, {other}")
    assert done == "0 cases blessed, 2 refused"
    command.runs = runs_of(HDF5, bests=[500.0] * 30)
    code, output = command()
    assert (code, output.splitlines()[1].split()[:2]) == (0, ["500", "1000"])


def test_command_takes_red_nights_by_an_option_and_lists_them(command, folder):
    red = replace(run_of(HDF5, 29, 850.0), kind=Kind.DEFECT, result="fail")
    command.runs = [*command.runs[:-1], red]
    code, output = command()
    assert code == 1
    assert "it was red on 1 of 30 nights (2026-01-30 defect 850)" in output
    code, output = command(**{"take-red": None})
    assert (code, read("archer", folder)[HDF5].nights) == (0, 30)
    assert f"taken although red: {HDF5}: 2026-01-30 defect 850\n" in output


def test_case_that_the_suite_has_no_more_is_left_out(command, folder):
    """Else it would be refused for ever, of which the exit code is 1."""
    command.runs += runs_of(READ, bests=[1000.0] * 3)
    command.suite = {HDF5}
    code, output = command()
    assert (code, set(read("archer", folder))) == (0, {HDF5})
    left_out = "1 case that the nightly suite of archer does not have"
    assert output.startswith(f"left out: {left_out}: {READ}\n")
    command.suite = {MPIIO}
    code, output = command()
    assert code == 2
    assert "no case of archer in the results database matches" in output


def test_suite_of_a_system_that_is_not_configured_here_is_not_known(monkeypatch):
    def read_site(system):
        raise error("no")

    monkeypatch.setattr(cli.earlier, "read_site", read_site)
    error = UnknownSystem
    assert cli.earlier.nightly_suite("old") is None
    error = UserError  # such as a file that cannot be read
    with pytest.raises(UserError):
        cli.earlier.nightly_suite("old")


def test_one_partition_of_a_system_is_blessed(command, folder):
    other = changed(HDF5, place="archer:fs2/cray")
    command.runs += runs_of(other)
    assert command(system="archer:fs2")[0] == 0
    assert set(read("archer", folder)) == {other}
    code, output = command(system="archer:fs4")
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith("iowatch: error: no case of archer:fs4 in the results database")
    assert command()[0] == 0
    assert set(read("archer", folder)) == {HDF5, other}


def test_wrong_use_of_the_command_is_one_line(command, folder):
    closed = folder / "closed"
    closed.mkdir()
    (closed / "archer.yaml").write_text("")
    (closed / "baselines").write_text("")
    for changes, said in (
        ({"why": ""}, "--why is empty: say why these nights are good"),
        ({"why": "  "}, "--why is empty: say why these nights are good"),
        (
            {"system": "cirrus", "to": "0001-01-01"},
            "no case of cirrus in the results database matches since ",
        ),
        ({"folder": folder / "nosuch"}, f"{folder}/nosuch: no folder that can be read"),
        ({"folder": folder / "archer.yaml"}, f"{folder}/archer.yaml: no folder that can be read"),
        ({"folder": closed}, f"{closed}/baselines cannot be written: File exists"),
    ):
        code, output = command(**changes)
        assert (code, output.count("\n")) == (2, 1), changes
        assert output.startswith(f"iowatch: error: {said}")
    assert command()[0] == 0


def test_nights_of_the_future_are_not_blessed(command, folder):
    ahead = (datetime.now(UTC) - FIRST).days + 2
    command.runs += [run_of(HDF5, night, 5000.0) for night in (ahead, ahead + 1)]
    early = run_of(HDF5, 30, 5000.0)
    command.runs.append(replace(early, night=night_id(FIRST + timedelta(days=ahead))))
    assert command()[0] == 0
    assert read("archer", folder)[HDF5].last == "2026-01-30T030000"


def test_an_acceptance_test_is_no_past(command, folder, tmp_path):
    """It has the machine for itself, or goes without an OST."""
    began = [FIRST + timedelta(night) for night in range(30, 35)]
    tests = [reported(HDF5, time, rate=5000.0, sweep="acceptance") for time in began]
    sessions = [
        session(test, uuid=str(number), began=time, night=night_id(time))
        for number, (test, time) in enumerate(zip(tests, began, strict=True))
    ]
    store(tmp_path / "results.db", *sessions)
    for _ in range(2):  # the second time in brief
        runs = history.read([tmp_path / "results.db"])
        assert [run.of_contract for run in runs] == [True] * 5
    usual = command.runs
    command.runs = usual + runs
    assert command()[0] == 0
    assert read("archer", folder)[HDF5].last == "2026-01-30T030000"
    now = began[-1] + timedelta(1)
    tonight = night_of("archer", night_id(began[-1]), command.runs, Known(), now)
    assert {*tonight.cases[0].earlier} == {run.night for run in usual}
