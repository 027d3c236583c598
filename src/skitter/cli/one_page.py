"""One page as a worker sees it: the worker's own attempt, with a fetcher that records. Needs no
job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from skitter.engine.memory import RequestMemory
from skitter.errors import SkitterError
from skitter.fetch import Fetcher, Guard, HttpFetcher, RobotsRules
from skitter.model import Lease, Request, Response
from skitter.page import Page
from skitter.spider import HandlerOutput, Refused, Scope, Spider
from skitter.urls import identify
from skitter.worker.attempt import Attempts
from skitter.worker.outcomes import Buried, Completed, Outcome, Retried
from skitter.worker.robots import RobotsBook
from skitter.worker.verdict import Policy

if TYPE_CHECKING:
    from skitter.fetch.client import Leave
    from skitter.settings import FetchOptions


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
    output: HandlerOutput | None = None  # of the spider's handler
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
        robots = RobotsBook(None, fetcher, guard, options.user_agent)
        found = Visit([Hop(request)])
        policy = Policy(
            max_redirects=options.max_redirects,
            longest_rest_s=options.max_retry_after_s,
            blocked_rest_s=options.blocked_rest_s,
            accept=spider.accept if spider else (),
        )
        obeyed = robots if options.obey_robots else None
        journey = _Journey(found, fetcher, obeyed, policy, spider)
        try:
            await journey.go()
        except SkitterError as error:
            found.problem = str(error)
        return found


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
class _Recorder:
    """A fetcher that notes each request and its answer as a hop; the first is there already."""

    fetcher: Fetcher
    hops: list[Hop]

    async def fetch(self, request: Request, *, leave: Leave | None = None) -> Response:
        if self.hops[-1].response is not None:  # a redirect to the page itself
            self.hops.append(Hop(request, self.hops[-1].robots))
        self.hops[-1].response = response = await self.fetcher.fetch(request, leave=leave)
        return response


@dataclass(slots=True)
class _Journey:
    """A visit under way. A SkitterError ends it; what was found until then stays."""

    visit: Visit
    fetcher: Fetcher
    robots: RobotsBook | None
    policy: Policy
    spider: Spider | None

    async def go(self) -> None:
        hops, spider = self.visit.hops, self.spider or _looker()
        attempts = Attempts(
            spider=spider,
            fetcher=_Recorder(self.fetcher, hops),
            robots=self.robots,
            memory=RequestMemory(),
            log=lambda level, text: None,
            policy=self.policy,
            limits=lambda: spider.limits,
        )
        await attempts.begin()
        while True:
            lease = _lease_of(hops[-1].request)
            await self._ask_robots(hops[-1], lease.host)
            outcome = await attempts.make(lease)
            if not _is_redirect(outcome):
                break
            hops.append(Hop(outcome.completion.links[0]))
        self._note(outcome)

    async def _ask_robots(self, hop: Hop, host: str) -> None:
        """Before the attempt does, which says less."""
        if self.robots is None:
            return
        rules, agent = await self.robots.rules(hop.request.url, host), self.robots.user_agent
        hop.robots = rules.explain(hop.request.url, agent)
        if not rules.allows(hop.request.url, agent):
            raise SkitterError(f"{hop.request.url}: {_why_not(rules, hop.robots)}")

    def _note(self, outcome: Outcome) -> None:
        if isinstance(outcome, Completed) and outcome.output and self.spider:
            self.visit.output = output = outcome.output
            kept = set(map(id, outcome.completion.links))
            disallowed = [one for one in output.requests if id(one) not in kept]
            output.requests = list(outcome.completion.links)
            output.refused += [(one.url, Refused("robots.txt disallows it")) for one in disallowed]
        self.visit.problem = _problem(outcome, self.visit.hops[-1].request.url)


def _looker() -> Spider:
    """Follows redirects wherever they lead, and does nothing with the page."""
    spider = Spider("fetch", scope=Scope(hosts=["*"]))
    spider.page(_look)
    return spider


def _look(page: Page) -> None:
    pass


def _lease_of(request: Request) -> Lease:
    """As if the frontier had handed it out, for the first time."""
    return Lease(
        request=request,
        fingerprint="",
        host=identify(request.url).host,
        priority=request.priority,
        attempt=1,
        losses=0,
        token="",
    )


def _is_redirect(outcome: Outcome) -> TypeGuard[Completed]:
    return isinstance(outcome, Completed) and not outcome.output and not outcome.skipped


def _problem(outcome: Outcome, url: str) -> str | None:
    if isinstance(outcome, Retried):
        after_s = outcome.failure.after_s
        when = "later" if after_s is None else f"in {after_s:,.0f} s"
        return f"{url}: {_sentence(outcome.failure.error)} A worker would try again {when}."
    if isinstance(outcome, Buried):
        return f"{url}: {_sentence(outcome.failure.error)} A worker would give it up."
    if isinstance(outcome, Completed) and outcome.skipped:
        return f"{url}: {_sentence(outcome.skipped)} A worker would not run the handler."
    return None


def _why_not(rules: RobotsRules, verdict: str) -> str:
    if rules.reason:  # whoever does not answer to robots.txt does not answer to us
        return _sentence(rules.reason)
    return f"{_sentence(verdict)} To look at it all the same: --ignore-robots."


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
