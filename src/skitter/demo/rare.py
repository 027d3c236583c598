"""The demo's spider for a shop that bans one of our two proxies, and the proxies."""

import os
from collections.abc import Iterator

from skitter import Page, Politeness, Request, Retries, Spider
from skitter.demo.offer import offer
from skitter.settings import Route

GATEWAY = os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/").rstrip("/")

spider = Spider(
    "rare",
    start=["http://rare-books.example/"],
    politeness=Politeness(delay_s=0),
    retries=Retries(max_retries=10, base_s=0.1),
)

#: Yours go into skitter.toml, a [[proxy]] each.
PROXIES = (
    Route(name="cheap", url=GATEWAY, user="cheap", price_per_request=0.001),
    Route(name="dear", url=GATEWAY, user="dear", price_per_request=0.005),
)


@spider.page
def table(page: Page) -> Iterator[Request]:
    yield from page.follow_all("article.book h3 a", book)


@spider.page
def book(page: Page) -> Iterator[dict[str, str]]:
    yield offer(page)
