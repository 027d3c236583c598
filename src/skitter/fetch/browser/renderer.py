"""Renders pages in a browser, with the cookies of their sessions.

Cookies come back as Set-Cookie lines of the response, whether a server or a script set them, and
are subject to the same rules. Those of other hosts stay in the browser.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from skitter.domains import registrable_domain
from skitter.errors import FetchTimeout, RenderFailed
from skitter.fetch.browser.chromium import Chromium
from skitter.fetch.browser.egress import Egress
from skitter.fetch.browser.tab import Tab
from skitter.fetch.http.guard import Credentials, Guard, Resolver, authority_of
from skitter.fetch.session import SESSION, CookieTarget
from skitter.settings.fetch import FetchOptions, outbound_of
from skitter.settings.tables import BrowserOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from skitter.fetch.browser.egress import Way
    from skitter.fetch.browser.render import Render
    from skitter.fetch.http.fetcher import Leave
    from skitter.fetch.session import Cookie, Jar
    from skitter.model import Request, Response


def to_browser(cookies: Iterable[Cookie]) -> list[dict[str, Any]]:
    """In Playwright's format."""
    return [
        {
            "name": cookie.name,
            "value": cookie.value,
            "domain": cookie.domain if cookie.host_only else f".{cookie.domain}",
            "path": cookie.path,
            "expires": -1 if cookie.expires is None else cookie.expires,
            "secure": cookie.secure,
        }
        for cookie in cookies
        if cookie.name
    ]


def with_cookies(response: Response, found: list[dict[str, Any]], before: Jar | None) -> Response:
    """The response, with cookies that the browser has now and deletions of those it lost."""
    where = CookieTarget.of(response.url)
    here = [one for one in found if _is_of(one, where)]
    lines = [*map(_line, here), *_gone(here, before, where)]
    new = tuple(("set-cookie", line) for line in lines)
    return msgspec.structs.replace(response, headers=response.headers + new) if new else response


def _is_of(cookie: dict[str, Any], where: CookieTarget) -> bool:
    domain = cookie["domain"]
    return where.is_in(domain[1:]) if domain.startswith(".") else domain.strip("[]") == where.host


def _line(cookie: dict[str, Any]) -> str:
    parts = [f"{cookie['name']}={cookie['value']}", f"Path={cookie['path']}"]
    if cookie["domain"].startswith("."):
        parts.append(f"Domain={cookie['domain']}")
    if cookie["secure"]:
        parts.append("Secure")
    if cookie["expires"] > 0:
        parts.append(f"Expires={formatdate(cookie['expires'], usegmt=True)}")
    return "; ".join(parts)


def _gone(here: list[dict[str, Any]], before: Jar | None, where: CookieTarget) -> Iterator[str]:
    left = {(one["name"], one["domain"].lstrip(".").strip("[]"), one["path"]) for one in here}
    for cookie in before.cookies.values() if before else ():
        is_here = where.host == cookie.domain if cookie.host_only else where.is_in(cookie.domain)
        if is_here and cookie.name and (cookie.name, cookie.domain, cookie.path) not in left:
            domain = "" if cookie.host_only else f"; Domain={cookie.domain}"
            yield f"{cookie.name}=; Path={cookie.path}{domain}; Max-Age=0"


FAREWELL_S: Final = 5.0
MAX_CONTEXTS: Final = 32
LONGEST_S: Final = 600.0  # caps a request's timeout, which others may have written
#: A context belongs to a session and the proxy it uses.
Key = tuple[str, str | None]


@dataclass(slots=True, eq=False)
class Context:
    """A browser context: its own cookies and storage."""

    raw: Any
    way: Way
    chromium: Chromium
    born: float = field(default_factory=time.monotonic)
    pages: int = 0  # begun
    busy: int = 0  # in flight
    is_retired: bool = False

    def is_worn(self, options: BrowserOptions) -> bool:
        old = time.monotonic() - self.born > options.context_age_s
        return (
            self.is_retired
            or old
            or self.pages >= options.pages_per_context
            or self.chromium.is_worn(options)
        )


def _jar() -> Jar | None:
    session = SESSION.get()
    return session.jar if session else None


