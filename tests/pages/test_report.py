"""The report's page as a reader has it."""

import re
from dataclasses import replace
from datetime import date
from functools import partial

import pytest
from axe_playwright_python.sync_playwright import Axe
from nights import BLESSED, HDF5, MPIIO, changed, eventful, over_osts, ran, red, tonight, well
from pages.looks import NO_SCROLL, OPEN_ALL, WIDTHS, contrast, looks, luminance_of
from pages.simulated import CLOSE, MESSAGE, Year
from shown import html

from iowatch.past import history

#: The texts of a drawing that are off the screen or cover others.
COVERED = """svg => {
    const texts = [...svg.querySelectorAll("text, .key rect")];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    const meet = (a, b) =>
        a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
    return texts.map((text) => text.textContent).filter((_, i) =>
        boxes[i].left < 0 || boxes[i].right > window.innerWidth ||
        boxes.some((box, other) => other !== i && meet(box, boxes[i])));
}"""
#: Of each case the drawings: title, width as drawn and as seen, covered texts.
DRAWINGS = f"""cases => cases.map((one) => [...one.querySelectorAll("figure svg")].map((svg) => [
    svg.querySelector("title").textContent,
    Math.min(svg.getBBox().width, svg.getBoundingClientRect().width),
    ({COVERED})(svg)]))"""


