"""Sitemaps as requests of a crawl: what the built-in handler makes of each."""

from __future__ import annotations

import msgspec
import pytest

from skitter.engine.verdict import Bury, Handle, Policy, judge_response
from skitter.errors import BadOption
from skitter.model import Request, Response
from skitter.settings import Limits
from skitter.spider import HandlerError, Scope, Spider, run_handler
from skitter.spider.page import Page
from skitter.spider.sitemap import DEEPEST, SITEMAP, discovery_request, sitemap_request

SHOP = "https://www.shop.example/"


def spider(**options) -> Spider:
    made = Spider("shop", SHOP, **options)
    made.page(book)
    return made


def book(page):
    yield {"url": page.url}


async def requests(request: Request, body: str, *, status: int = 200, **options):
    response = Response(url=request.url, status=status, body=body.encode())
    return (await run_handler(spider(**options), Page(request, response))).requests


def index(*urls: str) -> str:
    listed = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{listed}</sitemapindex>"


async def test_robots_txt_leads_to_the_sitemaps_it_names_wherever_they_are():
    text = f"Sitemap: {SHOP}a.xml\nSitemap: https://cdn.example/b.xml\nSitemap: /c.xml\n"
    found = await requests(discovery_request(SHOP), text)
    assert [one.url for one in found] == [
        f"{SHOP}a.xml",
        "https://cdn.example/b.xml",
        f"{SHOP}c.xml",
    ]
    assert {one.handler for one in found} == {SITEMAP}


@pytest.mark.parametrize("status", [200, 404])
async def test_without_a_named_one_the_usual_place_is_tried_and_may_be_empty(status):
    policy = Policy(accept=("text/html",))
    [guess] = await requests(discovery_request(SHOP), "User-agent: *\nDisallow:\n", status=status)
    assert guess.url == f"{SHOP}sitemap.xml"
    missing = Response(url=guess.url, status=404)
    assert isinstance(judge_response(guess, missing, policy, now=0), Handle)
    assert await requests(guess, "<html>not found</html>") == []
    assert await requests(guess, "", status=404) == []


async def test_one_that_was_named_must_be_there_and_be_one():
    named = sitemap_request(f"{SHOP}sitemap.xml")
    assert isinstance(
        judge_response(named, Response(url=named.url, status=404), Policy(), now=0), Bury
    )
    with pytest.raises(HandlerError, match="it is not a sitemap: its root is <html>"):
        await requests(named, "<html></html>")


async def test_pages_are_start_urls_with_priorities_and_stay_in_scope():
    text = (
        f"<urlset><url><loc>{SHOP}1</loc><priority>1.0</priority></url>"
        f"<url><loc>{SHOP}2</loc></url><url><loc>https://other.example/</loc></url></urlset>"
    )
    found = await requests(sitemap_request(f"{SHOP}s.xml"), text, limits=Limits(max_depth=0))
    assert [(one.url, one.priority, one.depth, one.handler) for one in found] == [
        (f"{SHOP}1", 100, 0, None),
        (f"{SHOP}2", 0, 0, None),
    ]


async def test_an_index_leads_to_sitemaps_of_its_own_site_out_of_scope_or_not():
    text = index(f"{SHOP}1.xml", "https://img.shop.example/2.xml", "https://evil.example/3.xml")
    scope = Scope(include=["/books/*"])
    found = await requests(sitemap_request(f"{SHOP}s.xml"), text, scope=scope)
    assert [one.url for one in found] == [f"{SHOP}1.xml", "https://img.shop.example/2.xml"]


async def test_indexes_of_indexes_come_to_an_end():
    request, levels = sitemap_request(f"{SHOP}0.xml"), 0
    while found := await requests(request, index(f"{SHOP}{levels + 1}.xml")):
        [request] = found
        levels += 1
    assert levels == DEEPEST - 1


async def test_a_sitemap_may_bring_more_links_than_a_page():
    listed = "".join(f"<url><loc>{SHOP}{i}</loc></url>" for i in range(6000))
    found = await requests(sitemap_request(f"{SHOP}s.xml"), f"<urlset>{listed}</urlset>")
    assert len(found) == 6000


async def test_a_handler_may_send_one_of_its_links_to_it():
    page = Page.of("<a href=/feed.xml>", url=SHOP)
    request = page.follow("/feed.xml", SITEMAP)
    found = await requests(request, f"<feed><entry><link href='{SHOP}news'/></entry></feed>")
    assert [one.url for one in found] == [f"{SHOP}news"]


async def test_damage_to_what_travels_with_the_request_is_survived():
    request = msgspec.structs.replace(sitemap_request(f"{SHOP}s.xml"), meta={"_sitemap": "?"})
    assert len(await requests(request, index(f"{SHOP}1.xml"))) == 1


async def test_the_seeds_ask_each_host_once_for_its_sitemaps():
    made = Spider("shop", lambda: [SHOP, f"{SHOP}a", "https://b.example/"], sitemap=True)
    made.page(book)
    assert [seed.url async for seed in made.seeds()] == [
        SHOP,
        f"{SHOP}robots.txt",
        f"{SHOP}a",
        "https://b.example/",
        "https://b.example/robots.txt",
    ]


async def test_a_sitemap_alone_is_a_start():
    made = Spider("shop", sitemap=f"{SHOP}s.xml")
    made.page(book)
    assert [seed.url async for seed in made.seeds()] == [f"{SHOP}s.xml"]
    text = f"<urlset><url><loc>{SHOP}1</loc></url></urlset>"
    page = Page(made.known_seeds[0], Response(url=f"{SHOP}s.xml", status=200, body=text.encode()))
    assert [one.url for one in (await run_handler(made, page)).requests] == [f"{SHOP}1"]


@pytest.mark.parametrize("sitemap", ["", "ftp://x/", 1, [None], {"a": 1}])
def test_a_sitemap_that_is_none_is_refused_at_once(sitemap):
    with pytest.raises(BadOption, match="sitemap"):
        Spider("shop", SHOP, sitemap=sitemap)
