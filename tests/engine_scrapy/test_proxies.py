"""A request from Redis does not choose the proxy, unless the node allows that one."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scrapy.settings import Settings

from skitter.errors import UsageError
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.model import Request
from skitter.scrapy.inside.outbound import StoredProxies

pytestmark = pytest.mark.timeout(300)

PAGES = ["http://routed.example/first", "http://routed.example/second"]


@pytest.fixture
def shop(open_shop):
    return open_shop(books=50)


@dataclass
class Proxy:
    """Answers for the whole web: at first 503, then a page."""

    port: int = 0
    never: bool = False  # answers 503 to everything
    asked: Counter[str] = field(default_factory=Counter)
    said: set[str | None] = field(default_factory=set)  # who asks, to the proxy

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def proxy(monkeypatch) -> Iterator[Proxy]:
    found = Proxy()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked[self.path] += 1
            found.said.add(self.headers["Proxy-Authorization"])
            self.send_response(503 if found.never or found.asked[self.path] == 1 else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        monkeypatch.setenv("PROXY", found.url)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def test_a_stored_request_does_not_choose_the_proxy(shop, make_cluster, proxy):
    cluster = make_cluster(shop)
    meta = {"fields": {"meta": {"proxy": proxy.url}}}

    async def plant() -> None:
        async with connect(cluster.server_url) as server:
            frontier = await create_job(server, cluster.job)
            await frontier.add([Request(url="http://bank.example/", meta=meta)])

    asyncio.run(plant())
    node = cluster.run_odd("routed", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert "http://bank.example/" not in proxy.asked
    [(url, reason)] = cluster.dead().items()
    assert url == "http://bank.example/"
    assert "add its host to SKITTER_PROXIES" in reason
    cluster.assert_accounted_for()


def test_what_a_middleware_chooses_is_chosen_again_for_retries_and_links(shop, make_cluster, proxy):
    cluster = make_cluster(shop)

    node = cluster.run_odd("routed", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert [one["upc"] for one in cluster.items()] == PAGES
    assert proxy.asked == dict.fromkeys(PAGES, 2), "each was asked for again, by the same proxy"
    assert cluster.dead() == {}
    cluster.assert_accounted_for()


def test_the_password_of_a_proxy_that_a_middleware_chooses_is_not_stored(
    shop, make_cluster, proxy, monkeypatch
):
    monkeypatch.setenv("PROXY", f"http://user:pass-word@127.0.0.1:{proxy.port}")
    proxy.never = True
    cluster = make_cluster(shop)

    node = cluster.run_odd("routed", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert proxy.asked == {PAGES[0]: 3}
    assert proxy.said == {f"Basic {b64encode(b'user:pass-word').decode()}"}
    [letter] = cluster.json("dead", "list", cluster.job, "--with-secrets")
    assert letter["url"] == PAGES[0]
    assert "Proxy-Authorization" not in str(letter)
    assert "proxy" not in str(letter["request"])


@pytest.mark.parametrize(
    "spelling", ["http://user:pass-word@{}", "user:pass-word@{}", "//user:pass-word@{}"]
)
def test_no_command_shows_the_password_of_a_stored_proxy_unless_asked(
    shop, make_cluster, proxy, tmp_path, spelling
):
    """The spider chooses it, so it is stored; the node does not allow it, so the page is dead."""
    cluster = make_cluster(shop)
    place = spelling.format(f"127.0.0.1:{proxy.port}")
    meta = {"fields": {"meta": {"proxy": place}}}

    async def plant() -> None:
        async with connect(cluster.server_url) as server:
            frontier = await create_job(server, cluster.job)
            await frontier.add([Request(url="http://bank.example/", meta=meta)])

    asyncio.run(plant())
    node = cluster.run_odd("routed", SCHEDULER_PERSIST=True)
    assert node.finish() == "finished"
    job, file = cluster.job, tmp_path / "dead.jsonl"

    shown = [
        cluster.skitter("dead", "list", job, "--json"),
        cluster.skitter("dead", "show", job, "http://bank.example/"),
        cluster.skitter("dead", "show", job, "http://bank.example/", "--json"),
        cluster.skitter("why", job, "http://bank.example/"),
        cluster.skitter("why", job, "http://bank.example/", "--json"),
        cluster.skitter("dead", "export", job, "--to", str(file)),
        cluster.skitter("logs", job),
    ]

    assert [one.returncode for one in shown] == [0] * len(shown), [one.stderr for one in shown]
    assert "proxy" in file.read_text()
    everything = "".join([node.log, file.read_text(), *(one.stdout + one.stderr for one in shown)])
    assert "pass-word" not in everything
    assert place in str(cluster.json("dead", "list", job, "--with-secrets"))


@pytest.mark.parametrize("allowed", ["127.0.0.1", "*", ""])
def test_a_spider_chooses_proxies_that_the_node_allows(shop, make_cluster, proxy, allowed):
    cluster = make_cluster(shop)

    node = cluster.run_odd("routed", SCHEDULER_PERSIST=True, SKITTER_PROXIES=allowed, CHOSEN=True)

    assert node.finish(code=0 if allowed else 1) == "finished"  # 1: every request died
    assert [one["upc"] for one in cluster.items()] == (PAGES if allowed else [])
    assert ("add its host to SKITTER_PROXIES" in node.log) is (not allowed)


@pytest.mark.parametrize(
    ("proxy", "is_named"),
    [
        ("http://gate.example:8000", True),
        ("http://user:pw@GATE.example:8000/", True),
        ("gate.example:8000", True),
        ("http://lan:3128", True),
        ("lan", True),
        ("http://[::1]:3128", True),
        (None, True),
        ("", True),
        ("http://user:pw@gate.example:8001", False),
        ("http://gate.example", False),
        ("http://gate.example:8000?@evil.example:1", False),
        ("http://gate.example:8000#@evil.example:1", False),
        ("http://gate.example:8000\\@evil.example:1", False),
        ("http://evil.example:1?@gate.example:8000", False),
        ("http://gate.example:8000@evil.example:1", False),
        ("http://a@gate.example:8000@evil.example:1", False),
        ("http://gate.example:8000\n@evil.example", False),
        ("socks5://gate.example:8000", False),
        (["http://gate.example:8000"], False),
        (7, False),
    ],
)
def test_a_proxy_is_named_by_its_host_or_by_host_and_port(proxy, is_named):
    proxies = StoredProxies(Settings({"SKITTER_PROXIES": "gate.example:8000,LAN,[::1]"}))

    refused = nullcontext() if is_named else pytest.raises(UsageError, match="SKITTER_PROXIES")
    with refused as error:
        proxies.check({"proxy": proxy})
    assert "pw" not in str(error)