class BrowserRenderer:
    """One browser per process, started on the first page; a context per session.

        async with BrowserRenderer(options) as renderer: ...

    A long-lived browser leaks, so each part is replaced: a context after some pages or minutes, the
    browser after more of them or when it uses too much memory. Pages in flight finish first; new
    ones start in the replacement.
    """

    def __init__(
        self,
        options: BrowserOptions | None = None,
        *,
        fetch: FetchOptions | None = None,
        guard: Guard | None = None,
        resolver: Resolver | None = None,
        keeps_cookies: bool = True,
    ) -> None:
        self._keeps_cookies = keeps_cookies  # False: a context for each page
        self._options, self._fetch = options or BrowserOptions(), fetch or FetchOptions()
        self._guard, self._resolver = guard or Guard(), resolver or Resolver()
        self._credentials = Credentials(self._fetch)
        self._egress = Egress(
            self._guard, self._resolver, connect_timeout_s=self._fetch.connect_timeout_s
        )
        self._outbound = outbound_of(self._fetch.proxy, os.environ)
        self._slots = asyncio.Semaphore(self._options.concurrency)
        self._opening = asyncio.Lock()
        self._chromium: Chromium | None = None
        self._running: set[Chromium] = set()  # also retired ones that still have pages
        self._contexts: dict[Key, Context] = {}

    async def __aenter__(self) -> Self:
        await self._egress.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        for chromium in list(self._running):
            await self._close_chromium(chromium)
        await self._egress.__aexit__(*error)
        await self._resolver.close()

    async def render(
        self,
        request: Request,
        how: Render,
        *,
        leave: Leave | None = None,
        proxy: str | None = None,
    ) -> Response:
        """The rendered page. Raises FetchError, BrowserMissing and BrowserFailed."""
        self._guard.check_url(request.url)
        if not proxy and self._outbound:
            proxy = self._outbound.proxy_for(request.url)
        async with self._slots, self._tab(request, how, proxy) as (tab, context):
            try:
                async with asyncio.timeout(tab.within_s) as deadline:
                    if jar := _jar():
                        await context.raw.add_cookies(to_browser(jar.cookies.values()))
                    response = await context.chromium.run(tab.render(deadline, leave))
                    response = with_cookies(response, await context.raw.cookies(), jar)
            except TimeoutError:
                context.is_retired = True  # so that whatever hung is gone
                raise FetchTimeout(request.url, _too_slow(how, tab.within_s)) from None
            except context.chromium.api.Error as error:
                raise tab.explain(error) from error
            if failure := context.way.failure_of(response.url):
                raise failure
            self._guard.check_url(response.url)
            return response

    @asynccontextmanager
    async def _tab(
        self, request: Request, how: Render, proxy: str | None
    ) -> AsyncIterator[tuple[Tab, Context]]:
        context = await self._take_context(request, proxy)
        page: Any = None
        try:
            try:
                async with asyncio.timeout(self._options.deadline_s):
                    page = await context.chromium.run(context.raw.new_page())
            except TimeoutError as error:
                context.chromium.give_up()
                raise RenderFailed(request.url, "the browser hung") from error
            except context.chromium.api.Error as error:
                raise self._make_tab(page, request, how, context).explain(error) from error
            yield self._make_tab(page, request, how, context), context
        finally:
            # Also when we are cancelled: a tab left open keeps working.
            await asyncio.shield(self._give_back(context, page))

    def _make_tab(self, page: Any, request: Request, how: Render, context: Context) -> Tab:
        whom = authority_of(request.url)
        secret = self._credentials.header_for(request.url, whom)
        own = {**self._fetch.headers, **({"authorization": secret} if secret else {})}
        own |= request.headers
        if (jar := _jar()) and own.get("cookie") == jar.header_for(request.url, now=time.time()):
            own.pop("cookie", None)  # its context has it
        max_mb = min(request.max_body_mb or self._fetch.max_body_mb, self._fetch.max_body_mb)
        return Tab(
            page=page,
            request=request,
            how=how,
            way=context.way,
            headers={name.lower(): value for name, value in own.items()},
            within_s=min(request.timeout_s or self._options.deadline_s, LONGEST_S),
            settle_s=self._options.settle_s,
            max_bytes=round(max_mb * 2**20),
        )

    # --- contexts ---------------------------------------------------------------------------------

    async def _take_context(self, request: Request, proxy: str | None) -> Context:
        session = SESSION.get()
        name = session.id if session else registrable_domain(authority_of(request.url).name)
        key = (name if self._keeps_cookies else token_hex(8), proxy)
        async with self._opening:  # so that two pages of a session share one
            context = self._contexts.get(key)
            if context is not None and context.is_worn(self._options):
                await self._retire(key, context)
                context = None
            if context is None:
                context = self._contexts[key] = await self._open_context(request.url, proxy)
                await self._make_room()
                context.is_retired = not self._keeps_cookies  # closed with its page
            context.busy += 1
            context.pages += 1
            context.chromium.pages += 1
            return context

    async def _open_context(self, url: str, proxy: str | None) -> Context:
        chromium = await self._take_chromium()
        way = self._egress.open_way(proxy)
        out = {"server": self._egress.url, "username": way.user, "password": way.password}
        try:
            async with asyncio.timeout(self._options.deadline_s):
                raw = await chromium.run(
                    chromium.browser.new_context(
                        user_agent=self._fetch.user_agent,
                        service_workers="block",
                        accept_downloads=False,
                        ignore_https_errors=not self._fetch.verify_tls,
                        # Playwright adds <-loopback> for a context with a proxy.
                        **({} if self._options.cdp_url else {"proxy": out}),
                    )
                )
        except BaseException as error:
            self._egress.close_way(way)
            if not isinstance(error, TimeoutError | chromium.api.Error):
                raise
            chromium.give_up()  # its driver is gone, or it hangs
            raise RenderFailed(url, "the browser died") from error
        chromium.contexts += 1
        return Context(raw, way, chromium)

    async def _make_room(self) -> None:
        """Close idle contexts, the oldest first."""
        idle = [(key, context) for key, context in self._contexts.items() if not context.busy]
        for key, context in idle[: max(0, len(self._contexts) - MAX_CONTEXTS)]:
            await self._retire(key, context)

    async def _retire(self, key: Key, context: Context) -> None:
        """No new pages start there; it is closed when none is in flight."""
        self._contexts.pop(key, None)
        context.is_retired = True
        if not context.busy:
            await self._close_context(context)

    async def _give_back(self, context: Context, page: Any) -> None:
        try:
            async with asyncio.timeout(FAREWELL_S):
                if page is not None:
                    await page.close()
        except TimeoutError:
            context.chromium.give_up()  # its other pages are retried
        except context.chromium.api.Error:
            pass  # it crashed, or the browser did
        context.busy -= 1
        if context.is_worn(self._options):
            context.is_retired = True
            for key in [key for key, one in self._contexts.items() if one is context]:
                del self._contexts[key]
            if not context.busy:
                await self._close_context(context)

    async def _close_context(self, context: Context) -> None:
        chromium = context.chromium
        with suppress(chromium.api.Error, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await context.raw.close()
        self._egress.close_way(context.way)
        chromium.contexts -= 1
        if chromium.is_worn(self._options) and not chromium.contexts:
            await self._close_chromium(chromium)

    # --- the browser ------------------------------------------------------------------------------

    async def _take_chromium(self) -> Chromium:
        """The running browser; a worn one ends with its last page in flight."""
        if self._chromium is not None and self._chromium.is_worn(self._options):
            await self._replace(self._chromium)
        if self._chromium is None:
            self._chromium = await Chromium.start(self._options, proxy=self._egress.url)
            self._running.add(self._chromium)
        return self._chromium

    async def _replace(self, old: Chromium) -> None:
        old.is_retired, self._chromium = True, None
        of_it = [
            (key, context) for key, context in self._contexts.items() if context.chromium is old
        ]
        for key, context in of_it:
            await self._retire(key, context)
        if not old.contexts:
            await self._close_chromium(old)

    async def _close_chromium(self, chromium: Chromium) -> None:
        if self._chromium is chromium:
            self._chromium = None
        if chromium in self._running:
            self._running.remove(chromium)
            await chromium.close()


def _too_slow(how: Render, within_s: float) -> str:
    what = f"{how.wait_for} did not appear" if how.wait_for else "the page was not ready"
    return f"{what} within {within_s:g} s"
