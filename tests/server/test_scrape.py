"""Pages on request: `POST /api/scrape`, with a worker that fetches them from a site on loopback."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from skitter.app import open_crawl
from skitter.client import AsyncClient
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.frontier.dead import dead_letters
from skitter.frontier.jobs import open_job, purge_job
from skitter.frontier.records.operators import new_token
from skitter.scrape import JOB
from skitter.server.answers import Answers
from skitter.server.keyring import Keyring
from skitter.server.serving import Address, listen, serving
from skitter.server.site import Site
from skitter.settings import FetchOptions, Politeness, WorkerConfig, resolve
from skitter.spider import load_spider
from waiting import until_async
from web import Answer, serve_web

PAGE = "<title>One</title><body><article><h1>Tea</h1><p>Leaves</p><a href='/b'>b</a></article>"
WAIT_S = 60


async def answer(asked):
    if asked.path == "/moved":
        return Answer(status=301, headers=(("location", "/page"),))
    if asked.path == "/slow":
        await gate.wait()
    if asked.path == "/never":
        return Answer("gone", status=410)
    return Answer(PAGE)


gate = asyncio.Event()


@pytest.fixture
async def web_site():
    gate.clear()
    async with serve_web(answer) as found:
        found.robots = "User-agent: *\nDisallow: /secret\n"
        yield found


@asynccontextmanager
async def working(server, web_site):
    """A worker, as `skitter serve --workers 1` starts it."""
    spider, config = load_spider("skitter.scrape"), resolve()
    config = replace(config, politeness=Politeness(delay_s=0, max_in_flight=100))
    frontier, _ = await open_crawl(server, JOB, spider, config)
    how = WorkerConfig(fetch=FetchOptions(), keep_alive=True)
    options = WorkerOptions.of(how, watch_signals=False)
    async with (
        web_site.fetcher() as fetcher,
        open_worker(frontier, spider, how, fetcher=fetcher, options=options) as worker,
    ):
        running = asyncio.create_task(worker.run())
        try:
            yield frontier
        finally:
            worker.stop()
            worker.stop()
            await running


async def ask(web, url, **more):
    return await web.post("/api/scrape", json={"url": url, "wait_s": WAIT_S, **more})


@pytest.fixture
async def scraping(server, web_site, web):
    """A client, once the worker has said that it is there."""
    async with working(server, web_site) as frontier:

        async def is_there() -> bool:
            return bool(await Answers(server).handlers(frontier))

        await until_async(is_there)
        yield web
    await purge_job(await open_job(server, JOB))


async def test_a_page_is_answered_in_the_formats_asked_for_wherever_it_redirects_to(
    scraping, web_site
):
    formats = ["html", "links", "text", "data"]
    moved = await ask(scraping, web_site.url("/moved"), format=formats)
    assert moved.status_code == 200
    found = moved.json()
    assert (found["state"], found["status"], found["title"]) == ("done", 200, "One")
    assert (found["url"], found["links"]) == (web_site.url("/page"), [web_site.url("/b")])
    assert (found["html"], "Leaves" in found["text"], found["data"]) == (PAGE, True, {})

    plain = (await ask(scraping, web_site.url("/page"))).json()
    assert "# Tea" in plain["markdown"]
    assert plain.keys() == {"id", "state", "url", "status", "title", "markdown"}
    assert web_site.paths().count("/page") == 2  # each call has a page of its own


async def test_many_at_once_each_get_their_own_page_and_nothing_is_left(scraping, server, web_site):
    urls = [web_site.url(f"/{n}", host=f"h{n % 7}.test") for n in range(60)]
    answers = await asyncio.gather(*(ask(scraping, url, format="links") for url in urls))
    assert [one.json()["url"] for one in answers] == urls

    async def is_clean() -> bool:
        stats = await (await open_job(server, JOB)).stats()
        return (stats.done, stats.items, stats.dead, stats.remaining) == (60, 0, 0, 0)

    await until_async(is_clean)


async def test_a_page_that_cannot_be_had_says_why(scraping, server, web_site):
    gone = (await ask(scraping, web_site.url("/never"))).json()
    assert (gone["state"], gone["error"][:3]) == ("failed", "410")
    hidden = (await ask(scraping, web_site.url("/secret"))).json()
    assert (hidden["state"], "robots.txt" in hidden["error"]) == ("failed", True)
    assert "/secret" not in web_site.paths()
    assert (await ask(scraping, "ftp://shop.test/")).status_code == 400
    frontier = await open_job(server, JOB)

    async def no_letters() -> bool:
        return not [one async for one in dead_letters(frontier)]

    await until_async(no_letters)


async def test_a_page_that_takes_long_is_followed_by_its_id_at_any_server(
    scraping, server, web_site
):
    later = await scraping.post("/api/scrape", json={"url": web_site.url("/slow"), "wait_s": 0})
    found = later.json()
    assert (later.status_code, found["state"]) == (202, "waiting")
    where = later.headers["location"]
    assert (await scraping.get(where)).status_code == 202
    token = await new_token(server, name="other", scopes=["read"])
    headers = {"authorization": f"Bearer {token}"}
    async with serving(Site(server, Keyring(server, b"other")), socket := listen(Address())):
        base = Address().url(socket)
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=WAIT_S) as other:
            following = asyncio.create_task(other.get(where, params={"wait_s": WAIT_S}))
            gate.set()
            there = (await following).json()
            assert (there["state"], "# Tea" in there["markdown"]) == ("done", True)
    assert (await scraping.get(where)).json() == there  # whoever comes back
    assert (await scraping.get("/api/scrape/" + "0" * 32)).status_code == 404


async def test_the_client_waits_for_a_page(scraping, server, address, web_site):
    token = await new_token(server, name="a test", scopes=["operate"])
    async with AsyncClient(address, token=token) as client:
        asking = asyncio.create_task(client.scrape(web_site.url("/slow"), format="text", wait_s=0))
        await until_async(lambda: is_in(web_site.paths(), "/slow"))
        gate.set()
        assert "Leaves" in (await asking)["text"]


async def is_in(paths, path) -> bool:
    return path in paths


async def test_who_may_ask_and_when_nobody_is_there(client_with, address, server, web_site, web):
    nobody = await ask(web, web_site.url("/page"))
    assert nobody.status_code == 503
    assert "skitter serve --workers" in nobody.json()["detail"]
    reader = await client_with("read", "push")
    assert (await ask(reader, web_site.url("/page"))).status_code == 403
    token = await new_token(server, name="team", scopes=["operate"], jobs=["shop*"])
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=WAIT_S) as team:
        assert (await ask(team, web_site.url("/page"))).status_code == 403
        assert (await team.get("/api/scrape/" + "0" * 32)).status_code == 403