#: Of each case: hidden cells, height, whether its link is seen, the text that is seen.
IN_BRIEF = """cases => cases.map((one) => [
    [...one.querySelectorAll("td")].filter((cell) => !cell.checkVisibility()).length,
    one.getBoundingClientRect().height,
    one.querySelector("a").checkVisibility(),
    one.innerText])"""


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A night with faults, after two months."""
    database = tmp_path_factory.mktemp("history") / "results.db"
    made = Year(60, 19, date(2026, 11, 20))
    made.store(database)
    return made.recorded(history.read([database]))


@pytest.fixture(scope="module")
def rows(night):
    return night.worst_first


@pytest.fixture(scope="module")
def path(night, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(night))
    return path


def shown(page, column):
    """The texts of a column of the verdicts that are shown."""
    cells = page.locator(f"tbody.case:visible tr:first-child td:nth-child({column})")
    return [text.strip() for text in cells.all_inner_texts()]


def unfold(page):
    """Open the folded cases of the table, and of those one by one."""
    page.evaluate("document.querySelectorAll('details.fold').forEach((d) => { d.open = true })")


def numbers(texts):
    return [float(text.removesuffix("\xa0%")) for text in texts if text != "-"]


def test_page_fits_and_says_first_what_matters(night, path, open_page):
    with open_page(path) as page:
        top = night.summary.headline
        assert page.title() == f"{top.banner} · iowatch archer 2026-11-20"
        assert page.locator("h1").inner_text() == top.banner
        told = dict(page.locator(".headline div").evaluate_all(
            "parts => parts.map((part) => [...part.children].map((child) => child.innerText))"
        ))  # fmt: skip
        assert [*map(str.lower, told)] == ["what", "since", "likely layer", "next step"]
        assert told.popitem()[1].startswith(top.next_step)
        link = page.locator(".headline a")
        assert page.locator(link.get_attribute("href")).inner_text() == top.reason
        order = ["night", "baselines", "matrix", "since", "verdicts", "cases", "runbook"]
        sections = page.locator("main > section[aria-labelledby]")
        names = sections.evaluate_all(
            "parts => parts.map((part) => part.ariaLabelledByElements[0].id)"
        )
        assert [name for name in names if name in order] == order
        cells = page.locator(".matrix td:has(a)")
        assert cells.count() == len({(row.last.filesystem, row.case.shape, row.case.backend)
                                     for row in night.cases})  # fmt: skip
        worst = cells.locator("a[href='#case-1']")
        assert (worst.inner_text(), worst.locator("svg").count()) == ("failed", 1)
        assert page.locator(".fold > summary").all_inner_texts()[-1].endswith(" ok")
        for look in looks(page):
            assert page.locator("h1").bounding_box()["y"] < 200
            assert page.evaluate(NO_SCROLL), look
        page.evaluate(OPEN_ALL)
        for look in looks(page):
            assert page.evaluate(NO_SCROLL), (look, "with all details open")


def test_no_width_cuts_off_the_longest_verdicts_and_names(tmp_path, open_page):
    path = tmp_path / "report.html"
    path.write_text(html(eventful()))
    with open_page(path) as page:
        for width in range(360, 1400, 20):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(NO_SCROLL), width


def test_nobody_is_kept_from_the_page(tmp_path, open_page):
    """By its colours, on a phone, with a keyboard or a screen reader, as far as axe-core knows."""
    path = tmp_path / "report.html"
    path.write_text(html(eventful()))
    with open_page(path) as page:
        page.evaluate(OPEN_ALL)
        for look in ((1280, "light"), (400, "dark")):
            page.set_viewport_size({"width": look[0], "height": 900})
            page.emulate_media(color_scheme=look[1])
            violations = Axe().run(page).response["violations"]
            told = [(v["id"], v["nodes"][0]["html"][:200], len(v["nodes"])) for v in violations]
            assert told == [], look


def test_environments_side_by_side_lead_to_their_cases_and_fit(tmp_path, open_page):
    versions = ["1.8.16", "1.10.0", "1.10.11", "1.12.3", "1.14.5", "2.1.0"]
    runs = [
        (red if version in versions[:2] else ran)(
            replace(of, environ=f"hdf5-{version.replace('.', '-')}"),
            provenance={"hdf5": version},
        )
        for version in versions
        for of in (HDF5, MPIIO)
    ]
    path = tmp_path / "report.html"
    path.write_text(html(tonight(*runs)))
    with open_page(path) as page:
        table = page.locator(".environs table")
        titles = [text.split()[-1] for text in table.locator("thead th").all_inner_texts()]
        assert titles == ["Setting", *versions]
        assert table.locator("tbody tr").count() == 2
        for cell in table.locator("td").all():
            target = page.locator(cell.get_by_role("link").get_attribute("href"))
            label = cell.get_attribute("data-label")
            assert label.split(",")[0] in target.locator("summary").text_content()
        labels = "cells => cells.map((cell) => getComputedStyle(cell, '::before').content)"
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(NO_SCROLL), width
            before = table.locator("td").evaluate_all(labels)
            assert all((label == "none") == (width == 1280) for label in before), (width, before)


def test_narrow_page_names_its_metrics_and_is_brief_on_what_is_ok_only(rows, path, open_page):
    with open_page(path, 400) as page:
        said = page.locator("tbody.case td:nth-child(8)").first.evaluate(
            "cell => getComputedStyle(cell, '::before').content"
        )
        assert "MiB/s" in said
        unfold(page)
        cases = page.locator("tbody.case").evaluate_all(IN_BRIEF)
        for row, (hidden, height, has_link, text) in zip(rows, cases, strict=True):
            assert hidden == (3 if row.is_ok else 0)
            assert height < 70 or not row.is_ok
            assert has_link
            assert text.startswith(str(row.outcome))
            for word in (row.case.partition, row.case.backend, f"{row.case.ranks}"):
                assert word in text.split()
        page.set_viewport_size({"width": 1280, "height": 900})
        assert page.get_by_role("columnheader", name="MiB/s").first.is_visible()


def test_every_plot_is_drawn_and_can_be_read(rows, path, open_page):
    with open_page(path) as page:
        page.evaluate(OPEN_ALL)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            every = page.locator("details.case").evaluate_all(DRAWINGS)
            for row, drawings in zip(rows, every, strict=True):
                titles = [f"Bandwidth of {row.name}, "]
                if row.phases:
                    titles.append(f"Time of {row.name} in each phase: ")
                if row.case == CLOSE:  # what the white paper found
                    titles.append("Best write bandwidth on Cirrus, 4608 ranks")
                for title, (drawn, seen, covered) in zip(titles, drawings, strict=True):
                    assert drawn.startswith(title)
                    assert seen > 300, (width, title)
                    assert covered == [], (width, title)
        aloud = page.locator("#case-1").get_by_role("img", name=f"Bandwidth of {rows[0].name}, ")
        assert aloud.count() == 1
        assert page.locator("img").count() == 0


def test_case_that_is_slow_to_finish_tells_it_at_one_glance(tmp_path, open_page):
    """Its phases beside those of MPI-IO in the same jobs, and the white paper's own figures."""
    times = red().metrics | {"open_s": 0.01, "write_s": 0.3, "close_s": 3.2, "sync_s": 0.1}
    control = {"open": 0.01, "write": 0.3, "close": 0.01, "sync": 0.1}
    slow = red(metrics=times | {"overhead_fraction": 0.9, "ratio": 0.1})
    runs = [replace(run, control=control) for run in (*well(), slow)]
    path = tmp_path / "report.html"
    path.write_text(html(tonight(*runs, blessed={HDF5: BLESSED})))
    with open_page(path, java_script_enabled=False) as page:
        figures = page.locator("#case-1 figure")
        names = figures.nth(1).locator(".nights text").all_text_contents()
        assert names == ["hdf5 tonight", "hdf5 usual", "mpiio tonight", "mpiio usual"]
        said = figures.nth(2).locator("figcaption").first.inner_text()
        assert "HDF5 came to 36\xa0% of MPI-IO's bandwidth and NetCDF to 86\xa0%" in said
        totals = figures.nth(2).locator(".totals text").all_text_contents()
        assert totals == ["7617 MiB/s", "2773 MiB/s", "6588 MiB/s"]
        for width, scheme in looks(page):
            trend, phases, paper = (figure.bounding_box() for figure in figures.all())
            assert (trend["y"] == phases["y"] == paper["y"]) == (width == 1280)
            background = luminance_of(page, "body", "backgroundColor")
            assert contrast(background, luminance_of(page, ".published", "fill")) > 3, scheme
            for svg in figures.locator("svg").all():
                assert svg.evaluate(COVERED) == [], width
            assert page.evaluate(NO_SCROLL)


