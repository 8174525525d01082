import fcntl
import math
import os
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from iowatch import cli
from iowatch.bless import BEGIN, END, BlessError, FloorError, bless, read, with_floors, write
from iowatch.case import Case
from iowatch.history import Record, by_night
from iowatch.paper.published import references
from iowatch.verdict import read_references

HDF5 = Case("archer", "fs3", "cray", "write", "shared", "hdf5", -1, 1, (128, 128, 128), 48)
LOAD = Case("archer", "fs3", "cray", "write", "shared", "mpiio", -1, 1, (256,) * 3, 96, instances=2)
OST = Case("archer", "fs3", "cray", "write", "shared", "mpiio", 1, 1, (64,) * 3, 24, each_ost=True)
PEER = Case("archer", "fs3", "cray", "read", "shared", "hdf5", 1, 1, (64,) * 3, 24, ior_peer=True)
FIRST = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)


def record(case, night, best=1000.0, **figures):
    values = {"total_max": best, "ratio": 0.9, "close_fraction": 0.02, **figures}
    return Record(case, FIRST + timedelta(night), "ok", "", values if best else {}, "a1", "1")


def nights(case=HDF5, bests=(1000.0, 1030.0, 980.0) * 10):
    return by_night(record(case, night, best) for night, best in enumerate(bests))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "archer.yaml").write_text(references("archer"))
    return tmp_path


def blessing(folder, cases, count=30, first=None, last=None, dry_run=False):
    return bless("archer", folder, cases, count, first, last, "jane", "quiet weeks", dry_run)


def test_baseline_says_what_who_when_and_why(folder):
    done = blessing(folder, nights())
    assert (done.before, done.refused) == ({}, {})
    entry = done.blessed[HDF5]
    assert (entry.bandwidth, entry.ratio, entry.finish_fraction) == (1000.0, 0.9, 0.02)
    assert (entry.nights, entry.first, entry.last) == (30, date(2026, 1, 1), date(2026, 1, 30))
    assert (entry.who, entry.why, entry.blessed) == ("jane", "quiet weeks", date.today())
    assert read("archer", folder) == done.blessed
    assert blessing(folder, nights()).before == done.blessed


def test_what_was_not_known_of_the_nights_is_not_judged(folder):
    entry = blessing(folder, nights()).blessed[HDF5]
    assert entry.judged == {"total_max", "ratio", "close_fraction", "finish_fraction"}
    assert replace(entry, ratio=None, finish_fraction=None).judged == {"total_max"}
    assert replace(entry, ratio=None).judged == {"total_max", "close_fraction", "finish_fraction"}


def test_floor_of_a_blessed_case_counts_before_every_other_entry(folder):
    before = yaml.safe_load((folder / "archer.yaml").read_text())
    for case in (HDF5, LOAD, OST, PEER):
        assert blessing(folder, nights(case)).blessed
    after = yaml.safe_load((folder / "archer.yaml").read_text())
    for case, check in (
        (HDF5, "SharedFileWrite"), (LOAD, "SystemLoad"), (OST, "SlowOst"), (PEER, "IorPeerRead"),
    ):  # fmt: skip
        assert list(after[check])[:2] == ["$index", str(case)]
        entry = after[check].pop(str(case))
        assert entry["total_max"] == [1000.0, -0.5, None, "MiB/s"]
        assert read_references(case, entry)
    assert after == before


def test_floor_keeps_the_other_bounds_that_the_case_had(folder):
    references = folder / "archer.yaml"
    entry = (
        "  archer:fs3/.*/hdf5/.*: {write_s: [1, null, 0.5, s], total_max: [9, 0, null, MiB/s]}\n"
    )
    head = "SharedFileWrite:\n  $index: [case_id]\n"
    references.write_text(references.read_text().replace(head, head + entry))
    blessing(folder, nights())
    blessing(folder, nights())
    found = yaml.safe_load(references.read_text())["SharedFileWrite"][str(HDF5)]
    assert found == {"write_s": [1, None, 0.5, "s"], "total_max": [1000.0, -0.5, None, "MiB/s"]}


@pytest.mark.parametrize("entry", ["  archer:(.*: {}\n", "  .*: 5\n"])
def test_reference_that_cannot_be_kept_is_an_error(folder, entry):
    references = folder / "archer.yaml"
    head = "SharedFileWrite:\n  $index: [case_id]\n"
    text = references.read_text().replace(head, head + entry)
    references.write_text(text)
    with pytest.raises(FloorError, match="the reference file's entry cannot be used"):
        blessing(folder, nights())
    assert references.read_text() == text


def test_blessing_again_replaces_and_keeps_the_others(folder):
    blessing(folder, nights(HDF5))
    blessing(folder, nights(LOAD))
    blessing(folder, nights(HDF5, [2000.0] * 30))
    text = (folder / "archer.yaml").read_text()
    assert text.count(BEGIN) == text.count(END) == 2
    sections = yaml.safe_load(text)
    assert sections["SharedFileWrite"][str(HDF5)]["total_max"][0] == 2000.0
    assert sections["SystemLoad"][str(LOAD)]["total_max"][0] == 1000.0
    assert set(read("archer", folder)) == {HDF5, LOAD}


