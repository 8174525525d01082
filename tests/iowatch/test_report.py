"""The report as texts and files, and the command."""

import json
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cases import case, changed
from clock import SET
from nights import (
    AWAY,
    AWAY_TOO,
    BROKEN,
    FS2,
    HDF5,
    KNOWN,
    MPIIO,
    NIGHT,
    QUEUED,
    TOO_FAST,
    eventful,
    ran,
    recorded,
    red,
    slow,
    tonight,
    unverified,
    well,
)
from pages.simulated import Year
from reported import HDF5 as LOCAL
from reported import of_night, reported, session, store
from shown import as_text, html, junit, markdown
from typer.testing import CliRunner

from iowatch.cases.run import night_id
from iowatch.cli import app
from iowatch.night.summary import comparisons
from iowatch.pages.report import write_page
from iowatch.past import history
from iowatch.site.declared import ExpectedFailure

PAGE = "record-archer-2026-11-20T003000.html"


def test_texts_of_a_night(golden):
    golden("report.md", markdown(eventful()))
    golden("report.xml", junit(eventful()))


def test_junit_fails_what_is_red():
    suite = ET.fromstring(junit(eventful()))
    failed = {test.get("name") for test in suite if test.find("failure") is not None}
    assert failed == {"night", "fs3", str(BROKEN), str(TOO_FAST)}
    skipped = {test.get("name") for test in suite if test.find("skipped") is not None}
    assert skipped == {str(of) for of in (HDF5, MPIIO, AWAY, AWAY_TOO, QUEUED, KNOWN)}
    assert (suite.get("tests"), suite.get("failures")) == ("13", "4")
    suite = ET.fromstring(junit(recorded(*well(MPIIO), *well(), ran())))
    assert [test.get("name") for test in suite if test.find("failure") is not None] == ["night"]


def test_page_has_alarms_first_with_the_cases_under_them():
    page = html(eventful())
    assert page.count("fs3: 2 of 2 cases are [b]slow[/b]") == 2, "as the reason, and above them"
    assert re.search(r'<li><a href="#case-\d+">hdf5 on fs3, .*: regression \(own_past\), ', page)


def environ(of, name, **met):
    """A case in another environment, and what a run of it met with."""
    return {"of": replace(of, environ=name), "provenance": {"benchio": "0.1.0", **met}}


def test_environments_of_a_partition_are_side_by_side(golden):
    mpi = "Open MPI v4.1.4, package: Debian"
    old = {"hdf5": "1.8.16", "mpi": "Open MPI v4.1.4, package: of a module"}
    versions = case("LibraryVersions", place="archer:fs2/-")
    night = tonight(
        ran(**environ(HDF5, "new", hdf5="1.10.8", mpi=mpi, netcdf="4.9.0")),
        ran(**environ(MPIIO, "new", hdf5="1.10.8", mpi=mpi)),
        slow(**environ(HDF5, "old", **old), rate=250, control=7000, finish=0.96),
        ran(**environ(MPIIO, "old", **old)),
        unverified(**environ(HDF5, "broken")),
        ran(**environ(changed(HDF5, local_size=(64, 64, 64)), "new")),  # nowhere else
        ran(FS2),
        *(ran(**environ(versions, name), metrics={}) for name in ("new", "old")),
    )
    golden("environments.md", markdown(night))
    shown = as_text(night)
    assert re.search(r"^fs3/broken\n.*\ncase ", shown, re.MULTILINE)
    assert comparisons(tonight(*well(), ran(), ran(MPIIO), ran(FS2)).cases) == []
    assert re.search(r"^fs3\n.*\ncase ", as_text(tonight(ran(), ran(FS2))), re.MULTILINE)


def with_texts(text):
    """A night with this text wherever a text of others stands."""
    night = tonight(
        *well(),
        *well(FS2),
        unverified(sentence=text),
        red(FS2, result="xfail", provenance={text: text}, slowest={"write": text}),
        expected=[ExpectedFailure(case=re.compile(".*fs2.*"), until=NIGHT, why=text)],
        problems=[text, text],
    )
    return replace(night, notes=[text])


EXTENT = {
    "path": "/fs3/benchio.a/hdf5.h5", "first_element": 512, "bytes": 64, "offset": 8192,
    "pages": [2, 2], "stripe": 0, "ost": 3, "writer": 1, "host": "n1", "kind": "zeros",
    "shift": None, "of": None, "expected": "3FF0000000000001", "read": "0000000000000000",
}  # fmt: skip


def test_page_shows_where_data_were_wrong_though_a_re_run_was_well(tmp_path):
    shifted = EXTENT | {
        "offset": None, "pages": None, "stripe": None, "ost": None, "writer": None,
        "kind": "shifted", "shift": -16,
    }  # fmt: skip
    evidence = {"elements": 9, "zeros": 1, "extents": 2, "kept": True, "listed": [EXTENT, shifted]}
    (tmp_path / "result.json").write_text(json.dumps({"error": {"evidence": evidence}}))
    corrupt = unverified(verdict="failed (corrupt)", folder=str(tmp_path))
    page = " ".join(html(tonight(*well(), corrupt, ran(hour=5))).split())
    assert "Wrong data: 9 elements in 2 extents, 1 zero among them; the files stay" in page
    assert "64 bytes at byte 8192, page 2, stripe 0, OST 3</td> <td>rank 1 on n1</td>" in page
    assert "64 bytes, from element 512</td> <td>n1</td><td>values of the place 16 bytes bef" in page
    assert "<code>0000000000000000</code>, not <code>3FF0000000000001</code>" in page
    (tmp_path / "result.json").write_text('{"error": {"evidence": {"listed": [')
    assert "Wrong data" not in html(tonight(*well(), corrupt)), "raw results do not last"


