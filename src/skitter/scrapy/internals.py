"""The only module that touches Scrapy's private names.

Scrapy does not tell a scheduler when a request is finished (callback, children and pipelines) or
which request a child came from, and it asks for the next request only after an event. A few private
names, unchanged from Scrapy 2.13 to 2.19, give us all three:

    engine._slot.remove_request            called with a request when it is finished
    engine._handle_downloader_output       called with its result, before anything else happens
    engine._slot.closing                   not None: no new request is started
    engine._slot.nextcall.schedule         asks the scheduler again
    engine.downloader.slots                delays within this process
    engine.downloader.handlers             download_request_async, before 2.14 download_request
    engine.downloader.middleware._add_middleware
    engine.scraper.spidermw.middlewares    get_processed_request of a BaseSpiderMiddleware: None for
                                           a link that it ignores
    RobotsTxtMiddleware._parse_robots      called with a response and its netloc
    CookiesMiddleware.jars                 its jars by `meta["cookiejar"]`, made on first use
    scrapy.core.scraper.parallel, parallel_async
                                           iterate and handle what a callback yields
    scrapy.middleware.process_chain        2.13: calls one pipeline after the other
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from functools import lru_cache, partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from scrapy.utils.defer import deferred_f_from_coro_f, maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from concurrent.futures import Future
    from types import ModuleType

    from scrapy.crawler import Crawler

    from skitter.scrapy.settings import NodeOptions


class Slots(dict[str, Any]):
    """Download slots whose configured delay the frontier already enforces."""

    def __init__(self, options: NodeOptions, slots: dict[str, Any]) -> None:
        super().__init__()
        self._options = options
        for key, slot in slots.items():
            self[key] = slot

    def __setitem__(self, key: str, slot: Any) -> None:
        # A lone node holds more requests than may be in flight (frontier/lua/spare.lua).
        slot.concurrency = min(slot.concurrency, self._options.max_in_flight(key))
        leaving = set[Any]()
        slot.queue = _Queue(leaving, slot.queue)
        slot.transferring = _Transferring(leaving, slot.transferring)
        slot.__class__ = _patient(type(slot), self._options.delay_s(key))  # type: ignore[arg-type]
        super().__setitem__(key, slot)


class _Queue(deque[Any]):
    """Waiting requests of a slot. For one loop iteration between here and `transferring`, Scrapy
    (2.19) does not count a request, and starts more than the slot allows."""

    def __init__(self, leaving: set[Any], waiting: Iterable[Any]) -> None:
        super().__init__(waiting)
        self.leaving = leaving

    def popleft(self) -> Any:
        found = super().popleft()
        self.leaving.add(found[0])
        return found


class _Transferring(set[Any]):
    """Requests of a slot that are in flight."""

    def __init__(self, leaving: set[Any], under_way: Iterable[Any]) -> None:
        super().__init__(under_way)
        self.leaving = leaving

    def add(self, request: Any) -> None:
        self.leaving.discard(request)
        super().add(request)


@lru_cache(maxsize=1000)
def _patient(kind: type[Any], kept_s: float) -> type[Any]:
    """A slot class with an exact limit that waits only if its delay exceeds the frontier's."""

    def download_delay(self: Any) -> float:
        return kind.download_delay(self) if self.delay > kept_s else 0.0

    def free_transfer_slots(self: Any) -> int:
        free: int = kind.free_transfer_slots(self) - len(self.queue.leaving)
        return free

    own = {"download_delay": download_delay, "free_transfer_slots": free_transfer_slots}
    return type(kind.__name__, (kind,), {"__slots__": (), **own})


