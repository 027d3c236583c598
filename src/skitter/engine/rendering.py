"""Fetch a page or render it, as its handler wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

import msgspec

from skitter.metrics.recorder import Recorder

if TYPE_CHECKING:
    from skitter.fetch.client import Fetcher, Leave
    from skitter.fetch.render import Renderer
    from skitter.model import Request, Response
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
