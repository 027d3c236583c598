"""The demo's spider: every book of the bundled bookshop.

Written like your own would be: `skitter run` takes the path of a file like this one.
"""

import os
import re
from collections.abc import AsyncIterator
from typing import Any

from skitter import Page, Politeness, Request, Retries, Spider

CURRENCIES = {"€": "EUR", "£": "GBP", "$": "USD"}

spider = Spider(
    "books",
    start=[os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/")],
    # The shop is ours. Other people's sites deserve the defaults: one request a second.
    politeness=Politeness(delay_s=0, max_in_flight=32),
    retries=Retries(base_s=0.25),
)


@spider.page
async def listing(page: Page) -> AsyncIterator[Request]:
    """The home page, categories and their next pages, authors: every page that lists books."""
    for link in page.css("article.book h3 a"):
        yield page.follow(link, book)
    for link in page.css("nav a, a.author"):
        yield page.follow(link, listing)


@spider.page
async def book(page: Page) -> AsyncIterator[dict[str, Any] | Request]:
    price = page.css_first(".price").text(strip=True)
    stock = re.search(r"\d+", page.css_first(".stock").text())
    yield {
        "title": page.css_first("h1").text(strip=True),
        "price": float(price[1:]),
        "currency": CURRENCIES[price[0]],
        "stock": int(stock[0]) if stock else 0,
        "rating": int(page.css_first(".product .rating").attributes["value"] or 0),
        "category": page.css_first(".category").text(strip=True),
        "upc": page.css_first(".upc").text(strip=True),
    }
    for link in page.css(".related h3 a"):
        yield page.follow(link, book)
    yield page.follow(page.css_first("a.author"), listing)
