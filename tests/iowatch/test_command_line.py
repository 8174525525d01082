"""What commands have in common: `--json`, the system that is meant, completion, a quick help; and
what those print that read the record."""

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
import typer
from clock import NOW
from nights import HDF5, NIGHT, night_id, ran, recorded, red, unmeasured, well
from pages.simulated import OSTS, SYSTEM, Year
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch.cli import app, main
from iowatch.cli.command import COMMANDS
from iowatch.night.document import SILENT, SystemEntry
from iowatch.night.night import night_summary
from iowatch.night.record import SystemRecord
from iowatch.pages import tables
from iowatch.past.words import FOLDER, GateRecord


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Three nights, the last of which is red and of today, and a session that was run by hand."""
    path = tmp_path_factory.mktemp("record") / "results.db"
    Year(3, 4, NIGHT).store(path)
    began = NOW - timedelta(days=2, hours=1)
    store(path, session(reported(HDF5, began, promised=3), uuid="by-hand", began=began))
    return path


@pytest.fixture
def iowatch(database, monkeypatch, tmp_path):
    """iowatch(*words): the command, which has this record."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    monkeypatch.setenv("RFM_SQLITE_DB_FILE", str(database))
    monkeypatch.delenv("IOWATCH_SYSTEM", raising=False)

    def run(*words):
        # To ask ReFrame's configuration takes a while.
        where = [] if {"run", "--db"} & {*words} else ["--db", str(database)]
        return CliRunner().invoke(app, [*map(str, words), *where])

    return run


def test_json_is_as_the_schema_says(iowatch, documented):
    for words, part in (
        (("status",), "systems"),
        (("nights",), "nights"),
        (("show",), "night"),
        (("show", "SlowOst"), "case"),
        (("history",), "cases"),
        (("run", "--plan"), "plan"),
    ):
        done = iowatch(*words, "--json")
        assert list(documented(done.stdout)) == ["schema", part], done.output
    shown = [iowatch(*words, "--json").stdout for words in (("report",), ("show",))]
    assert [*map(documented, shown)] == [
        documented(iowatch("report", "--format", "json").stdout)
    ] * 2
    assert iowatch("run", "--json").exit_code == 2, "a night prints a table"


def test_nights_are_listed_the_last_first_with_those_run_by_hand(iowatch, documented):
    lines = iowatch("nights").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [
        [f"{NIGHT}T003000", SYSTEM, "red"],
        [f"{NIGHT - timedelta(1)}T003000", SYSTEM, "red"],
    ]
    (by_hand,) = (line for line in lines if "by hand" in line)
    assert iowatch("show", by_hand.split()[0]).stdout.rstrip().endswith("problems with the night")
    day = NIGHT - timedelta(1)
    listed = documented(iowatch("nights", "--since", day, "--until", day, "--json").stdout)
    assert [night["id"] for night in listed["nights"]] == [f"{day}T003000"]


def test_the_word_of_a_nights_gate_holds_in_the_list(iowatch, documented, database):
    """Unless there are more sessions than the gate knew."""
    night = f"{NIGHT - timedelta(2)}T003000"
    said = {"time": NOW, "colour": "amber", "why": "as told", "promised": 4}
    shown, record = [], SystemRecord.load(SYSTEM, [database])
    for rows in (record.rows(night), {}):
        record.words.keep(night, GateRecord(**said, rows=rows))
        listed = documented(iowatch("nights", "--json").stdout)["nights"]
        (entry,) = (entry for entry in listed if entry["id"] == night)
        shown.append((entry["colour"], entry["why"], entry["measured"]))
    shutil.rmtree(database.parent / FOLDER)
    assert (shown[0], shown[1][0]) == (("amber", "as told", 4), "red")


def test_a_case_is_shown_by_any_part_that_only_it_has(iowatch):
    texts = {iowatch("show", text).stdout for text in (OSTS, "SlowOst", "each OST")}
    (text,) = texts
    lines = text.splitlines()
    assert lines[0] == str(OSTS)
    assert "median of 2 good nights, not blessed" in text
    nights = [line.split()[0] for line in lines if line.startswith("20")]
    assert nights == [f"{NIGHT - timedelta(ago)}T003000" for ago in range(3)]
    for words, why in (
        (("hdf5x",), "no case has it in its id or name"),
        (("fs3/",), "4 cases have it in their ids or names, archer:fs3/"),
        (("2020-01-01",), "no night of 2020-01-01 is on record"),
        (("2020-13-01",), "no day such as"),
    ):
        done = iowatch("show", *words)
        assert (done.exit_code, done.output.count("\n")) == (2, 1), words
        assert why in done.output


def test_system_is_the_one_given_or_in_the_environment_or_the_only_one(iowatch, monkeypatch):
    assert iowatch("show").exit_code == 0
    monkeypatch.setenv("IOWATCH_SYSTEM", "cirrus")
    assert "no night of system cirrus is on record" in iowatch("show").output
    assert iowatch("show", "--system", SYSTEM).exit_code == 0
    assert iowatch("show", OSTS).exit_code == 0, "the id of a case has its system"
    monkeypatch.delenv("IOWATCH_SYSTEM")
    monkeypatch.setenv("RFM_SQLITE_DB_FILE", "nowhere.db")
    assert "name a system by --system or IOWATCH_SYSTEM: there are archer," in iowatch("run").output


