"""The pages of a site, found without a crawl or a job: the worker's own attempts at robots.txt,
sitemaps and feeds, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.cli.one_page import lease_of
from skitter.cli.proxied import NO_FREE_PROXY, open_proxied
from skitter.domains import registrable_domain
from skitter.engine.attempt import Attempts
from skitter.engine.outcomes import Buried, Completed, Retried
from skitter.engine.parts import Parts
from skitter.engine.stages import bind
from skitter.engine.stages.directives import Directives
from skitter.engine.stages.sessions import Sessions
from skitter.fetch import Guard, HttpFetcher
from skitter.model import Request
from skitter.settings import WorkerConfig
from skitter.spider import Scope, Spider
from skitter.spider.sitemap import FEEDS, SITEMAP, discovery_request
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from skitter.page import Page
    from skitter.settings import Config

#: Limits the memory and time that a hostile site can cost us.
MAX_REQUESTS: Final = 10_000


@dataclass(slots=True)
class Survey:
    """What has been found so far."""

    url: str
    config: Config
    progress: Callable[[str], None]  # reports problems and progress
    sources: list[str] = field(default_factory=list)  # sitemaps and feeds that were read
    hosts: Counter[str] = field(default_factory=Counter)  # pages per host
    delays: dict[str, float] = field(default_factory=dict)  # that hosts ask for, in seconds
    from_links: bool = False  # no sitemap or feed was found

    @property
    def eta_s(self) -> float:
        """How long a crawl takes: hosts are crawled in parallel, each at its own pace."""
        return max((number * self.delay_s(host) for host, number in self.hosts.items()), default=0)

    def delay_s(self, host: str) -> float:
        return max(self.config.politeness.delay_s, self.delays.get(host, 0.0))

    async def pages(self) -> AsyncIterator[Request]:
        """The pages, each once. Raises BadURL."""
        fetch, target = self.config.fetch, identify(self.url)
        guard = Guard.for_seeds([target.url], also=fetch.allow_hosts)
        async with (
            HttpFetcher(fetch, guard=guard) as client,
            open_proxied(self.config, client, guard) as fetcher,
        ):
            parts = Parts(_looker(), fetcher, WorkerConfig(fetch=fetch), guard)
            attempts = Attempts(parts, bind(parts, without=(Directives, Sessions)))
            walk = _Walk(self, attempts, registrable_domain(target.host))
            async for page in walk.pages(discovery_request(target.url), Request(url=target.url)):
                yield page


@dataclass(slots=True)
class _Walk:
    """Makes one request after another, each when its host's delay allows."""

    survey: Survey
    attempts: Attempts
    site: str
    _queue: deque[Request] = field(default_factory=deque)
    _seen: set[str] = field(default_factory=set)
    _asked_at: dict[str, float] = field(default_factory=dict)
    _requests: int = 0

    async def pages(self, robots: Request, home: Request) -> AsyncIterator[Request]:
        """Pages from sitemaps; if there are none, from the first page's feeds, then its links."""
        async for page in self._listed([robots]):
            yield page
        if self.survey.hosts:
            return
        links = await self._ask(home)
        while links and links[0].handler == home.handler and links[0].parent is None:
            links = await self._ask(links[0])  # a redirect
        async for page in self._listed([one for one in links if one.handler == SITEMAP]):
            yield page
        if not self.survey.hosts:
            self.survey.from_links = True
            for page in self._new(one for one in links if one.handler != SITEMAP):
                yield page

    async def _listed(self, first: list[Request]) -> AsyncIterator[Request]:
        self._queue.extend(first)
        while self._queue and self._requests < MAX_REQUESTS:
            request = self._queue.popleft()
            links = await self._ask(request)
            self._queue.extend(self._unseen(one for one in links if one.handler == SITEMAP))
            pages = [one for one in links if one.handler != SITEMAP]
            if pages:
                self.survey.sources.append(request.url)
            for page in self._new(iter(pages)):
                yield page

    def _new(self, pages: Iterator[Request]) -> Iterator[Request]:
        for page in self._unseen(pages):
            host = identify(page.url).host
            if registrable_domain(host) == self.site:
                self.survey.hosts[host] += 1
                yield page

    def _unseen(self, requests: Iterator[Request]) -> Iterator[Request]:
        for one in requests:
            if one.url not in self._seen:
                self._seen.add(one.url)
                yield one

    async def _ask(self, request: Request) -> list[Request]:
        lease = lease_of(request)
        await self._wait(lease.host)
        self._requests += 1
        outcome = await self.attempts.make(lease)
        self._note_delay(lease.host)
        if isinstance(outcome, Completed):
            return list(outcome.completion.links)
        if isinstance(outcome, Buried | Retried):
            self.survey.progress(f"{request.url}: {outcome.failure.error}")
        else:
            self.survey.progress(f"{request.url}: {NO_FREE_PROXY}")
        return []

    async def _wait(self, host: str) -> None:
        since_s = time.monotonic() - self._asked_at.get(host, 0.0)
        await asyncio.sleep(max(0.0, self.survey.delay_s(host) - since_s))
        self._asked_at[host] = time.monotonic()

    def _note_delay(self, host: str) -> None:
        robots = self.attempts.parts.robots
        if rules := robots.known(host):
            self.survey.delays[host] = robots.delay_s(rules)


def _looker() -> Spider:
    spider = Spider("map", scope=Scope(hosts=["*"]))
    spider.page(look_around)
    return spider


def look_around(page: Page) -> Iterator[Request]:
    """The feeds that the first page names, and its links."""
    if page.is_html:
        yield from page.follow_all(FEEDS, SITEMAP)
        yield from page.follow_all(frames=True)
