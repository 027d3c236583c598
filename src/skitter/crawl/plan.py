"""What to crawl, whether that can begin, and with how many workers."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from skitter.errors import NAMES_AWAY, NOT_FOUND, HostNotFound
from skitter.fetch.http.guard import Resolver, authority_of, is_address, is_no_such_name
from skitter.settings.fetch import outbound_of
from skitter.spider.sitemap import check_sitemap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skitter.settings import Config, Settings, WorkerConfig
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
    also: tuple[str, ...] = ()  # further outputs
    allow: tuple[str, ...] = ()  # private hosts among the seeds
    trusts_seeds: bool = True  # a private host may be fetched if a start URL names it
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

    def allowing(self, hosts: Iterable[str]) -> Self:
        """Private hosts among the seeds."""
        return replace(self, allow=(*self.allow, *hosts)) if self.trusts_seeds else self

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
        fetch, archive = self.config.fetch, self.config.archive
        return self.config.for_worker(
            job=self.job,
            spider=self.target,
            arguments=self.arguments,
            trusts_seeds=self.trusts_seeds,
            keep_alive=self.keep_alive,
            fetch=replace(fetch, allow_hosts=(*fetch.allow_hosts, *self.allow)),
            archive=replace(archive, keep=archive.keep or fetch.cache is not None),
        )


LOOK_S = 2.0
AT_MOST = 20


async def check_hosts(plan: Plan, progress: Callable[[str], None]) -> None:
    """Raise HostNotFound if none of them exists; name those that do not, and a name server that
    does not answer: then the crawl waits for it."""
    names = _names(plan)
    resolver = Resolver()
    try:
        said = await asyncio.gather(*(_look_up(resolver, name) for name in names))
    finally:
        await resolver.close()
    missing = [name for name, problem in zip(names, said, strict=True) if problem == NOT_FOUND]
    if missing and len(missing) == len(names):
        raise HostNotFound(names[missing[0]], ", ".join(missing))
    for name in missing:
        progress(f"{NOT_FOUND}{name}")
    if names and set(said) == {NAMES_AWAY}:
        progress(f"{NAMES_AWAY}: the crawl waits for it.")


def _names(plan: Plan) -> dict[str, str]:
    """Each name that workers here will look up, with a URL. Empty: there may be others."""
    spider, config = plan.spider, plan.config
    is_listed = isinstance(spider.start, list | tuple | set | frozenset)
    is_local = plan.engine is Engine.PROCESSES and not config.archive.offline
    if not is_local or plan.keep_alive or config.proxies or not is_listed:
        return {}
    outbound = outbound_of(config.fetch.proxy, os.environ)
    urls = [seed.url for seed in spider.known_seeds]
    if outbound and any(outbound.proxy_for(url) for url in urls):
        return {}
    found = {authority_of(url).name: url for url in urls}
    names = {name: url for name, url in found.items() if not is_address(name)}
    # Many, or some that need no look-up: then one that is missing is a dead letter like any other.
    return names if len(names) == len(found) <= AT_MOST else {}


async def _look_up(resolver: Resolver, name: str) -> str:
    """What is wrong; empty: nothing, or it takes long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            try:
                await resolver.resolve(name)
            except (OSError, UnicodeError) as error:
                return NOT_FOUND if is_no_such_name(error) else NAMES_AWAY
    return ""


#: A worker is worth starting for this many requests.
REQUESTS_PER_WORKER = 100
#: Anyone who can write to the server can ask for workers; more than this would overload a machine.
ALWAYS_ALLOWED, PER_CORE = 32, 8
BUSY, IDLE = 0.9, 0.5  # share of the machine's CPU time


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The input of automatic scaling."""

    cores: int
    waiting: int  # requests pending, delayed or leased
    cpu_share: float  # 0 to 1, of the whole machine


def bounded(requested: int, cores: int) -> int:
    """A number from the server, capped at what this machine can run."""
    return min(requested, max(ALWAYS_ALLOWED, PER_CORE * cores))


def wanted_processes(requested: int | None, current: int, load: Load) -> int:
    """The number requested, if any; None means automatic, by queue depth and CPU. Pure.

    At most two per core, no more than the queue is worth, adding one at a time.
    """
    if requested is not None:
        return requested
    worth = max(1, -(-load.waiting // REQUESTS_PER_WORKER))
    limit = min(2 * load.cores, worth)
    if current > limit:
        return limit
    if current < limit and (current < load.cores or load.cpu_share < IDLE):
        return current + 1
    if current > load.cores and load.cpu_share > BUSY:
        return current - 1
    return max(1, current)


def restart_after_s(deaths_in_a_row: int) -> float:
    """A process that keeps dying is restarted at growing intervals."""
    return min(30.0, 0.5 * 2.0 ** min(deaths_in_a_row, 10)) if deaths_in_a_row else 0.0


#: The exit code for a mistake that a restart would only repeat.
USAGE = 2
#: Give up after this many failures in a row before the process ever reported.
GIVE_UP_AFTER = 5


def is_hopeless(code: int, *, heard: bool, in_a_row: int) -> bool:
    """Whether a process can never start. One that reported to the server has started: however it
    ends later, and however often, it does not end the fleet."""
    if heard or code < 0:
        return False
    return code == USAGE or (code == 1 and in_a_row >= GIVE_UP_AFTER)
