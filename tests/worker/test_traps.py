"""Sites without end are left after some pages; sites with an end are crawled to it."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from zlib import crc32

import pytest

from conftest import rude
from skitter.demo.site.pages import _calendar, _private
from skitter.frontier.admin.control import change_options
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.why import why
from skitter.model import Request
from skitter.shapes import shape_of
from skitter.spider import Spider
from skitter.spider.default import default_spider
from skitter.spider.run import HandlerOutput
from skitter.worker.traps import News, leads_nowhere
from web import Answer, serve_web

#: Enough to tell one page from another, as in a real language.
WORDS = ["".join(random.Random(n).choices("abcdefghijklmnop", k=7)) for n in range(5000)]


def prose(seed: object, words: int = 80) -> str:
    return " ".join(random.Random(str(seed)).choices(WORDS, k=words))


def html(*links: str, text: str = "") -> Answer:
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return Answer(f"<html><body>{anchors}<p>{text}</p></body></html>")


def bounded(site, most=500):
    """A trap that ends: who gets so far has not been held, and is not to walk for ever."""
    asked = count()
    return lambda request: site(request) if next(asked) < most else html()


@pytest.fixture
async def frontier(server, job):
    return await create_job(server, job, options=rude())


def demo_calendar(asked):
    parts = asked.path.strip("/").split("/")
    if parts[0] == "calendar":
        return Answer(_calendar(int(parts[1]), int(parts[2]), (parts[3:] or [None])[0]) or "")
    return html("/calendar/2026/11/", text="home")


async def test_it_costs_no_more_with_three_workers(server, frontier, job):
    """Each has its own memory and its own idea of what is news."""
    async with serve_web(bounded(demo_calendar)) as web:
        spider = default_spider("t", [web.url()])
        await frontier.add([seed async for seed in spider.seeds()])
        jobs = [await create_job(server, job) for _ in range(3)]
        await asyncio.gather(*(web.crawl(one, spider, concurrency=8) for one in jobs))
        fetched = [path for path in web.paths() if path.startswith("/calendar")]

    assert len(fetched) == len(set(fetched)) == 30
    assert (await frontier.stats()).crawled
    assert (await audit(frontier)).clean


async def test_the_calendar_of_the_demo_costs_thirty_pages_at_most(frontier):
    async with serve_web(bounded(demo_calendar)) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        fetched = [path for path in web.paths() if path.startswith("/calendar")]
        held = next(path for path in _links_of(web) if path not in web.paths())
        said = await why(frontier, web.url(held))

    assert len(fetched) == 30
    stats = await frontier.stats()
    assert stats.crawled
    assert stats.trapped == 2
    assert said.state == "trapped"
    assert "calendar/# looks like a trap" in said.because[0]
    assert (await audit(frontier)).clean


def _links_of(web):
    return (f"/calendar/2026/{month}/{day}" for month in (11, 12) for day in range(1, 31))


async def test_a_maze_of_unique_text_does_not_pass(frontier):
    def site(asked):
        if asked.path == "/":
            return html("/maze/start", text=prose("home"))
        deeper = [f"{asked.path}/{random.Random(asked.path + str(n)).choice(WORDS)}" for n in "abc"]
        return html(*deeper, text=prose(asked.path))

    async with serve_web(bounded(site)) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) < 200
    assert (await frontier.stats()).trapped > 50


async def test_segments_that_repeat_do_not_pass_even_with_items(frontier):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def page(page):
        yield {"text": prose(page.url)}
        yield from page.follow_all()

    async with serve_web(bounded(lambda asked: Answer(_private(asked.path)))) as web:
        spider.start = [web.url("/private/")]
        await web.crawl(frontier, spider, concurrency=8)
        deeper = [path for path in web.paths() if path.startswith("/private/")]
    assert len(deeper) <= 33


async def test_an_encyclopedia_is_read_to_its_end(frontier):
    def site(asked):
        number = int(asked.path.rpartition("_")[2] or 0) if "_" in asked.path else 0
        others = [f"/wiki/page_{(number * 7 + n) % 300}" for n in range(5)]
        return html("/", *others, text=prose(asked.path))

    async with serve_web(site) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]))
        assert len(set(web.paths())) == 301
    assert (await frontier.stats()).trapped == 0


async def test_lists_that_lead_to_items_are_read_to_their_end(frontier):
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
        number = int(asked.path.rpartition("/")[2] or 0)
        more = f'<a class=next href="/list/{number + 1}">x</a>' if number < 120 else ""
        return Answer(f'<html>{more}<a class=item href="/item/{number}">x</a></html>')

    async with serve_web(site) as web:
        spider.start = [web.url("/list/0")]
        await web.crawl(frontier, spider)
        assert len(set(web.paths())) == 242
    assert (await frontier.stats()).trapped == 0


async def test_pages_with_items_that_lead_only_to_the_next_one_are_read_to_their_end(frontier):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def quotes(page):
        yield {"url": page.url}
        yield from page.follow_all()

    def site(asked):
        number = int(asked.path.rpartition("/")[2] or 0)
        return html(*([f"/page/{number + 1}"] if number < 200 else []))

    async with serve_web(site) as web:
        spider.start = [web.url("/page/0")]
        await web.crawl(frontier, spider)
        assert len(web.paths()) == 201


async def test_a_higher_budget_frees_what_is_held_and_none_frees_everything(frontier):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def follow(page):
        yield from page.follow_all()

    def chain(asked):
        number = int(asked.path.strip("/") or 0)
        return html(*([f"/{number + 1}"] if number < 100 else []))

    async with serve_web(chain) as web:
        spider.start = [web.url()]
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (31, 1)

        await change_options(frontier, {"shape_budget": 50})
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (51, 1)

        await change_options(frontier, {"shape_budget": None})
        await web.crawl(frontier, spider)
        assert (len(web.paths()), (await frontier.stats()).trapped) == (101, 0)
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


def maze(asked, *more):
    """Every page links home and to new pages, and has new text."""
    if asked.path == "/":
        return html("/maze/a/start", "/about", text=prose("home"))
    if asked.path == "/about":
        return html("/", text=prose("about"))
    rooms = (f"/maze/a/{room}" for room in unique(asked.path))
    return html("/", "/about", *more, *rooms, text=prose(asked.path))


def unique(path):
    return [f"{random.Random(path + str(n)).choice(WORDS)}-{crc32(path.encode())}" for n in "abc"]


LETTERS = str.maketrans("0123456789", "abcdefghij", "-")  # a number in a path is not a name


@pytest.fixture
async def strict(server, job):
    """Budgets of one page, so that a maze need not be large."""
    return await create_job(server, job, options=rude(shape_budget=1))


#: Times the budget, with a last look at a fifth of it.
MAX_BY_NEWS, MAX_BY_ITEMS = 2**5 + 2**5 // 5, 2**10 + 2**10 // 5


@pytest.mark.parametrize("site", [demo_calendar, maze])
async def test_without_a_budget_nothing_holds_a_crawl_back(server, job, site):
    frontier = await create_job(server, job, options=rude(shape_budget=None))
    async with serve_web(bounded(site, 100)) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) > 100


async def test_a_maze_with_a_way_home_and_unique_text_does_not_pass(strict):
    async with serve_web(bounded(maze)) as web:
        await web.crawl(strict, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) == MAX_BY_NEWS + 2
    stats = await strict.stats()
    assert (stats.trapped > 50, stats.crawled) == (True, True)


async def test_a_maze_that_links_to_some_fixed_pages_of_its_own_does_not_pass(strict):
    """They vouch for a few pages, not for all."""

    def site(asked):
        return maze(asked, "/maze/a/start", "/maze/a/hall")

    async with serve_web(bounded(site)) as web:
        await web.crawl(strict, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) <= 2 * MAX_BY_NEWS + 2


async def test_a_maze_of_two_shapes_does_not_pass(strict):
    def site(asked):
        rooms = "hall" if asked.path.startswith("/room") else "room"
        more = (f"/{rooms}/a/{room}" for room in unique(asked.path))
        return html("/", *more, text=prose(asked.path))

    async with serve_web(bounded(site)) as web:
        await web.crawl(strict, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) <= 2 * MAX_BY_NEWS + 1


async def test_a_maze_of_random_words_in_the_root_does_not_pass(strict):
    """Each page has a shape of its own, until its host has too many of them."""

    def site(asked):
        words = (room.translate(LETTERS) for room in unique(asked.path))
        return html("/", *(f"/{word}" for word in words), text=prose(asked.path))

    async with serve_web(bounded(site)) as web:
        await web.crawl(strict, default_spider("t", [web.url()]), concurrency=8)
        assert len(web.paths()) <= 100 + MAX_BY_NEWS + 1


async def test_a_maze_with_an_item_on_each_page_does_not_pass(strict):
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def page(page):
        yield {"text": page.css_first("p").text()}
        yield from page.follow_all()

    async with serve_web(bounded(maze, 2000)) as web:
        spider.start = [web.url()]
        await web.crawl(strict, spider, concurrency=8)
        assert len(web.paths()) == MAX_BY_ITEMS + 2
    assert (await strict.stats()).crawled


async def test_articles_that_name_each_other_are_read_to_their_end(frontier):
    """Most links of the first pages are new, as in a maze; some were known."""

    def site(asked):
        known = random.Random(asked.path)
        others = [f"/wiki/page_{known.randrange(1500)}" for _ in range(12)]
        return html("/", *others, *_chain(asked.path, 1500), text=prose(asked.path))

    async with serve_web(site) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        assert len(set(web.paths())) == 1501
    assert (await frontier.stats()).trapped == 0


def _chain(path, most):
    number = int(path.rpartition("_")[2]) if "_" in path else -1
    return [f"/wiki/page_{number + 1}"] if number + 1 < most else []


async def test_a_tree_of_uneven_depth_is_read_to_its_end(frontier):
    """Its pages link to their children alone, and to the page above."""

    def site(asked):
        parts = [part for part in asked.path.split("/") if part]
        room = 0 if len(parts) > 5 else random.Random(asked.path).choice((0, 2, 3, 6))
        level = "abcdefg"[len(parts)]
        children = [f"{asked.path.rstrip('/')}/{level}{n}" for n in range(room if parts else 6)]
        above = "/".join(["", *parts[:-1]]) or "/"
        return html(above, *children, text=prose(asked.path))

    async with serve_web(site) as web:
        await web.crawl(frontier, default_spider("t", [web.url()]), concurrency=8)
        assert len(set(web.paths())) > 1000
    assert (await frontier.stats()).trapped == 0


async def test_lists_of_lists_are_read_to_their_end_by_a_handler_that_follows_them_alone(frontier):
    """Each level has a shape of its own: that ends by itself."""
    spider = Spider("t", ["https://shop.test/"])

    @spider.page
    def anything(page):
        yield from page.follow_all()
        if "/book/" in page.url:
            yield {"url": page.url}

    def site(asked):
        _, level, number = (asked.path + "/0").split("/")[:3]
        below = {"": ("author", 200), "author": ("series", 3), "series": ("book", 2)}.get(level)
        if below is None:
            return html(text=prose(asked.path))
        name, many = below
        there = (f"/{name}/{int(number) * many + n}" for n in range(many))
        return html(*there, text=prose(asked.path))

    async with serve_web(site) as web:
        spider.start = [web.url("/")]
        await web.crawl(frontier, spider, concurrency=8)
        assert len(set(web.paths())) == 1 + 200 + 600 + 1200
    assert (await frontier.stats()).trapped == 0


def test_text_is_news_once():
    news = News()
    assert news.is_news(prose(1))
    assert not news.is_news(prose(1))
    assert not news.is_news(prose(1) + " and two words")
    assert not news.is_news("1 2 3 4 5 6 7 8 9 10 11 12")
    assert not news.is_news("too short")
    assert news.is_news(prose(2))


@pytest.mark.parametrize(
    ("links", "known", "is_maze"),
    [
        (["/m/1", "/m/2"], 0, True),
        (["/m/1", "/m/2"], 1, False),  # a link home, for example
        (["/m/1", "/about"], 0, False),
        ([], 0, False),
    ],
)
def test_a_maze_leads_only_to_new_pages_of_its_own_shape(links, known, is_maze):
    url = "https://a.test"
    output = HandlerOutput(requests=[Request(url=url + link) for link in links], known=known)
    assert leads_nowhere(shape_of(f"{url}/m/0"), output) is is_maze
