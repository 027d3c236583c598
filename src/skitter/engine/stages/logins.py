"""Logging sessions in: one worker does it, others wait; again when a page says "logged out".

It happens inside an attempt: neither the password nor the request carrying it is ever stored.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skitter.engine.departures import TooEarly
from skitter.engine.redirects import redirected
from skitter.engine.session_store import site_of
from skitter.engine.verdict import Bury, Follow, Policy, Retry, judge_response
from skitter.errors import SkitterError, SpiderError
from skitter.fetch.session import SESSION
from skitter.frontier.sessions import Key, claim_login, end_login
from skitter.model import Request
from skitter.page import Page
from skitter.redact import hide_queries
from skitter.spider.sitemap import SITEMAP
from skitter.spider.source_line import trace
from skitter.urls import identify, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.session_store import Sessions
    from skitter.fetch.client import Fetcher, Leave
    from skitter.fetch.session import Session
    from skitter.model import Lease
    from skitter.spider.login import Login
    from skitter.spider.spider import Spider

POLL_S: Final = 0.2


class LoginFailed(SkitterError):
    """A session could not be logged in. Its pages wait for the next try."""

    retryable = True

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(f"the log-in failed: {reason}")
        self.reason, self.after_s = reason, after_s


class LoggedOut(Exception):
    """A page says that the session is logged out: log in again, and fetch it again."""


@dataclass(slots=True)
class Logins:
    """The log-ins of one worker, by site."""

    spider: Spider
    fetcher: Fetcher
    sessions: Sessions
    policy: Policy = field(default_factory=Policy)
    _sites: dict[str, SiteLogin] = field(default_factory=dict)

    def of(self, request: Request) -> SiteLogin | None:
        """How to log in to the site of a request, if it has a log-in."""
        if not self.spider.logins or (site := site_of(request)) not in self.spider.logins:
            return None
        return self._sites.setdefault(site, SiteLogin(self, self.spider.logins[site]))


@dataclass(slots=True)
class SiteLogin:
    """The log-in of one site."""

    shared: Logins
    login: Login
    _turns: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def log_in(self, lease: Lease, leave: Leave | None) -> Session:
        """A session of the lease's site that is logged in. Raises LoginFailed."""
        while True:
            session = await self.shared.sessions.open(lease)
            if session is None:
                raise LoginFailed("it needs cookies: leave them on")
            if session.login:
                return session
            async with self._turns[session.id]:
                if await self._is_ours(lease, session):
                    return await self._log_in(lease, session, leave)

    async def says_logged_out(self, page: Page) -> bool:
        """A redirect to the log-in page always counts: as a link, it would replace the page."""
        if _leads_to(page, self.login.url):
            return True
        if page.request.handler == SITEMAP:  # hooks do not expect one
            return False
        hooks = self.shared.spider.hooks.logged_out
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
        if self.shared.sessions.frontier is None:
            return not session.login
        key = Key(lease.host, session.name, session.number)
        session.claim = secrets.token_hex(8)
        while True:
            claimed = await claim_login(self.shared.sessions.frontier, key, claim=session.claim)
            if claimed.what == "rest":
                raise LoginFailed(claimed.reason, claimed.number / 1000)
            if claimed.what != "busy":
                return claimed.what == "yours"
            await asyncio.sleep(POLL_S)

    async def _log_in(self, lease: Lease, session: Session, leave: Leave | None) -> Session:
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
        return session

    async def _end(
        self, lease: Lease, session: Session, *, reason: str = "", rest_s: float | None = None
    ) -> None:
        if self.shared.sessions.frontier is None:
            session.login = int(not reason)
            return
        session.login = await end_login(
            self.shared.sessions.frontier,
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
        if self.shared.spider.hooks.logged_out:
            return await self.says_logged_out(page)
        await page.prepare()
        return page.is_html and bool(page.css("input[type=password]"))

    async def _send(self, request: Request, session: Session, leave: Leave | None) -> Page:
        """Send one step, and follow its redirects."""
        SESSION.set(session)
        while True:
            now = time.time()
            answer = await self.shared.fetcher.fetch(session.dress(request, now=now), leave=leave)
            session.take(answer, now=now)
            verdict = judge_response(request, answer, self.shared.policy, now=now)
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
