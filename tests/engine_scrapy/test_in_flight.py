"""How many requests of one host are under way at once, by what its server sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytestmark = pytest.mark.timeout(300)

PAGES, MAX_IN_FLIGHT = 120, 3


class Counting(ThreadingHTTPServer):
    """Counts what it works on."""

    def __init__(self) -> None:
        super().__init__(("localhost", 0), Page)
        self.lock, self.now, self.most, self.pages = threading.Lock(), 0, 0, 0

    def note(self, by: int) -> None:
        with self.lock:
            self.now += by
            self.most, self.pages = max(self.most, self.now), self.pages + max(0, by)


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Counting

    def do_GET(self) -> None:
        self.server.note(1)
        time.sleep(0.05)  # the page takes its time; nobody waits for that
        links = "".join(f"<a href='/{n}'>x</a>" for n in range(PAGES))
        body = f"<html><body>{links if self.path == '/' else ''}</body></html>".encode()
        self.server.note(-1)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def site() -> Iterator[Counting]:
    with Counting() as counting:
        threading.Thread(target=counting.serve_forever, daemon=True).start()
        yield counting
        counting.shutdown()


def test_a_node_alone_holds_more_than_may_be_in_flight_and_no_more_are_in_flight_with_two(
    site, open_shop, make_cluster, until, monkeypatch
):
    cluster = make_cluster(open_shop(books=50))
    monkeypatch.setattr(cluster.shop, "url", f"http://localhost:{site.server_port}/")
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": MAX_IN_FLIGHT, "SCHEDULER_PERSIST": True}
    first = cluster.run_odd("counted", **settings)
    until(lambda: cluster.stats().leased > MAX_IN_FLIGHT if "node started" in first.log else False)

    second = cluster.run_odd("counted", **settings)

    assert [node.finish() for node in (first, second)] == ["finished", "finished"]
    assert site.pages >= PAGES
    assert site.most <= MAX_IN_FLIGHT
    cluster.assert_accounted_for()
