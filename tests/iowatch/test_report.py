"""The report as texts and files, and the command."""

import errno
import json
import os
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cases import case, changed
from nights import HDF5, MPIIO, NIGHT, invalid, ran, recorded, red, slow, tonight, unmeasured, well
from pages.simulated import Year
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch import history
from iowatch.cli import app
from iowatch.files import UserError
from iowatch.night.alarms import Alarm
from iowatch.night.comparison import comparisons
from iowatch.references import ExpectedFailure
from iowatch.report import html, junit, markdown, write, write_page
from iowatch.run import night_id
from iowatch.tables import as_text
from iowatch.verdict import Kind

FS2 = changed(HDF5, place="archer:fs2/cray")


def test_junit_fails_what_is_red():
    broken = invalid(FS2, sentence=f"{FS2}: \x1b[31m<b>&\ufffe")
    night = recorded(*well(MPIIO), *well(), ran(), broken)
    suite = ET.fromstring(junit(night))
    failed = {
        test.get("name"): test.find("failure") for test in suite if test.find("failure") is not None
    }
    assert set(failed) == {"night", str(FS2)}
    assert failed[str(FS2)].get("message") == "hdf5 on fs2: ?[31m<b>&?"
    assert failed["night"].get("message").endswith(f"unlike on most nights before: {MPIIO}")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    assert suite.get("timestamp") == "2026-11-20T01:00:00"
    assert "stable_max = 7700" in suite.findtext(f"testcase[@name='{HDF5}']/system-out")
    until = ExpectedFailure(re.compile(".*"), NIGHT, "ticket 4711")
    suite = ET.fromstring(junit(tonight(ran(MPIIO), red(result="xfail"), expected=[until])))
    assert suite.get("failures") == "0"
    (skipped,) = suite.findall("testcase/skipped")
    told = "regression, expected until 2026-11-20: ticket 4711"
    assert (skipped.get("message"), len(suite.findall("testcase/failure"))) == (told, 0)
    suite = ET.fromstring(junit(tonight(*well(), unmeasured())))
    assert suite.get("failures") == "0"
    (skipped,) = suite.findall("testcase/skipped")
    assert skipped.get("message") == "hdf5 on fs3: in maintenance"


def test_alarm_of_several_cases_comes_first_with_the_cases_under_it():
    rows = [red(), red(MPIIO), ran(FS2)]
    night = tonight(*well(), *well(MPIIO), *well(FS2), *rows)
    said = "2 of 2 cases are slow"
    alarm = Alarm("fs3", Kind.REGRESSION, said, night.red, frozenset({HDF5, MPIIO}))
    night = replace(night, alarms=[alarm])
    suite = ET.fromstring(junit(night))
    (failure,) = suite.findall("testcase/failure")
    assert failure.get("message") == f"fs3: {said}"
    assert len(failure.text.splitlines()) == 2
    assert (suite.get("tests"), suite.get("failures")) == ("5", "1")
    skipped = {test.get("message") for test in suite.findall("testcase/skipped")}
    assert skipped == {"regression, see fs3"}
    text = markdown(night)
    lines = text.splitlines()
    assert lines[0] == "# iowatch archer, night of 2026-11-20: Red: fs3 is slow, 2 of 3 cases"
    assert lines[2] == f"fs3: {said}"
    place = lines.index(f"**regression**: fs3: {said}")
    assert lines[place + 2 : place + 4] == [
        "- hdf5 on fs3: regression, 0% below what is expected",
        "- mpiio on fs3: regression, 0% below what is expected",
    ]
    page = html(night)
    assert page.count(f"fs3: {said}") == 2, "as the reason, and above its cases"
    assert '<li><a href="#case-1">hdf5 on fs3: regression, ' in page


def test_markdown_is_short_and_has_no_markup_of_others():
    broken = invalid(FS2, sentence=f"{FS2}: <script>|*x*")
    lines = markdown(tonight(*well(), *well(FS2), ran(), broken)).splitlines()
    assert lines[0] == "# iowatch archer, night of 2026-11-20: Red: 1 of 2 cases"
    assert lines[2] == r"hdf5 on fs2: \<script\>\|\*x\*"
    assert [line for line in lines if line.startswith("| **invalid** | - | 7700 | - | hdf5 on fs2")]
    assert "0 %" not in "".join(lines), "nothing was measured"
    assert lines[-1] == "1 invalid, 1 ok"
    assert "fs3" not in "".join(lines)
    above = red(kind="too_fast", sentence=f"{HDF5}: above the ceiling")
    assert [line for line in markdown(tonight(above)).splitlines() if r"| **too\_fast** |" in line]