def test_osts_are_told_apart_by_shade_and_by_number(tmp_path, open_page):
    parts = {0: 1.2, 1: 1.0, 2: 0.92, 3: 0.78, 4: 0.6}

    def part(ost, operation, ago):
        return parts.get(ost, 0.2 if ago else 0.0)

    path = tmp_path / "report.html"
    path.write_text(html(over_osts(1, part)))
    style = "element => ['fill', 'fillOpacity'].map((name) => getComputedStyle(element)[name])"
    shades = ("even", "near", "low", "lower", "half", "missing")
    with open_page(path) as page:
        assert page.locator(".osts svg").count() == 2
        assert page.get_by_role("img", name="Read rate of 6 OSTs beside").count() == 1
        svg = page.locator(".osts svg").first
        assert "OST 4, 0." in svg.locator(".slowest").text_content()
        for look in looks(page):
            assert svg.bounding_box()["width"] > 300
            assert svg.evaluate(COVERED) == [], look
            assert page.evaluate(NO_SCROLL)
            cells = [svg.locator(f".cells .{shade}").first.evaluate(style) for shade in shades]
            assert cells == [svg.locator(f".key .{shade}").evaluate(style) for shade in shades]
            even, *slow, _ = cells
            assert len({fill for fill, _ in (even, *slow)}) == 2
            opacity = [float(value) for _, value in slow]
            assert opacity == sorted({*opacity}), "the slower, the stronger"
            behind = luminance_of(page, "body", "backgroundColor")
            assert contrast(behind, luminance_of(page, ".osts .cells .half", "fill")) > 3
        page.locator(".osts a").click()
        assert page.locator("#case-1").evaluate("row => row.open")


def test_phases_differ_by_colour_and_lines_are_no_areas(tmp_path, open_page):
    names = ("open", "define", "write", "read", "flush", "close", "sync")
    metrics = red().metrics | {f"{name}_s": 0.1 for name in names}
    path = tmp_path / "report.html"
    path.write_text(html(tonight(*well(nights=40), red(metrics=metrics))))
    styles = (
        "elements => elements.map((element) => "
        "['fill', 'stroke'].map((name) => getComputedStyle(element)[name]))"
    )
    with open_page(path) as page:
        for look in looks(page):
            bars = page.locator(".bars rect").evaluate_all(styles)
            colours = [fill for fill, _ in bars[: len(names)]]
            assert len({"rgb(0, 0, 0)", *colours}) == 1 + len(names), look
            assert [fill for fill, _ in page.locator(".key rect").evaluate_all(styles)] == colours
            for fill, stroke in page.locator("svg path").evaluate_all(styles):
                assert (fill, stroke == "none") == ("none", False)
            assert page.locator("svg").last.evaluate(COVERED) == []


