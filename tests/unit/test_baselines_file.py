"""Baselines that were damaged, or lost, and what is not given to bless."""

from datetime import date, datetime, timedelta, timezone

import pytest
import yaml
from typer.testing import CliRunner

from iowatch import cli
from iowatch.bless import END, BlessError, bless, read
from iowatch.case import Case
from iowatch.history import Record, by_night

HDF5 = Case("archer", "fs3", "c.y", "write", "shared", "hdf5", -1, 1, (128, 128, 128), 48)
READ = Case("archer", "fs3", "c.y", "read", "shared", "hdf5", -1, 1, (128, 128, 128), 48)
FIRST = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)


def records(*cases, first=FIRST, count=20):
    figures = {"total_max": 1000.0, "ratio": 0.9, "close_fraction": 0.02}
    times = [first + timedelta(night) for night in range(count)]
    return [Record(case, time, "ok", "", figures, "a1", "1") for case in cases for time in times]


def blessing(folder, *cases, dry_run=False):
    nights = by_night(records(*cases))
    return bless("archer", folder, nights, 30, None, None, "jane", "quiet", dry_run)


@pytest.fixture
def folder(tmp_path):
    """Of a system with two baselines."""
    (tmp_path / "archer.yaml").write_text("general: &general {ratio: [1, -0.5, null]}\n")
    assert blessing(tmp_path, HDF5, READ).files
    assert set(read("archer", tmp_path)) == {HDF5, READ}
    return tmp_path


@pytest.fixture
def baselines(folder):
    return folder / "baselines" / "archer.yaml"


def refused(folder, *sentences):
    """Reading is an error of one line with these sentences."""
    with pytest.raises(BlessError, match=r"^.+$") as raised:
        read("archer", folder)
    for sentence in sentences:
        assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bandwidth", "x"), ("bandwidth", 0), ("bandwidth", True), ("bandwidth", float("nan")),
        ("bandwidth", 10**400), ("spread", 0), ("spread", None), ("ratio", -1), ("ratio", "1"),
        ("ratio_spread", 0), ("ratio_spread", float("inf")), ("finish_fraction", "y"),
        ("finish_fraction", 2), ("finish_fraction", -0.1), ("nights", 1.5), ("nights", 0),
        ("first", "2026-01-01"), ("last", datetime(2026, 1, 1)), ("blessed", None),
        ("settings", 1), ("who", None), ("why", 5),
    ],
)  # fmt: skip
def test_value_that_was_never_blessed_is_named(folder, baselines, key, value):
    entries = yaml.safe_load(baselines.read_text())
    entries[str(READ)][key] = value
    baselines.write_text(yaml.safe_dump(entries))
    refused(folder, f"{baselines}: ", f": {READ}: {key} is {value!r}: restore the file")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("ratio: 0.9", "ratio: null", "only one of ratio and ratio_spread is null"),
        ("first: 2026-01-01", "first: 2027-01-01", "first is after last"),
        ("who: jane", "whom: jane", "needs bandwidth, spread,"),
        ("who: jane", "who: jane\n  who: john", "key 'who' stands in line"),
        (f"{HDF5}:", f"{READ}:", f"key '{READ}' stands in line"),
        (f"{HDF5}:", "hdf5:", "not a case: 'hdf5'"),
    ],
)
def test_damaged_entry_is_named(folder, baselines, old, new, sentence):
    text = baselines.read_text()
    assert old in text
    baselines.write_text(text.replace(old, new))
    refused(folder, f"{baselines}: not the baselines that `iowatch bless` writes: ", sentence)


def test_values_at_their_limits_are_read(folder, baselines):
    entries = yaml.safe_load(baselines.read_text())
    entries[str(READ)] |= {"ratio": None, "ratio_spread": None, "finish_fraction": None}
    entries[str(HDF5)] |= {"finish_fraction": 0, "bandwidth": 1, "last": date(2026, 1, 1)}
    baselines.write_text(yaml.safe_dump(entries))
    found = read("archer", folder)
    assert (found[READ].baseline.m_r, found[HDF5].baseline.phi0) == (None, 0)


def test_lost_file_is_noticed_and_bless_repairs_it(folder, baselines):
    before = baselines.read_text()
    baselines.unlink()
    refused(folder, f"{baselines}: ", f"{folder}/archer.yaml has lost {READ} and 1 more case(s)")
    assert blessing(folder, HDF5, READ, dry_run=True).before == {}
    with pytest.raises(BlessError, match=f"has lost {READ}: restore"):
        blessing(folder, HDF5)  # the floor of the other would be lost as well
    assert not baselines.exists()
    blessing(folder, HDF5, READ)
    assert baselines.read_text() == before
    assert set(read("archer", folder)) == {HDF5, READ}


