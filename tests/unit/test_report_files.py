"""The report as texts and files, and the command."""

import errno
import json
import os
import re
import sqlite3
import sys
import xml.etree.ElementTree as ET
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from browser.simulated import SYSTEM, Year
from conftest import ROOT
from typer.testing import CliRunner
from unit.reported_nights import HDF5, MPIIO, NIGHT, record, red, report, well

from iowatch import history
from iowatch.cli import app
from iowatch.files import UserError
from iowatch.references import ExpectedFailure
from iowatch.report.model import report_of
from iowatch.report.pages import html, junit, markdown, page_of_tonight, write_report


def test_junit_fails_what_is_red():
    other = replace(HDF5, partition="fs2")
    broken = red(other, verdict="invalid", figures={}, sentence=f"{other}: \x1b[31m<b>&\ufffe")
    text = junit(report(*well(MPIIO), *well(), record(), broken))
    suite = ET.fromstring(text)
    failed = {
        test.get("name"): test.find("failure") for test in suite if test.find("failure") is not None
    }
    assert set(failed) == {"night", str(other)}
    assert failed[str(other)].get("message") == "hdf5 on fs2: ?[31m<b>&?"
    assert failed["night"].get("message").endswith(f"unlike on most nights before: {MPIIO}")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    assert "total_max = 7700" in suite.findtext(f"testcase[@name='{HDF5}']/system-out")


def test_markdown_is_short_and_has_no_markup_of_others():
    other = replace(HDF5, partition="fs2")
    broken = red(other, verdict="invalid", figures={}, sentence=f"{other}: <script>|*x*")
    lines = markdown(report(*well(), *well(other), record(), broken)).splitlines()
    assert lines[0] == "# iowatch archer 2026-11-20: Red: 1 of 2 cases"
    assert lines[2] == r"hdf5 on fs2: \<script\>\|\*x\*"
    assert [line for line in lines if line.startswith("| **invalid** | - | 7700 | - | hdf5 on fs2")]
    assert "0 %" not in "".join(lines), "nothing was measured"
    assert lines[-1] == "1 invalid, 1 ok"
    assert "fs3" not in "".join(lines)


def test_texts_of_others_are_one_line_that_prints():
    dirty, clean = "disk\x1b[31m\nfull\x00\u202e \ud800|", "disk?[31m full?? ?"
    until = ExpectedFailure(re.compile(".*fs2.*"), NIGHT, dirty)
    other = replace(HDF5, partition="fs2")
    night = report(
        *well(),
        *well(other),
        red(verdict="invalid", figures={}, sentence=f"{HDF5}: {dirty}"),
        red(other, result="xfail", conditions={dirty: dirty}, slowest={"write": dirty}),
        excuses=[until],
        problems=[dirty, dirty],
    )
    night = replace(night, notes=[dirty])
    pages = html(night), markdown(night), junit(night)
    for page in pages:
        assert page.replace("\n", "").isprintable()
        page.encode()
    assert pages[0].count(clean) == 12, "wherever a text of others stands"
    (row,) = [line for line in pages[1].splitlines() if line.startswith("| **invalid**")]
    assert row.endswith(r"| hdf5 on fs3: disk?\[31m full?? ?\| |")
    suite = ET.fromstring(pages[2])
    failure = suite.find("testcase[@name='night']/failure")
    assert (failure.get("message"), failure.text) == (f"{clean}|", f"{clean}|\n{clean}|")


def test_change_is_a_whole_per_cent_with_its_sign():
    def change(rate):
        night = report(*well(), record(rate=rate, verdict="suspect"))
        return markdown(night).splitlines()[6].split(" | ")[3]

    assert [change(rate) for rate in (7690, 7700, 3850, 11550)] == [
        "+0 %",
        "+0 %",
        "-50 %",
        "+50 %",
    ]


def test_page_of_a_year_is_small_enough_for_a_mail(tmp_path):
    year = Year(365, 10, NIGHT)
    year.store(tmp_path / "results.db")
    found = report_of(history.read([tmp_path / "results.db"]), SYSTEM, year.blessed, [])
    assert found.rows[0].trend.nights[0] == NIGHT - timedelta(days=364)
    assert 200 / len(found.rows) * len(html(found).encode()) < 5e6


def test_file_is_written_over(tmp_path):
    for text in ("old", "new"):
        write_report(tmp_path / "report.html", text)
    assert (tmp_path / "report.html").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "make",
    [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")],
)
def test_only_a_regular_file_is_written_over(tmp_path, make):
    path, file = tmp_path / "report.html", tmp_path / "file"
    file.write_text("kept")
    make(path)
    before = path.lstat()
    with pytest.raises(UserError, match=r"report\.html: cannot be written: it is no regular file$"):
        write_report(path, "text")
    assert path.lstat() == before
    assert {path.name for path in tmp_path.iterdir()} == {"file", "report.html"}
    assert file.read_text() == "kept"


