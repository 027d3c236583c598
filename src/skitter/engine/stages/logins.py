"""Sessions of requests, and logging them in: one worker does it, others wait.

A session is logged in again when a page says "logged out". That happens inside an attempt: neither
the password nor the request carrying it is ever stored.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from skitter.engine.caches import site_of
from skitter.engine.departures import PATIENCE_AFTER_REDIRECT_S, TooEarly
from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Retry, judge_response, redirected
from skitter.errors import SkitterError, SpiderError
from skitter.fetch.session import SESSION
from skitter.frontier.sites.sessions import Key, claim_login, end_login
from skitter.model import Request
from skitter.observe.report import some
from skitter.redact import hide_queries
from skitter.spider.page import Page
from skitter.spider.sitemap import SITEMAP
from skitter.spider.source import trace
from skitter.urls import identify, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.fetch.http.fetcher import Leave
    from skitter.fetch.session import Session
    from skitter.model import Lease, Response
    from skitter.spider.hooks import Login

POLL_S: Final = 0.2


class Sessions(Stage):
    """Opens the session of the request, which keeps the cookies of responses."""

    needs = "--cookies"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.sessions.options.cookies else None

    async def before(self, visit: Visit) -> None:
        visit.session = await self.parts.sessions.open(visit.lease)

    async def answered(self, visit: Visit, response: Response) -> None:
        store, now = self.parts.sessions, time.time()
        visit.session = store.take(visit.session, visit.lease, response, now=now)

    def tell(self, visit: Visit) -> str:
        return some(len(visit.session.jar.cookies) if visit.session else 0, "cookie")


class LoginFailed(SkitterError):
    """A session could not be logged in. Its pages wait for the next try."""

    retryable = True

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(f"the log-in failed: {reason}")
        self.reason, self.after_s = reason, after_s


class Logins(Stage):
    """Logs the session in, if its site has a log-in; again when a page says "logged out"."""

    needs = "a spider with log-ins"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sites = {site: SiteLogin(parts, login) for site, login in parts.spider.logins.items()}

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.spider.logins else None

    async def before(self, visit: Visit) -> None:
        if login := self._sites.get(site_of(visit.lease.request)):
            if visit.gate:
                visit.gate.patience_s = PATIENCE_AFTER_REDIRECT_S
            await login.log_in(visit)

    async def answered(self, visit: Visit, response: Response) -> Outcome | None:
        """The page is meant for others, or is a log-in form: retry when logged in."""
        login, session = self._sites.get(site_of(visit.lease.request)), visit.session
        if not login or not session:
            return None
        if not await login.says_logged_out(Page(visit.request, response)):
            return None
        session.logged_out = True
        return visit.ended(Retry("its session is logged out", after_s=0.0))

    def tell(self, visit: Visit) -> str:
        if site_of(visit.lease.request) not in self._sites:
            return "its site has no log-in"
        return "logged in" if visit.session and visit.session.login else "not logged in"


@dataclass(slots=True)
class SiteLogin:
    """The log-in of one site."""

    parts: Parts
    login: Login
    _turns: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def log_in(self, visit: Visit) -> None:
        """Log its session in, or take one that is. Raises LoginFailed."""
        while True:
            session = visit.session
            if session is None:
                raise LoginFailed("it needs cookies: leave them on")
            if session.login:
                return
            async with self._turns[session.id]:
                if await self._is_ours(visit.lease, session):
                    return await self._log_in(visit.lease, session, visit.leave)
            visit.session = await self.parts.sessions.open(visit.lease)

    async def says_logged_out(self, page: Page) -> bool:
        """A redirect to the log-in page always counts: as a link, it would replace the page."""
        if _leads_to(page, self.login.url):
            return True
        if page.request.handler == SITEMAP:  # hooks do not expect one
            return False
        hooks = self.parts.spider.hooks.logged_out
        if not hooks:
            return page.status == 401
        await page.prepare()
        try:
            return any([await _ask(hook, page) for hook in hooks])
        except SkitterError:
            raise
        except Exception as error:
            raise SpiderError(f"is_logged_out failed: {trace(error)}") from error

    # --- whose turn it is -------------------------------------------------------------------------

    async def _is_ours(self, lease: Lease, session: Session) -> bool:
        """Claim the log-in. False: look again, as another did it or the session was retired."""
        if self.parts.sessions.frontier is None:
            return not session.login
        key = Key(lease.host, session.name, session.number)
        session.claim = secrets.token_hex(8)
        while True:
            claimed = await claim_login(self.parts.sessions.frontier, key, claim=session.claim)
            if claimed.what == "rest":
                raise LoginFailed(claimed.reason, claimed.number / 1000)
            if claimed.what != "busy":
                return claimed.what == "yours"
            await asyncio.sleep(POLL_S)

    async def _log_in(self, lease: Lease, session: Session, leave: Leave | None) -> None:
        try:
            await self._take_steps(session, leave)
        except (asyncio.CancelledError, TooEarly):  # not a failure: others need not wait
            await asyncio.shield(self._end(lease, session, reason="it was interrupted", rest_s=0.0))
            raise
        except Exception as error:
            reason = hide_queries(error.reason if isinstance(error, LoginFailed) else trace(error))
            await self._end(lease, session, reason=reason)
            raise LoginFailed(reason) from error
        await self._end(lease, session)

    async def _end(
        self, lease: Lease, session: Session, *, reason: str = "", rest_s: float | None = None
    ) -> None:
        if self.parts.sessions.frontier is None:
            session.login = int(not reason)
            return
        session.login = await end_login(
            self.parts.sessions.frontier,
            Key(lease.host, session.name, session.number),
            claim=session.claim,
            fields=session.login_fields,
            reason=reason,
            rest_s=rest_s,
        )
        session.jar.settle()

    # --- the steps --------------------------------------------------------------------------------

    async def _take_steps(self, session: Session, leave: Leave | None) -> None:
        async def send(request: Request) -> Page:
            return await self._send(request, session, leave)

        first = await send(Request(url=identify(self.login.url).url))
        session.origin = origin_of(first.url) or ""
        last = await self.login.run(first, send)
        if last.status >= 400:
            raise LoginFailed(f"{last.url} answered {last.status}")
        if await self._asks_again(last):
            raise LoginFailed(
                f"{last.url} still asks to log in: check the user name and the password"
            )

    async def _asks_again(self, page: Page) -> bool:
        """By the spider's own rule; without one, by a password field."""
        if self.parts.spider.hooks.logged_out:
            return await self.says_logged_out(page)
        await page.prepare()
        return page.is_html and bool(page.css("input[type=password]"))

    async def _send(self, request: Request, session: Session, leave: Leave | None) -> Page:
        """Send one step, and follow its redirects."""
        SESSION.set(session)
        while True:
            now = time.time()
            answer = await self.parts.client.fetch(session.dress(request, now=now), leave=leave)
            session.take(answer, now=now)
            verdict = judge_response(request, answer, self.parts.policy, now=now)
            if isinstance(verdict, Bury | Retry) and answer.status < 400:
                raise LoginFailed(verdict.reason)
            if not isinstance(verdict, Follow):
                return Page(request, answer, session)
            request = redirected(request, verdict.url, status=answer.status)


async def _ask(hook: Callable[..., Any], page: Page) -> bool:
    said = hook(page)
    return bool(await said if inspect.isawaitable(said) else said)


def _leads_to(page: Page, url: str) -> bool:
    """Whether it redirects to the log-in page; the query, often a return URL, is ignored."""
    location = page.header("location") if page.status in (301, 302, 303, 307, 308) else None
    return location is not None and _bare(page.absolute(location)) == _bare(identify(url).url)


def _bare(url: str) -> str:
    return url.partition("?")[0].partition("#")[0].rstrip("/")
