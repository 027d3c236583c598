"""Log-ins on several nodes: one log-in, and every node is the member that it logged in."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from skitter.frontier.workers import live_workers
from skitter.model import State
from web import Answer, Asked, Web, serve_web

pytestmark = pytest.mark.timeout(300)


class Members:
    """A site for members: a form with a token, a log-in that redirects, pages that need it."""

    def __init__(self, pages: int, latency_s: float) -> None:
        self.pages, self.latency_s = pages, latency_s
        self.logins: list[str] = []

    async def __call__(self, asked: Asked) -> Answer:
        await asyncio.sleep(self.latency_s)
        if asked.path == "/":
            return Answer("<form>", headers=(("set-cookie", "token=t1; path=/login"),))
        if asked.path == "/login":
            return self._log_in(asked)
        if asked.path == "/public":
            return Answer(asked.headers.get("cookie", "no cookie"))
        name = asked.cookies.get("sid", "")
        if name not in self.logins:
            return Answer("log in first", status=401)
        if asked.path == "/members":
            links = "".join(f"<a href='/{name}/{n}'>{n}</a>" for n in range(self.pages))
            return Answer(links)
        return Answer(name, headers=(("set-cookie", f"last={asked.path}; path=/"),))

    def _log_in(self, asked: Asked) -> Answer:
        if asked.cookies.get("token") != "t1":
            return Answer("no token", status=403)
        self.logins.append(asked.form["name"])
        sid = ("set-cookie", f"sid={asked.form['name']}; path=/; HttpOnly")
        return Answer(status=302, headers=(("location", "/members"), sid))


@pytest.fixture
def open_members() -> Iterator[Callable[..., tuple[Members, Web]]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    opened = []

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def open_one(pages: int, latency_s: float = 0.02) -> tuple[Members, Web]:
        site = Members(pages, latency_s)
        opened.append(serve_web(site))
        return site, run(opened[-1].__aenter__())

    yield open_one
    for one in opened:
        run(one.__aexit__(None, None, None))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


SPIDER = """
import scrapy
from scrapy.utils.defer import maybe_deferred_to_future


class Members(scrapy.Spider):
    name = "members"
    start_urls = ["{url}"]
    custom_settings = {{"ROBOTSTXT_OBEY": False, "CONCURRENT_REQUESTS_PER_DOMAIN": 12}}

    async def start(self):
        for jar in {jars!r}:
            yield scrapy.Request("{url}", meta={{"cookiejar": jar}}, dont_filter=True)

    async def parse(self, response):
        jar = response.meta["cookiejar"]
        request = scrapy.FormRequest(
            response.urljoin("/login"),
            self.members,
            formdata={{"name": f"ada{{jar or ''}}".replace(" ", "-")}},
            meta={{"cookiejar": jar}},
            dont_filter=True,
        )
        if jar != "in line":
            yield request
        else:
            engine = self.crawler.engine
            if hasattr(engine, "download_async"):
                found = await engine.download_async(request)
            else:  # Scrapy 2.13
                found = await maybe_deferred_to_future(engine.download(request))
            for one in self.members(found):
                yield one

    def members(self, response):
        meta = {{"cookiejar": response.meta["cookiejar"]}}
        for link in response.css("a"):
            yield response.follow(link, self.page, meta=meta)
        public = response.urljoin("/public")
        yield scrapy.Request(public, self.page, meta={{**meta, "dont_merge_cookies": True}})

    def page(self, response):
        yield {{"upc": response.url, "says": response.text}}
"""
NAMES = ("ada", "ada2", "adain-line")


STRANGER = """
import scrapy


class Stranger(scrapy.Spider):
    name = "stranger"
    custom_settings = {{"ROBOTSTXT_OBEY": False}}

    async def start(self):
        for path, more in {{
            "plain": {{}},
            "logged": {{"errback": self.log_it}},
            "stored": {{"errback": self.store}},
            "named": {{"meta": {{"handle_httpstatus_list": [401]}}}},
            "any": {{"meta": {{"handle_httpstatus_all": True}}}},
        }}.items():
            yield scrapy.Request("{url}" + path, **more)

    def parse(self, response):
        pass

    def log_it(self, failure):
        pass

    def store(self, failure):
        yield {{"upc": failure.value.response.url}}
"""


def start_members(cluster, web, jars, nodes, **settings):
    """Nodes that begin together."""
    file = cluster.folder / "members.py"
    file.write_text(SPIDER.format(url=web.url(host="127.0.0.1"), jars=jars))
    cluster.create_paused()
    return [cluster.start("runspider", str(file), **settings) for _ in range(nodes)]


def test_three_nodes_share_the_log_ins_of_three_members(
    open_shop, open_members, make_cluster, until
):
    site, web = open_members(pages=60, latency_s=0.1)
    cluster = make_cluster(open_shop(books=50))
    nodes = start_members(cluster, web, jars=[None, 2, "in line"], nodes=3)
    until(lambda: len(cluster.ask(live_workers)) == 3)

    cluster.set_state(State.RUNNING)

    assert {node.finish() for node in nodes} == {"finished"}
    said = {
        item["upc"].rpartition(":")[2].partition("/")[2]: item["says"] for item in cluster.items()
    }
    public = said.pop("public")
    assert said == {f"{name}/{n}": name for name in NAMES for n in range(60)}
    assert public == "no cookie"
    assert Counter(site.logins) == dict.fromkeys(NAMES, 1)
    shares = sorted(node.stat("scheduler/dequeued") for node in nodes)
    assert shares[1] > 5, f"one node did it all: {shares}"
    assert cluster.dead() == {}
    cluster.assert_accounted_for()


def test_a_refusal_that_no_callback_asked_for_is_a_dead_letter(
    open_shop, open_members, make_cluster
):
    _, web = open_members(pages=1)
    cluster = make_cluster(open_shop(books=50))
    file = cluster.folder / "stranger.py"
    url = web.url(host="127.0.0.1")
    file.write_text(STRANGER.format(url=url))

    assert cluster.start("runspider", str(file)).finish() == "finished"

    barren = "401 Unauthorized: neither a request nor an item came of it"
    expected = {"plain": "401 Unauthorized", "logged": barren, "any": barren}
    assert cluster.dead() == {url + path: reason for path, reason in expected.items()}
    assert cluster.stats().done == 2
    cluster.assert_accounted_for()


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2))
def test_members_pages_are_complete_although_nodes_are_killed(
    open_shop, open_members, make_cluster, until, seed
):
    chance = random.Random(seed)
    _, web = open_members(pages=500, latency_s=0.1)
    cluster = make_cluster(open_shop(books=50))
    settings = {"SKITTER_LEASE_S": 3}
    nodes = start_members(cluster, web, jars=[None], nodes=3, **settings)
    cluster.set_state(State.RUNNING)

    for _ in range(5):
        asked = len(web.asked)
        until(lambda asked=asked: len(web.asked) > asked + 60 or cluster.stats().crawled)
        nodes.pop(chance.randrange(len(nodes))).kill()
        nodes.append(cluster.start("runspider", str(cluster.folder / "members.py"), **settings))

    assert {node.finish() for node in nodes} == {"finished"}
    fetched = {item["upc"] for item in cluster.items() if item["says"] == "ada"}
    assert len(fetched) == 500
    assert cluster.dead() == {}
    cluster.assert_accounted_for()