# Plugins of Nagios

GREEN, AMBER, RED = (recorded(*well(), *tonight) for tonight in ([ran()], [unmeasured()], [red()]))
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)


def aged(night, age):
    late = age > SILENT
    return night_summary(SystemEntry, night, age_s=round(age.total_seconds()), late=late)


def test_a_plugin_says_the_worst_of_all_systems():
    for ages, code in (
        ({"green": HOUR}, 0),
        ({"amber": HOUR, "green": HOUR}, 1),
        ({"red": HOUR, "amber": HOUR}, 2),
        ({"green": WEEK}, 3),
        ({"green": WEEK, "amber": HOUR}, 1),
        ({"red": WEEK}, 2),
    ):
        nights = {"green": GREEN, "amber": AMBER, "red": RED}
        standings = [aged(nights[name], age) for name, age in ages.items()]
        assert tables.nagios(standings)[0] == code, ages
    text = replace(RED, problems=["a | b"])
    code, line = tables.nagios([aged(text, HOUR)])
    message, numbers = line.split(" | ")
    assert message == f"IOWATCH CRITICAL - archer: {text.summary.headline.banner}, 60 min ago"
    assert numbers == (
        "archer_red=1;;0;0 archer_problems=1;;0;0 archer_amber=0;0;;0 archer_measured=1;;;0 "
        "archer_age=3600s;129600;;0"
    )


def test_status_ends_as_bad_as_the_worst_system(iowatch):
    done = iowatch("status")
    assert done.exit_code == 1
    assert done.stdout.startswith(f"archer, night {NIGHT}T003000: Red · fs3 · ")
    done = iowatch("status", "--nagios")
    assert (done.exit_code, done.stdout[:27]) == (2, "IOWATCH CRITICAL - archer: ")
    done = iowatch("status", "--nagios", "--db", "nowhere.db")
    assert (done.exit_code, done.stdout[:18]) == (3, "IOWATCH UNKNOWN - ")
    assert iowatch("status", "--db", "nowhere.db").exit_code == 2


# Help and completion

LOADED = """
import sys
from typer.testing import CliRunner
from iowatch.cli import app
import typer
def ask(command, words):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
    for name, inner in getattr(command, "commands", {}).items():
        ask(inner, [*words, name])
ask(typer.main.get_command(app), [])
print(*sys.modules)
"""


@pytest.mark.long
def test_no_help_waits_for_what_its_command_needs():
    code = [sys.executable, "-c", LOADED]
    loaded = subprocess.run(code, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("iowatch.") and ".cli" not in name}
    assert ours == {
        "iowatch.base",
        *(f"iowatch.base.{name}" for name in ("files", "places", "text")),
    }
    slow = {"reframe", "numpy", "matplotlib", "jinja2", "jsonschema", "yaml", "pydantic", "rich"}
    assert not slow & {*loaded}


def test_help_lists_every_command_once():
    listed = [name for names in COMMANDS.values() for name in names.split()]
    commands = typer.main.get_command(app).commands
    assert sorted(listed) == sorted(name for name in commands if not commands[name].hidden)


@pytest.fixture
def complete(monkeypatch, capsys, tmp_path):
    """complete(*words): how bash is told that the last of these may go on."""
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path))
    monkeypatch.setenv("_IOWATCH_COMPLETE", "complete_bash")
    for night in ("archer-2026-11-19T003000", "archer-2026-11-20T003000", "lumi-2026-11-20T003000"):
        (tmp_path / "nights").mkdir(exist_ok=True)
        (tmp_path / "nights" / f"{night}.json").touch()
    for name in ("", "+2"):
        run = str(HDF5).replace("/", ",") + name
        (tmp_path / "runs" / night_id() / run).mkdir(parents=True)

    def ask(*words):
        # As bash cuts them: at `:` and at `=`, which are words of their own.
        monkeypatch.setenv("COMP_WORDS", "\n".join(("iowatch", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        main()
        return capsys.readouterr().out.split()

    return ask


def test_completion_of_systems_nights_and_cases(complete, monkeypatch):
    assert complete("stat") == ["status"]
    assert complete("run", "--system", "arc") == ["archer", "archer2"]
    assert complete("report", "--system", "archer", "--night", f"{NIGHT}") == [night_id()]
    assert complete("show", "fs") == []
    assert complete("show", "arch") == [str(HDF5)]
    before, _, rest = str(HDF5).partition(":")
    assert complete("show", before, ":", "fs") == [rest]
    before, _, after = str(HDF5).partition("=")
    assert complete("show", *before.partition(":"), "=", "") == [after]
    assert complete("run", "--system", "=", "arc") == ["archer", "archer2"]
    monkeypatch.setenv("IOWATCH_SITE_DIR", "nowhere")
    assert complete("run", "--system", "arc") == [], (
        "whatever is wrong, nothing is said in a prompt"
    )
