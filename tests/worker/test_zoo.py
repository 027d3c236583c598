"""The zoo: sites with an end are complete, sites without one end."""

from __future__ import annotations

import pytest

from conftest import rude
from skitter.frontier.audit.auditor import audit
from skitter.frontier.jobs import create_job
from skitter.frontier.sites.learned import held_shapes
from skitter.spider import Scope, Spider
from skitter.spider.default import default_spider
from web import Answer, serve_web
from zoo import (
    bounded,
    calendar,
    comic,
    deep_tree,
    ever_deeper,
    forum,
    gallery,
    html,
    maze,
    maze_below_itself,
    maze_of_two_shapes,
    maze_of_words,
    maze_with_fixed_pages,
    months,
    numbered,
    sessions,
    shop,
    tables,
    wiki,
)


def items_spider(seeds):
    """A handler that finds something on every page, and follows every link."""
    spider = Spider("t", seeds)

    @spider.page
    def anything(page):
        yield {"url": page.url}
        yield from page.follow_all()

    return spider


async def crawled(server, job, site, *, budget=1000, make=None):
    frontier = await create_job(server, job, options=rude(shape_budget=budget))
    async with serve_web(site) as web:
        await web.crawl(frontier, (make or pages_spider)([web.url()]), concurrency=16)
        paths = web.paths()
    stats = await frontier.stats()
    assert len(paths) == len(set(paths)) == stats.done
    assert stats.crawled
    assert (await audit(frontier)).clean
    return frontier, stats


FINITE = [
    (comic, 1501),
    (numbered, 600),
    *((kind, 1500) for kind in (gallery, tables, forum, wiki, deep_tree)),
]


@pytest.mark.parametrize(("kind", "pages"), FINITE)
async def test_a_site_with_an_end_is_complete(server, job, kind, pages):
    _, stats = await crawled(server, job, kind(pages))

    assert (stats.done, stats.trapped, stats.dead) == (pages, 0, 0)


@pytest.mark.parametrize("kind", [comic, numbered, forum])
async def test_without_news_it_is_complete_up_to_ten_times_the_budget(server, job, kind):
    _, stats = await crawled(server, job, kind(95), budget=10)

    assert (stats.done, stats.trapped, stats.dead) == (95, 0, 0)


@pytest.mark.parametrize("kind", [gallery, tables, wiki])
async def test_news_has_no_limit(server, job, kind):
    """Texts of pictures, numbers in tables, and words."""
    _, stats = await crawled(server, job, kind(400), budget=10)

    assert (stats.done, stats.trapped) == (400, 0)


async def test_files_are_not_pages_and_are_counted(server, job):
    _, stats = await crawled(server, job, shop(241))

    assert (stats.done, stats.trapped) == (1, 0)
    assert stats.kept_out["file"] == pytest.approx(240, abs=3)  # an estimate


async def test_a_link_that_redirects_to_a_file_is_no_page_and_not_dead(server, job):
    def site(asked):
        if asked.path.startswith("/get"):
            return Answer(status=302, headers=(("location", "/manual.pdf"),))
        return html("/get/1", "/get/2")

    _, stats = await crawled(server, job, site)

    assert (stats.done, stats.dead, stats.items, stats.kept_out) == (3, 0, 1, {"file": 2})


async def test_a_file_that_is_a_seed_is_fetched_also_by_a_redirect(server, job):
    def site(asked):
        if asked.path == "/":
            return Answer(status=302, headers=(("location", "/manual.pdf"),))
        return Answer("x", headers=(("content-type", "application/pdf"),))

    _, stats = await crawled(server, job, site)

    assert (stats.done, stats.dead, stats.items) == (2, 0, 1)


async def test_files_are_fetched_if_asked_for(server, job):
    def make(seeds):
        return default_spider("t", seeds, scope=Scope(files=True))

    _, stats = await crawled(server, job, shop(241), budget=10, make=make)

    assert (stats.done, stats.trapped, stats.kept_out) == (241, 0, {})


def pages_spider(seeds):
    return default_spider("t", seeds)


ENDLESS = [
    (calendar, 20, pages_spider),
    (months, 20, pages_spider),
    (maze, 20, pages_spider),
    (maze, 20, items_spider),
    (maze_with_fixed_pages, 20, pages_spider),
    (maze_of_two_shapes, 20, pages_spider),
    (maze_of_two_shapes, 20, items_spider),
    (maze_below_itself, 5, pages_spider),
    (maze_of_words, 5, pages_spider),
    (sessions(), 20, pages_spider),
    (ever_deeper, 3, items_spider),
]


@pytest.mark.parametrize(("site", "budget", "make"), ENDLESS)
async def test_a_site_without_end_is_left(server, job, site, budget, make):
    frontier, stats = await crawled(server, job, bounded(site), budget=budget, make=make)

    assert 10 * budget < stats.done < 1500
    held = await held_shapes(frontier)
    assert sum(held.values()) == stats.trapped > 0
