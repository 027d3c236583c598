"""One attempt at a request: robots, fetch, verdict, handler; it ends in one outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.domains import host_of
from skitter.engine.departures import (
    PATIENCE_AFTER_REDIRECT_S,
    PATIENCE_AFTER_ROBOTS_S,
    TooEarly,
)
from skitter.engine.leases import exclude
from skitter.engine.outcomes import Buried, Cause, Outcome, Retried, Returned
from skitter.engine.redirects import redirected
from skitter.engine.rendering import for_browser
from skitter.engine.stages import measure as exchanges
from skitter.engine.stages.directives import Directives
from skitter.engine.stages.logins import LoggedOut, LoginFailed
from skitter.engine.verdict import (
    Bury,
    Follow,
    Handle,
    Policy,
    Retry,
    Skip,
    is_refusal,
    judge_error,
    judge_response,
)
from skitter.engine.visit import Visit
from skitter.errors import (
    NAMES_AWAY,
    FetchError,
    NamesUnavailable,
    NoPage,
    ServerRefused,
    ServerUnreachable,
    SkitterError,
    SpiderError,
)
from skitter.fetch.robots import product_token
from skitter.fetch.session import SESSION
from skitter.metrics.recorder import Recorder
from skitter.page import Page
from skitter.settings import Limits
from skitter.spider.hooks import run_error_hooks, run_hooks
from skitter.spider.run import HandlerError, HandlerOutput, run_handler
from skitter.spider.scope import FILE, Allowed, Refused
from skitter.spider.source_line import trace
from skitter.tracing import Spans
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.adaptive import Adaptive
    from skitter.engine.departures import Departures
    from skitter.engine.memory import RequestMemory
    from skitter.engine.robots_cache import RobotsCache
    from skitter.engine.session_store import Sessions
    from skitter.engine.stages.logins import Logins
    from skitter.engine.stages.revisits import Revisits
    from skitter.engine.stages.traps import Traps
    from skitter.engine.verdict import Verdict
    from skitter.fetch.client import Fetcher
    from skitter.model import Lease, Request, Response
    from skitter.spider.spider import Spider


SAY_EVERY_S = 60.0


@dataclass(slots=True)
class Attempts:
    """Makes attempts, and holds what they share."""

    spider: Spider
    fetcher: Fetcher
    robots: RobotsCache | None  # None: robots.txt is not obeyed
    memory: RequestMemory
    log: Callable[[str, str], None]  # level, text
    policy: Policy = field(default_factory=Policy)
    limits: Callable[[], Limits] = Limits  # the job's current ones
    departures: Departures | None = None  # None: requests leave at any time
    directives: Directives = field(default_factory=Directives)
    sessions: Sessions | None = None  # None: no cookies
    logins: Logins | None = None
    traps: Traps | None = None  # None: no URL is held
    passes_on: bool = False  # pages that need a browser go to workers that have one
    adaptive: Adaptive | None = None  # for handlers with render="auto"
    revisits: Revisits | None = None  # None: no page is visited again
    figures: Recorder = field(default_factory=Recorder)
    spans: Spans = field(default_factory=Spans)
    _names_away_at: float = -SAY_EVERY_S

    async def begin(self) -> None:
        """Run the spider's on_start hooks. Raises SpiderError."""
        try:
            await run_hooks(self.spider.hooks.start)
        except Exception as error:
            raise SpiderError(f"an on_start hook failed: {trace(error)}") from error

    async def make(self, lease: Lease) -> Outcome:
        """Fetch and handle one request. Raises nothing but cancellation."""
        visit = Visit(lease, self.departures.gate(lease) if self.departures else None)
        outcome, hooks = await self._end(visit), self.spider.hooks
        if isinstance(visit.error, HandlerError) and isinstance(outcome, Retried | Buried):
            outcome = msgspec.structs.replace(outcome, handler=visit.error.handler)
        if (hooks.error or hooks.failed_attempt) and isinstance(outcome, Retried | Buried):
            outcome = msgspec.structs.replace(outcome, cause=_cause(visit, outcome))
            await self.run_error_hooks(hooks.failed_attempt, outcome)
        return outcome

    async def _end(self, visit: Visit) -> Outcome:
        lease = visit.lease
        try:
            if self.revisits and await self.revisits.is_replaced(lease.request):
                return visit.completed()
            outcome = await self._outcome(visit)
            if self.revisits:
                self.revisits.plan(visit, outcome)
                await self.revisits.take_along(lease, outcome)
            return outcome
        except (TooEarly, ServerUnreachable, ServerRefused, NamesUnavailable) as error:
            return self._returned(lease, error)  # not the page's fault
        except LoggedOut:
            return visit.logged_out()
        except LoginFailed as error:
            visit.error = error
            return visit.ended(Retry(str(error), after_s=error.after_s))
        except SkitterError as error:
            if isinstance(error, FetchError):
                self.figures.add_exchange(exchanges.failed(visit, error), ms=visit.took_ms)
            visit.error = error
            return visit.ended(judge_error(error, attempt=lease.attempt, policy=self.policy))
        except Exception as error:  # a bug of ours, met by a strange page: only that page fails
            self.log("error", f"internal error on {lease.url}: {error!r}")
            return visit.ended(Retry(f"internal error: {error!r}"))
        finally:
            await visit.close(lease.url)

    def _returned(self, lease: Lease, error: Exception) -> Returned:
        if not isinstance(error, NamesUnavailable):
            return Returned(lease)
        if time.monotonic() - self._names_away_at > SAY_EVERY_S:  # each page comes here
            self._names_away_at = time.monotonic()
            self.log("warning", f"{NAMES_AWAY}: pages wait until it does")
        return Returned(lease, waits=True)

    async def run_error_hooks(
        self, hooks: list[Callable[..., Any]], outcome: Retried | Buried
    ) -> None:
        """A failing user hook must not cost the page its verdict."""
        cause, request = outcome.cause, outcome.failure.lease.request
        if cause is None:
            return
        try:
            await run_error_hooks(hooks, request, cause.error, cause.response)
        except Exception as failure:
            self.log("error", f"an on_error hook failed: {trace(failure)}")

    async def _outcome(self, visit: Visit) -> Outcome:
        lease = visit.lease
        if self.spider.renders and await self._needs_another_lane(lease):
            return visit.completed(links=[for_browser(lease.request)])
        excluded = exclude(lease, self.limits())
        return Buried(excluded) if excluded else await self._make(visit)

    async def _make(self, visit: Visit) -> Outcome:
        if problem := await self._ask_robots(visit):
            self.figures.count("fetch.robots")
            return visit.ended(problem)
        request = await self._prepare(visit)
        while True:
            with self.spans.fetch(request):
                response = await self._fetch(visit, request)
            verdict = await self._judge(visit, request, response)
            if self.revisits and self.revisits.is_unchanged(visit):
                return visit.completed()
            if isinstance(verdict, Handle):
                return await self._handle(visit, Page(request, response))
            if isinstance(verdict, Skip):
                return visit.completed(skipped=verdict.reason)
            if not isinstance(verdict, Follow):
                return visit.ended(verdict)
            link = redirected(request, verdict.url, status=response.status)
            if not self._is_same_page(request, link):
                return self._follow(visit, link)
            if verdict.rest_s:
                return visit.ended(_after_rest(response.status, verdict.rest_s))
            request = link  # same identity: as a link it would count as known
            if visit.gate:
                visit.gate.patience_s = PATIENCE_AFTER_REDIRECT_S

    def _allows(self, link: Request, *, parent: str) -> Allowed | Refused:
        return self.spider.allows(link, parent=parent, also=self.limits().widening)

    def _out_of_scope(self, link: Request, *, parent: str) -> str | None:
        """Why a redirect is not followed, if it leads where the crawl may not go."""
        verdict = self._allows(link, parent=parent)
        if isinstance(verdict, Refused) and verdict.kind != FILE:  # a seed's file was asked for
            return f"it redirects out of scope, to {link.url}: {verdict.reason}"
        return None

    async def _prepare(self, visit: Visit) -> Request:
        """The request to send: in a session, and conditional if the page was visited before."""
        if visit.gate and visit.gate.was_used:
            visit.gate.patience_s = PATIENCE_AFTER_ROBOTS_S
        await self._open_session(visit)
        request = visit.lease.request
        return self.revisits.conditional(request) if self.revisits else request

    async def _needs_another_lane(self, lease: Lease) -> bool:
        """Whether it is in the plain HTTP lane but needs a browser."""
        if lease.request.lane:
            return False
        if self.adaptive and self.adaptive.applies(lease.request):
            return await self.adaptive.needs_browser(lease)
        return self.passes_on and self.spider.in_lane(lease.request) is not lease.request

    async def _ask_again(self, visit: Visit, url: str) -> Retry | Bury | None:
        """Why a page is not handled, if the browser ended up where it may not go."""
        moved = msgspec.structs.replace(visit.lease.request, url=url)
        if problem := self._out_of_scope(moved, parent=visit.lease.url):
            return Bury(problem)
        if self.robots is None:
            return None
        rules = await self.robots.rules(url, identify(url).host)
        if await self.robots.may_fetch(rules, url):
            return None
        return self.robots.verdict(rules, url)

    async def _open_session(self, visit: Visit) -> None:
        """Open the session, logged in if the site has a log-in. Raises LoginFailed."""
        visit.login = self.logins.of(visit.lease.request) if self.logins else None
        if visit.login:
            if visit.gate:
                visit.gate.patience_s = PATIENCE_AFTER_REDIRECT_S
            visit.session = await visit.login.log_in(visit.lease, visit.leave)
        elif self.sessions:
            visit.session = await self.sessions.open(visit.lease)

    async def _fetch(self, visit: Visit, request: Request) -> Response:
        """Fetch in the session, which keeps the cookies of the response. Raises LoggedOut."""
        visit.asked_at = time.monotonic()
        if self.sessions is None:
            return await self.fetcher.fetch(request, leave=visit.leave)
        now, session = time.time(), visit.session
        sent = session.dress(request, now=now) if session else request
        SESSION.set(session)
        response = await self.fetcher.fetch(sent, leave=visit.leave)
        visit.session = self.sessions.take(session, visit.lease, response, now=now)
        if visit.login and await visit.login.says_logged_out(Page(request, response)):
            raise LoggedOut
        return response

    async def _judge(self, visit: Visit, request: Request, response: Response) -> Verdict:
        verdict = judge_response(request, response, self.policy, now=time.time())
        self.figures.add_exchange(
            exchanges.answered(visit, response, verdict),
            size=response.moved_bytes or len(response.body),
            ms=1000 * response.elapsed_s,
        )
        if response.first_byte_s:
            self.figures.time("first_byte", 1000 * response.first_byte_s)
        if response.connect_s:
            self.figures.time("connect", 1000 * response.connect_s)
        if visit.session:
            visit.session.note(refused=is_refusal(response, verdict))
        await visit.note_response(response, verdict)
        return verdict

    async def _ask_robots(self, visit: Visit) -> Retry | Bury | None:
        """Why robots.txt does not let it be fetched; None: it does."""
        if self.robots is None:
            return None
        lease, leave = visit.lease, visit.leave
        host = host_of(lease.url)  # not the lease's, which may stand for several
        was_known = self.robots.known(host)
        rules = was_known
        if rules is None:
            rules = await self.robots.rules(lease.url, host, leave=leave)
            visit.arrive("/robots.txt")
        visit.rules = rules
        if rules.reason == NAMES_AWAY:
            raise NamesUnavailable(lease.url)
        if not await self.robots.may_fetch(rules, lease.url):
            return self.robots.verdict(rules, lease.url)
        is_new = not was_known and lease.pace is None
        if self.departures and is_new and self.robots.delay_s(rules):
            self.departures.note_now(lease)  # it got its turn before the delay was known
            raise TooEarly
        return None

    async def _handle(self, visit: Visit, page: Page) -> Outcome:
        moved = page.url != page.request.url
        if moved and (problem := await self._ask_again(visit, page.url)):
            return visit.ended(problem)
        by_robots = visit.rules.usage(visit.lease.url, self.directives.robot) if visit.rules else ""
        visit.usage = await self.directives.read(page, by_robots)
        if visit.usage and (why := self.directives.reserved_by(page)):
            return self._skip(visit, why)
        if link := self._canonical(page):
            return self._skip(visit, Refused(f"it is a copy of {link.url}", "canonical"), link)
        began = time.perf_counter()
        try:
            with self.spans.handle(page.request):
                output, in_browser = await self._run(visit, page)
        finally:
            self.figures.time("handler", 1000 * (time.perf_counter() - began))
        self.directives.obey(page, output)
        if self.traps:
            visit.feedback.yields = self.traps.yields(visit.lease, page, output)
        links, again = self.memory.split(self._without_disallowed(output))
        return visit.completed(output, items=output.items, links=links + in_browser, again=again)

    async def _run(self, visit: Visit, page: Page) -> tuple[HandlerOutput, list[Request]]:
        """The handler's output, and a request for a browser if that may do better."""
        run = partial(run_handler, self.spider, page, known=self.memory.known, limits=self.limits())
        if self.adaptive is None or not self.adaptive.applies(page.request):
            return await run(), []
        try:
            output, failure = await run(), None
        except HandlerError as error:
            output, failure = HandlerOutput(), error
        again = await self.adaptive.try_again(visit, output)
        if failure is not None and again is None:
            raise failure
        return output, [again] if again else []

    def _canonical(self, page: Page) -> Request | None:
        """A request for the canonical page, if that is to be handled instead of this one."""
        link = self.directives.canonical_of(page)
        if link is None or isinstance(self._allows(link, parent=page.url), Refused):
            return None
        return link if self.robots is None or self.robots.split([link])[0] else None

    def _skip(self, visit: Visit, why: Refused, *links: Request) -> Outcome:
        output = HandlerOutput(refused=[(visit.lease.url, why)])
        return visit.completed(output, skipped=why.reason, links=links)

    def _is_same_page(self, request: Request, link: Request) -> bool:
        rules = self.spider.canonical
        return (
            link.method == request.method
            and identify(link.url, rules).canonical == identify(request.url, rules).canonical
        )

    def _follow(self, visit: Visit, link: Request) -> Outcome:
        """A redirect becomes a link: it waits for its turn at its host, and is fetched once."""
        verdict = self._allows(link, parent=visit.lease.url)
        if isinstance(verdict, Refused) and verdict.kind == FILE and visit.lease.request.parent:
            return self._skip(visit, verdict)
        if problem := self._out_of_scope(link, parent=visit.lease.url):
            return visit.ended(Bury(problem))
        return visit.completed(links=[msgspec.structs.replace(link, priority=visit.lease.priority)])

    def _without_disallowed(self, output: HandlerOutput) -> list[Request]:
        """Drops links that a cached robots.txt disallows. If it is not cached, or so long that it
        would hold up other pages, it is checked before the fetch."""
        if self.robots is None:
            return output.requests
        allowed, disallowed = self.robots.split(output.requests)
        if disallowed:
            why = Refused(product_token(self.robots.user_agent), "robots")
            output.refused += [(link.url, why) for link in disallowed]
        return allowed


def _cause(visit: Visit, outcome: Retried | Buried) -> Cause:
    """The last response, unless a later request got none."""
    if visit.error is None:
        return Cause(NoPage(visit.lease.url, outcome.failure.error), visit.response)
    return Cause(visit.error, None if isinstance(visit.error, FetchError) else visit.response)


def _after_rest(status: int, rest_s: float) -> Retry:
    """The page redirects to another spelling of itself and asks us to wait first."""
    why = f"{status} redirect to the same page, after {rest_s:g} s"
    return Retry(why, after_s=rest_s, rest_s=rest_s)
