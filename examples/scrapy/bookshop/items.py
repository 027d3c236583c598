"""What is in the shop: one way to read a book's page, for all spiders."""

import re
from dataclasses import dataclass

CURRENCIES = {"€": "EUR", "£": "GBP", "$": "USD"}


@dataclass
class Book:
    title: str
    price: float
    currency: str
    stock: int
    rating: int
    category: str
    upc: str


def read_book(response):
    price = response.css(".price::text").get().strip()
    stock = re.search(r"\d+", response.css(".stock::text").get())
    return Book(
        title=response.css("h1::text").get().strip(),
        price=float(price[1:]),
        currency=CURRENCIES[price[0]],
        stock=int(stock[0]) if stock else 0,
        rating=int(response.css(".product .rating::attr(value)").get() or 0),
        category=response.css(".category::text").get().strip(),
        upc=response.css(".upc::text").get().strip(),
    )
