"""One page in one tab: go there, wait until it is ready, take the result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from skitter.errors import (
    BadResponse,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    RenderFailed,
    ResponseTooLarge,
    shorten,
)
from skitter.model import Response

if TYPE_CHECKING:
    from skitter.fetch.browser.egress import Way
    from skitter.fetch.browser.render import Render
    from skitter.fetch.http.fetcher import Leave
    from skitter.model import Request

_HTML: Final = ("text/html", "application/xhtml+xml")
#: These describe the bytes sent, not the HTML made from them.
_OF_THE_WIRE: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_NAVIGATIONS: Final = 5  # by scripts and <meta http-equiv=refresh>
_READ_AGAIN_S: Final = 0.1
#: A script that submits a form or clicks a link returns before the navigation begins.
_A_MOMENT: Final = "() => new Promise(done => setTimeout(done, 50))"

#: What Chromium says, and what it means; the first match decides.
_CAUSES: Final[tuple[tuple[str, type[FetchError], str], ...]] = (
    ("Download is starting", FetchError, "it is a file to download: fetch it without a browser"),
    ("ERR_TOO_MANY_REDIRECTS", FetchError, "it redirects in circles"),
    ("ERR_CERT_", ConnectFailed, "the TLS certificate is not trusted"),
    ("ERR_SSL_", ConnectFailed, "the TLS handshake failed"),
    ("ERR_EMPTY_RESPONSE", BadResponse, "the connection closed before a response came"),
    ("ERR_CONNECTION_", BadResponse, "the connection was reset"),
    ("ERR_TIMED_OUT", FetchTimeout, "no response in time"),
    ("ERR_", BadResponse, "the exchange failed"),
    ("crashed", RenderFailed, "the tab crashed"),
    ("closed", RenderFailed, "the browser died"),
)


@dataclass(eq=False)  # not slots: the library sets attributes on its listeners
class Tab:
    """A page of the browser, and what to do with it."""

    page: Any
    request: Request
    how: Render
    way: Way
    headers: dict[str, str]  # for the page itself only
    within_s: float
    settle_s: float
    max_bytes: int
    _main: list[Any] = field(default_factory=list)  # responses shown in the main frame
    _last_asked: str = ""
    _moved_before: int = 0
    _under_way: set[Any] = field(default_factory=set)  # navigations
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def render(self, deadline: asyncio.Timeout, leave: Leave | None) -> Response:
        """Render the page; the time limit starts when the request leaves."""
        await self._prepare()
        self._moved_before = self.way.moved_bytes
        if leave is not None:
            deadline.reschedule(None)
            await leave()
            deadline.reschedule(asyncio.get_running_loop().time() + self.within_s)
        started = perf_counter()
        await self.page.goto(self.request.url, wait_until="commit", timeout=0)
        await self._settle()
        for script in self.how.scripts:
            await self._run(script)
            await self._settle()
        return await self._take(started)

    async def _prepare(self) -> None:
        self.page.on("request", self._note_request)
        self.page.on("response", self._note_response)
        self.page.on("requestfailed", self._note_end)
        self.page.on("framenavigated", self._note_arrival)
        self.page.on("popup", _close)
        await self.page.route("**/*", self._route)

    def _is_main(self, asked: Any) -> bool:
        with suppress(Exception):  # its frame may be gone
            return bool(asked.is_navigation_request() and asked.frame == self.page.main_frame)
        return False

    def _note_request(self, asked: Any) -> None:
        if self._is_main(asked):
            self._last_asked = str(asked.url)
            self._under_way.add(asked)
            self._arrived.clear()

    def _note_response(self, response: Any) -> None:
        if self._is_main(response.request):
            self._main.append(response)

    def _note_end(self, asked: Any) -> None:
        self._under_way.discard(asked)
        if not self._under_way:
            self._arrived.set()

    def _note_arrival(self, frame: Any) -> None:
        if frame == self.page.main_frame:
            self._under_way.clear()
            self._arrived.set()

    async def _route(self, route: Any) -> None:
        asked = route.request
        with suppress(Exception):  # the page may be gone
            if asked.resource_type in self.how.block:
                await route.abort("blockedbyclient")
            elif self._is_own(asked) and self._is_special:
                await self._send(route)
            else:
                await route.continue_()

    def _is_own(self, asked: Any) -> bool:
        return not self._main and asked.is_navigation_request() and asked.url == self.page_url

    @property
    def page_url(self) -> str:
        return self.request.url.partition("#")[0]

    @property
    def _is_special(self) -> bool:
        return bool(self.headers or self.request.body or self.request.method != "GET")

    async def _send(self, route: Any) -> None:
        """Send it with our method, headers and body. Not by `continue_`, which keeps the headers
        when the page redirects to another origin (playwright#32939)."""
        answer = await route.fetch(
            method=self.request.method,
            headers={**route.request.headers, **self.headers},
            post_data=self.request.body or None,
            max_redirects=0,
            timeout=0,
        )
        await route.fulfill(response=answer)

    # --- until it is ready ------------------------------------------------------------------------

    async def _settle(self) -> None:
        await self._arrived.wait()
        await self.page.wait_for_load_state("domcontentloaded", timeout=0)
        if self.how.wait_for is not None:
            await self.page.wait_for_selector(self.how.wait_for, state="attached", timeout=0)
            return
        with suppress(TimeoutError):  # a page that never settles is taken as it is
            async with asyncio.timeout(self.settle_s):
                for _ in range(_NAVIGATIONS):
                    shown = len(self._main)
                    await self.page.wait_for_load_state("networkidle", timeout=0)
                    if len(self._main) == shown and not self._under_way:
                        break
                    await self._arrived.wait()

    async def _run(self, script: str) -> None:
        try:
            await self.page.evaluate(script)
            await self.page.evaluate(_A_MOMENT)
        except Exception as error:
            text = _first_line(error)
            if "Execution context was destroyed" in text:  # it clicked a link
                return
            if any(word in text for word in ("crashed", "closed")):
                raise
            what = f"the script {shorten(script, 40)!r} failed: {shorten(text)}"
            raise RenderFailed(self.request.url, what) from error

    # --- the result -------------------------------------------------------------------------------

    async def _take(self, started: float) -> Response:
        main = self._main[-1] if self._main else None
        if main is None:
            raise BadResponse(self.request.url, "there was no response")
        headers = [
            (header["name"].lower(), header["value"]) for header in await main.headers_array()
        ]
        kind = next((v for n, v in headers if n == "content-type"), "text/html")
        is_html = kind.partition(";")[0].strip().lower() in _HTML
        body = (await self._content()).encode(errors="replace") if is_html else await main.body()
        shot = await self._screenshot() if self.how.screenshot else None
        if len(body) + len(shot or b"") > self.max_bytes:
            raise ResponseTooLarge(self.request.url, f"the page is over {self.max_bytes:,} bytes")
        if is_html:  # the browser has decoded it, and we encode it as UTF-8
            headers = [(n, v) for n, v in headers if n != "content-type"]
            headers.append(("content-type", "text/html; charset=utf-8"))
        return Response(
            url=self._last_url(main),
            status=main.status,
            headers=tuple((n, v) for n, v in headers if n not in _OF_THE_WIRE),
            body=body,
            screenshot=shot,
            moved_bytes=self.way.moved_bytes - self._moved_before,
            elapsed_s=perf_counter() - started,
        )

    def _last_url(self, main: Any) -> str:
        """The URL in the address bar, where scripts may change it; a fragment alone is ignored."""
        url = str(self.page.url)
        if not url.startswith(("http://", "https://")):
            raise self._failure() or FetchError(self.request.url, f"it ended at {shorten(url)}")
        return self.request.url if url.partition("#")[0] == self.page_url else url

    async def _content(self) -> str:
        while True:
            try:
                return str(await self.page.content())
            except Exception as error:
                if "navigating" not in str(error):
                    raise
            await asyncio.sleep(_READ_AGAIN_S)  # the deadline ends it

    async def _screenshot(self) -> bytes:
        return bytes(await self.page.screenshot(full_page=True, timeout=0))

    def explain(self, error: Exception) -> FetchError:
        """Our error for one of the library's."""
        url, text = self.request.url, str(error)
        if failure := self._failure():
            return failure
        for words, kind, reason in _CAUSES:
            if words in text:
                return kind(url, reason)
        return RenderFailed(url, f"the browser failed: {shorten(_first_line(error))}")

    def _failure(self) -> FetchError | None:
        """Why the egress proxy could not reach the last host."""
        found = self.way.failure_of(self._last_asked or self.request.url)
        return type(found)(self.request.url, found.reason) if found else None


def _close(popup: Any) -> None:
    """Close windows that the page opens."""
    task = asyncio.ensure_future(popup.close())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
