"""How a worker keeps to the budgets of shapes. What it makes of whole sites: test_zoo.py."""

from __future__ import annotations

import asyncio

import pytest

from conftest import rude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.frontier.control import change_options
from skitter.frontier.jobs import create_job
from skitter.spider import Spider
from skitter.spider.default import default_spider
from web import Answer, serve_web
from zoo import bounded, calendar, html, maze, number_in


@pytest.fixture
async def frontier(server, job):
    """With a budget of fifty pages, so that sites need not be large."""
    return await create_job(server, job, options=rude(shape_budget=50))


async def test_it_costs_no_more_with_three_workers(server, frontier, job):
    """Each has its own memory and its own idea of what is news."""
    async with serve_web(bounded(calendar)) as web:
        spider = default_spider("t", [web.url()])
        await frontier.add([seed async for seed in spider.seeds()])
        jobs = [await create_job(server, job) for _ in range(3)]
        await asyncio.gather(*(web.crawl(one, spider, concurrency=8) for one in jobs))
        fetched = [path for path in web.paths() if path.startswith("/calendar")]

    # A worker may end before it has used the permits that it took ahead.
    assert 400 <= len(fetched) == len(set(fetched)) <= 500
    assert (await frontier.stats()).crawled
    assert (await audit(frontier)).clean


async def test_a_calendar_costs_ten_times_the_budget(frontier):
    async with serve_web(bounded(calendar)) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        fetched = [path for path in web.paths() if path.startswith("/calendar")]
        months = (f"/calendar/{2026 + n // 12}/{n % 12 + 1}/" for n in range(10, 500))
        held = next(path for path in months if path not in fetched)
        said = await why(frontier, web.url(held))

    stats = await frontier.stats()
    assert (len(fetched), stats.crawled, stats.trapped > 0) == (500, True, True)
    assert said.state == "trapped"
    assert "calendar/# are done" in said.because[0]
    assert (await audit(frontier)).clean


async def test_everything_else_is_fetched_before_what_is_beyond_the_budget(server, job):
    """The home page links to numbers first, and then to a chain of other pages."""
    frontier = await create_job(server, job, options=rude(shape_budget=10))

    def site(asked):
        if asked.path == "/":
            return html(*(f"/number/{n}" for n in range(40)), "/other/a")
        letter = asked.path[-1]
        is_last = asked.path.startswith("/number") or letter == "f"
        return html() if is_last else html(f"/{asked.path[1:-1]}{chr(ord(letter) + 1)}")

    async with serve_web(site) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=1)
        order = web.paths()

    numbers = [path for path in order if path.startswith("/number")]
    assert len(numbers) == 40
    assert order.index("/other/f") < order.index(numbers[10])


async def test_lists_that_lead_to_items_are_read_to_their_end(server, job):
    frontier = await create_job(server, job, options=rude(shape_budget=1))
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def listing(page):
        yield from page.follow_all("a.next", listing)
        yield from page.follow_all("a.item", item)

    @spider.page
    def item(page):
        yield {"number": page.url.rpartition("/")[2]}

    def site(asked):
        if asked.path.startswith("/item"):
            return Answer("<p>1</p>")
        number = number_in(asked)
        more = f'<a class=next href="/list/{number + 1}">x</a>' if number < 20 else ""
        return Answer(f'<html>{more}<a class=item href="/item/{number}">x</a></html>')

    async with serve_web(site) as web:
        spider.start = [web.url("/list/0")]
        await web.crawl(frontier, spider)
        assert len(set(web.paths())) == 42
    assert (await frontier.stats()).trapped == 0


async def test_pages_with_items_that_lead_only_to_the_next_one_are_read_to_their_end(server, job):
    frontier = await create_job(server, job, options=rude(shape_budget=1))
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def quotes(page):
        yield {"url": page.url}
        yield from page.follow_all()

    def site(asked):
        number = number_in(asked)
        return html(*([f"/page/{number + 1}"] if number < 20 else []))

    async with serve_web(site) as web:
        spider.start = [web.url("/page/0")]
        await web.crawl(frontier, spider)
        assert len(web.paths()) == 21


async def test_a_higher_budget_frees_what_is_held_and_none_frees_everything(server, job):
    frontier = await create_job(server, job, options=rude(shape_budget=1))
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def follow(page):
        yield from page.follow_all()

    def chain(asked):
        number = int(asked.path.strip("/") or 0)
        return html(*([f"/{number + 1}"] if number < 30 else []))

    async with serve_web(chain) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (11, 1)

        await change_options(frontier, {"shape_budget": 2})
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (21, 1)

        await change_options(frontier, {"shape_budget": None})
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (31, 0)
    assert (await audit(frontier)).clean


async def test_seeds_are_fetched_whatever_their_shape(frontier):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def nothing(page):
        return None

    async with serve_web(lambda asked: html()) as web:
        spider.start = [web.url(f"/{n}") for n in range(60)]
        await web.crawl(frontier, spider)
        assert len(web.paths()) == 60


@pytest.mark.parametrize("site", [calendar, maze])
async def test_without_a_budget_nothing_holds_a_crawl_back(server, job, site):
    frontier = await create_job(server, job, options=rude(shape_budget=None))
    async with serve_web(bounded(site, 100)) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) > 100


async def test_a_page_that_nobody_can_parse_is_done_if_its_handler_did_not_need_to(frontier):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def count_bytes(page):
        if page.url.endswith("/"):
            yield page.follow("/deep/1")
        page.log.debug("%s bytes", len(page.body))

    def site(asked):
        return html("/deep/1") if asked.path == "/" else Answer("<div>" * (2 * 2**20))

    async with serve_web(site) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
    stats = await frontier.stats()
    assert (stats.done, stats.dead) == (2, 0)
