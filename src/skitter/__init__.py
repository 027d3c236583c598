"""Skitter: a distributed web-scraping system in which every URL is accounted for.

Each name is imported on first use: `skitter --help` needs none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes time too
if TYPE_CHECKING:
    from skitter.app import open_frontier as open_frontier
    from skitter.crawl.items import items as items
    from skitter.errors import LeaseLost as LeaseLost
    from skitter.errors import QueueFull as QueueFull
    from skitter.errors import SkitterError as SkitterError
    from skitter.fetch.render import Render as Render
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
    from skitter.page import Page as Page
    from skitter.queue import URLQueue as URLQueue
    from skitter.report import Report as Report
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
    from skitter.urls import Canonical as Canonical

    __version__: str

#: Where each public name lives.
_HOMES = {
    name: module
    for module, names in {
        "skitter.app": "open_frontier",
        "skitter.crawl.items": "items",
        "skitter.errors": "LeaseLost QueueFull SkitterError",
        "skitter.fetch.render": "Render",
        "skitter.frontier.frontier": "Frontier",
        "skitter.measure": "Metrics",
        "skitter.model": "Added Completion Ended Failure Lease Request Response State Stats",
        "skitter.page": "Page",
        "skitter.queue": "URLQueue",
        "skitter.report": "Report",
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
        if name == "__version__":
            from importlib.metadata import version

            return version("skitter")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
