"""Parts: what the stages of one worker share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from skitter.engine.adaptive import Adaptive
from skitter.engine.memory import RequestMemory
from skitter.engine.rendering import BrowserFetcher
from skitter.engine.robots_cache import RobotsCache
from skitter.engine.session_store import SessionStore
from skitter.engine.verdict import Policy
from skitter.fetch.guard import Guard
from skitter.metrics.recorder import Recorder
from skitter.settings import WorkerConfig
from skitter.tracing import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.departures import Departures
    from skitter.fetch.client import Fetcher
    from skitter.fetch.render import Renderer
    from skitter.frontier.frontier import Frontier
    from skitter.model import Request
    from skitter.settings import Limits, SessionPool
    from skitter.spider.scope import Allowed, Refused
    from skitter.spider.spider import Spider


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
    log: Callable[[str, str], None] = lambda level, text: None  # level, text
    figures: Recorder = field(default_factory=Recorder)
    spans: Spans = field(default_factory=Spans)

    def __post_init__(self) -> None:
        frontier, spider, config = self.frontier, self.spider, self.config
        self.policy = policy_of(spider, config)
        self.robots = RobotsCache(
            frontier, self.client, self.guard, config.fetch.user_agent, self.log,
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

    def allows(self, link: Request, *, parent: str) -> Allowed | Refused:
        """Whether the crawl may go there."""
        return self.spider.allows(link, parent=parent, also=self.limits().widening)


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
