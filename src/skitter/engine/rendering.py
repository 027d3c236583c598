"""Fetch a page or render it, as its handler wants or the page needs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from skitter.frontier.sites.learned import Rendering, read_rendering, rendering_field
from skitter.observe.metrics import Recorder
from skitter.patterns import shape_of

if TYPE_CHECKING:
    from skitter.engine.visit import Visit
    from skitter.fetch.browser.render import Renderer
    from skitter.fetch.http.fetcher import Fetcher, Leave
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease, Request, Response
    from skitter.spider.run import HandlerOutput
    from skitter.spider.spider import Spider


#: Key of `Request.meta`: how many items and links plain HTML brought.
PLAIN_YIELD: Final = "_plain_yield"


@dataclass(frozen=True, slots=True)
class BrowserFetcher:
    """A fetcher: the browser for handlers that render, the client for the others."""

    spider: Spider
    client: Fetcher
    renderer: Renderer
    figures: Recorder = field(default_factory=Recorder)

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        how = self.spider.render_of(request)
        if how is None or (how.auto and not request.lane):
            return await self.client.fetch(request, leave=leave, proxy=proxy)
        started = perf_counter()
        try:
            return await self.renderer.render(request, how, leave=leave, proxy=proxy)
        finally:
            took_ms = 1000 * (perf_counter() - started)
            self.figures.time("browser", took_ms)
            self.figures.count("browser_ms", round(took_ms))


def for_browser(request: Request, *, plain_yield: int | None = None) -> Request:
    """The same page in the browser lane, made `unique` as the frontier knows the page already."""
    meta = request.meta if plain_yield is None else request.meta | {PLAIN_YIELD: plain_yield}
    unique = f"{request.unique}browser"
    return msgspec.structs.replace(request, lane="browser", unique=unique, meta=meta)


FRESH_S: Final = 2.0
MAX_SHAPES: Final = 10_000
EXPLORED: Final = 10  # one page in this many


@dataclass(slots=True)
class Adaptive:
    """Decides, for handlers with render="auto", which pages need a browser.

    A page without items is retried in the browser lane. The results are counted per URL shape, and
    once it is clear what a shape needs, only a tenth of its pages are tried the other way.
    """

    spider: Spider
    frontier: Frontier
    _known: dict[str, tuple[float, Rendering]] = field(default_factory=dict)

    def applies(self, request: Request) -> bool:
        how = self.spider.render_of(request)
        return how is not None and how.auto

    async def needs_browser(self, lease: Lease) -> bool:
        """Whether to skip plain HTML."""
        return (await self._ask(lease)).needs_browser and not _explores(lease.url)

    async def try_again(self, visit: Visit, output: HandlerOutput) -> Request | None:
        """The same page for a browser, if plain HTML did not bring enough. What was learned is sent
        when the lease ends."""
        lease, found = visit.lease, len(output.items) + len(output.requests)
        before = lease.request.meta.get(PLAIN_YIELD)
        if lease.request.lane:
            if isinstance(before, int):
                more = bool(output.items) or found > before
                visit.feedback.rendering = rendering_field(
                    lease.url, "browser" if more else "neither"
                )
            return None
        if output.items:
            visit.feedback.rendering = rendering_field(lease.url, "plain")
            return None
        if (await self._ask(lease)).is_hopeless and not _explores(lease.url):
            return None
        return for_browser(lease.request, plain_yield=found)

    async def _ask(self, lease: Lease) -> Rendering:
        shape, now = shape_of(lease.url), time.monotonic()
        known = self._known.pop(shape, None)
        if known is None or known[0] < now:
            counts = await read_rendering(self.frontier, lease.host, lease.url)
            known = now + FRESH_S, counts
        self._known[shape] = known
        if len(self._known) > MAX_SHAPES:
            del self._known[next(iter(self._known))]
        return known[1]


def _explores(url: str) -> bool:
    return crc32(url.encode("utf-8", "replace")) % EXPLORED == 0