def test_page_has_the_end_of_what_a_failed_job_printed(tmp_path):
    """The sentence is one line of it, and perhaps not the one that tells the cause."""
    failed = unverified(folder=str(tmp_path))
    assert "The job printed" not in html(tonight(*well(), failed)), "raw results do not last"
    (tmp_path / "rfm_job.err").write_text("word\n" * 50 + "<b>\x1b[31m &\n" + "x" * 999 + "\n\n")
    page = html(tonight(*well(), failed))
    lines = page.partition("<pre>")[2].partition("</pre>")[0].strip().split("\n")
    assert lines == ["word"] * 28 + ["&lt;b&gt;?[31m &amp;", "x" * 300]
    (tmp_path / "rfm_job.err").unlink()
    (tmp_path / "rfm_job.out").write_text("output\n")
    assert "<pre>\noutput\n</pre>" in html(tonight(*well(), failed))
    assert "<pre>" not in html(tonight(*well(), ran(folder=str(tmp_path)))), "it is well"


def test_page_has_no_markup_of_others():
    page = html(with_texts("<script>alert(1)</script>&<b title=\"'"))
    assert page.count("<script") == html(tonight(ran())).count("<script")
    assert "<b " not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&lt;b title=" in page


def test_texts_of_others_are_one_line_that_prints():
    clean = "disk?[31m full?? ?"
    night = with_texts("disk\x1b[31m\nfull\x00\u202e \ud800|")
    pages = [make(night) for make in (html, markdown, junit)]
    for page in pages:
        assert page.replace("\n", "").isprintable()
        page.encode()
    assert pages[0].count(clean) == 12, "wherever a text of others stands"
    (row,) = [line for line in pages[1].splitlines() if line.startswith("| **failed")]
    assert row.endswith(r"| hdf5 on fs3: disk?\[31m full?? ?\| |")
    failure = ET.fromstring(pages[2]).find("testcase[@name='night']/failure")
    assert (failure.get("message"), failure.text) == (f"{clean}|", f"{clean}|\n{clean}|")


def test_case_without_metrics_is_reported_too():
    versions = case("LibraryVersions", "archer:fs3/cray")
    for tell, kind in ((ran, "ok"), (red, "regression (slow_library)")):
        told = {"verdict": kind, "metrics": {}, "sentence": "HDF5 1.8.14"}
        for more in ([], [*well(), ran()]):
            night = tonight(ran(versions, 1, metrics={}), tell(versions, **told), *more)
            page, text, suite = html(night), markdown(night), ET.fromstring(junit(night))
            assert "No plot: nothing measured yet." in page
            assert page.count("<svg role=") == 2 * bool(more)
            assert "2 ok" in text or f"1 {kind}".replace("_", r"\_") in text
            failed = suite.find(f"testcase[@name='{versions}']/failure") is not None
            assert failed is night.is_red is (kind == "regression (slow_library)")
            row = r"| **regression (slow\_library)** | - | - | - | versions on fs3: HDF5 1.8.14"
            assert (row in text) is failed


@pytest.mark.long
def test_page_of_a_year_is_small_enough_for_a_mail(tmp_path):
    year = Year(365, 10, NIGHT)
    year.store(tmp_path / "results.db")
    night = year.recorded(history.read([tmp_path / "results.db"]))
    assert night.cases[0].trend.nights[0] == NIGHT - timedelta(days=364)
    page = html(night)
    of_osts = re.search(r'<section class="osts".*?</section>', page, re.DOTALL)[0]
    each = (len(page) - len(of_osts)) / len(night.cases)
    # 24 OSTs, written and read, and not 12 written.
    assert 200 * each + 24 / 12 * 2 * len(of_osts) < 3e6


def test_page_of_the_record_leaves_that_of_the_night(tmp_path):
    of_night, of_record = tonight(ran(), problems=["x"]), recorded(ran())
    pages = [write_page(night, tmp_path) for night in (of_night, of_record)]
    assert [page.name for page in pages] == [PAGE.replace("record", "report"), PAGE]
    assert ["<strong>Problem:</strong> x" in page.read_text() for page in pages] == [True, False]


