"""Spider: where to start, what to do with a page, where to stop.

    spider = Spider("books", start=["https://books.example/"])

    @spider.page
    async def listing(page): ...

The first handler is the default, unless another says `@spider.page(default=True)`. Requests name
their handler as text, so that any worker with the same file can run it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

import msgspec

from skitter.domains import registrable_domain
from skitter.errors import BadOption, SpiderError
from skitter.fetch.browser.render import Render
from skitter.model import Request
from skitter.settings import (
    TABLES,
    FetchOptions,
    Limits,
    Politeness,
    QualityOptions,
    Retries,
    SessionPool,
    Table,
    Visits,
    check_job_name,
)
from skitter.spider.hooks import (
    Hooks,
    Login,
    added,
    added_error,
    check_handler,
    is_again,
    is_of_cell,
)
from skitter.spider.items import check_item_type, types_of
from skitter.spider.named_files import FILE, no_handler
from skitter.spider.scope import ALLOWED, Fence, Scope, ScopeVerdict
from skitter.spider.sitemap import (
    SITEMAP,
    check_sitemap,
    discovery_request,
    list_pages,
    sitemap_request,
)
from skitter.urls import Canonical, identify, origin_of

if TYPE_CHECKING:
    from skitter.observe.report import Report
    from skitter.settings.widening import Widening
    from skitter.spider.page import Handler

Seeds = Iterable[str | Request] | AsyncIterable[str | Request]
#: How many hosts to remember whose sitemaps were already requested.
MAX_ORIGINS = 100_000
Start = str | Seeds | Callable[[], Seeds]
Rendering = bool | Literal["auto"] | Render
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
#: The runner is in a higher layer: spiders know it by name and import it on use.
RUNNER = "skitter.crawl.script"


class Runner(Protocol):
    """Runs a crawl with a spider."""

    async def __call__(
        self, spider: Spider, *, job: str | None, settings: Mapping[str, Any], **how: bool
    ) -> Report: ...


@dataclass(eq=False)
class Spider:
    """A crawl as its author writes it: where to start, what to do with a page, when to stop."""

    name: str  # the name of the spider, and of its job unless another is given
    #: A URL, a list of URLs or requests, or a function that yields them (plain or async).
    start: Start = ()
    _: KW_ONLY
    #: Which links may be followed; default: those on the hosts of the start URLs.
    scope: Scope = field(default_factory=Scope)
    politeness: Politeness = field(default_factory=Politeness)  # how gently each host is treated
    limits: Limits = field(default_factory=Limits)  # when the crawl ends, and how much may wait
    retries: Retries = field(default_factory=Retries)  # how failed pages are retried
    visits: Visits = field(default_factory=Visits)  # whether and when pages are visited again
    #: When the quality of items is bad, and what happens then.
    quality: QualityOptions = field(default_factory=QualityOptions)
    canonical: Canonical = field(default_factory=Canonical)  # which URLs are the same page
    fetch: FetchOptions = field(default_factory=FetchOptions)  # how pages are fetched
    #: Also start from sitemaps or feeds: True for those of the start URLs' hosts, or their URLs.
    sitemap: bool | str | Sequence[str] = False
    #: Keep cookies, as browsers do; False is short for SessionPool(cookies=False).
    cookies: bool = True
    #: How many sessions each site has, and when one is retired.
    sessions: SessionPool = field(default_factory=SessionPool)
    #: Content types that handlers get, such as text/html or text/*; empty: all.
    accept: tuple[str, ...] = ()
    #: Items are checked against it: a msgspec struct, dataclass, TypedDict or pydantic model, or a
    #: union of them. A handler may have its own: @spider.page(item=Book).
    item: Any = None
    #: Handlers yield an item for every page, so an item does not show that a page was worth
    #: fetching: docs/howto/traps.md.
    item_per_page: bool = False
    handlers: dict[str, Handler] = field(default_factory=dict, init=False, repr=False)
    default: str | None = field(default=None, init=False, repr=False)
    #: Handler -> how its pages are rendered; those of other handlers are not.
    renders: dict[str, Render] = field(default_factory=dict, init=False, repr=False)
    #: Handler -> its own type of items.
    items: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    hooks: Hooks = field(default_factory=Hooks, init=False, repr=False)
    logins: dict[str, Login] = field(default_factory=dict, init=False, repr=False)  # by site
    transforms: list[Callable[[Any], Any]] = field(default_factory=list, init=False, repr=False)
    #: False: only pages that callers ask for are fetched, and files of theirs.
    follows_links: bool = field(default=True, init=False, repr=False)
    _chosen: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_job_name(self.name)
        if isinstance(self.start, str):
            self.start = [self.start]
        if not (callable(self.start) or isinstance(self.start, Iterable | AsyncIterable)):
            raise BadOption("start", self.start, "URLs or a function that yields them")
        check_sitemap(self.sitemap)
        for seed in self.known_seeds:
            identify(seed.url)
        for name, table in self.tables.items():
            if not isinstance(table, TABLES[name]):
                raise BadOption(name, table, f"a skitter.{TABLES[name].__name__}")
        if self.item is not None:
            check_item_type(self.item)
        self.accept = _check_types(self.accept)

    # --- handlers ---------------------------------------------------------------------------------

    @overload
    def page(self, function: F) -> F: ...
    @overload
    def page(
        self, *, default: bool = False, render: Rendering = False, item: Any = None
    ) -> Callable[[F], F]: ...
    def page(
        self,
        function: F | None = None,
        *,
        default: bool = False,
        render: Rendering = False,
        item: Any = None,
    ) -> F | Callable[[F], F]:
        """Register a handler under the name of its function. `render`: use a browser for its pages;
        True, a Render with options, or "auto" to use it only where plain HTML is not enough.
        `item`: the type of its items, in place of the spider's."""
        check_item_type(item)
        how = Render.of(render)

        def decorate(decorated: F) -> F:
            self._register(decorated, default=default)
            _set(self.renders, decorated.__name__, how)
            _set(self.items, decorated.__name__, item)
            return decorated

        return decorate if function is None else decorate(function)

    def _register(self, function: F, *, default: bool) -> None:
        name = check_handler(function)
        before = self.handlers.get(name, function)
        if before is not function and not is_again(before, function):
            raise SpiderError(f"two handlers of spider {self.name!r} are called {name}: rename one")
        self.handlers[name] = function
        if default and self._chosen and self.default != name:
            raise SpiderError(
                f"spider {self.name!r} has two default handlers, {self.default} and {name}: "
                "choose one"
            )
        if default or self.default is None:
            self.default, self._chosen = name, default

    @property
    def has_types(self) -> bool:
        """Whether its items are of several types."""
        declared = (self.item, *self.items.values())
        return len({kind for several in declared for kind in types_of(several)}) > 1

    def handler_of(self, request: Request) -> tuple[str, Handler]:
        """The handler that a request names, or the default. Raises SpiderError."""
        name = request.handler or self.default
        if name == SITEMAP:
            return name, list_pages
        if name == FILE:
            return name, no_handler
        if name is None:
            raise SpiderError(f"spider {self.name!r} has no handler: write one with @spider.page")
        if name not in self.handlers:
            raise SpiderError(
                f"spider {self.name!r} has no handler {name!r}; it has "
                f"{', '.join(self.handlers) or 'none'}: decorate the function with @spider.page, "
                "or correct the name"
            )
        return name, self.handlers[name]

    def render_of(self, request: Request) -> Render | None:
        """How a browser renders this page; None: it is fetched without one."""
        return self.renders.get(request.handler or self.default or "")

    @property
    def is_adaptive(self) -> bool:
        """Whether it learns which pages need a browser."""
        return any(how.auto for how in self.renders.values())

    def in_lane(self, request: Request) -> Request:
        """The request, in the browser's lane if it needs one."""
        how = self.render_of(request)
        if request.lane or how is None or how.auto:
            return request
        return msgspec.structs.replace(request, lane="browser")

    # --- hooks ------------------------------------------------------------------------------------

    def on_start(self, function: F) -> F:
        """Call `function()` before a worker's first page."""
        return added(function, self.hooks.start, "on_start")

    def on_finish(self, function: F) -> F:
        """Call `function(stats)` when the crawl has finished."""
        return added(function, self.hooks.finish, "on_finish", "stats")

    @overload
    def on_error(self, function: F) -> F: ...
    @overload
    def on_error(self, *, every_attempt: bool = False) -> Callable[[F], F]: ...
    def on_error(
        self, function: F | None = None, *, every_attempt: bool = False
    ) -> F | Callable[[F], F]:
        """Call `function(request, error)`, or `function(request, error, response)`, once for a page
        that is given up: it could not be fetched or handled. `response`: None if there was none.
        `every_attempt`: call it for each attempt that fails, also of pages that are retried."""
        hooks = self.hooks.failed_attempt if every_attempt else self.hooks.error
        if function is None:
            return lambda decorated: added_error(decorated, hooks)
        return added_error(function, hooks)

    def on_item(self, function: F) -> F:
        """Call `function(item, page)` for each item, a dict, before it is checked.

        What it returns replaces the item; None keeps it; `raise Drop(reason)` rejects it.
        """
        return added(function, self.hooks.item, "on_item", "item", "page")

    def transform(self, function: F) -> F:
        """Call `function(item)` in the loader, before each item is stored.

        It returns the item to store, None to drop it, or a list of several; if it raises, the item
        is rejected with the reason. Unlike `on_item`, it does not run in the workers.
        """
        return added(function, self.transforms, "transform", "item")

    # --- sessions ---------------------------------------------------------------------------------

    def login(self, url: str) -> Callable[[F], F]:
        """Call `function(page)` with the log-in page, once per session, before any other page of
        that site is fetched. It returns `page.form().fill(...).submit()`, or yields such requests
        and gets the answer to each. What it sends is not stored on the server."""
        site = registrable_domain(identify(url).host)
        if site in self.logins and not is_of_cell(self.logins[site].handler):
            raise SpiderError(f"spider {self.name!r} logs in to {site} twice: keep one")

        def decorate(function: F) -> F:
            added(function, [], "login", "page")
            self.logins[site] = Login(url, function)
            return function

        return decorate

    def is_logged_out(self, function: F) -> F:
        """Call `function(page)` for each page of a site with a log-in, whatever its status: if it
        returns true, the session logs in again and the page is fetched again. A redirect to the
        log-in page always counts as logged out; without this function, so does a 401."""
        return added(function, self.hooks.logged_out, "is_logged_out", "page")

    # --- running ----------------------------------------------------------------------------------

    async def run(
        self,
        out: str | None = None,
        *,
        job: str | None = None,
        redis: str | None = None,
        fresh: bool = False,
        keep_rows: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> Report:
        """Crawl in this process, as `skitter run` does: items go to `out` (default JOB.db), the
        queue is on the server `redis` or the embedded one. Run it again to resume; `fresh` starts
        over, without the rows of the earlier crawl unless `keep_rows`.

        `settings`: any setting by its key, such as {"limits.max_pages": 100}; they win over the
        environment and skitter.toml. Ctrl-C stops it cleanly, and it returns.
        """
        said = {"output.to": out, "server.redis_url": redis}
        given = {key: value for key, value in said.items() if value is not None}
        run: Runner = import_module(RUNNER).run_spider
        given = {**(settings or {}), **given}
        return await run(self, job=job, settings=given, fresh=fresh, keep_rows=keep_rows)

    def run_sync(self, out: str | None = None, **options: Any) -> Report:
        """`run` for a script without an event loop, with the same arguments."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(out, **options))
        raise SpiderError("an event loop is running: use `await spider.run()` instead.")

    # --- for the engine ---------------------------------------------------------------------------

    @property
    def tables(self) -> dict[str, Table]:
        """The spider's own settings; flags, environment and file win over them."""
        return {
            "fetch": self.fetch,
            "politeness": self.politeness,
            "retries": self.retries,
            "limits": self.limits,
            "sessions": self.sessions if self.cookies else replace(self.sessions, cookies=False),
            "visits": self.visits,
            "quality": self.quality,
        }

    @property
    def known_seeds(self) -> list[Request]:
        """The seeds that are known without running user code."""
        sitemaps = [sitemap_request(url) for url in check_sitemap(self.sitemap)]
        if not isinstance(self.start, list | tuple | set | frozenset):
            return sitemaps
        return [*(_seed(seed) for seed in self.start), *sitemaps]

    @cached_property
    def fence(self) -> Fence:
        """The scope with its seeds, cached: do not change the spider after the first access."""
        seeds = [seed.url for seed in self.known_seeds]
        return self.scope.fence(seeds, seeds_only=self.limits.max_depth == 0)

    def allows(
        self, request: Request, *, parent: str, also: Widening | None = None
    ) -> ScopeVerdict:
        """Whether a link on `parent` may be followed. A sitemap is read wherever it is, and a file
        is where it is: on another host, often."""
        if request.handler in (SITEMAP, FILE):
            return ALLOWED
        return self.fence.allows(request.url, depth=request.depth, parent=parent, also=also)

    async def seeds(self) -> AsyncIterator[Request]:
        """The start requests, as they are generated, and the sitemaps. Raises BadURL."""
        origins: set[str | None] = set()
        async for seed in self._starts():
            yield seed
            if self.sitemap is True and (origin := origin_of(seed.url)) not in origins:
                if len(origins) >= MAX_ORIGINS:
                    origins.clear()  # the frontier filters repeated ones
                origins.add(origin)
                yield discovery_request(seed.url, with_feeds=True)
        for url in check_sitemap(self.sitemap):
            yield sitemap_request(url)

    async def _starts(self) -> AsyncIterator[Request]:
        seeds: Any = self.start() if callable(self.start) else self.start
        if inspect.isawaitable(seeds):
            seeds = await seeds
        if isinstance(seeds, str):
            seeds = [seeds]
        if isinstance(seeds, AsyncIterable):
            async for seed in seeds:
                yield self._checked(_seed(seed))
        else:
            for seed in seeds:
                yield self._checked(_seed(seed))

    def _checked(self, seed: Request) -> Request:
        identify(seed.url, self.canonical)
        self.handler_of(seed)
        return self.in_lane(seed) if self.renders else seed


def _set(table: dict[str, T], name: str, value: T | None) -> None:
    """Also when a cell is run again, without it."""
    table.pop(name, None)
    if value is not None:
        table[name] = value


def _seed(seed: str | Request) -> Request:
    return seed if isinstance(seed, Request) else Request(url=seed)


def _check_types(accept: Any) -> tuple[str, ...]:
    types = (accept,) if isinstance(accept, str) else tuple(accept)
    for kind in types:
        if not isinstance(kind, str) or kind.count("/") != 1:
            raise BadOption("accept", kind, "content types, as text/html or image/*")
    return tuple(kind.lower() for kind in types)