def test_link_stays_one(tmp_path):
    path = tmp_path / "report.html"
    path.symlink_to("elsewhere.html")
    write_report(path, "text")
    assert path.is_symlink()
    assert (tmp_path / "elsewhere.html").read_text() == "text"


def test_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"a\.html: cannot be written: Not a directory$"):
        write_report(tmp_path / "file" / "a.html", "text")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(UserError, match=r"a\.html: cannot be written: No space left on device"):
        write_report(tmp_path / "a.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def iowatch_report(tmp_path, monkeypatch):
    """The command, and a database of one night."""
    Year(1, 19, NIGHT).store(tmp_path / "results.db")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    database = ["--db", str(tmp_path / "results.db")]
    return lambda *options: CliRunner().invoke(
        app, ["report", "--system", "archer", *database, *options]
    )


def test_page_is_written_next_to_the_database(iowatch_report, tmp_path):
    done = iowatch_report()
    assert done.exit_code == 0
    page = tmp_path / "record-archer-2026-11-20.html"
    assert done.stdout == f"{page}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"results.db", page.name}


def test_page_of_the_record_leaves_that_of_the_night(iowatch_report, tmp_path):
    midnight = datetime(2026, 11, 20, tzinfo=timezone.utc)
    nightly = page_of_tonight("archer", tmp_path / "results.db", ["no disk"], midnight)
    assert iowatch_report().stdout != f"{nightly}\n"
    assert "no disk" in nightly.read_text()


def test_record_says_what_else_failed_in_its_sessions(iowatch_report, tmp_path):
    """The versions of the libraries, for one, have no case."""

    def change(session):
        run = session["runs"][0]
        run["num_aborted"] = 2
        run["testcases"].append(
            {
                "display_name": "LibraryVersions",
                "result": "fail",
                "fail_reason": "HDF5 1.8.14 is slow on Lustre",
            }
        )

    change_sessions(tmp_path / "results.db", change)
    lines = iowatch_report("--format", "md").stdout.splitlines()
    assert "- **Problem:** LibraryVersions: HDF5 1.8.14 is slow on Lustre" in lines
    assert r"- **Problem:** 2 check(s) skipped or aborted" in lines


def change_sessions(database, change):
    with closing(sqlite3.connect(database)) as connection, connection:
        for uuid, text in connection.execute("SELECT uuid, json_blob FROM sessions").fetchall():
            session = json.loads(text)
            change(session)
            connection.execute(
                "UPDATE sessions SET json_blob = ? WHERE uuid = ?", (json.dumps(session), uuid)
            )


def test_page_of_a_night_that_left_no_run_is_not_another_nights(iowatch_report, tmp_path):
    def page(began):
        return page_of_tonight("archer", tmp_path / "results.db", ["no disk"], began)

    midnight = datetime(2026, 11, 20, tzinfo=timezone.utc)
    written = page(midnight)
    assert "<strong>Problem:</strong> no disk" in written.read_text()
    written.unlink()
    assert page(midnight + timedelta(days=1)) is None
    assert not written.exists()


def test_texts_are_printed_or_written(iowatch_report, tmp_path):
    assert iowatch_report("--format", "md").stdout.startswith("# iowatch archer 2026-11-20: Red: ")
    assert ET.fromstring(iowatch_report("--format", "junit").stdout).tag == "testsuite"
    assert iowatch_report("--format", "md", "--output", str(tmp_path / "a.md")).exit_code == 0
    assert (tmp_path / "a.md").read_text() == iowatch_report("--format", "md").stdout


def test_page_needs_matplotlib_and_texts_do_not(iowatch_report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "iowatch.report.plots", raising=False)
    assert iowatch_report("--format", "md").exit_code == 0
    done = iowatch_report()
    assert done.exit_code == 2
    missing = f"iowatch: error: matplotlib is missing: pip install -e '{ROOT}[report]'\n"
    assert done.stderr == missing


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--format", "pdf"], "--format pdf: there are html, md, junit"),
        (["--night", "2026-11-19"], "no night of 2026-11-19 is on record for archer: "),
        (["--output", "/nowhere/a.html"], "/nowhere/a.html: cannot be written: No such file"),
        (["--db", "nowhere.db"], "nowhere.db: there is no such results database: "),
    ],
)
def test_mistake_is_one_line(iowatch_report, options, error):
    done = iowatch_report(*options)
    assert done.exit_code == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"iowatch: error: {error}")
