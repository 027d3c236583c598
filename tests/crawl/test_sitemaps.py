"""Crawls that begin with a sitemap, and maps of a site, on a real site and a real server."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from cli.conftest import skitter, skitter_here  # noqa: F401
from conftest import rude
from fetch.site import redirect, reply, serve
from skitter.engine.assembly import open_worker
from skitter.frontier.control import change_options
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import create_job, open_job
from skitter.settings import Retries, WorkerConfig
from skitter.spider import Spider

RUDE = {"politeness.delay_s": 0, "workers.processes": "1"}


def urlset(*paths: str, port: int) -> bytes:
    listed = "".join(f"<url><loc>http://127.0.0.1:{port}{path}</loc></url>" for path in paths)
    return f"<urlset>{listed}</urlset>".encode()


def lay_out(site) -> dict[str, bytes]:
    """robots.txt names an index, which has a packed sitemap, and one that is not there."""
    index = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/a.gz", "/no"))
    pages = {
        "/robots.txt": reply(f"Sitemap: {site.url('/old.xml')}\n".encode()),
        "/old.xml": redirect("/index.xml"),
        "/index.xml": reply(f"<sitemapindex>{index}</sitemapindex>".encode()),
        "/a.gz": reply(gzip.compress(urlset("/1", "/2", port=site.port))),
        "/": reply(b"<a href=/3>", "content-type: text/html"),
        **{f"/{i}": reply(b"<p>page</p>", "content-type: text/html") for i in (1, 2, 3)},
    }
    site.pages = pages
    return pages


async def test_a_crawl_fetches_what_the_sitemaps_list(server, server_url, job, tmp_path):
    async with serve({}) as site:
        lay_out(site)
        spider = Spider(job, site.url(), sitemap=True, accept=("text/html",))
        spider.page(follow)
        report = await spider.run(str(tmp_path / "x.db"), redis=server_url, settings=RUDE)
    assert sorted(set(site.paths)) == [
        "/", "/1", "/2", "/3", "/a.gz", "/index.xml", "/no", "/old.xml", "/robots.txt",
    ]  # fmt: skip
    assert report.items == 4
    stats = await (await open_job(server, job)).stats()
    assert stats.dead == 1  # the sitemap that is not there


async def test_without_a_sitemap_the_feeds_of_the_start_page_are_read(server, job):
    link = "<link rel=alternate type=application/rss+xml href="
    home = f"{link}/feed>{link}https://elsewhere.example/feed>{link}mailto:x>{link}/gone>".encode()
    feed = b"<rss><channel><item><link>/news</link></item></channel></rss>"
    pages = {
        "/": reply(home, "content-type: text/html"),
        "/feed": reply(feed),
        "/news": reply(b"<p>news</p>", "content-type: text/html"),
    }
    frontier = await create_job(server, job, options=rude())
    async with serve(pages) as site:
        spider = Spider(job, site.url(), sitemap=True)
        spider.page(follow)
        await frontier.add([seed async for seed in spider.seeds()])
        await crawl(frontier, spider)
    asked = ["/", "/", "/feed", "/gone", "/news", "/sitemap.xml"]
    assert sorted(path for path in site.paths if path != "/robots.txt") == asked
    assert (await frontier.stats()).dead == 0


async def crawl(frontier, spider) -> None:
    async with open_worker(frontier, spider, WorkerConfig()) as worker:
        await worker.run()


async def test_a_crawl_that_stopped_at_a_sitemap_goes_on_with_another_worker(server, job):
    async with serve({}) as site:
        lay_out(site)
        spider = Spider(job, sitemap=site.url("/old.xml"))
        spider.page(follow)
        frontier = await create_job(server, job, options=rude(max_pages=2))
        await frontier.add([seed async for seed in spider.seeds()])
        await crawl(frontier, spider)
        assert (await frontier.stats()).pending == 2  # the sitemaps of the index
        await change_options(frontier, {"max_pages": None})
        await crawl(frontier, spider)
    assert (await frontier.stats()).done == 5
    assert site.paths.count("/index.xml") == 1


async def test_a_sitemap_is_retried_and_does_not_lead_into_our_network(server, job):
    async with serve({}) as site:
        inside = f"http://127.0.0.2:{site.port}/private.xml"
        pages = lay_out(site)
        pages["/robots.txt"] = reply(f"Sitemap: {inside}\nSitemap: {site.url('/busy')}\n".encode())
        pages["/busy"] = reply(b"", status=503)
        spider = Spider(job, site.url("/1"), sitemap=True)
        spider.page(follow)
        options = replace(rude(), retries=Retries(max_retries=1, base_s=0.01))
        frontier = await create_job(server, job, options=options)
        await frontier.add([seed async for seed in spider.seeds()])
        await crawl(frontier, spider)
        dead = {one.url: one.reason async for one in dead_letters(frontier)}
    assert site.paths.count("/busy") == 2
    assert "/private.xml" not in site.paths
    assert "127.0.0.2" in dead[inside]
    assert dead[site.url("/busy")].startswith("503")


async def test_an_index_of_many_sitemaps_is_no_trap(server, job):
    async with serve({}) as site:
        paths = [f"/sitemap-{n}.xml" for n in range(70)]
        listed = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in paths)
        site.pages = {
            "/index.xml": reply(f"<sitemapindex>{listed}</sitemapindex>".encode()),
            **dict.fromkeys(paths, reply(urlset("/1", port=site.port))),
            "/1": reply(b"<p>page</p>", "content-type: text/html"),
        }
        spider = Spider(job, sitemap=site.url("/index.xml"))
        spider.page(follow)
        frontier = await create_job(server, job, options=rude(shape_budget=5))
        await frontier.add([seed async for seed in spider.seeds()])
        await crawl(frontier, spider)
    assert len(set(site.paths)) == 73  # with robots.txt
    assert (await frontier.stats()).trapped == 0


def follow(page):
    yield {"url": page.url}
    yield from page.follow_all()


async def test_a_map_lists_the_urls_of_the_sitemaps(skitter_here):  # noqa: F811
    async with serve({}) as site:
        lay_out(site)
        answer = await skitter_here("map", site.url("/1"), "--delay", "0")
    assert answer.exit_code == 0
    assert answer.out.splitlines() == [site.url("/1"), site.url("/2")]
    assert "2 URLs from 1 sitemap. Without a delay between requests" in answer.err
    assert f"{site.url('/no')}: 404" in answer.err


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_map_in_json_has_the_estimate_and_keeps_the_limit(skitter_here, limit):  # noqa: F811
    async with serve({}) as site:
        lay_out(site)["/robots.txt"] = reply(
            f"Sitemap: {site.url('/index.xml')}\nUser-agent: *\nCrawl-delay: 0.01\n".encode()
        )
        answer = await skitter_here(
            "map", site.url(), "--delay", "0", "--json", "--limit", str(limit)
        )
    assert "A crawl takes about 0 s: 0.01 s between requests to 127.0.0.1:" in answer.err
    found = json.loads(answer.out)
    assert [one["url"] for one in found["urls"]] == [site.url("/1"), site.url("/2")][:limit]
    assert found["hosts"] == [{"host": f"127.0.0.1:{site.port}", "urls": limit, "delay_s": 0.01}]


async def test_a_map_falls_back_to_feeds_and_then_to_links(skitter_here):  # noqa: F811
    feed = b"<rss><channel><item><link>/news</link></item></channel></rss>"
    home = b'<link rel=alternate type=application/rss+xml href=/feed><a href=/1><a href="//x.y/">'
    pages = {"/": reply(home, "content-type: text/html"), "/feed": reply(feed)}
    async with serve(pages) as site:
        answer = await skitter_here("map", site.url(), "--delay", "0")
        assert answer.out.splitlines() == [site.url("/news")]
        pages.pop("/feed")
        answer = await skitter_here("map", site.url(), "--delay", "0")
        assert answer.out.splitlines() == [site.url("/1")]
        assert "from the links of the page" in answer.err
        pages["/"] = reply(b"nothing", "content-type: text/html")
        answer = await skitter_here("map", site.url(), "--delay", "0")
        assert (answer.exit_code, answer.out) == (1, "")
