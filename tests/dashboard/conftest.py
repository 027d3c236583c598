"""A real Chromium in front of the real server. One browser and one server for each file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from needs import need
from skitter.embedded import hold
from skitter.frontier.records.operators import new_token
from skitter.frontier.transport.connection import Server, connect
from skitter.server.keyring import Keyring
from skitter.server.serving import Address, listen, serving
from skitter.server.site import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-site-isolation-trials",  # with the next one: pages of a context share a process
    "--renderer-process-limit=1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_numbers = count()
expect.set_options(timeout=30_000)


@dataclass
class Desk:
    """Somebody at a browser. What the console complains of fails the test."""

    browser: Browser
    address: str
    token: str
    complaints: list[str]
    usual: BrowserContext

    async def open(self, path: str = "", *, logged_in: bool = True, **options: Any) -> Page:
        """A page, logged in by the token: the first one that needs no options in the context that
        tests share, any other in a context of its own."""
        is_shared = not options and len(self.usual.pages) == 1
        context = self.usual if is_shared else await new_context(self.browser, **options)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._listen)
        if logged_in:
            body = {"token": self.token}
            answer = await context.request.post(f"{self.address}api/login", data=body)
            assert answer.ok, await answer.text()
        await page.goto(f"{self.address}{path}")
        return page

    async def leave(self) -> None:
        """As if nobody had been there."""
        for page in self.usual.pages[1:]:
            await page.evaluate("localStorage.clear()")
            await page.close()
        await self.usual.clear_cookies()
        for context in self.browser.contexts:
            if context is not self.usual:
                await context.close()
        assert self.complaints == []

    def _listen(self, message: Any) -> None:
        expected = "Failed to load resource"  # an answer that is not 200: the page shows it
        if message.type == "error" and expected not in message.text:
            self.complaints.append(message.text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    path = need("chromium")
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


async def new_context(browser: Browser, **options: Any) -> BrowserContext:
    options.setdefault("viewport", {"width": 1280, "height": 860})
    context = await browser.new_context(**options)
    context.set_default_timeout(30_000)
    return context


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def usual(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """With one page that stays open, and keeps the process of all others: one for each test would
    be half of what these tests cost."""
    context = await new_context(chromium)
    await context.new_page()
    yield context
    await context.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redis(short_dir: Path) -> AsyncIterator[Server]:
    """Of its own, so that the list of all jobs is short, and so is that of all routes."""
    with hold(short_dir / f"d{next(_numbers)}") as embedded:
        async with connect(embedded.url) as server:
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(redis: Server) -> AsyncIterator[str]:
    """Where the server of this file serves."""
    listener = listen(Address())
    async with serving(Site(redis, Keyring(redis, b"of the test")), listener):
        yield Address().url(listener)


async def token_with(server: Server, scopes: Sequence[str] = ("operate",)) -> str:
    return await new_token(server, name="a test", scopes=scopes)


@pytest_asyncio.fixture(loop_scope="module")
async def desk(
    chromium: Browser, address: str, redis: Server, usual: BrowserContext
) -> AsyncIterator[Desk]:
    desk = Desk(chromium, address, await token_with(redis), [], usual)
    yield desk
    await desk.leave()
