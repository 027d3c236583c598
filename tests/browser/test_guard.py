"""The guard below a real Chromium: whatever a page tries, no private address hears of it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from browser.web import html
from fetch.site import Site, redirect, reply, serve
from needs import need
from skitter.errors import AddressRefused
from skitter.fetch.browser.render import Render
from skitter.fetch.browser.renderer import BrowserRenderer
from skitter.fetch.http.guard import Guard
from skitter.model import Request

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVERYTHING = Render(wait_for=".over", block=())
METADATA = "http://169.254.169.254/latest/meta-data/"

#: Each attempt asks for a path of its own name; `over` when all have failed or succeeded,
#: or had the time for it: whoever never gets an answer did not get through either.
ATTEMPTS = """<body><script>
const to = "TARGET", ws = to.replace('http', 'ws')
const event = (thing, good, bad) => new Promise(done => { thing[good] = thing[bad] = done })
const put = (tag, name) => {
  const element = document.body.appendChild(document.createElement(tag))
  element.src = `${to}${name}`
  return event(element, 'onload', 'onerror')
}
const inWorker = name => {
  const tell = '() => postMessage(1)'
  const code = `fetch("${to}${name}", {mode: 'no-cors'}).then(${tell}, ${tell})`
  return event(new Worker(URL.createObjectURL(new Blob([code]))), 'onmessage', 'onerror')
}
const popup = async name => {
  window.open(`${to}${name}`)
  await new Promise(done => setTimeout(done, 500))
}
const stun = async () => {
  const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:STUN'}]})
  peer.createDataChannel('x')
  await peer.setLocalDescription()
  await new Promise(done => setTimeout(done, 300))
}
const beacon = async name => navigator.sendBeacon(`${to}${name}`, 'x')
const patience = new Promise(done => setTimeout(done, 10_000))
const over = Promise.allSettled([
  put('img', 'image'), put('iframe', 'iframe'), put('script', 'script'),
  fetch(`${to}xhr`, {mode: 'no-cors'}),
  event(new WebSocket(`${ws}websocket`), 'onopen', 'onerror'),
  event(new EventSource(`${to}events`), 'onopen', 'onerror'),
  inWorker('worker'), popup('popup'), beacon('beacon'), stun(),
])
Promise.race([over, patience]).then(() => document.body.className = 'over')
</script>"""
WAYS = {"image", "iframe", "script", "xhr", "websocket", "events", "worker", "popup", "beacon"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def inside() -> AsyncIterator[Site]:
    """A server of the same machine that is nobody's business."""
    async with serve({}) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with serve({}) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renderer(site: Site) -> AsyncIterator[BrowserRenderer]:
    need("chromium")
    guard = Guard(frozenset({f"127.0.0.1:{site.port}"}))
    async with BrowserRenderer(guard=guard) as renderer:
        yield renderer


@pytest.fixture
def stun() -> Iterator[socket.socket]:
    """Where WebRTC would send a packet past the proxy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


async def test_nothing_that_a_page_loads_reaches_a_private_address(
    renderer: BrowserRenderer, site: Site, inside: Site, stun: socket.socket
) -> None:
    def attempts(target: str) -> bytes:
        port = stun.getsockname()[1]
        return html(ATTEMPTS.replace("TARGET", target).replace("STUN", str(port)))

    own = site.url("/to/")
    targets = {
        "/own": own,
        "/inside": inside.url("/to/"),
        "/localhost": inside.url("/to/", host="localhost"),
        "/metadata": METADATA,
    }
    site.pages = {path: attempts(target) for path, target in targets.items()}
    site.pages |= {f"/to/{way}": reply(b"", "content-type: text/html") for way in WAYS}
    for path in targets:
        page = await renderer.render(Request(url=site.url(path)), EVERYTHING)
        assert page.status == 200
    assert {f"/to/{way}" for way in WAYS} <= set(site.paths), "the ways work where they may"
    assert not inside.connections
    with pytest.raises(BlockingIOError):
        stun.recv(100)


@pytest.mark.parametrize("way", ["302", "refresh", "script"])
@pytest.mark.parametrize("target", ["inside", "metadata"])
async def test_a_page_that_leads_to_a_private_address_is_refused(
    renderer: BrowserRenderer, site: Site, inside: Site, way: str, target: str
) -> None:
    url = METADATA if target == "metadata" else inside.url("/secret")
    site.pages = {
        "/302": redirect(url),
        "/refresh": html(f"<meta http-equiv=refresh content='0;url={url}'>"),
        "/script": html(f"<script>location = '{url}'</script>"),
    }
    with pytest.raises(AddressRefused):
        await renderer.render(Request(url=site.url(f"/{way}")), Render())
    with pytest.raises(AddressRefused):
        await renderer.render(Request(url=url), Render())
    assert not inside.connections
