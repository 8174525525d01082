"""The pages of all systems as a reader has them."""

import json
import os
import re
from datetime import UTC, datetime, time, timedelta

import pytest
from cases import changed
from pages.colours import contrast, luminance_of
from reported import HDF5, MPIIO, reported, session, store
from typer.testing import CliRunner

from iowatch import report
from iowatch.cli import app
from iowatch.raw_results import PROBLEMS
from iowatch.run import night_id

NO_SCROLL = "document.documentElement.scrollWidth <= window.innerWidth"
CIRRUS = changed(HDF5, place="cirrus:lustre/gnu")
LUMI = changed(HDF5, place="lumi:flash/gnu")
KEPT = "reframe was killed by SIGKILL"
NOW = datetime.now(UTC)


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
    return reported(of, result="fail", verdict="regression", sentence=f"{of}: <b>slow</b>")


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """Of four systems: `local`, green but for what was wrong with its last night but one as a
    whole, with a day of two nights and one of none; `cirrus`, red since yesterday evening;
    `lumi`, amber since then; and `silent`, of which no night has come since."""
    folder = tmp_path_factory.mktemp("record")
    kept = folder / "runs" / "night" / "case"
    kept.mkdir(parents=True)
    (kept.parent / PROBLEMS).write_text(json.dumps([KEPT]))
    nights = [night(ago, reported(HDF5), reported(MPIIO)) for ago in (40, 6, 5, 3)]
    nights.append(night(3, reported(HDF5), reported(MPIIO), hours=1))
    nights.append(night(2, reported(HDF5, kept=str(kept)), reported(MPIIO)))
    nights.append(night(1, reported(HDF5), reported(MPIIO), hours=21))
    store(folder / "local.db", *nights)
    store(folder / "cirrus.db", night(2, reported(CIRRUS)), night(1, low(CIRRUS), hours=21))
    store(folder / "cirrus.db", night(3, reported(changed(HDF5, place="silent:disk/gnu"))))
    away = reported(LUMI, result="skip", verdict="not_measured", sentence=f"{LUMI}: away")
    store(folder / "cirrus.db", night(2, reported(LUMI)), night(1, away, hours=21))
    return folder / "local.db", folder / "cirrus.db"


def write_site(databases, folder):
    options = [word for database in databases for word in ("--db", str(database))]
    return CliRunner().invoke(app, ["report", "--site", str(folder), *options])


@pytest.fixture(scope="module")
def index(databases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("www") / "iowatch"
    done = write_site(databases, folder)
    assert (done.exit_code, done.output) == (0, f"{folder}/index.html\n")
    return folder / "index.html"


def test_index_fits_and_says_first_what_is_red(index, open_page):
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            with open_page(index, width, color_scheme=scheme) as page:
                assert page.title() == "Not green: cirrus, silent, lumi · iowatch"
                assert page.locator("h1").inner_text() == "Not green: cirrus, silent, lumi"
                assert page.locator("h2").all_inner_texts() == ["cirrus", "silent", "lumi", "local"]
                no_night = f"No night since {NOW - timedelta(days=3):%Y-%m-%d}: find out why none"
                assert page.get_by_text(re.compile(f"^{no_night}")).count() == 1
                assert page.evaluate(NO_SCROLL), (width, scheme)
                assert page.get_by_text("<b>slow</b>").is_visible()
                for sign in "GAR":
                    square = f".nights .{sign}"
                    text = luminance_of(page, square, "color")
                    ground = luminance_of(page, square, "backgroundColor")
                    assert contrast(text, ground) > 4.5, (scheme, sign)


def test_each_square_says_its_night_without_its_colour(index, open_page):
    with open_page(index) as page:
        squares = page.get_by_role("list", name="Nights of local").get_by_role("listitem")
        assert "".join(squares.all_inner_texts()).replace("-", "") == "GGGGRG"
        assert squares.count() == 30
        # The last is today, which has no night yet; yesterday's, and that with a problem.
        texts = [square.locator("*").get_attribute("title") for square in squares.all()]
        days = [f"{NOW - timedelta(days=ago):%Y-%m-%d}" for ago in range(7)]
        assert texts[-5:] == [
            f"{days[3]}: Green, as far as it is on record: 2 cases",
            f"{days[3]}: Green, as far as it is on record: 2 cases",
            f"{days[2]}: Red: 2 cases, 1 problem with the night",
            f"{days[1]}: Green, as far as it is on record: 2 cases",
            f"{days[0]}: no night is on record",
        ]
        assert squares.nth(-6).inner_text() == "-", "a day without a night"
        for square in squares.all():
            assert square.locator("*").get_attribute("aria-label")
        assert page.get_by_role("link", name=texts[-3]).is_visible()


def test_each_square_leads_to_the_page_of_its_night(index, open_page):
    with open_page(index) as page:
        links = page.get_by_role("link").all()
        targets = {link.get_attribute("href"): link.get_attribute("title") for link in links}
    assert {path.name for path in index.parent.iterdir()} == {*targets, index.name}
    for target, title in targets.items():
        if title:
            with open_page(index.parent / target) as page:
                assert page.locator("h1").inner_text() in title
    problem = next(target for target, title in targets.items() if title and "problem" in title)
    with open_page(index.parent / problem) as page:
        assert page.get_by_text(f"Problem: {KEPT}").is_visible()


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
        (tmp_path, f"{tmp_path}/index.html: is none of iowatch's: name a folder of its own with"),
        (tmp_path / "file", f"{tmp_path}/file: no pages can be written there: File exists"),
    ):
        done = write_site(databases, folder)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"iowatch: error: {said}")
    assert (tmp_path / "index.html").read_text() == "<h1>My cat</h1>"
    assert not list(tmp_path.glob("local*"))
    for options, said in (
        ([], "name a --system, or a folder for the pages of all of them as --site"),
        (["--site", "x", "--system", "local"], "--site is of all systems: only --db goes with it"),
    ):
        done = CliRunner().invoke(app, ["report", *options])
        assert (done.exit_code, done.stderr) == (2, f"iowatch: error: {said}\n")


def test_a_page_for_each_square_of_a_month(tmp_path):
    """Of more nights than the index shows, the last ones."""
    store(tmp_path / "many.db", *(night(1, reported(HDF5), hours=-n / 2) for n in range(40)))
    write = report.write_site([tmp_path / "many.db"], tmp_path / "www")
    text = write.read_text()
    pages = set(re.findall(r'<a class="\w" href="([^"]+)"', text))
    assert len(pages) == report.SITE_DAYS - 1, "today has none yet"
    assert pages <= {path.name for path in write.parent.iterdir()}
    assert max(path.name for path in write.parent.glob("local-*")) in pages
