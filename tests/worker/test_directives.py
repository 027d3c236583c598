"""Directives of pages that a crawl obeys if it is told to: on a real site, with a real worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conftest import rude
from fetch.site import reply, serve
from skitter.engine.assembly import open_worker
from skitter.fetch import FetchOptions
from skitter.frontier.audit.why import why
from skitter.frontier.items import read_items
from skitter.frontier.jobs import create_job
from skitter.settings import WorkerConfig
from skitter.spider import Spider

HTML = "content-type: text/html"


def html(text: str, *headers: str) -> bytes:
    return reply(text.encode(), HTML, *headers)


@pytest.fixture
def crawl(server, job):
    """Crawl a site from its root; the frontier and the URLs whose items were stored."""

    async def run(site, per="host", **options):
        polite = replace(rude().politeness, per=per)
        frontier = await create_job(server, job, options=replace(rude(), politeness=polite))
        spider = Spider(job, site.url())
        spider.page(take)
        await frontier.add([seed async for seed in spider.seeds()])
        config = WorkerConfig(fetch=FetchOptions(**options))
        async with open_worker(frontier, spider, config) as worker:
            await worker.run()
        items = [one.item["path"] async for page in read_items(frontier) for one in page]
        return frontier, sorted(items)

    return run


def take(page):
    yield {"path": "/" + page.url.split("/", 3)[3]}
    yield from page.follow_all()


MARKED = {
    "/": html("<a href=/a rel=nofollow>a</a><a href=/b>b</a><a href=/c>c</a>"),
    "/a": html("a"),
    "/b": html("<meta name=robots content='nofollow,noindex'><a href=/d>d</a>"),
    "/c": html("<a href=/e>e</a>", "x-robots-tag: otherbot: nofollow"),
    "/d": html("d"),
    "/e": html("e"),
}


async def test_directives_are_not_obeyed_unless_that_is_asked_for(crawl):
    async with serve(MARKED) as site:
        frontier, items = await crawl(site)
    assert items == ["/", "/a", "/b", "/c", "/d", "/e"]
    assert (await frontier.stats()).kept_out == {}


async def test_nofollow_of_links_and_of_pages(crawl):
    async with serve(MARKED) as site:
        frontier, items = await crawl(site, obey_nofollow=True)
        found = [await why(frontier, site.url(path)) for path in ("/a", "/d")]
    assert items == ["/", "/b", "/c", "/e"]
    assert (await frontier.stats()).kept_out == {"nofollow": 2}
    assert [(one.state, one.because[0]) for one in found] == [
        ("refused", "the link is marked nofollow"),
        ("refused", "its page says nofollow"),
    ]


async def test_noindex_keeps_the_items_out_and_the_links_in(crawl):
    async with serve(MARKED) as site:
        frontier, items = await crawl(site, obey_noindex=True)
    assert items == ["/", "/a", "/c", "/d", "/e"]
    assert (await frontier.stats()).kept_out == {"noindex": 1}


COPIES = {
    "/": html("<link rel=canonical href=/><a href=/a>a</a><a href=/x>x</a><a href=/far>far</a>"),
    "/a": html("<link rel=canonical href=/b>"),
    "/b": html("<link rel=canonical href=/a>"),  # they name each other
    "/x": html("<link rel=canonical href=/secret>"),
    "/far": html("<link rel=canonical href=https://far.test/>"),
    "/robots.txt": reply(b"User-agent: *\nDisallow: /secret\n"),
}


async def test_a_copy_is_left_to_the_page_that_it_names(crawl):
    async with serve(COPIES) as site:
        frontier, items = await crawl(site, follow_canonical=True)
        copy = await why(frontier, site.url("/a"))
    assert items == ["/", "/b", "/far", "/x"]
    assert (await frontier.stats()).kept_out == {"canonical": 1}
    assert f"its handler did not run: it is a copy of {site.url('/b')}" in copy.because


RESERVED = {
    "/": html("<a href=/tdm>1</a><a href=/ai>2</a><a href=/news/1>3</a><a href=/free>4</a>"),
    "/tdm": html("tdm", "tdm-reservation: 1"),
    "/ai": html("<meta name=robots content=noai>"),
    "/news/1": html("news"),
    "/free": html("free", "content-usage: train-ai=y"),
    "/robots.txt": reply(b"User-agent: *\nContent-Usage: /news/ train-ai=n\n"),
}


@pytest.mark.parametrize("per", ["host", "domain"])
async def test_uses_are_recorded_and_nothing_is_skipped_for_them(crawl, per):
    async with serve(RESERVED) as site:
        frontier, items = await crawl(site, per=per)
        done = [(await why(frontier, site.url(path))).done for path in RESERVED]
    assert len(items) == 5
    assert [one.usage for one in done if one] == [
        "", "tdm=n", "train-ai=n", "train-ai=n", "train-ai=y",
    ]  # fmt: skip


async def test_pages_that_reserve_the_use_are_skipped_if_that_is_asked_for(crawl):
    async with serve(RESERVED) as site:
        frontier, items = await crawl(site, skip_reserved=("train-ai",))
        skipped = await why(frontier, site.url("/ai"))
    assert items == ["/", "/free", "/tdm"]
    assert (await frontier.stats()).kept_out == {"usage": 2}
    assert "its handler did not run: it reserves train-ai" in skipped.because