def environ(of, name, **met):
    """A case in another environment, and what a run of it met with."""
    return {"of": replace(of, environ=name), "conditions": {"benchio": "0.1.0", **met}}


def test_environments_of_a_partition_are_side_by_side():
    mpi = "Open MPI v4.1.4, package: Debian"
    old = {"hdf5": "1.8.16", "mpi": "Open MPI v4.1.4, package: of a module"}
    runs = [
        ran(**environ(HDF5, "new", hdf5="1.10.8", mpi=mpi, netcdf="4.9.0")),
        ran(**environ(MPIIO, "new", hdf5="1.10.8", mpi=mpi)),
        ran(**environ(HDF5, "old", **old), rate=250, control=7000, finish=0.96, kind="suspect"),
        ran(**environ(MPIIO, "old", **old)),
        invalid(**environ(HDF5, "broken")),
        ran(**environ(changed(HDF5, local_size=(64, 64, 64)), "new")),  # nowhere else
        ran(FS2),
        ran(**environ(case("LibraryVersions", place="archer:fs2/-"), "new"), metrics={}),
        ran(**environ(case("LibraryVersions", place="archer:fs2/-"), "old"), metrics={}),
    ]
    (found,) = comparisons(tonight(*runs).cases)
    assert found.partition == "fs3"
    assert list(found.environs.items()) == [
        ("old", ["hdf5 1.8.16"]),
        ("new", ["hdf5 1.10.8"]),
        ("broken", []),
    ]
    kinds = {name: [row and row.kind for row in rows] for name, rows in found.settings.items()}
    assert kinds == {
        "hdf5 on fs3": ["suspect", "ok", "invalid"],
        "mpiio on fs3": ["ok", "ok", None],
    }
    lines = markdown(tonight(*runs)).splitlines()
    start = lines.index("Environments of fs3 side by side:")
    assert lines[start + 2 : start + 6] == [
        "| Setting | old, hdf5 1.8.16 | new, hdf5 1.10.8 | broken |",
        "|---|---|---|---|",
        "| hdf5 on fs3 | suspect 250 MiB/s, ratio 0.04, finish 96 % "
        "| ok 7700 MiB/s, ratio 1.00, finish 2 % | **invalid** |",
        "| mpiio on fs3 | ok 7700 MiB/s, finish 2 % | ok 7700 MiB/s, finish 2 % | - |",
    ]
    shown = as_text(tonight(*runs))
    assert shown.startswith("case ")
    assert "\nfs3/broken\nwrite shared" in shown
    assert comparisons(tonight(*well(), ran(), ran(MPIIO), ran(FS2)).cases) == []
    assert "\nfs3\nwrite shared" in as_text(tonight(ran(), ran(FS2)))


def test_page_has_no_markup_of_others():
    said = "<script>alert(1)</script>&<b title=\"'"
    until = ExpectedFailure(re.compile(".*fs2.*"), NIGHT, said)
    night = tonight(
        *well(),
        *well(FS2),
        invalid(sentence=f"{HDF5}: {said}"),
        red(FS2, result="xfail", conditions={said: said}, slowest={"write": said}),
        expected=[until],
        problems=[said],
    )
    page = html(replace(night, notes=[said]))
    assert page.count("<script") == html(tonight(ran())).count("<script")
    assert "<b " not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&lt;b title=" in page


def test_change_is_a_whole_per_cent_with_its_sign():
    def change(rate):
        night = tonight(*well(), slow(rate=rate))
        return markdown(night).splitlines()[6].split(" | ")[3]

    said = [change(rate) for rate in (7690, 7700, 3850, 11550)]
    assert said == ["+0 %", "+0 %", "-50 %", "+50 %"]


def test_texts_of_others_are_one_line_that_prints():
    dirty, clean = "disk\x1b[31m\nfull\x00\u202e \ud800|", "disk?[31m full?? ?"
    until = ExpectedFailure(re.compile(".*fs2.*"), NIGHT, dirty)
    night = tonight(
        *well(),
        *well(FS2),
        invalid(sentence=f"{HDF5}: {dirty}"),
        red(FS2, result="xfail", conditions={dirty: dirty}, slowest={"write": dirty}),
        expected=[until],
        problems=[dirty, dirty],
    )
    pages = [make(replace(night, notes=[dirty])) for make in (html, markdown, junit)]
    for page in pages:
        assert page.replace("\n", "").isprintable()
        page.encode()
    assert pages[0].count(clean) == 12, "wherever a text of others stands"
    (row,) = [line for line in pages[1].splitlines() if line.startswith("| **invalid**")]
    assert row.endswith(r"| hdf5 on fs3: disk?\[31m full?? ?\| |")
    suite = ET.fromstring(pages[2])
    failure = suite.find("testcase[@name='night']/failure")
    assert (failure.get("message"), failure.text) == (f"{clean}|", f"{clean}|\n{clean}|")


