"""Pages that the archive answers: the site is not asked, and nobody waits for its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archive.test_writer import SITE, keep, record
from conftest import rude
from skitter.archive.index import Archive, write_lines
from skitter.archive.playback import PageCache
from skitter.engine.assembly import open_worker
from skitter.engine.keeping import settle
from skitter.engine.parts import WorkerOptions
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.jobs import create_job
from skitter.model import Request, Response, Visited
from skitter.settings import ArchiveOptions, FetchOptions, Politeness, WorkerConfig
from skitter.spider import Spider

PAGES: dict[str, bytes | Response | Exception] = {
    f"{SITE}/robots.txt": b"User-agent: *\nDisallow: /closed",
    f"{SITE}/": b'<a href="/old">old</a><a href="/a">a</a><a href="/closed">no</a>',
    f"{SITE}/old": Response(url=f"{SITE}/old", status=301, headers=(("location", "/new"),)),
    f"{SITE}/new": b"new",
    f"{SITE}/a": b"a",
}


def make_spider(*, fails: bool) -> Spider:
    spider = Spider("news", [f"{SITE}/"])

    @spider.page
    def page(page):
        if fails and page.url.endswith("/a"):
            raise ValueError
        yield {"body": page.body.decode()}
        yield from page.follow_all()

    return spider


async def crawl(site, frontier, config, *, fails=False) -> None:
    options = WorkerOptions.of(config, watch_signals=False)
    await frontier.add([Request(url=f"{SITE}/")])
    spider = make_spider(fails=fails)
    async with open_worker(frontier, spider, config, fetcher=site, options=options) as worker:
        await worker.run()


async def test_a_second_crawl_from_the_cache_asks_the_site_nothing(server, job, tmp_path):
    """Redirects, robots.txt and pages whose handler failed included; and it does not wait, though
    its host wants an hour between requests."""
    config = WorkerConfig(
        fetch=FetchOptions(cache="1h"),
        archive=ArchiveOptions(keep=True, folder=tmp_path / "kept"),
    )
    site = StaticFetcher(PAGES)
    first = await create_job(server, job, options=rude())
    await crawl(site, first, config, fails=True)
    assert sorted(site.asked_urls) == sorted(PAGES)
    assert (await first.stats()).dead == 1

    slow = replace(rude(), politeness=Politeness(delay_s=3600))
    second, away = await create_job(server, f"{job}2", options=slow), StaticFetcher()
    await crawl(away, second, config)
    assert away.asked_urls == []
    stats = await second.stats()
    assert (stats.done, stats.dead, stats.cached, stats.items) == (4, 0, 4, 3)

    folder = config.archive.folder
    assert await settle(second, folder)
    archive = Archive.open(folder)
    own = {kept.url: archive.read(kept).body for kept in archive.of(second.job)}
    assert own.keys() == PAGES.keys() - {f"{SITE}/robots.txt"}, "a replay has its pages, too"
    assert own[f"{SITE}/a"] == b"a"


@pytest.mark.parametrize("visit", [{"visited": Visited(digest=b"1")}, {"round": 5}])
def test_visits_that_ask_what_is_new_are_not_answered_by_the_cache(tmp_path, visit):
    write_lines(tmp_path, keep(tmp_path, record("/a")))
    assert len(Archive.open(tmp_path)) == 1
    young = PageCache(tmp_path, 3600, 10**6)
    assert young.find(Request(url=f"{SITE}/a"))
    assert young.find(Request(url=f"{SITE}/a", **visit)) is None
    assert PageCache(tmp_path, -1, 10**6).find(Request(url=f"{SITE}/a")) is None
