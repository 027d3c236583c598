"""catalogue: whole commands on an ordinary shop: typed items of 10,000 products in a CSV file.

Shelves of 20 products, each product a page of about 10 KB with ten fields and few links. The time
is that of the whole command, from the prompt to the prompt, and the rows of all are compared.
"""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Final

from benchmarks.contest import Contender, Figure, Part, Row, take_turns, times
from benchmarks.crawl.shop import run_in
from benchmarks.peers import CONCURRENT, CRAWLEE_CATALOGUE, SCRAPY_CATALOGUE, Peer

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

WHOLE: Final = Figure("s", min, inverse=True)
A_SHELF: Final = 20
WORDS: Final = ("oak", "brass", "linen", "lamp", "kettle", "north", "harbour", "field", "river")
SPIDER: Final = """\
from dataclasses import dataclass

from skitter import Page, Politeness, Spider

polite = Politeness(delay_s=0, max_in_flight={concurrent})
spider = Spider("catalogue", start=[{seed!r}], politeness=polite)


@dataclass
class Product:
    name: str
    sku: str
    price: float
    stock: int
    brand: str
    rating: float
    weight: str
    colour: str
    breadcrumb: str
    description: str


@spider.page
def shelf(page: Page):
    yield from page.follow_all("h3 a", product)
    yield from page.follow_all("a.next", shelf)


@spider.page(item=Product)
def product(page: Page):
    cells = {{row.css_first("th").text(): row.css_first("td").text() for row in page.css("tr")}}
    yield Product(
        name=page.css_first("h1").text(),
        sku=cells["SKU"],
        price=float(page.css_first(".price").text().strip("$")),
        stock=int(cells["Stock"]),
        brand=cells["Brand"],
        rating=float(page.css_first(".rating").attributes["data-stars"]),
        weight=cells["Weight"],
        colour=cells["Colour"],
        breadcrumb=" > ".join(link.text() for link in page.css("nav a")),
        description=page.css_first(".description").text(),
    )
"""


@dataclass(frozen=True, kw_only=True)
class Catalogue(Part):
    """`skitter run` starts its own server, worker and loader; the others are one process."""

    name: ClassVar[str] = "catalogue"
    products: int = 10_000
    rounds: int = 3
    peer_rounds: int = 2
    peers: tuple[Peer, ...] = (SCRAPY_CATALOGUE, CRAWLEE_CATALOGUE)

    async def measure(self, ground: Ground) -> list[Row]:
        seed = publish(ground, self.products)
        ours = Contender("skitter run", partial(crawl_ours, ground, seed, self.products))
        rivals = [
            Contender(
                peer.title,
                partial(crawl_theirs, ground, peer, seed, self.products),
                self.peer_rounds,
                fresh=False,
            )
            for peer in self.peers
        ]
        await take_turns(ground, [ours, *rivals], part=self.name, rounds=self.rounds)
        pages = self.products + -(-self.products // A_SHELF)
        what = f"`skitter run --out products.csv`, {pages:,} pages, from start to end"
        return [
            Row(
                what=what,
                figure=WHOLE,
                ours=ours,
                theirs=theirs,
                beside=peer.title,
                goal=times(peer.least_ratio),
            )
            for peer, theirs in zip(self.peers, rivals, strict=True)
        ] or [Row(what=what, figure=WHOLE, ours=ours)]


def publish(ground: Ground, products: int) -> str:
    """The URL of the first shelf; pages are written once."""
    assert ground.site is not None
    folder = ground.site.www / f"catalogue{products}"
    if not folder.is_dir():
        folder.mkdir()
        shelves = [range(n, min(n + A_SHELF, products)) for n in range(0, products, A_SHELF)]
        for number, on_it in enumerate(shelves):
            links = "".join(f'<h3><a href="p{n}.html">{name_of(n)}</a></h3>\n' for n in on_it)
            last = number + 1 == len(shelves)
            links += "" if last else f'<a class="next" href="s{number + 1}.html">next</a>\n'
            (folder / f"s{number}.html").write_text(write("Shelf", links))
        for n in range(products):
            (folder / f"p{n}.html").write_text(write(name_of(n), product(n, products)))
    return f"{ground.site.origin}/{folder.name}/s0.html"


def name_of(n: int) -> str:
    return f"{' '.join(Random(n).choices(WORDS, k=3))} {n}".title()


def write(title: str, body: str) -> str:
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head><body>\n'
        '<nav><a href="s0.html">Home</a> <a href="s0.html">All</a></nav>\n'
        f"<main>{body}</main><footer>{'<p>Delivery and returns.</p>' * 20}</footer></body></html>\n"
    )


def product(n: int, products: int) -> str:
    chance = Random(-n)
    cells = {
        "SKU": f"SK-{n:06}",
        "Stock": chance.randrange(90),
        "Brand": chance.choice(WORDS).title(),
        "Weight": f"{chance.randrange(1, 900) / 10} kg",
        "Colour": chance.choice(("red", "grün", "bleu")),
    }
    rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in cells.items())
    text = " ".join(chance.choices(WORDS, k=60))
    reviews = "".join(
        f'<div class="review"><b>{name_of(k)}</b><p>{" ".join(chance.choices(WORDS, k=80))}</p>'
        "</div>\n"
        for k in range(14)
    )
    related = "".join(f'<a href="p{chance.randrange(products)}.html">another</a>' for _ in range(6))
    return (
        f'<h1>{name_of(n)}</h1><p class="price">${chance.randrange(100, 90_000) / 100:.2f}</p>'
        f'<p class="rating" data-stars="{chance.randrange(10, 50) / 10}">stars</p>'
        f"<table>{rows}</table><p class=\"description\">{escape(text)}, 'as shown', &amp; more</p>"
        f"{reviews}<div>{related}</div>"
    )


async def crawl_ours(ground: Ground, seed: str, products: int) -> Sample:
    """In an empty folder, like a first crawl."""
    with TemporaryDirectory(dir=ground.directory, prefix="w") as folder:
        home = Path(folder)
        (home / "spider.py").write_text(SPIDER.format(seed=seed, concurrent=CONCURRENT))
        command = [sys.executable, "-m", "skitter", "run", "spider.py", "--out", "products.csv"]
        began = time.perf_counter()
        await run_in(home, command)
        seconds = time.perf_counter() - began
        check(home / "products.csv", products, "skitter run")
    return {WHOLE: [seconds]}


async def crawl_theirs(ground: Ground, peer: Peer, seed: str, products: int) -> Sample:
    with TemporaryDirectory(dir=ground.directory, prefix="w") as folder:
        out = Path(folder) / "products.csv"
        peer = replace(peer, task=(*peer.task, ("out", str(out))))
        began = time.perf_counter()
        await peer.run(seed=seed)
        seconds = time.perf_counter() - began
        check(out, products, peer.title)
    return {WHOLE: [seconds]}


def check(out: Path, products: int, who: str) -> None:
    """Every product once, and the last as it was written."""
    with out.open(newline="", encoding="utf-8") as file:
        rows = {row["sku"]: row for row in csv.DictReader(file)}
    last = rows.get(f"SK-{products - 1:06}", {})
    if len(rows) != products or last["name"] != name_of(products - 1):
        raise AssertionError(f"{who}: {len(rows):,} of {products:,} products")
