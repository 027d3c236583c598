"""A shop with a list of edits: the feed of changes is that list."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from conftest import rude
from sinks.making import FETCHED_AT, result
from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import open_destination
from skitter.frontier.audit.auditor import audit
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import create_job
from skitter.settings import Visits
from skitter.sinks import Destination, LoadPace
from skitter.sinks.export import read_feed, write_feed
from skitter.spider import Spider
from waiting import until_async
from web import Answer, serve_web

DAY_S = 86_400


class Shop:
    """A list of books, each with a page; edited at random."""

    def __init__(self, seed: int, books: int) -> None:
        self.chance = random.Random(seed)
        self.books: dict[int, dict[str, Any]] = {
            n: {"title": f"book {n}", "price": n, "tags": ["a"]} for n in range(books)
        }
        self.next = books
        self.edits: list[tuple[Any, ...]] = []  # as the feed should have them

    def __call__(self, asked):
        if asked.path == "/":
            return Answer("".join(f'<a href="/{n}"></a>' for n in self.books))
        number = int(asked.path[1:])
        if number not in self.books:
            return Answer("gone", status=404)
        return Answer(f"<pre>{json.dumps(self.books[number])}</pre>")

    def edit(self, times: int) -> None:
        """Each page at most once a round: what changes twice between two visits changed once."""
        for number in self.chance.sample(sorted(self.books), times):
            self._edit(number)

    def _edit(self, number: int) -> None:
        what = self.chance.choice(["price", "title", "tags", "new", "gone"])
        book = self.books[number]
        if what == "new":
            self.books[self.next] = {"title": f"book {self.next}", "price": 1, "tags": []}
            self.edits.append(("new", f"/{self.next}", "", None, None))
            self.next += 1
        elif what == "gone":
            del self.books[number]
            self.edits.append(("gone", f"/{number}", "", None, None))
        else:
            old = book[what]
            options: dict[str, list[Any]] = {
                "price": [None, 5.5, 7], "title": ["x", "y"], "tags": [["b"], {"c": 1}],
            }  # fmt: skip
            book[what] = new = self.chance.choice([v for v in options[what] if v != old])
            self.edits.append(("changed", f"/{number}", what, old, new))


@pytest.fixture
def spider():
    spider = Spider("shop", ["https://shop.test/"])

    @spider.page
    def page(page):
        for found in page.css("pre"):
            yield json.loads(found.text())
        yield from page.follow_all()

    return spider


@pytest.fixture
async def make(server, job, clock):
    async def make(**visits):
        options = replace(rude(), visits=Visits(revisit=True, revisit_max_s=DAY_S, **visits))
        return await create_job(server, job, options=options, clock=clock)

    return make


async def load_into(frontier, path, chance=None):
    """Loaders that die before they store, and before they acknowledge; then one that does not."""
    to = Destination(str(path), frontier.job, path.parent)
    for fate in ("reads", "stores") if chance else ():
        async with open_destination(frontier, to) as sink:
            stream = ItemStream(frontier, fate, take_over_s=0)
            batch = await stream.read(chance.randint(1, 20), 0)
            if fate == "stores":
                await sink.write([one for one in batch if not one.is_notice])
                await sink.forget([one for one in batch if one.is_notice])
    stop = asyncio.Event()
    loader = Loader(frontier, "loader", lambda *_: None, stop, pace=LoadPace(batch=7))
    loader.take_over_s = 0.0
    loading = asyncio.create_task(loader.run(lambda: open_destination(frontier, to)))

    async def is_done() -> bool:
        return loading.done() or not (await frontier.stats()).items

    await until_async(is_done)
    stop.set()
    await loading


async def feed(frontier, path):
    found = await read_feed(str(path), job=frontier.job, after=0, since="", limit=100_000)
    return [("/" + one.url.rpartition("/")[2], one) for one in found]


async def entries(frontier, path):
    return sorted(
        ((one.kind, url, one.field, one.old, one.new) for url, one in await feed(frontier, path)),
        key=str,
    )


def text_of(entry):
    """A column with 5.5 in it gives 7 back as 7.0."""
    return str([float(one) if isinstance(one, int) else one for one in entry])


@asynccontextmanager
async def rounds(frontier, clock, spider, shop, path):
    async with serve_web(shop) as web:
        spider.start = [web.url()]

        async def go(chance=None) -> None:
            await web.crawl(frontier, spider)
            await load_into(frontier, path, chance)
            clock.advance(DAY_S)

        yield go


@pytest.mark.parametrize(
    ("books", "times"),
    [(12, 4), pytest.param(120, 50, marks=[pytest.mark.chaos, pytest.mark.timeout(1200)])],
)
async def test_the_feed_is_the_list_of_edits_whatever_loaders_die(
    make, clock, spider, tmp_path, books, times
):
    frontier, shop, path = await make(), Shop(times, books), tmp_path / "rows.db"
    async with rounds(frontier, clock, spider, shop, path) as go:
        await go()
        for _ in range(20 if books > 100 else 4):
            shop.edit(min(times, len(shop.books)))
            await go(shop.chance)
        await go()  # what was gone is gone twice
        found = Counter(map(text_of, await entries(frontier, path)))
        wanted = Counter(map(text_of, shop.edits))
        assert (found - wanted, wanted - found) == (Counter(), Counter())
        before = len(shop.edits)
        await go()
        assert len(await feed(frontier, path)) == before  # nothing was edited
    stats = await frontier.stats()
    assert stats.changes == before > 0
    assert stats.gone == len([one for one in shop.edits if one[0] == "gone"])
    assert (await audit(frontier)).clean


async def test_a_file_of_changes_gets_each_once(make, clock, spider, tmp_path):
    frontier, shop, path = await make(), Shop(1, 6), tmp_path / "rows.db"
    file = tmp_path / "changes.jsonl"
    async with rounds(frontier, clock, spider, shop, path) as go:
        await go()
        assert await write_feed(str(path), file, job=frontier.job) == 0
        for number in range(2):
            shop.books[0]["price"] = 100 + number
            await go()
            assert await write_feed(str(path), file, job=frontier.job) == 1
            assert await write_feed(str(path), file, job=frontier.job) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["old"], one["new"]) for one in lines] == [(0, 100), (100, 101)]


async def test_a_first_crawl_has_no_changes_and_a_page_missing_once_is_not_gone(
    make, clock, spider, tmp_path
):
    frontier, shop, path = await make(), Shop(1, 2), tmp_path / "rows.db"
    async with rounds(frontier, clock, spider, shop, path) as go:
        await go()
        assert await feed(frontier, path) == []
        book = shop.books.pop(0)
        await go()
        shop.books[0] = book
        await go()
        assert await feed(frontier, path) == []
        stats = await frontier.stats()
        assert (stats.missing, stats.gone, stats.dead) == (1, 0, 0)


async def test_noise_is_left_out(make, clock, spider, tmp_path):
    frontier = await make(changes_ignore="title rank", changes_smallest=0.1)
    shop, path = Shop(1, 2), tmp_path / "rows.db"
    shop.books[0] |= {"price": 100, "text": "one two three four five six"}
    async with rounds(frontier, clock, spider, shop, path) as go:
        await go()
        shop.books[0] |= {"price": 105, "title": "other", "text": "one two three four five  six"}
        await go()
        assert await feed(frontier, path) == []
        shop.books[0] |= {"price": 120, "text": "one two three four"}
        await go()
        assert [one[2:] for one in await entries(frontier, path)] == [
            ("price", 105, 120),
            ("text", "one two three four five  six", "one two three four"),
        ]


async def test_what_loaders_tell_of_changes_is_what_there_is_whoever_tells_last(make, tmp_path):
    frontier, path = await make(), tmp_path / "rows.db"
    to = Destination(str(path), frontier.job, path.parent)
    stop, log = asyncio.Event(), lambda *_: None
    first, second = (Loader(frontier, name, log, stop) for name in ("first", "second"))
    async with open_destination(frontier, to) as one, open_destination(frontier, to) as other:
        await one.write([result(n, {"price": 1}) for n in range(3)])
        later = [replace(result(n, {"price": 2}), fetched_at=FETCHED_AT + 60) for n in range(3)]
        await one.write(later[:1])
        await other.write(later[1:])
        await second._tell_changes(other)
        assert (await frontier.stats()).changes == 3
        await first._tell_changes(one)  # it looked before the other one stored
        assert (await frontier.stats()).changes == 3
