"""The pages of all systems as a reader has them."""

import os
import re
from datetime import UTC, datetime, time, timedelta

import pytest
from cases import changed
from clock import NOW, clock  # noqa: F401
from pages.looks import NO_SCROLL, contrast, looks, luminance_of
from reported import HDF5, MPIIO, reported, session, store
from typer.testing import CliRunner

from iowatch.cases.run import night_id
from iowatch.cli import app
from iowatch.night import on_record
from iowatch.night.record import SystemRecord
from iowatch.pages import report
from iowatch.past.words import GateRecord

CIRRUS = changed(HDF5, place="cirrus:lustre/gnu")
LUMI = changed(HDF5, place="lumi:flash/gnu")
KEPT = "reframe was killed by SIGKILL"


def night(ago, *tests, hours=0):
    """A session of a night so many days ago."""
    midnight = datetime.combine(NOW - timedelta(days=ago), time(), UTC)
    began = midnight + timedelta(hours=1 + hours)
    return session(
        *tests,
        uuid=f"{ago} {hours} {tests[0]['case_id']}",
        began=began,
        night=night_id(began),
        num_skipped=sum(t["result"] == "skip" for t in tests),
    )


def low(of):
    return reported(of, result="fail", verdict="regression (own_past)", sentence="<b>slow</b>")


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """Of four systems: `local`, green but for what was wrong with its last night but one as a
    whole, with a day of two nights and one of none; `cirrus`, red since yesterday evening;
    `lumi`, amber since then; and `silent`, of which no night has come since."""
    folder = tmp_path_factory.mktemp("record")
    nights = [night(ago, reported(HDF5), reported(MPIIO)) for ago in (40, 6, 5, 3)]
    nights.append(night(3, reported(HDF5), reported(MPIIO), hours=1))
    spoilt = night(2, reported(HDF5), reported(MPIIO))
    nights.append(spoilt)
    last = night(1, reported(HDF5), reported(MPIIO), hours=21)
    nights.append(last)
    store(folder / "local.db", *nights)
    red = {"colour": "red", "problems": [KEPT]}
    for judged, told in ((spoilt, red), (last, {"colour": "green"})):
        record = SystemRecord.load("local", [folder / "local.db"])
        name = judged["session_info"]["night"]
        told |= {"why": KEPT, "promised": 2, "rows": record.rows(name)}
        record.words.keep(name, GateRecord(time=NOW, **told))
    store(folder / "cirrus.db", night(2, reported(CIRRUS)), night(1, low(CIRRUS), hours=21))
    store(folder / "cirrus.db", night(3, reported(changed(HDF5, place="silent:disk/gnu"))))
    away = reported(LUMI, result="skip", verdict="unjudged (maintenance)", sentence="away")
    store(folder / "cirrus.db", night(2, reported(LUMI)), night(1, away, hours=21))
    return folder / "local.db", folder / "cirrus.db"


def write_site(databases, folder):
    options = [word for database in databases for word in ("--db", str(database))]
    return CliRunner().invoke(app, ["pages", str(folder), *options])


