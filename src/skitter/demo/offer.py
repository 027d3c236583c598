"""What the shop's smaller spiders take from the page of a book."""

from skitter import Page


def offer(page: Page) -> dict[str, str]:
    return {
        "title": page.css_first("h1").text(strip=True),
        "price": page.css_first(".price").text(strip=True),
    }