class EngineUnknown(UsageError):
    """The engine of this Scrapy release lacks a name that we need."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"Scrapy {scrapy.__version__} has no {missing}: this release of Skitter works with "
            "Scrapy 2.13 to 2.19. Install one of those, or a newer Skitter."
        )


class ScrapyEngine:
    """What a shared frontier needs of Scrapy's engine. Created when the spider opens."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._engine: Any = crawler.engine
        for path in (
            "_slot.remove_request",
            "_slot.nextcall.schedule",
            "_handle_downloader_output",
            "downloader.slots",
            "downloader.handlers.download_request",
            "downloader.middleware._add_middleware",
            "downloader.get_slot_key",
            "scraper.spidermw.middlewares",
        ):
            self._check(path)
        self._call = _caller()

    def _check(self, path: str) -> None:
        found = self._engine
        for name in path.split("."):
            found = getattr(found, name, None)
            if found is None:
                raise EngineUnknown(f"engine.{path}")

    # --- from Scrapy ------------------------------------------------------------------------------

    def on_finished(self, tell: Callable[[Any], None]) -> None:
        """Call `tell` when a request is finished: callback, children and pipelines."""
        slot = self._engine._slot
        remove = slot.remove_request

        def removed(request: Any) -> None:
            # First: removing the last request closes the spider.
            tell(request)
            remove(request)

        slot.remove_request = removed

    def on_output(self, around: Callable[[Any, Any], Any]) -> None:
        """Handle each result inside the context manager `around(result, request)`. It yields
        whether to handle it at all: a request that goes back to the queue has no result. All that
        comes of the result is handled in the `contextvars` context of `around`."""
        _keep_contexts()
        handle = self._engine._handle_downloader_output

        def handled(result: Any, request: Any) -> Any:
            with around(result, request) as counts:
                return handle(result, request) if counts else None

        self._engine._handle_downloader_output = handled

    def on_ignored(self, tell: Callable[[Any, Any, str], None]) -> None:
        """Report links that never reach the scheduler: the request, who ignored it, the message."""
        for middleware in self._engine.scraper.spidermw.middlewares:
            if isinstance(middleware, BaseSpiderMiddleware):
                _watch_links(middleware, tell)
        manager = self._crawler.signals
        send = manager.send_catch_log

        def sent(signal: Any, **named: Any) -> Any:
            answers = send(signal, **named)
            for who, answer in answers if signal is signals.request_scheduled else ():
                if isinstance(answer, Failure) and isinstance(answer.value, IgnoreRequest):
                    tell(named["request"], getattr(who, "__self__", who), str(answer.value))
                    break
            return answers

        manager.send_catch_log = sent  # type: ignore[method-assign]

    def on_robots(self, tell: Callable[[Any, str], None]) -> None:
        """Report every robots.txt: the response and its netloc."""
        for middleware in self._engine.downloader.middleware.middlewares:
            parse = getattr(middleware, "_parse_robots", None)
            if parse and isinstance(middleware, RobotsTxtMiddleware):
                middleware._parse_robots = _telling(tell, parse)  # type: ignore[method-assign]

    # --- to Scrapy --------------------------------------------------------------------------------

    def call(self, tell: Callable[..., object], *args: object) -> None:
        """From any thread: run this on the engine's thread, if that still runs."""
        with suppress(RuntimeError):  # the loop is closed: Ctrl-C, twice
            self._call(tell, *args)

    def wake(self) -> None:
        """From any thread: there may be a new request, or the crawl may be over."""
        self.call(self._wake)

    @property
    def is_closing(self) -> bool:
        """From any thread: active requests are finishing, and no new one is started."""
        slot = self._engine._slot
        return slot is None or slot.closing is not None

    def _wake(self) -> None:
        if not self.is_closing:
            self._engine._slot.nextcall.schedule()

    def close_spider(self, reason: str) -> None:
        """From any thread: end the crawl on this node."""
        self.call(self._close_spider, reason)

    def _close_spider(self, reason: str) -> None:
        if self._engine.spider is None:
            return
        if hasattr(self._engine, "close_spider_async"):  # Scrapy 2.14
            from scrapy.utils.defer import deferred_from_coro

            deferred_from_coro(self._engine.close_spider_async(reason=reason))
        else:
            self._engine.close_spider(self._engine.spider, reason)

    def leave_delays_to_the_frontier(self, options: NodeOptions) -> None:
        """The frontier hands out only what may be fetched now: waiting again would be too slow. If
        a slot's delay is raised, as by AutoThrottle, it is obeyed."""
        downloader = self._engine.downloader
        downloader.slots = Slots(options, downloader.slots)

    def before_download(
        self, leave: Callable[[Any], Awaitable[None]], failed: Callable[[Any, Exception], None]
    ) -> None:
        """Await `leave(request)` before each download; call `failed` if the download raises."""
        handlers = self._engine.downloader.handlers
        is_new = hasattr(handlers, "download_request_async")  # since Scrapy 2.14
        name = "download_request_async" if is_new else "download_request"
        download = getattr(handlers, name)

        async def send(request: Any, *rest: Any) -> Any:
            await leave(request)
            try:
                sent = download(request, *rest)
                return await (sent if is_new else maybe_deferred_to_future(sent))
            except Exception as error:
                failed(request, error)
                raise

        setattr(handlers, name, send if is_new else deferred_f_from_coro_f(send))

    def add_downloader_middleware(self, middleware: Any) -> None:
        """Add it last, nearest to the downloader."""
        self._engine.downloader.middleware._add_middleware(middleware)

    def share_cookies(self, share: Callable[[CookiesMiddleware], None]) -> None:
        """Call `share` with the middleware that keeps cookies, unless COOKIES_ENABLED is off."""
        for middleware in self._engine.downloader.middleware.middlewares:
            if isinstance(middleware, CookiesMiddleware):
                return share(middleware)

    def share_robots(self) -> None:
        """Of the requests that wait for a robots.txt, Scrapy (up to 2.19) gives it only to the
        first; the others get None, which allows everything. A node starts with many at once."""
        for middleware in self._engine.downloader.middleware.middlewares:
            # Where it is not a coroutine, as in 2.13, it works correctly.
            if isinstance(middleware, RobotsTxtMiddleware) and iscoroutinefunction(
                middleware.robot_parser
            ):
                _share_robots(middleware)

    @property
    def slot_of(self) -> Callable[[Any], str]:
        found: Callable[[Any], str] = self._engine.downloader.get_slot_key
        return found


