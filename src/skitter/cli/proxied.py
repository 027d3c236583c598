"""How commands without a job fetch: like the workers of a crawl."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.app import open_server
from skitter.cli.output import print_progress
from skitter.fetch import Fetcher, Guard
from skitter.settings import Config, WorkerConfig

if TYPE_CHECKING:
    from skitter.fetch.render import Renderer

NO_FREE_PROXY = (
    "no proxy is free: all are resting, or their budgets are spent (`skitter proxy stats`)."
)


def worker_config(config: Config) -> WorkerConfig:
    """The configuration that a worker would get for fetching."""
    return WorkerConfig(
        fetch=config.fetch,
        workers=config.workers,
        browser=config.browser,
        proxies=config.proxies,
        routes=config.routes,
    )


@asynccontextmanager
async def open_proxied(config: Config, client: Fetcher, guard: Guard) -> AsyncIterator[Fetcher]:
    """Fetch through the configured proxies, if any: a crawl that uses proxies must not expose its
    own address. Their budgets and records are on the server."""
    if not config.proxies:
        yield client
        return
    from skitter.worker.routed import RoutedFetcher, open_routes  # most have no proxies

    async with (
        open_server(config.server, progress=print_progress) as server,
        open_routes(server, worker_config(config), lambda _, text: print_progress(text)) as opened,
    ):
        routes, api = opened
        yield RoutedFetcher(client, routes, guard, api)


def renderer_by_routes(renderer: Renderer, client: Fetcher) -> Renderer:
    """A browser that uses the same routes as the client."""
    from skitter.worker.routed import RoutedFetcher, RoutedRenderer

    return RoutedRenderer(client, renderer) if isinstance(client, RoutedFetcher) else renderer
