"""What `run`, `crawl`, `worker` and `demo` were asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.settings import Settings
    from skitter.spider import Spider

DEFAULT_PAGE_MB = 10.0
#: Far above what an ordinary crawl needs: about 150, and 64 pages of the largest size.
DEFAULT_MEMORY_MB = 1000


class Engine(StrEnum):
    """Who fetches the pages."""

    PROCESSES = "processes"  # of this machine, ours
    CELERY = "celery"  # the workers of a Celery app, wherever they run


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `run` and `crawl` were asked."""

    target: str
    spider: Spider
    where: Settings
    out: str
    workers: int | None
    concurrency: int
    max_page_mb: float = DEFAULT_PAGE_MB
    max_memory_mb: int = DEFAULT_MEMORY_MB
    ignore_robots: bool = False
    allow: tuple[str, ...] = ()
    keep_alive: bool = False
    engine: Engine = Engine.PROCESSES
    fresh: bool = False
    max_dead: int | None = None
    is_demo: bool = False  # its folder is gone afterwards: no hints what to do there
    as_json: bool = False
