"""How a spider logs in: the declaration, and the steps of its function."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skitter.domains import registrable_domain
from skitter.errors import SpiderError
from skitter.model import Request
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.page import Page

Send = Callable[[Request], Awaitable["Page"]]


@dataclass(frozen=True, slots=True)
class Login:
    """Where to log in, and the function that does it."""

    url: str
    handler: Callable[..., Any]

    @property
    def site(self) -> str:
        return registrable_domain(identify(self.url).host)

    async def run(self, page: Page, send: Send) -> Page:
        """Run all steps, from the log-in page to the last answer.

        The function returns a request, or yields several and gets the page of each:
        `answer = yield page.form().fill(...).submit()`.
        """
        result = self.handler(page)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterator):
            return await self._drive_async(result, page, send)
        if isinstance(result, Iterator):
            return await self._drive(result, page, send)
        return await send(self._checked(result))

    async def _drive(self, steps: Any, page: Page, send: Send) -> Page:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return await send(self._checked(end.value)) if end.value else answer or page
            answer = await send(self._checked(step))

    async def _drive_async(self, steps: Any, page: Page, send: Send) -> Page:
        answer = None
        while True:
            try:
                step = await steps.asend(answer)
            except StopAsyncIteration:
                return answer or page
            answer = await send(self._checked(step))

    def _checked(self, step: object) -> Request:
        if isinstance(step, Request):
            return step
        name = getattr(self.handler, "__name__", "it")
        raise SpiderError(
            f"the log-in {name} returned a {type(step).__name__}: return or yield a request, such "
            "as page.form().fill(...).submit()"
        )
