"""The demo's third spider: signed copies, whose prices only a browser shows."""

import os
from collections.abc import Iterator
from typing import Any

from skitter import Page, Politeness, Render, Request, Spider

URL = os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/")

spider = Spider("signed", start=[f"{URL}signed/"], politeness=Politeness(delay_s=0))


@spider.page
def table(page: Page) -> Iterator[Request]:
    yield from page.follow_all("article.book h3 a", copy)


@spider.page(render=Render(wait_for=".price:not(:empty)"))
def copy(page: Page) -> Iterator[dict[str, Any]]:
    yield {
        "title": page.css_first("h1").text(strip=True),
        "price": page.css_first(".price").text(strip=True),
    }