def test_empty_sections_and_missing_ones_are_filled(tmp_path):
    (tmp_path / "archer.yaml").write_text("SharedFileWrite: {$index: [case_id]} # mine\n")
    blessing(tmp_path, {**nights(HDF5), **nights(LOAD)})
    sections = yaml.safe_load((tmp_path / "archer.yaml").read_text())
    assert list(sections["SharedFileWrite"]) == ["$index", str(HDF5)]
    assert list(sections["SystemLoad"]) == ["$index", str(LOAD)]


def test_section_of_another_form_is_not_touched(tmp_path):
    text = 'SharedFileWrite: {"$index": [case_id], "x:.*": {total_max: [1, 0, null]}}\n'
    (tmp_path / "archer.yaml").write_text(text)
    with pytest.raises(FloorError, match="SharedFileWrite"):
        blessing(tmp_path, nights())
    assert (tmp_path / "archer.yaml").read_text() == text
    assert not (tmp_path / "baselines" / "archer.yaml").exists()


@pytest.mark.parametrize(
    ("cases", "sentence"),
    [
        (nights(bests=[1000.0] * 19), "19 night(s); a baseline needs at least 20"),
        (nights(bests=[1000.0] * 20 + [300.0] * 10), "10 of 30 nights are below 50%"),
        (nights(bests=[1000.0] * 15 + [700.0] * 15), "MiB/s changes from 1000 to 700"),
        (nights(bests=[1000.0, 0.0, 1000.0] * 12), "12 of 36 nights have no valid run"),
    ],
)
def test_nights_that_are_no_baseline_are_refused(folder, cases, sentence):
    before = (folder / "archer.yaml").read_text()
    done = blessing(folder, {**cases}, count=40)
    assert sentence in done.refused[HDF5]
    assert (done.blessed, done.files) == ({}, [])
    assert (folder / "archer.yaml").read_text() == before


def test_window_is_of_the_last_nights_between_the_days(folder):
    cases = nights(bests=[500.0] * 25 + [1000.0] * 25 + [700.0] * 5)
    entry = blessing(folder, cases, first=date(2026, 1, 26), last=date(2026, 2, 19)).blessed[HDF5]
    assert (entry.bandwidth, entry.nights) == (1000.0, 25)
    entry = blessing(folder, cases, count=20, last=date(2026, 1, 25)).blessed[HDF5]
    assert (entry.first, entry.last) == (date(2026, 1, 6), date(2026, 1, 25))


def test_first_run_of_a_night_counts(folder):
    cases = nights()
    for records in cases[HDF5].values():
        records.append(record(HDF5, 0, 5000.0))
    assert blessing(folder, cases).blessed[HDF5].bandwidth == 1000.0


def test_dry_run_writes_nothing(folder):
    before = (folder / "archer.yaml").read_text()
    done = blessing(folder, nights(), dry_run=True)
    assert done.blessed
    assert done.files == []
    assert (folder / "archer.yaml").read_text() == before
    assert read("archer", folder) == {}


def test_interrupted_write_leaves_the_old_files_whole(folder, monkeypatch):
    blessing(folder, nights())
    before = {path: path.read_text() for path in folder.rglob("*.yaml")}

    def interrupt(path, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write("archer", folder, blessing(folder, nights(), dry_run=True).blessed)
    files = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert files == before


def test_two_at_once_are_refused(folder):
    (folder / "baselines").mkdir()
    handle = os.open(folder / "baselines", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BlessError, match="another bless is at work"):
            blessing(folder, nights())
    finally:
        os.close(handle)
    assert blessing(folder, nights()).blessed


@pytest.mark.parametrize("text", ["[", "a: 1", "5", f"{HDF5}: {{bandwidth: 1}}"])
def test_broken_baselines_are_named(folder, text):
    (folder / "baselines").mkdir()
    (folder / "baselines" / "archer.yaml").write_text(text)
    with pytest.raises(
        BlessError, match=r"archer.yaml: not the baselines that `iowatch bless` writes"
    ):
        blessing(folder, nights())


def test_missing_reference_file_is_named(tmp_path):
    with pytest.raises(BlessError, match=r"archer.yaml: there is no such file"):
        blessing(tmp_path, nights())


def test_generated_references_keep_the_floors(folder):
    blessing(folder, nights())
    text = (folder / "archer.yaml").read_text()
    assert (
        CliRunner().invoke(cli.app, ["references", "archer", "--folder", str(folder)]).exit_code
        == 0
    )
    assert (folder / "archer.yaml").read_text() == text
    assert with_floors(text, {}) == references("archer")


def test_command_prints_what_it_did_and_its_exit_code(folder, monkeypatch):
    few = {**nights(), **nights(LOAD, [1000.0] * 3)}
    records = [r for case in few.values() for night in case.values() for r in night]
    monkeypatch.setattr(cli, "selected", lambda db, case: records)
    options = ["bless", "--system", "archer", "--why", "quiet", "--folder", str(folder)]
    done = CliRunner().invoke(cli.app, options)
    assert done.exit_code == 1
    assert f"refused: {LOAD}: 3 night(s)" in done.output
    assert f"written: {folder}/archer.yaml" in done.output
    assert done.output.splitlines()[-1] == "1 case(s) blessed, 1 refused"
    done = CliRunner().invoke(cli.app, [*options[:2], "cirrus", *options[3:]])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert math.isclose(read("archer", folder)[HDF5].spread, 0.05)
