"""A worker and its parts, opened from a spider and its configuration."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from skitter.engine.attempt import Attempts
from skitter.engine.delivery import Delivery
from skitter.engine.departures import Departures
from skitter.engine.loop import Worker
from skitter.engine.parts import Parts, WorkerOptions, session_pool_of
from skitter.engine.pulse import Figures, FoundItems, Handled
from skitter.engine.stages.on_error import OnError
from skitter.fetch.http.fetcher import HttpFetcher
from skitter.fetch.http.guard import Guard, Resolver
from skitter.frontier.delays import Share
from skitter.frontier.frontier import GENTLE_BATCH
from skitter.observe.logs import ClusterLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skitter.engine.keeping import Archived
    from skitter.fetch.browser.render import Renderer
    from skitter.fetch.browser.renderer import BrowserRenderer
    from skitter.fetch.http.fetcher import Fetcher
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lane
    from skitter.settings import WorkerConfig
    from skitter.spider.spider import Spider


@asynccontextmanager
async def open_worker(
    frontier: Frontier,
    spider: Spider,
    config: WorkerConfig,
    *,
    fetcher: Fetcher | None = None,
    options: WorkerOptions | None = None,
) -> AsyncIterator[Worker]:
    """A worker; `await worker.run()` works until the crawl has finished.

    `fetcher`: used instead of the HTTP client, and opened by the caller. `options`: how this
    process runs, if not just as configured.
    """
    if os.nice(0) > 0:  # others, who wait for the same server, go first
        frontier.complete_batch = GENTLE_BATCH
    if spider.hooks.joined:
        await spider.hooks.joined(frontier)
    seeds = [seed.url for seed in spider.known_seeds] if config.trusts_seeds else []
    guard = Guard.for_seeds(seeds, also=config.fetch.allow_hosts)
    async with AsyncExitStack() as stack:
        figures, log = Figures(), ClusterLog()
        resolver = Resolver(on_answer=lambda took_s: figures.time("dns", 1000 * took_s))
        stack.push_async_callback(resolver.close)
        web = _Web(frontier, spider, config, guard, resolver, figures)
        http, renderer = (fetcher, None) if fetcher else await web.open(stack)
        if config.proxies and not config.archive.offline:
            http, renderer = await web.open_routes(stack, http, renderer, log)
        departures = Departures(frontier, resolver)
        archived = archived_of(config, frontier.job, log) if config.archive.is_on else None
        if archived:
            stack.push_async_callback(archived.close)
        parts = Parts(
            spider, http, config, guard, frontier, departures, renderer, archived, log, figures
        )
        default = spider.default or ""
        delivery = Delivery(
            frontier, parts.memory, log, departures,
            quality=FoundItems(default), handled=Handled(default), figures=figures,
        )  # fmt: skip
        delivery.archived, delivery.failed = archived, parts.failed
        if spider.hooks.error:
            delivery.on_given_up = partial(OnError(parts).call, spider.hooks.error)
        options = replace(options or WorkerOptions.of(config), lanes=lanes_of(spider, config))
        with log.attached():
            worker = Worker(frontier, Attempts(parts), delivery, log, options)
            if options.share:
                worker.share = Share.of(frontier.server, frontier.job, options.share)
            yield worker


@dataclass(frozen=True, slots=True)
class _Web:
    """Opens what fetches pages."""

    frontier: Frontier
    spider: Spider
    config: WorkerConfig
    guard: Guard
    resolver: Resolver
    figures: Figures

    async def open(self, stack: AsyncExitStack) -> tuple[Fetcher, Renderer | None]:
        """The HTTP client, and a browser for a spider that wants one; or the archive."""
        if self.config.archive.offline:
            from skitter.archive.index import Archive
            from skitter.archive.playback import SUFFIX, ArchiveFetcher

            job, limit = self.frontier.job.removesuffix(SUFFIX), self.config.fetch.max_body_bytes
            archive = Archive.open(self.config.archive.folder).within(job)
            return ArchiveFetcher(archive, job, limit), None
        client = HttpFetcher(self.config.fetch, guard=self.guard, resolver=self.resolver)
        fetcher = await stack.enter_async_context(client)
        if not self.spider.renders or self.config.workers.only == "http":
            return fetcher, None
        browser = renderer_of(self.config, self.guard, self.resolver)
        return fetcher, await stack.enter_async_context(browser)

    async def open_routes(
        self, stack: AsyncExitStack, fetcher: Fetcher, renderer: Renderer | None, log: ClusterLog
    ) -> tuple[Fetcher, Renderer | None]:
        """The same, through the configured proxies."""
        from skitter.engine.proxies.routed import (  # most have no proxies
            RoutedRenderer,
            open_routed,
        )

        routed = await stack.enter_async_context(
            open_routed(fetcher, self.frontier, self.config, guard=self.guard, log=log)
        )
        routed = replace(routed, figures=self.figures)
        return routed, RoutedRenderer(routed, renderer) if renderer else None


def archived_of(config: WorkerConfig, job: str, log: Callable[[str, str], None]) -> Archived:
    """What keeps the pages of a worker."""
    from skitter.archive.store import Store  # most crawls keep no pages
    from skitter.archive.writer import ArchiveWriter
    from skitter.engine.keeping import Archived

    options = config.archive
    writer = ArchiveWriter(options.folder, job, log, max_file_bytes=10**6 * options.max_file_mb)
    return Archived(writer, Store(options.store) if options.store else None)


def renderer_of(
    config: WorkerConfig, guard: Guard, resolver: Resolver | None = None
) -> BrowserRenderer:
    """The browser, which starts on its first page. Raises BrowserMissing."""
    from skitter.fetch.browser.chromium import check_browser
    from skitter.fetch.browser.renderer import BrowserRenderer  # most spiders need none

    check_browser(config.browser)
    return BrowserRenderer(
        config.browser,
        fetch=config.fetch,
        guard=guard,
        resolver=resolver,
        keeps_cookies=session_pool_of(config).cookies,
    )


def has_plain_pages(spider: Spider) -> bool:
    """Whether some of its pages need no browser."""
    return spider.is_adaptive or not spider.renders.keys() >= spider.handlers.keys()


def lanes_of(spider: Spider, config: WorkerConfig) -> dict[Lane, int]:
    """How many pages of each lane a worker has in flight; empty: plain HTTP only."""
    slots: dict[Lane, int] = {"": config.workers.concurrency, "browser": config.browser.concurrency}
    if config.workers.only == "browser":
        return {"browser": slots["browser"]}
    if not has_plain_pages(spider):
        slots[""] = slots["browser"]  # pages pushed without a lane are rendered too
    return slots if spider.renders and config.workers.only is None else {}
