"""The status page as users have it, on a phone and in the dark."""

from datetime import timedelta

from axe_playwright_python.sync_playwright import Axe
from clock import NOW
from pages.looks import NO_SCROLL, looks

from iowatch.night.public_status import DAYS, DayBar, PublicFilesystem, PublicState, StatusPage
from iowatch.pages.report import write_status_page

COST = "+12 min: a WRF output takes about 32 min instead of 20 min"


def filesystem(name, state, **texts):
    days = [NOW.date() - timedelta(days=ago) for ago in reversed(range(DAYS))]
    bars = [DayBar(day, [*PublicState][number % 3]) for number, day in enumerate(days[:-1])]
    words = {"slower": "", "costs": [], "remarks": []} | texts
    return PublicFilesystem(name=name, state=state, bars=[*bars, DayBar(days[-1], state)], **words)


def test_status_page_fits_every_screen_and_reader(tmp_path, open_page):
    slow, unknown, usual = PublicState
    page = StatusPage(
        measured=NOW,
        filesystems=[
            filesystem("Work", slow, slower="writing with HDF5", costs=[COST], remarks=["<b>x"]),
            filesystem("A name as long as " + "users like " * 9, unknown),
            filesystem("Home", usual),
        ],
        events=["19 Nov: new firmware"],
    )
    path = write_status_page(page, tmp_path / "status.html")
    with open_page(path) as shown:
        assert shown.get_by_role("heading", level=1).inner_text().startswith("Slower than usual: W")
        assert shown.get_by_text(COST).is_visible()
        assert shown.get_by_text("<b>x").is_visible()
        bars = shown.get_by_role("list", name="days of Work").get_by_role("img")
        assert bars.count() == DAYS
        assert bars.last.get_attribute("aria-label") == "20 Nov: slower than usual"
        for look in looks(shown):
            assert shown.evaluate(NO_SCROLL), look
            violations = Axe().run(shown).response["violations"]
            assert [(v["id"], v["nodes"][0]["html"][:200]) for v in violations] == [], look
