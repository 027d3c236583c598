"""The peers of a crawl: what people would use instead, each in an environment of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.crawl.processes import run_peer
from benchmarks.peers import SCRAPY_REDIS, Peer, environment

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.crawl.processes import Figures

#: As pip resolved them in November 2026.
CRAWLEE: Final = ("crawlee[parsel]==1.11.0", "parsel==1.12.1", "impit==0.15.1", "lxml==6.1.3")
CELERY: Final = (
    "celery[redis]==5.7.0",
    "kombu==5.7.0",
    "redis==8.1.0",
    "hiredis==3.5.0",
    "httpx==0.28.1",
    "selectolax==1.0.2",
    "packaging==26.3",  # kombu imports it and does not ask for it
)
CONCURRENT: Final = 64
PROCESSES: Final = 2
LIMIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer, what to tell it, and how many times as fast as it we mean to be."""

    title: str
    peer: Peer
    task: dict[str, object]
    least_ratio: float | None = None  # None: shown for honesty, without a goal

    @property
    def is_celery(self) -> bool:
        return "processes" in self.task

    async def crawl(self, seed: str, *, pages: int, socket: Path) -> Figures:
        """All pages of a site, from its first."""
        return await run_peer(
            self.peer, limit_s=LIMIT_S, seed=seed, pages=pages, socket=str(socket), **self.task
        )


def install_rivals() -> list[Rival]:
    """Install what is not there yet. Raises InfrastructureError, saying what failed."""
    celery = _peer("celery", CELERY, "crawl_celery.py.txt")
    return [
        Rival(
            f"scrapy-redis 0.9.1, {CONCURRENT} concurrent",
            _peer("scrapy-redis", SCRAPY_REDIS, "crawl_scrapy_redis.py.txt"),
            {"concurrency": CONCURRENT},
            least_ratio=30.0,
        ),
        Rival(
            f"Crawlee 1.11 in memory, {CONCURRENT} concurrent",
            _peer("crawlee", CRAWLEE, "crawl_crawlee.py.txt"),
            {"concurrency": CONCURRENT, "parser": "parsel"},  # faster than with BeautifulSoup
            least_ratio=10.0,
        ),
        Rival(
            f"Celery, {PROCESSES} processes, httpx.get and a SADD a link",
            celery,
            {"processes": PROCESSES, "tuned": False},
            least_ratio=20.0,
        ),
        Rival(
            f"Celery, {PROCESSES} processes, httpx.Client kept open and one pipeline a page",
            celery,
            {"processes": PROCESSES, "tuned": True},
        ),
    ]


def _peer(name: str, requirements: tuple[str, ...], script: str) -> Peer:
    shown = " ".join(requirements).replace("==", " ")
    return Peer(shown, environment(name, requirements), script)
