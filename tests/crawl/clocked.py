"""A site that notes when each request arrives, by its own clock, in a thread of its own."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, pairwise
from typing import Any

from clocks import arrived_at


@dataclass
class ClockedSite:
    """Its first page links to all others; robots.txt may take its time."""

    pages: int
    robots_s: float = 0.0
    robots: str = "User-agent: *\nDisallow: /secret\n"
    moved: bool = False  # each page is first elsewhere, in another spelling of its address
    latency_s: float = 0.0  # of each page
    busy: dict[str, str] = field(default_factory=dict)  # path -> Retry-After, the first time
    guarded: dict[str, int] = field(default_factory=dict)  # path -> status of a packed block page
    url: str = ""
    ends: list[float] = field(default_factory=list)
    arrivals: list[tuple[float, str]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for _, path in self.arrivals]

    @property
    def gaps(self) -> list[float]:
        """Between any two requests that followed each other, robots.txt among them."""
        moments = sorted(moment for moment, _ in self.arrivals)
        return [after - before for before, after in pairwise(moments)]

    @property
    def most_in_flight(self) -> int:
        """How many requests were under way together, by this site's own log."""
        moments = [(moment, 1) for moment, _ in self.arrivals] + [(end, -1) for end in self.ends]
        return max(accumulate(change for _, change in sorted(moments)))

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path == "/robots.txt":
            time.sleep(self.robots_s)
            return 200, {}, self.robots.encode()
        time.sleep(self.latency_s)
        if wait := self.busy.pop(path, None):
            return 503, {"retry-after": wait}, b""
        if status := self.guarded.get(path):
            page = gzip.compress(b"<html><title>Just a moment...</title></html>")
            return status, {"content-type": "text/html", "content-encoding": "gzip"}, page
        if self.moved and "utm_source" not in path:
            return 302, {"location": f"{path}?utm_source=here"}, b""
        links = (f'<a href="/p/{number}">{number}</a>' for number in range(1, self.pages))
        body = "".join(links) if path.partition("?")[0] == "/" else "the end"
        return 200, {"content-type": "text/html"}, f"<title>{path}</title>{body}".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, site: ClockedSite, *args: Any) -> None:
        self._site = site
        super().__init__(*args)

    def do_GET(self) -> None:
        self._site.arrivals.append((arrived_at(self.connection), self.path))
        status, headers, body = self._site.answer(self.path)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self._site.ends.append(time.monotonic())
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def clocked_site(**options: Any) -> Iterator[ClockedSite]:
    site = ClockedSite(**options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, site))
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