def test_case_without_metrics_is_reported_too(tmp_path):
    versions = case("LibraryVersions", "archer:fs3/cray")
    said = f"{versions}: HDF5 1.8.14 is slow on Lustre"
    for runs, word in (
        ([ran(versions, metrics={}, sentence=f"{versions}: HDF5 1.10.8")], "ok"),
        ([red(versions, metrics={}, kind="defect", sentence=said)], "defect"),
    ):
        for more in ([], [*well(), ran()]):
            night = tonight(ran(versions, 1, metrics={}), *runs, *more)
            page, text, suite = html(night), markdown(night), ET.fromstring(junit(night))
            assert "No plot: nothing measured yet." in page
            assert page.count("<svg") == 2 * bool(more)
            assert f"1 {word}" in text or "2 ok" in text
            failed = suite.find(f"testcase[@name='{versions}']/failure") is not None
            assert failed is night.is_red is (word == "defect")
            line = "| **defect** | - | - | - | versions on fs3: HDF5 1.8.14 is slow "
            assert (line in text) is failed


@pytest.mark.long
def test_page_of_a_year_is_small_enough_for_a_mail(tmp_path):
    year = Year(365, 10, NIGHT)
    year.store(tmp_path / "results.db")
    found = year.recorded(history.read([tmp_path / "results.db"]))
    assert found.cases[0].trend.nights[0] == NIGHT - timedelta(days=364)
    page = html(found)
    of_osts = re.search(r'<section class="osts".*?</section>', page, re.DOTALL)[0]
    each = (len(page) - len(of_osts)) / len(found.cases)
    assert 200 * each + 24 / 12 * 2 * len(of_osts) < 3e6, (
        "24 OSTs, written and read, not 12 written"
    )


# Files


def test_file_is_written_over_and_a_link_stays_one(tmp_path):
    path = tmp_path / "report.html"
    for text in ("old", "new"):
        write(path, text)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    path.unlink()
    path.symlink_to("elsewhere.html")
    write(path, "text")
    assert path.is_symlink()
    assert (tmp_path / "elsewhere.html").read_text() == "text"


def test_link_that_waits_where_a_file_is_prepared_is_not_written_through(tmp_path):
    (tmp_path / "kept").write_text("precious")
    (tmp_path / f".report.html.{os.getpid()}").symlink_to("kept")
    write(tmp_path / "report.html", "text")
    assert (tmp_path / "kept").read_text() == "precious"
    assert (tmp_path / "report.html").read_text() == "text"


