"""One page as a worker sees it: robots.txt, redirects, the verdict, the handler. Needs no job."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import msgspec

from skitter.errors import SkitterError, SpiderError
from skitter.fetch import Fetcher, Guard, HttpFetcher, RobotsRules, fetch_robots
from skitter.fetch.robots import robots_url
from skitter.model import Request, Response
from skitter.page import Page
from skitter.settings import FetchOptions
from skitter.spider import HandlerOutput, Refused, Spider, run_handler
from skitter.spider.run import HandlerError
from skitter.spider.source_line import trace
from skitter.spider.spider import run_hooks
from skitter.urls import identify
from skitter.worker.attempt import out_of_scope
from skitter.worker.redirects import redirected
from skitter.worker.verdict import (
    Bury,
    Follow,
    Policy,
    Retry,
    Skip,
    judge_error,
    judge_response,
)


@dataclass(slots=True)
class Hop:
    """One request of the way: what robots.txt said about it, and the answer."""

    request: Request
    robots: str | None = None  # None: not asked
    response: Response | None = None  # None: there is none


@dataclass(slots=True)
class Visit:
    """How far we came."""

    hops: list[Hop] = field(default_factory=list)
    outcome: HandlerOutput | None = None  # of the spider's handler
    problem: str | None = None  # why a worker would have nothing to complete

    @property
    def page(self) -> Page | None:
        last = self.hops[-1]
        return Page(last.request, last.response) if last.response else None


async def visit(
    url: str, spider: Spider | None = None, *, handler: str | None = None, options: FetchOptions
) -> Visit:
    """Fetch a URL and what it redirects to; run the spider's handler, if there is a spider.

    Raises BadURL and SpiderError for what the user said. What goes wrong on the way is in the
    answer, beside what was found before.
    """
    request = _first_request(identify(url).url, spider, handler)
    seeds = [seed.url for seed in spider.known_seeds] if spider else []
    guard = Guard.for_seeds([request.url, *seeds], also=options.allow_hosts)
    async with HttpFetcher(options, guard=guard) as fetcher:
        robots = _Robots(fetcher, guard, options.user_agent) if options.obey_robots else None
        policy = Policy(accept=spider.accept if spider else ())
        journey = _Journey(fetcher, robots, spider, policy=policy)
        try:
            await journey.go(request)
        except SkitterError as error:
            journey.visit.problem = _tell_error(error)
        return journey.visit


def _first_request(url: str, spider: Spider | None, handler: str | None) -> Request:
    """As the spider asks for it, if it is one of its seeds. Raises SpiderError."""
    request = Request(url=url, handler=handler)
    if spider is None:
        return request
    for seed in spider.known_seeds:
        if identify(seed.url).url == url:
            request = msgspec.structs.replace(seed, url=url, handler=handler or seed.handler)
    spider.handler_of(request)
    return request


@dataclass(slots=True)
class _Robots:
    """The rules of the hosts on the way, each asked for once."""

    fetcher: Fetcher
    guard: Guard
    user_agent: str
    _rules: dict[str, RobotsRules] = field(default_factory=dict)

    async def rules(self, url: str) -> RobotsRules:
        place = robots_url(url)
        if place not in self._rules:
            self._rules[place] = await fetch_robots(self.fetcher, self.guard, url, at=time.time())
        return self._rules[place]

    def forbids(self, url: str) -> bool:
        """By the rules that are here; asks nobody."""
        rules = self._rules.get(robots_url(url))
        return rules is not None and not rules.allows(url, self.user_agent)


@dataclass(slots=True)
class _Journey:
    """A visit under way. A SkitterError ends it; what was found until then stays."""

    fetcher: Fetcher
    robots: _Robots | None
    spider: Spider | None
    visit: Visit = field(default_factory=Visit)
    policy: Policy = field(default_factory=Policy)

    async def go(self, request: Request) -> None:
        while True:
            response = await self._fetch(request)
            verdict = judge_response(request, response, self.policy, now=time.time())
            if isinstance(verdict, Skip | Retry | Bury):
                self.visit.problem = _tell(verdict, request.url)
                return
            if not isinstance(verdict, Follow):
                break
            link = redirected(request, verdict.url, status=response.status)
            if self.spider and (problem := out_of_scope(self.spider, link, parent=request.url)):
                raise SkitterError(problem)
            request = link
        if self.spider is not None:
            await self._handle(self.spider, Page(request, response))

    async def _fetch(self, request: Request) -> Response:
        hop = Hop(request)
        self.visit.hops.append(hop)
        if self.robots is not None:
            rules, agent = await self.robots.rules(request.url), self.robots.user_agent
            hop.robots = rules.explain(request.url, agent)
            if not rules.allows(request.url, agent):
                raise SkitterError(f"{request.url}: {_why_not(rules, hop.robots)}")
        hop.response = await self.fetcher.fetch(request)
        return hop.response

    async def _handle(self, spider: Spider, page: Page) -> None:
        try:
            await run_hooks(spider.hooks.start)
        except Exception as error:
            raise SpiderError(f"an on_start hook failed: {trace(error)}") from error
        outcome = await run_handler(spider, page)
        if self.robots is not None:
            forbidden = [one for one in outcome.requests if self.robots.forbids(one.url)]
            outcome.requests = [one for one in outcome.requests if one not in forbidden]
            outcome.refused += [(one.url, Refused("robots.txt disallows it")) for one in forbidden]
        self.visit.outcome = outcome


def _tell_error(error: SkitterError) -> str:
    if isinstance(error, SpiderError | HandlerError) or not error.retryable:
        return str(error)
    verdict = judge_error(error, attempt=1, policy=Policy())
    return f"{_sentence(verdict.reason)} A worker would try again later."


def _tell(verdict: Skip | Retry | Bury, url: str) -> str:
    reason = f"{url}: {_sentence(verdict.reason)}"
    if isinstance(verdict, Skip):
        return f"{reason} A worker would leave it at that, without the handler."
    if isinstance(verdict, Bury):
        return f"{reason} A worker would give it up."
    when = "later" if verdict.after_s is None else f"in {verdict.after_s:,.0f} s"
    return f"{reason} A worker would try again {when}."


def _why_not(rules: RobotsRules, verdict: str) -> str:
    if rules.reason:  # whoever does not answer to robots.txt does not answer to us
        return _sentence(rules.reason)
    return f"{_sentence(verdict)} To look at it all the same: --ignore-robots."


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
