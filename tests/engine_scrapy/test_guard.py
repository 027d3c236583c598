"""Nodes do not go to private addresses that nobody allowed, and a node that stands still ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
from scrapy import Request
from scrapy.utils.test import get_crawler

from skitter.errors import AddressRefused
from skitter.scrapy.compatibility import check_settings
from skitter.scrapy.inside.outbound import GuardMiddleware
from spellings import LOGINS, PUBLIC

pytestmark = pytest.mark.timeout(300)


class Secret(BaseHTTPRequestHandler):
    """What must not be reached; it is also who redirects there."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path, _, to = self.path.partition("?")
        if path == "/moved":
            self.send_response(302)
            port = self.headers["Host"].rpartition(":")[2]
            self.send_header("Location", f"http://{unquote(to)}:{port}/redirected")
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


def test_a_redirect_of_an_allowed_host_is_judged_too_and_what_is_allowed_is_fetched(
    open_shop, make_cluster, serve
):
    port, asked = serve()
    hosts = ["127.0.0.1", "user@127.0.0.1", "[::ffff:7f00:1%251]"]
    cluster = make_cluster(open_shop(books=50))
    cluster.push(*(f"http://localhost:{port}/{path}" for path in ("open", "moved?[::1%25lo]")))
    cluster.push(*(f"http://localhost:{port}/moved?{host}" for host in hosts))
    cluster.push(*(f"http://{host}:{port}/message" for host in hosts))

    node = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=2, SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    assert [one["upc"].rpartition("/")[2] for one in cluster.items()] == ["open"]
    assert {reason.partition(":")[0] for reason in cluster.dead().values()} == {"AddressRefused"}
    assert Counter(url.rpartition("/")[2] for url in cluster.dead()) == {
        "redirected": 4,
        "message": 3,
    }
    reached = Counter(one.partition("?")[0] for one in asked if one != "/robots.txt")
    assert reached == {"/moved": 4, "/open": 1}


def test_a_resolver_that_scrapy_installs_later_judges_too_and_public_hosts_pass():
    """CrawlerProcess does so in start(), when spiders may be open."""
    program = """
import sys
from scrapy import Request
from scrapy.utils.test import get_crawler
from twisted.internet import reactor
from skitter.scrapy.compatibility import check_settings
from skitter.scrapy.inside.outbound import GuardMiddleware, JudgingNames

guard = GuardMiddleware(get_crawler(settings_dict={"TWISTED_REACTOR_ENABLED": True}))
reactor.installResolver(reactor.resolver)
for host in sys.argv[1:]:
    guard.process_request(Request(f"http://{host}/"))
guard.process_request(Request("https://example.com/" + 9_000 * "x"))
print(isinstance(reactor.nameResolver, JudgingNames))
"""
    hosts = [*PUBLIC, *(f"{login}example.com" for login in LOGINS)]
    done = subprocess.run(
        [sys.executable, "-c", program, *hosts],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.stdout == "True\n", done.stderr


def test_the_guard_is_off_by_a_setting(open_shop, make_cluster, serve, monkeypatch):
    port, asked = serve()
    monkeypatch.setenv("SECRETS", f"http://127.0.0.1:{port}/link http://name.test:{port}/name")
    cluster = make_cluster(open_shop(books=50))

    node = cluster.run_odd("lured", SKITTER_ALLOW_HOSTS="", SKITTER_GUARD=False)

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


@pytest.mark.parametrize("host", ["n%61me.test", "name%2etest", "name.test%2e", "%31.test:81"])
def test_a_name_that_is_not_the_one_judged_is_refused(host):
    """Requests of media pipelines come here as they were written. To Scrapy's clients, an escape is
    a part of the name, and DNS may have another address for it."""
    guard = GuardMiddleware(get_crawler(settings_dict={"TWISTED_REACTOR_ENABLED": False}))
    with pytest.raises(AddressRefused, match="escapes in its host"):
        guard.process_request(Request(f"http://{host}/"))


def test_the_old_name_of_the_setting_for_private_hosts_works_and_its_new_name_is_told(caplog):
    crawler = get_crawler(settings_dict={"SKITTER_ALLOWED_HOSTS": "old.test,older.test"})

    check_settings(crawler.settings, "shop")

    assert GuardMiddleware(crawler).guard.allowed_hosts == {"old.test", "older.test"}
    told = "the setting SKITTER_ALLOWED_HOSTS is called SKITTER_ALLOW_HOSTS now: rename it."
    assert caplog.messages == [told]


def test_a_misspelled_setting_of_scrapy_redis_is_told_and_those_of_the_project_are_not(caplog):
    own = {"REDIS_CACHE_URL": "redis://cache", "REDIS_TTL": 5, "SCHEDULER_NODES": 3}
    crawler = get_crawler(settings_dict={**own, "REDIS_START_URL_KEY": "shop:urls"})

    check_settings(crawler.settings, "shop")

    told = "there is no setting REDIS_START_URL_KEY: did you mean REDIS_START_URLS_KEY?"
    assert caplog.messages == [told]