def test_verdicts_have_their_sentences_as_text_and_lead_to_their_cases(rows, path, open_page):
    assert {"ok", "ok (low_sensitivity)", "regression (own_past)"} <= {
        str(row.outcome) for row in rows
    }
    assert "<script>alert('no')</script>" in MESSAGE
    with open_page(path) as page:
        page.locator("#verdicts ~ .fold > summary").first.click()
        for row, case in zip(rows, page.locator("tbody.case").all(), strict=True):
            texts = [t.replace("\xa0", " ") for t in case.locator(".sentence").all_inner_texts()]
            known = f" ({row.known})" if row.known else ""
            assert texts == ([] if str(row.outcome) == "ok" else [f"{row.remark}{known}"])
        assert page.locator("tr.sentence").get_by_text(MESSAGE).count() == 1
        assert page.locator("script").count() == 1

        last = page.locator("tbody.case a").last
        target = page.locator(last.get_attribute("href"))
        assert not target.evaluate("details => details.open")
        last.click()
        page.wait_for_function("details => details.open", arg=target.element_handle())
        assert target.locator("svg").first.is_visible()


def test_worst_first_and_sorted_on_demand(rows, path, open_page):
    with open_page(path) as page:
        outcomes = [str(row.outcome) for row in rows if not row.is_quiet]
        assert shown(page, 1) == outcomes
        heading = page.get_by_role("columnheader", name="MiB/s")
        heading.get_by_role("button").click()
        rates = numbers(shown(page, 8))
        assert rates == sorted(rates)
        assert shown(page, 8)[-1] == "-", "what was not measured comes last"
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
        assert shown(page, 1) == outcomes
        slow = page.locator("tbody.case", has_text="most of the extra time is in close")
        before = slow.inner_text()
        page.get_by_role("columnheader", name="Partition").get_by_role("button").click()
        places = shown(page, 2)
        assert places == sorted(places)
        assert len(set(places)) > 1
        assert slow.inner_text() == before, "its sentence stays with a case"


def test_filters(rows, path, open_page):
    with open_page(path) as page:
        every = len(rows)
        assert page.locator("output").inner_text() == f"{every} of {every} cases"
        page.get_by_label("Show").fill("HDF5 fs3")
        wanted = [row for row in rows if (row.case.backend, row.case.partition) == ("hdf5", "fs3")]
        assert 0 < len(wanted) < every
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert set(shown(page, 4)) == {"hdf5"}
            assert set(shown(page, 2)) == {"fs3"}
            assert page.locator("details.case:visible").count() == len(wanted)
        assert page.locator("output").inner_text() == f"{len(wanted)} of {every} cases"
        page.get_by_label("Show").fill("")
        page.get_by_label("Verdict", exact=True).select_option("suspect (own_past)")
        assert {*shown(page, 1)} == {"suspect (own_past)"}
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
        page.locator(".fold > summary").last.focus()
        page.keyboard.press("Enter")
        details = page.locator("details.case").last
        assert not details.evaluate("details => details.open")
        details.locator("summary").focus()
        page.keyboard.press("Enter")
        assert details.evaluate("details => details.open")


def test_text_and_lines_stand_out(path, open_page):
    with open_page(path) as page:
        luminance = partial(luminance_of, page)
        for _, scheme in looks(page):
            background = luminance("body", "backgroundColor")
            assert (background > 0.5) == (scheme == "light")
            least = {
                ("body", "color"): 7,
                ("svg text", "fill"): 7,
                (".legend", "color"): 4.5,
                ("svg .rate", "stroke"): 3,
                ("svg .red", "stroke"): 3,
            }
            contrasts = {of: contrast(background, luminance(*of)) for of in least}
            for state in ("failed", "regression", "suspect", "improvement", "ok"):
                word = f"tbody .verdict.{state}"
                behind, text = luminance(word, "backgroundColor"), luminance(word, "color")
                least[word], contrasts[word] = 4.5, contrast(behind, text)
            assert {of: found for of, found in contrasts.items() if found <= least[of]} == {}


def test_on_paper_and_without_scripts_all_that_matters_is_there(rows, path, open_page):
    with open_page(path) as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert not page.locator(".filters").is_visible()
        assert page.locator("details.case:not([open])").first.is_hidden()
        assert page.locator("details.case[open] svg").first.is_visible()
        assert page.locator("body").evaluate("b => getComputedStyle(b).color") == "rgb(0, 0, 0)"
    with open_page(path, java_script_enabled=False) as page:
        assert page.locator("tbody.case").count() == len(rows)
        assert not page.locator(".filters").is_visible(), "what does nothing is not shown"
        assert page.get_by_text(re.compile("most of the extra time is in close")).first.is_visible()


