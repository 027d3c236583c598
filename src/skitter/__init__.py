"""Skitter: a distributed web-scraping system in which every URL is accounted for.

Each name is imported on first use: `skitter --help` needs none of them.

app            The composition root: turns settings into open objects
archive/       The pages of a crawl, kept as WARC files: every response that a handler saw
celery/        Celery as the engine: the frontier stays the queue
cli/           The command line: each command parses, calls and renders
client         A client of the HTTP API, for programs that should not have credentials for Redis
crawl/         A crawl from its seeds to its report, and the processes on this machine that make it
demo/          What `skitter demo` crawls: a bookshop on loopback (`site/`), and the spiders for it
domains        Which hosts belong together: by registrable domain, from the public suffix list
embedded/      The embedded server: a private Valkey, shared by every process that uses a directory
engine/        The engine: leases requests, makes an attempt at each, sends the outcomes
errors         Everything Skitter raises on purpose
explain        Where a URL is and why, as the command line and the HTTP API explain it
extras         Which release this is, and how to install an optional library
fetch/         Fetching pages: one exchange per call, with limits on all outside input
frontier/      The frontier: a shared queue of URLs on Redis or Valkey, in which no URL is ever lost
measure        Metrics: count and time what your own code does, across the whole cluster
model          The values passed between the layers
observe/       What is measured, logged and reported of a crawl
patterns       What URLs look like: patterns that match them, and the shapes that they share
pytest_plugin  Fixtures of spiders as tests of pytest
queue          URLQueue: the frontier for programs with their own loop
redact         What may be shown, logged or written to a file, and how
scrape         The spider of pages that callers ask for: `skitter serve --workers 2`
scrapy/        Scrapy on the frontier: existing spiders run distributed and lose nothing
server/        The HTTP API and the dashboard: `skitter serve`
settings/      Options: small frozen values, units in their names, declared and checked once
sinks/         Where items go: a database or a file, and the loader that writes them
spider/        The user API: spiders, their handlers and their limits
trust          Whether Skitter's directory is ours
urls           What a URL means to a crawl: what to fetch, what counts as the same page
"""

from __future__ import annotations

#: What the build and `skitter --version` say. Between releases: the next one, with .dev0.
__version__ = "0.2.0.dev0"

TYPE_CHECKING = False  # importing typing takes time too
if TYPE_CHECKING:
    from skitter.app import open_frontier as open_frontier
    from skitter.crawl.script import items as items
    from skitter.errors import LeaseLost as LeaseLost
    from skitter.errors import QueueFull as QueueFull
    from skitter.errors import SkitterError as SkitterError
    from skitter.fetch.browser.render import Render as Render
    from skitter.frontier.frontier import Frontier as Frontier
    from skitter.measure import Metrics as Metrics
    from skitter.model import Added as Added
    from skitter.model import Completion as Completion
    from skitter.model import Ended as Ended
    from skitter.model import Failure as Failure
    from skitter.model import Lease as Lease
    from skitter.model import Request as Request
    from skitter.model import Response as Response
    from skitter.model import State as State
    from skitter.model import Stats as Stats
    from skitter.observe.report import Report as Report
    from skitter.queue import URLQueue as URLQueue
    from skitter.settings import Bloom as Bloom
    from skitter.settings import BrowserOptions as BrowserOptions
    from skitter.settings import FetchOptions as FetchOptions
    from skitter.settings import JobOptions as JobOptions
    from skitter.settings import Layout as Layout
    from skitter.settings import Limits as Limits
    from skitter.settings import Politeness as Politeness
    from skitter.settings import QualityOptions as QualityOptions
    from skitter.settings import Retries as Retries
    from skitter.settings import SessionPool as SessionPool
    from skitter.settings import Visits as Visits
    from skitter.spider import Drop as Drop
    from skitter.spider import Scope as Scope
    from skitter.spider import Spider as Spider
    from skitter.spider import load_spider as load_spider
    from skitter.spider import run_handler as run_handler
    from skitter.spider.named_files import File as File
    from skitter.spider.page import Page as Page
    from skitter.urls import Canonical as Canonical

#: Where each public name lives.
_HOMES = {
    name: module
    for module, names in {
        "skitter.app": "open_frontier",
        "skitter.crawl.script": "items",
        "skitter.errors": "LeaseLost QueueFull SkitterError",
        "skitter.fetch.browser.render": "Render",
        "skitter.frontier.frontier": "Frontier",
        "skitter.measure": "Metrics",
        "skitter.model": "Added Completion Ended Failure Lease Request Response State Stats",
        "skitter.spider.named_files": "File",
        "skitter.spider.page": "Page",
        "skitter.queue": "URLQueue",
        "skitter.observe.report": "Report",
        "skitter.settings": "Bloom BrowserOptions FetchOptions JobOptions Layout Limits Politeness "
        "QualityOptions Retries SessionPool Visits",
        "skitter.spider": "Drop Scope Spider load_spider run_handler",
        "skitter.urls": "Canonical",
    }.items()
    for name in names.split()
}
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
