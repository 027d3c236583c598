"""One page as a worker sees it, without a job.

It makes a worker's own attempt, with a fetcher that records.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from skitter.app import open_server
from skitter.cli.show.output import print_progress
from skitter.engine.assembly import archived_of, renderer_of
from skitter.engine.attempt import Attempts
from skitter.engine.departures import TooEarly
from skitter.engine.parts import Parts
from skitter.engine.stages import HOOKS, Stage, bind, stages
from skitter.engine.visit import Buried, Completed, Outcome, Retried, Returned
from skitter.errors import NAMES_AWAY, SkitterError
from skitter.fetch import Fetcher, Guard, HttpFetcher, Render, RobotsRules
from skitter.model import Lease, Request, Response
from skitter.redact import redact_text
from skitter.settings import Config, SessionPool, WorkerConfig
from skitter.spider import HandlerOutput, Refused, Scope, Spider
from skitter.spider.page import Page
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skitter.engine.caches import RobotsCache
    from skitter.engine.keeping import Archived
    from skitter.fetch.browser.render import Renderer
    from skitter.fetch.http.fetcher import Leave


NO_FREE_PROXY = (
    "no proxy is free: all are paused, or their budgets are spent (`skitter proxy stats`)."
)


@asynccontextmanager
async def open_proxied(config: Config, client: Fetcher, guard: Guard) -> AsyncIterator[Fetcher]:
    """Fetch through the configured proxies, if any: a crawl that uses proxies must not expose its
    own address. Their budgets and records are on the server."""
    if not config.proxies:
        yield client
        return
    from skitter.engine.proxies.routed import RoutedFetcher, open_routes  # most have no proxies

    async with (
        open_server(config.server, progress=print_progress) as server,
        open_routes(server, config.for_worker(), lambda _, text: print_progress(text)) as opened,
    ):
        routes, api = opened
        yield RoutedFetcher(client, routes, guard, api)


def renderer_by_routes(renderer: Renderer, client: Fetcher) -> Renderer:
    """A browser that uses the same routes as the client."""
    from skitter.engine.proxies.routed import RoutedFetcher, RoutedRenderer

    return RoutedRenderer(client, renderer) if isinstance(client, RoutedFetcher) else renderer


@dataclass(frozen=True, slots=True)
class Said:
    """What a stage of the attempt said."""

    stage: str
    said: str
    hooks: Sequence[str] = ()  # that ran
    ended: bool = False  # whether the visit ended there


@dataclass(slots=True)
class Hop:
    """One request: what robots.txt said about it, its response, and what the stages said."""

    request: Request
    robots: str | None = None  # None: not asked
    response: Response | None = None
    is_kept: bool = False  # the response is from the archive
    stages: list[Said] = field(default_factory=list)


@dataclass(slots=True)
class Visit:
    """The requests made for a page, and their result."""

    hops: list[Hop] = field(default_factory=list)
    output: HandlerOutput | None = None  # from the spider's handler
    problem: str | None = None  # why a worker would not complete the page

    @property
    def page(self) -> Page | None:
        last = self.hops[-1]
        return Page(last.request, last.response) if last.response else None


async def visit(
    url: str,
    spider: Spider | None = None,
    *,
    handler: str | None = None,
    config: Config,
    render: bool = False,
) -> Visit:
    """Fetch a URL and what it redirects to, and run the spider's handler if there is a spider.
    `render`: use a browser even if the handler does not ask for one.

    Raises BadURL and SpiderError for bad input. What fails later is reported in the result, along
    with what was found before.
    """
    request = first_request(identify(url).url, spider, handler)
    seeds = [seed.url for seed in spider.known_seeds] if spider else []
    guard = Guard.for_seeds([request.url, *seeds], also=config.fetch.allow_hosts)
    found = Visit([Hop(request)])
    visitor = spider or _looker()
    if render:
        name = visitor.handler_of(request)[0]
        visitor.renders[name] = replace(visitor.renders.get(name, Render()), auto=False)
    async with AsyncExitStack() as stack:
        attempts = await _open_attempts(stack, visitor, found.hops, config=config, guard=guard)
        try:
            outcome = await _follow(found.hops, attempts)
        except SkitterError as error:
            found.problem = str(error)
        except TooEarly:  # while fetching robots.txt
            found.problem = NO_FREE_PROXY
        else:
            if spider is not None and isinstance(outcome, Completed):
                found.output = _output_of(outcome)
            found.problem = _problem(outcome, found.hops[-1].request.url)
    return found


async def _open_attempts(
    stack: AsyncExitStack, spider: Spider, hops: list[Hop], *, config: Config, guard: Guard
) -> Attempts:
    """Attempts like a worker's, without a job; what they fetch is added to the hops."""
    client = await _open_client(stack, config, guard)
    own = config.for_worker(sessions=SessionPool(cookies=spider.cookies))
    renderer = None
    if spider.render_of(hops[0].request):
        browser = await stack.enter_async_context(renderer_of(config.for_worker(), guard))
        renderer = renderer_by_routes(browser, client)
    archived = _archived(stack, own) if config.fetch.cache else None
    parts = Parts(spider, client, own, guard, renderer=renderer, archived=archived)
    parts.fetcher = _Recorder(parts.fetcher, hops)
    return Attempts(parts, [Witness(stage) for stage in bind(parts)])


