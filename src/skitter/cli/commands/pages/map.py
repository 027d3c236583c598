"""List a site's pages without a crawl or a job: map.

It reads robots.txt, sitemaps and feeds as a worker does, one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import uvloop

from skitter.cli.commands.pages.one_page import NO_FREE_PROXY, lease_of, open_proxied
from skitter.cli.common import Json
from skitter.cli.flags import FETCHING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.console import out, plain
from skitter.cli.show.output import emit_json, print_progress
from skitter.domains import registrable_domain
from skitter.engine.attempt import Attempts
from skitter.engine.parts import Parts
from skitter.engine.stages import bind
from skitter.engine.stages.directives import Directives
from skitter.engine.stages.logins import Sessions
from skitter.engine.visit import Buried, Completed, Retried
from skitter.fetch import Guard, HttpFetcher
from skitter.model import Request
from skitter.observe.report import duration, some
from skitter.redact import clean, redact_text
from skitter.settings import WorkerConfig, resolve
from skitter.settings.sources import OPTIONS
from skitter.spider import Scope, Spider
from skitter.spider.sitemap import FEEDS, SITEMAP, discovery_request
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from skitter.settings import Config
    from skitter.spider.page import Page


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
        async for page in self._listed([link for link in links if link.handler == SITEMAP]):
            yield page
        if not self.survey.hosts:
            self.survey.from_links = True
            for page in self._new(link for link in links if link.handler != SITEMAP):
                yield page

    async def _listed(self, first: list[Request]) -> AsyncIterator[Request]:
        self._queue.extend(first)
        while self._queue and self._requests < MAX_REQUESTS:
            request = self._queue.popleft()
            links = await self._ask(request)
            self._queue.extend(self._unseen(link for link in links if link.handler == SITEMAP))
            pages = [link for link in links if link.handler != SITEMAP]
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
        for request in requests:
            if request.url not in self._seen:
                self._seen.add(request.url)
                yield request

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


MAPPING = (*FETCHING, OPTIONS["politeness.delay_s"])


@with_flags(MAPPING, settable=True)
def map_site(
    url: Annotated[str, Argument(metavar="URL", help="Any page of the site.")],
    limit: Annotated[int, Option(min=1, help="Stop after this many URLs.")] = 100_000,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """List a site's URLs from its sitemaps, feeds or links.

    Prints one URL per line, and on standard error how long a crawl of them takes. The exit code
    is 1 if there are none.
    """
    survey = Survey(url, resolve(given), lambda text: print_progress(redact_text(text)))
    found = uvloop.run(_collect(survey, limit, show=not as_json))
    if as_json:
        emit_json(to_json(survey, found))
    print_progress(summary(survey, is_cut=len(found) >= limit))
    if not found:
        raise Exit(1)


async def _collect(survey: Survey, limit: int, *, show: bool) -> list[Request]:
    found: list[Request] = []
    pages = survey.pages()
    try:
        async for page in pages:
            found.append(page)
            if show:
                out.print(plain(page.url))
            if len(found) >= limit:
                break
    finally:
        await pages.aclose()  # type: ignore[attr-defined]
    return found


def to_json(survey: Survey, found: list[Request]) -> dict[str, Any]:
    return {
        "url": survey.url,
        "sources": survey.sources,
        "from_links": survey.from_links,
        "eta_s": round(survey.eta_s),
        "hosts": [
            {"host": host, "urls": urls, "delay_s": survey.delay_s(host)}
            for host, urls in survey.hosts.most_common()
        ],
        "urls": [{"url": request.url, "priority": request.priority} for request in found],
    }


def summary(survey: Survey, *, is_cut: bool) -> str:
    urls = some(survey.hosts.total(), "URL")
    if not survey.hosts:
        return "No URLs found: no sitemap, no feed, and no link on the page."
    source = "the links of the page" if survey.from_links else some(len(survey.sources), "sitemap")
    hosts = "" if len(survey.hosts) == 1 else f" on {some(len(survey.hosts), 'host')}"
    more = "; there may be more (--limit)" if is_cut else ""
    return clean(f"{urls}{hosts} from {source}{more}. {_estimate(survey)}.")


def _estimate(survey: Survey) -> str:
    if not survey.eta_s:
        return "Without a delay between requests, a crawl is as fast as the site"
    [(host, _)] = survey.hosts.most_common(1)
    pace = f"{survey.delay_s(host):g} s between requests to {host}"
    return f"A crawl takes about {duration(survey.eta_s)}: {pace}"
