"""Remakes docs/demo.png from the page that `make demo` names: `picture.py PAGE`."""

import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "demo.png"

with sync_playwright() as playwright:
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.goto(Path(sys.argv[1]).resolve().as_uri())
    first = page.locator("details.case").first
    end = first.locator(".figures").bounding_box()
    assert end, "the page shows no case"
    height = end["y"] + end["height"]
    page.screenshot(
        path=PICTURE, full_page=True, clip={"x": 0, "y": 0, "width": 1200, "height": height}
    )
    browser.close()
with Image.open(PICTURE) as picture:
    picture.quantize(256, Image.Quantize.MAXCOVERAGE).save(
        PICTURE, optimize=True
    )  # a few tens of kB
