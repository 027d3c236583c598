"""Nodes do not go to private addresses that nobody allowed, and a node that stands still ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytestmark = pytest.mark.timeout(300)


class Secret(BaseHTTPRequestHandler):
    """What must not be reached; it is also who redirects there."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/moved":
            self.send_response(302)
            port = self.headers["Host"].rpartition(":")[2]
            self.send_header("Location", f"http://127.0.0.1:{port}/redirected")
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def serve() -> Iterator[object]:
    servers: list[ThreadingHTTPServer] = []

    def serve_one() -> tuple[int, list[str]]:
        asked: list[str] = []
        kind = type("Handler", (Secret,), {"asked": asked})
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), kind))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1].server_port, asked

    yield serve_one
    for one in servers:
        one.shutdown()
        one.server_close()


@pytest.mark.parametrize("reactor", [True, False])
def test_links_redirects_and_names_do_not_lead_to_private_addresses(
    open_shop, make_cluster, serve, monkeypatch, reactor
):
    port, asked = serve()
    monkeypatch.setenv("SECRET", str(port))
    shop = open_shop(books=50)
    cluster = make_cluster(shop)

    node = cluster.run_odd(
        "lured",
        SKITTER_ALLOWED_HOSTS="",
        SCHEDULER_PERSIST=True,
        TWISTED_REACTOR_ENABLED=reactor,
    )

    assert node.finish() == "finished"
    assert [one["upc"] for one in cluster.items()] == ["the shop itself"], "a seed allows itself"
    dead = {url.rpartition("/")[2]: reason for url, reason in cluster.dead().items()}
    for name, host in (("link", "127.0.0.1"), ("name", "name.test")):
        assert dead[name].startswith("AddressRefused")
        assert f"add '{host}:{port}' to SKITTER_ALLOWED_HOSTS" in dead[name]
    assert dead["passwd"].startswith("AddressRefused")
    assert "add 'file' to SKITTER_FEED_SCHEMES" in dead["passwd"]
    assert asked == []


def test_a_redirect_of_an_allowed_host_is_judged_too_and_what_is_allowed_is_fetched(
    open_shop, make_cluster, serve
):
    port, asked = serve()
    cluster = make_cluster(open_shop(books=50))
    cluster.push(f"http://localhost:{port}/moved", f"http://localhost:{port}/open")

    node = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=2, SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert [one["upc"].rpartition("/")[2] for one in cluster.items()] == ["open"]
    [(url, reason)] = cluster.dead().items()
    assert (url.rpartition("/")[2], reason.partition(":")[0]) == ("redirected", "AddressRefused")
    assert sorted(one for one in asked if one != "/robots.txt") == ["/moved", "/open"]


def test_a_resolver_that_scrapy_installs_later_is_judged_too(tmp_path):
    """CrawlerProcess does so in start(), when spiders may be open."""
    program = """
from scrapy import Request
from scrapy.utils.test import get_crawler
from twisted.internet import reactor
from skitter.scrapy.guard import GuardMiddleware, JudgingNames

guard = GuardMiddleware(get_crawler(settings_dict={"TWISTED_REACTOR_ENABLED": True}))
reactor.installResolver(reactor.resolver)
guard.process_request(Request("http://name.test/"))
print(isinstance(reactor.nameResolver, JudgingNames))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False
    )

    assert done.stdout == "True\n", done.stderr


def test_the_guard_is_off_by_a_setting(open_shop, make_cluster, serve, monkeypatch):
    port, asked = serve()
    monkeypatch.setenv("SECRET", str(port))
    cluster = make_cluster(open_shop(books=50))

    node = cluster.run_odd("lured", SKITTER_ALLOWED_HOSTS="", SKITTER_GUARD=False)

    assert node.finish() == "finished"
    assert sorted(asked) == ["/link", "/name"]


def test_a_node_whose_engine_stands_still_ends_itself_and_its_page_comes_back(
    open_shop, make_cluster
):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.run_odd("stuck", SKITTER_STUCK_S=3, SKITTER_LEASE_S=2, SCHEDULER_PERSIST=True)

    assert node.wait() == 1
    assert "Timeout (0:00:03)!" in node.log
    assert "in parse" in node.log, "it says where it stood"
    assert cluster.stats().done == 0
