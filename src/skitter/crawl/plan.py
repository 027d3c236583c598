"""What to crawl, with which settings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from skitter.settings import WorkerConfig
from skitter.spider.sitemap import check_sitemap

if TYPE_CHECKING:
    from skitter.settings import Config, Settings
    from skitter.spider import Spider


class Engine(StrEnum):
    """Who fetches the pages."""

    PROCESSES = "processes"  # ours, on this machine
    CELERY = "celery"  # the workers of a Celery app, wherever they run


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `run`, `crawl`, `worker`, `demo` and scripts ask for."""

    target: str = ""  # of the spider; empty: it exists only in this process
    arguments: dict[str, Any] = field(default_factory=dict)
    spider: Spider
    job: str
    config: Config
    out: str
    allow: tuple[str, ...] = ()  # private hosts among the seeds
    keep_alive: bool = False
    engine: Engine = Engine.PROCESSES
    fresh: bool = False
    keep_rows: bool = False  # with `fresh`: leave the rows of the earlier crawl in the output
    max_dead: int | None = None
    max_time_s: float | None = None  # stop after that; None: when the crawl is over
    max_errors: int | None = None  # pages whose handler fails; None: as `too_many_errors` says
    is_demo: bool = False  # its folder is deleted afterwards: give no hints about it
    as_json: bool = False
    quiet: bool = False  # only a crawl that failed is reported

    @property
    def where(self) -> Settings:
        return self.config.server

    @property
    def has_no_start(self) -> bool:
        """Whether it is certain that there is nothing to fetch; a function may yield something."""
        spider, starts = self.spider, (list, tuple, set, frozenset)
        is_empty = isinstance(spider.start, starts) and not spider.start
        return is_empty and not check_sitemap(spider.sitemap) and not self.keep_alive

    @property
    def processes(self) -> int | None:
        """None: automatic. This machine's cores say nothing about Celery's workers."""
        asked = self.config.workers.processes
        if asked == "auto" or (asked == "cores" and self.engine is Engine.CELERY):
            return None
        return (os.cpu_count() or 1) if asked == "cores" else int(asked)

    @property
    def renders_here(self) -> bool:
        """Whether processes on this machine need a browser."""
        is_ours = self.engine is Engine.PROCESSES and self.config.workers.only != "http"
        return is_ours and bool(self.spider.renders)

    @property
    def left_to_others(self) -> str:
        """What waits for other workers because of --only, in a sentence; empty: nothing."""
        only = self.config.workers.only
        if only is None or (only == "http" and not self.spider.renders):
            return ""
        rest = "pages that need a browser" if only == "http" else "pages that need no browser"
        return f"--only {only}: {rest} wait for other workers: `skitter worker`."

    @property
    def worker(self) -> WorkerConfig:
        """What each worker gets."""
        fetch = self.config.fetch
        return WorkerConfig(
            job=self.job,
            spider=self.target,
            arguments=self.arguments,
            keep_alive=self.keep_alive,
            fetch=replace(fetch, allow_hosts=(*fetch.allow_hosts, *self.allow)),
            sessions=self.config.sessions,
            workers=self.config.workers,
            browser=self.config.browser,
            proxies=self.config.proxies,
            routes=self.config.routes,
            archive=self.config.archive,
            log=self.config.log,
        )