@pytest.fixture(scope="module")
def index(databases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("www") / "iowatch"
    done = write_site(databases, folder)
    assert (done.exit_code, done.output) == (0, f"{folder}/index.html\n")
    return folder / "index.html"


def test_index_fits_and_says_first_what_is_red(index, open_page):
    with open_page(index) as page:
        assert page.title() == "Not green: cirrus, silent, lumi · iowatch"
        assert page.locator("h1").inner_text() == "Not green: cirrus, silent, lumi"
        assert page.locator("h2").all_inner_texts() == ["cirrus", "silent", "lumi", "local"]
        no_night = f"No night since {NOW - timedelta(days=3):%Y-%m-%d}: find out why none"
        assert page.get_by_text(re.compile(f"^{no_night}")).count() == 1
        assert page.get_by_text("<b>slow</b>").is_visible()
        for look in looks(page):
            assert page.evaluate(NO_SCROLL), look
            for sign in "GAR":
                text = luminance_of(page, f".nights .{sign}", "color")
                ground = luminance_of(page, f".nights .{sign}", "backgroundColor")
                assert contrast(text, ground) > 4.5, (look, sign)


def test_each_square_says_its_night_without_its_colour(index, open_page):
    with open_page(index) as page:
        squares = page.get_by_role("list", name="Nights of local").get_by_role("listitem")
        assert "".join(squares.all_inner_texts()).replace("-", "") == "GGGGRG"
        assert squares.count() == 30
        # The last is today, which has no night yet; yesterday's, and that with a problem.
        texts = [square.locator("*").get_attribute("title") for square in squares.all()]
        days = [f"{NOW - timedelta(days=ago):%Y-%m-%d}" for ago in range(7)]
        assert texts[-5:] == [
            f"{days[3]}: Green, as far as it is on record · 2 cases",
            f"{days[3]}: Green, as far as it is on record · 2 cases",
            f"{days[2]}: Red · 1 problem with the night as a whole",
            f"{days[1]}: Green · 2 cases",
            f"{days[0]}: no night is on record",
        ]
        assert squares.nth(-6).inner_text() == "-", "a day without a night"
        for square in squares.all():
            assert square.locator("*").get_attribute("aria-label")
        assert page.get_by_role("link", name=texts[-3]).is_visible()


def test_each_square_leads_to_the_page_of_its_night(index):
    found = re.findall(r'<a [^>]*href="([^"]+)"([^>]*)', index.read_text())
    pages = set(dict(found))
    names = {page.replace(".html", ".json") for page in pages} | pages | {index.name}
    assert {path.name for path in index.parent.iterdir()} == names
    titles = {target: re.findall('title="([^"]+)"', rest) for target, rest in found}
    for target, (title,) in ((target, said) for target, said in titles.items() if said):
        page = (index.parent / target).read_text()
        (heading,) = re.findall("<h1[^>]*>([^<]+)</h1>", page)
        assert heading.partition(" · ")[0] in title
        assert (KEPT in page) == ("problem" in title)


def test_only_the_page_of_a_night_with_further_runs_is_written_anew(databases, index):
    folder = index.parent
    pages = sorted(folder.glob("local-*.html"))
    written = {page: page.stat().st_mtime_ns for page in pages}
    last = pages[-1]
    os.utime(last, (1, 1))  # older than its last run
    assert write_site(databases, folder).exit_code == 0
    again = {page for page in pages if page.stat().st_mtime_ns != written[page]}
    assert again == {last}
    assert last.stat().st_mtime > 1


def test_what_is_somebody_elses_is_not_written_over(databases, tmp_path):
    (tmp_path / "index.html").write_text("<h1>My cat</h1>")
    (tmp_path / "file").write_text("")
    for folder, said in (
        (tmp_path, f"{tmp_path}/index.html: is none of iowatch's: name a folder of its own"),
        (tmp_path / "file", f"{tmp_path}/file: no pages can be written there: File exists"),
    ):
        done = write_site(databases, folder)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"iowatch: error: {said}")
    assert (tmp_path / "index.html").read_text() == "<h1>My cat</h1>"
    assert not list(tmp_path.glob("local*"))


def test_a_page_for_each_square(tmp_path, monkeypatch):
    """Of more nights than the index shows, the last ones."""
    monkeypatch.setattr(report, "SITE_DAYS", 3)
    monkeypatch.setattr(on_record, "SITE_DAYS", 3)
    store(tmp_path / "many.db", *(night(1, reported(HDF5), hours=-n / 2) for n in range(5)))
    nights = on_record.month("local", [tmp_path / "many.db"])
    write = report.write_site([nights], tmp_path / "www")
    pages = set(re.findall(r'<a class="\w" href="([^"]+)"', write.read_text()))
    assert len(pages) == report.SITE_DAYS - 1, "today has none yet"
    assert pages <= {path.name for path in write.parent.iterdir()}
    assert max(path.name for path in write.parent.glob("local-*.html")) in pages
