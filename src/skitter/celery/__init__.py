"""Celery as the engine: the frontier stays the queue, a Celery message is only leave to work.

celery -A skitter.celery worker -c 4        # with SKITTER_REDIS_URL, or on the embedded server

from skitter.celery import scrape
scrape.delay("https://example.com/").get()

config     where broker and results live, and every setting we ship, each with its reason
place      where the frontier is, if nobody said so
secret     what callers and workers share
allowed    what a worker may run: what its configuration names, or what is signed
messages   messages that ask for a spider or an output are signed by their sender
factory    make_app, and register for the app that a team already has
routing    which queue a task goes to
backend    what Celery's result backend knows of a task
tasks      all tasks in one list, with their options
office     what one process keeps open: an event loop in a thread, the server, desks for jobs
charges    which jobs Celery works on, and what its pumps have to know about each
care       as many pumps as the work is worth, and what is due when it is done
pump       one message: lease and fetch for a while
envelope   a spider that returns what came of each page to whoever asked for it
intake     what callers hand over: scrape, scrape_many, crawl
deliver    what came of it goes into Celery's result backend
reduce     map_reduce: the reducer runs once, when all is fetched
engine     `skitter run SPIDER --engine celery`
status     where a task or a crawl stands
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

try:
    import celery as _celery  # noqa: F401
except ModuleNotFoundError:
    raise UsageError("Celery is not installed: pip install 'skitter[celery]'") from None

from celery.local import Proxy

from skitter.celery.config import CelerySettings, Queues
from skitter.celery.factory import default_app, make_app, register
from skitter.celery.reduce import map_reduce
from skitter.celery.status import Status, status

if TYPE_CHECKING:
    app: Any


def _task(name: str) -> Any:
    """Looked up at each use: whoever imports it before `register(app)` still gets that app's."""
    return Proxy(lambda: default_app().tasks[f"skitter.{name}"])


crawl = _task("crawl")
scrape = _task("scrape")
scrape_many = _task("scrape_many")
summarize = _task("summarize")


def __getattr__(name: str) -> Any:
    """`app` is made when somebody asks for it: an import connects to nothing."""
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
