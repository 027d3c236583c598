"""Run a handler on a page: what it yields, sorted into items, requests and what was refused."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import SkitterError, SpiderError, UsageError, shorten
from skitter.model import Request
from skitter.settings import check_priority
from skitter.spider.blame import Place, blame, describe, line_of
from skitter.spider.items import Item, NotAnItem, Rejected, fit, is_item, to_plain
from skitter.spider.scope import Refused

if TYPE_CHECKING:
    from skitter.page import Handler, Page
    from skitter.spider.spider import Spider

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode


class Drop(Exception):
    """Raised by an `on_item` hook: set this item aside."""


class HandlerError(SkitterError):
    """A handler or a hook failed, or yielded what is neither an item nor a request."""

    def __init__(self, handler: str, page: Page, reason: str, place: Place | None = None) -> None:
        at = f" ({place})" if place else ""
        super().__init__(f"handler {handler} failed on {shorten(page.url)}: {reason}{at}")
        self.handler, self.url, self.reason, self.place = handler, page.url, reason, place


@dataclass(slots=True)
class Outcome:
    """What came of one page."""

    items: list[Item] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)  # items
    refused: list[tuple[str, Refused]] = field(default_factory=list)  # URLs


async def run_handler(spider: Spider, page: Page, *, known: Container[str] = ()) -> Outcome:
    """Run the handler that the page's request names. Raises HandlerError, or SpiderError if there
    is no such handler. Plain handlers run in-line: one that blocks holds up the worker.

    `known`: URLs that went in lately. A GET of one of them is left out before anything else is
    asked about it, for nearly all links of a page are such.
    """
    name, handler = spider.handler_of(page.request)
    run = _Run(spider, page, name)
    try:
        run.outputs = await _outputs(handler, page)
        run.sort(known)
        await run.settle_items()
    except (Exception, SystemExit) as error:  # a handler that calls exit() ends its page, not us
        if isinstance(error, HandlerError):
            raise
        raise HandlerError(name, page, describe(error), _place(error, handler)) from error
    return run.outcome


async def _outputs(handler: Handler, page: Page) -> Iterable[Any]:
    """All that a handler yields or returns."""
    result = handler(page)
    if inspect.isasyncgen(result):
        async with aclosing(result) as outputs:
            return [output async for output in outputs]
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        return [output async for output in result]
    return result if isinstance(result, Iterator | list | tuple) else (result,)


class _Run:
    """One handler on one page, half done."""

    def __init__(self, spider: Spider, page: Page, name: str) -> None:
        self._spider, self._page, self._name = spider, page, name
        self._found: list[Any] = []  # items, before their hooks
        self.outputs: Iterable[Any] = ()
        self.outcome = Outcome()

    def sort(self, known: Container[str]) -> None:
        for output in self.outputs:
            if isinstance(output, Request):
                if output.url in known and output.is_plain:
                    continue
                self._take_request(output)
            elif is_item(output):
                self._found.append(output)
            elif output is not None:
                raise self._error(
                    f"it yielded a {type(output).__name__}, which is neither an item nor a "
                    "request: yield a dict, a dataclass, a struct, a model or page.follow(...)"
                )

    # --- requests ---------------------------------------------------------------------------------

    def _take_request(self, request: Request) -> None:
        page = self._page
        if request.parent is None:
            request = msgspec.structs.replace(request, parent=page.url, depth=page.depth + 1)
            request = self._storable(request)
        elif request.meta or request.headers or request.priority or not request.is_plain:
            request = self._storable(request)
        if request.handler is not None and request.handler not in self._spider.handlers:
            self._refuse_handler(request)
        verdict = self._spider.fence.allows(request.url, depth=request.depth, parent=page.url)
        if isinstance(verdict, Refused):
            self.outcome.refused.append((request.url, verdict))
        else:
            self.outcome.requests.append(request)

    def _storable(self, request: Request) -> Request:
        """What the frontier will read back. A bad one is refused here, by the name of its handler,
        and not later in a batch with other pages' requests."""
        try:
            check_priority(request.priority)
            return _decode_request(_encode(request))
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            raise self._error(
                f"its request for {shorten(str(request.url))} cannot be stored: {error}"
            ) from error

    def _refuse_handler(self, request: Request) -> None:
        try:
            self._spider.handler_of(request)
        except SpiderError as error:
            raise self._error(str(error)) from error

    # --- items ------------------------------------------------------------------------------------

    async def settle_items(self) -> None:
        for found in self._found:
            item = self._plain(found)
            settled: Item | Rejected
            try:
                item = await self._hooked(item)
                settled = fit(item, self._spider.item)
            except Drop as drop:
                settled = Rejected(item, "", str(drop) or "dropped")
            if isinstance(settled, Rejected):
                self.outcome.rejected.append(settled)
            else:
                self.outcome.items.append(settled)

    async def _hooked(self, item: Item) -> Item:
        for hook in self._spider.hooks.item:
            result = hook(item, self._page)
            if inspect.isawaitable(result):
                result = await result
            if result is not None:
                item = self._plain(result)
        return item

    def _plain(self, found: Any) -> Item:
        try:
            return to_plain(found)
        except NotAnItem as error:
            raise self._error(f"it yielded {error}") from error

    def _error(self, reason: str) -> HandlerError:
        """With the line at which a plain generator stands: there it yielded what is wrong."""
        return HandlerError(self._name, self._page, reason, line_of(self.outputs))


def _place(error: BaseException, handler: Callable[..., Any]) -> Place | None:
    code = getattr(inspect.unwrap(handler), "__code__", None)
    return blame(error, code.co_filename if code else "")
