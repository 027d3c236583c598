"""Runs a handler on a page and sorts what it yields into items, requests and refusals."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import SkitterError, SpiderError, UsageError, shorten
from skitter.frontier.requests import check_record, check_request
from skitter.model import TYPE, Request, files_in
from skitter.observe.logs import PAGE_URL
from skitter.spider.items import (
    Item,
    NotAnItem,
    Rejected,
    choose_type,
    fit,
    is_item,
    keepable,
    name_of,
    shown,
    storable,
    to_plain,
    undeclared,
)
from skitter.spider.named_files import FIELD, FILE, file_request, with_fields
from skitter.spider.quota import Quota, may_pass
from skitter.spider.scope import Refused
from skitter.spider.sitemap import MAX_LINKS, SITEMAP
from skitter.spider.source import (
    SourceLine,
    describe,
    line_in,
    line_of,
    source_line,
)

if TYPE_CHECKING:
    from skitter.settings import Limits
    from skitter.spider.page import Page
    from skitter.spider.spider import Spider

#: The usual return types, none awaitable: faster to check than inspect.isawaitable.
_READY = (GeneratorType, list, tuple, dict, type(None))
_STREAMS = (GeneratorType, list, tuple, Iterator)  # the abstract class last: it is the slowest
_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode


class Drop(Exception):
    """Raised by an `on_item` hook: reject this item."""


class HandlerError(SkitterError):
    """A handler or a hook failed, or yielded something that is neither an item nor a request."""

    def __init__(
        self, handler: str, page: Page, reason: str, place: SourceLine | None = None
    ) -> None:
        at = f" ({place})" if place else ""
        super().__init__(f"handler {handler} failed on {shorten(page.url)}: {reason}{at}")
        self.handler, self.url, self.reason, self.place = handler, page.url, reason, place

    @property
    def is_final(self) -> bool:
        """Whether the page need not be fetched again: its handler would fail the same way."""
        return self.__cause__ is None or not may_pass(self.__cause__)


class HandlerOutput(msgspec.Struct):
    """What a handler yielded for one page."""

    items: list[Item] = []
    requests: list[Request] = []
    rejected: list[Rejected] = []  # items
    refused: list[tuple[str, Refused]] = []  # URLs
    exceeded: str = ""  # what was dropped because it was over a page's limits
    undeclared: dict[str, int] = {}  # fields dropped from items
    known: int = 0  # requests skipped because they were added recently
    selectors: dict[str, bool] = {}  # of `css` and `follow_all`: whether each matched

    @property
    def links(self) -> int:
        """How many requests it yielded, wherever they lead."""
        return len(self.requests) + len(self.refused) + self.known


async def run_handler(
    spider: Spider, page: Page, *, known: Container[str] = (), limits: Limits | None = None
) -> HandlerOutput:
    """Run the handler that the page's request names. Raises HandlerError, or SpiderError if there
    is no such handler. Plain handlers run inline: one that blocks holds up the worker.

    `known`: URLs that were added recently. A plain GET of one of them is skipped before any other
    check, as this covers nearly all links of a page. `limits`: the job's current ones; default: the
    spider's.
    """
    PAGE_URL.set(page.url)
    run = _Run(spider, page, limits or spider.limits)
    try:
        await page.prepare()
        await run.sort(known)
        await run.settle_items()
    except (Exception, SystemExit) as error:  # exit() in a handler must not end the worker
        if isinstance(error, HandlerError):
            raise
        raise run.failed(error) from error
    run.output.exceeded = run.quota.exceeded
    run.output.selectors = page.selectors
    return run.output


class _Run:
    """One handler on one page, while it runs."""

    def __init__(self, spider: Spider, page: Page, limits: Limits) -> None:
        self._spider, self._page = spider, page
        self._name, self._handler = spider.handler_of(page.request)
        self.quota, self._limits = _quota(self._name, limits), limits
        self._also = limits.widening
        self._found: list[tuple[Any, int]] = []  # items, before their hooks, and their lines
        self._taken: set[tuple[str, str | None]] = set()  # usual requests: URLs and handlers
        self._files: dict[str, list[str]] = {}  # by the field of items that names them
        self._outputs: Any = ()
        self.output = HandlerOutput()

    async def sort(self, known: Container[str]) -> None:
        """Take what a handler yields or returns one by one: it may be endless."""
        result = self._handler(self._page)
        if not isinstance(result, _READY):
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, AsyncIterator):
                await self._sort_async(result, known)
                return
        is_stream = isinstance(result, _STREAMS)
        self._outputs = result if is_stream else (result,)
        try:
            self._take_all(self._outputs, known)
        finally:
            if inspect.isgenerator(self._outputs):  # if stopped early, it frees its resources
                self._outputs.close()

    async def _sort_async(self, outputs: AsyncIterator[Any], known: Container[str]) -> None:
        self._outputs = outputs
        try:
            async for output in outputs:
                self._take_all((output,), known)
                if not self.quota.outputs_left:
                    break
        finally:
            if inspect.isasyncgen(outputs):
                await outputs.aclose()

    def _take_all(self, outputs: Iterable[Any], known: Container[str]) -> None:
        """Take outputs up to the quota. Nearly all are known links: count and skip them here,
        without a call for each, not even of `is_plain`."""
        skipped = taken = 0
        for output in islice(outputs, self.quota.outputs_left):
            if not isinstance(output, Request):
                taken += 1
                self._take(output)
            elif (
                output.url in known
                and output.method == "GET"
                and not (output.body or output.unique or output.identity)
                and not (output.slot or output.session)
            ):
                skipped += 1
            else:
                taken += 1
                self._take_request(output)
        self.quota.outputs_left -= skipped + taken
        self.output.known += skipped

    def _take(self, output: Any) -> None:
        if isinstance(output, Rejected):
            if self.quota.counts_item():
                self.output.rejected.append(keepable(output))
        elif is_item(output):
            if self.quota.counts_item():
                self._found.append((output, line_number(self._outputs)))
        elif output is not None:
            raise self._error(
                f"it yielded a {type(output).__name__}, which is neither an item nor a "
                "request: yield a dict, a dataclass, a struct, a model or page.follow(...)"
            )

    # --- requests ---------------------------------------------------------------------------------

    def _take_request(self, request: Request) -> None:
        page, size_bytes, is_usual = self._page, 0, _is_usual(request)
        if request.parent is None:
            request = msgspec.structs.replace(request, parent=page.url, depth=page.depth + 1)
            request, size_bytes = self._storable(request)
        elif not is_usual:
            request, size_bytes = self._storable(request)
        if request.handler is not None and request.handler not in self._spider.handlers:
            self._refuse_handler(request)
        verdict = self._spider.allows(request, parent=page.url, also=self._also)
        if not isinstance(verdict, Refused) and (why := self._limits.excludes(request.url)):
            verdict = Refused(why, "pattern")
        if isinstance(verdict, Refused):
            self.output.refused.append((request.url, verdict))
        elif is_usual and self._is_repeated(request):
            self.output.known += 1
        elif self.quota.takes_link(size_bytes or len(request.url) + len(page.url)):
            if request.handler == FILE and (field := request.meta.get(FIELD)):
                self._files.setdefault(str(field), []).append(request.url)
            spider = self._spider
            self.output.requests.append(spider.in_lane(request) if spider.renders else request)

    def _is_repeated(self, request: Request) -> bool:
        """On this page, as in an index that links to a hundred places of one page."""
        before, url = len(self._taken), request.url
        if not self._spider.canonical.keep_fragment:
            url = url.partition("#")[0]
        self._taken.add((url, request.handler))
        return len(self._taken) == before

    def _storable(self, request: Request) -> tuple[Request, int]:
        """The request as the frontier will read it back, and its size. A bad one is refused here,
        where the error can name its handler."""
        try:
            check_request(request)
            record = check_record(_encode(request), request)
            return _decode_request(record), len(record)
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
        for found, line in self._found:
            item = self._plain(found)
            settled: Item | Rejected
            try:
                if self._spider.hooks.item:
                    item = await self._hooked(item)
                if self._files:
                    item = with_fields(item, self._files)
                settled = self._fitted(item, type(found))
            except Drop as drop:
                settled = Rejected(item, "", str(drop) or "dropped")
            if not isinstance(settled, Rejected):
                self._request_files(settled)
                settled, size_bytes = storable(settled)
            if isinstance(settled, Rejected):
                self.output.rejected.append(keepable(self._placed(settled, line)))
            elif self.quota.takes_item(size_bytes):
                self.output.items.append(settled)

    def _request_files(self, item: Item) -> None:
        """Those that its fields name, but not as `page.download` has."""
        for file in files_in(item):
            file["url"] = url = self._page.absolute(file["url"])
            if not any(url in urls for urls in self._files.values()):
                page = self._page
                self._take_request(file_request(url, parent=page.url, asked=page.request))

    def _fitted(self, item: Item, made: type) -> Item | Rejected:
        declared = self._spider.items.get(self._name, self._spider.item)
        if declared is None:
            return item
        declared = choose_type(item, declared, made)
        settled = fit(item, declared)
        if isinstance(settled, Rejected):
            return settled
        counts = self.output.undeclared
        for name in undeclared(item, declared):
            counts[name] = counts.get(name, 0) + 1
        return {**settled, TYPE: name_of(declared)} if self._spider.has_types else settled

    def _placed(self, rejected: Rejected, line: int) -> Rejected:
        """With the value at fault, and the line that yielded it. A hook's own words stay."""
        if not rejected.field:
            return rejected
        value = (
            f": {shown(rejected.item[rejected.field])}" if rejected.field in rejected.item else ""
        )
        code = getattr(self._outputs, "gi_code", None) or getattr(self._outputs, "ag_code", None)
        code = code or getattr(inspect.unwrap(self._handler), "__code__", None)
        place = f" ({line_in(code, line or code.co_firstlineno)})" if code else ""
        reason = rejected.reason.removesuffix(f" - at `$.{rejected.field}`")
        return Rejected(rejected.item, rejected.field, f"{reason}{value}{place}")

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

    def failed(self, error: BaseException) -> HandlerError:
        """The error that its handler or a hook raised, and where."""
        return HandlerError(self._name, self._page, describe(error), _place(error, self._handler))

    def _error(self, reason: str) -> HandlerError:
        """With the current line of a plain generator, which yielded the bad value."""
        return HandlerError(self._name, self._page, reason, line_of(self._outputs))


def _is_usual(request: Request) -> bool:
    """Whether it says nothing beyond what `page.follow` fills in, as nearly all links do."""
    return request.is_plain and not (
        request.meta
        or request.headers
        or request.priority
        or request.country
        or request.timeout_s is not None
        or request.max_body_mb is not None
    )


def _quota(handler: str, limits: Limits) -> Quota:
    return Quota(replace(limits, max_links_per_page=MAX_LINKS) if handler == SITEMAP else limits)


def _place(error: BaseException, handler: Callable[..., Any]) -> SourceLine | None:
    code = getattr(inspect.unwrap(handler), "__code__", None)
    return source_line(error, code.co_filename if code else "")


def line_number(generator: object) -> int:
    """Of the line that a generator has reached; 0: it is none, or it has ended."""
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None)
    return frame.f_lineno if frame else 0
