"""What stands in the cells of a report's tables: texts known beforehand."""

from dataclasses import replace

import pytest
from unit.reported_nights import BLESSED, HDF5, MPIIO, record, red, report

from iowatch.report.pages import html

OSTS = replace(MPIIO, each_ost=True)
RATES = ("total_max", "total_median", "total_mean", "total_min")
PHASES = ("open_s", "write_s", "close_s")
SLOWEST = {"write": "rank 7 on n1, 9 of 10 times, 1.2 times the mean"}


def run(rates, seconds):
    figures = dict(zip(RATES, rates, strict=True)) | dict(zip(PHASES, seconds, strict=True))
    close = seconds[-1] / sum(seconds)
    return figures | {"close_fraction": close, "finish_fraction": close, "ratio": rates[0] / 7700}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    well = run((7700, 7600, 7500, 7400), (0.01, 1, 0.02))
    slow = run((2100, 2000, 1900, 1800), (0.02, 0.3, 3.2))
    osts = run((700, 650, 640, 600), (0.01, 1, 0.02)) | {"ost_ratio": 0.5}
    osts |= {f"ost_{ost}": 600.0 + ost for ost in range(11)} | {"ost_3": 302.5, "ost_8": 550.0}
    nights = [record(ago=ago, figures=well) for ago in range(1, 6)]
    changed = {"hdf5": "1.8.14", "hosts": "n1 n2"}
    nights += [red(figures=slow, slowest=SLOWEST, conditions=changed)]
    path = tmp_path_factory.mktemp("page") / "report.html"
    page = html(report(*nights, record(OSTS, figures=osts), blessed={HDF5: BLESSED}))
    path.write_text(page)
    return path


@pytest.fixture
def page(path, open_page):
    with open_page(path) as page:
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        yield page


def cells(rows):
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def table(page, place, caption):
    found = page.locator(f"#case-{place}").get_by_role("table", name=caption)
    return cells(found.locator("tbody tr"))


def test_verdicts(page):
    assert cells(page.locator("tbody.case tr:not(.sentence)")) == [
        ["regression", "fs3", "write shared", "hdf5", "all x 1 MiB", "128x128x128", "96",
         "2100", "7700", "-73 %", "0.27", "91 %"],
        ["ok", "fs3", "write each OST", "mpiio", "all x 1 MiB", "128x128x128", "96",
         "700", "-", "-", "0.09", "2 %"],
    ]  # fmt: skip
    assert "Stripes -1, in the table all: over all OSTs." in page.inner_text("main")


def test_phases_and_their_slowest_ranks(page):
    assert table(page, 1, "Phases, median s") == [
        ["open", "0.0200", "0.0100", "-"],
        ["write", "0.3000", "1.0000", SLOWEST["write"]],
        ["close", "3.2000", "0.0200", "-"],
    ]


def test_repetitions(page):
    assert table(page, 1, "Repetitions, MiB/s") == [
        ["best", "2100", "7700"],
        ["median", "2000", "7600"],
        ["mean", "1900", "7500"],
        ["slowest", "1800", "7400"],
    ]


def test_slowest_osts_come_first_and_no_more_than_ten(page):
    osts = table(page, 2, "Slowest OSTs")
    assert osts[:3] == [["3", "302", "50 %"], ["8", "550", "91 %"], ["0", "600", "99 %"]]
    assert [ost for ost, *_ in osts[3:]] == ["1", "2", "4", "5", "6", "7", "9"]


def test_changes(page):
    assert table(page, 1, "Changed since the last good night, 2026-11-19") == [
        ["hdf5", "1.10.8", "1.8.14"]
    ]
