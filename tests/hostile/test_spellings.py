"""All spellings of this machine, against everything that fetches: none may get there.

The table is tests/spellings.py; what it lets through is in tests/fetch/test_guard.py and
tests/engine_scrapy/test_guard.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from browser.web import html
from fetch.site import reply, serve
from needs import need
from skitter.errors import AddressRefused, BadURL
from skitter.fetch import FetchOptions, Guard, HttpFetcher
from skitter.fetch.browser.render import Render
from skitter.fetch.browser.renderer import BrowserRenderer
from skitter.model import Request
from spellings import spellings

#: Names whose address is this machine's, by a DNS that the spider plays.
NAMES = {"name": "name.test", "idn": "bücher.test", "login": "x@name.test", "dot": "name.test."}
ALL_AT_ONCE = """<body><script>
Promise.allSettled(URLS.map(url => fetch(url, {mode: 'no-cors'})))
  .then(() => document.body.className = 'over')
</script>"""


@pytest.mark.parametrize("client", ["wreq", "aiohttp"])
async def test_no_http_client_gets_there(client):
    async with serve({"/": reply(b"secret")}) as inside:
        async with HttpFetcher(FetchOptions(client=client)) as fetcher:
            for url in spellings(inside.port):
                with pytest.raises((AddressRefused, BadURL)):
                    await fetcher.fetch(Request(url=url))
        before = inside.connections
        allowed = Guard(frozenset({f"127.0.0.1:{inside.port}"}))
        async with HttpFetcher(FetchOptions(client=client), guard=allowed) as fetcher:
            await fetcher.fetch(Request(url=inside.url()))
        assert (before, inside.connections) == (0, 1), "it is there"


async def test_no_browser_gets_there():
    need("chromium")
    async with serve({"/": reply(b"secret")}) as inside, serve({}) as site:
        urls = spellings(inside.port)
        site.pages = {
            "/all": html(ALL_AT_ONCE.replace("URLS", json.dumps(urls))),
            "/own": html(ALL_AT_ONCE.replace("URLS", json.dumps([site.url("/heard")]))),
        }
        guard = Guard(frozenset({f"127.0.0.1:{site.port}"}))
        async with BrowserRenderer(guard=guard) as renderer:
            for path in ("/all", "/own"):
                await renderer.render(Request(url=site.url(path)), Render(wait_for=".over"))
            for url in urls[::8]:
                with pytest.raises((AddressRefused, BadURL)):
                    await renderer.render(Request(url=url), Render())
        assert "/heard" in site.paths, "scripts get where they may"
        assert not inside.connections


@pytest.fixture
def secret() -> Iterator[tuple[int, list[str]]]:
    """The port of a server that must not be reached, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, asked
        server.shutdown()


@pytest.mark.parametrize("reactor", [True, False])
def test_no_scrapy_node_gets_there(open_shop, make_cluster, secret, monkeypatch, reactor):
    port, asked = secret
    links = [f"http://{name}:{port}/{path}" for path, name in NAMES.items()]
    links += [*spellings(port), "file:///etc/passwd"]
    monkeypatch.setenv("SECRETS", "\n".join(links))
    shop = open_shop(books=50)
    cluster = make_cluster(shop)

    node = cluster.run_odd(
        "lured",
        SKITTER_ALLOW_HOSTS="",
        SCHEDULER_PERSIST=True,
        TWISTED_REACTOR_ENABLED=reactor,
    )

    assert node.finish() == "finished"
    assert asked == []
    assert [one["upc"] for one in cluster.items()] == ["the shop itself"], "a seed allows itself"
    dead = {url.rpartition("/")[2]: reason for url, reason in cluster.dead().items()}
    assert {one.rpartition("/")[2] for one in links} == dead.keys()
    other = {path for path, reason in dead.items() if not reason.startswith("AddressRefused")}
    assert other == ({"login"} if reactor else set()), "Twisted knows no credentials"
    assert f"add '127.0.0.1:{port}' to SKITTER_ALLOW_HOSTS" in dead["0"]
    assert f"add 'name.test:{port}' to SKITTER_ALLOW_HOSTS" in dead["name"]
    assert "add 'file' to SKITTER_FEED_SCHEMES" in dead["passwd"]
