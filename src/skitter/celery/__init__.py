"""Celery as the engine: the frontier stays the queue; a Celery message only permits work on it.

celery -A skitter.celery worker -c 4        # with SKITTER_REDIS_URL, or on the embedded server

from skitter.celery import scrape
scrape.delay("https://example.com/").get()

config       settings, and where broker, results and frontier are
security     what a worker may run: what its configuration names, or what is signed
registry     the jobs that Celery works on, and their spiders
runtime      what one process keeps open: an event loop in a thread, the server, warm workers
scheduling   how many pumps each job gets, and what is due at its end
revoke       revoke, expires and time_limit of a page that waits
results      the result of a page goes into Celery's result backend
output       where items are loaded, and what is refused when a job is submitted
pump         one message: lease and fetch for a while
submit       what callers may ask for, and how it goes into the frontier
reduce       what runs once at the end: a reducer, or a spider's hooks
tasks        all tasks in one list, with their options
factory      make_app and register; what happens when a worker starts and stops
client       map_reduce and status, for callers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

try:
    import celery as _celery  # noqa: F401
except ModuleNotFoundError:
    from skitter.extras import install

    raise UsageError(f"Celery is not installed: {install('celery')}") from None

from celery.local import Proxy

from skitter.celery.client import Status, map_reduce, status
from skitter.celery.config import CelerySettings, Queues
from skitter.celery.factory import default_app, make_app, register

if TYPE_CHECKING:
    app: Any


def _task(name: str) -> Any:
    """Looked up at each use: an import before `register(app)` still gets that app's task."""
    return Proxy(lambda: default_app().tasks[f"skitter.{name}"])


crawl = _task("crawl")
scrape = _task("scrape")
scrape_many = _task("scrape_many")
summarize = _task("summarize")


def __getattr__(name: str) -> Any:
    """`app` is created on first use: an import connects to nothing."""
    if name == "app":
        return default_app()
    raise AttributeError(f"module 'skitter.celery' has no attribute {name!r}")


__all__ = [
    "CelerySettings",
    "Queues",
    "Status",
    "app",
    "crawl",
    "make_app",
    "map_reduce",
    "register",
    "scrape",
    "scrape_many",
    "status",
    "summarize",
]
