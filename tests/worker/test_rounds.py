"""A round visits the same pages again: the same rows, updated."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from conftest import rude
from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import open_destination
from skitter.frontier.audit.auditor import audit
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import create_job
from skitter.frontier.records.schedule import new_schedule, set_schedule
from skitter.model import Request
from skitter.observe.report import CrawlResult, Written, report_of
from skitter.settings import Visits
from skitter.sinks import Destination, LoadPace
from skitter.sinks.columns import table_name
from skitter.spider import Spider
from skitter.spider.seeding import begin_due_round
from waiting import until_async
from web import Answer, serve_web

EVERY_S = 600


class News:
    """A front page with headlines, and a page for each, which stays as it is."""

    def __init__(self, *headlines: str) -> None:
        self.headlines = headlines
        self.moved = self.down = False

    def __call__(self, asked):
        if self.down:
            return Answer("down", status=404)
        if asked.path == "/" and self.moved:
            return Answer(status=301, headers=(("Location", "/front"),))
        if asked.path in ("/", "/front"):
            return Answer("".join(f'<a href="/{one}">{one}</a>' for one in self.headlines))
        return Answer(f"<a>about {asked.path}</a>")


def make_spider(url: str) -> Spider:
    spider = Spider("news", [url])

    @spider.page
    def page(page):
        for one in page.css("a"):
            yield {"title": one.text()}
        yield from page.follow_all()

    return spider


async def begin_round(frontier, clock, spider) -> int:
    clock.advance(EVERY_S)
    begun = await begin_due_round(frontier, spider)
    assert begun
    return begun.seeds


async def load_all(frontier, path) -> None:
    loader = Loader(frontier, "loader", lambda *_: None, asyncio.Event())
    loader.pace = LoadPace(linger_s=0, idle_s=0.01)
    out = Destination(str(path), frontier.job, path.parent)
    loading = asyncio.create_task(loader.run(lambda: open_destination(frontier, out)))

    async def is_loaded():
        return not (await frontier.stats()).items

    await until_async(is_loaded)
    loader.stop.set()
    await loading


async def _is_later(frontier, at_s: float) -> bool:
    """By the server's own clock, which stamps items."""
    return int((await frontier.server.command("TIME"))[0]) > at_s


def titles(path, job: str) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(f"SELECT title FROM {table_name(job)} ORDER BY title")
        return [title for (title,) in found]


@pytest.fixture(params=[False, True], ids=["once", "revisits"])
async def frontier(request, server, job, clock):
    options = replace(rude(), visits=Visits(revisit=request.param, revisit_gone=1))
    frontier = await create_job(server, job, options=options, clock=clock)
    await set_schedule(frontier, new_schedule(every_s=EVERY_S, now_ms=clock()))
    return frontier


async def test_rounds_update_the_rows_of_a_start_page_and_add_what_is_new(
    frontier, clock, tmp_path
):
    news, path = News("a", "b"), tmp_path / "news.db"
    before = await frontier.stats()
    async with serve_web(news) as web:
        spider = make_spider(web.url())
        await frontier.add([Request(url=web.url())])
        for _ in range(3):
            await web.crawl(frontier, spider)
            assert await begin_round(frontier, clock, spider) == 1
            assert await begin_round(frontier, clock, spider) == 0  # the one before still runs
        news.headlines = ("c", "d")
        await web.crawl(frontier, spider)
        await load_all(frontier, path)

    assert titles(path, frontier.job) == sorted([*"cd", *(f"about /{one}" for one in "abcd")])
    assert web.paths().count("/") == 4
    assert len(web.paths()) == 8  # pages that were found are not fetched again
    stats = await frontier.stats()
    assert (stats.seen, stats.done) == (5, 5)
    report = report_of(CrawlResult(before, stats, 1.0, over=True), Written("news.db"))
    assert (report.pages, report.pages_now) == (5, 8)
    assert (await audit(frontier)).clean


async def test_a_round_follows_a_redirect_again_and_tries_a_dead_page_again(
    frontier, clock, tmp_path
):
    news, path = News("a"), tmp_path / "news.db"
    news.moved = True
    async with serve_web(news) as web:
        spider = make_spider(web.url())
        for down, headline in [(False, "a"), (True, "a"), (False, "b")]:
            news.down, news.headlines = down, (headline,)
            assert await begin_round(frontier, clock, spider) == 1
            await web.crawl(frontier, spider)
        await load_all(frontier, path)
    assert titles(path, frontier.job) == ["about /a", "about /b", "b"]
    stats = await frontier.stats()
    assert (stats.seen, stats.done, stats.dead) == (4, 4, 0)
    assert (await audit(frontier)).clean


async def test_what_an_earlier_release_added_for_its_rounds_doubles_no_row(
    frontier, clock, tmp_path
):
    """It gave the start page a new fingerprint for each round, and revisited each."""
    news, path = News("a"), tmp_path / "news.db"
    async with serve_web(news) as web:
        spider = make_spider(web.url())
        await frontier.add([Request(url=web.url())])
        await web.crawl(frontier, spider)
        old = [Request(url=web.url(), unique=f"round {n}") for n in (1_700_000_000_000, 5)]
        await frontier.add(old)
        news.headlines = ("b",)
        clock.advance(1)
        await web.crawl(frontier, spider)
        clock.advance(30 * 86_400)
        await web.crawl(frontier, spider)
        await load_all(frontier, path)
    assert titles(path, frontier.job) == ["about /a", "about /b", "b"]
    stats = await frontier.stats()
    assert (stats.seen, stats.done) == (5, 5)
    assert stats.revisits == (3 if frontier.options.visits.revisit else 0)
    assert (await audit(frontier)).clean


async def test_what_a_dead_loader_held_does_not_replace_rows_of_a_later_round(
    frontier, clock, tmp_path
):
    news, path = News("a", "b"), tmp_path / "news.db"
    async with serve_web(news) as web:
        spider = make_spider(web.url())
        await frontier.add([Request(url=web.url())])
        await web.crawl(frontier, spider)
        dead = ItemStream(frontier, "dead")
        held = await dead.read(100, 0)
        assert len(held) == 4
        await until_async(lambda: _is_later(frontier, held[0].fetched_at + 1))
        news.headlines = ("c",)
        await begin_round(frontier, clock, spider)
        await web.crawl(frontier, spider)

        out = Destination(str(path), frontier.job, tmp_path)
        async with open_destination(frontier, out) as sink:
            alive = ItemStream(frontier, "alive")
            for one in (alive, dead):
                rows = held if one is dead else await one.read(100, 0)
                await sink.write(rows)
                await one.acknowledge(rows)
    assert titles(path, frontier.job) == ["about /a", "about /b", "about /c", "c"]