# The command


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command, and a database of one night."""
    Year(1, 3, NIGHT).store(tmp_path / "results.db")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    words = ["report", "--system", "archer", "--db", str(tmp_path / "results.db")]
    return lambda *options: CliRunner().invoke(app, [*words, *options])


def test_page_is_written_next_to_the_database_and_texts_are_printed(command, tmp_path):
    done = command()
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/{PAGE}\n")
    assert (tmp_path / PAGE).read_text().startswith("<!doctype html>")
    files = {"results.db", "results.db.runs", PAGE, PAGE.replace("html", "json")}
    assert {path.name for path in tmp_path.iterdir()} == files
    text = command("--format", "md").stdout
    assert text.startswith("# iowatch archer, night of 2026-11-20: ")
    assert ET.fromstring(command("--format", "junit").stdout).tag == "testsuite"
    assert command("--format", "md", "--output", str(tmp_path / "a.md")).exit_code == 0
    assert (tmp_path / "a.md").read_text() == text


def test_record_says_what_else_failed_in_its_sessions(command, tmp_path):
    """What builds benchio, for one, has no case."""
    broken = {"display_name": "BuiltBenchio", "result": "fail", "fail_reason": "no HDF5\nhere"}
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection, connection:
        for uuid, text in connection.execute("SELECT uuid, json_blob FROM sessions").fetchall():
            session = json.loads(text)
            session["runs"][0]["num_aborted"] = 2
            session["runs"][0]["testcases"].append(broken)
            row = json.dumps(session), uuid
            connection.execute("UPDATE sessions SET json_blob = ? WHERE uuid = ?", row)
    lines = command("--format", "md").stdout.splitlines()
    assert "- **Problem:** BuiltBenchio: no HDF5 here" in lines
    assert r"- **Problem:** 2 checks were skipped or aborted" in lines


def test_pages_of_a_night_need_no_extra(command, tmp_path):
    """What draws the paper's figures and the dossier may be missing on a login node."""
    assert command("--output", str(tmp_path / "wanted.html")).exit_code == 0
    missing = ["matplotlib", "numpy", "scipy", "weasyprint", "darshan"]
    code = f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({missing}))
        from iowatch import cli
        from iowatch.night import nightly
        cli.app(["report", "--system", "archer", "--db", "results.db", "--output", "drawn.html"])
    """
    words = [sys.executable, "-c", SET + code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "drawn.html\n")
    assert "<svg" in (tmp_path / "drawn.html").read_text()
    assert (tmp_path / "drawn.html").read_text() == (tmp_path / "wanted.html").read_text()


def test_night_that_a_clock_dated_later_than_now_is_named_and_shown_if_asked_for(command, tmp_path):
    before, ahead = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))
    path = tmp_path / "clock.db"
    for began in (before, ahead):
        store(path, of_night(began, reported(LOCAL, began, 1000.0)))
    options = ["--system", "local", "--db", str(path)]
    pages = [f"{tmp_path}/record-local-{night_id(began)}.html\n" for began in (before, ahead)]
    done = command(*options)
    assert (done.exit_code, done.stdout) == (0, pages[0])
    assert done.stderr == (
        f"iowatch: a clock was wrong: night {night_id(ahead)} is dated later than now: ask for it "
        "by its id\n"
    )
    done = command(*options, "--night", night_id(ahead))
    assert (done.stdout, done.stderr) == (pages[1], "")


def test_mistake_is_one_line(command):
    for options, error in (
        (["--format", "pdf"], "--format pdf: there are html, md, junit, json"),
        (["--night", "0001-01-01"], "no night of 0001-01-01 is on record for archer: "),
        (["--db", "x" * 300], f"{'x' * 300}: no results database can be there: File name too long"),
        (["--night", "yesterday"], "yesterday: no day such as "),
        (["--night", "2026-02-30"], "2026-02-30: no day such as "),
        (["--output", "/nowhere/a.html"], "/nowhere/a.html: cannot be written: No such file"),
        (["--db", "nowhere.db"], "nowhere.db: there is no such results database: "),
        (["--system", "archer:fs3"], "--system archer:fs3: a night is the whole system's: give ar"),
        (["--system", "cirrus"], "no night of system cirrus is on record; systems on record: "),
    ):
        done = command(*options)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), options
        assert done.stderr.startswith(f"iowatch: error: {error}")


def test_what_ran_by_hand_is_shown_by_its_session_alone(tmp_path, monkeypatch):
    """Its page compares the environments in which it ran."""
    began = datetime.now(UTC) - timedelta(days=1)
    path = tmp_path / "hand.db"
    ran = (reported(replace(LOCAL, environ=name), began, kept="/x", promised=3) for name in "ab")
    store(path, session(*ran, uuid="by-hand", began=began))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    words = ["--db", str(path)]

    def report(*options):
        return CliRunner().invoke(app, ["report", "--system", "local", *words, *options])

    name = night_id(began)
    assert f"\n{name} local  by hand " in CliRunner().invoke(app, ["nights", *words]).output
    done = report()
    why = f"no night of system local is on record, only what was run by hand: name one of {name}"
    assert (done.exit_code, why in done.stderr) == (2, True), done.stderr
    done = report("--night", name)
    (page,) = tmp_path.glob("hand-local-*.html")
    assert (done.exit_code, done.stdout) == (0, f"{page}\n")
    assert "by hand on" in page.read_text()
    assert '<td data-label="a">' in page.read_text()
    assert "| Setting | a | b |" in report("--night", name, "--format", "md").stdout
