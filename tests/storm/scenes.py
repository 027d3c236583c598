"""What is at work in a storm: spiders, and the processes of each engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clocks import faked_clock
from storm.site import DELAY_S, POISON

if TYPE_CHECKING:
    from pathlib import Path

    from storm.site import Site

LEASE_S = 5  # a process that is stopped for longer has lost what it held
OUT = "out/rows.db"

#: `max_retries` is high: the site is unwell on purpose, and so is everything else.
SPIDER = """
import sys
from skitter import Page, Politeness, Render, Retries, Spider

spider = Spider(
    "storm",
    start={start!r},
    politeness=Politeness(delay_s=0, max_in_flight=8),
    retries=Retries(max_retries=1000, max_losses=1000, base_s=0.05, cap_s=1.0),
)

@spider.page({how})
def page(page: Page):
    if page.url.endswith("/evil/exits"):
        sys.exit(2)
    yield {{"number": int(page.css_first("h1").text())}}
    yield from page.follow_all()
"""
#: The same, but its pages lead to a handler that the other one lacks.
NEXT_SPIDER = (
    SPIDER.replace("page.follow_all()", "page.follow_all(handler=deep)")
    + """
@spider.page
def deep(page: Page):
    yield {{"number": int(page.css_first("h1").text())}}
    yield from page.follow_all(handler=deep)
"""
)
SCRAPY_SPIDER = """
from scrapy import Request, Spider

class Storm(Spider):
    name = "storm"
    custom_settings = {{
        "SCHEDULER": "skitter.scrapy.Scheduler",
        "DUPEFILTER_CLASS": "skitter.scrapy.RFPDupeFilter",
        "ITEM_PIPELINES": {{"skitter.scrapy.ItemPipeline": 300}},
        "SCHEDULER_PERSIST": True,
        "SKITTER_LEASE_S": {lease_s},
        "SKITTER_ALLOW_HOSTS": {hosts!r},
        "ROBOTSTXT_OBEY": False,
        "RETRY_TIMES": 1000,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_SLOTS": {{{polite!r}: {{"delay": {delay_s}, "concurrency": 1}}}},
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "WARNING",
    }}

    async def start(self):
        for url in {start!r}:
            yield Request(url)

    def parse(self, response):
        yield {{"number": int(response.css("h1::text").get())}}
        yield from response.follow_all(css="a")
"""


@dataclass(frozen=True)
class Scene:
    """An engine, and how much is asked of it. Its processes: name -> what follows `python -m`."""

    faults: str  # besides those that happen to every crawl
    mains: dict[str, list[str]]  # a crawl is over when these have ended
    helpers: dict[str, list[str]]
    spider: Callable[[Site], str]
    pages: int = 3000
    seconds: float = 240  # crawls begin for so long in `make chaos`
    disk: str = "64m"  # the size of its server's disk
    poison: tuple[str, ...] = ()
    environment: Callable[[Path], dict[str, str]] = lambda folder: {}
    next_spider: Callable[[Site], str] | None = None  # what is deployed while it crawls


def _own(site: Site) -> str:
    return SPIDER.format(start=site.seeds, how="")


def _next(site: Site) -> str:
    return NEXT_SPIDER.format(start=site.seeds, how="")


def _rendered(site: Site) -> str:
    return SPIDER.format(start=site.seeds, how="render=Render()")


def _scrapy(site: Site) -> str:
    names = [host.partition(":")[0] for host in site.hosts]
    return SCRAPY_SPIDER.format(
        start=site.seeds, hosts=names, polite=names[-1], delay_s=DELAY_S, lease_s=LEASE_S
    )


def _off_clock(folder: Path) -> dict[str, str]:
    """The clock of these processes is off by what is in a file; their monotonic one is right."""
    return faked_clock(folder / "offset", cache_s=1)


_OPTIONS = ["-s", f"workers.lease_s={LEASE_S}", "-s", "workers.concurrency=16"]


def _run(*words: str) -> dict[str, list[str]]:
    return {"run": ["skitter", "run", "spider.py", "--out", OUT, "--json", *_OPTIONS, *words]}


#: Two more of them, each with a spider and a release of its own.
_MACHINES = {
    name: [*("skitter", "worker", f"{name}.py", "--workers", "1"), *_OPTIONS]
    for name in ("left", "right")
}
_SERVE = {"serve": ["skitter", "serve", "--port", "{port}"]}
_CELERY = ["celery", "-A", "skitter.celery", "worker", "-c", "2", "--without-mingle"]
_NODE = ["scrapy", "runspider", "spider.py"]

SCENES = {
    "skitter": Scene("skitter", _run("--workers", "2"), {}, _own, pages=5000, seconds=360),
    "all of it": Scene(
        "skitter", _run("--workers", "2"), _SERVE, _own, poison=POISON, environment=_off_clock
    ),
    "releases": Scene(
        "releases", _run("--workers", "1"), _MACHINES, _own, pages=1500, next_spider=_next
    ),
    "Celery": Scene(
        "Celery",
        _run("--engine", "celery", "--workers", "2"),
        {name: [*_CELERY, "--without-gossip", "-n", f"{name}@%h"] for name in ("one", "two")},
        _own,
        poison=POISON,
        environment=lambda folder: {"SKITTER_SECRET": "a secret of sixteen characters"},
    ),
    "Scrapy": Scene(
        "Scrapy",
        {"node-1": _NODE, "node-2": _NODE},
        {"load": ["skitter", "load", "storm", "--to", OUT]},
        _scrapy,
    ),
    "browsers": Scene("browsers", _run("--workers", "2"), {}, _rendered, pages=120),
}

#: No crawl: only the server, the API and those who push.
PUSHES = Scene(
    "pushes", {}, _SERVE, lambda site: "", disk="12m", environment=_off_clock, seconds=100
)