def _archived(stack: AsyncExitStack, config: WorkerConfig) -> Archived:
    found = archived_of(config, "fetch", lambda _, text: print_progress(text))
    stack.callback(found.writer.close)
    return found


async def _open_client(stack: AsyncExitStack, config: Config, guard: Guard) -> Fetcher:
    client = await stack.enter_async_context(HttpFetcher(config.fetch, guard=guard))
    return await stack.enter_async_context(open_proxied(config, client, guard))


def first_request(url: str, spider: Spider | None, handler: str | None) -> Request:
    """The request; as the spider defines it, if it is a seed. Raises SpiderError."""
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
    """A fetcher that records each request and response as a hop; the first hop already exists."""

    fetcher: Fetcher
    hops: list[Hop]

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        if self.hops[-1].response is not None:  # a redirect to the page itself
            self.hops.append(Hop(request, self.hops[-1].robots))
        response = await self.fetcher.fetch(request, leave=leave, proxy=proxy)
        self.hops[-1].response = response
        return response


class Witness:
    """A stage that can tell what it did: which of its hooks ran, and whether the visit ended."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self._ran, self._stopped = stage, list[str](), False
        self.visit: Any = None  # the last
        for name in HOOKS:
            if hook := getattr(stage, name, None):
                setattr(self, name, partial(self._run, name, hook))

    async def _run(self, name: str, hook: Callable[..., Any], visit: Any, *rest: Any) -> Any:
        self._ran.append(name)
        self.visit = visit
        try:
            result = await hook(visit, *rest)
        except Exception:
            self._stopped = True
            raise
        self._stopped |= isinstance(result, Outcome) and name != "ended"
        return result

    def report(self) -> Said:
        """About the visit that has just ended; the next begins anew."""
        ran, ended, self._ran, self._stopped = self._ran, self._stopped, [], False
        text = redact_text(self.stage.tell(self.visit)) if ran else "not reached"
        return Said(type(self.stage).__name__, text or "nothing to tell", ran, ended)


def _kept(witnesses: Sequence[Any]) -> Response | None:
    """What the cache answered: nothing was fetched."""
    visits = (witness.visit for witness in witnesses if witness.visit)
    return next((visit.kept for visit in visits if visit.kept), None)


def _report(witnesses: Sequence[Any]) -> list[Said]:
    """What each stage said, also of those that are off."""
    said = {one.stage: one for one in (witness.report() for witness in witnesses)}
    off = {
        stage.__name__: f"off: needs {stage.needs}" if stage.needs else "off" for stage in stages()
    }
    return [said.get(name) or Said(name, why) for name, why in off.items()]


async def _follow(hops: list[Hop], attempts: Attempts) -> Outcome:
    """Make attempts until one is not a redirect, and return its outcome. Raises SkitterError."""
    await attempts.begin()
    while True:
        hop, lease = hops[-1], lease_of(hops[-1].request)
        problem = await _ask_robots(hop, lease.host, attempts.parts.robots)
        outcome = await attempts.make(lease)
        if kept := _kept(attempts.stages):
            hops[-1].response, hops[-1].is_kept = kept, True
        hops[-1].stages = _report(attempts.stages)
        if problem:
            raise SkitterError(f"{hop.request.url}: {problem}")
        if not _is_redirect(outcome):
            return outcome
        hops.append(Hop(outcome.completion.links[0]))


async def _ask_robots(hop: Hop, host: str, robots: RobotsCache) -> str | None:
    """Check before the attempt does, as this explains more: why it may not be fetched."""
    if not robots.is_obeyed:
        return None
    rules, agent = await robots.rules(hop.request.url, host), robots.user_agent
    hop.robots = rules.explain(hop.request.url, agent)
    return None if rules.allows(hop.request.url, agent) else _why_not(rules, hop.robots)


def _output_of(outcome: Completed) -> HandlerOutput | None:
    """The handler's output, where links that robots.txt disallows count as refused."""
    if (output := outcome.output) is None:
        return None
    output.requests = list(outcome.completion.links)
    output.refused = [
        (url, Refused("robots.txt disallows it") if why.kind == "robots" else why)
        for url, why in output.refused
    ]
    return output


def _looker() -> Spider:
    """A spider that follows all redirects and does nothing with the page."""
    spider = Spider("fetch", scope=Scope(hosts=["*"]))

    @spider.page
    def look(page: Page) -> None:
        pass

    return spider


def lease_of(request: Request) -> Lease:
    """A lease as if the frontier had handed the request out for the first time."""
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
    if isinstance(outcome, Returned):
        return f"{url}: {_sentence(NAMES_AWAY) if outcome.waits else NO_FREE_PROXY}"
    return None


def _why_not(rules: RobotsRules, verdict: str) -> str:
    if rules.reason:  # a host that does not serve robots.txt does not serve us
        return _sentence(rules.reason)
    return f"{_sentence(verdict)} To look at it all the same: --ignore-robots."


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