async def heard(result: Future[Any]) -> Any:
    """Await another thread's result on the engine's thread, with any reactor."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # a reactor that is not asyncio's
        from twisted.internet.defer import Deferred

        done, call = Deferred[None](), _caller()
        result.add_done_callback(lambda _: call(done.callback, None))
        await done
        return result.result()
    return await asyncio.wrap_future(result)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run it outside the engine's thread, with any reactor."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # a reactor that is not asyncio's
        from twisted.internet.threads import deferToThread

        return await deferToThread(work)
    return await asyncio.to_thread(work)


def _keep_contexts() -> None:
    """Twisted's timers and Deferreds call in whatever context fired them: another page's, or none.
    Scrapy iterates what a callback yields on such timers, in 2.13 always and later with a reactor
    that is not asyncio's; 2.13 calls pipelines from Deferreds."""
    from scrapy import middleware
    from scrapy.core import scraper

    _replace(scraper, "parallel", _in_parallel(_iterated))
    _replace(scraper, "parallel_async", _in_parallel(_awaited))
    if hasattr(middleware, "process_chain"):
        _replace(middleware, "process_chain", _in_a_chain)


def _replace(module: ModuleType, name: str, around: Callable[[Any], Any]) -> None:
    found = getattr(module, name, None)
    if found is None:
        raise EngineUnknown(f"{module.__name__}.{name}")
    if found.__module__ != __name__:  # each spider of a process comes here
        setattr(module, name, around(found))


def _in_parallel(iterated: Callable[[Any, Context], Any]) -> Callable[[Any], Any]:
    def around(parallel: Callable[..., Any]) -> Callable[..., Any]:
        def in_context(outputs: Any, count: int, handle: Any, *rest: Any, **named: Any) -> Any:
            page = copy_context()

            def handled(output: Any, *rest: Any, **named: Any) -> Any:
                return page.copy().run(handle, output, *rest, **named)

            return parallel(iterated(outputs, page), count, handled, *rest, **named)

        return in_context

    return around


def _iterated(outputs: Iterable[Any], page: Context) -> Iterator[Any]:
    outputs, end = iter(outputs), object()
    while (output := page.run(next, outputs, end)) is not end:
        yield output


async def _awaited(outputs: AsyncIterator[Any], page: Context) -> AsyncIterator[Any]:
    _enter(page)
    async for output in outputs:
        yield output
        _enter(page)  # Scrapy awaits each output in a task of its own


def _enter(page: Context) -> None:
    for variable, value in page.items():
        variable.set(value)


def _in_a_chain(process_chain: Callable[..., Any]) -> Callable[..., Any]:
    def in_context(steps: Iterable[Any], given: Any, *rest: Any, **named: Any) -> Any:
        page = copy_context()
        return process_chain([partial(page.run, step) for step in steps], given, *rest, **named)

    return in_context


def _share_robots(middleware: Any) -> None:
    ask = middleware.robot_parser

    async def robot_parser(request: Any, *rest: Any) -> Any:
        found = await ask(request, *rest)
        return found or getattr(middleware, "_parsers", {}).get(urlparse_cached(request).netloc)

    middleware.robot_parser = robot_parser


def _watch_links(middleware: BaseSpiderMiddleware, tell: Callable[[Any, Any, str], None]) -> None:
    process = middleware.get_processed_request

    def processed(request: Any, response: Any) -> Any:
        found = process(request, response)
        if found is None:
            tell(request, middleware, "")
        return found

    middleware.get_processed_request = processed  # type: ignore[method-assign]


def _telling(tell: Callable[[Any, str], None], parse: Callable[..., Any]) -> Callable[..., Any]:
    def parsed(answer: Any, netloc: str, *rest: Any) -> Any:
        tell(answer, netloc)
        return parse(answer, netloc, *rest)

    return parsed


def _caller() -> Callable[..., object]:
    """A function that calls back into the current thread from any other."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:  # a reactor that is not asyncio's
        from twisted.internet import reactor

        call: Callable[..., object] = reactor.callFromThread
        return call