def test_one_night_is_enough(tmp_path, open_page):
    database = tmp_path / "results.db"
    made = Year(1, 19, date(2026, 11, 20))
    made.store(database)
    made.blessed.clear()
    page_path = tmp_path / "report.html"
    page_path.write_text(html(made.recorded(history.read([database]))))
    with open_page(page_path, 400) as page:
        assert page.locator("h1").inner_text().startswith("Red · ")
        assert page.evaluate(NO_SCROLL)
        assert set(shown(page, 9)) == {"-"}, "nothing is expected yet"
        broken = page.locator("details.case").first
        assert broken.get_by_text("nothing measured yet").is_visible()
        assert broken.locator("figure, svg").count() == 0
        assert page.locator("details.case").nth(1).locator("figure").count() == 3


# What stands in the cells of its tables, texts known beforehand

RATES = ("stable_max", "stable_median", "total_max", "total_median", "total_mean", "total_min")
PHASES = ("open_s", "write_s", "close_s")
SLOWEST = {"write": "rank 7 on n1, 9 of 10 times, 1.2 times the mean"}


def of(rates, seconds):
    metrics = dict(zip(RATES, rates, strict=True)) | dict(zip(PHASES, seconds, strict=True))
    close = seconds[-1] / sum(seconds)
    return metrics | {"overhead_fraction": close, "ratio": rates[0] / 7700}


def cells(rows):
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def test_cells(tmp_path, open_page):
    each_ost = changed(MPIIO, check="SlowOst")
    usual = of((7700, 7600, 8000, 7900, 7850, 7800), (0.01, 1, 0.02))
    slow = of((2100, 2000, 2200, 2150, 1900, 1800), (0.02, 0.3, 3.2))
    osts = dict(zip(RATES, (700, 690, 750, 650, 640, 600), strict=True)) | {"ost_ratio": 0.5}
    osts |= {f"ost_{ost}": 600.0 + ost for ost in range(11)} | {"ost_3": 302.5, "ost_8": 550.0}
    met = {"hdf5": "1.8.14", "hosts": "n1 n2"}
    runs = [ran(ago=ago, metrics=usual) for ago in range(1, 6)]
    runs += [red(metrics=slow, slowest=SLOWEST, provenance=met, folder="/kept/here")]
    path = tmp_path / "report.html"
    path.write_text(html(tonight(*runs, ran(each_ost, metrics=osts), blessed={HDF5: BLESSED})))
    with open_page(path) as page:
        page.evaluate(OPEN_ALL)

        def table(place, caption):
            found = page.locator(f"#case-{place}").get_by_role("table", name=caption)
            return cells(found.locator("tbody tr"))

        assert cells(page.locator("tbody.case tr:not(.sentence)")) == [
            ["regression (own_past)", "fs3", "write shared", "hdf5", "all x 1 MiB", "128x128x128",
             "96", "2100", "7700", "-73\xa0%", "0.27", "91\xa0%"],
            ["ok", "fs3", "each OST", "mpiio", "1 x 1 MiB", "128x128x128", "96",
             "700", "-", "-", "-", "-"],
        ]  # fmt: skip
        assert "Stripes -1, in the table all: over all OSTs." in page.inner_text("main")
        assert table(1, "Phases, median") == [
            ["open", "20 ms", "10 ms", "-"],
            ["write", "300 ms", "1 s", SLOWEST["write"]],
            ["close", "3.2 s", "20 ms", "-"],
        ]
        assert table(1, "Repetitions, MiB/s") == [
            ["total, best", "2200", "8000"],
            ["total, median", "2150", "7900"],
            ["total, mean", "1900", "7850"],
            ["total, slowest", "1800", "7800"],
            ["stable, best", "2100", "7700"],
            ["stable, median", "2000", "7600"],
        ]
        assert table(1, "Changed since the last good night, 2026-11-19") == [
            ["hdf5", "1.10.8", "1.8.14"]
        ]
        assert page.locator("#case-1").get_by_text("/kept/here").is_visible()
        slowest = table(2, "Slowest OSTs")
        worst = [["3", "302", "50\xa0%"], ["8", "550", "91\xa0%"], ["0", "600", "99\xa0%"]]
        assert slowest[:3] == worst
        assert [ost for ost, *_ in slowest[3:]] == ["1", "2", "4", "5", "6", "7", "9"], "only ten"
