"""What the shop's smaller spiders scrape from a book's page."""

from skitter import Page


def offer(page: Page) -> dict[str, str]:
    return {
        "title": page.css_first("h1").text(strip=True),
        "price": page.css_first(".price").text(strip=True),
    }
