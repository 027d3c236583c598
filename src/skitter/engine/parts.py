"""What a worker is given: its options, and what its stages share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path  # noqa: TC003 - the options read it
from typing import TYPE_CHECKING, Any, Self

from skitter.engine.caches import RobotsCache, SessionStore
from skitter.engine.outbox import RequestMemory
from skitter.engine.rendering import Adaptive, BrowserFetcher
from skitter.engine.verdict import Policy
from skitter.fetch.filebucket import Bucket
from skitter.fetch.filestore import FileStore
from skitter.fetch.http.guard import Guard
from skitter.frontier.records.failed import FailedPages
from skitter.model import Lane  # noqa: TC001 - and this
from skitter.observe.logs import Spans
from skitter.observe.metrics import Recorder
from skitter.settings import WorkerConfig, Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.archive.playback import PageCache
    from skitter.engine.departures import Departures
    from skitter.engine.keeping import Archived
    from skitter.fetch.browser.render import Renderer
    from skitter.fetch.http.fetcher import Fetcher
    from skitter.frontier.frontier import Frontier
    from skitter.model import Request
    from skitter.settings import Limits, SessionPool
    from skitter.spider.scope import Allowed, Refused
    from skitter.spider.spider import Spider


#: Leases are this much longer in the browser lane: pages are slow and expensive there.
BROWSER_LEASES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Workers):
    """The configured options, and how this worker process runs."""

    parent: int | None = None  # the supervisor's pid: without it, we stop
    keep_alive: bool = False  # stay when the crawl has finished or was removed, for what comes next
    stuck_log: Path | None = None  # where the watchdog writes its stacks; None: stderr
    for_s: float | None = None  # lease for this long, then finish up; None: until it is over
    kind: str = "worker"  # what heartbeats call it
    downloads: int = 4  # files at a time
    watch_signals: bool = True  # not in a thread, nor where others handle signals
    #: The lanes it serves, and how many pages at a time; empty: plain HTTP, `concurrency`.
    lanes: dict[Lane, int] = field(default_factory=dict)

    @property
    def serves(self) -> dict[Lane, int]:
        pages = self.lanes or {"": self.concurrency}
        return pages if self.only == "browser" else {**pages, "file": self.downloads}

    def lease_in_s(self, lane: Lane) -> float:
        return self.lease_s * BROWSER_LEASES if lane == "browser" else self.lease_s

    @classmethod
    def of(cls, config: WorkerConfig, **run: Any) -> Self:
        configured = {one.name: getattr(config.workers, one.name) for one in fields(Workers)}
        also = {"keep_alive": config.keep_alive, "downloads": config.files.concurrency}
        return cls(**{**configured, **also, **run})


@dataclass
class Parts:
    """Given once, when a worker starts; what is not given is made from the configuration."""

    spider: Spider
    client: Fetcher  # plain HTTP, for pages, robots.txt and log-ins
    config: WorkerConfig = field(default_factory=WorkerConfig)
    guard: Guard = field(default_factory=Guard)
    frontier: Frontier | None = None  # None: one page, without a job
    departures: Departures | None = None  # None: requests leave at any time
    renderer: Renderer | None = None  # None: no page is rendered
    archived: Archived | None = None  # None: no page is kept
    log: Callable[[str, str], None] = lambda level, text: None  # level, text
    figures: Recorder = field(default_factory=Recorder)
    spans: Spans = field(default_factory=Spans)

    def __post_init__(self) -> None:
        frontier, spider, config = self.frontier, self.spider, self.config
        self.policy = policy_of(spider, config)
        self.failed = FailedPages(config.archive.failed_pages, config.archive.failed_mb)
        self.pages = page_cache_of(config) if self.archived else None
        client = self.client
        if self.pages and self.archived:
            from skitter.engine.keeping import CachedRobots  # an extra

            client = CachedRobots(client, self.pages, self.archived)
        self.robots = RobotsCache(
            frontier, client, self.guard, config.fetch.user_agent, self.log,
            is_obeyed=config.fetch.obey_robots,
        )  # fmt: skip
        self.sessions = SessionStore(frontier, session_pool_of(config), spider.logins)
        self.fetcher = self.client  # of pages
        if self.renderer:
            self.fetcher = BrowserFetcher(spider, self.client, self.renderer, self.figures)
        self.memory = RequestMemory()
        self.limits: Callable[[], Limits] = lambda: spider.limits  # the job's current ones
        if frontier:
            self.memory = RequestMemory(lambda: frontier.epoch, lambda: frontier.keeps_depths)
            self.limits = lambda: frontier.options.limits

    @cached_property
    def adaptive(self) -> Adaptive:
        """For handlers with render="auto"; only in a job."""
        assert self.frontier is not None
        return Adaptive(self.spider, self.frontier)

    @cached_property
    def files(self) -> FileStore:
        """Where files are downloaded to; only where a page names one."""
        options, limit = self.config.files, round(self.config.files.max_mb * 10**6)
        bucket = Bucket(options.store) if options.store else None
        return FileStore(options.folder, limit, options.max_time_s, bucket)

    def allows(self, link: Request, *, parent: str) -> Allowed | Refused:
        """Whether the crawl may go there."""
        return self.spider.allows(link, parent=parent, also=self.limits().widening)


def page_cache_of(config: WorkerConfig) -> PageCache | None:
    """None: every page is fetched."""
    if not (max_age_s := config.fetch.cache_s):
        return None
    from skitter.archive.playback import PageCache  # an extra

    return PageCache(config.archive.folder, max_age_s, config.fetch.max_body_bytes)


def policy_of(spider: Spider, config: WorkerConfig) -> Policy:
    """When to give up on a page, and how long to leave a host alone."""
    return Policy(
        max_redirects=config.fetch.max_redirects,
        longest_rest_s=config.fetch.max_retry_after_s,
        handler_tries=config.workers.handler_tries,
        blocked_rest_s=config.fetch.blocked_rest_s,
        has_routes=len(config.proxies) > 1,
        accept=spider.accept,
    )


def session_pool_of(config: WorkerConfig) -> SessionPool:
    """Without cookies if the configuration sets a Cookie header for every request."""
    has_own = any(name.lower() == "cookie" for name in config.fetch.headers)
    return replace(config.sessions, cookies=False) if has_own else config.sessions