def test_file_is_on_stable_storage_before_it_takes_the_place_of_the_last(tmp_path, monkeypatch):
    """A power cut just after that would else leave it empty."""
    page, synced = tmp_path / "a.html", []

    def fsync(handle):
        synced.append((Path(f"/proc/self/fd/{handle}").readlink(), page.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(page, "text")
    (file, existed), (folder, _) = synced
    assert (file.parent, existed, folder) == (tmp_path, False, tmp_path)


def test_only_a_regular_file_is_written_over(tmp_path):
    (tmp_path / "file").write_text("kept")
    for number, make in enumerate((os.mkdir, os.mkfifo, lambda p: p.symlink_to("/dev/null"))):
        path = tmp_path / f"{number}.html"
        make(path)
        before = path.lstat()
        with pytest.raises(UserError, match=r"html: cannot be written: it is no regular file$"):
            write(path, "text")
        assert path.lstat() == before
    assert {path.name for path in tmp_path.iterdir()} == {"file", "0.html", "1.html", "2.html"}


def test_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"a\.html: cannot be written: Not a directory$"):
        write(tmp_path / "file" / "a.html", "text")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(UserError, match=r"a\.html: cannot be written: No space left on device"):
        write(tmp_path / "a.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_page_of_the_record_leaves_that_of_the_night(tmp_path):
    pages = [
        write_page(night, tmp_path) for night in (tonight(ran(), problems=["x"]), recorded(ran()))
    ]
    names = [f"{kind}-archer-2026-11-20T003000.html" for kind in ("report", "record")]
    assert [page.name for page in pages] == names
    assert ["<strong>Problem:</strong> x" in page.read_text() for page in pages] == [True, False]


# The command


@pytest.fixture
def iowatch_report(tmp_path, monkeypatch):
    """The command, and a database of one night."""
    Year(1, 19, NIGHT).store(tmp_path / "results.db")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    words = ["report", "--system", "archer", "--db", str(tmp_path / "results.db")]
    return lambda *options: CliRunner().invoke(app, [*words, *options])


def test_page_is_written_next_to_the_database(iowatch_report, tmp_path):
    done = iowatch_report()
    assert done.exit_code == 0
    page = tmp_path / "record-archer-2026-11-20T003000.html"
    assert done.stdout == f"{page}\n"
    assert page.read_text().startswith("<!doctype html>")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"results.db", "results.db.runs", page.name}


def test_texts_are_printed_or_written(iowatch_report, tmp_path):
    assert iowatch_report("--format", "md").stdout.startswith(
        "# iowatch archer, night of 2026-11-20: Red: "
    )
    assert ET.fromstring(iowatch_report("--format", "junit").stdout).tag == "testsuite"
    assert iowatch_report("--format", "md", "--output", str(tmp_path / "a.md")).exit_code == 0
    assert (tmp_path / "a.md").read_text() == iowatch_report("--format", "md").stdout


def test_record_says_what_else_failed_in_its_sessions(iowatch_report, tmp_path):
    """What builds benchio, for one, has no case."""
    broken = {
        "display_name": "BuiltBenchio",
        "result": "fail",
        "fail_reason": "no HDF5\nhere",
    }
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection, connection:
        for uuid, text in connection.execute("SELECT uuid, json_blob FROM sessions").fetchall():
            session = json.loads(text)
            session["runs"][0]["num_aborted"] = 2
            session["runs"][0]["testcases"].append(broken)
            connection.execute(
                "UPDATE sessions SET json_blob = ? WHERE uuid = ?", (json.dumps(session), uuid)
            )
    lines = iowatch_report("--format", "md").stdout.splitlines()
    assert "- **Problem:** BuiltBenchio: no HDF5 here" in lines
    assert r"- **Problem:** 2 checks were skipped or aborted" in lines


def test_pages_of_a_night_need_no_extra(iowatch_report, tmp_path):
    """What draws the paper's figures and the dossier may be missing on a login node."""
    wanted = iowatch_report("--output", str(tmp_path / "wanted.html"))
    assert wanted.exit_code == 0
    missing = ["matplotlib", "numpy", "scipy", "weasyprint", "darshan"]
    code = f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({missing}))
        from iowatch import cli
        from iowatch.night import nightly
        cli.app(["report", "--system", "archer", "--db", "results.db", "--output", "drawn.html"])
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "drawn.html\n")
    assert "<svg" in (tmp_path / "drawn.html").read_text()
    assert (tmp_path / "drawn.html").read_text() == (tmp_path / "wanted.html").read_text()


def test_night_that_a_clock_dated_later_than_now_is_named_and_shown_if_asked_for(
    iowatch_report, tmp_path
):
    ahead = datetime.now(UTC) + timedelta(days=1)
    night = night_id(ahead)
    path = tmp_path / "clock.db"
    before = datetime.now(UTC) - timedelta(days=1)
    store(
        path,
        session(reported(HDF5, before, 1000.0), uuid="1", began=before, night=night_id(before)),
        session(reported(HDF5, ahead, 1000.0), uuid="2", began=ahead, night=night),
    )
    options = ["--system", HDF5.system, "--db", str(path)]
    done = iowatch_report(*options)
    assert (done.exit_code, done.stdout) == (
        0, f"{tmp_path}/record-{HDF5.system}-{night_id(before)}.html\n"
    )  # fmt: skip
    assert done.stderr == (
        f"iowatch: a clock was wrong: night {night} is dated later than now: --night shows it\n"
    )
    done = iowatch_report(*options, "--night", night)
    assert (done.stdout, done.stderr) == (f"{tmp_path}/record-{HDF5.system}-{night}.html\n", "")


def test_mistake_is_one_line(iowatch_report):
    for options, error in (
        (["--format", "pdf"], "--format pdf: there are html, md, junit"),
        (["--night", "2026-11-19"], "no night of 2026-11-19 is on record for archer: "),
        (["--night", "0001-01-01"], "no night of 0001-01-01 is on record for archer: "),
        (["--db", "x" * 300], f"{'x' * 300}: no results database can be there: File name too long"),
        (["--night", "yesterday"], "--night yesterday: no day such as "),
        (["--night", "2026-02-30"], "--night 2026-02-30: no day such as "),
        (["--output", "/nowhere/a.html"], "/nowhere/a.html: cannot be written: No such file"),
        (["--db", "nowhere.db"], "nowhere.db: there is no such results database: "),
        (
            ["--system", "archer:fs3"],
            "--system archer:fs3: a night is the whole system's: give archer",
        ),
        (["--system", "cirrus"], "no night of system cirrus is on record; systems on record: "),
    ):
        done = iowatch_report(*options)
        assert done.exit_code == 2, options
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith(f"iowatch: error: {error}")
