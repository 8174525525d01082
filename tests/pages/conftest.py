"""Pages in Debian's own Chromium, through Playwright, with the network off."""

import os
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium on PATH: `make cluster` installs it on Debian")
    from playwright.sync_api import sync_playwright

    # Chromium refuses its sandbox to root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """A function that opens a file at a width; the page must leave nothing to complain of."""

    @contextmanager
    def opened(path, width=1280, **options):
        complaints = []
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, **options
        )
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message) or dialog.dismiss())
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(path.as_uri())
        yield page
        context.close()
        assert complaints == [path.as_uri()], "nothing but the page itself is asked for"

    return opened
