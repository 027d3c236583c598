"""Take the screenshots of the dashboard for the docs, during a crawl of the demo's bookshop.

It takes a few minutes. Look at each picture before you commit it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from skitter.demo import SPIDER
from skitter.fetch.browser.chromium import find_browser

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BOOKS, DELAY_S, WORKERS = 4000, 0.05, 3
#: By then the chart covers some minutes, and the queue is not empty yet.
LATE = re.compile("3,...")
PATIENCE_MS = 10 * 60_000
WIDE, NARROW = (1280, 860), (390, 780)


@dataclass(frozen=True)
class Picture:
    name: str
    page: str
    theme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = WIDE


PICTURES = (
    Picture("pipeline", "pipeline"),
    Picture("overview-dark", "overview", theme="dark"),
    Picture("overview-narrow", "overview", size=NARROW),
)


@contextmanager
def shop(home: Path) -> Iterator[str]:
    """The bookshop's URL."""
    ready = home / "ready"
    words = ["skitter.demo.site", "--port", "0", "--books", str(BOOKS), "--ready-file", str(ready)]
    with subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL) as process:
        try:
            while not ready.exists():
                time.sleep(0.05)
            yield ready.read_text().strip()
        finally:
            process.terminate()


@contextmanager
def crawl(home: Path, url: str) -> Iterator[str]:
    """The link that logs a browser in to the dashboard of a crawl."""
    words = ["run", str(SPIDER), "--dashboard", "--delay", str(DELAY_S), "--workers", str(WORKERS)]
    environment = {**os.environ, "SKITTER_DIR": str(home / "v"), "SKITTER_DEMO_URL": url}
    command = [sys.executable, "-m", "skitter", *words]
    with (
        (home / "said").open("w+") as said,
        subprocess.Popen(command, cwd=home, env=environment, stdout=said, stderr=said) as process,
    ):
        try:
            while not (found := [one for one in read(said.name) if one.startswith("Dashboard: ")]):
                time.sleep(0.05)
            yield found[0].removeprefix("Dashboard: ")
        finally:
            process.terminate()


def read(file: str) -> list[str]:
    return Path(file).read_text().splitlines()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()


def open_dashboard(browser: Browser, link: str) -> Page:
    page = browser.new_page()
    page.goto(link)
    expect(page.locator("main h1")).to_be_visible(timeout=30_000)
    return page


def wait(page: Page) -> None:
    show(page, PICTURES[0])
    expect(page.locator("[data-field=done]").first).to_have_text(LATE, timeout=PATIENCE_MS)


def show(page: Page, picture: Picture) -> None:
    width, height = picture.size
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=picture.theme, reduced_motion="reduce")
    page.evaluate("place => { location.hash = place }", f"/jobs/books/{picture.page}")
    expect(page.locator(f"main {picture.page}-page line-chart path").first).to_be_attached()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="skitter-", dir="/tmp") as folder:
        home = Path(folder)
        with shop(home) as url, crawl(home, url) as link, chromium() as browser:
            page = open_dashboard(browser, link)
            wait(page)
            for picture in PICTURES:
                show(page, picture)
                page.screenshot(path=IMAGES / f"{picture.name}.png")


if __name__ == "__main__":
    main()
