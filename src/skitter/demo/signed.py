"""The demo's third spider: signed copies, whose prices only a browser shows."""

import os
from collections.abc import Iterator

from skitter import Page, Politeness, Render, Request, Spider
from skitter.demo.offer import offer

URL = os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/")

spider = Spider("signed", start=[f"{URL}signed/"], politeness=Politeness(delay_s=0))


@spider.page
def table(page: Page) -> Iterator[Request]:
    yield from page.follow_all("article.book h3 a", copy)


@spider.page(render=Render(wait_for=".price:not(:empty)"))
def copy(page: Page) -> Iterator[dict[str, str]]:
    yield offer(page)