def test_lost_case_is_noticed_and_bless_repairs_it(folder, baselines):
    entries = yaml.safe_load(baselines.read_text())
    del entries[str(HDF5)]
    baselines.write_text(yaml.safe_dump(entries))
    refused(folder, f"has lost {HDF5}: restore the files, bless again, or remove the case")
    blessing(folder, HDF5)
    assert set(read("archer", folder)) == {HDF5, READ}


def test_lost_floors_are_noticed_and_bless_repairs_them(folder):
    references = folder / "archer.yaml"
    before = references.read_text()
    references.write_text(before.replace(END, ""))
    refused(folder, f"has lost {READ} and 1 more")
    references.write_text("")
    refused(folder, f"has lost {READ} and 1 more")
    blessing(folder, HDF5)
    assert set(read("archer", folder)) == {HDF5, READ}


@pytest.mark.parametrize("text", ["", "[", "5"])
def test_file_that_was_cut_is_noticed(folder, baselines, text):
    baselines.write_text(text)
    refused(folder, f"{baselines}: ", "remove it and bless again")


def test_system_without_any_bless_has_no_baselines(tmp_path):
    assert read("archer", tmp_path) == {}
    (tmp_path / "archer.yaml").write_text("SharedFileWrite: {$index: [case_id]}\n")
    assert read("archer", tmp_path) == {}


def test_site_s_own_entry_of_the_case_stays_and_its_key_does_not_stand_twice(tmp_path):
    key = str(HDF5).replace(".", r"\.")
    references = tmp_path / "archer.yaml"
    own = f"  {key}: {{ratio: [1, -0.5, null]}}\n"
    references.write_text(f"SharedFileWrite:\n  $index: [case_id]\n{own}")
    for _ in range(2):
        blessing(tmp_path, HDF5)
        assert list(read("archer", tmp_path)) == [HDF5]
    section = yaml.safe_load(references.read_text())["SharedFileWrite"]
    assert list(section) == ["$index", f"(?:{key})", key]
    assert section[f"(?:{key})"] == {
        "ratio": [1, -0.5, None], "total_max": [1000.0, -0.5, None, "MiB/s"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "while parsing"),
        ("- 1", "has no sections"),
        ("SharedFileWrite:\n  a: {}\n  a: {}\n", "line 3: key 'a' stands in line 2"),
    ],
)
def test_broken_reference_file_is_named_and_left(folder, text, sentence):
    references = folder / "archer.yaml"
    references.write_text(text)
    with pytest.raises(BlessError, match=f"^{references}: {sentence}.*$"):
        blessing(folder, HDF5, READ)
    assert references.read_text() == text


def test_baseline_has_the_days_that_its_nights_are_called_by(tmp_path):
    """Two nights begin on the last day: at 0:02 and at 23:58, which is called the day after."""
    (tmp_path / "archer.yaml").write_text("")
    start = datetime(2026, 1, 1, 0, 2, tzinfo=timezone.utc)
    late = records(HDF5, first=start + timedelta(days=19, hours=23, minutes=56), count=1)
    nights = by_night(records(HDF5, first=start) + late)
    assert len(nights[HDF5]) == 21
    bless("archer", tmp_path, nights, 30, None, None, "jane", "quiet", False)
    entry = read("archer", tmp_path)[HDF5]
    assert (entry.nights, entry.first, entry.last) == (21, date(2026, 1, 1), date(2026, 1, 21))
    bless("archer", tmp_path, nights, 1 + 19, None, None, "jane", "quiet", False)
    assert read("archer", tmp_path)[HDF5].first == date(2026, 1, 2)


@pytest.fixture
def command(monkeypatch, folder):
    """The command's exit code and output, with these nights on record."""

    def run(**changes):
        options = {"system": "archer", "why": "quiet", "folder": folder, **changes}
        words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
        done = CliRunner().invoke(cli.app, ["bless", *words])
        return done.exit_code, done.output

    kept = records(HDF5, READ)
    monkeypatch.setattr(cli, "selected", lambda db, case: kept)
    run.records = kept
    return run


@pytest.mark.parametrize("why", ["", "  "])
def test_bless_needs_a_reason(command, why):
    assert command(why=why) == (
        2,
        "iowatch: error: --why is empty: say why these nights are good\n",
    )
    assert command()[0] == 0


@pytest.mark.parametrize("name", ["nosuch", "archer.yaml"])
def test_wrong_folder_is_one_line(command, folder, name):
    code, output = command(folder=folder / name)
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith(f"iowatch: error: {folder / name}: no folder that can be read")


def test_folder_that_takes_no_baselines_is_one_line(command, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "baselines").write_text("")
    code, output = command(folder=other)
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith(f"iowatch: error: {other}/baselines cannot be made, or read: ")


def test_nights_of_the_future_are_not_blessed(command, folder):
    command.records += records(HDF5, first=datetime.now(timezone.utc) + timedelta(1))
    assert command()[0] == 0
    assert read("archer", folder)[HDF5].last == date(2026, 1, 20)
