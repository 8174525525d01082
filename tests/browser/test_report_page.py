"""The report's page as a reader has it."""

import re
from datetime import date

import pytest
from browser.simulated import MESSAGE, SYSTEM, Year

from iowatch import history
from iowatch.report.model import report_of
from iowatch.report.pages import html

WIDTHS = (1280, 400)
NO_SCROLL = "document.documentElement.scrollWidth <= window.innerWidth"
LUMINANCE = """color => {
    const linear = color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
        const c = part / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A night with faults, after two months."""
    database = tmp_path_factory.mktemp("history") / "results.db"
    made = Year(60, 19, date(2026, 11, 20))
    made.store(database)
    return report_of(history.read([database]), SYSTEM, made.blessed, [])


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(report))
    return path


def shown(page, column):
    """The texts of a column of the verdicts that are shown."""
    cells = page.locator(f"tbody.case:visible tr:first-child td:nth-child({column})")
    return [text.strip() for text in cells.all_inner_texts()]


def numbers(texts):
    return [float(text.removesuffix(" %")) for text in texts if text != "-"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_and_says_first_what_matters(report, path, open_page, width, scheme):
    with open_page(path, width, color_scheme=scheme) as page:
        assert page.title() == f"{report.brief} · iowatch archer 2026-11-20"
        assert page.locator("h1").inner_text() == report.brief
        assert page.locator("h1").bounding_box()["y"] < 200
        assert page.locator(".why").inner_text() == report.why
        assert page.evaluate(NO_SCROLL)
        for details in page.locator("details.case").all():
            details.evaluate("details => details.open = true")
        assert page.evaluate(NO_SCROLL), "with all details open"


def test_narrow_page_says_of_each_figure_what_it_is(path, open_page):
    with open_page(path, 400) as page:
        said = page.locator("tbody.case td:nth-child(8)").first.evaluate(
            "cell => getComputedStyle(cell, '::before').content"
        )
        assert "MiB/s" in said
        page.set_viewport_size({"width": 1280, "height": 900})
        assert page.get_by_role("columnheader", name="MiB/s").is_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_is_drawn(report, path, open_page, width):
    with open_page(path, width) as page:
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        sizes = page.locator("figure svg").evaluate_all(
            "all => all.map((svg) => [svg.getBBox().width, svg.getBoundingClientRect().width])"
        )
        assert len(sizes) == len(report.rows) + sum(
            bool(row.phases) and not row.is_quiet for row in report.rows
        )
        assert all(drawn > 300 and seen > 300 for drawn, seen in sizes)
        assert page.locator("img").count() == 0


def test_all_but_ok_has_its_sentence(report, path, open_page):
    assert {"ok", "noisy", "regression"} <= {row.verdict for row in report.rows}
    with open_page(path) as page:
        for row, case in zip(report.rows, page.locator("tbody.case").all(), strict=True):
            texts = case.locator(".sentence").all_inner_texts()
            known = f" ({row.known})" if row.known else ""
            assert texts == ([] if row.verdict == "ok" else [f"{row.remark}{known}"])


def test_narrow_page_is_brief_on_what_is_ok_only(report, path, open_page):
    with open_page(path, 400) as page:
        for row, case in zip(report.rows, page.locator("tbody.case").all(), strict=True):
            hidden = case.locator("td:not(:visible)").count()
            if row.verdict == "ok":
                assert hidden == 3
                assert case.bounding_box()["height"] < 70
            else:
                assert hidden == 0
            assert case.inner_text().split()[0] == row.verdict
            assert case.get_by_role("link").is_visible()
            for text in (row.case.partition, row.case.backend, f"{row.case.writers}"):
                assert case.get_by_text(text, exact=True).first.is_visible()


def test_names_stay_text(path, open_page):
    with open_page(path) as page:
        assert "<script>alert('no')</script>" in MESSAGE
        assert page.locator("tr.sentence").get_by_text(MESSAGE).count() == 1
        assert page.locator("script").count() == 1


def test_worst_first_and_sorted_on_demand(report, path, open_page):
    with open_page(path) as page:
        verdicts = [row.verdict for row in report.rows]
        assert [text.split()[0] for text in shown(page, 1)] == verdicts
        heading = page.get_by_role("columnheader", name="MiB/s")
        heading.get_by_role("button").click()
        rates = numbers(shown(page, 8))
        assert rates == sorted(rates)
        assert shown(page, 8)[-1] == "-", "no figure comes last"
        assert heading.get_attribute("aria-sort") == "ascending"
        heading.get_by_role("button").click()
        assert numbers(shown(page, 8)) == rates[::-1]
        assert shown(page, 8)[-1] == "-"
        page.get_by_role("columnheader", name="Change").get_by_role("button").click()
        drops = numbers(shown(page, 10))
        assert drops == sorted(drops)
        assert min(drops) < 0 < max(drops)
        assert page.locator("th[aria-sort]").all_inner_texts() == ["Change"]
        page.get_by_role("columnheader", name="Verdict").get_by_role("button").click()
        assert [text.split()[0] for text in shown(page, 1)] == verdicts


def test_sentence_stays_with_its_case(path, open_page):
    with open_page(path) as page:
        before = page.locator("tbody.case", has_text="in close, usually").inner_text()
        page.get_by_role("columnheader", name="Partition").get_by_role("button").click()
        assert page.locator("tbody.case", has_text="in close, usually").inner_text() == before


@pytest.mark.parametrize("width", WIDTHS)
def test_filters(report, path, open_page, width):
    with open_page(path, width) as page:
        every = len(report.rows)
        assert page.locator("output").inner_text() == f"{every} of {every} cases"
        page.get_by_label("Show").fill("HDF5 fs3")
        wanted = [
            row for row in report.rows if row.case.backend == "hdf5" and row.case.partition == "fs3"
        ]
        assert 0 < len(wanted) < every
        assert set(shown(page, 4)) == {"hdf5"}
        assert set(shown(page, 2)) == {"fs3"}
        assert page.locator("details.case:visible").count() == len(wanted)
        assert page.locator("output").inner_text() == f"{len(wanted)} of {every} cases"
        page.get_by_label("Show").fill("")
        page.get_by_label("Verdict", exact=True).select_option("suspect")
        assert {text.split()[0] for text in shown(page, 1)} == {"suspect"}
        page.get_by_label("Show").fill("no such case")
        assert shown(page, 1) == []


def test_keyboard_is_enough(path, open_page):
    with open_page(path) as page:
        page.get_by_label("Verdict", exact=True).focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Verdict"
        for _ in range(7):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        rates = numbers(shown(page, 8))
        assert rates == sorted(rates)
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid", "one sees where one is"
        details = page.locator("details.case").last
        assert not details.evaluate("details => details.open")
        details.locator("summary").focus()
        page.keyboard.press("Enter")
        assert details.evaluate("details => details.open")


def test_verdict_leads_to_its_case(path, open_page):
    with open_page(path) as page:
        last = page.locator("tbody.case a").last
        target = page.locator(last.get_attribute("href"))
        assert not target.evaluate("details => details.open")
        last.click()
        page.wait_for_function("details => details.open", arg=target.element_handle())
        assert target.locator("svg").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(path, open_page, scheme):
    with open_page(path, color_scheme=scheme) as page:

        def luminance(selector, name):
            color = page.locator(selector).first.evaluate(
                f"element => getComputedStyle(element).{name}"
            )
            return page.evaluate(f"({LUMINANCE})('{color}')")

        def contrast(one, other):
            low, high = sorted((one, other))
            return (high + 0.05) / (low + 0.05)

        background = luminance("body", "backgroundColor")
        assert (background > 0.5) == (scheme == "light")
        assert contrast(background, luminance("body", "color")) > 7
        assert contrast(background, luminance("svg text", "fill")) > 7
        assert contrast(background, luminance(".legend", "color")) > 4.5
        assert contrast(background, luminance("svg .rate path", "stroke")) > 3
        for verdict in ("invalid", "regression", "suspect", "improvement", "ok"):
            word = f"tbody .verdict.{verdict}"
            assert contrast(luminance(word, "backgroundColor"), luminance(word, "color")) > 4.5


def test_print_has_verdicts_and_what_is_open(path, open_page):
    with open_page(path) as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert not page.locator(".filters").is_visible()
        assert page.locator("details.case:not([open])").first.is_hidden()
        assert page.locator("details.case[open] svg").first.is_visible()
        assert page.locator("body").evaluate("b => getComputedStyle(b).color") == "rgb(0, 0, 0)"


def test_without_scripts_all_is_there(report, path, open_page):
    with open_page(path, java_script_enabled=False) as page:
        assert page.locator("tbody.case").count() == len(report.rows)
        assert not page.locator(".filters").is_visible(), "what does nothing is not shown"
        assert page.get_by_text(re.compile("the library's close path")).first.is_visible()


def test_one_night_is_enough(tmp_path, open_page):
    database = tmp_path / "results.db"
    Year(1, 19, date(2026, 11, 20)).store(database)
    page_path = tmp_path / "report.html"
    page_path.write_text(html(report_of(history.read([database]), SYSTEM, {}, [])))
    with open_page(page_path, 400) as page:
        assert page.locator("h1").inner_text().startswith("Red: ")
        assert page.evaluate(NO_SCROLL)
        assert set(shown(page, 9)) == {"-"}, "nothing is expected yet"
        broken = page.locator("details.case").first
        assert broken.get_by_text("nothing measured yet").is_visible()
        assert broken.locator("figure, svg").count() == 0
        assert page.locator("details.case").nth(1).locator("figure").count() == 2
