"""The demo's second spider: members' editions, behind a login."""

import os
from collections.abc import Iterator

from skitter import Page, Politeness, Request, Spider
from skitter.demo.offer import offer

URL = os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/")

spider = Spider("members", start=[f"{URL}members/"], politeness=Politeness(delay_s=0))


@spider.login(f"{URL}members/login")
def login(page: Page) -> Request:
    """Once for all workers; again if the shop forgets us. Keep your password out of the code."""
    return page.form().fill(user="reader", password="by-candlelight").submit()


@spider.page
def corner(page: Page) -> Iterator[Request]:
    yield from page.follow_all("article.book h3 a", edition)


@spider.page
def edition(page: Page) -> Iterator[dict[str, str]]:
    yield offer(page)
